"""The benchmark of groups: exact evidence beside its four estimates, on few groups."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import groups

from ..tolerances import CLOSED_FORM


def exact_by_other_means(x, y, rest):
    """ln p(y) without a group less ln p(y), by one example after the other: each is predicted from those before."""

    def evidence(x):
        mean, covariance, total = np.zeros(x.shape[1]), np.eye(x.shape[1]), 0.0
        for row, value in zip(x, y, strict=True):
            var = 1 + row @ covariance @ row
            total -= 0.5 * (np.log(2 * np.pi * var) + (value - row @ mean) ** 2 / var)
            gain = covariance @ row / var
            mean, covariance = mean + gain * (value - row @ mean), covariance - np.outer(gain, row @ covariance)
        return total

    return evidence(x[:, rest]) - evidence(x)


def test_the_evidence_is_that_of_one_example_after_the_other():
    rng = np.random.default_rng(0)
    x, y, rest = rng.normal(size=(20, 5)), rng.normal(size=20), np.array([0, 3])
    found = groups.evidence(x[:, rest], y) - groups.evidence(x, y)
    assert found == pytest.approx(exact_by_other_means(x, y, rest), rel=CLOSED_FORM)


def test_dense_is_exact_and_what_is_measured_is_careful():
    line = groups.measure(3, 1, (0.0, 0.8))
    for ways in line["delta_f"].values():
        exact = np.array(ways["exact"])
        assert np.allclose(ways["dense"], exact, rtol=CLOSED_FORM)
        assert np.all(np.array(ways["settled"]) >= np.array(ways["measured"]))  # the rest may only gain
        assert np.all(np.array(ways["settled"]) >= exact - CLOSED_FORM)  # what independence costs may only fall
    independent = line["delta_f"]["0.0"]
    for way in ("sum", "measured"):
        assert np.median(np.abs(np.array(independent[way]) / independent["exact"] - 1)) < 0.2
    rows = groups.table([line]).splitlines()[2:]
    assert [row.split(" | ")[2:4] for row in rows if " dense " in row] == [["dense", "100 %"]] * 2
    assert {"commit", "device", "versions", "command"} <= set(line)
