import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from occamax import networks
from occamax.errors import LayoutError
from occamax.structure.layout import Layout

from ..toys import Tiny


class Everything(eqx.Module):
    """Each kind of layer, a bare array, a constant, a counter and a function."""

    convolution: eqx.nn.Conv1d
    norm: eqx.nn.LayerNorm
    words: eqx.nn.Embedding
    token: jax.Array
    constant: jax.Array
    counter: jax.Array
    head: eqx.nn.Linear
    activation: object = jnp.tanh

    def __init__(self):
        keys = jax.random.split(jax.random.key(0), 3)
        self.convolution = eqx.nn.Conv1d(2, 3, 5, key=keys[0])
        self.norm = eqx.nn.LayerNorm(4)
        self.words = eqx.nn.Embedding(6, 2, key=keys[1])
        self.token = jnp.arange(3.0)
        self.constant = jnp.ones(2)
        self.counter = jnp.arange(3)
        self.head = eqx.nn.Linear(3, 2, use_bias=False, key=keys[2])


NETWORKS = [
    Tiny(),
    Everything(),
    networks.LeNet((1, 32, 32), 10, key=jax.random.key(1)),
    networks.Mixer((1, 8, 8), 3, width=8, depth=1, token_hidden=4, channel_hidden=4, key=jax.random.key(2)),
    networks.ViT((1, 8, 8), 3, width=8, heads=2, depth=1, hidden=4, key=jax.random.key(3)),
]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: type(n).__name__)
def test_bind_and_pack_are_inverse(network):
    layout = Layout.of(network)
    vector = layout.pack(network)
    assert vector.shape == (layout.size,)
    bound = layout.bind(network, vector)
    assert eqx.tree_equal(bound, network)
    other = jnp.arange(layout.size, dtype=jnp.float32)
    assert jnp.array_equal(layout.pack(layout.bind(network, other)), other)


def test_every_kind_of_layer_is_found_with_its_bias():
    layout = Layout.of(Everything())
    assert [(b.name, b.rows, b.columns, b.bias_shape is not None) for b in layout.blocks] == [
        ("convolution", 3, 10, True),
        ("norm", 4, 1, True),
        ("words", 6, 2, False),
        ("head", 2, 3, False),
    ]
    assert layout.fixed == ("token", "constant")  # integers and functions are nobody's weights


def test_a_bare_array_is_random_when_selected_and_the_rest_is_left_alone():
    network = Everything()
    layout = Layout.of(network, lambda n: (n.token, n.head))
    assert layout.names == ("token", "head")
    bound = layout.bind(network, jnp.zeros(layout.size))
    assert not bound.token.any()
    assert not bound.head.weight.any()
    assert eqx.tree_equal(bound.convolution, network.convolution)
    assert jnp.array_equal(bound.constant, network.constant)


def test_the_gradient_of_bind_is_one_concatenation():
    network = Tiny()
    layout = Layout.of(network)

    def squares(vector):
        return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(layout.bind(network, vector)))

    jaxpr = str(jax.make_jaxpr(jax.grad(squares))(layout.pack(network)))
    assert jaxpr.count(" concatenate[") == 1
    assert " pad[" not in jaxpr
    assert " add_any" not in jaxpr


def test_one_array_in_two_places_is_refused():
    layer = eqx.nn.Linear(3, 3, key=jax.random.key(0))
    with pytest.raises(LayoutError, match=r"\[0\].weight|0.weight"):
        Layout.of([layer, layer])


def test_a_tied_weight_is_counted_once():
    class Tied(eqx.Module):
        shared: eqx.nn.Shared

        def __init__(self):
            pair = (eqx.nn.Embedding(5, 3, key=jax.random.key(0)), eqx.nn.Linear(3, 5, key=jax.random.key(1)))
            self.shared = eqx.nn.Shared(pair, where=lambda p: p[1].weight, get=lambda p: p[0].weight)

    assert Layout.of(Tied()).sizes == (15, 5)


def test_a_network_without_weights_is_refused():
    with pytest.raises(LayoutError, match="no layer that can be made random"):
        Layout.of(eqx.nn.Lambda(jnp.tanh))


def test_integers_cannot_be_random():
    with pytest.raises(LayoutError, match="counter has type int32"):
        Layout.of(Everything(), lambda n: n.counter)


def test_an_array_selected_twice_is_refused():
    with pytest.raises(LayoutError, match="twice"):
        Layout.of(Everything(), lambda n: (n.head, n.head))


def test_a_vector_of_the_wrong_length_is_refused():
    with pytest.raises(LayoutError, match="23 weights"):
        Layout.of(Tiny()).bind(Tiny(), jnp.zeros(22))


def test_half_precision_weights_stay_half_precision():
    network = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), Tiny())
    layout = Layout.of(network)
    vector = layout.pack(network)
    assert vector.dtype == jnp.float32
    assert layout.bind(network, vector).first.weight.dtype == jnp.bfloat16


@settings(max_examples=5, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=3, max_size=3), st.integers(0, 1000))
def test_spread_totals_and_rows_agree_with_the_matrices(sizes, seed):
    network = Tiny(sizes=tuple(sizes))
    layout = Layout.of(network)
    values = jax.random.normal(jax.random.key(seed), (2,))
    for i, matrix in enumerate(layout.matrices(layout.blocks_to_weights(values))):
        assert jnp.all(matrix == values[i])
    vector = jax.random.normal(jax.random.key(seed + 1), (layout.size,))
    assert np.allclose(layout.totals(vector), [m.sum() for m in layout.matrices(vector)], atol=1e-5)
    rows = jax.random.normal(jax.random.key(seed + 2), (sum(layout.row_counts),))
    spread = layout.matrices(layout.rows_to_weights(rows))
    assert jnp.array_equal(jnp.concatenate([matrix[:, 0] for matrix in spread]), rows)
    assert all(jnp.all(matrix == matrix[:, :1]) for matrix in spread)
    for i, (start, stop) in enumerate(layout.bounds):
        matrix = layout.matrices(vector)[i]
        for groups, axis in ((layout.row_groups(i), 1), (layout.column_groups(i), 0)):
            sums = np.bincount(groups, weights=np.asarray(vector[start:stop]))
            assert np.allclose(sums, matrix.sum(axis), atol=1e-5)


def test_gains_are_the_weights_of_norms_not_their_biases():
    layout = Layout.of(Everything())
    assert layout.gains().sum() == 4
    assert layout.gains()[33:37].all()
