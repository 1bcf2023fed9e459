"""Prior deviations, by hand and by what they are for."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from occamax import networks
from occamax.errors import ArgumentError
from occamax.inference.model import Model
from occamax.inference.priors import FanInPrior, FlatPrior, HorseshoePrior, NormalPrior, TrainedPrior
from occamax.structure.layout import Layout

from ..tolerances import SINGLE
from ..toys import filled, layout_of, like, normal


def stds_by_layer(prior, layout, log_precision=0.0):
    stds = prior.weight_stds(layout, jnp.full(len(layout.blocks), log_precision))
    return [np.unique(np.asarray(part)).tolist() for part in np.split(stds, np.cumsum(layout.sizes)[:-1])]


def test_deviations_by_hand():
    layout = layout_of(16, 25, 3)
    assert np.allclose(stds_by_layer(FlatPrior(), layout), [[0.1], [1.0]])
    assert np.allclose(stds_by_layer(FanInPrior(gain=4.0), layout), [[2 / 4], [2 / 5]])
    # a precision of e² makes the deviation e times smaller
    assert np.allclose(stds_by_layer(FanInPrior(), layout, 2.0), [[np.exp(-1) / 4], [np.exp(-1) / 5]])


def test_a_deviation_for_each_layer():
    layout = layout_of(16, 25, 3)
    stds = np.asarray(NormalPrior((0.5, 0.25)).weight_stds(layout, jnp.zeros(0)))
    assert [np.unique(part).tolist() for part in np.split(stds, np.cumsum(layout.sizes)[:-1])] == [[0.5], [0.25]]
    with pytest.raises(ArgumentError, match="3 deviations given; the network has 2 layers"):
        NormalPrior((0.5, 0.25, 0.1)).weight_stds(layout, jnp.zeros(0))
    for wrong in (0.0, (0.5, -1.0)):
        with pytest.raises(ArgumentError, match="must be positive"):
            NormalPrior(wrong)


def test_a_prior_made_of_trained_weights_is_so_many_times_their_size():
    """The root of their mean square, by hand; a layer of zeros has a thousandth of what keeps activations at theirs."""
    layout = layout_of(16, 25, 3)
    first, second = layout.sizes
    weights = np.concatenate([np.where(np.arange(first) % 2, 0.3, -0.4), np.zeros(second)]).astype(np.float32)
    share = np.mean(np.arange(first) % 2)
    found = TrainedPrior(2.0).around(layout, weights)
    assert isinstance(found, NormalPrior)
    expected = 2.0 * np.sqrt(share * 0.09 + (1 - share) * 0.16), 2.0 * 0.001 / np.sqrt(25)
    assert np.allclose(found.std, expected, rtol=1e-3)
    assert NormalPrior(0.3).around(layout, weights) == NormalPrior(0.3)
    with pytest.raises(ArgumentError, match=r"begins with random ones; pass start=ox\.Trained"):
        TrainedPrior().weight_stds(layout, jnp.zeros(0))
    with pytest.raises(ArgumentError, match="width: 0 given"):
        TrainedPrior(0)


def test_gains_are_as_far_from_one_as_they_are():
    model = Model(
        eqx.nn.Sequential([eqx.nn.LayerNorm(4), eqx.nn.Linear(4, 2, key=jax.random.key(0))]), like(4), NormalPrior()
    )
    gains = np.asarray(model.layout.gains())
    assert gains.sum() == 4
    weights = np.full(gains.size, 0.2, np.float32)
    weights[:8] = np.where(gains[:8], 0.7, 0.3)  # gains and shifts of the norm
    stds = np.asarray(TrainedPrior(1.0).around(model.layout, weights).weight_stds(model.layout, jnp.zeros(0)))
    assert np.allclose(stds[gains], 0.3, rtol=1e-3)


@given(seed=st.integers(0, 1000), global_scale=st.floats(1e-3, 2.0))
def test_the_horseshoes_deviations_are_the_papers_formula(seed, global_scale):
    """Equation 8 as it stands, in double precision: γ² = c² v² τ² / (c² + v² τ²)."""
    layout, prior = layout_of(4, 3, 2), HorseshoePrior(global_scale=global_scale)
    shapes, rates = prior.scale_gammas(layout)
    log_scales = np.random.default_rng(seed).normal(size=shapes.size)
    slab, a, b, row_a, row_b = np.split(np.exp(log_scales), np.cumsum([1, 2, 2, 3]))
    v, tau, c = global_scale * np.sqrt(a[0] / b[0]), np.sqrt(row_a / row_b), 1 / np.sqrt(slab[0])
    gamma = np.sqrt(c**2 * v**2 * tau**2 / (c**2 + v**2 * tau**2))
    expected = np.concatenate([np.repeat(gamma, 4), gamma, np.full(8, np.sqrt(a[1] / b[1]))])
    found = prior.weight_stds(layout, jnp.asarray(log_scales, jnp.float32))
    assert np.allclose(found, expected, rtol=10 * SINGLE)
    assert shapes.tolist() == [2.0] + [0.5] * 10
    assert rates.tolist() == [6.0] + [1.0] * 10


def test_fan_in_keeps_activations_at_their_size():
    """Unit inputs through layers of very different widths: the deviation of the outputs stays near one."""
    network = filled(networks.MLP, (1, 20, 20), 50, (30, 1000), activation=lambda x: x)
    model = Model(network, like(1, 20, 20), FanInPrior())
    latents, images = normal(64, model.latent_count), normal(64, 1, 20, 20, seed=1)
    latents = latents.at[:, model.layout.size :].set(0.0)
    everything = jnp.asarray(np.ones(model.layout.size, bool))
    found = jax.jit(jax.vmap(lambda one, image: model.bind(one, everything)(image)))(latents, images)
    assert 0.8 < float(jnp.std(found)) < 1.3


@pytest.mark.parametrize("prior", [FanInPrior(), FlatPrior(gain_center=1.0), HorseshoePrior(gain_center=1.0)])
def test_gains_lie_around_one(prior):
    class Normed(eqx.Module):
        norm: eqx.nn.LayerNorm
        layer: eqx.nn.Linear

        def __call__(self, x):
            return self.layer(self.norm(x))

    layout = Model(Normed(eqx.nn.LayerNorm(4), filled(eqx.nn.Linear, 4, 2)), like(4), prior).layout
    scales = jnp.zeros(prior.scale_gammas(layout)[0].size)
    weights = prior.weights(layout, jnp.zeros(layout.size), scales)
    assert np.array_equal(np.asarray(weights) == 1.0, layout.gains())
    assert layout.gains().sum() == 4


def test_a_single_layer_has_one_scale_under_the_horseshoe():
    """It is the output layer: neither rows nor a slab."""
    layout = Layout(layout_of(4, 3, 2).blocks[-1:])
    shapes, _ = HorseshoePrior().scale_gammas(layout)
    assert shapes.tolist() == [0.5, 0.5]
    found = HorseshoePrior().weight_stds(layout, jnp.log(jnp.array([4.0, 1.0])))
    assert np.allclose(found, 2.0)
