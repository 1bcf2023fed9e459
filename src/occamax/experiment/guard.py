"""Notices a reduction that the network does not recover from."""

from collections.abc import Sequence
from typing import Any

import numpy as np


class Guard:
    """Compares the fit (nats an example, over the last quarter of an epoch) after a reduction with the best so far.

    The best, not the last: a network may also be ruined slowly, by reductions each of which costs little. But a heavier
    divergence makes the fit worse too: epochs under less than half the present weight do not count, except the last.
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
        self.past: list[list[tuple[float, float]]] = [[] for _ in range(seeds)]  # fits and weights of the divergence
        for past, lines in zip(self.past, history, strict=True):
            past.extend((line["fit"], line["divergence_weight"]) for line in lines)
        self.held = np.array([bool(lines) and lines[-1].get("undone", False) for lines in history])

    @property
    def is_on(self) -> bool:
        return self.tolerance is not None

    def best(self, weights: np.ndarray) -> np.ndarray:
        """Each seed's best fit under at least half of its present weight of the divergence, or in the last epoch."""
        found = [
            [fit for fit, then in past[:-1] if then >= 0.5 * now] + [fit for fit, _ in past[-1:]]
            for past, now in zip(self.past, weights, strict=True)
        ]
        return np.array([min(fits, default=np.inf) for fits in found])

    def judge(self, fits: np.ndarray, reduced: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Which seeds' reductions are to be undone, after an epoch that ended under these weights of the divergence, of
        those `reduced` in it. `remember` the epoch's metrics then."""
        undone = np.zeros(len(fits), bool)
        if self.tolerance is not None:
            best = self.best(weights)
            gained = np.maximum(self.baseline - best, 0.0)
            with np.errstate(invalid="ignore"):  # no fit is known before the first epoch
                undone = reduced & (fits - best > self.tolerance * gained) & (gained > 0)
        self.held = undone
        return undone

    def remember(self, lines: Sequence[dict[str, Any]]) -> None:
        """Each seed's metrics of the epoch judged."""
        for past, line in zip(self.past, lines, strict=True):
            past.append((line["fit"], line["divergence_weight"]))
