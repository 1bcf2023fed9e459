import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, expit

from occamax.errors import ArgumentError
from occamax.reduction import (
    Beliefs,
    Between,
    Chance,
    Every,
    Evidence,
    HorseshoeCriterion,
    Magnitude,
    SignalToNoise,
    SpikeAndSlab,
    TargetSparsity,
)
from occamax.reduction.delta_f import removal
from occamax.structure.layout import Layout

from ..toys import Tiny


def layout_of(*sizes):
    return Layout.of(Tiny(sizes=sizes))


def beliefs(mean, std, mask=None, weight=None, reducible=None, progress=1.0):
    mean, std = jnp.asarray(mean, jnp.float32), jnp.asarray(std, jnp.float32)
    everything = jnp.ones(mean.size, bool)
    return Beliefs(
        removal(mean, std**2),
        mean,
        std,
        mean if weight is None else jnp.asarray(weight, jnp.float32),
        everything if mask is None else jnp.asarray(mask),
        everything if reducible is None else jnp.asarray(reducible),
        jnp.float32(progress),
        jax.random.key(3),
    )


def random_beliefs(size, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    return beliefs(scale * rng.normal(size=size), np.exp(rng.normal(size=size) - 1.0))


def with_delta_f(values, **options):
    """Beliefs with a chosen ΔF."""
    made = beliefs(np.zeros(len(values)), np.ones(len(values)), **options)
    return made._replace(delta_f=jnp.asarray(values, jnp.float32))


def spike_and_slab_by_hand(delta_f, alpha0=1.0, beta0=1.0, rounds=4):
    alpha, beta = alpha0, beta0
    for _ in range(rounds):
        zeta = digamma(alpha) - digamma(beta)
        q = expit(zeta - delta_f)
        alpha, beta = alpha0 + q.sum(), beta0 + (1 - q).sum()
    return q >= 0.5, zeta


@pytest.mark.parametrize("options", [{}, {"alpha0": 0.5, "beta0": 3.0, "rounds": 7}])
def test_spike_and_slab_is_the_papers_recursion_layer_by_layer(options):
    layout = layout_of(6, 5, 3)
    made = random_beliefs(layout.size, scale=0.4)
    decision = SpikeAndSlab(**options).decide(layout, made)
    for i, (start, stop) in enumerate(layout.bounds):
        keep, zeta = spike_and_slab_by_hand(np.asarray(made.delta_f[start:stop], np.float64), **options)
        assert np.array_equal(decision.keep[start:stop], keep)
        assert np.isclose(decision.threshold[i], zeta, rtol=1e-4)
        assert 0 < keep.sum() < len(keep)


def test_what_was_removed_counts_neither_way():
    """Trap 1: at the prior ΔF = 0, so a removed weight adds sigmoid(ζ) to one sum and the rest to the other. Counted as
    q = 0 instead, ζ runs away, reduction after reduction, and far too much goes."""
    layout = layout_of(30, 20, 2)
    rng = np.random.default_rng(1)
    mean = rng.normal(size=layout.size) * 0.8
    std = np.full(layout.size, 0.5)
    mask = np.ones(layout.size, bool)
    for _ in range(20):
        at_prior = beliefs(np.where(mask, mean, 0.0), np.where(mask, std, 1.0), mask=mask)
        mask &= np.asarray(SpikeAndSlab().decide(layout, at_prior).keep)
    kept = mask[: layout.sizes[0]].mean()
    assert 0.3 < kept < 1.0

    alive, delta_f = np.ones(layout.sizes[0], bool), np.asarray(removal(jnp.asarray(mean), jnp.asarray(std) ** 2))
    for _ in range(20):  # the trap, for comparison: removed weights counted as q = 0
        wrong = np.where(alive, delta_f[: layout.sizes[0]], 50.0)
        alive &= spike_and_slab_by_hand(wrong)[0]
    assert alive.mean() < 0.5 * kept


def test_permuting_a_layer_permutes_its_mask():
    layout = layout_of(6, 5, 3)
    made = random_beliefs(layout.size, scale=0.4)
    order = np.concatenate(
        [np.random.default_rng(2).permutation(layout.sizes[0]), np.arange(layout.sizes[0], layout.size)]
    )
    moved = Beliefs(*(value[order] if getattr(value, "shape", None) == (layout.size,) else value for value in made))
    for criterion in (SpikeAndSlab(), Evidence(), TargetSparsity(0.4), TargetSparsity(0.4, per_layer=True)):
        straight, permuted = criterion.decide(layout, made).keep, criterion.decide(layout, moved).keep
        assert np.array_equal(straight[order], permuted)


def test_evidence_keeps_up_to_the_threshold():
    layout = layout_of(1, 1, 1)
    made = with_delta_f([-1.0, 0.0, 0.5, 2.0])
    assert Evidence().decide(layout, made).keep.tolist() == [True, True, False, False]
    assert Evidence(1.0).decide(layout, made).keep.tolist() == [True, True, True, False]


def test_target_sparsity_with_ties_goes_by_order():
    layout = layout_of(2, 1, 1)  # 3 + 2 weights
    made = with_delta_f([1.0, 1.0, 1.0, 1.0, -5.0])
    assert TargetSparsity(0.4).decide(layout, made).keep.tolist() == [False, False, True, True, True]
    assert TargetSparsity(0.0).decide(layout, made).keep.all()
    assert not TargetSparsity(1.0).decide(layout, made).keep.any()


def test_target_sparsity_per_layer_and_over_the_network():
    layout = layout_of(3, 1, 3)  # 4 + 6 weights
    made = with_delta_f([9, 8, 7, 6, 5, 4, 3, 2, 1, 0])
    whole = TargetSparsity(0.5).decide(layout, made).keep
    assert whole.tolist() == [False] * 5 + [True] * 5
    each = TargetSparsity(0.5, per_layer=True).decide(layout, made).keep
    assert each.tolist() == [False, False, True, True, False, False, False, True, True, True]


def test_target_sparsity_counts_what_is_gone_and_spares_what_may_not_go():
    layout = layout_of(3, 1, 3)
    mask = np.array([True] * 9 + [False])
    made = with_delta_f(np.zeros(10), mask=mask, reducible=np.array([False] * 4 + [True] * 6))
    keep = np.asarray(TargetSparsity(0.5).decide(layout, made).keep)
    assert keep[:4].all()
    assert (mask & keep)[4:].sum() == 3


def test_target_sparsity_is_reached_when_asked():
    layout = layout_of(9, 9, 9)
    made = random_beliefs(layout.size)
    removed = [
        1 - float(TargetSparsity(0.8, reach=0.5).decide(layout, made._replace(progress=jnp.float32(p))).keep.mean())
        for p in (0.0, 0.25, 0.5, 0.9)
    ]
    assert np.allclose(removed, [0.0, 0.8 * (1 - 0.5**3), 0.8, 0.8], atol=0.01)


def test_baseline_scores():
    layout = layout_of(1, 1, 1)
    made = beliefs([1.0, 2.0, 3.0, 4.0], [1.0, 0.1, 10.0, 4.0], weight=[5.0, -1.0, 2.0, 0.5])
    assert TargetSparsity(0.5, Magnitude()).decide(layout, made).keep.tolist() == [True, False, True, False]
    assert TargetSparsity(0.5, SignalToNoise()).decide(layout, made).keep.tolist() == [False, True, False, True]
    assert TargetSparsity(0.5, Chance()).decide(layout, made).keep.sum() == 2


def test_horseshoe_learns_which_rows_are_dead():
    """Rows at their prior shrink and go; rows the data insist on stay. Its objective falls."""
    layout = layout_of(12, 6, 2)
    rng = np.random.default_rng(0)
    first = layout.row_groups(0) % 2 == 0  # the dead rows
    mean = np.where(first, 0.05 * rng.normal(size=layout.sizes[0]), 1.5 * np.sign(rng.normal(size=layout.sizes[0])))
    std = np.where(first, 0.8, 0.05)
    mean, std = np.concatenate([mean, np.ones(layout.sizes[1])]), np.concatenate([std, np.full(layout.sizes[1], 0.1)])
    decision = HorseshoeCriterion(steps=100).decide(layout, beliefs(mean, std))
    keep = np.asarray(decision.keep[: layout.sizes[0]])
    assert not keep[first].any()
    assert keep[~first].all()


def test_schedule():
    assert [Every().due(e, 8) for e in range(4)] == [False, True, True, True]
    assert [Every(2, 6, 2).due(e, 8) for e in range(8)] == [False, False, True, False, True, False, False, False]
    assert [Between(0.2, 0.6).due(e, 10) for e in range(10)] == [False] * 2 + [True] * 5 + [False] * 3
    assert [Between().due(e, 3) for e in range(3)] == [False, True, True]  # never before anything was learnt
    with pytest.raises(ArgumentError, match="in order"):
        Between(0.6, 0.2)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: TargetSparsity(1.2), "sparsity: 1.2"),
        (lambda: TargetSparsity(0.5, reach=1.0), "reach: 1.0"),
        (lambda: SpikeAndSlab(alpha0=0.0), "alpha0: 0.0"),
        (lambda: SpikeAndSlab(rounds=0), "rounds: 0"),
        (lambda: Every(every=0), "every=0"),
    ],
)
def test_bad_options_are_refused_by_name(make, named):
    with pytest.raises(ArgumentError, match=named):
        make()
