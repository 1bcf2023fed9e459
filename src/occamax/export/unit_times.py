"""How long a network takes without some of its units: files are written, opened and timed in turn, on one core."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ..inference.model import Model
from ..structure.compaction import compact
from ..structure.graph import Graph
from ..structure.units import Units
from . import measuring
from .card import Card
from .predictor import Predict, open_export
from .source import leaves_at
from .writing import write

SECONDS = 0.15  # of calls in turn, for each network


@dataclass(frozen=True)
class Clock:
    """Times the networks of one program with different weights: calls on **batch** examples, files of **form**."""

    model: Model
    program: Graph
    card: Card
    inputs: np.ndarray  # a batch
    form: str = "onnx"
    int8: bool = False

    def milliseconds(self, networks: Sequence[np.ndarray]) -> list[float]:
        """Of one call of each network, given as a vector of weights in which those that are gone are zero; the median
        of calls in turn, in the time of the computing thread: other work on the machine does not count."""
        asks = [self._opened(weights) for weights in networks]
        return measuring.interleaved(asks, self.inputs, SECONDS * len(asks), time.thread_time)

    def _opened(self, weights: np.ndarray) -> Predict:
        small, _ = compact(self.program.bind(leaves_at(self.model, weights)))
        with TemporaryDirectory() as place:
            file = Path(place) / f"timed.{self.form}"
            write(file, small, self.card, int8=self.int8)
            return open_export(file, threads=1)[0]


def without(weights: np.ndarray, units: Units, flags: np.ndarray) -> np.ndarray:
    """The weights with zeros for those of the flagged units."""
    return np.where(units.flagged(len(weights), flags), np.float32(0), weights)


def microseconds_each(
    clock: Clock, kinds: Sequence[Units], weights: np.ndarray, living: Sequence[np.ndarray]
) -> list[float]:
    """What a unit of each kind costs of a call: how much faster the network is without half of those `living`, for
    each. Kinds of equal sizes are timed once. One that is no faster without costs nothing."""
    there = (weights != 0).astype(np.float32)
    sizes = [(int(own.sum()), int(kind.sums(there).sum())) for kind, own in zip(kinds, living, strict=True)]
    halves = [max((count + 1 - kind.least) // 2, 0) for kind, (count, _) in zip(kinds, sizes, strict=True)]
    timed: dict[tuple[int, int], np.ndarray] = {}
    for size, half, kind, own in zip(sizes, halves, kinds, living, strict=True):
        if half and size not in timed:
            flags = np.zeros(kind.count, bool)
            flags[np.flatnonzero(own)[:half]] = True
            timed[size] = without(weights, kind, flags)
    first, *others = clock.milliseconds([weights, *timed.values()])
    saved = {size: 1e3 * max(first - own, 0.0) for size, own in zip(timed, others, strict=True)}
    return [saved.get(size, 0.0) / max(half, 1) for size, half in zip(sizes, halves, strict=True)]
