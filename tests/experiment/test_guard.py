"""A reduction that ruins the network is undone and said; one that does not is left alone."""

import json
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import occamax as ox
from occamax.errors import ArgumentError
from occamax.experiment import Config, Experiment, RunFolder, train
from occamax.experiment.guard import Guard
from occamax.experiment.loop import epochs
from occamax.experiment.program import Program
from occamax.inference.schedules import Constant
from occamax.methods import BMR, PaperBMR
from occamax.reduction import Between, Reduction, TargetSparsity
from occamax.reduction.criteria import Criterion, Decision

from ..toys import Tiny, tiny_data


@dataclass(frozen=True)
class Planted(Criterion):
    """Removes everything at the given share of the run, nothing at other times."""

    at: float

    def decide(self, layout, beliefs):
        now = jnp.abs(beliefs.progress - self.at) < 0.01
        return Decision(beliefs.mask & ~now, jnp.zeros(len(layout.blocks)))


def program_with(tolerance, seeds=(0,), at=0.4):
    method = ox.BMR(reduction=Reduction(Planted(at), Between(), keep_output=False, tolerance=tolerance))
    return Program(ox.Model(Tiny(), method.prior), method, ox.Budget(5, 200, 16), seeds)


def run(program):
    x, y = (jnp.asarray(part) for part in tiny_data(200))
    return [
        (epoch.undone, [dict(line) for line in epoch.metrics], jax.device_get(epoch.state.mask))
        for epoch in epochs(program, program.start(), (x, y), (x, y), samples=4)
    ]


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_a_planted_ruin_is_undone_and_the_network_recovers(seeds):
    found = run(program_with(0.05, seeds))
    assert [undone for undone, _, _ in found] == [[epoch == 2] * len(seeds) for epoch in range(5)]
    assert all(mask.all() for _, _, mask in found)
    accuracies = [np.mean([line["accuracy"] for line in metrics]) for _, metrics, _ in found]
    assert accuracies[2] == pytest.approx(accuracies[1], abs=0.02)  # as before the reduction
    assert accuracies[-1] > 0.8
    collapsed = run(program_with(None, seeds))
    assert not collapsed[-1][2].any()
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
    program = Program(ox.Model(Tiny(), method.prior), method, ox.Budget(4, 5, 16), (0, 1))
    x, y = (jnp.asarray(part) for part in tiny_data())
    kept, recorded = [], []
    for epoch in epochs(program, program.start(), (x, y), None):
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


def test_a_slow_ruin_is_noticed():
    """Each reduction costs less than is tolerated; together they do not."""
    guard = Guard(0.1, baseline=2.0, seeds=1)
    judged(guard, [1.0], [False])
    undone = [judged(guard, [fit], [True])[0] for fit in (1.04, 1.08, 1.12, 0.9)]
    assert undone == [False, False, True, False]


def test_a_heavier_divergence_is_not_taken_for_a_ruin():
    """The fit gets worse as the divergence warms, slowly; a reduction that ruins it is still noticed."""
    guard = Guard(0.1, baseline=2.0, seeds=1)
    warming = [(0.5 + 0.03 * i, 0.01 * 1.25**i) for i in range(12)]
    assert not any(judged(guard, [fit], [True], [weight])[0] for fit, weight in warming)
    assert judged(guard, [1.7], [True], [0.01 * 1.25**12])[0]
    blind = Guard(0.1, baseline=2.0, seeds=1)
    assert any(judged(blind, [fit], [True])[0] for fit, _ in warming)


def test_a_worse_fit_is_no_ruin_while_held_out_examples_cost_no_more():
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
    config = Config("fashion_mini", "lenet", "bmr", epochs=4, steps=20, batch=32, samples=2)
    experiment = Experiment.of(config)
    reduction = Reduction(Planted(0.5), Between(), keep_output=False, tolerance=0.05)
    experiment = replace(experiment, method=replace(experiment.method, reduction=reduction))
    summary = train(experiment, [tmp_path / "run"], [0])[0]
    folder = RunFolder.open(tmp_path / "run")
    lines = folder.lines("reductions.jsonl")
    assert summary["reductions_undone"] == sum(line["undone"] for line in lines) >= 1
    assert summary["sizes"]["remaining"] == summary["sizes"]["weights"]
    assert "was undone" in capsys.readouterr().out
    assert json.loads((tmp_path / "run/metrics.jsonl").read_text().splitlines()[2])["undone"]


def test_the_dial_gives_exactly_what_was_asked(tmp_path):
    config = Config("fashion_mini", "lenet", "bmr", epochs=3, steps=3, batch=8, samples=1, sparsity=0.95)
    summary = train(Experiment.of(config), [tmp_path / "run"], [0])[0]
    sizes = summary["sizes"]
    kept = sizes["remaining"] - sizes["layers"][-1]["remaining"]
    assert kept == sizes["counted"] - round(0.95 * sizes["counted"])
    with pytest.raises(ArgumentError, match="MAP prunes nothing"):
        Config("fashion_mini", "lenet", "map", sparsity=0.9)
    with pytest.raises(ArgumentError, match=r"sparsity: 1\.5"):
        Config("fashion_mini", "lenet", "bmr", sparsity=1.5)
    with pytest.raises(ArgumentError, match="no room"):
        Config("fashion_mini", "lenet", "bmr", epochs=1, sparsity=0.5)


def test_the_dial_trains_bmr_at_twice_its_rate_and_the_paper_at_its_own():
    ours, theirs = BMR(learning_rate=Constant(0.03)), PaperBMR(learning_rate=Constant(0.03))
    assert ours.pruned_to(0.9, 10).learning_rate(0.4) == pytest.approx(0.06)
    assert theirs.pruned_to(0.9, 10).learning_rate(0.4) == pytest.approx(0.03)
    assert replace(ours, target_rate_factor=3.0).pruned_to(0.9, 10).learning_rate(0.4) == pytest.approx(0.09)
    with pytest.raises(ArgumentError, match="target_rate_factor: 0"):
        BMR(target_rate_factor=0.0)
