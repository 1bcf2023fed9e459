import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import digamma, expit

from occamax.errors import ArgumentError
from occamax.inference.posteriors import IndependentNormals
from occamax.reduction import (
    Beliefs,
    Between,
    Chance,
    Every,
    Evidence,
    HorseshoeCriterion,
    Magnitude,
    Pattern,
    SignalToNoise,
    SpikeAndSlab,
    TargetSparsity,
)
from occamax.reduction.delta_f import removal
from occamax.structure.layout import Block, Layout

from ..tolerances import STANDARD_ERRORS
from ..toys import layout_of


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


@given(st.floats(0.2, 4.0), st.floats(0.2, 4.0), st.integers(1, 7), st.integers(0, 1000))
def test_spike_and_slab_is_the_papers_recursion_layer_by_layer(alpha0, beta0, rounds, seed):
    layout = layout_of(6, 5, 3)
    made = random_beliefs(layout.size, seed, 0.4)
    decision = SpikeAndSlab(alpha0, beta0, rounds).decide(layout, made)
    found, delta_f = np.asarray(decision.keep), np.asarray(made.delta_f, np.float64)
    for i, (start, stop) in enumerate(layout.bounds):
        keep, zeta = spike_and_slab_by_hand(delta_f[start:stop], alpha0, beta0, rounds)
        assert np.isclose(decision.threshold[i], zeta, rtol=1e-4, atol=1e-4)
        near = np.abs(delta_f[start:stop] - zeta) < 1e-3
        assert np.array_equal(found[start:stop][~near], keep[~near])


def test_by_default_it_takes_some_of_every_layer_and_not_all():
    layout = layout_of(6, 5, 3)
    keep = np.asarray(SpikeAndSlab().decide(layout, random_beliefs(layout.size, scale=0.4)).keep)
    assert all(0 < keep[start:stop].sum() < stop - start for start, stop in layout.bounds)


def test_what_was_removed_counts_neither_way():
    """Trap 1: at the prior ΔF = 0, so a removed weight adds sigmoid(ζ) to one sum and the rest to the other. Counted as
    q = 0 instead, ζ runs away, reduction after reduction, and far too much goes."""
    layout = layout_of(30, 20, 2)  # many weights, so that shares are telling
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


def test_evidence_keeps_up_to_the_threshold():
    layout = layout_of(1, 1, 1)
    made = with_delta_f([-1.0, 0.0, 0.5, 2.0])
    assert Evidence().decide(layout, made).keep.tolist() == [True, True, False, False]
    assert Evidence(1.0).decide(layout, made).keep.tolist() == [True, True, True, False]


@given(st.floats(0.0, 1.0), st.booleans(), st.integers(0, 1000))
def test_target_sparsity_is_exact(sparsity, per_layer, seed):
    """Of all that may go, or of every layer, the share that was asked for, to the nearest weight: the lowest scores,
    what is gone already first, and nothing that may not go."""
    layout, rng = layout_of(6, 5, 3), np.random.default_rng(seed)
    mask, reducible = rng.random(layout.size) < 0.7, rng.random(layout.size) < 0.8
    made = with_delta_f(rng.normal(size=layout.size), mask=mask, reducible=reducible)
    keep = np.asarray(TargetSparsity(sparsity, per_layer=per_layer).decide(layout, made).keep)
    assert keep[~reducible].all()
    scores = np.where(mask, -np.asarray(made.delta_f), -np.inf)
    for start, stop in layout.bounds if per_layer else [(0, layout.size)]:
        counted = reducible[start:stop]
        own, score = keep[start:stop][counted], scores[start:stop][counted]
        assert (~own).sum() in (np.floor(sparsity * counted.sum() + 0.499), np.ceil(sparsity * counted.sum() - 0.499))
        assert score[~own].max(initial=-np.inf) <= score[own].min(initial=np.inf)


@given(st.integers(1, 3), st.integers(0, 1000))
def test_a_pattern_keeps_so_many_of_every_group_of_inputs(keep, seed):
    """The highest scores of every four columns of a row, by sorting each by hand; a rest of two is kept as far."""
    layout, rng = layout_of(10, 3, 2), np.random.default_rng(seed)
    made = with_delta_f(rng.normal(size=layout.size))
    found = np.asarray(Pattern(keep, 4).decide(layout, made).keep)
    for block, (start, _) in zip(layout.blocks, layout.bounds, strict=True):
        shape = (block.rows, block.columns)
        kept = found[start : start + block.rows * block.columns].reshape(shape)
        scores = -np.asarray(made.delta_f)[start : start + kept.size].reshape(shape)
        for row, score in zip(kept, scores, strict=True):
            for first in range(0, block.columns, 4):
                own = score[first : first + 4]
                best = np.sort(np.argsort(own)[::-1][:keep])
                np.testing.assert_array_equal(np.flatnonzero(row[first : first + 4]), best)
        assert found[start + kept.size : start + block.size].all()  # biases


