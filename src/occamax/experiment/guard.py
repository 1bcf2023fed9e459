"""Notices a reduction that the network does not recover from."""

from collections.abc import Sequence
from typing import Any

import numpy as np


class Guard:
    """Compares the fit (nats an example, over the last quarter of an epoch) before and after a reduction.

    All it knows is in the metrics of the last epoch, so a resumed run judges as an uninterrupted one does.
    """

    def __init__(
        self, tolerance: float | None, baseline: float, seeds: int, last: Sequence[dict[str, Any]] | None = None
    ):
        self.tolerance, self.baseline = tolerance, baseline
        self.fits = np.full(seeds, np.inf) if last is None else np.array([line.get("fit", np.inf) for line in last])
        self.held = np.zeros(seeds, bool) if last is None else np.array([line.get("undone", False) for line in last])

    @property
    def is_on(self) -> bool:
        return self.tolerance is not None

    def judge(self, fits: np.ndarray, reduced: np.ndarray) -> np.ndarray:
        """Which seeds' reductions are to be undone. Seeds not `reduced` in this epoch only update what is known."""
        undone = np.zeros(len(fits), bool)
        if self.tolerance is not None:
            gained = np.maximum(self.baseline - self.fits, 0.0)
            with np.errstate(invalid="ignore"):  # no fit is known before the first epoch
                undone = reduced & (fits - self.fits > self.tolerance * gained) & (gained > 0)
        self.fits = np.where(undone, self.fits, fits)
        self.held = undone
        return undone
