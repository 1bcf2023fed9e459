"""Batches from a stream: the next ones are read while the device works on these."""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PRNGKeyArray

from ..data import Stream
from ..errors import ArgumentError
from ..inference.training import Info, State, draws
from .program import Program, of_seed


class Feeder:
    """Trains one seed from a stream. Which examples a step sees depends on nothing but its number, so they are those
    that training from memory sees."""

    def __init__(self, program: Program, stream: Stream, key: PRNGKeyArray):
        if len(program.seeds) > 1 or program.devices.mesh is not None:
            raise ArgumentError("data: a stream feeds one seed on one device; put the data into memory for more")
        self.stream, self.key = stream, jax.random.clone(key)
        held_out, batch_size = program.task.held_out, program.budget.batch_size
        chunks = program.chunks * program.budget.epochs
        starts = np.cumsum([0, *chunks])
        self.chunks = {int(start): steps for start, steps in zip(starts, chunks, strict=False)}

        def train(state: State, batches: tuple[Array, Array]) -> tuple[State, Info]:
            state = of_seed(state, 0)
            _, keys = draws(state.key, state.step, len(batches[1]), batch_size, held_out)
            after = lax.scan(
                lambda carry, drawn: program.stepper(carry, *drawn, held_out.trained), state, (batches, keys)
            )
            return jax.tree.map(lambda leaf: leaf[None], after)

        self._train = jax.jit(train, donate_argnums=0)
        self._rows = jax.jit(
            lambda key, first, steps: draws(key, first, steps, batch_size, held_out)[0], static_argnums=2
        )
        self._reader = ThreadPoolExecutor(max_workers=1)
        self._ahead: dict[int, Future] = {}

    def train(self, state: State, first: int) -> tuple[State, Info]:
        """The chunk of steps whose first has this number."""
        batches = self._ahead.pop(first).result() if first in self._ahead else self._read(first)
        following = first + self.chunks[first]
        if following in self.chunks:
            self._ahead = {following: self._reader.submit(self._read, following)}
        return self._train(state, batches)

    def _read(self, first: int) -> Any:
        rows = np.asarray(self._rows(self.key, jnp.int32(first), self.chunks[first]))
        return jax.device_put(self.stream.take(rows))
