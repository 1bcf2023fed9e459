"""Compaction: random masks, the same outputs, fewer numbers."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax.errors import ExportError
from occamax.structure.compaction import Kept, compact, count, count_nonzero
from occamax.structure.interpreter import evaluate
from occamax.structure.trace import trace
from occamax.structure.unit_search import parameter_names
from occamax.structure.unrolling import unrolled

from .zoo import NETWORKS, Traced

SAME = 1e-11  # in double precision, relative to the largest output
SAME_SINGLE = 1e-5
MASKS = {  # shares of dead rows, dead columns, dead single weights, and of dead arrays as a whole
    "nothing": (0, 0, 0, 0),
    "rows": (0.3, 0, 0.1, 0),
    "columns": (0, 0.3, 0.1, 0),
    "both": (0.25, 0.25, 0.3, 0),
    "sparse": (0, 0, 0.8, 0),
    "arrays": (0.1, 0.1, 0, 0.2),
    "most": (0.6, 0.6, 0.8, 0),
    "all": (1, 0, 0, 0),
}


def masked(one, seed, shares):
    """Weights of every size, some at zero; biases partly too."""
    rows, columns, single, arrays = shares
    rng = np.random.default_rng(seed)
    vector = np.array(one.pack())
    vector += 0.3 * rng.normal(size=vector.size)
    pieces = []
    for block in one.layout.blocks:
        keep = rng.random((block.rows, block.columns)) >= single
        keep &= (rng.random((block.rows, 1)) >= rows) & (rng.random((1, block.columns)) >= columns)
        keep &= rng.random() >= arrays
        places = np.moveaxis(
            np.arange(keep.size).reshape(block.weight_shape), block.output_axes, range(len(block.output_axes))
        )
        flat = np.empty(keep.size, bool)
        flat[places.ravel()] = keep.ravel()
        pieces.append(flat)
        if block.bias_shape is not None:
            pieces.append(rng.random(block.rows) > (0.5 if any(shares) else -1))
    return one.bound(np.where(np.concatenate(pieces), vector, 0))


def difference(graph, small, shape, seed=0):
    """Relative to the largest output."""
    inputs = np.random.default_rng(seed).normal(size=(4, *shape))
    (expected,), (found,) = evaluate(graph, [inputs]), evaluate(small, [inputs])
    assert found.shape == expected.shape
    assert np.isfinite(expected).all()
    return np.abs(found - expected).max() / np.abs(expected).max().clip(1e-3)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_compact_network_says_the_same_with_less(name, x64):
    one = Traced(name, np.float64)
    tolerance = 1e-6 if name == "vit" else SAME  # jax's attention takes its softmax in single precision
    for mask, shares in MASKS.items():
        for seed in range(1 if mask in ("nothing", "all") else 2):
            graph = masked(one, seed, shares)
            small, report = compact(graph)
            assert difference(graph, small, one.shape, seed) < tolerance, (mask, seed)
            assert count(small) <= count(graph)
            assert count_nonzero(small) <= count(small)
            assert all(kept.after <= kept.before for kept in report)
            if mask == "both":
                assert count(small) < count(graph)
            again, _ = compact(small)
            assert count(again) == count(small), (mask, seed)


@pytest.mark.parametrize("name", ["mlp", "lenet", "vit", "resnet"])
def test_single_precision(name):
    one = Traced(name)
    for seed in range(3):
        graph = masked(one, seed, MASKS["both"])
        assert difference(graph, compact(graph)[0], one.shape) < SAME_SINGLE


def traced(function, arrays, shape):
    """The graph of `function(arrays, batch)` with the arrays bound."""
    arrays = [np.asarray(array, np.float64) for array in arrays]
    graph = trace(lambda given, batch: function(given, batch), arrays, jax.ShapeDtypeStruct(shape, np.float64))
    return graph.bind(dict(enumerate(arrays)))


def test_a_dead_network_is_its_biases(x64):
    one = Traced("mlp", np.float64)
    zero = jax.tree.map(lambda leaf: jnp.zeros_like(leaf) if eqx.is_inexact_array(leaf) else leaf, one.network)
    zero = eqx.tree_at(lambda n: (n.layers[0].bias, n.layers[3].bias), zero, (jnp.ones(7), jnp.arange(3.0)))
    small, report = compact(one.bound(one.layout.pack(zero)))
    assert np.array_equal(evaluate(small, [np.ones((2, 1, 4, 4))])[0], [[0, 1, 2]] * 2)
    assert count(small) == 3
    assert {(kept.before, kept.after, kept.why) for kept in report} == {(7, 0, "its branch puts out a constant")}


def test_units_are_counted_by_hand(x64):
    """Unit 0 has no inputs (constant swish(2)), unit 1 no readers, unit 2 stays; it looks at one input."""
    first = [[0.0, 0, 0], [1, 2, 3], [0, 1, 0]]
    second = [[1.0, 0, 2], [3, 0, 4]]

    def network(arrays, batch):
        hidden = jax.nn.silu(batch @ arrays[0].T + arrays[1])
        return hidden @ arrays[2].T + arrays[3]

    graph = traced(network, [first, [2.0, 0, 0], second, np.zeros(2)], (3,))
    small, report = compact(graph, ("layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"))
    assert report == [Kept("inputs", 3, 1), Kept("layers.0", 3, 1)]
    swish = 2.0 / (1.0 + np.exp(-2.0))
    assert count(small) == 1 + 2 + 2  # its own bias is zero and is not added
    assert any(array.size == 2 and np.allclose(array.ravel(), [swish, 3 * swish]) for array in small.constants.values())
    assert difference(graph, small, (3,)) < SAME


def test_a_sum_without_a_bias_gets_one(x64):
    graph = traced(
        lambda a, x: jnp.tanh(x @ a[0] + a[1]) @ a[2], [np.eye(3) * [1, 1, 0], [0, 0, 1.0], np.ones((3, 2))], (3,)
    )
    small, report = compact(graph)
    assert [(kept.before, kept.after) for kept in report] == [(3, 2), (3, 2)]
    assert difference(graph, small, (3,)) < SAME


def test_a_unit_behind_a_dead_gain_goes(x64):
    """What is multiplied by zero is zero, whatever it was."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(3, 4)), np.array([1.0, 0, 2, 0]), rng.normal(size=(4, 2))]
    graph = traced(lambda a, x: (jnp.tanh(x @ a[0]) * a[1]) @ a[2], arrays, (3,))
    small, report = compact(graph)
    assert [(kept.before, kept.after) for kept in report if kept.where != "inputs"] == [(4, 2)]
    assert difference(graph, small, (3,)) < SAME


