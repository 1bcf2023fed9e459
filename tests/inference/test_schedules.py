"""Numbers that change over a run: their shapes, what is taken for one, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from occamax.errors import ArgumentError
from occamax.inference.schedules import (
    Affordable,
    Circumstances,
    Constant,
    Cosine,
    Geometric,
    InSteps,
    Ramp,
    Scaled,
    as_schedule,
    first_nats_of,
    kl_weight_of,
)

from ..tolerances import SINGLE

NUMBERS = st.floats(1e-3, 3.0)
SHARES = st.tuples(st.floats(0.0, 0.49), st.floats(0.5, 1.0))


def at(schedule, places=(0.0, 0.25, 0.5, 1.0)):
    return [float(schedule(place)) for place in places]


def test_schedules_by_hand():
    assert at(Constant(0.3)) == [0.3] * 4
    assert np.allclose(at(Ramp(0.1, 1.0, 0.25, 0.75)), [0.1, 0.1, 0.55, 1.0])
    assert np.allclose(at(Geometric(1.0, 0.01, 0.25, 0.75)), [1.0, 1.0, 0.1, 0.01])
    assert np.allclose(at(Cosine(2.0)), [2.0, 1 + np.cos(np.pi / 4), 1.0, 0.0])


@given(first=NUMBERS, last=NUMBERS, share=SHARES)
def test_they_go_from_first_to_last_and_never_back(first, last, share):
    for schedule in (Ramp(first, last, *share), Geometric(first, last, *share), Cosine(first, last)):
        values = at(schedule, np.linspace(0.0, 1.0, 9).tolist())
        assert np.allclose((values[0], values[-1]), (first, last), atol=SINGLE * max(first, last))
        assert np.all(np.diff(values) * np.sign(last - first) >= -SINGLE * max(first, last))


@given(step=st.integers(0, 100), factor=NUMBERS)
def test_a_step_is_a_share_of_the_run_and_optax_takes_it(step, factor):
    for schedule in (Constant(0.2), Ramp(0.1, 1.0), Geometric(1.0, 0.01), Cosine(2.0)):
        assert np.isclose(float(schedule.at(step, 100)), float(schedule(step / 100)))
        assert np.isclose(float(schedule.as_optax(100)(step)), float(schedule.at(step, 100)))
        scaled = Scaled(schedule, factor)
        assert np.isclose(float(scaled.at(step, 100)), factor * float(schedule.at(step, 100)))


@given(step=st.integers(0, 50))
def test_what_is_taken_for_a_schedule(step):
    """A schedule as it is; a number is constant; one of optax is a function of the step, whatever the run's length."""
    assert as_schedule("rate", Cosine(1.0)) == Cosine(1.0)
    assert as_schedule("rate", 3) == as_schedule("rate", np.float32(3)) == Constant(3.0)
    decay = optax.exponential_decay(1.0, 10, 0.5)
    taken = as_schedule("rate", decay)
    assert taken == InSteps(decay)
    for total in (10, 1000):
        assert np.isclose(taken.at(step, total), 0.5 ** (step / 10))
        assert np.isclose(Scaled(taken, 3.0).at(step, total), 3 * 0.5 ** (step / 10))


@pytest.mark.parametrize("wrong", ["fast", None, True, [1.0], optax.adam(1e-3), optax.adam, lambda: 1.0, Cosine])
def test_what_is_no_schedule_is_refused_by_name(wrong):
    with pytest.raises(ArgumentError, match=r"rate: .*(number|schedule)"):
        as_schedule("rate", wrong)


def test_a_schedule_in_steps_cannot_be_asked_for_a_share():
    with pytest.raises(ArgumentError, match="steps"):
        as_schedule("rate", optax.constant_schedule(1.0))(0.5)


def affordable(schedule, progress, weights, nats, examples=1000):
    return float(kl_weight_of(schedule, Circumstances(progress * 100, 100, weights, examples, nats)))


def test_what_is_affordable_by_hand():
    schedule = Affordable(0.3, 0.5)
    assert affordable(schedule, 0.0, 100_000, 1.0) == pytest.approx(0.005)
    assert affordable(schedule, 0.0, 100_000, 0.2) == pytest.approx(0.001)  # less is left to explain
    assert affordable(schedule, 0.0, 10_000, 1.0) == pytest.approx(0.05)  # a pruned network affords more
    assert affordable(schedule, 0.0, 100, 1.0) == pytest.approx(0.3)
    assert affordable(schedule, 0.0, 0, 1.0) == pytest.approx(0.3)
    assert affordable(schedule, 0.6, 10_000, 1.0) == pytest.approx((0.05 * 0.3) ** 0.5)
    assert affordable(schedule, 0.9, 10_000, 1.0) == pytest.approx(0.3)
    assert first_nats_of(schedule) == first_nats_of(Constant(1.0)) == 0.5
    assert first_nats_of(Affordable(0.3, 0.5, first_nats=0.7)) == 0.7


@given(st.floats(0.0, 1.0), st.integers(0, 10**6), st.floats(1e-3, 5.0))
def test_what_is_affordable_costs_no_more_than_its_share(progress, weights, nats):
    """Until `begin`, at a nat a weight; and never more than what it comes to."""
    found = affordable(Affordable(0.6, 0.75, 0.4, 0.8), progress, weights, nats)
    assert 0 < found <= 0.6 * (1 + SINGLE)
    if progress <= 0.4:
        assert found * weights <= 0.75 * nats * 1000 * (1 + 10 * SINGLE)
    if progress >= 0.8:
        assert found == pytest.approx(0.6)


def test_the_kl_weight_is_of_one_kind_whatever_the_schedule():
    """A number, a schedule over the run, one of optax and an affordable one: a strongly typed scalar, also traced."""
    for given_one in (0.5, Ramp(0.1, 1.0), optax.linear_schedule(0.1, 1.0, 7), Affordable(0.3, 0.5)):
        schedule = as_schedule("kl_weight", given_one)
        weight = lambda step, s=schedule: kl_weight_of(s, Circumstances(step, 10, 5, 9, 0.5))  # noqa: E731
        traced = jax.eval_shape(weight, jnp.int32(3))
        assert (traced.shape, traced.dtype, traced.weak_type) == ((), jnp.float32, False)


@pytest.mark.parametrize("name", ["last", "share", "first_nats"])
def test_what_is_not_positive_is_named(name):
    with pytest.raises(ArgumentError, match=f"{name}: 0.0"):
        Affordable(**{"last": 0.3, "share": 0.5, name: 0.0})
