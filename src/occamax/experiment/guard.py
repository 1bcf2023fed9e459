"""Notices a reduction that the network does not recover from."""

from collections.abc import Sequence
from typing import Any

import numpy as np


class Guard:
    """Compares the fit (nats an example, over the last quarter of an epoch) after a reduction with the best so far.

    The best, not the last: a network may also be ruined slowly, by reductions each of which costs little.
    All it knows is in the metrics, so a resumed run judges as an uninterrupted one does.
    """

    def __init__(
        self,
        tolerance: float | None,
        baseline: float,
        seeds: int,
        history: Sequence[Sequence[dict[str, Any]]] | None = None,
    ):
        self.tolerance, self.baseline = tolerance, baseline
        history = history or [[] for _ in range(seeds)]
        self.best = np.array([min([line.get("fit", np.inf) for line in lines], default=np.inf) for lines in history])
        self.held = np.array([bool(lines) and lines[-1].get("undone", False) for lines in history])

    @property
    def is_on(self) -> bool:
        return self.tolerance is not None

    def judge(self, fits: np.ndarray, reduced: np.ndarray) -> np.ndarray:
        """Which seeds' reductions are to be undone. Seeds not `reduced` in this epoch only update what is known."""
        undone = np.zeros(len(fits), bool)
        if self.tolerance is not None:
            gained = np.maximum(self.baseline - self.best, 0.0)
            with np.errstate(invalid="ignore"):  # no fit is known before the first epoch
                undone = reduced & (fits - self.best > self.tolerance * gained) & (gained > 0)
        self.best = np.minimum(self.best, fits)
        self.held = undone
        return undone
