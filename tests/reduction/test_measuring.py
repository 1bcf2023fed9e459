"""The measured change of the bound, beside closed forms; and that no more goes than it allows."""

import functools
import math
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from occamax.errors import ArgumentError
from occamax.inference.likelihoods import Gaussian
from occamax.inference.model import Model
from occamax.inference.optimizers import AdaBelief
from occamax.inference.posteriors import IndependentNormals
from occamax.inference.priors import FlatPrior
from occamax.inference.schedules import Constant
from occamax.inference.training import start
from occamax.reduction import Evidence, Measuring, Reduction, reduce
from occamax.reduction.criteria import Beliefs
from occamax.reduction.proposing import of_units, of_weights
from occamax.structure.units import Part, Units

from ..toys import filled, like

WEIGHTS, EXAMPLES = 24, 4096
ALL = Reduction(Evidence(-math.inf), keep_output=False, measuring=Measuring(draws=1024))


@functools.cache
def linear():
    """A regression whose noise and prior deviation are one: what the scales are is as good as known."""
    model = Model(filled(eqx.nn.Linear, WEIGHTS, 1, use_bias=False), like(WEIGHTS), FlatPrior(), Gaussian())
    return model, AdaBelief()(Constant(1e-3), 1)


def believed(mean, std, kl_weight=1.0):
    model, optimizer = linear()
    scales = model.latent_count - WEIGHTS
    latents = jnp.concatenate([jnp.asarray(mean, jnp.float32), jnp.zeros(scales)])
    logs = jnp.concatenate([jnp.log(jnp.broadcast_to(jnp.asarray(std, jnp.float32), WEIGHTS)), jnp.full(scales, -20.0)])
    state = start(model, IndependentNormals(latents, logs), optimizer, jax.random.key(0))
    return state._replace(kl_weight=jnp.float32(kl_weight))


@functools.cache
def compiled(reduction, units=()):
    model, _ = linear()
    return jax.jit(lambda state, examples: reduce(model, state, reduction, 0.5, units, examples, len(examples[1])))


def inputs(correlation, seed=0):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(EXAMPLES, 1))
    own = rng.normal(size=(EXAMPLES, WEIGHTS))
    return (math.sqrt(correlation) * common + math.sqrt(1 - correlation) * own).astype(np.float32)


def targets(x, weights, seed=1):
    return (x @ weights + np.random.default_rng(seed).normal(size=len(x)))[:, None].astype(np.float32)


def test_the_change_is_that_of_the_closed_form():
    """E_q of the squares is (y − xm)² + Σ x²σ²; each weight's divergence is ½(m² + σ² − 1) − ln σ."""
    mean, std = np.linspace(-0.3, 0.3, WEIGHTS), np.linspace(0.05, 0.4, WEIGHTS)
    x = inputs(0.3)
    y = targets(x, mean)
    _, record = compiled(ALL)(believed(mean, std), (x, y))
    before = 0.5 * (((y[:, 0] - x @ mean) ** 2).sum() + (x**2 @ std**2).sum())
    after = 0.5 * (y**2).sum()
    paid = (0.5 * (mean**2 + std**2 - 1) - np.log(std)).sum()
    assert np.isclose(record.divergence, -paid, rtol=1e-5)
    assert np.isclose(record.expected_nll, after - before, rtol=0.05)
    predicted = -0.5 * (np.log(std**2) + mean**2 / std**2)
    assert np.isclose(record.predicted, predicted.sum(), rtol=1e-4)
    assert record.data_count == 1.0


@pytest.mark.parametrize(("evidence", "count"), [(None, 4.0), (0.0, 4.0), (0.5, 2.0), (1.0, 1.0)])
def test_a_datum_counts_as_often_as_the_bound_says(evidence, count):
    """A posterior trained with β = ¼ counts it four times; the evidence that the data hold, once."""
    how = replace(ALL, evidence=None if evidence is None else Constant(evidence))
    x = inputs(0.0)[:1024]
    _, record = compiled(how)(believed(np.zeros(WEIGHTS), 0.5, kl_weight=0.25), (x, targets(x, np.zeros(WEIGHTS))))
    assert np.isclose(record.data_count, count)


