"""A reduction that destroys the network is undone and said; one that does not is left alone."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import occamax as ox
from occamax.experiment.folder import RunFolder
from occamax.experiment.guard import Guard
from occamax.experiment.loop import Evaluation, Loop, Pause, _as_found
from occamax.experiment.program import Program, Task
from occamax.inference.calibration import held_out_of
from occamax.inference.schedules import Affordable, Constant, Ramp, Schedule
from occamax.methods import BMR, PaperBMR
from occamax.reduction import Between, Reduction, TargetSparsity
from occamax.reduction.criteria import Criterion, Decision

from ..toys import Tiny, tiny_data

BUDGET = ox.Budget(5, 200, 16)


@dataclass(frozen=True)
class Planted(Criterion):
    """Removes everything at the given share of the run, nothing at other times."""

    at: float

    def decide(self, layout, beliefs):
        now = jnp.abs(beliefs.progress - self.at) < 0.01
        return Decision(beliefs.mask & ~now, jnp.zeros(len(layout.blocks)))


def program_with(method, seeds=(0,), budget=BUDGET, examples=200):
    x, _ = tiny_data(examples)
    model = ox.Model(Tiny(), x[0], method.prior)
    return Program(Task(model, method, budget, held_out_of(method.calibration, examples), seeds))


def planted(tolerance, at=0.4):
    return ox.BMR(reduction=Reduction(Planted(at), Between(), keep_output=False, tolerance=tolerance))


def run(program):
    data = tuple(jnp.asarray(part) for part in tiny_data(200))
    return [
        (epoch.undone, [dict(line) for line in epoch.metrics], jax.device_get(epoch.state._replace(key=0)))
        for epoch in Loop(program, data, Evaluation(data, 4)).epochs(program.start())
    ]


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_a_planted_collapse_is_undone_and_the_network_recovers(seeds):
    found = run(program_with(planted(0.05), seeds))
    assert [undone for undone, _, _ in found] == [[epoch == 2] * len(seeds) for epoch in range(5)]
    assert all(state.mask.all() for _, _, state in found)
    accuracies = [np.mean([line["accuracy"] for line in metrics]) for _, metrics, _ in found]
    assert accuracies[2] == pytest.approx(accuracies[1], abs=0.02)  # as before the reduction
    assert accuracies[-1] > 0.8
    (_, _, before), (_, collapsed, after) = found[1:3]  # the state before it, with what an example cost it then
    assert np.array_equal(after.posterior.mean, before.posterior.mean)
    assert np.array_equal(after.nats, before.nats)
    assert all(line["held_out_nll"] > nats + 0.1 for line, nats in zip(collapsed, before.nats, strict=True))
    assert [state.step.tolist() for _, _, state in found] == [  # but no batch is looked at twice
        [200 * (epoch + 1)] * len(seeds) for epoch in range(5)
    ]


def test_without_a_guard_the_same_reduction_is_the_end():
    collapsed = run(program_with(planted(None)))
    assert not collapsed[-1][2].mask.any()
    assert np.mean([line["accuracy"] for line in collapsed[-1][1]]) < 0.7


def test_seeds_are_undone_and_held_back_apart(monkeypatch):
    """The guard is told to undo the first seed's first reduction only: that seed sits the next one out."""

    class Scripted(Guard):
        def judge(self, lines, reduced):
            first_time = reduced.all() and not self.held.any() and not hasattr(self, "done")
            self.held = np.array([first_time, False])
            if first_time:
                self.done = True
            return self.held

    monkeypatch.setattr("occamax.experiment.loop.Guard", Scripted)
    method = ox.BMR(reduction=Reduction(TargetSparsity(0.5, reach=0.5), Between(), tolerance=0.1))
    program = program_with(method, (0, 1), ox.Budget(4, 5, 16), 32)
    data = tuple(jnp.asarray(part) for part in tiny_data())
    kept, recorded = [], []
    for epoch in Loop(program, data).epochs(program.start()):
        kept.append(np.asarray(epoch.state.mask).sum(1).tolist())
        recorded.append(None if epoch.record is None else np.asarray(epoch.record.mask).sum(1).tolist())
    everything = program.model.layout.size
    assert kept[0] == [everything, everything]
    assert kept[1][0] == everything > kept[1][1]  # undone for the first, not for the second
    assert kept[2][0] == everything > kept[2][1]  # held back
    assert recorded[2] == kept[2]
    assert kept[3][0] < everything


def judged(guard, fits, reduced, weights=None, **others):
    """One epoch of a guard's life."""
    columns = {"fit": fits, "kl_weight": weights or [1.0] * len(fits), **others}
    lines = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    undone = guard.judge(lines, np.array(reduced))
    guard.remember(lines)
    return undone.tolist()


def test_only_the_seed_that_suffers_is_undone():
    guard = Guard(0.1, baseline=2.0, seeds=3)
    assert judged(guard, [1.0, 1.0, 3.0], [False] * 3) == [False] * 3
    # a tenth of the one nat gained may be lost; the third never beat the baseline, there is nothing to lose
    assert judged(guard, [1.09, 1.11, 4.0], [True] * 3) == [False, True, False]
    assert guard.held.tolist() == [False, True, False]
    assert judged(guard, [1.0, 1.5, 1.0], [True, False, True]) == [False] * 3  # not reduced, not judged


