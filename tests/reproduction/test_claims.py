"""What is said of the results: rows beside the published figures, and the paper's sentences."""

import json
from dataclasses import replace

import numpy as np
import pytest

from occamax.experiment.config import Config
from occamax.report import Group
from occamax.reproduction.cells import QUANTILES, CellResult
from occamax.reproduction.claims import (
    agreement,
    checks,
    comparable,
    evidence,
    evidence_with_mask,
    followed,
    lowest,
    measured_timings,
    over_pruning,
)
from occamax.reproduction.comparison import Row, compare, deviations, mask_nats, misses
from occamax.reproduction.page import deviation_table
from occamax.reproduction.published import published


def made(
    method,
    accuracy=0.9,
    nll=0.3,
    ece=0.01,
    sparsity=0.0,
    speed=100.0,
    weights=1.0,
    network="mlp",
    neg_elbo=1e3,
    left=10,
):
    """A cell of one seed. Its first layer has ten weights, of which `left` are there."""
    layers = [{"name": "first", "weights": 10, "remaining": left}, {"name": "last", "weights": 5, "remaining": 5}]
    summary = {"accuracy": accuracy, "nll": nll, "ece": ece, "sparsity": sparsity, "steps_per_second": speed}
    summary |= {"neg_elbo": neg_elbo, "sizes": {"layers": layers}}
    config = Config("fashion_mnist", network, method)
    spread = dict.fromkeys(("first", "last"), weights * QUANTILES)
    return CellResult(Group(config, [], [[]], [summary]), "c", spread, None)


def test_rows_know_the_best_and_the_difference():
    rows = compare([made("map", nll=0.5), made("bmr-paper", nll=0.25, sparsity=0.98)])
    assert [row.key[2] for row in rows] == ["map", "bmr-paper"]
    assert not rows[0].best
    assert rows[1].best == {"nll", "pruned"}  # nobody wins a tie
    assert rows[1].difference("nll") == pytest.approx(0.25 - 0.36)
    assert rows[0].difference("pruned") is None


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        ({"accuracy": 0.854}, 1),
        ({"accuracy": 0.856}, 0),
        ({"accuracy": 0.99}, 0),
        ({"nll": 0.41}, 1),
        ({"nll": 0.1}, 0),
        ({"ece": 0.026}, 1),
        ({"pruned": 0.94}, 1),
        ({"pruned": 0.999}, 0),
    ],
)
def test_worse_than_published_is_a_miss_and_better_is_not(change, missed):
    ours = {"accuracy": 0.87, "nll": 0.36, "ece": 0.01, "pruned": 0.993, **change}
    key = ("fashion_mnist", "mlp", "bmr-paper")
    row = Row(key, 1, ours, published()[key])
    assert len(misses(row)) == missed
    assert agreement([row]).numbers.startswith(f"{1 - missed} of 1")
    assert agreement([row]).holds is None  # one cell is not the grid


def test_deviations_count_to_both_sides():
    key = ("fashion_mnist", "mlp", "bmr-paper")
    row = Row(key, 1, {"accuracy": 0.90, "nll": 0.41, "ece": 0.02, "pruned": 0.993}, published()[key])
    assert deviations(row) == {"accuracy": pytest.approx(0.03), "nll": pytest.approx(0.05)}
    assert misses(row) == ["nll .410 for .360"]
    assert "| 1 | accuracy .900 for .870 | NLL .410 for .360 |" in deviation_table([row])


def test_a_mask_costs_what_its_prior_says():
    """Beta(1, 1) over the share of useful weights: of n = 3, each count has probability ¼, each mask of two ¼ / 3."""
    layers = [{"weights": 3, "remaining": 2}, {"weights": 4, "remaining": 0}, {"weights": 9, "remaining": 9}]
    assert mask_nats(layers) == pytest.approx(np.log(4 * 3) + np.log(5))  # the output layer is not reduced