def gain(record):
    return -(float(record.data_count) * float(record.expected_nll) + float(record.divergence))


def test_what_is_bound_makes_nothing_worse():
    """Equal weights whose inputs go together: each alone is not worth its nats, all together are. By their sum all go,
    and the bound falls; a bound reduction takes what it can."""
    x = inputs(0.3)
    weights = np.full(WEIGHTS, 0.04)
    std = 1 / math.sqrt(EXAMPLES / 20 + 1)
    state, examples = believed(weights, std), (x, targets(x, weights))
    how = replace(ALL, criterion=Evidence())
    _, free = compiled(how)(state, examples)
    assert free.predicted > 0
    assert not free.mask.any()
    assert gain(free) < 0
    after, bound = compiled(BOUND)(state, examples)
    assert gain(bound) >= 0
    assert bound.proposed == WEIGHTS
    assert 0 < int(np.asarray(after.mask).sum()) < WEIGHTS


BOUND = replace(ALL, criterion=Evidence(), measuring=Measuring(binding=True, draws=1024))


def test_a_tempered_bound_is_judged_as_it_is():
    """A weight of m = .035 and σ = 1/64 costs 2048 m² − ½ = 2 nats of likelihood and 3.7 of divergence: the evidence is
    better off without. The tempered bound, in which each datum counts four times, is not."""
    x, weights = inputs(0.0), np.full(WEIGHTS, 0.035)
    after, record = compiled(BOUND)(believed(weights, 1 / 64, kl_weight=0.25), (x, targets(x, weights)))
    assert record.proposed == WEIGHTS
    assert np.asarray(after.mask).sum() > WEIGHTS // 2
    assert gain(record) >= 0
    after, record = compiled(BOUND)(believed(weights, 1 / 64), (x, targets(x, weights)))
    assert not after.mask.any()
    assert gain(record) > 0


@pytest.mark.parametrize("size", [0.03, 0.033, 0.035, 0.04])
def test_the_change_that_is_recorded_is_that_of_what_went(size):
    """Weights of one size and deviation: each pays the same divergence, so the record says how many it is of."""
    x, weights = inputs(0.3), np.full(WEIGHTS, size)
    after, record = compiled(BOUND)(believed(weights, 1 / 64, kl_weight=0.25), (x, targets(x, weights)))
    gone = WEIGHTS - int(np.asarray(after.mask).sum())
    each = 0.5 * (size**2 + 1 / 4096 - 1) + math.log(64)
    assert record.divergence == pytest.approx(-gone * each, rel=1e-3)


def test_what_makes_no_difference_changes_nothing():
    """Weights whose inputs are zero, beside some that stay: with the same draws before and after, the likelihood is the
    same to the last digit."""
    x = np.where(np.arange(WEIGHTS) < 4, inputs(0.0), 0.0).astype(np.float32)
    weights = np.where(np.arange(WEIGHTS) < 4, 1.0, 0.0)
    after, record = compiled(BOUND)(believed(weights, 1 / 64), (x, targets(x, weights)))
    assert np.array_equal(np.asarray(after.mask), weights > 0)
    assert record.expected_nll == 0.0
    assert record.divergence < 0


def test_what_nobody_needs_goes_whole():
    x = inputs(0.0)
    weights = np.where(np.arange(WEIGHTS) < 4, 1.0, 0.0)
    how = Reduction(Evidence(), keep_output=False, measuring=Measuring(binding=True))
    after, record = compiled(how)(believed(weights, 1 / 64), (x, targets(x, weights)))
    assert np.array_equal(np.asarray(after.mask), weights > 0)
    assert gain(record) > 0


