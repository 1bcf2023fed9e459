"""Prior deviations, by hand and by what they are for."""

import jax
import jax.numpy as jnp
import numpy as np

from occamax import networks
from occamax.inference.priors import FanInPrior, FlatPrior
from occamax.structure.layout import Layout


def stds_by_layer(prior, layout, log_precision=0.0):
    stds = prior.weight_stds(layout, jnp.full(len(layout.blocks), log_precision))
    return [np.unique(np.asarray(part)).tolist() for part in layout.split(stds)]


def test_deviations_by_hand():
    layout = Layout.of(networks.MLP((1, 4, 4), 3, (25,), key=jax.random.key(0)))
    assert np.allclose(stds_by_layer(FlatPrior(), layout), [[0.1], [1.0]])
    assert np.allclose(stds_by_layer(FanInPrior(gain=4.0), layout), [[2 / 4], [2 / 5]])
    # a precision of e² makes the deviation e times smaller
    assert np.allclose(stds_by_layer(FanInPrior(), layout, 2.0), [[np.exp(-1) / 4], [np.exp(-1) / 5]])


def test_fan_in_keeps_activations_at_their_size():
    """Unit inputs through layers of very different widths: the deviation of the outputs stays near one."""
    layout = Layout.of(networks.MLP((1, 20, 20), 50, (30, 1000), activation=lambda x: x, key=jax.random.key(0)))
    network = networks.MLP((1, 20, 20), 50, (30, 1000), activation=lambda x: x, key=jax.random.key(0))
    prior, log_scales = FanInPrior(), jnp.zeros(len(layout.blocks))
    keys = jax.random.split(jax.random.key(1), 64)

    def outputs(key):
        one, two = jax.random.split(key)
        weights = prior.weights(layout, jax.random.normal(one, (layout.size,)), log_scales)
        return layout.bind(network, weights)(jax.random.normal(two, (1, 20, 20)))

    found = float(jnp.std(jax.vmap(outputs)(keys)))
    assert 0.8 < found < 1.3


def test_gains_lie_around_one():
    layout = Layout.of(networks.ViT((1, 8, 8), 3, depth=1, heads=1, width=4, hidden=4, key=jax.random.key(0)))
    weights = FanInPrior().weights(layout, jnp.zeros(layout.size), jnp.zeros(len(layout.blocks)))
    assert np.array_equal(np.asarray(weights) == 1.0, layout.gains())
