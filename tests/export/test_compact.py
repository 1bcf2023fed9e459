"""Compaction: random masks, the same outputs, fewer numbers."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax import networks
from occamax.errors import ExportError
from occamax.export import chain as c
from occamax.export import compact, count, to_chain
from occamax.structure.layout import Layout


def sequential(key):
    keys = jax.random.split(key, 4)
    return eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(2, 5, 3, key=keys[0]),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.MaxPool2d(2, 2),
            eqx.nn.Conv2d(5, 4, 3, use_bias=False, key=keys[1]),
            eqx.nn.Lambda(jnp.tanh),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(16, 7, key=keys[2]),
            eqx.nn.Dropout(0.3),
            eqx.nn.Lambda(jax.nn.sigmoid),
            eqx.nn.Linear(7, 3, key=keys[3]),
        ]
    )


MAKE = {
    "mlp": (lambda key: networks.MLP((1, 6, 6), 4, (9, 8, 7), key=key), (1, 6, 6)),
    "lenet": (lambda key: networks.LeNet((1, 32, 32), 5, (3, 4, 6), 8, key=key), (1, 32, 32)),
    "lenet-300-100": (lambda key: networks.lenet_300_100((1, 6, 6), 4, key=key), (1, 6, 6)),
    "lenet-caffe": (lambda key: networks.LeNetCaffe((1, 28, 28), 4, key=key), (1, 28, 28)),
    "mixer": (lambda key: networks.Mixer((3, 8, 8), 4, 4, 2, 6, 7, 8, key=key), (3, 8, 8)),
    "vit": (lambda key: networks.ViT((1, 8, 8), 4, 4, 2, 3, 12, 9, key=key), (1, 8, 8)),
    "sequential": (sequential, (2, 10, 10)),
    "equinox mlp": (lambda key: eqx.nn.MLP(5, 3, 8, 2, jax.nn.gelu, key=key), (5,)),
}


def masked(network, key, dead_rows, dead_columns, single):
    """The network with some rows, some columns and some single weights at zero; biases partly too."""
    layout = Layout.of(network)
    rng = np.random.default_rng(np.asarray(jax.random.bits(key)).item())
    pieces = []
    for block in layout.blocks:
        keep = rng.random((block.rows, block.columns)) > single
        keep &= (rng.random((block.rows, 1)) > dead_rows) & (rng.random((1, block.columns)) > dead_columns)
        pieces.append(keep.ravel())
        if block.bias_shape is not None:
            pieces.append(rng.random(block.rows) > 0.5)
    vector = layout.pack(network).astype(jnp.result_type(float))
    vector = vector + 0.3 * jax.random.normal(key, vector.shape, vector.dtype)
    vector = vector * jnp.asarray(np.concatenate(pieces))
    leaves, tree = jax.tree.flatten(network)
    leaves = [leaf.astype(vector.dtype) if eqx.is_inexact_array(leaf) else leaf for leaf in leaves]
    return layout.bind(jax.tree.unflatten(tree, leaves), vector)


def largest_difference(network, chain, shape, key):
    network = eqx.nn.inference_mode(network)
    inputs = jax.random.normal(key, (6, *shape), jnp.result_type(float))
    expected, found = (jax.jit(jax.vmap(one))(inputs) for one in (network, chain))
    return float(jnp.abs(found - expected).max() / jnp.abs(expected).max().clip(1e-3))


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize(("rows", "columns", "single"), [(0, 0, 0), (0.5, 0, 0.3), (0.6, 0.6, 0.8)])
def test_a_compact_network_says_the_same_with_less(name, rows, columns, single, x64):
    make, shape = MAKE[name]
    for seed in range(1 if rows + columns == 0 else 2):
        key = jax.random.key(seed)
        network = masked(make(key), key, rows, columns, single)
        chain = to_chain(network)
        # jax's attention takes its softmax in single precision, so the ViT itself is no closer than that
        assert largest_difference(network, chain, shape, key) < (1e-6 if name == "vit" else 1e-12)
        small, report = compact(chain)
        assert largest_difference(chain, small, shape, key) < 1e-12
        assert count(small) <= count(chain)
        if rows + columns:
            assert count(small) < count(chain)
            assert any(kept.after < kept.before for kept in report)


@pytest.mark.parametrize("name", ["mlp", "lenet", "vit"])
def test_single_precision(name):
    make, shape = MAKE[name]
    key = jax.random.key(7)
    network = masked(make(key), key, 0.4, 0.4, 0.5)
    assert largest_difference(network, compact(to_chain(network))[0], shape, key) < 1e-5


def test_a_dead_network_is_its_biases(x64):
    network = networks.MLP((1, 4, 4), 3, (5, 5), key=jax.random.key(0))
    network = jax.tree.map(lambda leaf: jnp.zeros_like(leaf) if eqx.is_inexact_array(leaf) else leaf, network)
    network = eqx.tree_at(lambda n: (n.layers[0].bias, n.layers[2].bias), network, (jnp.ones(5), jnp.arange(3.0)))
    small, _ = compact(to_chain(network))
    assert np.allclose(small(jnp.ones((1, 4, 4))), [0, 1, 2])
    assert count(small) == 2 + 2 + 3 + 3  # one unit a layer is left, and the biases


def test_units_are_counted_by_hand(x64):
    """Unit 0 has no inputs (constant swish(2)), unit 1 no readers, unit 2 stays."""
    network = networks.MLP((1, 1, 3), 2, (3,), key=jax.random.key(0))
    first = jnp.array([[0.0, 0, 0], [1, 2, 3], [0, 1, 0]])
    second = jnp.array([[1.0, 0, 2], [3, 0, 4]])
    network = eqx.tree_at(
        lambda n: [array for layer in n.layers[:2] for array in (layer.weight, layer.bias)],
        network,
        [first, jnp.array([2.0, 0, 0]), second, jnp.zeros(2)],
    )
    small, report = compact(to_chain(network))
    assert [(kept.where, kept.before, kept.after) for kept in report] == [("inputs", 3, 1), ("1", 3, 1)]
    swish = 2.0 / (1.0 + np.exp(-2.0))
    assert np.allclose(small.stages[-1].bias, [swish, 3 * swish])
    assert np.array_equal(small.stages[1].indices, [1])


def test_what_cannot_go_is_said(x64):
    make, _ = MAKE["vit"]
    _, report = compact(to_chain(make(jax.random.key(0))))
    reasons = {kept.why for kept in report if kept.why}
    assert reasons == {"feeds a residual stream, whose normalisation needs all units"}


@pytest.mark.parametrize(
    ("layer", "named"),
    [
        (eqx.nn.Conv2d(1, 1, 3, stride=2, key=jax.random.key(0)), "stride one"),
        (eqx.nn.MaxPool2d(3, 3), "2 × 2"),
        (eqx.nn.Lambda(jnp.sin), "cannot be exported"),
    ],
)
def test_what_is_not_known_is_refused(layer, named):
    with pytest.raises(ExportError, match=named):
        to_chain(eqx.nn.Sequential([layer]))
    with pytest.raises(ExportError, match="Sequential"):
        to_chain(layer)


@pytest.mark.parametrize("name", ["vit", "mixer"])
def test_a_branch_that_is_constant_goes(name, x64):
    """The second weights of some branches are zero: the branches go, what their biases add stays."""
    make, shape = MAKE[name]
    key = jax.random.key(4)
    network = masked(make(key), key, 0, 0, 0)
    chain = to_chain(network)
    branches = [i for i, stage in enumerate(chain.stages) if isinstance(stage, c.Residual)]
    for i in branches[1:]:
        chain = eqx.tree_at(lambda chain, i=i: _last_weights(chain.stages[i]), chain, replace_fn=jnp.zeros_like)
    small, kept = compact(chain)
    assert {k.after for k in kept if k.where.startswith(tuple(f"{i}." for i in branches[1:]))} == {0}
    assert largest_difference(chain, small, shape, key) < 1e-12
    assert sum(isinstance(stage, c.Residual) for stage in small.stages) == 1
    gone = c.Chain(tuple(stage for i, stage in enumerate(chain.stages) if i not in branches[1:]))
    assert largest_difference(gone, small, shape, key) > 1e-3  # the biases are not nothing


def _last_weights(stage):
    """The matrix that a branch ends in."""
    last = stage.inner.stages[-1]
    if isinstance(last, c.OverTokens):
        return _last_weights(last)
    return last.out if isinstance(last, c.Attention) else last.weight
