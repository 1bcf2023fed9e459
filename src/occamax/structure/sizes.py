"""Two traces of one program, with two batch sizes: what is the same, and what is the batch."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..errors import ExportError
from .graph import Shape

BATCHES = (11, 13)
"""Batch sizes to trace with: a size that is 11k in one trace and 13k in the other is k times the batch."""


class Pair:
    """A jaxpr, closed or not, and its twin from the other batch size."""

    def __init__(self, first: Any, second: Any):
        self.constants = (getattr(first, "consts", ()), getattr(second, "consts", ()))
        self.jaxpr = getattr(first, "jaxpr", first)
        self.twin = getattr(second, "jaxpr", second)

    def equations(self) -> Iterator[tuple[Any, Any]]:
        """The equations, each with its twin."""
        if len(self.jaxpr.eqns) != len(self.twin.eqns):
            raise ExportError("function: its program changes with the batch size; apply it to one example by jax.vmap")
        for first, second in zip(self.jaxpr.eqns, self.twin.eqns, strict=True):
            if first.primitive.name != second.primitive.name:
                raise ExportError(
                    "function: its program changes with the batch size; apply it to one example by jax.vmap"
                )
            yield first, second


def merge(first: Any, second: Any) -> Any:
    """One parameter of an equation from its two traces; the batch becomes a negative size."""
    if hasattr(first, "eqns") or hasattr(first, "jaxpr"):
        return Pair(first, second)
    if isinstance(first, (bool, np.bool_)):
        return bool(first)
    if isinstance(first, (int, np.integer)):
        return _size(int(first), int(second))
    if type(first) in (tuple, list):
        return tuple(merge(*both) for both in zip(first, second, strict=True))
    return first


def scan_inputs(how: Mapping[str, Any]) -> tuple[int, int]:
    """How many inputs of a scan are constants and how many are carried, from its parameters: numbers up to jax 0.11,
    trees after it."""
    if "num_consts" in how:
        return how["num_consts"], how["num_carry"]
    constants, carries, _ = how["ft_in"].unpack()
    return len(constants), len(carries)


def _size(first: int, second: int) -> int:
    if first == second:
        return first
    times, rest = divmod(first, BATCHES[0])
    if rest or times * BATCHES[1] != second:
        raise ExportError(
            f"function: a size is {first} for a batch of {BATCHES[0]} and {second} for one of {BATCHES[1]}, "
            "no multiple of the batch size; apply the network to one example by jax.vmap"
        )
    return -times


class Equation:
    """An equation of a jaxpr and its twin from the other batch size; `equation[name]` is a parameter of both."""

    def __init__(self, first: Any, second: Any):
        self.first, self.second = first, second
        self.name: str = first.primitive.name
        pairs = zip(first.outvars, second.outvars, strict=True)
        self.results = [(merge(tuple(v.aval.shape), tuple(w.aval.shape)), str(v.aval.dtype)) for v, w in pairs]

    def __getitem__(self, name: str) -> Any:
        return merge(self.first.params[name], self.second.params[name])

    @property
    def shape(self) -> Shape:
        return self.results[0][0]

    @property
    def dtype(self) -> str:
        return self.results[0][1]