def test_a_pattern_goes_along_the_channels_of_a_kernel():
    layout = Layout((Block("first", "conv", (2, 4, 3, 3), None, (0,), 36),))
    made = with_delta_f(np.random.default_rng(0).normal(size=layout.size))
    kept = np.asarray(Pattern().decide(layout, made).keep).reshape(2, 4, 3, 3)
    assert (kept.sum(1) == 2).all()


def test_a_pattern_counts_what_is_gone_first_and_is_approached_step_by_step():
    layout = layout_of(4, 1, 1)
    delta_f = np.full(layout.size, 5.0)
    delta_f[1] = -9.0  # the most needed of all, but gone
    mask = np.arange(layout.size) != 1
    made = with_delta_f(delta_f, mask=mask)
    assert Pattern(3, 4).decide(layout, made).keep[:4].tolist() == [True, False, True, True]
    counts = [
        int(Pattern(reach=0.5).decide(layout, made._replace(progress=jnp.float32(p))).keep[:4].sum())
        for p in (0.0, 0.2, 0.5, 1.0)
    ]
    assert counts == [4, 3, 2, 2]


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


def test_the_way_to_a_target_has_a_beginning_and_a_shape():
    """By hand: nothing before a fifth of the run; of the way from there to three fifths half is over at .4."""
    layout = layout_of(9, 9, 9)
    made = random_beliefs(layout.size)

    def removed(progress, **way):
        criterion = TargetSparsity(0.8, begin=0.2, reach=0.6, **way)
        return 1 - float(criterion.decide(layout, made._replace(progress=jnp.float32(progress))).keep.mean())

    for way, halfway in (({}, 0.7), ({"power": 1.0}, 0.4)):
        found = [removed(progress, **way) for progress in (0.1, 0.2, 0.4, 0.6, 0.9)]
        assert np.allclose(found, [0.0, 0.0, halfway, 0.8, 0.8], atol=0.01)


def test_baseline_scores():
    layout = layout_of(1, 1, 1)
    made = beliefs([1.0, 2.0, 3.0, 4.0], [1.0, 0.1, 10.0, 4.0], weight=[5.0, -4.0, 2.0, 0.5])
    assert TargetSparsity(0.5, Magnitude()).decide(layout, made).keep.tolist() == [True, True, False, False]
    assert TargetSparsity(0.5, SignalToNoise()).decide(layout, made).keep.tolist() == [False, True, False, True]
    assert TargetSparsity(0.5, Chance()).decide(layout, made).keep.sum() == 2


@functools.cache
def horseshoe():
    """Weights of which every other row is at its prior and the data insist on the rest; what the criterion decides, and
    the scales that it has learned for that, before and after."""
    layout = layout_of(12, 6, 2)
    rng = np.random.default_rng(0)
    dead = layout.row_groups(0) % 2 == 0
    mean = np.where(dead, 0.05 * rng.normal(size=layout.sizes[0]), 1.5 * np.sign(rng.normal(size=layout.sizes[0])))
    std = np.where(dead, 0.8, 0.05)
    mean, std = np.concatenate([mean, np.ones(layout.sizes[1])]), np.concatenate([std, np.full(layout.sizes[1], 0.1)])
    made, criterion = beliefs(mean, std), HorseshoeCriterion(steps=3000, draws=16)

    @jax.jit
    def run(made):
        first = IndependentNormals.around(criterion._first_guess(layout, made.mean**2 + made.std**2), 0.1)
        return criterion.decide(layout, made), first, criterion.fit_scales(layout, made, made.std**2)

    return (mean, std), dead, *run(made)


def evidence_of(log_scales):
    """ΔF of each weight under the horseshoe's scales, draws × weights: the paper's formulas, in double precision."""
    (mean, std), *_ = horseshoe()
    slab, a, b, row_a, row_b = np.split(np.exp(log_scales), np.cumsum([1, 2, 2, 6]), axis=1)
    c_var, row_var = 1 / slab, 0.01**2 * a[:, :1] / b[:, :1] * row_a / row_b
    gamma_var = c_var * row_var / (c_var + row_var)
    rows = [np.repeat(gamma_var, 12, axis=1), gamma_var, np.repeat(a[:, 1:] / b[:, 1:], 14, axis=1)]  # biases last
    theta = np.concatenate(rows, axis=1)
    rho = theta + std**2 - theta * std**2
    return -0.5 * np.log(rho) - 0.5 * (mean / std) ** 2 * (1 - theta / rho)


