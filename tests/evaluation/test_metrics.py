import numpy as np
import pytest
from scipy.stats import binom

from occamax.evaluation import accuracy, brier, calibration_error, calibration_floor

from ..tolerances import STANDARD_ERRORS


def random_predictions(n, classes, seed=0, sharpness=2.0):
    rng = np.random.default_rng(seed)
    logits = sharpness * rng.normal(size=(n, classes))
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = np.array([rng.choice(classes, p=row**0.7 / (row**0.7).sum()) for row in probabilities])
    return probabilities, labels


def calibration_error_by_sorting(probabilities, labels, bins):
    """Independent form for distinct confidences: sort, cut into equal counts, weigh the gaps."""
    confidence, hit = probabilities.max(1), probabilities.argmax(1) == labels
    order = np.argsort(confidence)
    parts = np.array_split(order, bins)
    return sum(len(part) / len(labels) * abs(hit[part].mean() - confidence[part].mean()) for part in parts)


@pytest.mark.parametrize(
    ("n", "classes"), [(2000, 10), (500, 2), (4000, 100), (201, 3)]
)  # an edge between two, or on one
def test_calibration_error_of_distinct_confidences(n, classes):
    probabilities, labels = random_predictions(n, classes)
    expected = calibration_error_by_sorting(probabilities, labels, 20)
    assert len(np.unique(probabilities.max(1))) == n
    assert calibration_error(probabilities, labels) == pytest.approx(expected, abs=1e-12)
    assert expected > 0.02


def test_calibration_error_does_not_depend_on_the_order():
    probabilities, labels = random_predictions(300, 3)
    probabilities = np.round(probabilities, 1)  # many ties
    order = np.random.default_rng(1).permutation(300)
    assert np.isclose(calibration_error(probabilities, labels), calibration_error(probabilities[order], labels[order]))


def test_equal_confidences_share_a_bin():
    """One confidence of 0.8 throughout: the error is |0.8 − accuracy| whatever the bins."""
    probabilities = np.tile([0.8, 0.2], (100, 1))
    labels = (np.arange(100) >= 65).astype(int)
    assert np.isclose(calibration_error(probabilities, labels), 0.15)
    two = np.where(np.arange(100)[:, None] < 40, [[0.9, 0.1]], [[0.6, 0.4]])
    hit = two.argmax(1) == labels
    expected = 0.4 * abs(hit[:40].mean() - 0.9) + 0.6 * abs(hit[40:].mean() - 0.6)
    assert np.isclose(calibration_error(two, labels), expected)


def test_a_single_class_is_perfect():
    probabilities, labels = np.ones((30, 1)), np.zeros(30, int)
    assert calibration_error(probabilities, labels) == 0.0
    assert accuracy(probabilities, labels) == 1.0
    assert brier(probabilities, labels) == 0.0


def test_perfect_confidence_that_is_always_wrong_is_the_worst():
    probabilities = np.tile([1.0, 0.0], (50, 1))
    assert calibration_error(probabilities, np.ones(50, int)) == 1.0
    assert brier(probabilities, np.ones(50, int)) == 2.0


def test_brier_and_accuracy_example_by_example():
    probabilities, labels = random_predictions(200, 4)
    by_hand = np.mean(
        [sum((p - (k == y)) ** 2 for k, p in enumerate(row)) for row, y in zip(probabilities, labels, strict=True)]
    )
    assert np.isclose(brier(probabilities, labels), by_hand)
    assert accuracy(probabilities, labels) == np.mean(
        [int(np.argmax(r)) == y for r, y in zip(probabilities, labels, strict=True)]
    )


def test_the_floor_is_the_mean_distance_of_binomials():
    """Few confidences of many examples each are a bin each: its gap is |Binomial(n, p) − np|, summed out exactly."""
    confidences, counts, repeats = (0.55, 0.7, 0.8, 0.95), (100, 300, 150, 450), 2000
    top = np.repeat(confidences, counts)
    floor = calibration_floor(np.stack([top, 1 - top], 1), repeats=repeats)
    mean = var = 0.0
    for p, n in zip(confidences, counts, strict=True):
        distance = np.sum(binom.pmf(np.arange(n + 1), n, p) * np.abs(np.arange(n + 1) - n * p))
        mean, var = mean + distance / len(top), var + (n * p * (1 - p) - distance**2) / len(top) ** 2
    assert abs(floor.mean - mean) < STANDARD_ERRORS * np.sqrt(var / repeats)
    assert abs(floor.std / np.sqrt(var) - 1) < STANDARD_ERRORS / np.sqrt(2 * repeats)


@pytest.mark.parametrize("seed", range(5))
def test_a_calibrated_classifier_is_at_its_floor(seed):
    """Its labels are drawn from what it says; one that is surer than it is right is far above."""
    rng = np.random.default_rng(seed)
    probabilities, _ = random_predictions(5000, 10, seed)
    drawn = (probabilities.cumsum(1) < rng.random((5000, 1))).sum(1).clip(max=9)
    floor = calibration_floor(probabilities)
    assert abs(calibration_error(probabilities, drawn) - floor.mean) < 4 * floor.std
    sharper = probabilities**1.5 / (probabilities**1.5).sum(1, keepdims=True)
    assert calibration_error(sharper, drawn) > floor.mean + 10 * floor.std


def test_where_nothing_is_left_to_chance_the_floor_is_zero():
    assert calibration_floor(np.tile([1.0, 0.0], (50, 1))) == (0.0, 0.0)
