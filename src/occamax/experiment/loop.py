"""The one visible loop: reduce → train → evaluate, epoch by epoch."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..calibration import count_trained, places_held_out, spacing_of
from ..data import Stream
from ..errors import DivergedError
from ..evaluation import score
from ..reduction import Record
from ..training import Info, State
from .feeder import Feeder
from .guard import Guard
from .program import Program


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
    record: Record | None  # of the reduction before the epoch
    before: State | None  # the state to go back to if that reduction is undone
    mask: Array | None  # before that reduction


class PausedError(Exception):
    """Training was asked to stop in the middle of an epoch."""

    def __init__(self, epoch: int, pause: Pause):
        super().__init__(f"paused in epoch {epoch + 1}")
        self.epoch, self.pause = epoch, pause  # the epoch counted from 0


def epochs(
    program: Program,
    state: State,
    train: tuple[Array, Array] | Stream,
    test: tuple[Array, Array] | None,
    first: int = 0,
    samples: int = 100,
    curve_samples: int | None = None,
    history: Sequence[Sequence[dict[str, Any]]] | None = None,
    pause: Pause | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Epoch]:
    """Trains from `state`, the state after `first` epochs, to the end of the budget. The last evaluation averages
    `samples` draws, those before it `curve_samples`, as many unless given. `history`: each seed's metrics so far.
    `pause`: where in epoch `first` to go on. When `should_stop` says so after a lap, `PausedError` brings the pause."""
    reduction, calibration, budget = program.method.reduction, program.method.calibration, program.budget
    tolerance = None if reduction is None else reduction.tolerance
    targets_seen = np.asarray(train.targets if isinstance(train, Stream) else train[1])
    feeder = Feeder(program, train, state.key) if isinstance(train, Stream) else None
    spacing = spacing_of(calibration, len(targets_seen))
    examples, held = count_trained(len(targets_seen), spacing), _held_out(train, spacing)
    guard = Guard(tolerance, program.model.likelihood.baseline(targets_seen), len(program.seeds), history)
    for epoch in range(first, budget.epochs):
        began = time.perf_counter()
        record, before, mask, done = None, None, None, []
        if pause is not None:
            (state, info, record, before, mask), pause = pause, None
            done = [info]
        elif reduction is not None and reduction.schedule.due(epoch, budget.epochs) and not guard.held.all():
            before, mask = jax.tree.map(jnp.copy, state) if guard.is_on else None, jnp.copy(state.mask)
            state, record = program.reduce(state, jnp.float32(epoch / budget.epochs), examples)
            if before is not None and guard.held.any():  # some seeds sit this one out
                state = program.choose(guard.held, before, state)
                record = record._replace(mask=jnp.copy(state.mask))  # training takes the state's own over
        for lap in _laps_left(program, done):
            if done and should_stop():
                raise PausedError(epoch, Pause(state, _joined(done), record, before, mask))
            if feeder is None:
                state, info = program.train_lap[lap](state, train)
            else:
                state, info = feeder.lap(state, epoch * budget.steps + _steps(done))
            if done:
                jax.block_until_ready(done[-1])  # the device works on one lap while the next waits
            done.append(info)
        info = _joined(done)
        neg_elbo = np.atleast_2d(np.asarray(info.neg_elbo, np.float64))  # seeds × steps; waits for the device
        train_seconds = time.perf_counter() - began
        _stop_if_diverged(neg_elbo, epoch * budget.steps)
        expected = np.atleast_2d(np.asarray(info.expected_nll, np.float64)) / examples
        fits = expected[:, -max(1, budget.steps // 4) :].mean(1)
        whole = state.mask if mask is None else mask  # judged by the divergence that the reduction found
        figures: list[dict[str, Any]] = [
            {"neg_elbo": float(line.mean()), "fit": float(fits[i]), **_sizes(program, whole, state, i, examples)}
            for i, line in enumerate(neg_elbo)
        ]
        if held is not None and calibration is not None:
            for line, found in zip(figures, _scores(program, state, held, calibration.draws_an_epoch), strict=True):
                line["held_out_nll"] = found["nll"]
        undone = guard.judge(figures, ~guard.held & _removed_any(record, len(fits)))
        if before is not None and undone.any():
            state = program.choose(undone, before._replace(step=state.step), state)
        for i, line in enumerate(figures):
            line.update(_sizes(program, state.mask, state, i, examples))
        guard.remember(figures)
        state = _with_nats(program, state, figures, undone, guard.baseline)
        is_last = epoch + 1 == budget.epochs
        if is_last and held is not None:
            state, temperatures = program.calibrate(state, *held)
            for line, temperature in zip(figures, temperatures, strict=True):
                line["temperature"] = temperature
        if guard.is_on:
            for line, flag in zip(figures, undone, strict=True):
                line["undone"] = bool(flag)
        if test is not None:
            draws = samples if is_last or curve_samples is None else curve_samples
            for line, found in zip(figures, _scores(program, state, test, draws), strict=True):
                line.update(found)
        seconds = time.perf_counter() - began
        metrics = [{"epoch": epoch + 1, **line, "seconds": seconds} for line in figures]
        yield Epoch(epoch + 1, state, record, undone.tolist(), metrics, train_seconds)


def _held_out(train: tuple[Array, Array] | Stream, spacing: int) -> tuple[Array, Array] | None:
    """The examples that are held out of training, where the computation is."""
    if not spacing:
        return None
    if isinstance(train, Stream):
        return jax.tree.map(jnp.asarray, train.take(places_held_out(len(train), spacing)))
    places = places_held_out(len(train[0]), spacing)
    return train[0][places], train[1][places]


def _with_nats(
    program: Program, state: State, figures: list[dict[str, Any]], undone: np.ndarray, baseline: float
) -> State:
    """The state that knows what an example costs it: a held-out one, else one that it was trained on, and no more than
    it costs a network that learnt nothing. Where the likelihood is a density, whose nats depend on the targets' unit,
    and where the epoch was undone, it stays as it was."""
    if not program.model.likelihood.takes_logits:
        return state
    found = np.array([min(line.get("held_out_nll", line["fit"]), baseline) for line in figures], np.float32)
    nats = np.where(undone, np.asarray(state.nats), found).reshape(state.nats.shape)
    return state._replace(nats=program.place(jnp.asarray(nats)))


def _scores(program: Program, state: State, data: tuple[Array, Array], draws: int) -> list[dict[str, float]]:
    """The figures of every seed's predictive."""
    predictive, targets = jax.device_get(program.evaluate(state, *data, draws)), np.asarray(data[1])
    return [score(program.model, program.of_seed(predictive, i), targets) for i in range(len(program.seeds))]


