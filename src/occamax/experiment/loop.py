"""The one visible loop: reduce → train → measure, epoch by epoch."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..data import Stream
from ..errors import DivergedError
from ..evaluation import score
from ..inference.training import Batch, Info, State
from ..reduction.reducing import Record
from .feeder import Feeder, told
from .guard import ENOUGH, Guard
from .program import Program, choose, of_seed
from .sizes import counted, sparsity


@dataclass(frozen=True)
class Epoch:
    """What one epoch brought. `state` and `record` are gone when the next begins; lists have one item a seed."""

    number: int  # counted from 1
    state: State
    record: Record | None  # of the reduction before it
    undone: list[bool]  # whether that reduction was undone, and this epoch's training with it
    metrics: list[dict[str, Any]]
    train_seconds: float


class Pause(NamedTuple):
    """The middle of an epoch: all that is needed to go on as if nothing had happened."""

    state: State
    info: Info  # of the steps so far, the last axis the steps
    record: Record | None  # of the reduction before the epoch; see `Loop._told`
    before: State | None  # the state to go back to if that reduction is undone
    mask: Array | None  # before that reduction


class PausedError(Exception):
    """Training was asked to stop in the middle of an epoch."""

    def __init__(self, epoch: int, pause: Pause):
        super().__init__(f"paused in epoch {epoch + 1}")
        self.epoch, self.pause = epoch, pause  # the epoch counted from 0


@dataclass(frozen=True)
class Evaluation:
    """On what and how carefully a run is measured. The last evaluation averages `num_samples` draws, those before it
    `curve_samples`, as many unless given. `test` None measures nothing but the objective; a stream is read part by part
    every time."""

    test: Batch | Stream | None = None
    num_samples: int = 100
    curve_samples: int | None = None

    def draws(self, is_last: bool) -> int:
        return self.num_samples if is_last or self.curve_samples is None else self.curve_samples


class Loop:
    """Trains a program's state to the end of its budget. `history`: each seed's metrics so far. When `should_stop` says
    so after some steps, `PausedError` brings the pause."""

    def __init__(
        self,
        program: Program,
        train: Batch | Stream,
        evaluation: Evaluation = Evaluation(),
        history: Sequence[Sequence[dict[str, Any]]] | None = None,
        should_stop: Callable[[], bool] = lambda: False,
    ):
        self.program, self.train, self.evaluation, self.should_stop = program, train, evaluation, should_stop
        self.reduction = program.method.reduction
        self.feeder: Feeder | None = None
        self.answers: list[np.ndarray] | None = None  # of the last evaluation, one a seed
        self.held = _held_out(train, program)
        targets = np.asarray(train.targets if isinstance(train, Stream) else train[1])
        tolerance = None if self.reduction is None else self.reduction.tolerance
        self.guard = Guard(tolerance, program.model.likelihood.baseline(targets), len(program.seeds), history)

    def epochs(self, state: State, first: int = 0, pause: Pause | None = None) -> Iterator[Epoch]:
        """From `state`, the state after `first` epochs; `pause`: where in epoch `first` to go on."""
        if isinstance(self.train, Stream):
            self.feeder = Feeder(self.program, self.train, state.key)
        for epoch in range(first, self.program.budget.epochs):
            began = time.perf_counter()
            here, pause = (self._reduced(state, epoch), None) if pause is None else (pause, None)
            here = self._trained(here, epoch)
            neg_elbo = np.asarray(here.info.neg_elbo, np.float64)  # seeds × steps; waits for the device
            train_seconds = time.perf_counter() - began
            _stop_if_diverged(neg_elbo, epoch * self.program.budget.steps_per_epoch)
            state, figures, undone = self._judged(here, neg_elbo)
            record = self._told(here, epoch)
            del here  # and with it the state before the reduction: as many vectors as the state
            state = self._measured(state, figures, epoch + 1 == self.program.budget.epochs)
            seconds = time.perf_counter() - began
            metrics = [{"epoch": epoch + 1, **line, "seconds": seconds} for line in figures]
            yield Epoch(epoch + 1, state, record, undone.tolist(), metrics, train_seconds)
            del record  # before the next is made

    def _reduced(self, state: State, epoch: int) -> Pause:
        """The state with which an epoch begins: reduced, if that is due, and with its KL weight."""
        record, before, mask = None, None, None
        due = self.reduction is not None and self.reduction.schedule.due(epoch, self.program.budget.epochs)
        if due and not self.guard.held.all():
            before = jax.tree.map(jnp.copy, state) if self.guard.is_on else None
            mask = jnp.copy(state.mask) if before is None else before.mask
            reduce = self.program.reduce if before is None else self.program.reduce_untold
            state, record = reduce(state, self._progress(epoch), self._measured_on(epoch))
            if before is not None and self.guard.held.any():  # some seeds sit this one out
                state = choose(self.guard.held, before, state)
                record = record._replace(mask=jnp.copy(state.mask))  # training takes the state's own over
        state = self.program.with_kl_weight(state)
        empty = jnp.zeros((len(self.program.seeds), 0))
        return Pause(state, Info(empty, empty, empty), record, before, mask)

    def _told(self, here: Pause, epoch: int) -> Record | None:
        """The whole record of the reduction before an epoch. Its ΔF is a vector as long as all weights: where the state
        before the reduction is kept, it is made of that when it is wanted, and not held while the weights are trained.
        """
        if here.record is None or here.before is None or here.record.delta_f.size:
            return here.record
        delta_f, predicted = self.program.foretell(here.before, here.record.mask, self._progress(epoch))
        return here.record._replace(delta_f=delta_f, predicted=predicted)

    def _progress(self, epoch: int) -> Array:
        return jnp.float32(epoch / self.program.budget.epochs)

    def _measured_on(self, epoch: int) -> Batch:
        """The training examples on which the reduction before this epoch is measured: others every time, the same ones
        after a resume."""
        assert self.reduction is not None
        budget, held_out = self.program.budget, self.program.task.held_out
        count = self.reduction.measuring.count(budget.steps_per_epoch * budget.batch_size, held_out.trained)
        numbers = np.random.default_rng(epoch).choice(held_out.trained, count, replace=False)
        return _examples(self.train, held_out.places_trained(numbers), self.program)

    def _trained(self, here: Pause, epoch: int) -> Pause:
        """The rest of the epoch's steps."""
        state, done = here.state, [here.info]
        for chunk in self._chunks_left(here.info):
            if _steps(done) and self.should_stop():
                record = self._told(here, epoch)
                raise PausedError(epoch, here._replace(state=state, info=_joined(done), record=record))
            if self.feeder is None:
                state, info = self.program.train_chunk[chunk](state, self.train)
            else:
                state, info = self.feeder.train(state, epoch * self.program.budget.steps_per_epoch + _steps(done))
            jax.block_until_ready(done[-1])  # the device works on one chunk while the next waits
            done.append(info)
        return here._replace(state=state, info=_joined(done))

    def _chunks_left(self, info: Info) -> list[int]:
        starts = np.cumsum([0, *self.program.chunks[:-1]])
        return [chunk for chunk, start in zip(self.program.chunks, starts, strict=True) if start >= _steps([info])]

    def _judged(self, here: Pause, neg_elbo: np.ndarray) -> tuple[State, list[dict[str, Any]], np.ndarray]:
        """The state that stands after an epoch, its figures, and which seeds' reductions were undone."""
        program, state = self.program, here.state
        expected = np.asarray(here.info.expected_nll, np.float64) / program.task.held_out.trained
        last = max(1, program.budget.steps_per_epoch // 4)
        fits = expected[:, -last:].mean(1)
        weights = np.asarray(state.kl_weight)
        figures: list[dict[str, Any]] = [
            {"neg_elbo": float(line.mean()), "fit": float(fits[i]), "kl_weight": round(float(weights[i]), 7)}
            for i, line in enumerate(neg_elbo)
        ]
        calibration = program.method.calibration
        if self.held is not None and calibration is not None:
            for line, found in zip(figures, self._scores(state, self.held, calibration.epoch_samples), strict=True):
                line["held_out_nll"] = found["nll"]
        reduced = ~self.guard.held & _removed_any(here.record, len(fits))
        if last * program.budget.batch_size >= ENOUGH:
            _stop_if_forgotten(self.guard.forgotten(figures, reduced), figures)
        undone = self.guard.judge(_as_found(figures, here), reduced)
        if here.before is not None and undone.any():
            state = choose(undone, here.before._replace(step=state.step), state)
        self.guard.remember(figures)
        for i, line in enumerate(figures):
            line["sparsity"] = sparsity(np.asarray(state.mask[i]), counted(program.model.layout, program.method))
            if self.guard.is_on:
                line["undone"] = bool(undone[i])
        return self._with_nats(state, figures, undone), figures, undone

    def _with_nats(self, state: State, figures: list[dict[str, Any]], undone: np.ndarray) -> State:
        """The state that knows what an example costs it: a held-out one, else one that it was trained on, and no more
        than it costs a network that learnt nothing. Where the likelihood is a density, whose nats depend on the
        targets' unit, and where the epoch was undone, it stays as it was."""
        if not self.program.model.likelihood.takes_logits:
            return state
        baseline = self.guard.baseline
        found = np.array([min(line.get("held_out_nll", line["fit"]), baseline) for line in figures], np.float32)
        nats = np.where(undone, np.asarray(state.nats), found)
        return state._replace(nats=self.program.place(jnp.asarray(nats)))

    def _measured(self, state: State, figures: list[dict[str, Any]], is_last: bool) -> State:
        """Adds what the test set says to the figures; at the end the state is calibrated first."""
        if is_last and self.held is not None:
            state, found = self.program.calibrate(state, *self.held)
            of_means = self.program.mean_temperatures(state, *self.held)
            for line, own, of_mean in zip(figures, found, of_means, strict=True):
                line.update(own)
                if of_mean is not None:
                    line["mean_temperature"] = of_mean
        if self.evaluation.test is not None:
            found = self._scores(state, self.evaluation.test, self.evaluation.draws(is_last), is_last)
            for line, own in zip(figures, found, strict=True):
                line.update(own)
        return state

    def _scores(
        self, state: State, data: Batch | Stream, num_samples: int, with_floor: bool = False
    ) -> list[dict[str, float]]:
        """The figures of every seed's predictive."""
        ask = lambda x, y: self.program.evaluate(state, x, y, num_samples)  # noqa: E731
        predictive, targets = told(ask, data, self.program.devices, axis=1)
        seeds = range(len(self.program.seeds))
        if with_floor:
            self.answers = [np.asarray(of_seed(predictive, i).expectation) for i in seeds]
        return [score(self.program.model, of_seed(predictive, i), targets, with_floor) for i in seeds]


def _held_out(train: Batch | Stream, program: Program) -> Batch | None:
    """The examples that are held out of training, where the computation is."""
    places = program.task.held_out.places
    return _examples(train, places, program) if len(places) else None


def _examples(train: Batch | Stream, places: np.ndarray, program: Program) -> Batch:
    if isinstance(train, Stream):
        return program.devices.put(train.take(places))
    return train[0][places], train[1][places]


def _as_found(figures: list[dict[str, Any]], here: Pause) -> list[dict[str, Any]]:
    """The figures with the KL weight that the reduction found: that it made the network smaller, and so the weight
    heavier, is no excuse for what it cost."""
    if here.before is None:
        return figures
    weights = np.asarray(here.before.kl_weight)
    return [line | {"kl_weight": float(weight)} for line, weight in zip(figures, weights, strict=True)]


def _removed_any(record: Record | None, seeds: int) -> np.ndarray:
    """Which seeds lost weights in the reduction before the epoch."""
    return np.zeros(seeds, bool) if record is None else np.asarray(record.removed).sum(1) > 0


def _steps(done: list[Info]) -> int:
    return sum(info.neg_elbo.shape[-1] for info in done)


def _joined(infos: list[Info]) -> Info:
    return jax.tree.map(lambda *parts: np.concatenate([np.asarray(part) for part in parts], axis=-1), *infos)


def _stop_if_forgotten(forgotten: np.ndarray, figures: list[dict[str, Any]]) -> None:
    if forgotten.any():
        raise DivergedError(
            f"the network forgot what it had learnt: a training example costs {figures[forgotten.argmax()]['fit']:.3g} "
            "nats, as if nothing had been. The learning rate is too high for this network; lower it."
        )


def _stop_if_diverged(neg_elbo: np.ndarray, steps_before: int) -> None:
    bad = ~np.isfinite(neg_elbo)
    if bad.any():
        step = int(bad.any(0).argmax())
        raise DivergedError(
            f"the objective became {neg_elbo[bad][0]} at step {steps_before + step + 1}. Likely the learning rate is "
            "too high for this network, or the inputs' scales differ widely. Lower the rate or standardise the inputs."
        )
