"""Natural gradients against the Fisher information by automatic differentiation; `test_elbo.py` has them find an exact
posterior."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax.errors import ArgumentError
from occamax.inference.optimizers import NaturalGradient
from occamax.inference.posteriors import IndependentNormals
from occamax.inference.schedules import Constant
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
    optimizer = NaturalGradient(momentum=0.0, log_std_rate=1e-3)(Constant(1e-3), 10)
    posterior = IndependentNormals(jnp.array([mean]), jnp.array([log_std]))
    gradient = IndependentNormals(jnp.array([slopes[0]]), jnp.array([slopes[1]]))
    updates = first_updates(optimizer, gradient, posterior, 0.02)
    assert updates.mean[0] == pytest.approx(expected[0], rel=1e-9)
    assert updates.log_std[0] == pytest.approx(expected[1], rel=0.01)  # the logarithm, to first order


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_step_is_no_longer_than_a_tenth_of_the_deviation(sign, x64):
    """A wide posterior under a light divergence: the natural step itself would be 100,000 deviations and more."""
    optimizer = NaturalGradient()(Constant(0.1), 10)
    posterior = IndependentNormals(jnp.array([0.0, 0.0]), jnp.log(jnp.array([0.1, 2.0])))
    gradient = IndependentNormals(sign * jnp.array([1.0, 1.0]), sign * jnp.array([1.0, 1.0]))
    updates = first_updates(optimizer, gradient, posterior, 1e-7)
    assert np.allclose(updates.mean, -sign * np.array([0.01, 0.2]))
    assert np.allclose(updates.log_std, -sign * 0.1, atol=1e-3)


@pytest.mark.parametrize(
    ("option", "named"), [({"momentum": 1.0}, "momentum"), ({"log_std_rate": 0.0}, "log_std_rate")]
)
def test_bad_values_are_named(option, named):
    with pytest.raises(ArgumentError, match=named):
        NaturalGradient(**option)


def test_a_point_has_no_natural_gradient():
    with pytest.raises(ArgumentError, match="AdaBelief"):
        MAP(optimizer=NaturalGradient())
