"""Every estimator's gradient against the exact one, by quadrature over the two weights of a logistic regression."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax.data.held_out import HeldOut
from occamax.errors import ArgumentError
from occamax.inference.estimators import Flipout, LocalLinear, LocalReparameterisation, SharedDraw
from occamax.inference.likelihoods import Bernoulli
from occamax.inference.model import Model
from occamax.inference.optimizers import AdaBelief
from occamax.inference.posteriors import IndependentNormals
from occamax.inference.schedules import Constant
from occamax.inference.training import Stepper, objective, start
from occamax.methods import MAP

from ..tolerances import STANDARD_ERRORS
from ..toys import Fixed, Regression, filled, like, log_likelihood, normal, tiny_data, tiny_model

ESTIMATORS = [SharedDraw(), Flipout(), LocalReparameterisation()]
BOTH = jnp.asarray(np.ones(2, bool))  # weights are kept


@functools.cache
def logistic():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8, 2)).astype(np.float32)
    y = (x[:, :1] - 0.5 * x[:, 1:] > 0).astype(np.int32)
    model = Model(Regression(2), like(2), Fixed(1.5), Bernoulli())
    return model, (jnp.asarray(x), jnp.asarray(y)), IndependentNormals(jnp.array([0.4, -0.2]), jnp.array([-0.3, 0.2]))


@functools.cache
def exact_gradient():
    """Gauss–Hermite over both weights: exact to many digits for so smooth a function."""
    model, data, posterior = logistic()
    nodes, shares = np.polynomial.hermite_e.hermegauss(40)
    grid = jnp.asarray(np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2), jnp.float32)
    share = jnp.asarray(np.outer(shares, shares).ravel() / shares.sum() ** 2, jnp.float32)

    def expected(posterior):
        latents = posterior.mean + posterior.std * grid
        fits = jax.vmap(lambda one: jnp.mean(log_likelihood(model, one, BOTH, *data)))(latents)
        return posterior.divergence(model.latent_prior, BOTH) / len(data[0]) - jnp.sum(share * fits)

    return jax.jit(jax.grad(expected))(posterior)


@functools.cache
def gradients(estimator):
    """The estimator's, one from each of many keys."""
    model, data, posterior = logistic()

    def one(k):
        return jax.grad(objective, has_aux=True)(posterior, model, BOTH, data, k, len(data[0]), 1.0, estimator)[0]

    return jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), 20000))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_the_gradient_is_unbiased(estimator):
    found, expected = gradients(estimator), exact_gradient()
    for ours, exact in ((found.mean, expected.mean), (found.log_std, expected.log_std)):
        ours = np.asarray(ours, np.float64)
        error = ours.std(0) / np.sqrt(len(ours))
        assert np.all(np.abs(ours.mean(0) - exact) < STANDARD_ERRORS * error + 1e-5)
        assert np.any(np.abs(exact) > 10 * error)  # so the test can see a mistake


def test_local_noise_lowers_the_variance():
    var = {type(estimator): np.asarray(gradients(estimator).mean).var(0).sum() for estimator in ESTIMATORS}
    assert var[LocalReparameterisation] < 0.7 * var[SharedDraw]
    assert var[Flipout] < 0.9 * var[SharedDraw]


def test_local_outputs_have_the_layers_moments():
    """A Gaussian of mean M x + b and variance S² x² + s², the bias's own."""
    mean, std = filled(eqx.nn.Linear, 3, 4), jax.tree.map(jnp.abs, filled(eqx.nn.Linear, 3, 4, seed=1))
    x, noise = normal(3, seed=2), normal(4, seed=3)
    found = jax.jit(lambda: LocalLinear(mean, std, noise)(x))()
    weight, bias, wide, bias_std, x, noise = (
        np.asarray(array, np.float64) for array in (mean.weight, mean.bias, std.weight, std.bias, x, noise)
    )
    assert np.allclose(found, weight @ x + bias + noise * np.sqrt(wide**2 @ x**2 + bias_std**2), rtol=1e-4)


@pytest.mark.parametrize("estimator", ESTIMATORS[1:], ids=lambda e: type(e).__name__)
def test_removed_weights_have_no_noise(estimator, key):
    model = tiny_model()
    posterior = IndependentNormals.around(normal(model.latent_count), 0.5)
    batch = tuple(map(jnp.asarray, tiny_data()))
    none = jnp.asarray(np.zeros(model.layout.size, bool))

    def likelihoods(posterior):
        found, _ = model.expected_log_likelihood(posterior, estimator, none, batch, key)
        return found.sum(), found

    gradient, found = jax.jit(jax.grad(likelihoods, has_aux=True))(posterior)
    assert np.allclose(found, np.log(0.5), atol=1e-4)
    assert np.isfinite(np.asarray(gradient.log_std)).all()


@pytest.mark.parametrize("estimator", ESTIMATORS[1:], ids=lambda e: type(e).__name__)
def test_a_network_trains_with_it(estimator, key):
    model, data = tiny_model(), tuple(map(jnp.asarray, tiny_data(n=64)))
    optimizer = AdaBelief()(Constant(5e-3), 400)
    state = start(model, IndependentNormals.around(normal(model.latent_count), 0.1), optimizer, key)
    epoch = jax.jit(Stepper(model, optimizer, estimator).epoch(400, 32, HeldOut(64)))
    after, info = epoch(state, data)
    assert info.neg_elbo[-50:].mean() < 0.8 * info.neg_elbo[:50].mean()
    assert int(after.step) == 400


def test_a_point_estimate_takes_no_local_estimator():
    with pytest.raises(ArgumentError, match="estimator"):
        MAP(estimator=Flipout())
