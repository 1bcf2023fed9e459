"""How good probabilities are. Host arrays in float64; one number each."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int


def accuracy(probabilities: Float[np.ndarray, "n classes"], labels: Int[np.ndarray, "n"]) -> float:
    """The share of examples whose most probable class is the true one.

    **probabilities** (n, classes), **labels** (n,) class numbers.

    Examples:
        >>> ox.accuracy(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0]))
        0.5
    """
    return float(np.mean(probabilities.argmax(1) == labels))


def brier(probabilities: Float[np.ndarray, "n classes"], labels: Int[np.ndarray, "n"]) -> float:
    """Mean squared distance from the one-hot truth, summed over classes: 0 is perfect, 2 the worst.

    **probabilities** (n, classes), **labels** (n,) class numbers.

    Examples:
        >>> round(ox.brier(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0])), 4)
        0.65
    """
    wrong = np.array(probabilities, np.float64)
    wrong[np.arange(len(labels)), labels] -= 1.0
    return float(np.mean(np.sum(wrong**2, axis=1)))


def calibration_error(
    probabilities: Float[np.ndarray, "n classes"], labels: Int[np.ndarray, "n"], bins: int = 20
) -> float:
    """Expected calibration error over bins of equal mass.

    The bins' edges are quantiles of the confidence max_k p_k; equal confidences share a bin, so the result does not
    depend on the order of the examples.

    **probabilities** (n, classes), **labels** (n,) class numbers, so many **bins**.

    Examples:
        >>> half_right = np.array([0, 1])
        >>> round(ox.calibration_error(np.array([[0.9, 0.1], [0.9, 0.1]]), half_right, bins=1), 4)
        0.4
    """
    confidence = probabilities.max(1).astype(np.float64)
    return _error(confidence, _bin_of(confidence, bins), probabilities.argmax(1) == labels)


class Floor(NamedTuple):
    """The calibration error that chance alone makes: its mean and its deviation from one test set to another."""

    mean: float
    std: float


def calibration_floor(
    probabilities: Float[np.ndarray, "n classes"], bins: int = 20, seed: int = 0, repeats: int = 200
) -> Floor:
    """What `calibration_error` would say of a perfectly calibrated classifier with these very confidences.

    It is not zero: of a hundred examples at a confidence of .8, rarely exactly eighty are hits. Whether an example is
    one is drawn with the probability that its confidence is, `repeats` times. No labels are looked at.

    **probabilities** (n, classes), so many **bins**, **seed** of the draws. Gives `mean` and `std`.

    Examples:
        >>> probabilities = fitted.predict(x)
        >>> floor = ox.calibration_floor(probabilities)
        >>> 0.0 < floor.mean < 0.1
        True
    """
    rng, confidence = np.random.default_rng(seed), probabilities.max(1).astype(np.float64)
    bin_of = _bin_of(confidence, bins)
    drawn = [_error(confidence, bin_of, rng.random(len(confidence)) < confidence) for _ in range(repeats)]
    return Floor(float(np.mean(drawn)), float(np.std(drawn, ddof=1)))


def _bin_of(confidence: Float[np.ndarray, "n"], bins: int) -> Int[np.ndarray, "n"]:
    edges = np.quantile(confidence, np.linspace(0, 1, bins + 1)[1:-1])
    return np.searchsorted(edges, confidence, side="left")


def _error(confidence: Float[np.ndarray, "n"], bin_of: Int[np.ndarray, "n"], hit: Bool[np.ndarray, "n"]) -> float:
    gaps = np.bincount(bin_of, weights=hit - confidence)  # Σ (hit − confidence) of each bin
    return float(np.abs(gaps).sum() / len(confidence))
