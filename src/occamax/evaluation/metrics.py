"""How good probabilities are. Host arrays in float64; one number each."""

import numpy as np
from jaxtyping import Float, Int


def accuracy(probabilities: Float[np.ndarray, "n classes"], labels: Int[np.ndarray, "n"]) -> float:
    return float(np.mean(probabilities.argmax(1) == labels))


def brier(probabilities: Float[np.ndarray, "n classes"], labels: Int[np.ndarray, "n"]) -> float:
    """Mean squared distance from the one-hot truth, summed over classes: 0 is perfect, 2 the worst."""
    wrong = np.array(probabilities, np.float64)
    wrong[np.arange(len(labels)), labels] -= 1.0
    return float(np.mean(np.sum(wrong**2, axis=1)))


def calibration_error(
    probabilities: Float[np.ndarray, "n classes"], labels: Int[np.ndarray, "n"], bins: int = 20
) -> float:
    """Expected calibration error over bins of equal mass.

    The bins' edges are quantiles of the confidence max_k p_k; equal confidences share a bin, so the result does not
    depend on the order of the examples.
    """
    confidence = probabilities.max(1).astype(np.float64)
    hit = probabilities.argmax(1) == labels
    edges = np.quantile(confidence, np.linspace(0, 1, bins + 1)[1:-1])
    bin_of = np.searchsorted(edges, confidence, side="left")
    gaps = np.bincount(bin_of, weights=hit - confidence, minlength=bins)  # Σ (hit − confidence) of each bin
    return float(np.abs(gaps).sum() / len(labels))
