"""ΔF against quadrature, exact evidence of conjugate regression, its limits and its neighbours."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from occamax.reduction import delta_f

from ..tolerances import CLOSED_FORM, FINITE_DIFFERENCE, QUADRATURE
from ..toys import conjugate_problem, exact_evidence, exact_posterior

CASES = [  # mean, var, reduced_var, full_var
    (0.4, 0.2, 0.3, 1.0),
    (-1.5, 0.05, 0.01, 1.0),
    (0.3, 0.5, 0.7, 2.5),
    (0.1, 0.02, 4.0, 0.5),
]


def arrays(*values):
    return [jnp.asarray(value, jnp.float64) for value in values]


@pytest.mark.parametrize(("mean", "var", "reduced_var", "full_var"), CASES)
def test_independent_is_the_log_of_the_integral(x64, mean, var, reduced_var, full_var):
    q = stats.norm(mean, np.sqrt(var))
    full, reduced = stats.norm(0, np.sqrt(full_var)), stats.norm(0, np.sqrt(reduced_var))
    w = np.linspace(mean - 12, mean + 12, 400001)
    weight = np.exp(q.logpdf(w) + reduced.logpdf(w) - full.logpdf(w))
    mass, first, second = (integrate.trapezoid(w**k * weight, w) for k in range(3))
    found = delta_f.independent(*arrays(mean, var, reduced_var, full_var))
    assert np.isclose(found.delta_f, np.log(mass), atol=QUADRATURE)
    assert np.isclose(found.mean, first / mass, atol=QUADRATURE)
    assert np.isclose(found.var, second / mass - (first / mass) ** 2, atol=QUADRATURE)


@pytest.mark.parametrize("full_var", [1.0, 0.3, 2.0])
def test_removal_is_the_savage_dickey_ratio_and_the_limit(x64, full_var):
    mean, var = arrays([0.4, -0.1, 2.0], [0.2, 0.9 * full_var, 0.05])
    ratio = stats.norm.logpdf(0, mean, np.sqrt(var)) - stats.norm.logpdf(0, 0, np.sqrt(full_var))
    assert np.allclose(delta_f.removal(mean, var, full_var), ratio, rtol=CLOSED_FORM)
    gone = delta_f.independent(mean, var, 0.0, full_var)
    assert np.allclose(gone.delta_f, ratio, rtol=CLOSED_FORM)
    assert not gone.mean.any()
    assert not gone.var.any()
    nearly = delta_f.independent(mean, var, 1e-14 * full_var, full_var)
    assert np.allclose(nearly.delta_f, ratio, rtol=1e-9)


def test_an_unchanged_prior_changes_nothing(x64):
    mean, var = arrays([0.4, -1.0], [0.2, 0.6])
    same = delta_f.independent(mean, var, 1.7, 1.7)
    assert np.allclose(same.delta_f, 0.0, atol=1e-15)
    assert np.allclose(same.mean, mean, rtol=1e-15)
    assert np.allclose(same.var, var, rtol=1e-15)
    dense = delta_f.dense(mean, jnp.diag(var) + 0.05, 1.7, 1.7)
    assert np.allclose(dense.delta_f, 0.0, atol=1e-14)


def test_a_prior_too_wide_for_the_posterior_is_infinite_not_nan(x64):
    found = delta_f.independent(*arrays(0.1, 3.0, 2.0, 1.0))
    assert np.isposinf(found.delta_f)


def test_signs(x64):
    """A weight the data do not need goes; one they insist on stays."""
    useless, needed = delta_f.removal(*arrays([0.01, 2.0], [0.5, 0.01]))
    assert useless > 0 > needed


def test_dense_with_a_diagonal_covariance_is_independent(x64):
    mean, var, reduced, full = arrays([0.4, -0.3, 1.2], [0.2, 0.7, 0.1], [0.5, 0.0, 0.02], [1.3, 2.0, 0.4])
    apart, joined = delta_f.independent(mean, var, reduced, full), delta_f.dense(mean, jnp.diag(var), reduced, full)
    assert np.isclose(joined.delta_f, apart.delta_f.sum(), rtol=CLOSED_FORM)
    assert np.allclose(joined.mean, apart.mean, atol=CLOSED_FORM)
    assert np.allclose(joined.var, np.diag(apart.var), atol=CLOSED_FORM)


@pytest.mark.parametrize("gone", [(0,), (1,), (3,), (1, 3), (0, 2, 4), (0, 1, 2, 3, 4)])
def test_dense_removal_is_the_exact_change_of_evidence(x64, gone):
    """In conjugate regression the evidence with and without any weights is known exactly."""
    x, y, noise, prior_std = conjugate_problem()
    full = np.full(x.shape[1], prior_std**2)
    reduced = full.copy()
    reduced[list(gone)] = 0.0
    mean, covariance = exact_posterior(x, y, noise, full)
    expected = exact_evidence(x, y, noise, reduced) - exact_evidence(x, y, noise, full)
    found = delta_f.dense(*arrays(mean, covariance, reduced, full))
    assert np.isclose(found.delta_f, expected, rtol=1e-8)
    left = [i for i in range(x.shape[1]) if i not in gone]
    if left:
        mean_left, covariance_left = exact_posterior(x[:, left], y, noise, full[left])
        assert np.allclose(found.mean[jnp.array(left)], mean_left, rtol=1e-8)
        assert np.allclose(found.var[np.ix_(left, left)], covariance_left, rtol=1e-8)


def test_independent_removal_is_exact_where_the_posterior_is_independent(x64):
    """Orthogonal inputs make the exact posterior factorise: weight by weight, and in groups."""
    x, y, noise, prior_std = conjugate_problem()
    x = np.linalg.qr(x)[0] * 3.0
    full = np.full(x.shape[1], prior_std**2)
    mean, covariance = exact_posterior(x, y, noise, full)
    before = exact_evidence(x, y, noise, full)

    def change(gone):
        return exact_evidence(x, y, noise, np.where(np.isin(np.arange(5), gone), 0.0, full)) - before

    mean, var, full_var = arrays(mean, np.diag(covariance), full)
    alone = delta_f.removal(mean, var, full_var)
    assert np.allclose(alone, [change([i]) for i in range(5)], rtol=1e-8)
    groups = jnp.array([0, 1, 0, -1, 1])
    together = delta_f.grouped(mean, var, groups, 2, full_var=full_var)
    assert np.allclose(together.delta_f, [change([0, 2]), change([1, 4])], rtol=1e-8)
    assert np.allclose(together.mean, [0, 0, 0, mean[3], 0])


def test_groups_can_be_shrunk_instead_of_removed(x64):
    mean, var = arrays([0.4, -0.3, 1.2], [0.2, 0.7, 0.1])
    found = delta_f.grouped(mean, var, jnp.array([1, 0, 1]), 2, jnp.array([0.5, 0.1]))
    each = delta_f.independent(mean, var, jnp.array([0.1, 0.5, 0.1]))
    assert np.allclose(found.delta_f, [each.delta_f[1], each.delta_f[0] + each.delta_f[2]], rtol=CLOSED_FORM)


def test_gradients_are_finite_differences(x64):
    def total(mean, var, reduced_var):
        return delta_f.independent(mean, var, reduced_var, 1.4).delta_f

    at, h = arrays(0.4, 0.3, 0.2), 1e-6
    gradient = jax.grad(total, (0, 1, 2))(*at)
    for i in range(3):
        up, down = list(at), list(at)
        up[i], down[i] = at[i] + h, at[i] - h
        assert np.isclose(gradient[i], (total(*up) - total(*down)) / (2 * h), rtol=FINITE_DIFFERENCE)


def test_single_precision_is_good_enough_for_training():
    mean, var = jnp.float32(1e-3), jnp.float32(1e-6)
    assert np.isclose(delta_f.removal(mean, var), -0.5 * (np.log(1e-6) + 1.0), rtol=1e-5)


@pytest.mark.parametrize("weight", [0.1, 0.5, 1.0, 3.0])
def test_retempering_is_what_the_exact_posterior_does(x64, weight):
    """A divergence that weighs β counts the data 1/β times: a regression whose noise variance is β times as large as
    that of the one whose posterior is wanted. Orthogonal inputs, so that the exact posterior is independent."""
    rng = np.random.default_rng(0)
    x = np.linalg.qr(rng.normal(size=(40, 5)))[0] * np.array([1.0, 2.0, 5.0, 9.0, 0.1])
    y = x @ rng.normal(size=5) + 0.5 * rng.normal(size=40)

    def posterior(noise_var, prior_var=0.7):
        precision = np.diag(x.T @ x) / noise_var + 1 / prior_var
        return arrays(x.T @ y / noise_var / precision, 1 / precision)

    honest, tempered = posterior(0.25), posterior(0.25 * weight)
    found = delta_f.retempered(*tempered, weight, 0.7)
    for one, other in zip(found, honest, strict=True):
        assert np.allclose(one, other, atol=CLOSED_FORM)


def test_retempering_is_off_where_inputs_correlate(x64):
    """Ten examples of two inputs at correlation .9, unit noise and prior: the mean-field optimum at β has the mean
    (H + βI)⁻¹h and the precisions diag(H)/β + 1. Reweighed, its variances are those of β = 1, its means are not."""
    H = 10 * np.array([[1.0, 0.9], [0.9, 1.0]])
    h = H @ np.array([0.929, -1.387])

    def optimum(beta):
        return arrays(np.linalg.solve(H + beta * np.eye(2), h), 1 / (np.diag(H) / beta + 1))

    (mean, var), found = optimum(1.0), delta_f.retempered(*optimum(0.05), 0.05)
    assert np.allclose(found[1], var, rtol=CLOSED_FORM)
    assert not np.allclose(found[0], mean, rtol=0.1)
    assert np.isclose(delta_f.removal(mean, var)[0], 0.48, atol=0.005)
    assert np.isclose(delta_f.removal(*found)[0], -2.31, atol=0.005)


def test_the_sum_of_a_group_is_off_where_inputs_correlate(x64):
    """24 equal weights whose posterior means are .05, 220 examples, unit noise, prior variance ⅛."""
    count, full_var = 24, 1 / 8

    def both(correlation):
        H = 220 * ((1 - correlation) * np.eye(count) + correlation)
        precision = H + np.eye(count) / full_var
        mean, var, covariance = arrays(np.full(count, 0.05), 1 / np.diag(precision), np.linalg.inv(precision))
        group = jnp.zeros(count, int)
        summed = delta_f.grouped(mean, var, group, 1, full_var=full_var).delta_f[0]
        return float(summed), float(delta_f.dense(mean, covariance, 0.0, full_var).delta_f)

    assert np.isclose(*both(0.0), rtol=CLOSED_FORM)
    assert np.allclose(both(0.3), [33, -15], atol=0.5)


def test_a_posterior_at_its_prior_stays_there(x64):
    mean, var = delta_f.retempered(*arrays(0.0, 1.0), 0.1)
    assert (float(mean), float(var)) == (0.0, 1.0)
