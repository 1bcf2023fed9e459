"""Epochs to run folders, in the background."""

import time
from concurrent.futures import Future, ThreadPoolExecutor

import jax
import numpy as np
from jaxtyping import Array

from ..inference.training import State
from ..reduction.reducing import Record
from .checkpoint import pause_arrays, state_arrays
from .devices import is_first_host
from .folder import Place, RunFolder
from .loop import Epoch, Pause
from .program import Program, of_seed

SHARE = 0.02  # of the time may go into checkpoints


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
        self.pool = ThreadPoolExecutor(max_workers=1)
        self.pending: Future | None = None

    def start(self, state: State) -> None:
        """The first checkpoint: a run killed in its first second resumes too."""
        self._save(self._arrays(state), Place(0, 0, self.rate_factor), None)

    def write(self, epoch: Epoch, must_save: bool = False) -> None:
        self._wait()
        began = time.perf_counter()
        is_last = epoch.number == self.program.budget.epochs
        is_due = must_save or is_last or SHARE * (began - self.saved) >= self.cost
        is_due = self.program.devices.agree(is_due)
        # before the next epoch donates them
        arrays, record = self._arrays(epoch.state) if is_due else None, jax.device_get(epoch.record)
        if is_first_host():
            self.pending = self.pool.submit(self._write, epoch, arrays, record, began)

    def _write(self, epoch: Epoch, arrays: dict[str, np.ndarray] | None, record: Record | None, began: float) -> None:
        for i, folder in enumerate(self.folders):
            if record is not None:
                own = of_seed(record, i)
                undone = epoch.undone[i]
                folder.save_reduction(self.program.model.layout, self.masks[i], own, epoch.number, undone)
                self.masks[i] = self.masks[i] if undone else np.asarray(own.mask)
            folder.append("metrics.jsonl", epoch.metrics[i])
        if arrays is not None:
            self._save(arrays, Place(epoch.number, 0, self.rate_factor), [line["neg_elbo"] for line in epoch.metrics])
            self.saved, self.cost = began, time.perf_counter() - began

    def pause(self, epoch: int, pause: Pause) -> None:
        """A checkpoint in the middle of the epoch after `epoch` whole ones."""
        self._wait()
        steps = pause.info.neg_elbo.shape[-1]
        arrays = pause_arrays(self.program.devices.gather(pause), self.program.model.fill)
        self._save(arrays, Place(epoch, steps, self.rate_factor), None)

    def _arrays(self, state: State) -> dict[str, np.ndarray]:
        """All hosts take part, where there are several."""
        return state_arrays(self.program.devices.gather(state), self.program.model.fill)

    def _save(self, arrays: dict[str, np.ndarray], place: Place, neg_elbo: list[float] | None) -> None:
        for i, folder in enumerate(self.folders if is_first_host() else ()):
            own = {name: array[i] for name, array in arrays.items()}
            folder.save_state(own, place, None if neg_elbo is None else neg_elbo[i], self.keep_best)

    def _wait(self) -> None:
        if self.pending is not None:
            pending, self.pending = self.pending, None
            pending.result()

    def close(self) -> None:
        try:
            self._wait()
        finally:
            self.pool.shutdown()
