"""What a unit is paid for: its weights, its bytes, its time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import occamax as ox
from occamax.command_words import cost_named, method_from_words
from occamax.errors import ArgumentError
from occamax.export import unit_costs
from occamax.methods import method_from
from occamax.reduction.proposing import of_units
from occamax.structure.units import Part, Units

from .test_reduce import believed

WIDE, THIN = Units("wide", 2, (Part(0, 1, 4),)), Units("thin", 2, (Part(8, 1, 2),))
MASK = jnp.asarray([1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1], bool)


def test_costs_are_those_of_the_unit():
    assert ox.costs.Weights().of(WIDE, MASK).tolist() == [4, 4]
    assert ox.costs.Bytes(16.0).of(WIDE, MASK).tolist() == [8, 2]
    times = ox.costs.Latency(1, (("wide", 0.5), ("thin", 3.0)))
    assert times.of(THIN, MASK).tolist() == [3, 3]
    with pytest.raises(ArgumentError, match="unit_cost: nothing was measured for the units thin"):
        ox.costs.Latency(1, (("wide", 0.5),)).of(THIN, MASK)


def test_a_unit_goes_that_earns_less_than_its_cost():
    """Each weight earns a nat. At a price of 2 nats a microsecond the thin units, which take 3, are too dear; the wide
    ones, half a microsecond, are not. One of each kind stays."""
    beliefs = believed(-jnp.ones(12), jnp.ones(12, bool), jnp.ones(12, bool))
    times = ox.costs.Latency(1, (("wide", 0.5), ("thin", 3.0)))
    found = of_units((WIDE, THIN), jnp.zeros(12, bool), beliefs, 2.0, cost=times)
    assert found.wanted.tolist()[:2] == [False, False]
    assert sum(found.wanted.tolist()[2:]) == 1
    assert float(found.allowed(found.size)) == 6.0
    by_weight = of_units((WIDE, THIN), jnp.zeros(12, bool), beliefs, 2.0)
    assert int(by_weight.size) == 2


def test_words_and_data():
    assert cost_named("latency") == ox.costs.Latency()
    assert cost_named(None) is None
    with pytest.raises(ArgumentError, match="--unit-cost: 'time' is not known"):
        cost_named("time")
    method = method_from_words("bmr", ["reduction.unit_cost=Bytes(bits=9)"]).with_units(0.1)
    assert method.reduction.unit_cost == ox.costs.Bytes(9)
    timed = ox.BMR().with_units(0.1, ox.costs.Latency(2, (("a", 0.5),)))
    assert method_from(timed.as_data()) == timed
    with pytest.raises(ArgumentError, match="unit_cost: no unit has a price"):
        ox.fit(None, (0, 0), unit_cost=ox.costs.Bytes())


def test_a_run_measures_once_and_resumes_with_that(tmp_path, monkeypatch):
    calls = []

    def took(clock, kinds, weights, living):
        calls.append(len(kinds))
        return [float(len(calls))] * len(kinds)

    monkeypatch.setattr(unit_costs, "microseconds_each", took)
    data = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32), np.arange(64, dtype=np.int32) % 3
    network = ox.MLP((4,), 3, (5,), key=jax.random.key(0))
    options = {"epochs": 2, "steps_per_epoch": 2, "batch_size": 8, "num_samples": 2, "unit_price": 0.1}
    options |= {"unit_cost": ox.costs.Latency(4), "out": tmp_path / "run", "progress": False}
    fitted = ox.fit(network, data, **options)
    assert fitted.method.reduction.unit_cost == ox.costs.Latency(4, (("layers.0", 1.0),))
    again = ox.fit(network, data, **options, resume=True)
    assert again.method.reduction.unit_cost == fitted.method.reduction.unit_cost
    assert calls == [1]
    assert ox.load(tmp_path / "run", network).method == fitted.method
