"""Batches from a stream: the next ones are read while the devices work on these."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Key

from ..data import Stream
from ..inference.training import Batch, Info, State, draws
from .devices import Devices
from .program import Program

BATCH_AXIS = 2  # of seeds × steps × batch
STREAMED_BYTES = 2**26  # of examples read ahead at once


class Feeder:
    """Trains all seeds from a stream. Which examples a step sees depends on nothing but its seed and its number, so
    they are those that training from memory sees. Each host reads what its own devices look at."""

    def __init__(self, program: Program, stream: Stream, keys: Key[Array, "seeds"]):
        self.stream, self.devices = stream, program.devices
        self.keys = jax.random.wrap_key_data(jnp.asarray(np.asarray(jax.random.key_data(keys))))  # of this host alone
        held_out, batch_size = program.task.held_out, program.budget.batch_size
        how = program.method.batches
        chunks = program.chunks * program.budget.epochs
        starts = np.cumsum([0, *chunks])
        self.chunks = {int(start): steps for start, steps in zip(starts, chunks, strict=False)}

        def train(state: State, batches: tuple[Array, Array]) -> tuple[State, Info]:
            _, keys = draws(state.key, state.step, len(batches[1]), batch_size, held_out, how)
            return lax.scan(
                lambda carry, drawn: program.stepper(carry, *drawn, held_out.trained), state, (batches, keys)
            )

        def rows(keys: Key[Array, "seeds"], first: Array, steps: int) -> Array:
            return jax.vmap(lambda key: draws(key, first, steps, batch_size, held_out, how)[0])(keys)

        self._train = program.compile(train, 0, donate=True, own=2)
        self._rows = jax.jit(rows, static_argnums=2)
        self._reader = ThreadPoolExecutor(max_workers=1)
        self._ahead: dict[int, Future] = {}

    def train(self, state: State, first: int) -> tuple[State, Info]:
        """The chunk of steps whose first has this number."""
        batches = self.wait_for(first)
        following = first + self.chunks[first]
        if following in self.chunks:
            self._ahead = {following: self._reader.submit(self._read, following)}
        return self._train(state, batches)

    def wait_for(self, first: int) -> Any:
        """The batches of this chunk, as soon as they are read."""
        return self._ahead.pop(first).result() if first in self._ahead else self._read(first)

    def _read(self, first: int) -> Any:
        rows = np.asarray(self._rows(self.keys, jnp.int32(first), self.chunks[first]))
        return self.devices.put_examples(self.stream.take, rows, BATCH_AXIS)


def in_parts(stream: Stream, devices: Devices) -> Iterator[tuple[Batch, int]]:
    """All examples of a stream, in order, part by part, the next part read while one is looked at; and how many of a
    part count: the last one is filled up with its last example, so that all have one length."""
    total = len(stream)
    size = min(total, max(1, STREAMED_BYTES // stream.bytes_each))
    size += -size % devices.count

    def read(first: int) -> Any:
        return devices.put_examples(stream.take, np.minimum(np.arange(first, first + size), total - 1), 0)

    with ThreadPoolExecutor(max_workers=1) as reader:
        coming = reader.submit(read, 0)
        for first in range(0, total, size):
            batch = coming.result()
            if first + size < total:
                coming = reader.submit(read, first + size)
            yield batch, min(size, total - first)


def told(
    ask: Callable[[Any, Any], Any], data: Batch | Stream, devices: Devices, axis: int = 0
) -> tuple[Any, np.ndarray]:
    """What `ask` says of all examples, on this host: arrays that have the examples along `axis`; and their targets. A
    stream is read part by part."""
    if not isinstance(data, Stream):
        return jax.device_get(ask(*data)), np.asarray(data[1])
    found = []
    for batch, count in in_parts(data, devices):
        said = jax.device_get(ask(*batch))
        found.append(jax.tree.map(lambda leaf: leaf[(*[slice(None)] * axis, slice(count))], said))  # noqa: B023
    return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis), *found), data.targets
