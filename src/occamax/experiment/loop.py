"""The one visible loop: reduce → train → evaluate, epoch by epoch."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..errors import DivergedError
from ..evaluation import score
from ..reduction import Record
from ..training import State
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


def epochs(
    program: Program,
    state: State,
    train: tuple[Array, Array],
    test: tuple[Array, Array] | None,
    first: int = 0,
    samples: int = 100,
    curve_samples: int | None = None,
    history: Sequence[Sequence[dict[str, Any]]] | None = None,
) -> Iterator[Epoch]:
    """Trains from `state`, the state after `first` epochs, to the end of the budget. The last evaluation averages
    `samples` draws, those before it `curve_samples`, as many unless given. `history`: each seed's metrics so far."""
    reduction, budget = program.method.reduction, program.budget
    tolerance = None if reduction is None else reduction.tolerance
    guard = Guard(tolerance, program.model.likelihood.baseline(np.asarray(train[1])), len(program.seeds), history)
    for epoch in range(first, budget.epochs):
        began = time.perf_counter()
        record, before = None, None
        if reduction is not None and reduction.schedule.due(epoch, budget.epochs) and not guard.held.all():
            before = jax.tree.map(jnp.copy, state) if guard.is_on else None
            state, record = program.reduce(state, jnp.float32(epoch / budget.epochs))
            if before is not None and guard.held.any():  # some seeds sit this one out
                state = program.choose(guard.held, before, state)
                record = record._replace(mask=jnp.copy(state.mask))  # training takes the state's own over
        state, info = program.train(state, train)
        neg_elbo = np.atleast_2d(np.asarray(info.neg_elbo, np.float64))  # seeds × steps; waits for the device
        train_seconds = time.perf_counter() - began
        _stop_if_diverged(neg_elbo, epoch * budget.steps)
        expected = np.atleast_2d(np.asarray(info.expected_nll, np.float64)) / len(train[1])
        fits = expected[:, -max(1, budget.steps // 4) :].mean(1)
        undone = guard.judge(fits, ~guard.held & (record is not None))
        if before is not None and undone.any():
            state = program.choose(undone, before._replace(step=state.step), state)
        figures: list[dict[str, Any]] = [
            {"neg_elbo": float(line.mean()), "fit": float(fits[i]), "sparsity": _sparsity(program, state, i)}
            for i, line in enumerate(neg_elbo)
        ]
        if guard.is_on:
            for line, flag in zip(figures, undone, strict=True):
                line["undone"] = bool(flag)
        if test is not None:
            is_last = epoch + 1 == budget.epochs
            draws = samples if is_last or curve_samples is None else curve_samples
            predictive = jax.device_get(program.evaluate(state, *test, draws))
            targets = np.asarray(test[1])
            for i, line in enumerate(figures):
                line.update(score(program.model, program.of_seed(predictive, i), targets))
        seconds = time.perf_counter() - began
        metrics = [{"epoch": epoch + 1, **line, "seconds": seconds} for line in figures]
        yield Epoch(epoch + 1, state, record, undone.tolist(), metrics, train_seconds)


def _sparsity(program: Program, state: State, index: int) -> float:
    """Removed / all weights of the layers that may be reduced."""
    mask = np.asarray(program.of_seed(state.mask, index))
    return sparsity(mask, counted(program))


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
