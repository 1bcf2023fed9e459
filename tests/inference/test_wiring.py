"""What is handed from one part to the next: β to the objective and to the optimiser, once each; keys and scales to
where they belong. Closed forms of a linear regression, in which hardly any deviation leaves nothing to chance."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax import networks
from occamax.inference.estimators import SharedDraw
from occamax.inference.likelihoods import Gaussian
from occamax.inference.model import BatchPart, Model, keys_of
from occamax.inference.optimizers import NaturalGradient
from occamax.inference.posteriors import IndependentNormals, Point
from occamax.inference.priors import FlatPrior
from occamax.inference.schedules import Constant
from occamax.inference.training import Stepper, objective, start

from ..tolerances import SINGLE
from ..toys import (
    Fixed,
    KnownNoise,
    Regression,
    conjugate_problem,
    everything,
    filled,
    like,
    normal,
    tiny_data,
    tiny_model,
)

BATCH, SIZE = 5, 20  # a batch of a data set four times as large: neither may stand for the other
NOISE = 20.0  # so much that the divergence is not lost beside the likelihood


@functools.cache
def regression():
    x, y, noise, prior_std = conjugate_problem(BATCH, noise_std=NOISE)
    model = Model(Regression(x.shape[1]), like(x.shape[1]), Fixed(prior_std), KnownNoise(noise))
    return model, x, y, (jnp.asarray(x, jnp.float32), jnp.asarray(y[:, None], jnp.float32))


def slope(beta, posterior, key):
    model, _, _, batch = regression()
    gradient = jax.grad(objective, has_aux=True)
    return jax.jit(lambda p, b: gradient(p, model, everything(model), batch, key, SIZE, b)[0])(posterior, beta)


@pytest.mark.parametrize("beta", [0.3, 2.0])
def test_the_gradient_at_a_kl_weight_is_the_closed_form(beta, key):
    """d/dμ = −s Xᵀ(y − s X μ) / (B noise²) + β μ / N with the prior's deviation s, and d/dln σ = β (σ² − 1) / N."""
    _, x, y, _ = regression()
    std = regression()[0].prior.std
    mean = np.asarray(normal(5), np.float64)
    found = slope(beta, IndependentNormals.around(jnp.asarray(mean, jnp.float32), 1e-6), key)
    fit = -std * x.T @ (y - std * x @ mean) / NOISE**2 / BATCH
    assert np.allclose(found.mean, fit + beta * mean / SIZE, rtol=10 * SINGLE, atol=10 * SINGLE)
    assert np.allclose(found.log_std, -beta / SIZE, rtol=1e-3)
    assert np.all(np.abs(beta * mean / SIZE) > 0.01 * np.abs(fit))  # so the test can see a mistake


def test_a_step_follows_the_gradient_and_the_temper(key):
    """Two natural steps by hand, −rate σ² m / δ with δ = β / N: a β that is counted twice or not at all, here or in the
    gradient, makes them longer or shorter, and so does a momentum that is not kept."""
    model, *_, batch = regression()
    beta, rate, temper = 0.3, 0.02, 0.3 / SIZE
    stepper = Stepper(model, NaturalGradient(log_std_rate=0.01)(Constant(rate), 10))
    state = start(model, IndependentNormals.around(normal(5), 0.2), stepper.optimizer, key)
    state = state._replace(kl_weight=jnp.float32(beta))
    step, kept = jax.jit(lambda state, key: stepper(state, batch, key, SIZE)[0]), 0.0
    for number, own in enumerate(jax.random.split(key), 1):
        before, gradient = state.posterior, slope(beta, state.posterior, own)
        kept = 0.9 * kept + 0.1 * np.asarray(gradient.mean, np.float64)
        state = step(state, own)
        change = -rate * np.asarray(before.std) ** 2 * kept / (1 - 0.9**number) / temper
        assert np.all(np.abs(change) < 0.1 * np.asarray(before.std))  # none is cut short
        assert np.allclose(state.posterior.mean - before.mean, change, rtol=0.01, atol=1e-6)
        ratio = 0.01 * np.asarray(gradient.log_std) / temper
        widening = -0.5 * np.log(1 + ratio + 0.5 * ratio**2)
        assert np.allclose(state.posterior.log_std - before.log_std, widening, rtol=0.01, atol=1e-6)
        assert np.abs(change).max() > 1e-3
    assert int(state.step) == 2


def test_every_example_is_augmented_by_a_key_of_its_own(key):
    stepper = Stepper(*regression()[:1], NaturalGradient()(Constant(0.1), 10), SharedDraw(), jax.random.permutation)
    inputs, targets = jnp.tile(jnp.arange(50.0), (4, 1)), jnp.arange(4)
    found, same = stepper._augmented((inputs, targets), key, None)
    assert np.array_equal(np.sort(found, axis=1), inputs)
    assert len({tuple(row) for row in np.asarray(found).tolist()}) == 4
    assert np.array_equal(same, targets)
    half = stepper._augmented((inputs[2:], targets[2:]), key, BatchPart(jnp.int32(2), 4, "devices"))[0]
    assert np.array_equal(half, found[2:])


def test_a_part_of_a_batch_has_the_keys_of_the_whole(key):
    whole = jax.random.key_data(keys_of(key, 12, None))
    part = jax.random.key_data(keys_of(key, 4, BatchPart(jnp.int32(8), 12, "devices")))
    assert np.array_equal(part, whole[8:])
    assert len(np.unique(whole, axis=0)) == 12


def test_the_noise_of_the_targets_is_the_last_latent():
    """After the weights and the prior's scales, and before what only fills the vector up."""
    model = tiny_model(likelihood=Gaussian(), multiple=8)
    assert model.fill > 0
    size = model.layout.size
    unit, scales, noise = model.split(jnp.arange(model.latent_count, dtype=jnp.float32))
    assert np.array_equal(np.concatenate([unit, scales, noise]), np.arange(size + 3))
    assert (scales.size, noise.size) == (2, 1)


def test_dropout_is_on_while_training():
    """And with a key of its own for each example: copies of one example do not come to the same."""
    network = filled(networks.MLP, (4,), 2, (30,), dropout=0.5)
    model = Model(network, like(4), FlatPrior())
    x, y = (jnp.tile(jnp.asarray(part[:1]), (8, *[1] * (part.ndim - 1))) for part in tiny_data())
    point, mask = Point(normal(model.latent_count)), everything(model)
    ask = jax.jit(lambda key: model.expected_log_likelihood(point, SharedDraw(), mask, (x, y), key)[0])
    assert len(np.unique(ask(jax.random.key(0)))) > 4
    assert not np.array_equal(ask(jax.random.key(0)), ask(jax.random.key(1)))
