"""The one protocol between a model and a network: `apply(network, buffers, batch, keys) → outputs, buffers`.

A network is a module that maps one example to a vector of outputs, `network(example)`. It may take a key for its
dropout, `network(example, key=key)`, and may have a state that training updates, as BatchNorm has:
`network(example, state) → outputs, state`. Networks without either pay nothing for those that have them.
"""

import inspect
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, Key, PRNGKeyArray

from ..errors import ArgumentError

Buffers = tuple[Array, ...]


@dataclass(frozen=True)
class Calling:
    """How a network is called. **state_tree** is the structure of its `equinox.nn.State`, None for a network without;
    the arrays in it are its *buffers*. **batch_axis** is the name that its normalisations know the batch by."""

    takes_key: bool = False
    state_tree: Any = None
    batch_axis: Hashable = "batch"

    @property
    def has_state(self) -> bool:
        return self.state_tree is not None

    def apply(
        self,
        network: Any,
        buffers: Buffers,
        inputs: Array,
        keys: Key[Array, "batch"] | None,
        shared_over: str | None = None,
    ) -> tuple[Float[Array, "batch *out"], Buffers]:
        """What the network puts out for a batch. With keys, one an example, it trains: dropout is on, buffers change.
        Without it predicts, and buffers stay as they are. `shared_over` names the axis of devices that share the
        batch: statistics of a batch are those of the whole."""
        if keys is None:
            return self._predict(network, buffers, inputs), buffers
        if not self.has_state:
            if not self.takes_key:
                return jax.vmap(network)(inputs), buffers
            return jax.vmap(lambda x, key: network(x, key=key))(inputs, keys), buffers
        network = network if shared_over is None else _with_axes(network, (self.batch_axis, shared_over))
        state = jax.tree.unflatten(self.state_tree, buffers)

        def one(x: Array, key: PRNGKeyArray) -> tuple[Array, Any]:
            return network(x, state, key=key) if self.takes_key else network(x, state)

        outputs, after = jax.vmap(one, axis_name=self.batch_axis, out_axes=(0, None))(inputs, keys)
        return outputs, tuple(jax.tree.leaves(after))

    def _predict(self, network: Any, buffers: Buffers, inputs: Array) -> Float[Array, "batch *out"]:
        network = eqx.nn.inference_mode(network)
        if not self.has_state:
            return jax.vmap(lambda x: network(x))(inputs)
        state = jax.tree.unflatten(self.state_tree, buffers)
        return jax.vmap(lambda x: network(x, state)[0], axis_name=self.batch_axis)(inputs)


def read_network(given: Any) -> tuple[Any, Buffers, Calling]:
    """The network, its buffers and how it is called, from what a user passes: a module, or the pair of a module and its
    state that `equinox.nn.make_with_state` makes."""
    network, state = given, None
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], eqx.nn.State):
        network, state = given
    if not callable(network):
        raise ArgumentError(
            f"network: {type(network).__name__} given; it must be a module that maps one example to its outputs, or "
            "the pair of a module and its state that equinox.nn.make_with_state makes"
        )
    norms = batch_norms(network)
    if state is None and _has_state(network):
        raise ArgumentError(
            f"network: {type(network).__name__} has layers with a state, such as BatchNorm, but no state was given. "
            "Pass the pair: ox.fit(eqx.nn.make_with_state(Network)(...), data)"
        )
    axes = {norm.axis_name for norm in norms}
    if len(axes) > 1:
        raise ArgumentError(f"network: its BatchNorm layers name the batch differently ({axes}); give all one name")
    leaves, tree = ((), None) if state is None else jax.tree.flatten(state)
    axis = next(iter(axes), "batch")
    return network, tuple(leaves), Calling(_takes_key(network), tree, axis)


def batch_norms(network: Any) -> list[Any]:
    """The parts of a network that normalise over the batch."""
    return [node for node in jax.tree.leaves(network, is_leaf=_is_batch_norm) if _is_batch_norm(node)]


def _takes_key(network: Any) -> bool:
    """Whether a network is called with a key for its dropout."""
    call = network if inspect.isfunction(network) else type(network).__call__
    parameters = inspect.signature(call).parameters
    return "key" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _is_batch_norm(node: Any) -> bool:
    """Also a network of another library, which normalises over what it is told is the batch."""
    return isinstance(node, eqx.nn.BatchNorm) or getattr(node, "normalises_batch", False)


def _has_state(network: Any) -> bool:
    is_index = lambda node: isinstance(node, eqx.nn.StateIndex)  # noqa: E731
    return any(is_index(node) for node in jax.tree.leaves(network, is_leaf=is_index))


def _with_axes(network: Any, axes: tuple[Hashable, ...]) -> Any:
    """The network whose batch normalisations average over all of these axes."""

    def replaced(node: Any) -> Any:
        if not _is_batch_norm(node):
            return node
        copy = object.__new__(type(node))
        for name, value in vars(node).items():
            object.__setattr__(copy, name, axes if name == "axis_name" else value)
        return copy

    return jax.tree.map(replaced, network, is_leaf=_is_batch_norm)
