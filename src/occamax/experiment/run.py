"""Runs in folders: train, resume, evaluate."""

import shlex
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..errors import ArgumentError, DivergedError, RunError, StoppedError
from ..evaluation import score
from ..methods import Method
from ..schedules import Scaled
from ..training import State
from .config import Config, Experiment
from .devices import is_first_host
from .folder import Loaded, RunFolder, environment, source_commit
from .lock import RunLock
from .loop import PausedError, counted, epochs, sparsity
from .program import Program, on_device
from .progress import Progress
from .signals import StopSignals
from .writer import Writer


def train(
    experiment: Experiment,
    paths: Sequence[Path],
    seeds: Sequence[int],
    resume: bool = False,
    overwrite: bool = False,
    halvings: int = 0,
) -> list[dict[str, Any]]:
    """Trains one run a seed, all seeds in one program, each in its own folder. Returns their summaries.

    SIGTERM and SIGINT save what is reached and raise `StoppedError`. `halvings`: how often, when the objective
    diverges, to go back to the last checkpoint and on at half the learning rate, before `DivergedError` ends it.
    """
    if halvings < 0:
        raise ArgumentError(f"halvings: {halvings} given; it must be a whole number from 0 up")
    source_commit()
    configs = [replace(experiment.config, seed=seed) for seed in seeds]
    pairs = list(zip(paths, configs, strict=True))
    if resume:
        folders = [_reopen(path, own, experiment.method) for path, own in pairs]
    elif is_first_host():
        folders = [RunFolder.create(path, own, experiment.method, overwrite) for path, own in pairs]
    else:
        folders = [RunFolder(path) for path, _ in pairs]
    with ExitStack() as held, StopSignals() as stop:
        for folder in folders if is_first_host() else ():
            held.enter_context(RunLock(folder.path))
        loaded = _load(_program(experiment, seeds), folders) if resume else None
        for left in reversed(range(halvings + 1)):
            try:
                return _train(experiment, folders, tuple(seeds), loaded, stop)
            except DivergedError as error:
                if not left:
                    raise DivergedError(f"{error} The last good checkpoint is {folders[0].checkpoint}.") from error
                loaded = _load(_program(experiment, seeds), folders)
                loaded = loaded._replace(place=loaded.place._replace(rate_factor=loaded.place.rate_factor / 2))
                place = loaded.place
                print(f"{error} Going back to epoch {place.epoch}, {place.rate_factor:g} of the rate.", file=sys.stderr)
    raise AssertionError("the last attempt returns or raises")


def _program(experiment: Experiment, seeds: Sequence[int], rate_factor: float = 1.0) -> Program:
    method = experiment.method
    if rate_factor != 1.0:
        method = replace(method, learning_rate=Scaled(method.learning_rate, rate_factor))
    return Program(experiment.model, method, experiment.config.budget, tuple(seeds), experiment.devices)


def _train(
    experiment: Experiment, folders: list[RunFolder], seeds: tuple[int, ...], loaded: Loaded | None, stop: StopSignals
) -> list[dict[str, Any]]:
    """From a loaded checkpoint, or from the start, to the end."""
    config = experiment.config
    rate_factor = 1.0 if loaded is None else loaded.place.rate_factor
    program = _program(experiment, seeds, rate_factor)
    state, first, pause = (
        (program.start(), 0, None) if loaded is None else (loaded[0], loaded.place.epoch, loaded.pause)
    )
    # reductions are recorded when their epoch is over, against the mask that was there before
    mask = state.mask if pause is None or pause.mask is None else pause.mask
    writer = Writer(folders, program, mask, rate_factor)
    if loaded is None:
        writer.start(state)
    devices, asked = experiment.devices, lambda: experiment.devices.agree(stop.asked())
    train_data, test_data = on_device(experiment.dataset.train, devices), on_device(experiment.dataset.test, devices)
    began = time.perf_counter()
    rates = []
    with Progress(experiment, len(seeds), first) as progress:
        try:
            history = [folder.metrics() if loaded is not None else [] for folder in folders]
            draws = config.samples, config.curve_samples
            resumed_inside = pause is not None
            for epoch in epochs(program, state, train_data, test_data, first, *draws, history, pause, asked):
                is_stopping = asked()
                writer.write(epoch, must_save=is_stopping)
                state = epoch.state
                if not resumed_inside:
                    rates.append(config.steps / epoch.train_seconds)
                resumed_inside = False
                progress.show(epoch, program)
                if is_stopping and epoch.number < config.epochs:
                    raise _stopped(config, folders, seeds, stop, f"after epoch {epoch.number}")
        except jax.errors.JaxRuntimeError as error:
            if jax.process_count() == 1:
                raise
            command = resume_command(config, [folder.path for folder in folders], seeds)
            raise RunError(
                f"another host of this run is gone ({str(error).splitlines()[0][:200]}). What it had saved is there; "
                f"go on with as many hosts as are left:\n  {command}"
            ) from error
        except PausedError as paused:
            writer.pause(paused.epoch, paused.pause)
            steps = paused.pause.info.neg_elbo.shape[-1]
            where = f"in epoch {paused.epoch + 1} after {steps} steps"
            raise _stopped(config, folders, seeds, stop, where) from None
        finally:
            writer.close()
    seconds = time.perf_counter() - began
    state = devices.gather(state)
    if not is_first_host():
        return []
    for i, folder in enumerate(folders):
        folder.save_weights(experiment.model, program.of_seed(state, i))
    return [
        _summarise(program, folder, mask, rates, seconds) for folder, mask in zip(folders, writer.masks, strict=True)
    ]


