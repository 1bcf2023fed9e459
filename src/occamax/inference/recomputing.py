"""Activation checkpointing of any function: its program is cut into segments, and the backward pass computes the values
inside of each segment again instead of keeping those of all.

A value that a later segment reads is kept, so it matters where the cuts are. One between two residual blocks keeps one
value, one inside of a block keeps several. Nothing has to be known of blocks for that: of all ways to cut the program,
the one is taken for which what is kept and the largest segment are smallest together,

    min over cuts:  Σ bytes of the values that cross a cut, each once  +  max over segments (bytes made inside).

For n equal layers this is the rule of √n segments (Chen et al. 2016, arXiv:1604.06174).
"""

import math
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn, Literal, jaxpr_as_fun
from jaxtyping import Float

from ..structure.sizes import scan_inputs

MOST_PLACES = 1000  # where a program may be cut: the square of so many numbers is looked at
PARTS = 64  # of the program at most; as many sizes of the largest are tried


def recomputing(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function; its gradient takes less memory, and the time of at most one more run of the function. To be
    compiled with `compiler_options`. Arguments and results are trees; arguments that are no arrays are passed on."""

    def wrapped(*arguments: Any) -> Any:
        arrays, rest = eqx.partition(arguments, eqx.is_array)
        leaves, tree = jax.tree.flatten(arrays)

        def flat(*leaves: Any) -> Any:
            return function(*eqx.combine(jax.tree.unflatten(tree, leaves), rest))

        traced, shapes = jax.make_jaxpr(flat, return_shape=True)(*leaves)
        opened = jax.make_jaxpr(lambda *leaves: _opened(traced.jaxpr, [*traced.consts, *leaves]))(*leaves)
        results = _in_segments(opened.jaxpr, [*opened.consts, *leaves])
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return wrapped


def compiler_options() -> dict[str, Any] | None:
    """What `jax.jit` needs to know. jax puts barriers before what is computed again; XLA takes them away on the CPU
    before it orders the operations, and then computes again long before it is needed."""
    return {"xla_disable_hlo_passes": "cse_barrier_expander"} if jax.default_backend() == "cpu" else None


def _opened(jaxpr: Jaxpr, arguments: Sequence[Any]) -> list[Any]:
    """The results of a program. Functions that are compiled by themselves are opened, to be cut inside; loops compute
    each of their rounds again."""
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], arguments, strict=True))
    for equation in jaxpr.eqns:
        given = [_read(known, atom) for atom in equation.invars]
        if equation.primitive.name == "jit":
            inner = equation.params["jaxpr"]
            results = _opened(inner.jaxpr, [*inner.consts, *given])
        elif equation.primitive.name == "scan":
            results = _scan(equation.params, given)
        else:
            results = _results(equation, given)
        known.update(zip(equation.outvars, results, strict=True))
    return [_read(known, atom) for atom in jaxpr.outvars]


def _scan(how: dict[str, Any], given: list[Any]) -> list[Any]:
    first, carries = scan_inputs(how)
    last = first + carries
    body = jaxpr_as_fun(how["jaxpr"])

    def one(carry: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
        found = body(*given[:first], *carry, *row)
        return found[:carries], found[carries:]

    again = jax.checkpoint(one, prevent_cse=False)  # a loop backwards shares nothing with the one forwards
    length, reverse, unroll = how["length"], how["reverse"], how["unroll"]
    carry, rows = jax.lax.scan(again, given[first:last], given[last:], length, reverse, unroll)
    return [*carry, *rows]


def _in_segments(jaxpr: Jaxpr, arguments: Sequence[Any]) -> list[Any]:
    """The results of a program, its segments checkpointed one by one: but the last, whose values are needed next, and
    loops, which compute their rounds again already."""
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], arguments, strict=True))
    loops = {i for i, equation in enumerate(jaxpr.eqns) if equation.primitive.name == "scan"}
    cuts = {*best_cuts(len(jaxpr.eqns), values_of(jaxpr)), *loops, *(i + 1 for i in loops)}
    for start, stop in pairwise(sorted({0, *cuts, len(jaxpr.eqns)})):
        later = [atom for equation in jaxpr.eqns[stop:] for atom in equation.invars]
        wanted = set(_variables([*later, *jaxpr.outvars]))
        segment = _Segment(jaxpr.eqns[start:stop], known, wanted)
        is_kept = start in loops or stop == len(jaxpr.eqns)
        results = (segment if is_kept else jax.checkpoint(segment))([known[v] for v in segment.inputs])
        known.update(zip(segment.outputs, results, strict=True))
    return [_read(known, atom) for atom in jaxpr.outvars]


class _Segment:
    """Some equations as a function of the values that they read; it gives those that are wanted later."""

    def __init__(self, equations: Sequence[JaxprEqn], known: Collection[Any], wanted: Collection[Any]):
        self.equations = equations
        read = (v for equation in equations for v in _variables(equation.invars))
        self.inputs = list(dict.fromkeys(v for v in read if v in known))
        self.outputs = [v for equation in equations for v in equation.outvars if v in wanted]

    def __call__(self, values: list[Any]) -> list[Any]:
        known = dict(zip(self.inputs, values, strict=True))
        for equation in self.equations:
            results = _results(equation, [_read(known, atom) for atom in equation.invars])
            known.update(zip(equation.outvars, results, strict=True))
        return [known[v] for v in self.outputs]


def _results(equation: JaxprEqn, given: list[Any]) -> list[Any]:
    with equation.ctx.manager:
        found = equation.primitive.bind(*given, **equation.primitive.get_bind_params(equation.params))
    return found if equation.primitive.multiple_results else [found]


def _read(known: dict[Any, Any], atom: Any) -> Any:
    return atom.val if isinstance(atom, Literal) else known[atom]


def _variables(atoms: Sequence[Any]) -> list[Any]:
    return [atom for atom in atoms if not isinstance(atom, Literal)]


class Value(NamedTuple):
    """Of a program: at which equation it is made, at which it is read last, and its bytes."""

    made: int
    read: int
    bytes: float


def values_of(jaxpr: Jaxpr) -> list[Value]:
    """All values that the equations make. What the program gives back is read after the last equation."""
    last = {v: i for i, equation in enumerate(jaxpr.eqns) for v in _variables(equation.invars)}
    last |= dict.fromkeys(_variables(jaxpr.outvars), len(jaxpr.eqns))
    return [Value(i, last.get(v, i), _bytes(v.aval)) for i, equation in enumerate(jaxpr.eqns) for v in equation.outvars]


def _bytes(aval: Any) -> float:
    return float(math.prod(aval.shape) * aval.dtype.itemsize)


def best_cuts(count: int, values: Sequence[Value]) -> list[int]:
    """Before which of its `count` equations a program is best cut; nowhere, if that saves nothing."""
    width = max(-(-count // MOST_PLACES), 1)  # equations between two places
    places = -(-count // width)
    table = np.zeros((places + 1, places + 1))  # bytes, by the place they are made at and the one they are read at
    for value in values:
        table[value.made // width, places if value.read == count else value.read // width] += value.bytes
    made = np.concatenate([[0.0], np.cumsum(table.sum(1)[:places])])  # before each place
    # crossing[i, j]: bytes made before j and read at i or later. A cut at i keeps crossing[i, i] − crossing[i, j] more
    # than the one before it, at j
    read = np.cumsum(table[:, ::-1], 1)[:, ::-1]
    crossing = np.concatenate([np.zeros((1, places + 1)), np.cumsum(read, 0)[:places]]).T.copy()
    plans = [_cuts_within(made[-1] * share, made, crossing) for share in np.geomspace(1, 1 / PARTS, PARTS)]
    _, cuts = min(plans, key=lambda plan: plan[0])
    return [width * cut for cut in cuts]


def _cuts_within(
    most: float, made: Float[np.ndarray, "places"], crossing: Float[np.ndarray, "places places"]
) -> tuple[float, list[int]]:
    """The cuts that keep the fewest bytes, where no segment makes more than `most`; and the bytes, infinite where there
    are no such cuts. Place by place: the best cuts before each, from the best before those that come before it."""
    last = len(made) - 1
    kept, before = np.full(last + 1, np.inf), np.zeros(last + 1, int)
    kept[0] = 0.0
    earliest = np.searchsorted(made, made - most * (1 + 1e-9))  # where a segment that ends here may begin
    for i in range(1, last + 1):
        begin = int(earliest[i])
        if begin < i:
            costs = kept[begin:i] + (crossing[i, i] - crossing[i, begin:i] if i < last else 0.0)
            before[i] = begin + int(np.argmin(costs))
            kept[i] = costs[before[i] - begin]
    ends = [last]
    while ends[-1] > 0:
        ends.append(int(before[ends[-1]]))
    largest = max(-np.diff(made[ends]), default=0.0)
    return kept[last] + largest, ends[-2:0:-1]
