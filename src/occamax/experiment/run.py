"""Trains: all seeds in one program, each kept in a folder of its own where folders are given."""

import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..data import Stream
from ..errors import ArgumentError, DivergedError, RunError, StoppedError
from ..inference.likelihoods import Categorical
from ..inference.model import Model
from ..inference.training import State
from ..storage import RunLock, load_arrays
from ..storage.parts import require_orbax
from .checkpoint import Loaded, load_state, state_from
from .config import Config
from .devices import Devices, is_first_host
from .environment import environment, source_commit
from .examining import examined
from .feeder import STREAMED_BYTES
from .folder import RunFolder
from .hosts import losses_explained
from .loop import Epoch, Evaluation, Loop, PausedError
from .program import LONGEST_CHUNK, Program, Task, of_seed, stack
from .progress import Progress
from .signals import StopSignals
from .sizes import sizes_of
from .writer import Writer


@dataclass(frozen=True)
class Experiment:
    """Everything that a run is made of: what is trained (`task`), on what (`train`), how it is measured, where, and
    what its folder says of it (`config`, of the first seed)."""

    task: Task
    train: tuple[np.ndarray, np.ndarray] | Stream
    test: tuple[np.ndarray, np.ndarray] | Stream | None
    config: Config
    devices: Devices = Devices()

    def program(self, rate_factor: float = 1.0) -> Program:
        task = replace(self.task, method=self.task.method.at_rate(rate_factor))
        longest = LONGEST_CHUNK
        if isinstance(self.train, Stream):
            each = len(self.task.seeds) * self.config.batch_size * self.train.bytes_each
            longest = max(1, STREAMED_BYTES // each)
        return Program(task, self.devices, longest)

    def configs(self) -> list[Config]:
        """One a seed."""
        return [replace(self.config, seed=seed) for seed in self.task.seeds]


@dataclass(frozen=True)
class Keeping:
    """How runs are kept and watched. `paths`: a folder a seed, or none. `halvings`: how often, when the objective
    diverges, to go back to the last checkpoint and on at half the learning rate. `how_to_resume` is told to a user
    whose run was stopped; `on_epoch` is called after every epoch; `show` prints progress."""

    paths: Sequence[Path] = ()
    resume: bool = False
    overwrite: bool = False
    keep_best: bool = False
    halvings: int = 0
    how_to_resume: str = "fit(…, resume=True)"
    on_epoch: Callable[[Epoch], None] | None = None
    show: bool = False

    def __post_init__(self):
        if isinstance(self.halvings, bool) or not isinstance(self.halvings, int) or self.halvings < 0:
            raise ArgumentError(f"halvings: {self.halvings!r} given; it must be a whole number from 0 up")
        if not self.paths and (self.resume or self.halvings or self.overwrite or self.keep_best):
            raise ArgumentError("out: resume, overwrite, halvings and keep_best need a folder; name one with `out`")


@dataclass(frozen=True)
class Trained:
    """One seed's last state and what happened on the way. `summary` is that of its folder, empty without one."""

    state: State
    history: list[dict[str, Any]]
    summary: dict[str, Any] = field(default_factory=dict)


def train(experiment: Experiment, keeping: Keeping = Keeping()) -> list[Trained]:
    """Trains one run a seed. With folders, SIGTERM and SIGINT save what is reached and raise `StoppedError`; hosts
    other than the first get nothing back."""
    if not keeping.paths:
        return Session(experiment, keeping, [], StopSignals()).train(None)
    source_commit()
    if experiment.devices.spreads_over_hosts:
        require_orbax()
    folders = _folders(experiment, keeping)
    with ExitStack() as held, StopSignals() as stop, losses_explained(keeping.how_to_resume):
        for folder in folders if is_first_host() else ():
            held.enter_context(RunLock(folder.path))
        session = Session(experiment, keeping, folders, stop)
        loaded = session.load() if keeping.resume else None
        factor = 1.0 if loaded is None else loaded.place.rate_factor
        for left in reversed(range(keeping.halvings + 1)):
            try:
                return session.train(loaded)
            except DivergedError as error:
                if not left:
                    raise DivergedError(f"{error} The last good checkpoint is {folders[0].checkpoint}.") from error
                loaded, factor = session.load(), factor / 2  # of what was tried: the checkpoint may be older than that
                loaded = loaded._replace(place=loaded.place._replace(rate_factor=factor))
                print(f"{error} Going back to epoch {loaded.place.epoch}, {factor:g} of the rate.", file=sys.stderr)
    raise AssertionError("the last attempt returns or raises")


def _folders(experiment: Experiment, keeping: Keeping) -> list[RunFolder]:
    pairs = list(zip(keeping.paths, experiment.configs(), strict=True))
    if keeping.resume:
        return [_reopen(path, own) for path, own in pairs]
    if not is_first_host():
        return [RunFolder(path) for path, _ in pairs]
    if not keeping.overwrite:  # before the first is made
        for path, _ in pairs:
            RunFolder.refuse_existing(path)
    return [RunFolder.create(path, own, keeping.overwrite) for path, own in pairs]


def _reopen(path: Path, config: Config) -> RunFolder:
    folder = RunFolder.open(path)
    changed = folder.config().differences(config)
    if changed:
        raise RunError(
            f"resume: {path} is another run ({'; '.join(changed)}). Ask for the same, or choose another folder."
        )
    return folder


class Session:
    """One attempt at training, from a checkpoint or from the start, to the end."""

    def __init__(self, experiment: Experiment, keeping: Keeping, folders: list[RunFolder], stop: StopSignals):
        self.experiment, self.keeping, self.folders, self.stop = experiment, keeping, folders, stop
        self.devices = experiment.devices
        self.data: Any = None

    def load(self) -> Loaded:
        """The newest place that the checkpoints of all seeds share; what was written after it is forgotten."""
        program = self.experiment.program()
        like = program.shape_of_one()
        hosts = (jax.process_index(), jax.process_count()) if self.devices.mesh is not None else (0, 1)
        found = [folder.checkpoints(*hosts, self.devices.agree) for folder in self.folders]
        places = [list(own) for own in found]
        shared = [place for place in places[0] if all(place in others for others in places[1:])]
        if not shared:
            pairs = zip(self.folders, places, strict=True)
            ends = ", ".join(f"{folder.path} at epoch {own[0].epoch}" for folder, own in pairs)
            raise RunError(f"resume: the seeds stopped at different epochs ({ends}). Resume each by itself.")
        parts = [load_state(own[shared[0]], like, shared[0], self.devices, program.model.fill) for own in found]
        self.devices.wait_for_all("every host has read the checkpoint")
        for folder in self.folders if is_first_host() else ():
            folder.rewind(shared[0].epoch)
        self.devices.wait_for_all("the folder is as it was then")
        pauses = [part.pause for part in parts if part.pause is not None]
        pause = program.place(stack(pauses)) if pauses else None
        return Loaded(program.place(stack([part.state for part in parts])), shared[0], pause)

    def train(self, loaded: Loaded | None) -> list[Trained]:
        rate_factor = 1.0 if loaded is None else loaded.place.rate_factor
        program = self.experiment.program(rate_factor)
        state, first, pause = (program.start(), 0, None) if loaded is None else (loaded[0], loaded[1].epoch, loaded[2])
        # reductions are recorded when their epoch is over, against the mask that was there before
        mask = state.mask if pause is None or pause.mask is None else pause.mask
        writer = Writer(self.folders, program, mask, rate_factor, self.keeping.keep_best) if self.folders else None
        if writer is not None and loaded is None:
            writer.start(state)
        history = [folder.metrics() if loaded is not None else [] for folder in self.folders] or [
            [] for _ in program.seeds
        ]
        loop = self._loop(program, history)
        began, rates = time.perf_counter(), []
        with Progress(self.experiment.config, program, first, self.keeping.show) as progress:
            try:
                for epoch in loop.epochs(state, first, pause):
                    state = epoch.state
                    if pause is None or epoch.number > first + 1:
                        rates.append(program.budget.steps_per_epoch / epoch.train_seconds)
                    self._keep(epoch, writer, history, progress)
                    del epoch  # and its record, before the next reduction makes another
            except PausedError as paused:
                assert writer is not None
                writer.pause(paused.epoch, paused.pause)
                steps = paused.pause.info.neg_elbo.shape[-1]
                raise self._stopped(f"in epoch {paused.epoch + 1} after {steps} steps") from None
            finally:
                if writer is not None:
                    writer.close()
        return self._finished(program, state, history, rates, time.perf_counter() - began, loop.answers)

    def _loop(self, program: Program, history: list[list[dict[str, Any]]]) -> Loop:
        if self.data is None:
            parts = self.experiment.train, self.experiment.test
            self.data = [part if part is None or isinstance(part, Stream) else self.devices.put(part) for part in parts]
        config = self.experiment.config
        evaluation = Evaluation(self.data[1], config.num_samples, config.curve_samples)
        asked = (lambda: self.devices.agree(self.stop.asked())) if self.folders else (lambda: False)
        return Loop(program, self.data[0], evaluation, history, asked)

    def _keep(
        self, epoch: Epoch, writer: Writer | None, history: list[list[dict[str, Any]]], progress: Progress
    ) -> None:
        """What is done with an epoch when it is over; a stop that was asked for is obeyed here."""
        is_stopping = writer is not None and self.devices.agree(self.stop.asked())
        if writer is not None:
            writer.write(epoch, must_save=is_stopping)
        for lines, line in zip(history, epoch.metrics, strict=True):
            lines.append(line)
        progress.show(epoch)
        if self.keeping.on_epoch is not None:
            self.keeping.on_epoch(epoch)
        if is_stopping and epoch.number < self.experiment.task.budget.epochs:
            raise self._stopped(f"after epoch {epoch.number}")

    def _stopped(self, where: str) -> StoppedError:
        words = f"stopped {where}; everything is saved. Continue with:\n  {self.keeping.how_to_resume}"
        return StoppedError(words, self.stop.signum or signal.SIGTERM)

    def _finished(
        self,
        program: Program,
        state: State,
        history: list[list[dict[str, Any]]],
        rates: list[float],
        seconds: float,
        answers: list[np.ndarray] | None,
    ) -> list[Trained]:
        is_read_back = bool(self.folders) and self.devices.spreads_over_hosts
        state = state if is_read_back else self.devices.gather(state)
        if self.folders and not is_first_host():
            return []
        found = []
        for i, lines in enumerate(history):
            # the first host alone has them whole, once
            own = self._read_back(program, i) if is_read_back else of_seed(state, i)
            summary = {}
            if self.folders:
                save_weights(self.folders[i], program.model, own)
                if answers is not None and isinstance(program.model.likelihood, Categorical):
                    self._examine(self.folders[i], answers[i])
                summary = _summarise(program, self.folders[i], np.asarray(own.mask), rates, seconds)
            found.append(Trained(own, lines, summary))
        return found

    def _read_back(self, program: Program, i: int) -> State:
        """One seed's last state, on this host alone: what the hosts wrote of it."""
        path = self.folders[i].checkpoint
        return state_from(load_arrays(path)[0], program.shape_of_one(), path, program.model.fill)

    def _examine(self, folder: RunFolder, answers: np.ndarray) -> None:
        test = self.experiment.test
        assert test is not None
        names = self.experiment.config.origin.get("data", {}).get("class_names")
        if isinstance(test, Stream):
            look, targets = lambda i: test.take(np.array([i]))[0][0], test.targets
        else:
            look, targets = np.asarray(test[0]).__getitem__, np.asarray(test[1])
        folder.write_json("examples.json", examined(answers, look, targets, names))


@eqx.filter_jit
def _weights(model: Model, latents: Any, mask: Any) -> Any:
    return model.weights(jnp.asarray(latents), jnp.asarray(mask))


def save_weights(folder: RunFolder, model: Model, state: State) -> None:
    """The weights of one seed at the posterior mean, layer by layer."""
    layout = model.layout
    weights = _weights(model, state.posterior.point, state.mask)
    matrices = zip(layout.names, layout.matrices(weights), strict=True)
    layers = {name: np.asarray(matrix) for name, matrix in matrices}
    folder.save_weights(layers, [block.bias_shape is not None for block in layout.blocks])


def _summarise(
    program: Program, folder: RunFolder, mask: np.ndarray, rates: list[float], seconds: float
) -> dict[str, Any]:
    """The last values and what a reader of the run needs to know of its circumstances. A run that was finished before
    keeps what was said of it then."""
    metrics = folder.metrics()
    if not rates and (folder.path / "summary.json").is_file():
        return folder.read_json("summary.json")
    if not metrics:
        raise RunError(f"{folder.path}: its metrics.jsonl was removed while it was being written")
    summary = {
        **metrics[-1],
        "epochs": len(metrics),
        "reductions_undone": sum(line.get("undone", False) for line in metrics),
        "seconds": seconds,
        "steps_per_second": float(np.median(rates[1:] or rates)) * len(program.seeds) if rates else None,
        "seeds_at_once": len(program.seeds),
        "sizes": sizes_of(program.model.layout, program.method, mask),
        **environment(),
    }
    folder.write_json("summary.json", summary)
    return summary