def test_the_tolerance_is_a_share_of_what_was_gained():
    """A tenth of two nats, and a tenth of a fifth of one."""
    guard = Guard(0.1, baseline=3.0, seeds=2)
    judged(guard, [1.0, 2.8], [False] * 2)
    assert judged(guard, [1.15, 2.81], [True] * 2) == [False, False]
    assert judged(guard, [1.25, 2.83], [True] * 2) == [True, True]


def test_a_lighter_network_is_no_excuse():
    """A reduction is judged under the KL weight that it found, not under the heavier one that it brought about."""
    program = program_with(planted(0.05))
    before, after = (program.start()._replace(kl_weight=jnp.array([weight])) for weight in (0.125, 0.5))
    figures = [{"fit": 0.7, "kl_weight": 0.5}]
    for found, weight in ((before, 0.125), (None, 0.5)):
        assert _as_found(figures, Pause(after, None, None, found, None)) == [{"fit": 0.7, "kl_weight": weight}]


@pytest.fixture(scope="module")
def pruned():
    """A program whose KL weight is what the network can pay for, and the states and epochs of a run in which it loses
    weights before every epoch but the first."""
    reduction = Reduction(TargetSparsity(0.8, reach=0.75), Between(), evidence=Ramp(0.0, 1.0))
    method = ox.PaperBMR(kl_weight=Affordable(0.9, 0.02, 0.99, 1.0), reduction=reduction)
    program = program_with(method, budget=ox.Budget(4, 8, 16), examples=64)
    data = tuple(jnp.asarray(part) for part in tiny_data(64))
    loop = Loop(program, data)
    return program, [(epoch, jax.device_get(epoch.state._replace(key=0))) for epoch in loop.epochs(program.start())]


def test_a_reduction_is_of_the_posterior_as_it_was_trained(pruned):
    """ΔF in double precision, from the posterior after the epoch before, under the KL weight of that epoch and with the
    share of the evidence that is due when the next begins."""
    program, found = pruned
    size = program.model.layout.size
    weights = [float(state.kl_weight[0]) for _, state in found]
    assert len(set(weights)) > 2
    for number in (1, 2, 3):
        _, before = found[number - 1]
        mean, log_std = (np.asarray(v[0, :size], np.float64) for v in jax.tree.leaves(before.posterior))
        weight = weights[number - 1] ** (number / 4)
        precision = 1 + weight * (np.exp(-2 * log_std) - 1)
        expected = 0.5 * np.log(precision) - 0.5 * (weight * mean * np.exp(-2 * log_std)) ** 2 / precision
        assert np.allclose(found[number][0].record.delta_f[0], expected, rtol=1e-3, atol=1e-3)


def test_the_kl_weight_is_of_what_is_left(pruned):
    """By the formula, from the weights that are there once the reduction before the epoch is done."""
    _, found = pruned
    nats = [0.5, *(float(state.nats[0]) for _, state in found)]
    left = [int(state.mask[0].sum()) for _, state in found]
    assert left[0] > left[1] > left[3]
    for number, (epoch, _) in enumerate(found):
        expected = 0.02 * 64 * nats[number] / left[number]
        assert epoch.metrics[0]["kl_weight"] == pytest.approx(expected, rel=1e-3)


def test_the_fit_is_of_the_last_quarter(pruned):
    program, _ = pruned
    loop = Loop(program, tuple(jnp.asarray(part) for part in tiny_data(64)))
    here = loop._trained(loop._reduced(program.start(), 0), 0)
    _, figures, _ = loop._judged(here, np.asarray(here.info.neg_elbo, np.float64))
    assert figures[0]["fit"] == pytest.approx(float(here.info.expected_nll[0, -2:].mean()) / 64, rel=1e-5)


def test_a_slow_collapse_is_noticed():
    """Each reduction costs less than is tolerated; together they do not."""
    guard = Guard(0.1, baseline=2.0, seeds=1)
    judged(guard, [1.0], [False])
    undone = [judged(guard, [fit], [True])[0] for fit in (1.04, 1.08, 1.12, 0.9)]
    assert undone == [False, False, True, False]


def test_what_a_network_loses_by_itself_is_not_put_down_to_its_reductions():
    """Much as a ViT began on an H200: its fit went up and down, the first reduction was undone, the epoch after it
    without one was no better, and every second epoch was undone until nothing was left to lose. What the network costs
    without a reduction is what the next is held against; those that went before are not forgotten for it."""
    fits = [1.655, 1.402, 1.386, 1.39, 1.55, 1.474, 1.48, 1.43]
    held_out = [1.702, 1.492, 1.402, 1.438, 1.56, 1.541, 1.576, 1.45]
    reduced = [False, False, False, False, True, False, True, True]
    guard, undone, sparsity = Guard(0.05, 2.303, 1), [], 0.0
    for fit, held, was_reduced in zip(fits, held_out, reduced, strict=True):
        line = {"fit": fit, "held_out_nll": held, "kl_weight": 0.25}
        undone += guard.judge([line], np.array([was_reduced])).tolist()
        sparsity += 0.1 * (was_reduced and not undone[-1])
        line |= {"sparsity": sparsity, "undone": undone[-1]}
        guard.remember([line])
    assert undone == [False] * 4 + [True] + [False] * 3
    worse = {"fit": 1.53, "held_out_nll": 1.6, "kl_weight": 0.25}  # than the second network, no worse than the first
    assert guard.judge([worse], np.array([True])).tolist() == [True]


