"""From a jax function to a graph: traced with two batch sizes, so that what differs is the batch."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ..errors import ExportError
from .builder import Builder
from .cleaning import clean, prune
from .equations import RULES
from .graph import Graph
from .recognise import recognise
from .sizes import BATCHES, Equation, Pair, merge, scan_inputs

_INLINED = ("jaxpr", "call_jaxpr", "fun_jaxpr")
_OPAQUE = ("shard_map", "pallas_call", "custom_partitioning", "custom_linear_solve", "linear_solve")


def trace(
    function: Callable[[list[Any], Any], Any], arrays: Sequence[Any], example: Any, *, allow_unknown: bool = False
) -> Graph:
    """The graph of `function(arrays, batch)`.

    `arrays` are the network's arrays or their shapes and become parameters 0, 1, …; `example` is the shape and type of
    one example, or a tree of them, without the batch axis that `function` takes first. An operation that the
    vocabulary does not have is an error, unless `allow_unknown`: then it becomes a node `unknown`.
    """
    shapes = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
    leaves, tree = jax.tree.flatten(example)
    closed = []
    for size in BATCHES:
        batch = [jax.ShapeDtypeStruct((size, *leaf.shape), leaf.dtype) for leaf in leaves]
        # a function of its own each time: jax remembers traces, also those from outside `plain_convolutions`
        fresh = jax.make_jaxpr(lambda *arguments: function(*arguments))
        closed.append(fresh(shapes, jax.tree.unflatten(tree, batch)))
    builder = Builder(allow_unknown)
    parameters = [builder.value(shape.shape, str(shape.dtype)) for shape in shapes]
    inputs = [builder.value((-1, *leaf.shape), str(leaf.dtype), depends=True) for leaf in leaves]
    outputs = _lower(builder, Pair(*closed), [*parameters, *inputs])
    graph = builder.graph(inputs, outputs, {value: leaf for leaf, value in enumerate(parameters)})
    graph = prune(recognise(clean(graph)))
    return graph if allow_unknown else _checked(graph)


def _checked(graph: Graph) -> Graph:
    """Refuse what has no place in the vocabulary and is needed for the outputs."""
    for each in graph.walk():
        for node in each.nodes:
            if node.op == "unknown":
                raise ExportError(f"operation {node.attributes['primitive']!r}: {node.attributes['reason']}")
        made = {*each.inputs, *each.constants, *each.parameters, *each.producers()}
        lost = {value for node in each.nodes for value in node.inputs if value not in made} - made
        if lost:
            types = sorted({each.dtypes[value] for value in lost})
            raise ExportError(
                f"function: reads constants of type {types}, which a graph cannot hold; leave out random keys"
            )
    return graph


def _lower(builder: Builder, pair: Pair, arguments: Sequence[int]) -> list[int]:
    """Add a (closed) jaxpr's equations; the values of its outputs."""
    known: dict[Any, int] = {}
    for var, first, second in zip(pair.jaxpr.constvars, *pair.constants, strict=True):
        known[var] = _constant(builder, first, second, var.aval)
    known.update(zip(pair.jaxpr.invars, arguments, strict=True))

    def read(atom: Any, twin: Any) -> int:
        if hasattr(atom, "val"):
            return _constant(builder, atom.val, twin.val, atom.aval)
        return known[atom]

    for first, second in pair.equations():
        inputs = [read(*atoms) for atoms in zip(first.invars, second.invars, strict=True)]
        equation = Equation(first, second)
        outputs = _add(builder, equation, inputs)
        known.update(zip(first.outvars, outputs, strict=True))
    return [read(*atoms) for atoms in zip(pair.jaxpr.outvars, pair.twin.outvars, strict=True)]


def _constant(builder: Builder, first: Any, second: Any, aval: Any) -> int:
    """An array that jax wrote into the program; a value without one where it depends on the batch or is no array."""
    try:
        array, twin = np.asarray(first, aval.dtype), np.asarray(second, aval.dtype)
    except TypeError:  # a random key
        return builder.value(aval.shape, str(aval.dtype))
    if array.shape == twin.shape and np.array_equal(array, twin, equal_nan=array.dtype.kind in "fc"):
        return builder.constant(array)
    reason = "the batch size enters the computation; take means over examples outside the network (inference mode)"
    results = [(merge(array.shape, twin.shape), str(array.dtype))]
    return builder.emit_many("unknown", (), results, primitive="batch size", reason=reason)[0]


def _add(builder: Builder, equation: Equation, inputs: list[int]) -> list[int]:
    name = equation.name
    if name in _CONTROL:
        return _CONTROL[name](builder, equation, inputs)
    if name in RULES:
        result = RULES[name](builder, equation, inputs)
        if result is not None:
            return [result] if isinstance(result, int) else result
    inner = next((equation[each] for each in _INLINED if each in equation.first.params), None)
    if isinstance(inner, Pair) and name not in _OPAQUE and len(inner.jaxpr.invars) == len(inputs):
        return _lower(builder, inner, inputs)
    reason = (
        "no entry in the vocabulary of graphs for this use; write the network without it, or run it in inference mode"
    )
    return builder.emit_many("unknown", inputs, equation.results, primitive=name, reason=reason)


def _body(builder: Builder, pair: Pair, depends: Sequence[bool]) -> Graph:
    """A jaxpr as a graph of its own, which takes everything it needs as inputs."""
    inside = Builder(builder.allow_unknown)
    twins = zip(pair.jaxpr.invars, pair.twin.invars, depends, strict=True)
    inputs = [inside.value(merge(v.aval.shape, w.aval.shape), str(v.aval.dtype), d) for v, w, d in twins]
    outputs = _lower(inside, pair, inputs)
    return prune(recognise(clean(inside.graph(inputs, outputs, {}))))


def _scan(builder: Builder, equation: Equation, inputs: list[int]) -> list[int]:
    constants, carries = scan_inputs(equation.first.params)
    depends = [value in builder.depends for value in inputs]
    depends[constants : constants + carries] = [True] * carries
    return builder.emit_many(
        "scan",
        inputs,
        equation.results,
        body=_body(builder, equation["jaxpr"], depends),
        constants=constants,
        carries=carries,
        length=equation["length"],
        reverse=equation["reverse"],
    )


def _cond(builder: Builder, equation: Equation, inputs: list[int]) -> list[int]:
    depends = [value in builder.depends for value in inputs[1:]]
    branches = tuple(_body(builder, branch, depends) for branch in equation["branches"])
    return builder.emit_many("cond", inputs, equation.results, branches=branches)


def _while(builder: Builder, equation: Equation, inputs: list[int]) -> list[int]:
    first, second = equation["cond_nconsts"], equation["body_nconsts"]
    depends = [value in builder.depends for value in inputs]
    depends[first + second :] = [True] * len(equation.results)
    condition = _body(builder, equation["cond_jaxpr"], depends[:first] + depends[first + second :])
    return builder.emit_many(
        "while",
        inputs,
        equation.results,
        condition=condition,
        body=_body(builder, equation["body_jaxpr"], depends[first:]),
        condition_constants=first,
        body_constants=second,
    )


_CONTROL = {"scan": _scan, "cond": _cond, "while": _while}
