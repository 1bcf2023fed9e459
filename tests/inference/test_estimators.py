"""Every estimator's gradient against the exact one, by quadrature over the two weights of a logistic regression."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax.errors import ArgumentError
from occamax.experiment.program import Program
from occamax.inference.estimators import Flipout, LocalReparameterisation, SharedDraw
from occamax.inference.likelihoods import Bernoulli
from occamax.inference.model import Model
from occamax.inference.posteriors import IndependentNormals
from occamax.inference.training import Budget, objective
from occamax.methods import MAP, Flat

from ..tolerances import STANDARD_ERRORS
from ..toys import Fixed, Regression, Tiny, tiny_data

ESTIMATORS = [SharedDraw(), Flipout(), LocalReparameterisation()]


def logistic():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8, 2)).astype(np.float32)
    y = (x[:, :1] - 0.5 * x[:, 1:] > 0).astype(np.int32)
    model = Model(Regression(2), Fixed(1.5), Bernoulli())
    return model, (jnp.asarray(x), jnp.asarray(y)), IndependentNormals(jnp.array([0.4, -0.2]), jnp.array([-0.3, 0.2]))


def exact_gradient(model, data, posterior):
    """Gauss–Hermite over both weights: exact to many digits for so smooth a function."""
    nodes, shares = np.polynomial.hermite_e.hermegauss(40)
    grid = jnp.asarray(np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2), jnp.float32)
    share = jnp.asarray(np.outer(shares, shares).ravel() / shares.sum() ** 2, jnp.float32)
    mask = jnp.ones(2, bool)

    def expected(posterior):
        latents = posterior.mean + posterior.std * grid
        fits = jax.vmap(lambda one: jnp.mean(model.log_likelihood(one, mask, *data)))(latents)
        return posterior.divergence(model.latent_prior, mask) / len(data[0]) - jnp.sum(share * fits)

    return jax.grad(expected)(posterior)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_the_gradient_is_unbiased(estimator, key):
    model, data, posterior = logistic()
    mask = jnp.ones(2, bool)
    expected = exact_gradient(model, data, posterior)

    def one(k):
        return jax.grad(objective, has_aux=True)(posterior, model, mask, data, k, len(data[0]), 1.0, estimator)[0]

    found = jax.jit(jax.vmap(one))(jax.random.split(key, 20000))
    for ours, exact in ((found.mean, expected.mean), (found.log_std, expected.log_std)):
        ours = np.asarray(ours, np.float64)
        error = ours.std(0) / np.sqrt(len(ours))
        assert np.all(np.abs(ours.mean(0) - exact) < STANDARD_ERRORS * error + 1e-5)
        assert np.any(np.abs(exact) > 10 * error)  # so the test can see a mistake


def test_local_noise_lowers_the_variance(key):
    model, data, posterior = logistic()
    mask = jnp.ones(2, bool)
    spread = {}
    for estimator in ESTIMATORS:

        def one(k, estimator=estimator):
            return jax.grad(objective, has_aux=True)(posterior, model, mask, data, k, 8, 1.0, estimator)[0].mean

        spread[type(estimator)] = float(jnp.var(jax.vmap(one)(jax.random.split(key, 5000)), axis=0).sum())
    assert spread[LocalReparameterisation] < 0.7 * spread[SharedDraw]
    assert spread[Flipout] < 0.9 * spread[SharedDraw]


@pytest.mark.parametrize("estimator", ESTIMATORS[1:], ids=lambda e: type(e).__name__)
def test_removed_weights_have_no_noise(estimator, key):
    model = Model(Tiny(), Flat().prior)
    posterior = IndependentNormals.around(jax.random.normal(key, (model.latent_count,)), 0.5)
    x, y = map(jnp.asarray, tiny_data())
    none = jnp.zeros(model.layout.size, bool)
    found = model.expected_log_likelihood(posterior, estimator, none, x, y, key)
    assert np.allclose(found, np.log(0.5), atol=1e-4)
    gradient = jax.grad(lambda p: model.expected_log_likelihood(p, estimator, none, x, y, key).sum())(posterior)
    assert np.isfinite(np.asarray(gradient.log_std)).all()


@pytest.mark.parametrize("estimator", ESTIMATORS[1:], ids=lambda e: type(e).__name__)
def test_a_network_trains_with_it(estimator):
    method = Flat(estimator=estimator)
    program = Program(Model(Tiny(), method.prior), method, Budget(1, 400, 32))
    _, info = program.train(program.start(), tuple(map(jnp.asarray, tiny_data(n=64))))
    assert info.neg_elbo[-50:].mean() < 0.8 * info.neg_elbo[:50].mean()


def test_a_point_estimate_takes_no_local_estimator():
    with pytest.raises(ArgumentError, match="estimator"):
        MAP(estimator=Flipout())