def test_checks_can_hold_and_can_fail():
    slow = [
        made("flat", ece=0.04, nll=0.6),
        made("tiered", ece=0.03, nll=0.5, speed=60),
        made("bmr-paper", weights=0.5, neg_elbo=900, sparsity=0.5, left=5),
    ]
    said = [True, True, True, True, True, True, True, None, True]
    assert [check.holds for check in checks(slow)] == [None, None, *said]
    fast = [
        made("flat", ece=0.001, nll=0.1, neg_elbo=899.99),
        made("tiered", weights=0.5),
        made("bmr-paper", sparsity=0.5, neg_elbo=900),
    ]
    said = [False, False, False, False, False, False, False, None, False]
    assert [check.holds for check in checks(fast)] == [None, None, *said]
    assert [check.holds for check in checks([])] == [None] * 11


def test_naming_the_mask_can_cost_the_evidence():
    """Five of ten weights: ln 11 + ln 252 = 7.9 nats."""
    for gain, survives in ((7.5, False), (8.5, True)):
        ours = made("bmr-paper", sparsity=0.5, left=5, neg_elbo=1000 - gain)
        rows = compare([made("flat"), made("tiered"), ours])
        assert evidence(rows).holds is True
        assert evidence_with_mask(rows).holds is survives
        assert "8 to 8 nats" in evidence_with_mask(rows).numbers


def test_comparable_and_followed():
    rows = [made("map", accuracy=0.93), made("flat"), made("tiered", nll=0.2), made("bmr-paper", accuracy=0.87)]
    assert comparable(compare(rows)).holds is False  # six points from the first to the last
    assert "0 of 1 cells, by the published figures 0 of 1" in comparable(compare(rows)).numbers
    assert comparable(compare([*rows[:3], made("bmr-paper", accuracy=0.89)])).holds is True
    assert followed(compare(rows), "nll").holds is True
    assert followed(compare(rows), "ece").holds is False  # a tie is not less


@pytest.mark.parametrize(("ours", "numbers"), [(0.026, "1 ahead, 0"), (0.027, "0 ahead, 0"), (0.034, "0 ahead, 1")])
def test_a_lower_calibration_error_counts_beyond_chance_only(ours, numbers):
    """By hand: .0026 and .0026 are .0037 together, and Tiered-FF, the lower of the others, has .030."""
    rows = compare([made("flat", ece=0.04), made("tiered", ece=0.03), made("bmr-paper", ece=ours)])
    assert lowest(rows, "ece").numbers.endswith(f"; beyond chance {numbers} behind")
    spread = [replace(row, deviation={"ece": 0.01}) for row in rows]  # of several seeds it is known
    assert lowest(spread, "ece").numbers.endswith("; beyond chance 0 ahead, 0 behind")
    assert "chance" not in lowest(rows, "nll").numbers


def test_removed_features_are_counted():
    layer = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 0.04], [0.0, 0.06]])  # norms 5, 0, .04, .06: two under a hundredth
    ours, theirs = (
        replace(made(m, network="lenet"), first_layer=w) for m, w in (("bmr-paper", layer[[0, 3]]), ("tiered", layer))
    )
    assert over_pruning([ours, theirs]).numbers == "fashion_mnist 0 and 2 of 2"
    assert over_pruning([ours, theirs]).holds is True
    assert over_pruning([replace(ours, first_layer=layer), theirs]).holds is False
    assert over_pruning([ours]).holds is None


def test_steps_timed_alone_count_more_than_runs_that_shared_a_device(tmp_path):
    rows = [{"name": "tiered", "ms_per_step": 2.0}, {"name": "bmr-paper", "ms_per_step": 1.0}, {"name": "peer"}]
    (tmp_path / "gpu.json").write_text(
        json.dumps({"device": "gpu: some", "ceilings": {}, "networks": {"mlp": rows, "lenet": []}})
    )
    (tmp_path / "cpu.json").write_text(
        json.dumps({"device": "cpu: cpu", "ceilings": {}, "networks": {"mlp": [{"name": "tiered", "ms_per_step": 9}]}})
    )
    timings = measured_timings(tmp_path)
    assert timings == {("mlp", "tiered"): 0.002, ("mlp", "bmr-paper"): 0.001}
    slower = [made("flat"), made("tiered"), made("bmr-paper", speed=1)]
    assert checks(slower)[-1].holds is False
    assert checks(slower, timings)[-1].holds is True
