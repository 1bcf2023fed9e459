"""One run on many devices, of one machine or of several. The batch is spread over them; the vectors may be too."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Int

from ..errors import ArgumentError
from ..inference.model import BatchPart
from ..inference.training import alone

AXIS = "devices"


@dataclass(frozen=True)
class Devices:
    """Where a run is computed. Without a mesh: on the default device, and nothing below does anything.

    **shard_weights** also spreads the vectors of the posterior and the optimiser, so that a network may be larger than
    one device's memory allows; sampled weights are gathered where they are used.

    **mesh** of jax with one axis, over which the batch is spread; `Devices.of(count)` makes one.

    Raises:
        ArgumentError: more devices than there are, or a batch that they cannot share.

    Examples:
        >>> ox.Devices.of(1).count  # ox.fit(…, devices=2), or devices=ox.Devices.of(2, shard_weights=True)
        1
    """

    mesh: Mesh | None = None
    shard_weights: bool = False

    @staticmethod
    def of(count: int | None, shard_weights: bool = False) -> "Devices":
        """The first `count` devices of all hosts, or all of them."""
        every = jax.devices()
        if count is not None and not 1 <= count <= len(every):
            hint = "; XLA_FLAGS=--xla_force_host_platform_device_count=2 makes two of a processor"
            hint = hint if every[0].platform == "cpu" else ""
            raise ArgumentError(
                f"--devices: {count} given; there are {len(every)} ({every[0].platform}). Ask for no more{hint}"
            )
        chosen = every if count is None else every[:count]
        return Devices(Mesh(np.array(chosen), (AXIS,)), shard_weights)

    @property
    def count(self) -> int:
        """How many there are."""
        return 1 if self.mesh is None else self.mesh.size

    @property
    def multiple(self) -> int:
        """What the length of a vector must be a multiple of."""
        return self.count if self.shard_weights else 1

    @property
    def spreads_over_hosts(self) -> bool:
        """Whether no host has the vectors whole."""
        return self.shard_weights and jax.process_count() > 1

    @property
    def vectors(self) -> NamedSharding:
        """Where vectors [seeds, length] are."""
        return self._sharding(None, AXIS)

    def check_batch(self, batch: int, micro_batches: int = 1) -> None:
        """Refuses a batch that cannot be shared in equal parts."""
        if batch % self.count:
            raise ArgumentError(f"--batch: {batch} cannot be shared by {self.count} devices; make it a multiple")
        own = batch // self.count
        if own % micro_batches:
            raise ArgumentError(
                f"--micro-batches: {micro_batches} given, for {own} examples a device; it must divide them"
            )

    def share(self, slope: Callable[..., Any], averages_draw: bool, *arguments: Any) -> Any:
        """Inside a compiled program: the gradient and its figures over a batch of which each device sees a part. They
        are averaged as one vector, whatever the number of layers; the gradient where the weights were drawn, if the
        slope `averages_draw`."""
        if self.mesh is None:
            return alone(slope, averages_draw, *arguments)
        posterior, mask, buffers, batch, key, weight = arguments
        total = len(batch[0])

        def local(posterior: Any, mask: Any, buffers: Any, batch: Any, key: Any, weight: Any) -> Any:
            own = len(batch[0])
            part = BatchPart(jax.lax.axis_index(AXIS) * own, total, AXIS, averages_draw)
            gradient, rest = slope(posterior, mask, buffers, batch, key, weight, part)
            return (gradient, _averaged(rest)) if averages_draw else _averaged((gradient, rest))

        everywhere = PartitionSpec()
        specs = (everywhere, everywhere, everywhere, PartitionSpec(AXIS), everywhere, everywhere)
        spread = jax.shard_map(local, mesh=self.mesh, in_specs=specs, out_specs=everywhere, check_vma=False)
        return spread(posterior, mask, buffers, batch, key, jnp.asarray(weight, jnp.float32))

    def over_examples(self, ask: Callable[..., Any], about: Any, *examples: Any, axis: int = 0) -> Any:
        """Inside a compiled program: `ask(about, *examples)`, whose answers have the examples along `axis`; each device
        is asked of a part of them, and `about` is whole on every one."""
        if self.mesh is None:
            return ask(about, *examples)
        count = len(examples[0])
        rows = jnp.minimum(jnp.arange(count + -count % self.count), count - 1)  # the last one again, to fill up
        specs = (PartitionSpec(), *[PartitionSpec(AXIS)] * len(examples))
        answers = PartitionSpec(*[None] * axis, AXIS)
        spread = jax.shard_map(ask, mesh=self.mesh, in_specs=specs, out_specs=answers, check_vma=False)
        found = spread(about, *(given[rows] for given in examples))
        return jax.tree.map(lambda leaf: jax.lax.slice_in_dim(leaf, 0, count, axis=axis), found)

    def put_examples(self, take: Callable[[np.ndarray], Any], rows: Int[np.ndarray, "..."], axis: int) -> Any:
        """What `take` reads of the examples with these numbers, each device's part along `axis` of `rows` where it is
        used: a host reads its own devices' only."""
        if self.mesh is None:
            return jax.device_put(take(rows))
        sharding = self._sharding(*[None] * axis, AXIS)
        parts = {
            device: jax.device_put(take(rows[index]), device)
            for device, index in sharding.addressable_devices_indices_map(rows.shape).items()
        }

        def joined(*leaves: jax.Array) -> jax.Array:
            shape = (*rows.shape, *leaves[0].shape[rows.ndim :])
            return jax.make_array_from_single_device_arrays(shape, sharding, list(leaves))

        return jax.tree.map(joined, *parts.values())

    def constrain(self, state: Any, length: int) -> Any:
        """Inside a compiled program: where a state's arrays are at its end; vectors of `length` are spread."""
        if self.mesh is None:
            return state
        return jax.tree.map(lambda leaf: jax.lax.with_sharding_constraint(leaf, self._of(leaf, length)), state)

    def put(self, tree: Any, length: int | None = None) -> Any:
        """Host arrays, the same on every host, to the devices; vectors of `length` are spread."""
        if self.mesh is None:
            return jax.tree.map(jnp.asarray, tree)
        return jax.tree.map(lambda leaf: self._put(leaf, self._of(leaf, length)), tree)

    def _put(self, leaf: Any, sharding: NamedSharding) -> Any:
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            data = self._put(np.asarray(jax.random.key_data(leaf)), self._sharding())
            return jax.random.wrap_key_data(data)
        if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
            return jax.device_put(leaf, sharding)
        host = np.asarray(leaf)
        return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])

    def gather(self, tree: Any) -> Any:
        """Arrays that are whole on this host."""
        if self.mesh is None or jax.process_count() == 1:
            return tree

        def whole(leaf: Any) -> Any:
            return multihost_utils.process_allgather(leaf, tiled=True) if self.is_spread(leaf) else leaf

        return jax.tree.map(whole, tree)

    def on_first_host(self, tree: Any) -> Any:
        """Host arrays that the first host alone has whole: the others see one device's part of them at a time, and are
        given None. All take part."""
        return jax.tree.map(lambda leaf: self._collected(leaf) if self.is_spread(leaf) else jax.device_get(leaf), tree)

    def _collected(self, leaf: jax.Array) -> np.ndarray | None:
        assert self.mesh is not None
        part_of, found = _part_of(self.mesh), []
        for number in range(self.count):
            part = part_of(leaf, number)
            if is_first_host():
                found.append(np.asarray(part))
        return np.concatenate(found, axis=-1) if found else None

    def is_spread(self, leaf: Any) -> bool:
        """Whether no host has an array whole."""
        return isinstance(leaf, jax.Array) and not (leaf.is_fully_replicated or leaf.is_fully_addressable)

    def agree(self, flag: bool) -> bool:
        """Whether any host says so: all hosts must do the same."""
        if self.mesh is None or jax.process_count() == 1:
            return flag
        return bool(multihost_utils.process_allgather(np.array(flag)).any())

    def told_by_all(self, text: str) -> list[str]:
        """What each host says, in order."""
        if self.mesh is None or jax.process_count() == 1:
            return [text]
        own = np.frombuffer(text.encode(), np.uint8)
        lengths = multihost_utils.process_allgather(np.int32(len(own)))
        said = multihost_utils.process_allgather(np.pad(own, (0, int(lengths.max()) - len(own))))
        return [bytes(line[:length]).decode() for line, length in zip(said, lengths, strict=True)]

    def wait_for_all(self, where: str) -> None:
        """Returns when every host has come here."""
        if self.mesh is not None and jax.process_count() > 1:
            multihost_utils.sync_global_devices(where)

    def _of(self, leaf: Any, length: int | None) -> NamedSharding:
        """A mask stays whole, whether or not it is as long as the vectors: its bits are few beside their numbers."""
        shape = np.shape(leaf)
        is_number = jnp.issubdtype(getattr(leaf, "dtype", np.float32), jnp.inexact)
        is_vector = self.shard_weights and length is not None and is_number and shape and shape[-1] == length
        return self._sharding(*[None] * (len(shape) - 1), AXIS) if is_vector else self._sharding()

    def _sharding(self, *axes: str | None) -> NamedSharding:
        assert self.mesh is not None
        return NamedSharding(self.mesh, PartitionSpec(*axes))


