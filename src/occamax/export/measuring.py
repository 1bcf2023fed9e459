"""How fast two files are beside each other, and how good a file is on a test set."""

import math
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..evaluation.metrics import accuracy, calibration_error, calibration_floor
from .predictor import Predict


def on_all_cores(predict: Predict, inputs: np.ndarray, seconds: float = math.inf, size: int = 16) -> np.ndarray:
    """The answers about all inputs of what computes on one core, or about as many of the first as take so many seconds;
    few at a time, which stay in a core's cache."""
    if math.isfinite(seconds):
        began = time.perf_counter()
        predict(inputs[:size])
        each = (time.perf_counter() - began) / (os.cpu_count() or 1)
        inputs = inputs[: size * max(1, int(seconds / each))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return np.concatenate(list(pool.map(predict, [inputs[i : i + size] for i in range(0, len(inputs), size)])))


def in_parts(predict: Predict, inputs: np.ndarray, seconds: float = math.inf, size: int = 100) -> np.ndarray:
    """The answers about all inputs, or about the first that are answered within so many seconds."""
    began, found = time.perf_counter(), []
    for i in range(0, len(inputs), size):
        found.append(predict(inputs[i : i + size]))
        if time.perf_counter() - began > seconds:
            break
    return np.concatenate(found)


Seconds = Callable[[], float]


def latencies(
    before: Predict, after: Predict, inputs: np.ndarray, clock: Seconds = time.perf_counter, seconds: float = 0.6
) -> tuple[float, float]:
    """Milliseconds of one call of each, the median of interleaved calls."""
    first, second = interleaved([before, after], inputs, seconds, clock)
    return first, second


def interleaved(
    predicts: Sequence[Predict], inputs: np.ndarray, seconds: float = 0.6, clock: Seconds = time.perf_counter
) -> list[float]:
    """Milliseconds of one call of each of several, the median of calls in turn: other work meets them all. One whose
    first call takes longer than the `seconds` there are is not called again. `clock` may be that of the thread's own
    time, where a machine is busy."""

    def lap(predict: Predict) -> float:
        start = clock()
        predict(inputs)
        return clock() - start

    firsts = [lap(predict) for predict in predicts]
    laps: list[list[float]] = [[first] if first > seconds else [] for first in firsts]
    brief = [(predict, own) for predict, own in zip(predicts, laps, strict=True) if not own]
    began = time.perf_counter()
    while brief and (time.perf_counter() - began < seconds or len(brief[0][1]) < 3):
        for predict, own in brief:
            own.append(lap(predict))
    return [1e3 * float(np.median(own)) for own in laps]


def figures_of(found: np.ndarray, targets: np.ndarray, is_classes: bool) -> dict[str, float]:
    """Of answers: accuracy, NLL, ECE and its floor for classes, rmse for numbers."""
    found, targets = found.astype(np.float64), targets[: len(found)]
    if not is_classes:
        return {"rmse": float(np.sqrt(np.mean((found - targets.reshape(found.shape)) ** 2)))}
    own = np.maximum(found[np.arange(len(found)), targets], np.finfo(np.float32).tiny)
    nll = float(-np.mean(np.log(own)))
    ece, floor = calibration_error(found, targets), calibration_floor(found).mean
    return {"accuracy": accuracy(found, targets), "nll": nll, "ece": ece, "ece_floor": floor}
