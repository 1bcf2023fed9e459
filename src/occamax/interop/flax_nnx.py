"""Flax NNX modules: `from_flax`, and back, `to_flax`."""

import importlib.util
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..errors import ArgumentError
from .adapted import Arrays, Mode, Program, adapt, give_back
from .checks import check_runs


def from_flax(module: Any, example: Any) -> Any:
    """A Flax NNX module as a network for `ox.fit`, or the pair of a network and its state where the module has
    BatchNorm; it begins with the module's values. The module itself is not changed.

    **module** maps a batch to a vector of outputs for each example. Its `nnx.Param` are trained, its `nnx.BatchStat`
    are running statistics, its random streams follow the key of the training; other variables stay as they are.
    **example** one example of its input, *without* the batch axis.

    Raises:
        ArgumentError: flax is not installed, or something else than a module.

    Examples:
        >>> from flax import nnx
        >>> module = nnx.Sequential(nnx.Linear(8, 16, rngs=nnx.Rngs(0)), nnx.relu, nnx.Linear(16, 2, rngs=nnx.Rngs(1)))
        >>> network = ox.from_flax(module, x[0])  # then ox.fit(network, (x, y), start=ox.Trained())
    """
    _need_flax()
    from flax import nnx  # pyright: ignore[reportMissingImports]

    if not isinstance(module, nnx.Module):
        raise ArgumentError(f"module: {type(module).__name__} given; it must be a flax.nnx.Module")
    program = FlaxProgram(module)
    network = adapt(program, program.first_arrays, program.first_statistics)
    check_runs(network, example, type(module).__name__)
    return network


def to_flax(fitted: Any) -> Any:
    """The module that `from_flax` was given, as a new one in inference mode, pruned. **fitted** a `Fit`, or a network
    (with its state, if it has one) that began in `from_flax`.

    Raises:
        ArgumentError: flax is not installed, or a network that did not begin in `from_flax`.

    Examples:
        >>> from flax import nnx
        >>> again = ox.to_flax(ox.from_flax(nnx.Linear(8, 2, rngs=nnx.Rngs(0)), x[0]))  # of a fit: fitted.to_flax()
        >>> again(x[:3]).shape
        (3, 2)
    """
    _need_flax()
    return give_back(fitted, FlaxProgram, "Flax NNX")


class FlaxProgram(Program):
    """A module, split into what it is (when it trains, when it predicts) and its variables by kind."""

    def __init__(self, module: Any):
        from flax import nnx  # pyright: ignore[reportMissingImports]

        self.nnx, self.name = nnx, type(module).__name__
        self.graphs = {}
        for trains in (True, False):
            own = nnx.clone(module)
            (own.train if trains else own.eval)()
            self.graphs[trains], *states = self._split(own)
        self.parameters, self.statistics, self.streams, self.rest = states  # type: ignore[reportPossiblyUnbound]
        self.first_arrays = _named(nnx, self.parameters)
        self.first_statistics = _named(nnx, self.statistics)

    def _split(self, module: Any) -> Any:
        nnx = self.nnx
        return nnx.split(module, nnx.Param, nnx.BatchStat, nnx.RngState, ...)

    def _module(self, arrays: Arrays, statistics: Arrays, mode: Mode) -> Any:
        nnx = self.nnx
        states = (_filled(nnx, self.parameters, arrays), _filled(nnx, self.statistics, statistics))
        streams = _keyed(nnx, self.streams, jax.random.key(0) if mode.key is None else mode.key)
        module = nnx.merge(self.graphs[mode.trains], *states, streams, _fresh(nnx, self.rest))
        for _, layer in nnx.iter_modules(module):
            if isinstance(layer, nnx.BatchNorm):
                layer.axis_name = mode.axes if mode.trains else None
        return module

    def run(self, arrays: Arrays, statistics: Arrays, x: Array, mode: Mode) -> tuple[Array, Arrays]:
        module = self._module(arrays, statistics, mode)
        outputs = module(x[None])[0]
        return outputs, _named(self.nnx, self._split(module)[2]) if mode.trains else statistics

    def restore(self, arrays: Arrays, statistics: Arrays) -> Any:
        return self._module(jax.tree.map(jnp.asarray, arrays), jax.tree.map(jnp.asarray, statistics), Mode())


def _named(nnx: Any, state: Any) -> dict[str, Array]:
    return {".".join(map(str, path)): leaf[...] for path, leaf in nnx.to_flat_state(state)}


def _filled(nnx: Any, state: Any, arrays: Arrays) -> Any:
    """The state with other values, by name."""
    flat = [(path, leaf.replace(arrays[".".join(map(str, path))])) for path, leaf in nnx.to_flat_state(state)]
    return nnx.from_flat_state(flat)


def _keyed(nnx: Any, streams: Any, key: Any) -> Any:
    """Random streams that all follow one key, each its own."""
    flat = []
    for number, (path, leaf) in enumerate(nnx.to_flat_state(streams)):
        is_key = isinstance(leaf, nnx.RngKey)
        flat.append((path, leaf.replace(jax.random.fold_in(key, number) if is_key else leaf[...])))
    return nnx.from_flat_state(flat)


def _fresh(nnx: Any, state: Any) -> Any:
    """The same values in variables of their own: the call may write to them, at its own level of tracing."""
    return nnx.from_flat_state([(path, leaf.replace(leaf[...])) for path, leaf in nnx.to_flat_state(state)])


def _need_flax() -> None:
    if importlib.util.find_spec("flax") is None:
        raise ArgumentError("module: flax is not installed; pip install 'occamax[flax]'")
