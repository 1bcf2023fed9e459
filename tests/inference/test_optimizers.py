"""Natural gradients against the Fisher information by automatic differentiation; `test_elbo.py` has them find an exact
posterior."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax.errors import ArgumentError
from occamax.inference.optimizers import AdaBelief, NaturalGradient
from occamax.inference.posteriors import IndependentNormals
from occamax.inference.schedules import Constant, Ramp, Scaled
from occamax.methods import MAP


def divergence(mean, log_std, other_mean, other_log_std):
    """KL(Normal ‖ Normal); its Hessian where both are the same is the Fisher information."""
    ratio = jnp.exp(2 * (log_std - other_log_std))
    return 0.5 * (ratio + ((mean - other_mean) / jnp.exp(other_log_std)) ** 2 - 1) - (log_std - other_log_std)


def first_updates(optimizer, gradient, posterior, temper):
    update = jax.jit(lambda g, p: optimizer.update(g, optimizer.init(p), p, temper=temper)[0])
    return update(gradient, posterior)


def test_a_step_is_the_inverse_fisher_information_times_the_gradient(x64):
    mean, log_std, slopes = 0.7, -1.3, np.array([0.4, -0.9])
    fisher = jax.jit(jax.hessian(lambda p: divergence(p[0], p[1], mean, log_std)))(jnp.array([mean, log_std]))
    expected = -1e-3 / 0.02 * np.linalg.solve(np.asarray(fisher), slopes)
    optimizer = NaturalGradient(momentum=0.0, log_std_rate=1e-3, largest_step=10.0)(Constant(1e-3), 10)
    posterior = IndependentNormals(jnp.array([mean]), jnp.array([log_std]))
    gradient = IndependentNormals(jnp.array([slopes[0]]), jnp.array([slopes[1]]))
    updates = first_updates(optimizer, gradient, posterior, 0.02)
    assert updates.mean[0] == pytest.approx(expected[0], rel=1e-9)
    assert updates.log_std[0] == pytest.approx(expected[1], rel=0.01)  # the logarithm, to first order


def test_the_momentum_is_the_mean_of_the_gradients_so_far(x64):
    """Of all so far, the newer counting more: of the first alone it is that gradient itself, not a tenth of it."""
    gradients, std, rate, temper = np.array([0.4, -0.9, 0.2]), np.exp(-1.3), 1e-3, 0.02
    optimizer = NaturalGradient(momentum=0.9, largest_step=100.0)(Constant(rate), 10)
    posterior = IndependentNormals(jnp.array([0.7]), jnp.array([-1.3]))
    state = optimizer.init(posterior)
    for count in range(1, 4):
        gradient = IndependentNormals(jnp.array([gradients[count - 1]]), jnp.array([0.0]))
        updates, state = optimizer.update(gradient, state, posterior, temper=temper)
        shares = 0.9 ** np.arange(count)[::-1]
        mean = (shares * gradients[:count]).sum() / shares.sum()
        assert float(updates.mean[0]) == pytest.approx(-rate * std**2 * mean / temper, rel=1e-9)


def test_the_precision_is_updated_as_ivon_has_it(x64):
    """A Gaussian likelihood of precision a under a KL weight β: the posterior's precision p should be q = 1 + a / β.
    IVON's step of length r is p + r (q − p) + ½ r² (q − p)² / p, which is positive whatever r is (Shen et al. 2024)."""
    curvature, beta, size, rate, std = 3.0, 0.5, 20, 0.02, np.array([0.3, 0.5, 0.9])
    gradient = (std**2 * (curvature + beta) - beta) / size  # of F / N by ln σ
    precision, wanted = std**-2, 1 + curvature / beta
    optimizer = NaturalGradient(log_std_rate=rate)(Constant(1e-3), 10)
    posterior = IndependentNormals(jnp.zeros(3), jnp.log(jnp.asarray(std)))
    updates = first_updates(optimizer, IndependentNormals(jnp.zeros(3), jnp.asarray(gradient)), posterior, beta / size)
    found = np.exp(-2 * np.asarray(posterior.log_std + updates.log_std))
    ahead = rate * (wanted - precision)
    assert np.allclose(found, precision + ahead + 0.5 * ahead**2 / precision, rtol=1e-9)


@pytest.mark.parametrize("optimizer", [AdaBelief(), NaturalGradient()], ids=lambda o: type(o).__name__)
def test_the_rate_is_the_schedules(optimizer, x64):
    """Step by step: what a constant rate of a hundredth gives, times what the schedule says of the step."""
    steps, schedule = 4, Ramp(1.0, 0.0)
    posterior = IndependentNormals(jnp.array([0.7]), jnp.array([-1.3]))
    gradient = IndependentNormals(jnp.array([0.4]), jnp.array([0.2]))
    plain, scaled = optimizer(Constant(0.01), steps), optimizer(Scaled(schedule, 0.01), steps)
    states = [each.init(posterior) for each in (plain, scaled)]
    for step in range(steps):
        (one, states[0]), (two, states[1]) = (
            each.update(gradient, state, posterior, temper=0.5)
            for each, state in zip((plain, scaled), states, strict=True)
        )
        assert float(two.mean[0]) == pytest.approx(float(one.mean[0]) * (1 - step / steps), rel=1e-5)
        assert abs(float(one.mean[0])) > 1e-4


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_step_is_no_longer_than_it_may_be(sign, x64):
    """A wide posterior under a light divergence: the natural step itself would be 100,000 deviations and more. That of
    a mean is limited in deviations of the prior, before the rate."""
    optimizer = NaturalGradient(log_std_rate=1e-3)(Constant(0.1), 10)
    posterior = IndependentNormals(jnp.array([0.0, 0.0]), jnp.log(jnp.array([0.1, 2.0])))
    gradient = IndependentNormals(sign * jnp.array([1.0, 1.0]), sign * jnp.array([1.0, 1.0]))
    updates = first_updates(optimizer, gradient, posterior, 1e-7)
    assert np.allclose(updates.mean, -sign * np.array([0.05, 0.05]))
    assert np.allclose(updates.log_std, -sign * 0.1, atol=1e-3)


@pytest.mark.parametrize(
    ("option", "named"),
    [({"momentum": 1.0}, "momentum"), ({"log_std_rate": 0.0}, "log_std_rate"), ({"largest_step": 0.0}, "largest")],
)
def test_bad_values_are_named(option, named):
    with pytest.raises(ArgumentError, match=named):
        NaturalGradient(**option)


def test_a_point_has_no_natural_gradient():
    with pytest.raises(ArgumentError, match="AdaBelief"):
        MAP(optimizer=NaturalGradient())
