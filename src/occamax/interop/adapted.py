"""A network of another library as one of ours: a pytree of named arrays that maps one example to its outputs."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.tree_util as jtu
from jaxtyping import Array, PRNGKeyArray

from ..errors import ArgumentError

Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Mode:
    """How a program is run. With a **key**, for its dropout, it trains; without it predicts. **axes** are the names
    of the mapped axes that together are the batch: statistics of a batch are means over them too."""

    key: PRNGKeyArray | None = None
    axes: Hashable = "batch"

    @property
    def trains(self) -> bool:
        return self.key is not None


class Program(ABC):
    """What a module of another library does, as a pure function of its arrays. Compared by identity: static in jax."""

    name: str  # of the module's class

    @abstractmethod
    def run(self, arrays: Arrays, statistics: Arrays, x: Array, mode: Mode) -> tuple[Array, Arrays]:
        """The outputs for one example, and the running statistics after it."""

    @abstractmethod
    def restore(self, arrays: Arrays, statistics: Arrays) -> Any:
        """The module again, as a new one, with these arrays."""


class Adapted:
    """A callable pytree: `network(x, key=key)`, or with running statistics `network(x, state, key=key)`. Without a key,
    or in inference mode, it predicts. Its leaves have the names that the other library gives them."""

    def __init__(self, program: Program, arrays: Arrays, statistics: Arrays | None = None):
        self.program = program
        self.arrays = dict(arrays)
        self.index = eqx.nn.StateIndex(dict(statistics)) if statistics else None
        self.inference: Any = False
        self.axis_name: Hashable = "batch"

    @property
    def library_name(self) -> str:
        """Of the class in the library that it is from: what tables call it."""
        return self.program.name

    @property
    def normalises_batch(self) -> bool:
        """Whether it must know the names of the mapped axes that are the batch (`structure.calling`)."""
        return self.index is not None

    def __call__(self, x: Any, state: eqx.nn.State | None = None, *, key: PRNGKeyArray | None = None) -> Any:
        if (state is None) != (self.index is None):
            raise ArgumentError(f"state: {'missing' if state is None else 'given'}; pass it where the network has one")
        x = jnp.asarray(x)
        mode = Mode(None if self.inference else key, self.axis_name)
        if state is None:
            return self.program.run(self.arrays, {}, x, mode)[0]
        outputs, after = self.program.run(self.arrays, state.get(self.index), x, mode)  # type: ignore[arg-type]
        return outputs, state.set(self.index, dict(after)) if mode.trains else state  # type: ignore[arg-type]


def _flatten(network: Adapted) -> tuple[list[tuple[Any, Any]], Any]:
    children = [(jtu.GetAttrKey(name), array) for name, array in network.arrays.items()]
    children += [(jtu.GetAttrKey("index"), network.index), (jtu.GetAttrKey("inference"), network.inference)]
    return children, (network.program, tuple(network.arrays), network.axis_name)


def _unflatten(static: Any, children: Any) -> Adapted:
    network = object.__new__(Adapted)
    network.program, names, network.axis_name = static
    *arrays, network.index, network.inference = children
    network.arrays = dict(zip(names, arrays, strict=True))
    return network


jtu.register_pytree_with_keys(Adapted, _flatten, _unflatten)


def adapt(program: Program, arrays: Arrays, statistics: Arrays) -> Any:
    """The network, or the pair of the network and its state where it keeps running statistics: what `fit` takes."""
    if not statistics:
        return Adapted(program, arrays)
    return eqx.nn.make_with_state(Adapted)(program, arrays, statistics)


def parts_of(given: Any) -> tuple[Adapted, dict[str, Array]]:
    """The adapted network and its running statistics, from a network, its pair with a state, or a fit of one."""
    found = given if isinstance(given, tuple) else getattr(given, "network", given)
    network, state = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
    if not isinstance(network, Adapted):
        raise ArgumentError(
            f"network: {type(network).__name__} given; it must be one that ox.from_torch, ox.from_flax or "
            "ox.from_haiku made, or the fit of one"
        )
    return network, {} if state is None else dict(state.get(network.index))


def give_back(given: Any, kind: type[Program], library: str) -> Any:
    """The module of the other library, pruned, with its running statistics."""
    network, statistics = parts_of(given)
    if not isinstance(network.program, kind):
        raise ArgumentError(f"network: it did not come from {library}; give it back to the library that it is from")
    return network.program.restore(network.arrays, statistics)
