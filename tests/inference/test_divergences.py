"""Closed forms against quadrature, scipy's densities and finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from occamax.inference.divergences import (
    gamma_log_density,
    lognormal_gamma_divergence,
    normal_divergence,
    normal_divergences,
    normal_log_density,
)

from ..tolerances import CLOSED_FORM, FINITE_DIFFERENCE, QUADRATURE

MEANS, STDS = st.floats(-3.0, 3.0), st.floats(0.05, 2.5)
SHAPES, RATES = st.floats(0.3, 4.0), st.floats(0.2, 8.0)


def numbers(*values):
    return [jnp.asarray(value, jnp.float64) for value in values]


def central(function, at, place, h=1e-6):
    """The slope by one of the arguments."""
    up, down = list(at), list(at)
    up[place], down[place] = at[place] + h, at[place] - h
    return (function(*up) - function(*down)) / (2 * h)


@given(mean=MEANS, std=STDS)
def test_normal_divergence_is_the_integral(x64, mean, std):
    q, p = stats.norm(mean, std), stats.norm(0, 1)
    integral, _ = integrate.quad(lambda w: q.pdf(w) * (q.logpdf(w) - p.logpdf(w)), mean - 12 * std, mean + 12 * std)
    assert np.isclose(normal_divergence(*numbers(mean, np.log(std))), integral, atol=QUADRATURE, rtol=QUADRATURE)


def test_normal_divergence_of_the_prior_is_exactly_zero(x64):
    assert normal_divergence(jnp.zeros(3), jnp.zeros(3)).sum() == 0.0


@given(mean=st.floats(-1.5, 1.5), std=st.floats(0.05, 1.0), shape=SHAPES, rate=RATES)
def test_lognormal_gamma_divergence_is_the_integral(x64, mean, std, shape, rate):
    q, p = stats.lognorm(s=std, scale=np.exp(mean)), stats.gamma(shape, scale=1 / rate)

    def integrand(u):  # over the logarithm, where both are well behaved
        value = np.exp(u)
        return stats.norm.pdf(u, mean, std) * (q.logpdf(value) - p.logpdf(value))

    integral, _ = integrate.quad(integrand, mean - 10 * std, mean + 10 * std, limit=200)
    found = lognormal_gamma_divergence(*numbers(mean, std, shape, rate))
    assert np.isclose(found, integral, atol=QUADRATURE, rtol=QUADRATURE)
    assert found >= -QUADRATURE


@given(value=st.floats(0.01, 5.0), shape=SHAPES, rate=RATES)
def test_log_densities_are_scipys(x64, value, shape, rate):
    assert np.isclose(normal_log_density(*numbers(value)), stats.norm.logpdf(value), rtol=CLOSED_FORM)
    expected = stats.gamma(shape, scale=1 / rate).logpdf(value)
    assert np.isclose(gamma_log_density(*numbers(np.log(value), shape, rate)), expected, rtol=CLOSED_FORM, atol=1e-12)


@given(mean=MEANS, std=STDS, shape=SHAPES, rate=RATES)
def test_gradients_are_finite_differences(x64, mean, std, shape, rate):
    for function, at in (
        (normal_divergence, numbers(mean, np.log(std))),
        (lognormal_gamma_divergence, numbers(mean, std, shape, rate)),
    ):
        for place in (0, 1):
            slope = jax.grad(function, place)(*at)
            assert np.isclose(slope, central(function, at, place), rtol=FINITE_DIFFERENCE, atol=FINITE_DIFFERENCE)


def test_slopes_of_a_sum_are_those_of_its_terms(x64):
    """They are written by hand; what is not in the mask has none."""
    mean, log_std = jnp.array([-1.2, 0.4, 0.0, 1.0]), jnp.log(jnp.array([0.1, 1.7, 0.6, 0.3]))
    mask = jnp.array([True, True, True, False])
    plain = lambda *at: 0.7 * jnp.sum(jnp.where(mask, normal_divergence(*at), 0.0))  # noqa: E731
    ours = lambda *at: 0.7 * normal_divergences(*at, mask)  # noqa: E731
    assert np.isclose(ours(mean, log_std), plain(mean, log_std), rtol=CLOSED_FORM)
    for wanted, found in zip(*(jax.grad(one, (0, 1))(mean, log_std) for one in (plain, ours)), strict=True):
        assert np.allclose(found, wanted, rtol=CLOSED_FORM, atol=1e-12)
        assert found[3] == 0.0
