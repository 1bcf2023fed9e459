import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from occamax.inference.divergences import (
    gamma_log_density,
    lognormal_gamma_divergence,
    normal_divergence,
    normal_log_density,
)

from ..tolerances import FINITE_DIFFERENCE, QUADRATURE


@pytest.mark.parametrize(("mean", "std"), [(0.3, 0.7), (-2.0, 0.05), (0.0, 1.0), (1.5, 2.0)])
def test_normal_divergence_is_the_integral(x64, mean, std):
    q, p = stats.norm(mean, std), stats.norm(0, 1)
    integral, _ = integrate.quad(lambda w: q.pdf(w) * (q.logpdf(w) - p.logpdf(w)), mean - 12 * std, mean + 12 * std)
    assert np.isclose(
        normal_divergence(jnp.float64(mean), jnp.log(jnp.float64(std))), integral, atol=QUADRATURE, rtol=QUADRATURE
    )


def test_normal_divergence_of_the_prior_is_exactly_zero(x64):
    assert normal_divergence(jnp.zeros(3), jnp.zeros(3)).sum() == 0.0


@pytest.mark.parametrize(
    ("mean", "std", "shape", "rate"), [(0.1, 0.3, 2.0, 2.0), (-1.0, 0.8, 0.5, 1.0), (1.0, 0.1, 2.0, 6.0)]
)
def test_lognormal_gamma_divergence_is_the_integral(x64, mean, std, shape, rate):
    q, p = stats.lognorm(s=std, scale=np.exp(mean)), stats.gamma(shape, scale=1 / rate)

    def integrand(u):  # over the logarithm, where both are well behaved
        value = np.exp(u)
        return stats.norm.pdf(u, mean, std) * (q.logpdf(value) - p.logpdf(value))

    integral, _ = integrate.quad(integrand, mean - 10 * std, mean + 10 * std)
    assert np.isclose(
        lognormal_gamma_divergence(*map(jnp.float64, (mean, std, shape, rate))),
        integral,
        atol=QUADRATURE,
        rtol=QUADRATURE,
    )


def test_log_densities_are_scipys(x64):
    assert np.isclose(normal_log_density(jnp.float64(0.7)), stats.norm.logpdf(0.7))
    assert np.isclose(
        gamma_log_density(*map(jnp.float64, (np.log(0.4), 2.0, 6.0))), stats.gamma(2.0, scale=1 / 6.0).logpdf(0.4)
    )


@pytest.mark.parametrize(
    "function", [normal_divergence, lambda m, s: lognormal_gamma_divergence(m, s, jnp.float64(2.0), jnp.float64(6.0))]
)
def test_gradients_are_finite_differences(x64, function):
    mean, std, h = jnp.float64(0.4), jnp.float64(0.6), 1e-6
    gradient = jax.grad(function, (0, 1))(mean, std)
    by_mean = (function(mean + h, std) - function(mean - h, std)) / (2 * h)
    by_std = (function(mean, std + h) - function(mean, std - h)) / (2 * h)
    assert np.allclose(gradient, (by_mean, by_std), rtol=FINITE_DIFFERENCE)