def test_a_heavier_divergence_is_not_taken_for_a_collapse():
    """The fit gets worse as the KL weight grows, slowly; a reduction that destroys it is still noticed."""
    guard = Guard(0.1, baseline=2.0, seeds=1)
    annealing = [(0.5 + 0.03 * i, 0.01 * 1.25**i) for i in range(12)]
    assert not any(judged(guard, [fit], [True], [weight])[0] for fit, weight in annealing)
    assert judged(guard, [1.7], [True], [0.01 * 1.25**12])[0]
    blind = Guard(0.1, baseline=2.0, seeds=1)
    assert any(judged(blind, [fit], [True])[0] for fit, _ in annealing)


def test_a_worse_fit_is_no_collapse_while_held_out_examples_cost_no_more():
    guard = Guard(0.1, baseline=2.0, seeds=3)
    judged(guard, [1.0] * 3, [False] * 3, held_out_nll=[1.2] * 3)
    undone = judged(guard, [1.5, 1.5, 1.0], [True] * 3, held_out_nll=[1.1, 1.5, 1.5])
    assert undone == [False, True, False]


def test_the_guard_remembers_by_the_metrics_alone():
    line = {"fit": 0.5, "undone": False, "kl_weight": 0.3}
    worse = {"fit": 0.8, "undone": True, "kl_weight": 1.0}
    guard = Guard(0.1, 2.0, 2, [[line, worse], [worse, line]])
    living = Guard(0.1, 2.0, 2)
    for lines in ([line, worse], [worse, line]):
        living.remember(lines)
    assert living.past == guard.past
    assert guard.held.tolist() == [True, False]
    now = [{"fit": 0.75, "kl_weight": weight} for weight in (0.6, 0.7)]
    assert [guard.judge([line, line], np.ones(2, bool)).tolist() for line in now] == [[True, True], [False, True]]


def test_an_undone_reduction_is_written_down(tmp_path, capsys):
    path = tmp_path / "run"
    options = {"epochs": 5, "steps_per_epoch": 200, "batch_size": 16, "num_samples": 2}
    fitted = ox.fit(Tiny(), tiny_data(200), planted(0.05), test=tiny_data(50), out=path, **options)
    folder = RunFolder.open(path)
    lines = folder.lines("reductions.jsonl")
    assert fitted.summary["reductions_undone"] == sum(line["undone"] for line in lines) == 1
    assert fitted.summary["sizes"]["remaining"] == fitted.summary["sizes"]["weights"]
    assert "was undone" in capsys.readouterr().out
    assert folder.metrics()[2]["undone"]


def test_the_target_trains_bmr_at_twice_its_rate_and_the_paper_at_its_own():
    ours, theirs = BMR(learning_rate=Constant(0.03)), PaperBMR(learning_rate=Constant(0.03))
    assert ours.pruned_to(0.9, 10).learning_rate(0.4) == pytest.approx(0.06)
    assert theirs.pruned_to(0.9, 10).learning_rate(0.4) == pytest.approx(0.03)
    assert replace(ours, target_rate_factor=3.0).pruned_to(0.9, 10).learning_rate(0.4) == pytest.approx(0.09)


def test_a_network_that_forgets_all_it_learnt_is_told_from_one_that_was_reduced():
    guard = Guard(None, 2.3, 1, [[{"fit": 1.2}, {"fit": 0.4}]])
    nothing, reduced = np.array([False]), np.array([True])
    assert guard.forgotten([{"fit": 2.31}], nothing).tolist() == [True]
    assert guard.forgotten([{"fit": 2.2}], nothing).tolist() == [False]  # it knows a little
    assert guard.forgotten([{"fit": 2.31}], reduced).tolist() == [False]  # the guard of reductions sees to that
    assert Guard(None, 2.3, 1, [[{"fit": 2.0}]]).forgotten([{"fit": 2.31}], nothing).tolist() == [False]
    assert Guard(None, 2.3, 1).forgotten([{"fit": 9.0}], nothing).tolist() == [False]  # the first epoch


@dataclass(frozen=True)
class Leap(Schedule):
    """A rate that trains, then one that destroys."""

    def __call__(self, progress):
        return jnp.where(progress < 0.5, 0.05, 20.0)


def test_a_run_whose_steps_become_too_long_stops_in_words():
    x, y = tiny_data(200)
    method = ox.Plain(learning_rate=Leap(), batches=ox.WithReplacement(), calibration=None)
    with pytest.raises(ox.DivergedError, match="forgot what it had learnt: a training example costs"):
        ox.fit(Tiny(), (x, y), method, epochs=4, steps_per_epoch=100, batch_size=16)
