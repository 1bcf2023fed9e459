"""Epochs to run folders, in the background."""

import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array

from ..inference.training import State
from ..reduction.reducing import Record
from ..storage.parts import Parts
from .checkpoint import on_host, pause_leaves, save_spread, state_leaves
from .devices import is_first_host
from .folder import Place, RunFolder
from .loop import Epoch, Pause
from .program import Program, of_seed

SHARE = 0.02  # of the time may go into checkpoints


class Content(NamedTuple):
    """Of a checkpoint, for all seeds: the arrays that the first host writes, and what is to be said of those that the
    hosts have written in parts."""

    arrays: dict[str, np.ndarray]
    parts: list[Parts | None]


class Writer:
    """Writes epochs to the run folders, one a seed; an error comes out at the next write, or at the end.

    Metrics are written every epoch. A checkpoint is written when the time since the last is so long that checkpoints
    take at most `SHARE` of it, after the last epoch, and whenever one must be: the first costs what it costs, later
    ones wait accordingly.
    """

    def __init__(
        self, folders: list[RunFolder], program: Program, mask: Array, rate_factor: float = 1.0, keep_best: bool = False
    ):
        self.folders, self.program, self.rate_factor, self.keep_best = folders, program, rate_factor, keep_best
        self.saved, self.cost = time.perf_counter(), 0.0  # when the last checkpoint was begun, and the seconds it took
        self.masks = [np.asarray(mask[i]) for i in range(len(folders))]
        self.devices, self.model = program.devices, program.model
        self.pool = ThreadPoolExecutor(max_workers=1)
        self.pending: Future | None = None

    def start(self, state: State) -> None:
        """The first checkpoint: a run killed in its first second resumes too."""
        self._save(self._content(state_leaves(state)), Place(0, 0, self.rate_factor), None)

    def write(self, epoch: Epoch, must_save: bool = False) -> None:
        self._wait()
        began = time.perf_counter()
        is_last = epoch.number == self.program.budget.epochs
        is_due = must_save or is_last or SHARE * (began - self.saved) >= self.cost
        is_due = self.devices.agree(is_due)
        # before the next epoch donates them
        record = self.devices.on_first_host(epoch.record)
        content = self._content(state_leaves(epoch.state)) if is_due else None
        if is_first_host():
            told = replace(epoch, record=None)  # what is on the devices is not held for the writing
            self.pending = self.pool.submit(self._write, told, content, record, began)

    def _write(self, epoch: Epoch, content: Content | None, record: Record | None, began: float) -> None:
        for i, folder in enumerate(self.folders):
            if record is not None:
                own = of_seed(record, i)
                undone = epoch.undone[i]
                folder.save_reduction(self.program.model.layout, self.masks[i], own, epoch.number, undone)
                self.masks[i] = self.masks[i] if undone else np.asarray(own.mask)
            folder.append("metrics.jsonl", epoch.metrics[i])
        if content is not None:
            self._save(content, Place(epoch.number, 0, self.rate_factor), [line["neg_elbo"] for line in epoch.metrics])
            self.saved, self.cost = began, time.perf_counter() - began

    def pause(self, epoch: int, pause: Pause) -> None:
        """A checkpoint in the middle of the epoch after `epoch` whole ones."""
        self._wait()
        steps = pause.info.neg_elbo.shape[-1]
        self._save(self._content(pause_leaves(pause)), Place(epoch, steps, self.rate_factor), None)

    def _content(self, leaves: Mapping[str, Any]) -> Content:
        """All hosts take part, where there are several. What no host has whole is written here, by each its part."""
        spread = {name: leaf for name, leaf in leaves.items() if self.devices.is_spread(leaf)}
        whole = {name: leaf for name, leaf in leaves.items() if name not in spread}
        arrays, parts = on_host(whole, self.model.latent_count, self.model.fill), [None] * len(self.folders)
        if spread:
            parts = [
                save_spread(
                    folder.path,
                    {name: leaf[i : i + 1] if len(leaf) > 1 else leaf for name, leaf in spread.items()},
                    self.model.latents_used,
                    self.devices,
                )
                for i, folder in enumerate(self.folders)
            ]
        return Content(arrays, list(parts))

    def _save(self, content: Content, place: Place, neg_elbo: list[float] | None) -> None:
        for i, folder in enumerate(self.folders if is_first_host() else ()):
            own = {name: np.asarray(array[i]) for name, array in content.arrays.items()}
            found = None if neg_elbo is None else neg_elbo[i]
            folder.save_state(own, place, found, self.keep_best, content.parts[i])

    def _wait(self) -> None:
        if self.pending is not None:
            pending, self.pending = self.pending, None
            pending.result()

    def close(self) -> None:
        try:
            self._wait()
        finally:
            self.pool.shutdown()
