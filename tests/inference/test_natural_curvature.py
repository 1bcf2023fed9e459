"""Natural gradients whose deviations follow a curvature that is measured now and then: against the exact posterior of a
regression, and the same for any way of sharing a batch out."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import occamax as ox
from occamax.errors import ArgumentError
from occamax.inference.curvature import GaussNewton
from occamax.inference.model import Model
from occamax.inference.optimizers import NaturalGradient
from occamax.inference.posteriors import IndependentNormals
from occamax.inference.schedules import Constant, Cosine
from occamax.inference.training import Stepper, start
from occamax.methods import method_from

from ..toys import Fixed, KnownNoise, Regression, conjugate_problem, like, normal, tiny_data, tiny_model


@functools.cache
def stepper(every, rate=0.002, micro_batches=1, steps=4000):
    optimizer = NaturalGradient(log_std_rate=rate)(Cosine(0.1), steps)
    return Stepper(tiny_model(), optimizer, micro_batches=micro_batches, curvature=GaussNewton(), every=every)


@pytest.mark.parametrize("beta", [0.4, 1.0])
def test_deviations_come_to_the_exact_ones(beta, key):
    """Of a linear regression at a KL weight: precision 1 + s² Σ x² / (noise² β) in the prior's unit, s its deviation. A
    curvature of a batch in place of an example, or counted for one step in place of three, is far from it."""
    x, y, noise, prior_std = conjugate_problem(20)
    model = Model(Regression(5), like(5), Fixed(prior_std), KnownNoise(noise))
    batch, steps = (jnp.asarray(x, jnp.float32), jnp.asarray(y[:, None], jnp.float32)), 12_000
    optimizer = NaturalGradient(log_std_rate=5e-4)(Cosine(0.1), steps)
    ours = Stepper(model, optimizer, curvature=GaussNewton(), every=3)
    state = start(model, IndependentNormals.around(jnp.zeros(5), 0.2), optimizer, key)
    state = state._replace(kl_weight=jnp.float32(beta))

    def one(state, given):
        own, probes = given
        state, _ = ours(state, batch, own, len(x), probes)
        return state, state.posterior.log_std

    run = jax.jit(lambda state: lax.scan(one, state, (jax.random.split(key, steps), ours.probes(steps)))[1])
    found = np.exp(np.asarray(run(state))[-4000:].mean(0))
    exact = (1 + prior_std**2 * (x**2).sum(0) / noise**2 / beta) ** -0.5
    assert np.allclose(found, exact, rtol=0.05)  # the signs' noise over the last third is some .015
    assert np.all(exact < 0.15)


def test_steps_without_a_measure_leave_the_deviations(key):
    ours, batch = stepper(every=2), tuple(map(jnp.asarray, tiny_data()))
    first = start(tiny_model(), IndependentNormals.around(normal(tiny_model().latent_count), 0.3), ours.optimizer, key)
    step = jax.jit(lambda state, probes: ours(state, batch, key, 32, probes)[0])
    asked, left = step(first, 2.0), step(first, 0.0)
    assert np.array_equal(left.posterior.log_std, first.posterior.log_std)
    assert np.all(asked.posterior.log_std != first.posterior.log_std)
    assert np.array_equal(asked.posterior.mean, left.posterior.mean)  # means go by the gradient, measured or not


def test_each_measure_stands_for_the_steps_up_to_the_next():
    assert np.allclose(stepper(every=4).probes(10), [10 / 3, 0, 0, 0, 10 / 3, 0, 0, 0, 10 / 3, 0])
    assert float(stepper(every=7).probes(100).sum()) == pytest.approx(100)


def test_a_batch_in_parts_is_measured_as_the_whole(key):
    batch = tuple(map(jnp.asarray, tiny_data(12)))
    found = []
    for parts in (1, 3):
        ours = stepper(every=1, micro_batches=parts)
        model = ours.model
        state = start(model, IndependentNormals.around(normal(model.latent_count), 0.3), ours.optimizer, key)
        found.append(jax.jit(lambda state, ours=ours: ours(state, batch, key, 32)[0])(state).posterior.log_std)
    assert np.allclose(*found, atol=1e-6)


def test_seeds_at_once_are_those_alone():
    x, y = tiny_data(64)
    network = tiny_model().network
    optimizer = NaturalGradient(log_std_rate=0.05, curvature=GaussNewton(), every=3)
    method = ox.NaturalBMR(posterior=ox.MeanField(0.8), optimizer=optimizer, calibration=None)
    how = {"epochs": 2, "steps_per_epoch": 7, "batch_size": 16, "num_samples": 2, "progress": False}
    both = ox.fit(network, (np.asarray(x), np.asarray(y)), method, seeds=2, **how)
    alone = ox.fit(network, (np.asarray(x), np.asarray(y)), method, seed=1, **how)
    assert np.allclose(both[1].state.posterior.log_std, alone.state.posterior.log_std, atol=1e-5)
    assert not np.allclose(both[0].state.posterior.log_std, alone.state.posterior.log_std, atol=1e-3)


@pytest.mark.parametrize(("option", "named"), [({"curvature": 3.0}, "curvature"), ({"every": 0}, "every")])
def test_bad_values_are_named(option, named):
    with pytest.raises(ArgumentError, match=named):
        NaturalGradient(**option)


def test_the_option_is_kept_as_data():
    method = ox.NaturalBMR(optimizer=NaturalGradient(curvature=GaussNewton(), every=5), learning_rate=Constant(0.01))
    assert method_from(method.as_data()) == method
