"""The diagonal curvature against the matrix itself, and the posterior that it makes against the exact one."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax.errors import ArgumentError
from occamax.inference.beginning import Beginning, latents_at, unit_stds
from occamax.inference.curvature import EmpiricalFisher, GaussNewton, diagonal
from occamax.inference.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood
from occamax.inference.model import Model
from occamax.inference.priors import FanInPrior, FlatPrior, HorseshoePrior, NormalPrior

from .. import tolerances
from ..toys import (
    Fixed,
    KnownNoise,
    Regression,
    conjugate_problem,
    everything,
    exact_posterior,
    filled,
    like,
    normal,
    tiny_data,
    tiny_model,
)

TARGETS = {
    Categorical(): np.array([0, 2, 1, 1, 0]),
    Bernoulli(): np.array([[0, 1, 1], [1, 0, 0], [1, 1, 0], [0, 0, 0], [1, 1, 1]], np.float32),
    Gaussian(center=(1.0,), scale=(2.0,)): np.asarray(normal(5, 3, seed=1)),
    KnownNoise(0.6): np.asarray(normal(5, 3, seed=1)),
}


@pytest.mark.parametrize("likelihood", TARGETS, ids=lambda one: type(one).__name__)
def test_the_root_of_the_curvature_at_the_outputs(likelihood):
    """R Rᵀ is the Hessian, whether the likelihood knows its root or the eigenvectors find it."""
    outputs, targets = normal(5, 3), jnp.asarray(TARGETS[likelihood])
    log_scales = jnp.full(likelihood.scale_gammas()[0].size, 0.7)

    def cost(output, target):
        return -likelihood.log_prob(output[None], target[None], log_scales)[0]

    @jax.jit  # one program for all of it
    def both(outputs):
        finds = likelihood.curvature_root, lambda *given: Likelihood.curvature_root(likelihood, *given)
        units = jnp.broadcast_to(jnp.eye(3)[:, None], (3, 5, 3))
        columns = [jax.vmap(lambda sign, find=find: find(outputs, targets, log_scales, sign))(units) for find in finds]
        return [jnp.einsum("cni,cnj->nij", root, root) for root in columns], jax.vmap(jax.hessian(cost))(
            outputs, targets
        )

    squares, exact = both(outputs)
    assert all(np.allclose(square, exact, atol=tolerances.SINGLE) for square in squares)


@pytest.fixture(scope="module")
def tiny():
    """A model, its weights, data, and the Jacobian of the outputs by the weights."""
    model, (inputs, targets) = tiny_model(), tiny_data(10)
    weights = model.layout.pack(model.network)
    ask = lambda w: model.outputs(model.layout.bind(model.network, w), jnp.asarray(inputs))  # noqa: E731
    return model, weights, (inputs, targets), np.asarray(ask(weights)), np.asarray(jax.jacobian(ask)(weights))


@pytest.mark.parametrize("kind", [GaussNewton, EmpiricalFisher])
def test_the_estimate_is_unbiased(kind, tiny):
    model, weights, (inputs, targets), outputs, jacobian = tiny
    chances = np.exp(outputs) / np.exp(outputs).sum(1, keepdims=True)
    if kind is GaussNewton:
        middle = np.einsum("nk,kl->nkl", chances, np.eye(2)) - np.einsum("nk,nl->nkl", chances, chances)
    else:
        slopes = np.eye(2)[targets] - chances
        middle = np.einsum("nk,nl->nkl", slopes, slopes)
    exact = np.einsum("nkw,nkl,nlw->w", jacobian, middle, jacobian)
    how = kind(draws=3000, batch_size=4)  # the last of three batches is filled up
    found = diagonal(model, weights, (), jnp.zeros(0), lambda rows: (inputs[rows], targets[rows]), 10, how)
    error = np.sqrt(2 / how.draws)  # of the square of a sum of signs: at most that of a Gaussian's
    assert np.all(np.abs(found - exact) < tolerances.STANDARD_ERRORS * error * exact + 1e-9)


def test_some_examples_stand_for_all(tiny):
    model, weights, (inputs, targets), *_ = tiny
    same = np.repeat(inputs[:1], 10, 0), np.repeat(targets[:1], 10)
    take = lambda rows: (same[0][rows], same[1][rows])  # noqa: E731
    one, all_ = (
        diagonal(model, weights, (), jnp.zeros(0), take, 10, EmpiricalFisher(1, count, 1)) for count in (2, 10)
    )
    assert np.allclose(one, all_, rtol=1e-5)


def test_a_linear_regression_has_its_exact_posterior():
    """One output and one example a batch: no sign is left to chance. At a KL weight every datum counts 1/β times."""
    x, y, noise_std, prior_std = conjugate_problem()
    x = x.astype(np.float32)
    model = Model(Regression(5), like(5), Fixed(prior_std), KnownNoise(noise_std))
    take = lambda rows: (x[rows], y[rows].astype(np.float32))  # noqa: E731
    weights = jnp.zeros(5)
    found = diagonal(model, weights, (), jnp.zeros(0), take, len(x), GaussNewton(1, batch_size=1))
    for kl_weight in (1.0, 0.2):
        _, covariance = exact_posterior(x, y, noise_std * kl_weight**0.5, np.full(5, prior_std**2))
        stds = prior_std * unit_stds(model, Beginning(weights, found, jnp.zeros(0), (), jnp.ones(5, bool)), kl_weight)
        assert np.allclose(stds**-2.0, np.diag(np.linalg.inv(covariance)), rtol=1e-4)


class Scaled(eqx.Module):
    """4 → 3 → 2 with a normalisation, whose gains lie around one."""

    first: eqx.nn.Linear
    norm: eqx.nn.LayerNorm
    last: eqx.nn.Linear

    def __init__(self, key):
        self.first, self.norm = eqx.nn.Linear(4, 3, key=key), eqx.nn.LayerNorm(3)
        self.last = eqx.nn.Linear(3, 2, key=key)

    def __call__(self, x):
        return self.last(jnp.tanh(self.norm(self.first(x))))


@pytest.mark.parametrize(
    "prior", [FlatPrior(), FanInPrior(), NormalPrior(0.3), HorseshoePrior()], ids=lambda one: type(one).__name__
)
def test_latents_of_given_weights_give_these_weights(prior):
    network = filled(Scaled)
    model = Model(network, like(4), prior, Gaussian(), multiple=7)
    weights = jnp.asarray(np.asarray(model.layout.pack(network)) + model.layout.gains().astype(np.float32))

    @jax.jit
    def there_and_back(weights):
        latents = latents_at(model, weights, jnp.array([1.5]))
        return latents, model.weights(latents, everything(model))

    latents, back = there_and_back(weights)
    assert latents.shape == (model.latent_count,)
    assert np.allclose(back, weights, rtol=1e-4, atol=1e-6)
    assert np.allclose(model.split(latents)[2], 1.5)


def test_scales_are_fitted_to_the_weights():
    """The posterior mean of a precision under its conjugate prior, layer by layer."""
    model = tiny_model(FanInPrior(precision_shape=3.0, precision_rate=0.5))
    first, second = model.layout.split(4.0 * model.layout.pack(model.network))
    found = np.exp(model.prior.fitted_scales(model.layout, jnp.concatenate([first, second])))
    for precision, weights, fan_in in zip(found, (first, second), (4, 3), strict=True):
        exact = (3.0 + weights.size / 2) / (0.5 + np.sum(np.asarray(weights) ** 2 * fan_in) / 2)
        assert np.isclose(precision, exact, rtol=1e-5)
    noise = Gaussian(precision_shape=1.0, precision_rate=2.0, center=(1.0,), scale=(2.0,))
    log_precision = noise.fitted_scales(jnp.array([[0.5], [1.0]]), np.array([1.0, 1.0]))
    assert np.isclose(np.exp(log_precision[0]), (1.0 + 1.0) / (2.0 + 0.5 * (0.25 + 1.0)), rtol=1e-5)


def test_bad_numbers_are_refused():
    with pytest.raises(ArgumentError, match="draws: 0 given"):
        GaussNewton(draws=0)
