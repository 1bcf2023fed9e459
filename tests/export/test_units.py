"""Units: their weights are found where compaction looks for them, and weighed as a group."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import occamax as ox
from occamax import networks
from occamax.errors import ArgumentError
from occamax.experiment import Config
from occamax.export.compact import compact, count, count_nonzero
from occamax.export.convert import to_chain
from occamax.export.units import find_units
from occamax.reduction import Every, Evidence, Reduction
from occamax.reduction import delta_f as df
from occamax.reduction.reducing import idle
from occamax.structure.layout import Layout

KEY = jax.random.key(0)
NETWORKS = {
    "mlp": networks.MLP((1, 4, 4), 3, (7, 7, 7), key=KEY),
    "lenet": networks.LeNet((1, 32, 32), 3, (3, 4, 6), 5, key=KEY),
    "mixer": networks.Mixer((1, 8, 8), 3, depth=2, width=6, token_hidden=5, channel_hidden=7, key=KEY),
    "vit": networks.ViT((1, 8, 8), 3, width=8, hidden=5, heads=2, depth=2, key=KEY),
    "sequential": eqx.nn.Sequential([eqx.nn.Linear(4, 5, False, key=KEY), eqx.nn.Linear(5, 3, key=KEY)]),
}


def random_vector(layout):
    """No weight is zero, so that nothing is dead by accident."""
    return jnp.asarray(np.random.default_rng(0).uniform(0.5, 1.0, layout.size), jnp.float32)


@pytest.mark.parametrize("name", NETWORKS)
def test_compaction_removes_exactly_the_units_that_are_marked(name):
    network = NETWORKS[name]
    layout = Layout.of(network)
    places = find_units(network, layout)
    rng = np.random.default_rng(1)
    vector, gone, expected = random_vector(layout), jnp.zeros(layout.size, bool), {}
    for units in places:
        flags = rng.random(units.count) < 0.5
        flags[0] = False
        gone = units.mark(gone, jnp.asarray(flags))
        expected[units.name] = units.count - flags.sum()
    _, kept = compact(to_chain(layout.bind(network, jnp.where(gone, 0.0, vector))))
    found = {line.where: line.after for line in kept}
    assert expected
    assert {where: found[where] for where in expected} == expected


@pytest.mark.parametrize("name", NETWORKS)
def test_nothing_marked_removes_nothing(name):
    network = NETWORKS[name]
    layout = Layout.of(network)
    for units in find_units(network, layout):
        untouched = units.mark(jnp.zeros(layout.size, bool), jnp.zeros(units.count, bool))
        assert not untouched.any()
        each = units.mark(jnp.zeros(layout.size, bool), jnp.arange(units.count) == 0)
        assert each.sum() == units.weights_each


def test_totals_are_the_group_evidence():
    """Against `delta_f.grouped`, for the units of one hidden layer."""
    network = NETWORKS["mlp"]
    layout = Layout.of(network)
    units = find_units(network, layout)[1]
    rng = np.random.default_rng(2)
    mean, var = rng.normal(size=layout.size), rng.uniform(0.1, 1.0, layout.size)
    groups = np.full(layout.size, -1)
    for i in range(units.count):
        groups[np.asarray(units.mark(jnp.zeros(layout.size, bool), jnp.arange(units.count) == i))] = i
    mean, var = jnp.asarray(mean), jnp.asarray(var)
    expected = df.grouped(mean, var, jnp.asarray(groups), units.count).delta_f
    assert np.allclose(units.totals(df.removal(mean, var)), expected, rtol=1e-5)


def test_a_unit_stays_for_its_price_only():
    layout = Layout.of(NETWORKS["mlp"])
    units = find_units(NETWORKS["mlp"], layout)[0]
    weights = units.weights_each
    worth = jnp.linspace(0.1, 0.7, units.count)  # nats per weight that each unit earns
    delta_f = jnp.zeros(layout.size)
    for i in range(units.count):
        own = units.mark(jnp.zeros(layout.size, bool), jnp.arange(units.count) == i)
        delta_f = jnp.where(own, -worth[i], delta_f)
    alive = jnp.ones(layout.size, bool)
    assert idle(units, delta_f, alive, 0.45).tolist() == (np.asarray(worth) < 0.45).tolist()
    assert idle(units, delta_f, alive, 0.45, limit=0.25).tolist() == [True, True] + [False] * 5  # ⌈7 / 4⌉
    assert idle(units, delta_f, alive, 1e9).tolist() == [True] * 6 + [False]  # one always stays
    assert not idle(units, delta_f, alive, 0.0).any()
    dead = units.mark(jnp.zeros(layout.size, bool), jnp.arange(units.count) < 3)
    assert idle(units, delta_f, ~dead, 0.45).tolist() == [False] * 3 + [True] + [False] * 3  # the dead are not counted
    assert weights == 17 + 7


def test_a_run_that_weighs_units_loses_more_of_them():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 16)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(np.int32)
    network = networks.MLP((16,), 2, (30, 30), key=KEY)

    def live_units(method):
        fit = ox.fit(network, (x, y), method, epochs=8, steps=60, batch=64)
        return [kept.after for kept in compact(to_chain(fit.network))[1] if kept.before == 30]

    free, priced = live_units(ox.BMR()), live_units(ox.BMR().with_units(1.0))
    assert sum(priced) < sum(free)
    assert min(priced) >= 1


def test_units_can_be_weighed_alone():
    """No single weight goes: what is pruned is whole units, and compaction removes all of it."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 16)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int32)
    reduction = Reduction(Evidence(math.inf), Every(first=2), unit_price=0.3)
    method = ox.BMR(reduction=reduction, kl_weight=ox.Constant(0.3))
    fit = ox.fit(networks.MLP((16,), 2, (30, 30), key=KEY), (x, y), method, epochs=5, steps=40)
    small = compact(to_chain(fit.network))[0]
    assert fit.sparsity > 0.2
    assert count_nonzero(small) == count(small)


def test_units_are_refused_where_they_make_no_sense():
    with pytest.raises(ArgumentError, match="MAP prunes nothing"):
        Config("fashion_mini", "mlp", "map", unit_price=0.3)
    with pytest.raises(ArgumentError, match="unit_price: -1"):
        Config("fashion_mini", "mlp", "bmr", unit_price=-1.0)
    with pytest.raises(ArgumentError, match="fixed sparsity"):
        Config("fashion_mini", "mlp", "bmr", sparsity=0.9, unit_price=0.3)
