"""Runs in folders: train, resume, evaluate."""

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..errors import DivergedError, RunError
from ..evaluation import score
from ..reduction import Record
from ..training import State
from .checkpoint import state_arrays
from .config import Config, Experiment
from .folder import RunFolder, environment
from .loop import Epoch, counted, epochs, sparsity
from .program import Program, on_device
from .progress import Progress


def train(
    experiment: Experiment, paths: Sequence[Path], seeds: Sequence[int], resume: bool = False, overwrite: bool = False
) -> list[dict[str, Any]]:
    """Trains one run a seed, all seeds in one program, each in its own folder. Returns their summaries."""
    config = experiment.config
    configs = [replace(config, seed=seed) for seed in seeds]
    pairs = list(zip(paths, configs, strict=True))
    if resume:
        folders = [_reopen(path, own) for path, own in pairs]
    else:
        folders = [RunFolder.create(path, own, overwrite) for path, own in pairs]
    program = Program(experiment.model, experiment.method, config.budget, tuple(seeds))
    state, first = _first_state(program, folders, resume)
    writer = Writer(folders, program, state)
    train_data, test_data = on_device(experiment.dataset.train), on_device(experiment.dataset.test)
    began = time.perf_counter()
    rates = []
    with Progress(experiment, len(seeds), first) as progress:
        try:
            history = [folder.metrics() for folder in folders]
            draws = config.samples, config.curve_samples
            for epoch in epochs(program, state, train_data, test_data, first, *draws, history):
                writer.write(epoch)
                state = epoch.state
                rates.append(config.steps / epoch.train_seconds)
                progress.show(epoch, program)
        except DivergedError as error:
            raise DivergedError(f"{error} The last good checkpoint is {folders[0].checkpoint}.") from error
        finally:
            writer.close()
    seconds = time.perf_counter() - began
    for i, folder in enumerate(folders):
        folder.save_weights(experiment.model, program.of_seed(state, i))
    return [
        _summarise(program, folder, mask, rates, seconds) for folder, mask in zip(folders, writer.masks, strict=True)
    ]


def _first_state(program: Program, folders: list[RunFolder], resume: bool) -> tuple[State, int]:
    state = program.start()
    if not resume:
        for i, folder in enumerate(folders):
            folder.save_state(state_arrays(program.of_seed(state, i)), 0)
        return state, 0
    loaded = [folder.load_state(program.of_seed(state, i)) for i, folder in enumerate(folders)]
    first = min(epoch for _, epoch in loaded)
    if any(epoch != first for _, epoch in loaded):
        raise RunError(
            f"--resume: the seeds stopped at different epochs {[e for _, e in loaded]}. Resume each by itself."
        )
    for folder in folders:
        folder.rewind(first)
    return program.stack([state for state, _ in loaded]), first


def _reopen(path: Path, config: Config) -> RunFolder:
    folder = RunFolder.open(path)
    was, now = folder.config().as_dict(), config.as_dict()
    changed = [f"{name}: {was[name]!r} there, {now[name]!r} asked for" for name in now if was[name] != now[name]]
    if changed:
        raise RunError(
            f"--resume: {path} is another run ({'; '.join(changed)}). Ask for the same, or choose another --out."
        )
    return folder


class Writer:
    """Writes epochs to the run folders in the background; an error comes out at the next write, or at the end.

    Metrics are written every epoch. A checkpoint is written when the time since the last is so long that checkpoints
    take at most `SHARE` of it, and after the last epoch: the first costs what it costs, later ones wait accordingly.
    """

    SHARE = 0.02

    def __init__(self, folders: list[RunFolder], program: Program, state: State):
        self.folders, self.program = folders, program
        self.saved, self.cost = time.perf_counter(), 0.0  # when the last checkpoint was begun, and the seconds it took
        self.masks = [np.asarray(program.of_seed(state.mask, i)) for i in range(len(folders))]
        self.pool = ThreadPoolExecutor(max_workers=1)
        self.pending: Future | None = None

    def write(self, epoch: Epoch) -> None:
        self._wait()
        began = time.perf_counter()
        is_due = self.SHARE * (began - self.saved) >= self.cost or epoch.number == self.program.budget.epochs
        # before the next epoch donates them
        arrays, record = state_arrays(epoch.state) if is_due else None, jax.device_get(epoch.record)
        self.pending = self.pool.submit(self._write, epoch, arrays, record, began)

    def _write(self, epoch: Epoch, arrays: dict[str, np.ndarray] | None, record: Record | None, began: float) -> None:
        for i, folder in enumerate(self.folders):
            if record is not None:
                own = self.program.of_seed(record, i)
                undone = epoch.undone[i]
                folder.save_reduction(self.program.model.layout, self.masks[i], own, epoch.number, undone)
                self.masks[i] = self.masks[i] if undone else own.mask
            folder.append("metrics.jsonl", epoch.metrics[i])
            if arrays is not None:
                own_arrays = {name: self.program.of_seed(array, i) for name, array in arrays.items()}
                folder.save_state(own_arrays, epoch.number)
        if arrays is not None:
            self.saved, self.cost = began, time.perf_counter() - began

    def _wait(self) -> None:
        if self.pending is not None:
            pending, self.pending = self.pending, None
            pending.result()

    def close(self) -> None:
        try:
            self._wait()
        finally:
            self.pool.shutdown()


def _summarise(
    program: Program, folder: RunFolder, mask: np.ndarray, rates: list[float], seconds: float
) -> dict[str, Any]:
    """The last values and what a reader of the run needs to know of its circumstances."""
    layout = program.model.layout
    metrics = folder.metrics()
    layers = [
        {"name": name, "weights": size, "remaining": int(mask[start:stop].sum())}
        for name, size, (start, stop) in zip(layout.names, layout.sizes, layout.bounds, strict=True)
    ]
    summary = {
        **metrics[-1],
        "epochs": len(metrics),
        "divergence_weight": program.method.final_divergence_weight,
        "reductions_undone": sum(line.get("undone", False) for line in metrics),
        "seconds": seconds,
        "steps_per_second": float(np.median(rates[1:] or rates)) * len(program.seeds) if rates else None,
        "seeds_at_once": len(program.seeds),
        "sizes": {
            "weights": layout.size,
            "counted": counted(program),
            "remaining": int(mask.sum()),
            "sparsity_of_all": sparsity(mask, layout.size),
            "layers": layers,
        },
        **environment(),
    }
    folder.write_json("summary.json", summary)
    return summary


def restore(folder: RunFolder, data_dir: Path | None = None) -> tuple[Experiment, State]:
    """A finished or interrupted run: its experiment and its last state."""
    config = folder.config()
    experiment = Experiment.of(config, data_dir)
    program = Program(experiment.model, experiment.method, config.budget, (config.seed,))
    return experiment, folder.load_state(program.start())[0]


def evaluate(folder: RunFolder, data_dir: Path | None = None, samples: int | None = None) -> dict[str, float]:
    """The figures of a run's last checkpoint on its test set."""
    config = folder.config()
    experiment, state = restore(folder, data_dir)
    program = Program(experiment.model, experiment.method, config.budget, (config.seed,))
    test = on_device(experiment.dataset.test)
    predictive = jax.device_get(program.evaluate(state, *test, samples or config.samples))
    figures = score(experiment.model, predictive, experiment.dataset.test.targets)
    return {**figures, "sparsity": sparsity(np.asarray(state.mask), counted(program))}
