"""Haiku's transformed functions: `from_haiku`, and back, `to_haiku`."""

import importlib.util
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..errors import ArgumentError
from .adapted import Arrays, Mode, Program, adapt, give_back
from .checks import check_runs


def from_haiku(  # what a Haiku network consists of
    transformed: Any,
    params: Mapping[str, Mapping[str, Any]],
    example: Any,
    *,
    state: Mapping[str, Mapping[str, Any]] | None = None,
    training: Mapping[str, Any] | None = None,
    prediction: Mapping[str, Any] | None = None,
) -> Any:
    """A Haiku function as a network for `ox.fit`, or the pair of a network and its state where it has one; it begins
    with these parameters.

    **transformed** what `hk.transform`, or with a **state** `hk.transform_with_state`, made of a function of a batch.
    **training** and **prediction** are further arguments of that function, by name: `{"is_training": True}` and
    `{"is_training": False}`. **example** one example of its input, *without* the batch axis.

    **params** what its `init` gave, or training.

    Raises:
        ArgumentError: haiku is not installed, or something else than a transformed function.

    Examples:
        >>> import haiku as hk
        >>> function = hk.transform(lambda batch: hk.nets.MLP([16, 2])(batch))
        >>> params = function.init(jax.random.key(0), x[:1])
        >>> network = ox.from_haiku(function, params, x[0])  # then ox.fit(network, (x, y), start=ox.Trained())
    """
    _need_haiku()
    if not hasattr(transformed, "apply"):
        raise ArgumentError(f"transformed: {type(transformed).__name__} given; it must be what hk.transform makes")
    program = HaikuProgram(transformed, params, state, training or {}, prediction or {})
    network = adapt(program, program.first_arrays, program.first_statistics)
    check_runs(network, example, "the Haiku function")
    return network


def to_haiku(fitted: Any) -> Any:
    """The parameters that `from_haiku` was given, pruned; the pair of them and the state where there is one. **fitted**
    a `Fit`, or a network (with its state, if it has one) that began in `from_haiku`.

    Raises:
        ArgumentError: a network that did not begin in `from_haiku`.

    Examples:
        >>> import haiku as hk
        >>> function = hk.transform(lambda batch: hk.Linear(2)(batch))
        >>> params = function.init(jax.random.key(0), x[:1])
        >>> again = ox.to_haiku(ox.from_haiku(function, params, x[0]))  # of a fit: fitted.to_haiku()
        >>> again["linear"]["w"].shape
        (8, 2)
    """
    return give_back(fitted, HaikuProgram, "Haiku")


class HaikuProgram(Program):
    """A transformed function; arrays are named `module.name`."""

    name = "Haiku"

    def __init__(
        self, transformed: Any, params: Any, state: Any, training: Mapping[str, Any], prediction: Mapping[str, Any]
    ):
        self.apply, self.has_state = transformed.apply, state is not None
        self.options = {True: dict(training), False: dict(prediction)}
        self.names = {f"{module}.{name}": (module, name) for module, name in _pairs(params)}
        self.state_names = {f"{module}.{name}": (module, name) for module, name in _pairs(state or {})}
        self.first_arrays = _named(self.names, params)
        self.first_statistics = _named(self.state_names, state or {})

    def run(self, arrays: Arrays, statistics: Arrays, x: Array, mode: Mode) -> tuple[Array, Arrays]:
        import haiku as hk  # pyright: ignore[reportMissingImports]

        def over_batch(call: Any, args: Any, kwargs: Any, context: Any) -> Any:
            """A normalisation is told what the batch is."""
            if isinstance(context.module, hk.BatchNorm) and mode.trains:
                context.module.cross_replica_axis = mode.axes  # pyright: ignore[reportAttributeAccessIssue]
            return call(*args, **kwargs)

        options = self.options[mode.trains]
        params, state = _nested(self.names, arrays), _nested(self.state_names, statistics)
        with hk.intercept_methods(over_batch):
            if not self.has_state:
                return self.apply(params, mode.key, x[None], **options)[0], {}
            outputs, after = self.apply(params, state, mode.key, x[None], **options)
        return outputs[0], _named(self.state_names, after)

    def restore(self, arrays: Arrays, statistics: Arrays) -> Any:
        params = _nested(self.names, jax.tree.map(jnp.asarray, dict(arrays)))
        if not self.has_state:
            return params
        return params, _nested(self.state_names, jax.tree.map(jnp.asarray, dict(statistics)))


def _pairs(tree: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [(module, name) for module, arrays in tree.items() for name in arrays]


def _named(names: Mapping[str, tuple[str, str]], tree: Mapping[str, Mapping[str, Any]]) -> dict[str, Array]:
    return {own: jnp.asarray(tree[module][name]) for own, (module, name) in names.items()}


def _nested(names: Mapping[str, tuple[str, str]], arrays: Arrays) -> dict[str, dict[str, Array]]:
    found: dict[str, dict[str, Array]] = {}
    for own, (module, name) in names.items():
        found.setdefault(module, {})[name] = arrays[own]
    return found


def _need_haiku() -> None:
    if importlib.util.find_spec("haiku") is None:
        raise ArgumentError("transformed: haiku is not installed; pip install 'occamax[haiku]'")
