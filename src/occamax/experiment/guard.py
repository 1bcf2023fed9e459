"""Notices a reduction that the network does not recover from."""

from collections.abc import Sequence
from typing import Any

import numpy as np

COSTS = "fit", "held_out_nll"
MUCH, NEXT_TO_NOTHING = 0.5, 0.02  # nats an example; of what was gained
ENOUGH = 256  # examples that a fit is taken over, to say what is known


class Guard:
    """Compares what an example costs after a reduction, in nats, with the least that it has cost: one that the network
    trained on (the fit, over the last quarter of an epoch) and, where some are held out, one that it did not. A
    reduction is undone when both cost too much: a heavier divergence makes the fit worse without any harm, and few
    held-out examples say little alone.

    The least of all the networks on the way, not the last: one may also collapse slowly, by reductions each of
    which costs little. But of epochs of the same network the last counts: what it lost with nothing removed is not
    put down to the next reduction, nor held against all that follow. Epochs under less than half the present KL
    weight do not count, except the last. All it knows is in the metrics, so a resumed run judges as an
    uninterrupted one does.
    """

    def __init__(
        self,
        tolerance: float | None,
        baseline: float,
        seeds: int,
        history: Sequence[Sequence[dict[str, Any]]] | None = None,
    ):
        self.tolerance, self.baseline = tolerance, baseline
        self.past = [list(lines) for lines in history] if history else [[] for _ in range(seeds)]
        self.held = np.array([bool(lines) and lines[-1].get("undone", False) for lines in self.past])

    @property
    def is_on(self) -> bool:
        return self.tolerance is not None

    def judge(self, lines: Sequence[dict[str, Any]], reduced: np.ndarray) -> np.ndarray:
        """Which seeds' reductions are to be undone, of those `reduced` before an epoch with these metrics."""
        undone = np.zeros(len(lines), bool)
        if self.tolerance is not None:
            undone = reduced & [self._has_collapsed(past, line) for past, line in zip(self.past, lines, strict=True)]
        self.held = undone
        return undone

    def forgotten(self, lines: Sequence[dict[str, Any]], reduced: np.ndarray) -> np.ndarray:
        """Which seeds knew much an epoch ago and know next to nothing now, though they were not `reduced` in between:
        the steps are too long for the network."""
        gain = self.baseline - np.array([past[-1]["fit"] if past else self.baseline for past in self.past])
        lost = np.array([line["fit"] for line in lines]) > self.baseline - NEXT_TO_NOTHING * gain
        return ~reduced & (gain > MUCH) & lost

    def remember(self, lines: Sequence[dict[str, Any]]) -> None:
        """Each seed's metrics of the epoch judged."""
        for past, line in zip(self.past, lines, strict=True):
            past.append(line)

    def _has_collapsed(self, past: list[dict[str, Any]], line: dict[str, Any]) -> bool:
        """Whether every cost is above its least by more than the tolerance, in parts of what was gained."""
        heavy = 0.5 * line["kl_weight"]
        counted = _last_of_each([then for then in past[:-1] if then["kl_weight"] >= heavy] + past[-1:])
        known = [name for name in COSTS if name in line]
        return bool(counted) and all(self._is_lost(min(then[k] for then in counted), line[k]) for k in known)

    def _is_lost(self, least: float, now: float) -> bool:
        assert self.tolerance is not None
        return least < self.baseline and now - least > self.tolerance * (self.baseline - least)


def _last_of_each(past: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last epoch of each network on the way: those with the same share removed are the same network."""
    return list({then.get("sparsity", number): then for number, then in enumerate(past)}.values())