def _removed_any(record: Record | None, seeds: int) -> np.ndarray:
    """Which seeds lost weights in the reduction before the epoch."""
    return np.zeros(seeds, bool) if record is None else np.asarray(record.removed).reshape(seeds, -1).sum(1) > 0


def _laps_left(program: Program, done: list[Info]) -> list[int]:
    starts = np.cumsum([0, *program.laps[:-1]])
    return [lap for lap, start in zip(program.laps, starts, strict=True) if start >= _steps(done)]


def _steps(done: list[Info]) -> int:
    return sum(info.neg_elbo.shape[-1] for info in done)


def _joined(infos: list[Info]) -> Info:
    return jax.tree.map(lambda *parts: np.concatenate([np.asarray(part) for part in parts], axis=-1), *infos)


def _sizes(program: Program, masks: Array, state: State, index: int, examples: int) -> dict[str, float]:
    """Removed / all weights of the layers that may be reduced, and the weight of the divergence of those left."""
    mask = np.asarray(program.of_seed(masks, index))
    progress = float(state.step.ravel()[0]) / program.budget.total_steps
    nats = float(program.of_seed(state.nats, index))
    weight = program.method.divergence_weight.of_network(progress, int(mask.sum()), examples, nats)
    return {"sparsity": sparsity(mask, counted(program)), "divergence_weight": round(float(weight), 7)}


def counted(program: Program) -> int:
    """How many leading weights of the vector the sparsity counts: all but the output layer's, if that is kept."""
    layout, reduction = program.model.layout, program.method.reduction
    keeps_output = reduction is None or reduction.keep_output
    return layout.size - (layout.sizes[-1] if keeps_output and len(layout.sizes) > 1 else 0)


def sparsity(mask: np.ndarray, count: int) -> float:
    return 1.0 - float(mask[:count].sum()) / count


def _stop_if_diverged(neg_elbo: np.ndarray, steps_before: int) -> None:
    bad = ~np.isfinite(neg_elbo)
    if bad.any():
        step = int(bad.any(0).argmax())
        raise DivergedError(
            f"the objective became {neg_elbo[bad][0]} at step {steps_before + step + 1}. Likely the learning rate is "
            "too high for this network, or the inputs' scales differ widely. Lower the rate or standardise the inputs."
        )
