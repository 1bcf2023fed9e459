"""Units: their weights are found where compaction looks for them, whoever wrote the network."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax.structure.compaction import compact
from occamax.structure.unit_search import find_units, parameter_names
from occamax.structure.units import Part, Scattered, Units

from .zoo import Traced

EXPECTED = {  # name → (places, how many units, how many weights go with one), by hand from the sizes in zoo.py
    "mlp": [("layers.0", 7, 16 + 1 + 7), ("layers.1", 7, 7 + 1 + 7), ("layers.2", 7, 7 + 1 + 3)],
    "lenet": [
        ("convolutions.0", 3, 25 + 1 + 4 * 25),
        ("convolutions.1", 4, 3 * 25 + 1 + 6 * 25),
        ("convolutions.2", 6, 4 * 25 + 1 + 5),
        ("hidden", 5, 6 + 1 + 3),
    ],
    "mixer": [
        (f"blocks.{block}.{place}.widen", units, each)
        for block in (0, 1)
        for place, units, each in (("mix_tokens", 5, 4 + 1 + 4), ("mix_channels", 7, 6 + 1 + 6))
    ]
    + [
        (f"blocks.{block}.{place} branch", 1, 2 * 6 + weights)
        for block in (0, 1)
        for place, weights in (("mix_tokens", 2 * 4 * 5 + 5 + 4), ("mix_channels", 2 * 6 * 7 + 7 + 6))
    ],
    "vit": [
        (f"blocks.{block}.{place}", units, each)
        for block in (0, 1)
        for place, units, each in (
            ("attention.project_in heads", 2, 3 * 4 * (8 + 1) + 8 * 4),
            ("feedforward.widen", 5, 8 + 1 + 8),
        )
    ]
    + [
        (f"blocks.{block}.{place} branch", 1, 2 * 8 + weights)
        for block in (0, 1)
        for place, weights in (("attention", 4 * 8 * 8 + 4 * 8), ("feedforward", 2 * 8 * 5 + 5 + 8))
    ],
    "sequential": [
        ("layers.0", 5, 18 + 1 + 4 * 9),
        ("layers.3", 4, 5 * 9 + 7 * 4),
        ("layers.6", 7, 16 + 1 + 3),
    ],
    "resnet": [
        ("stem", 6, 18 + 2 + 5 * 9 + 5 * 9 + 2 + 8),  # the stream: all that makes it and all that reads it
        ("first", 5, 6 * 9 + 2 + 6 * 9),
        ("down", 8, 6 + 1 + 3),
        ("first branch", 1, 2 * 5 * 6 * 9 + 2 * 5 + 2 * 6),  # with both normalisations
    ],
    "attention": [
        ("embed", 12, 5 + 1 + 3 * 12 + 12 + 1 + 3),
        ("attention.query_proj heads", 3, 3 * 4 * 13 + 12 * 4),
        ("attention branch", 1, 4 * 12 * 13),
    ],
    "glu": [("widen", 7, 2 * (6 + 1) + 3)],
    "dense": [("first", 4, 6 + 1 + 5 + 3), ("second", 5, 10 + 1 + 3)],
    "depthwise": [("first", 4, 9 + 1 + 2 * (9 + 1) + 2 * 5), ("mix", 5, 8 + 1 + 3 * 16)],
    "gru": [("hidden", 7, 6 + 1 + 2)],
    "stacked": [
        ("embed", 6, 5 + 1 + 2 * (7 + 7 + 1) + 3),
        *((f"blocks.{layer}.0", 7, 6 + 1 + 6) for layer in (0, 1)),
        *((f"blocks.{layer} branch", 1, 2 * 6 * 7 + 7 + 6) for layer in (0, 1)),
    ],
}


@functools.cache
def units_of(name):
    one = Traced(name)
    return find_units(one.network, one.buffers, one.calling, one.layout, one.example, None)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_units_are_those_one_would_name(name):
    assert [(units.name, units.count, units.weights_each) for units in units_of(name)] == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_compaction_removes_exactly_the_units_that_are_marked(name):
    one = Traced(name)
    rng = np.random.default_rng(1)
    gone, expected = np.zeros(one.layout.size, bool), {}
    for units in units_of(name):
        flags = rng.random(units.count) < 0.5
        flags[0] = False
        gone |= units.flagged(one.layout.size, flags)
        expected[units.name] = units.count - flags.sum()
    vector = rng.uniform(0.5, 1.0, one.layout.size)  # nothing is zero by accident
    _, kept = compact(one.bound(np.where(gone, 0.0, vector)), parameter_names(one.network))
    found = {line.where: line.after for line in kept}
    assert {where: found[where] for where in expected if "branch" not in where} == {
        where: count for where, count in expected.items() if "branch" not in where
    }


@pytest.mark.parametrize("name", ["mixer", "vit", "resnet", "attention", "stacked"])
def test_a_branch_that_is_marked_is_computed_no_more(name):
    """The stream is what it was without the branch: nothing of the branch is left, and all else is."""
    one = Traced(name)
    vector = np.random.default_rng(1).uniform(0.5, 1.0, one.layout.size)
    for branch in [units for units in units_of(name) if units.name.endswith("branch")]:
        gone = branch.flagged(one.layout.size, np.ones(1, bool))
        _, kept = compact(one.bound(np.where(gone, 0.0, vector)), parameter_names(one.network))
        inside = branch.name.removesuffix(" branch") + ("" if name == "resnet" else ".")
        assert {line.after == 0 for line in kept if line.where.startswith(inside)} == {True}
        assert all(line.after for line in kept if not line.where.startswith((inside, "second")))


@pytest.mark.parametrize("name", EXPECTED)
def test_marks_and_totals_agree(name):
    """Compiled, and in numpy: what is marked unit by unit, all of it, and beside what was marked before."""
    rng = np.random.default_rng(2)
    size = Traced(name).layout.size
    vector, before = rng.normal(size=size).astype(np.float32), rng.random(size) < 0.5

    @jax.jit
    def compiled(vector, before):
        none = jnp.zeros_like(before)
        marks = lambda units, flags: jax.vmap(lambda own: units.mark(none, own))(flags)  # noqa: E731
        return [
            (
                units.totals(vector),
                marks(units, jnp.eye(units.count, dtype=bool)),
                units.mark(none, jnp.zeros(units.count, bool)),
                units.mark(before, jnp.arange(units.count) % 2 == 0),
            )
            for units in units_of(name)
        ]

    for units, found in zip(units_of(name), compiled(vector, before), strict=True):
        totals, each, nothing, beside = map(np.asarray, found)
        assert not nothing.any()
        assert each.sum() == units.weights_each * units.count
        assert np.allclose(totals, [vector[marks].sum() for marks in each], atol=1e-5)
        assert np.allclose(units.sums(vector), totals, atol=1e-5)
        assert np.array_equal(beside, before | units.flagged(size, np.arange(units.count) % 2 == 0))
        for marks, own in zip(each, np.eye(units.count, dtype=bool), strict=True):
            assert np.array_equal(marks, units.flagged(size, own))


def test_normalised_streams_inputs_and_outputs_are_no_units():
    for name in ("vit", "mixer"):
        names = {units.name for units in units_of(name)}
        assert names.isdisjoint({"embed", "head", "tokens"})


def test_scattered_places_are_weighed_as_regular_ones():
    """A piece of (2, 3, 2) numbers from 4 on, either way."""
    regular = Units("a", 3, (Part(4, 2, 2),))
    places = [(4 + 6 * i + 2 * unit + j, unit) for i in range(2) for unit in range(3) for j in range(2)]
    scattered = Units("a", 3, (Scattered(*map(tuple, zip(*places, strict=True))),))
    vector = jnp.arange(20.0)
    assert regular.weights_each == scattered.weights_each == 4
    assert np.array_equal(regular.totals(vector), scattered.totals(vector))
    flags = jnp.array([True, False, True])
    none = jnp.zeros(20, bool).at[0].set(True)
    assert np.array_equal(regular.mark(none, flags), scattered.mark(none, flags))
    assert hash(regular) != hash(scattered)