@pytest.mark.parametrize(("padding", "bias", "after"), [("VALID", 1.0, 3), ("SAME", 1.0, 4), ("SAME", 0.0, 3)])
def test_a_constant_channel_before_padding_stays_unless_it_is_zero(padding, bias, after, x64):
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(4, 2, 3, 3)), rng.normal(size=(3, 4, 3, 3))
    first[1] = 0
    biases = rng.normal(size=4)
    biases[1] = bias

    def network(arrays, x):
        x = jax.nn.relu(jax.lax.conv(x, arrays[0], (1, 1), "VALID") + arrays[1][:, None, None])
        return jax.lax.conv(x, arrays[2], (1, 1), padding).mean((2, 3))

    graph = traced(network, [first, biases, second], (2, 8, 8))
    small, report = compact(graph)
    assert report[0].after == after
    assert difference(graph, small, (2, 8, 8)) < SAME


@pytest.mark.parametrize(("channels", "dead", "after"), [(32, 3, 32), (32, 5, 28), (18, 1, 18), (16, 5, 11)])
def test_channels_go_four_at_a_time_where_there_are_many(channels, dead, after, x64):
    """A runtime is slower with 29 channels than with 32; of few each counts."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(channels, 2, 3, 3)), rng.normal(size=(3, channels, 3, 3))]
    arrays[0][2 : 2 + dead] = 0

    def network(arrays, x):
        x = jax.nn.relu(jax.lax.conv(x, arrays[0], (1, 1), "SAME"))
        return jax.lax.conv(x, arrays[1], (1, 1), "SAME").mean((2, 3))

    graph = traced(network, arrays, (2, 6, 6))
    small, report = compact(graph)
    assert report[0].after == after
    assert difference(graph, small, (2, 6, 6)) < SAME


def test_a_dead_channel_of_a_residual_stream_goes_everywhere(x64):
    """Nothing writes to channel 2 but constants: it goes from the stem, the block and what reads the stream."""
    one = Traced("resnet", np.float64)
    vector = one.pack() + 0.1
    network = one.layout.bind(one.network, vector)
    network = eqx.tree_at(
        lambda n: (n.stem.weight, n.norm_stem.bias, n.second.weight, n.norm_second.bias),
        network,
        replace_fn=lambda leaf: leaf.at[2].set(0),
    )
    graph = one.bound(one.layout.pack(network))
    small, report = compact(graph, parameter_names(one.network))
    assert {kept.where: kept.after for kept in report} == {"stem": 5, "first": 5, "down": 8}
    assert difference(graph, small, one.shape) < SAME
    assert count(graph) - count(small) == 18 + 4 + 45 + 45 + 4 + 8  # the norms: gain, bias, mean, variance


@pytest.mark.parametrize("name", ["vit", "mixer"])
def test_a_branch_that_is_constant_goes(name, x64):
    """The last weights of some branches are zero: the branches go, what their biases add stays."""
    one = Traced(name, np.float64)
    network = one.layout.bind(one.network, one.pack() + 0.05)
    last = (
        (lambda n: (n.blocks[0].feedforward.narrow, n.blocks[1].attention.project_out, n.blocks[1].feedforward.narrow))
        if name == "vit"
        else (
            lambda n: (n.blocks[0].mix_channels.narrow, n.blocks[1].mix_tokens.narrow, n.blocks[1].mix_channels.narrow)
        )
    )
    network = eqx.tree_at(lambda n: [layer.weight for layer in last(n)], network, replace_fn=jnp.zeros_like)
    graph = one.bound(one.layout.pack(network))
    small, report = compact(graph, parameter_names(one.network))
    gone = {kept.where.split(".")[2].split(" ")[0] + kept.where[7] for kept in report if kept.after == 0}
    assert gone == (
        {"feedforward0", "attention1", "feedforward1"}
        if name == "vit"
        else {"mix_channels0", "mix_tokens1", "mix_channels1"}
    )
    assert difference(graph, small, one.shape) < 1e-6
    assert sum(node.op == "gelu" for node in small.nodes) == (0 if name == "vit" else 1)
    without = eqx.tree_at(lambda n: [layer.bias for layer in last(n)], network, replace_fn=jnp.zeros_like)
    assert difference(one.bound(one.layout.pack(without)), small, one.shape) > 1e-3  # the biases are not nothing


def test_heads_and_depths_go(x64):
    """Of three heads the first has no values, and each other has one depth of its own that no query asks for."""
    one = Traced("attention", np.float64)
    network = one.layout.bind(one.network, one.pack() + 0.05)
    rows = np.array([4 + 1, 8 + 3])  # four depths a head
    network = eqx.tree_at(
        lambda n: (n.attention.value_proj.weight, n.attention.query_proj.weight, n.attention.query_proj.bias),
        network,
        (
            network.attention.value_proj.weight.at[:4].set(0),
            network.attention.query_proj.weight.at[rows].set(0),
            network.attention.query_proj.bias.at[rows].set(0),
        ),
    )
    graph = one.bound(one.layout.pack(network))
    small, report = compact(graph, parameter_names(one.network))
    assert {kept.where: kept.after for kept in report} == {
        "patch inputs": 5,
        "embed": 12,
        "attention.query_proj heads": 2,
        "attention.query_proj depths": 3,
        "attention.value_proj depths": 4,
    }
    assert difference(graph, small, one.shape) < SAME
    # queries with biases, keys without, values, what comes out: two heads of 3 and of 4
    assert count(small) == count(graph) - 3 * 13 * 12 - 13 * 12 + 6 * 13 + 6 * 12 + 8 * 13 + 8 * 12 + 12


def test_what_a_softmax_does_not_see_goes(x64):
    """Keys that are the same for every token go, whatever the queries are."""
    one = Traced("vit", np.float64)
    network = one.layout.bind(one.network, one.pack() + 0.05)
    keys = np.arange(8, 16)
    network = eqx.tree_at(
        lambda n: n.blocks[0].attention.project_in.weight, network, replace_fn=lambda leaf: leaf.at[keys[[0, 5]]].set(0)
    )
    graph = one.bound(one.layout.pack(network))
    small, report = compact(graph, parameter_names(one.network))
    found = {kept.where: kept.after for kept in report}
    assert found["blocks.0.attention.project_in depths"] == 3
    assert found["blocks.1.attention.project_in depths"] == 4
    assert difference(graph, small, one.shape) < 1e-6


def test_what_cannot_go_is_said():
    reasons = {
        name: {kept.why for kept in compact(masked(Traced(name), 0, MASKS["nothing"]))[1]} for name in ("vit", "gru")
    }
    assert reasons == {"vit": {"", "its units are normalised together"}, "gru": {"", "inside a scan"}}


def test_an_array_that_is_used_twice_is_cut_for_both(x64):
    """A table of tokens that is also the last matrix: its width is one axis."""
    rng = np.random.default_rng(0)
    table, matrix = rng.normal(size=(7, 5)), rng.normal(size=(5, 5))
    table[:, 3], matrix[3] = 0, 0

    def network(arrays, tokens):
        x = arrays[0][tokens]
        return (x + jnp.tanh(x @ arrays[1].T)) @ arrays[0].T

    arrays = [table, matrix]
    graph = trace(network, arrays, jax.ShapeDtypeStruct((4,), np.int32)).bind(dict(enumerate(arrays)))
    small, report = compact(graph)
    tokens = rng.integers(0, 7, (3, 4))
    assert np.allclose(*evaluate(graph, [tokens]), *evaluate(small, [tokens]))
    assert count(small) == 7 * 4 + 4 * 4
    assert [(kept.before, kept.after) for kept in report] == [(5, 4)]


def test_parameters_must_be_bound():
    with pytest.raises(ExportError, match=r"parameters \[0, 1"):
        compact(Traced("mlp").graph)


def test_preprocessing_before_the_first_matrix(x64):
    """Pixels that are scaled and flattened first; two of them are never looked at."""
    weight = np.random.default_rng(0).normal(size=(4, 6))
    weight[:, [1, 4]] = 0
    graph = traced(lambda a, x: ((x - 0.5) / 0.2).reshape(len(x), -1) @ a[0].T, [weight], (2, 3))
    small, report = compact(graph)
    assert report == [Kept("inputs", 6, 4)]
    assert difference(graph, small, (2, 3)) < SAME


def test_layers_in_a_scan_lose_units_of_their_own(x64):
    """Unit 1 of the first layer and unit 2 of the second; those of the third are the outputs."""
    weights = np.random.default_rng(0).normal(size=(3, 4, 4))
    weights[0, 1] = weights[1, 2] = 0

    def network(arrays, x):
        return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w.T), None), x, arrays[0])[0]

    graph = traced(network, [weights], (4,))
    small, report = compact(graph)
    assert count(small) == 3 * 4 + 3 * 3 + 4 * 3
    assert [(kept.before, kept.after) for kept in report if kept.where != "inputs"] == [(4, 3), (4, 3)]
    assert difference(graph, small, (4,)) < SAME


def test_a_scan_backwards_that_puts_out_each_step_is_the_same_written_out(x64):
    """Stacks in a stack: two times two layers, the last first, of which all that is between is put out."""
    weights = np.random.default_rng(0).normal(size=(2, 2, 4, 4))

    def network(arrays, x):
        step = lambda x, w: (jnp.tanh(x @ w.T), x.sum(1))  # noqa: E731
        outer = lambda x, stack: jax.lax.scan(step, x, stack)  # noqa: E731
        last, between = jax.lax.scan(outer, x, arrays[0], reverse=True)
        return jnp.concatenate([last, between.reshape(4, -1).T], 1)

    graph = traced(network, [weights], (4,))
    written, pieces = unrolled(graph)
    assert not any(node.op == "scan" for node in written.nodes)
    assert difference(graph, written, (4,)) < SAME
    assert sorted((piece.layers, piece.start) for piece in pieces.values()) == [
        ((i, j), 16 * (2 * i + j)) for i in (0, 1) for j in (0, 1)
    ]


def test_a_scan_along_a_sequence_stays(x64):
    one = Traced("gru", np.float64)
    assert [node.op for node in unrolled(one.graph)[0].nodes].count("scan") == 1