@pytest.mark.parametrize(("price", "left"), [(0.0, 8), (1e4, 4)])
def test_units_may_cost_their_price(price, left):
    """Six units of four weights, the first two needed; at a high price all but one of them go."""
    weights = np.where(np.arange(WEIGHTS) < 8, 0.5, 0.0)
    units = (Units("rows", 6, (Part(0, 1, 4),)),)
    how = Reduction(Evidence(math.inf), keep_output=False, unit_price=price, measuring=Measuring(binding=True))
    x = inputs(0.0)
    after, record = compiled(how, units)(believed(weights, 1 / 64), (x, targets(x, weights)))
    assert int(np.asarray(after.mask).sum()) == left
    assert (gain(record) > 0) == (price == 0)
    assert gain(record) + record.allowed >= 0
    assert record.allowed == price * (WEIGHTS - left)


def units_proposed(price=0.5):
    """Rows of four weights and pairs; the last weight may not go, the first went long ago, the second just now."""
    delta_f = jnp.asarray([9.0, 1, 1, 1, 2, 2, 2, 2, -1, -1, -1, -1, 1.5, 1.5, -0.3, -0.3], jnp.float32)
    mask, reducible = np.arange(16) > 0, np.arange(16) < 15
    nothing = jnp.zeros(16)
    beliefs = Beliefs(
        delta_f, nothing, nothing, nothing, jnp.asarray(mask), jnp.asarray(reducible), jnp.float32(0), jax.random.key(0)
    )
    kinds = Units("rows", 3, (Part(0, 1, 4),)), Units("pairs", 2, (Part(12, 1, 2),))
    return of_units(kinds, jnp.arange(16) == 1, beliefs, price)


def test_units_go_in_the_order_of_what_they_gain_and_the_bound_knows_their_price():
    """Nats per weight: rows 3/4 (the dead one earns nothing), 2 and −1, pairs 1.5 and −.3. At half a nat the third row
    is worth its price; one of each kind stays."""
    found = units_proposed()
    assert np.array_equal(found.wanted, [True, True, False, True, False])
    assert [np.flatnonzero(found.first(jnp.int32(k))).tolist() for k in range(4)] == [[], [1], [1, 3], [0, 1, 3]]
    assert [float(found.allowed(jnp.int32(k))) for k in range(5)] == [0.0, 2.0, 3.0, 5.0, 5.0]
    assert found.size == 3


def test_units_go_after_the_weights_that_went():
    found = units_proposed()
    gone = [np.flatnonzero(found.weights(jnp.int32(k))).tolist() for k in range(4)]
    assert gone == [[1], [1, 4, 5, 6, 7], [1, 4, 5, 6, 7, 12, 13], [1, 2, 3, 4, 5, 6, 7, 12, 13]]


def test_no_more_weights_are_proposed_than_may_go():
    beliefs = Beliefs(jnp.asarray([1.0, 3, 2, 4]), *[jnp.zeros(4)] * 5, jnp.float32(0), jax.random.key(0))
    found = of_weights(jnp.asarray([True, True, True, False]), beliefs, jnp.int32(2))
    assert np.array_equal(found.wanted, [False, True, True, False])
    assert np.array_equal(found.weights(jnp.int32(1)), [False, True, False, False])
    assert found.allowed(jnp.int32(2)) == 0.0


def test_a_bound_reduction_needs_examples():
    model, _ = linear()
    with pytest.raises(ArgumentError, match="examples: none given"):
        reduce(model, believed(np.zeros(WEIGHTS), 0.5), replace(ALL, measuring=Measuring(binding=True)))


@given(st.integers(1, 10**6), st.integers(1, 10**5))
def test_as_many_examples_for_every_draw(looked_at, examples):
    how = Measuring()
    count = how.count(looked_at, examples)
    assert 1 <= count <= examples
    assert count % how.draws == 0 or count < how.draws
