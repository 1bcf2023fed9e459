"""The weight of the divergence follows what held-out examples say, and they are never trained on."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import occamax as ox
from occamax.data import Stream
from occamax.errors import ArgumentError
from occamax.experiment.loop import epochs
from occamax.experiment.program import Program
from occamax.likelihoods import Gaussian
from occamax.methods import MeanFieldFlat
from occamax.thermostat import Thermostat, held_out, overconfidence, trained, trained_count
from occamax.training import draws

from .toys import Tiny, tiny_data

METHOD = MeanFieldFlat(divergence_weight=ox.Constant(0.05), thermostat=Thermostat(one_in=5, begin=0.3))


def run(method, data, seeds=(0,), count=6, steps=60):
    program = Program(ox.Model(Tiny(), method.prior), method, ox.Budget(count, steps, 16), seeds)
    found = []
    for epoch in epochs(program, program.start(), tuple(map(jnp.asarray, data)), None):
        found.append(([dict(line) for line in epoch.metrics], jax.device_get(epoch.state.posterior.mean)))
    return found


@pytest.mark.parametrize(("examples", "spacing"), [(20, 5), (23, 5), (24, 5), (7, 2), (100, 24), (9, 0)])
def test_held_out_and_trained_are_all_examples_once(examples, spacing):
    count = trained_count(examples, spacing)
    places = np.asarray(trained(jnp.arange(count), spacing))
    assert sorted([*places, *held_out(examples, spacing)]) == list(range(examples))


def test_no_batch_holds_what_is_held_out():
    rows, _ = draws(jax.random.key(0), 0, 200, 16, 43, 5)
    assert set(np.unique(rows)) == set(range(43)) - set(held_out(43, 5))


def test_held_out_examples_do_not_train():
    x, y = tiny_data(50)
    spoilt = x.copy()
    spoilt[held_out(50, 5)] = 100.0
    never = replace(METHOD, thermostat=replace(METHOD.thermostat, begin=2.0))
    assert np.array_equal(run(never, (x, y))[-1][1], run(never, (spoilt, y))[-1][1])
    assert not np.array_equal(run(METHOD, (x, y))[-1][1], run(METHOD, (spoilt, y))[-1][1])  # but they steer


def test_how_many_are_held_out():
    one = Thermostat(one_in=20, most_examples=2500)
    assert [one.spacing(n) for n in (39, 40, 50_000, 60_000, 1_000_000)] == [0, 20, 20, 24, 400]


def test_too_sure_turns_it_up_and_too_unsure_down():
    one = Thermostat(gain=6.0, most=0.7, coldest=0.001, warmest=1.0)
    assert one.turned(0.1, 0.05) == pytest.approx(0.1 * np.exp(0.3))
    assert one.turned(0.1, -0.05) == pytest.approx(0.1 * np.exp(-0.3))
    assert one.turned(0.1, 0.5) == pytest.approx(0.1 * np.exp(0.7))
    assert one.turned(0.9, 0.5) == 1.0
    assert one.turned(0.0011, -0.5) == 0.001
    assert overconfidence({"confidence": 0.9, "accuracy": 0.7, "nll": 1.0}) == pytest.approx(0.2)
    assert overconfidence({"nll": 1.0, "rmse": 0.3}) is None


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_a_network_of_noise_is_turned_up_and_one_of_clear_data_down(seeds):
    """Labels by chance can be learnt and not foretold; labels that a line divides leave the mean-field unsure."""
    x, _ = tiny_data(40)
    chance = np.random.default_rng(1).integers(0, 2, 40).astype(np.int32)
    noisy = run(METHOD, (x, chance), seeds, count=8, steps=200)
    weights = np.array([[line["divergence_weight"] for line in lines] for lines, _ in noisy])
    assert (weights[:2] == 0.05).all()  # the schedule's
    assert (weights[-1] > 0.1).all()
    big, _ = tiny_data(2000)
    wide = replace(METHOD, divergence_weight=ox.Constant(1.0))
    clear = run(wide, (big, (big[:, 0] > 0).astype(np.int32)), seeds, count=8, steps=100)
    assert all(line["divergence_weight"] < 1.0 for line in clear[-1][0])


def test_reductions_are_judged_by_what_is_held_out():
    x, y = tiny_data(50)
    with_it, without = run(METHOD, (x, y)), run(replace(METHOD, thermostat=None), (x, y))
    assert with_it[0][0][0]["fit"] != pytest.approx(without[0][0][0]["fit"], rel=1e-3)


def test_without_classes_the_schedule_stays():
    x, _ = tiny_data(60)
    method = replace(METHOD, thermostat=replace(METHOD.thermostat, begin=0.1))
    program = Program(ox.Model(Tiny(), method.prior, Gaussian()), method, ox.Budget(3, 5, 16))
    data = jnp.asarray(x), jnp.asarray(x[:, :2])
    lines = [epoch.metrics[0]["divergence_weight"] for epoch in epochs(program, program.start(), data, None)]
    assert lines == [pytest.approx(0.05)] * 3


def test_a_stream_is_held_out_alike():
    x, y = tiny_data(60)
    arguments = {"method": METHOD, "epochs": 3, "steps": 5, "batch": 8}
    memory = ox.fit(Tiny(), (x, y), **arguments)
    streamed = ox.fit(Tiny(), Stream([x], y), **arguments)
    assert np.array_equal(memory.state.posterior.mean, streamed.state.posterior.mean)
    assert memory.state.heat == streamed.state.heat > 0


@pytest.mark.parametrize(
    "wrong", [{"one_in": 1}, {"one_in": 2.5}, {"draws": 0}, {"gain": 0.0}, {"warmest": 1e-4}, {"most": -1.0}]
)
def test_wrong_values_are_named(wrong):
    with pytest.raises(ArgumentError, match=f"{next(iter(wrong))}: .*must"):
        Thermostat(**wrong)
