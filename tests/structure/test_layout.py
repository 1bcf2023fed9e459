"""A network as one vector: both ways, whatever it is made of, and what is refused."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from occamax import networks
from occamax.errors import ArgumentError, LayoutError
from occamax.structure.calling import read_network
from occamax.structure.layout import Block, Layout, named_leaves
from occamax.structure.reading import read_layout

from ..toys import Tiny, filled, layout_of, like, normal


class Everything(eqx.Module):
    """Each kind of layer, a bare array, a constant, a counter and a function."""

    words: eqx.nn.Embedding
    convolution: eqx.nn.Conv1d
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear
    token: jax.Array
    constant: jax.Array
    counter: jax.Array
    activation: object = jnp.tanh

    def __call__(self, places):
        sequence = jax.vmap(self.words)(places).T  # two channels of six
        hidden = self.norm(self.convolution(sequence)[:, 0] * self.constant.sum() + self.token)
        return self.head(self.activation(hidden))


def make_everything():
    arrays = {"token": jnp.arange(4.0), "constant": jnp.ones(2), "counter": jnp.arange(3)}
    return Everything(
        filled(eqx.nn.Embedding, 6, 2),
        filled(eqx.nn.Conv1d, 2, 4, 5),
        eqx.nn.LayerNorm(4),
        filled(eqx.nn.Linear, 4, 2, use_bias=False),
        **arrays,
    )


PLACES = like(6, dtype=np.int32)
CONSTANT = lambda network: network.constant  # noqa: E731


def read(network, example, fixed=None):
    return read_layout(*read_network(network), example, None, fixed)


NETWORKS = {
    "tiny": lambda: (Tiny(), like(4), None),
    "everything": lambda: (make_everything(), PLACES, CONSTANT),
    "lenet": lambda: (filled(networks.LeNet, (1, 32, 32), 10), like(1, 32, 32), None),
    "mixer": lambda: (
        filled(networks.Mixer, (1, 8, 8), 3, width=8, depth=1, token_hidden=4, channel_hidden=4), like(1, 8, 8), None,
    ),
    "vit": lambda: (filled(networks.ViT, (1, 8, 8), 3, width=8, heads=2, depth=1, hidden=4), like(1, 8, 8), None),
}  # fmt: skip


@functools.cache
def made(name):
    network, example, fixed = NETWORKS[name]()
    return network, read(network, example, fixed)


@pytest.mark.parametrize("name", NETWORKS)
def test_bind_and_pack_are_inverse(name):
    network, layout = made(name)
    pack, bind = eqx.filter_jit(layout.pack), eqx.filter_jit(layout.bind)
    vector = pack(network)
    assert vector.shape == (layout.size,)
    assert eqx.tree_equal(bind(network, vector), network)
    other = np.arange(layout.size, dtype=np.float32)
    assert np.array_equal(pack(bind(network, jnp.asarray(other))), other)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_layout_survives_being_data(name):
    _, layout = made(name)
    assert Layout.from_data(layout.as_data()) == Layout(layout.blocks)


def test_every_kind_of_layer_is_found_with_its_bias():
    _, layout = made("everything")
    assert [(b.name, b.rows, b.columns, b.bias_shape is not None) for b in layout.blocks] == [
        ("words", 6, 2, False),
        ("convolution", 4, 10, True),
        ("token", 4, 1, False),
        ("norm", 4, 1, True),
        ("head", 2, 4, False),
    ]
    assert layout.fixed == ("constant",)  # integers and functions are nobody's weights


@pytest.mark.parametrize(
    "fixed", [lambda n: (n.constant, n.convolution, n.token), ("constant", "token", "words.weight")]
)
def test_what_is_fixed_is_left_alone_and_all_else_is_random(fixed):
    network = make_everything()
    layout = read(network, PLACES, fixed)
    bound = layout.bind(network, jnp.full(layout.size, 7.0))
    names, before = ({name: leaf for leaf, name in zip(*named_leaves(n), strict=True)} for n in (bound, network))
    for name, leaf in names.items():
        if name in layout.fixed or not eqx.is_inexact_array(leaf):
            assert leaf is before[name] or jnp.array_equal(leaf, before[name])
        else:
            assert (np.asarray(leaf) == 7.0).all()
    assert len(layout.fixed) == (4 if callable(fixed) else 3)


def test_the_gradient_of_bind_is_one_concatenation():
    network, layout = made("tiny")

    def squares(vector):
        return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(layout.bind(network, vector)))

    jaxpr = str(jax.make_jaxpr(jax.grad(squares))(layout.pack(network)))
    assert jaxpr.count(" concatenate[") == 1
    assert " pad[" not in jaxpr
    assert " add_any" not in jaxpr


def test_one_array_in_two_places_is_refused():
    layer = filled(eqx.nn.Linear, 3, 3)
    with pytest.raises(LayoutError, match=r"layers.0.weight and layers.1.weight are one array"):
        read(eqx.nn.Sequential([layer, layer]), like(3))


def test_a_tied_weight_is_counted_once():
    class Tied(eqx.Module):
        shared: eqx.nn.Shared

        def __init__(self):
            pair = (filled(eqx.nn.Embedding, 5, 3), filled(eqx.nn.Linear, 3, 5))
            self.shared = eqx.nn.Shared(pair, where=lambda p: p[1].weight, get=lambda p: p[0].weight)

        def __call__(self, word):
            table, layer = self.shared()
            return layer(table(word))

    assert sorted(read(Tied(), like(dtype=np.int32)).sizes) in ([5, 15], [20])  # the bias may be the table's own


def test_the_output_layer_is_the_last_product_whatever_comes_after_it():
    class Scaled(eqx.Module):
        gain: jax.Array
        inner: Tiny
        shift: jax.Array

        def __call__(self, x):
            return self.inner(x) * self.gain + self.shift

    layout = read(Scaled(jnp.ones(2), Tiny(), jnp.zeros(2)), like(4))
    assert layout.names == ("inner.first", "gain", "inner.second")  # the shift is the gain's bias


def test_a_network_without_weights_is_refused():
    with pytest.raises(LayoutError, match="no floating-point array that is random"):
        read(eqx.nn.Lambda(jnp.tanh), like(3))
    with pytest.raises(LayoutError, match="no floating-point array that is random"):
        read(Tiny(), like(4), lambda n: n)


def test_what_is_not_used_is_refused_by_name():
    class Idle(eqx.Module):
        inner: Tiny
        idle: jax.Array

        def __call__(self, x):
            return self.inner(x)

    with pytest.raises(LayoutError, match="idle is not used"):
        read(Idle(Tiny(), jnp.ones(2)), like(4))
    assert read(Idle(Tiny(), jnp.ones(2)), like(4), ("idle",)).fixed == ("idle",)


def test_complex_weights_are_refused_by_name():
    network = eqx.tree_at(lambda n: n.first.weight, Tiny(), jnp.ones((3, 4), jnp.complex64))
    with pytest.raises((LayoutError, ArgumentError), match=r"first.weight has type complex64"):
        read(network, like(4))


def test_a_wrong_name_among_the_fixed_is_refused_with_the_nearest():
    with pytest.raises(ArgumentError, match=r"first.wieght.*Did you mean first.weight"):
        read(Tiny(), like(4), ("first.wieght",))
    with pytest.raises(LayoutError, match="fixed: cannot be applied"):
        read(Tiny(), like(4), lambda n: n.third)


def test_a_vector_of_the_wrong_length_is_refused():
    network, layout = made("tiny")
    with pytest.raises(LayoutError, match="23 weights"):
        layout.bind(network, jnp.zeros(22))


def test_half_precision_weights_stay_half_precision():
    network = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), Tiny())
    layout = read(network, like(4, dtype=jnp.bfloat16))
    vector = layout.pack(network)
    assert vector.dtype == jnp.float32
    assert layout.bind(network, vector).first.weight.dtype == jnp.bfloat16


@settings(max_examples=3)
@given(st.tuples(*[st.integers(1, 3)] * 3), st.integers(0, 1000))
def test_spread_totals_and_rows_agree_with_the_matrices(sizes, seed):
    layout = layout_of(*sizes)
    values, vector = normal(2, seed=seed), normal(layout.size, seed=seed + 1)
    rows = normal(sum(layout.row_counts), seed=seed + 2)

    @jax.jit
    def all_ways():
        by_block, by_row = layout.blocks_to_weights(values), layout.rows_to_weights(rows)
        return layout.totals(vector), *map(layout.matrices, (by_block, vector, by_row))

    totals, blocks, matrices, spread = jax.device_get(all_ways())
    assert all(np.all(matrix == values[i]) for i, matrix in enumerate(blocks))
    assert np.allclose(totals, [matrix.sum() for matrix in matrices], atol=1e-5)
    assert np.array_equal(np.concatenate([matrix[:, 0] for matrix in spread]), rows)
    assert all(np.all(matrix == matrix[:, :1]) for matrix in spread)


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=4), st.sets(st.integers(0, 3)), st.booleans(), st.integers(0, 99)
)
@example([2, 3], {1}, True, 0)  # inputs first, as flax and torch's transposed layers have them
@example([2, 3, 2], {0, 2}, True, 0)
def test_groups_are_the_rows_and_columns_of_the_matrix(shape, axes, has_bias, seed):
    """Whatever the axes that count the outputs: sums by group are sums over the matrix, here made with numpy."""
    outputs = tuple(sorted(axis for axis in axes if axis < len(shape))) or (0,)
    bias = (int(np.prod([shape[axis] for axis in outputs])),) if has_bias else None
    block = Block("layer", "matmul", tuple(shape), bias, outputs, 1, 0, 1 if has_bias else None)
    layout = Layout((block,))
    vector = np.random.default_rng(seed).normal(size=layout.size).astype(np.float32)
    weight = vector[: block.rows * block.columns].reshape(block.weight_shape)
    inputs = [axis for axis in range(weight.ndim) if axis not in block.output_axes]
    matrix = weight.transpose([*block.output_axes, *inputs]).reshape(block.rows, block.columns)
    if block.bias_shape is not None:
        matrix = np.concatenate([matrix, vector[-block.rows :, None]], axis=1)
    for groups, axis in ((layout.row_groups(0), 1), (layout.column_groups(0), 0)):
        assert np.allclose(np.bincount(groups, weights=vector), matrix.sum(axis), atol=1e-5)


def test_gains_are_the_weights_of_norms_not_their_biases():
    _, layout = made("everything")
    start = layout.bounds[layout.names.index("norm")][0]
    assert layout.gains().nonzero()[0].tolist() == list(range(start, start + 4))
