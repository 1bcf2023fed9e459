"""Laps from a stream: the next one's examples are read while the device works on this one's."""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PRNGKeyArray

from ..calibration import count_trained, spacing_of
from ..data import Stream
from ..errors import ArgumentError
from ..training import Info, State, draws, make_step
from .program import Program


class Feeder:
    """Trains one seed from a stream. Which examples a step sees depends on nothing but its number, so they are those
    that training from memory sees."""

    def __init__(self, program: Program, stream: Stream, key: PRNGKeyArray):
        if len(program.seeds) > 1 or program.devices.mesh is not None:
            raise ArgumentError("train: a stream feeds one seed on one device; put the data into memory for more")
        self.stream, self.key = stream, jax.random.clone(key)
        budget, spacing = program.budget, spacing_of(program.method.calibration, len(stream))
        size = count_trained(len(stream), spacing)
        starts = np.cumsum([0, *(program.laps * budget.epochs)])
        self.laps = {int(start): steps for start, steps in zip(starts, program.laps * budget.epochs, strict=False)}
        step = make_step(
            program.model, program.optimizer, budget, program.method.divergence_weight, program.method.estimator
        )

        def train(state: State, batches: tuple[Array, Array]) -> tuple[State, Info]:
            _, keys = draws(state.key, state.step, len(batches[1]), budget.batch, len(stream), spacing)
            weights = jnp.sum(state.mask)
            return lax.scan(lambda carry, drawn: step(carry, *drawn, size, weights), state, (batches, keys))

        self._train = jax.jit(train, donate_argnums=0)
        self._rows = jax.jit(
            lambda key, first, steps: draws(key, first, steps, budget.batch, len(stream), spacing)[0], static_argnums=2
        )
        self._reader = ThreadPoolExecutor(max_workers=1)
        self._ahead: dict[int, Future] = {}

    def lap(self, state: State, first: int) -> tuple[State, Info]:
        """The lap whose first step has this number."""
        batches = self._ahead.pop(first).result() if first in self._ahead else self._read(first)
        following = first + self.laps[first]
        if following in self.laps:
            self._ahead = {following: self._reader.submit(self._read, following)}
        return self._train(state, batches)

    def _read(self, first: int) -> Any:
        rows = np.asarray(self._rows(self.key, jnp.int32(first), self.laps[first]))
        return jax.device_put(self.stream.take(rows))