def horseshoe_objective(log_mean, log_std):
    """E_q[−Σ ΔF] + KL(q ‖ p), the second by scipy's densities, over common draws."""
    shapes, rates = np.array([2.0] + [0.5] * 16), np.array([6.0] + [1.0] * 16)
    drawn = log_mean + log_std * np.random.default_rng(1).normal(size=(4000, 17))
    log_q = stats.norm.logpdf(drawn, log_mean, log_std)
    log_p = stats.gamma.logpdf(np.exp(drawn), shapes, scale=1 / rates) + drawn  # of the logarithm
    return (log_q - log_p).sum(1).mean() - evidence_of(drawn).sum(1).mean()


def moments(scales):
    return np.asarray(scales.mean, np.float64), np.asarray(scales.std, np.float64)


def test_horseshoe_learns_which_rows_are_dead():
    """Rows at their prior shrink and go, rows the data insist on stay; and the record says what a layer's weights are
    worth under the scales that were learned."""
    _, dead, decision, _, fitted = horseshoe()
    keep = np.asarray(decision.keep[: dead.size])
    assert not keep[dead].any()
    assert keep[~dead].all()
    mean, std = moments(fitted)
    each = evidence_of(mean + std * np.random.default_rng(2).normal(size=(4000, 17)))
    for found, part in zip(decision.threshold, np.split(each, [dead.size], axis=1), strict=True):
        worth = part.mean(1)
        assert abs(float(found) - worth.mean()) < STANDARD_ERRORS * worth.std() / np.sqrt(16)


def test_the_horseshoes_objective_is_least_where_it_ends():
    """It has fallen, and no kind of scale that is made larger or smaller lowers it further."""
    *_, first, fitted = horseshoe()
    mean, std = moments(fitted)
    least = horseshoe_objective(mean, std)
    assert least < horseshoe_objective(*moments(first)) - 1.0
    places = {"slab": [0], "a": [1], "output a": [2], "b": [3], "output b": [4]}
    places |= {"dead a": [5, 7, 9], "row a": [6, 8, 10], "dead b": [11, 13, 15], "row b": [12, 14, 16]}
    for change in (-0.7, 0.7):
        for name, own in places.items():
            moved = mean.copy()
            moved[own] += change
            assert horseshoe_objective(moved, std) > least, (name, change)
        assert horseshoe_objective(mean, std * np.exp(change)) > least


def test_schedule():
    assert [Every().due(e, 8) for e in range(4)] == [False, True, True, True]
    assert [Every(2, 6, 2).due(e, 8) for e in range(8)] == [False, False, True, False, True, False, False, False]
    assert [Between(0.2, 0.6).due(e, 10) for e in range(10)] == [False] * 2 + [True] * 5 + [False] * 3
    assert [Between().due(e, 3) for e in range(3)] == [False, True, True]  # never before anything was learnt
    with pytest.raises(ArgumentError, match="in order"):
        Between(0.6, 0.2)


@given(first=st.integers(0, 6), until=st.none() | st.integers(0, 12), every=st.integers(1, 4))
def test_every_is_a_range(first, until, every):
    due = [epoch for epoch in range(12) if Every(first, until, every).due(epoch, 12)]
    assert due == list(range(first, 12 if until is None else until, every))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: TargetSparsity(1.2), "sparsity: 1.2"),
        (lambda: TargetSparsity(0.5, reach=1.0), "reach: 1.0"),
        (lambda: TargetSparsity(0.5, begin=0.6, reach=0.5), "begin: 0.6"),
        (lambda: Pattern(begin=-0.1, reach=0.5), "begin: -0.1"),
        (lambda: TargetSparsity(0.5, power=0.0), "power: 0.0"),
        (lambda: Pattern(4, 4), "keep: 4 of 4"),
        (lambda: Pattern(reach=-1.0), "reach: -1.0"),
        (lambda: SpikeAndSlab(alpha0=0.0), "alpha0: 0.0"),
        (lambda: SpikeAndSlab(rounds=0), "rounds: 0"),
        (lambda: Every(every=0), "every=0"),
        (lambda: HorseshoeCriterion(steps=0), "steps: 0"),
        (lambda: HorseshoeCriterion(draws=0), "draws: 0"),
        (lambda: HorseshoeCriterion(rate=0.0), "rate: 0.0"),
    ],
)
def test_bad_options_are_refused_by_name(make, named):
    with pytest.raises(ArgumentError, match=named):
        make()
