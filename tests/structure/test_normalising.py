"""Whether a network normalises its activations is read from its program, whatever its layers are called."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import occamax as ox
from occamax.structure.calling import read_network
from occamax.structure.reading import read_layout

KEY = jax.random.key(0)
EXAMPLE = jax.ShapeDtypeStruct((8,), jnp.float32)


class Two(eqx.Module):
    """Two layers with something between."""

    first: eqx.nn.Linear
    between: object
    last: eqx.nn.Linear

    def __init__(self, between):
        self.first, self.between, self.last = eqx.nn.Linear(8, 8, key=KEY), between, eqx.nn.Linear(8, 3, key=KEY)

    def __call__(self, x):
        return self.last(self.between(self.first(x)))


class Slope(eqx.Module):
    """PReLU: a weight that multiplies activations, and no normalisation."""

    slope: jax.Array

    def __call__(self, x):
        return jnp.where(x > 0, x, self.slope * x)


def is_normalised(network, preprocess=None):
    module, buffers, calling = read_network(network)
    return read_layout(module, buffers, calling, EXAMPLE, preprocess).is_normalised


def rooted(x):
    """An activation: a root, and no sum."""
    return x / jnp.sqrt(1 + x**2)


def standardised(x):
    return (x - x.mean()) / jnp.sqrt(x.var() + 1e-5)


def unit_length(x):
    return x / jnp.maximum(jnp.linalg.norm(x), 1e-6)


def by_powers(x):
    return (x - x.mean()) * (x.var() + 1e-5) ** -0.5


def by_a_scaled_root(x):
    return x / (jnp.linalg.norm(x) * 8**-0.5 + 1e-6)


def by_an_inverse(x):
    return x * jnp.reciprocal(jnp.sqrt(x.var() + 1e-5))


def with_a_choice(x):
    length = jnp.linalg.norm(x)
    return x / jnp.where(length > 0, length, 1.0)


def in_a_scan(x):
    return jax.lax.scan(lambda carry, _: (eqx.nn.RMSNorm(8)(carry), None), x, None, length=2)[0]


NORMS = [eqx.nn.LayerNorm(8), eqx.nn.GroupNorm(2, 8), eqx.nn.RMSNorm(8, use_weight=False), unit_length, in_a_scan]
NORMS += [by_powers, by_a_scaled_root, by_an_inverse, with_a_choice]
OTHERS = [jax.nn.relu, jax.nn.softmax, Slope(jnp.ones(8)), lambda x: x / jnp.sqrt(8.0), rooted]


@pytest.mark.parametrize("between", NORMS)
def test_norms_are_seen(between):
    assert is_normalised(Two(between))


@pytest.mark.parametrize("between", OTHERS)
def test_what_divides_by_no_root_of_activations_is_no_norm(between):
    assert not is_normalised(Two(between))


def test_a_root_of_the_raw_input_is_no_part_of_the_network():
    assert not is_normalised(Two(jax.nn.relu), preprocess=standardised)


def test_batch_norm_is_seen():
    class Normed(eqx.Module):
        inner: Two
        norm: eqx.nn.BatchNorm

        def __init__(self):
            self.inner, self.norm = Two(jax.nn.relu), eqx.nn.BatchNorm(3, "batch", mode="ema")

        def __call__(self, x, state):
            return self.norm(self.inner(x), state)

    assert is_normalised(eqx.nn.make_with_state(Normed)())


@pytest.mark.parametrize(
    ("name", "expected"),
    [("mlp", False), ("lenet", False), ("vit", True), ("mixer", True), ("resnet20", True), ("resnet20-bn", True)],
)
def test_our_networks(name, expected):
    network = ox.network_named(name).template((1, 32, 32), 10, 0.0)
    module, buffers, calling = read_network(network)
    example = jax.ShapeDtypeStruct((1, 32, 32), jnp.float32)
    assert read_layout(module, buffers, calling, example).is_normalised is expected