def _stopped(
    config: Config, folders: list[RunFolder], seeds: Sequence[int], stop: StopSignals, where: str
) -> StoppedError:
    command = resume_command(config, [folder.path for folder in folders], seeds)
    return StoppedError(
        f"stopped {where}; everything is saved. Continue with:\n  {command}", stop.signum or signal.SIGTERM
    )


def resume_command(config: Config, paths: Sequence[Path], seeds: Sequence[int]) -> str:
    """What a user types to go on."""
    words = ["occamax", "train", config.data, config.network, config.method]
    for field in fields(Config):
        value = getattr(config, field.name)
        if field.name not in ("data", "network", "method", "seed") and value != field.default:
            words += [f"--{field.name.replace('_', '-')}", str(value)]
    one = len(paths) == 1
    words += ["--seed", str(seeds[0]), "--out", str(paths[0])] if one else ["--seeds", str(len(seeds))]
    words += [] if one else ["--out", str(paths[0].parent)]
    return shlex.join([*words, "--resume"])


def _load(program: Program, folders: list[RunFolder]) -> Loaded:
    """The newest place that the checkpoints of all seeds share; what was written after it is forgotten."""
    like = program.start()
    places = [list(folder.checkpoints()) for folder in folders]
    shared = [place for place in places[0] if all(place in others for others in places[1:])]
    if not shared:
        ends = ", ".join(f"{folder.path} at epoch {own[0].epoch}" for folder, own in zip(folders, places, strict=True))
        raise RunError(f"--resume: the seeds stopped at different epochs ({ends}). Resume each by itself.")
    parts = [folder.load_state(program.of_seed(like, i), shared[0], program.fill) for i, folder in enumerate(folders)]
    program.devices.wait_for_all("every host has read the checkpoint")
    for folder in folders if is_first_host() else ():
        folder.rewind(shared[0].epoch)
    program.devices.wait_for_all("the folder is as it was then")
    pauses = [part.pause for part in parts if part.pause is not None]
    pause = program.place(program.stack(pauses)) if pauses else None
    return Loaded(program.place(program.stack([part.state for part in parts])), shared[0], pause)


def _reopen(path: Path, config: Config, method: Method) -> RunFolder:
    folder = RunFolder.open(path)
    was, now = folder.config().as_dict(), config.as_dict()
    changed = [f"{name}: {was[name]!r} there, {now[name]!r} asked for" for name in now if was[name] != now[name]]
    if changed:
        raise RunError(
            f"--resume: {path} is another run ({'; '.join(changed)}). Ask for the same, or choose another --out."
        )
    folder.refuse_other_method(method)
    return folder


def _summarise(
    program: Program, folder: RunFolder, mask: np.ndarray, rates: list[float], seconds: float
) -> dict[str, Any]:
    """The last values and what a reader of the run needs to know of its circumstances."""
    layout = program.model.layout
    metrics = folder.metrics()
    if not metrics:
        raise RunError(f"{folder.path}: its metrics.jsonl was removed while it was being written")
    layers = [
        {"name": name, "weights": size, "remaining": int(mask[start:stop].sum())}
        for name, size, (start, stop) in zip(layout.names, layout.sizes, layout.bounds, strict=True)
    ]
    summary = {
        **metrics[-1],
        "epochs": len(metrics),
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
    folder.refuse_other_method(config.chosen_method(), "prior")  # what makes weights of latents
    experiment = Experiment.of(config, data_dir)
    program = Program(experiment.model, experiment.method, config.budget, (config.seed,))
    return experiment, folder.load_state(jax.eval_shape(program.start)).state


def evaluate(folder: RunFolder, data_dir: Path | None = None, samples: int | None = None) -> dict[str, float]:
    """The figures of a run's last checkpoint on its test set."""
    config = folder.config()
    experiment, state = restore(folder, data_dir)
    program = Program(experiment.model, experiment.method, config.budget, (config.seed,))
    test = on_device(experiment.dataset.test)
    predictive = jax.device_get(program.evaluate(state, *test, samples or config.samples))
    figures = score(experiment.model, predictive, experiment.dataset.test.targets)
    return {**figures, "sparsity": sparsity(np.asarray(state.mask), counted(program))}