@cache
def _part_of(mesh: Mesh) -> Callable[[jax.Array, int], jax.Array]:
    """A program that gives every device the part of a vector, spread along its last axis, that one of them has."""

    def part(own: jax.Array, number: jax.Array) -> jax.Array:
        bits = own.view(f"uint{8 * own.dtype.itemsize}")  # which a sum with zeros leaves as they are
        return jax.lax.psum(jnp.where(jax.lax.axis_index(AXIS) == number, bits, 0), AXIS).view(own.dtype)

    def of_device(leaf: jax.Array, number: jax.Array) -> jax.Array:
        where = PartitionSpec(*[None] * (leaf.ndim - 1), AXIS)
        return jax.shard_map(part, mesh=mesh, in_specs=(where, PartitionSpec()), out_specs=PartitionSpec())(
            leaf, number
        )

    return jax.jit(of_device)


def _averaged(tree: Any) -> Any:
    """The mean over the devices, of one vector; counters and flags are the same everywhere."""
    real, rest = eqx.partition(tree, eqx.is_inexact_array)
    vector, restore = ravel_pytree(real)
    return eqx.combine(restore(jax.lax.pmean(vector, AXIS)), rest)


def choose_devices(words: str | None, shard_weights: bool = False) -> Devices:
    """From the command line: nothing, a number, or `all`."""
    if words is None:
        if shard_weights or jax.process_count() > 1:
            raise ArgumentError("--devices: it must be given for several hosts or --shard-weights; say --devices all")
        return Devices()
    if words != "all" and not words.isdecimal():
        raise ArgumentError(f"--devices: {words!r} given; it must be `all` or a whole number from 1 up")
    return Devices.of(None if words == "all" else int(words), shard_weights)


def is_first_host() -> bool:
    """Only the first writes."""
    return jax.process_index() == 0
