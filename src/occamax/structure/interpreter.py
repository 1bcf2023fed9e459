"""A graph computed in numpy, without jax."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ExportError
from .graph import Graph, Node, sized
from .numpy_ops import OPERATIONS

_SIZED = ("shape", "stops", "sizes")  # attributes in which a negative number stands for the batch
_AXES = ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or", "reverse")


def evaluate(
    graph: Graph, inputs: Sequence[np.ndarray], parameters: Mapping[int, Any] | None = None
) -> list[np.ndarray]:
    """The outputs for a batch of each input; `parameters` by leaf number, where they are not bound."""
    if len(inputs) != len(graph.inputs):
        raise ExportError(f"inputs: the graph takes {len(graph.inputs)} arrays, given were {len(inputs)}")
    bound = graph.bind(parameters or {})
    missing = sorted(leaf for value, leaf in bound.parameters.items() if value not in bound.constants)
    if missing:
        raise ExportError(f"parameters: no array for the parameters {missing}; give them here or by `graph.bind`")
    arrays = [np.asarray(x, graph.dtypes[value]) for x, value in zip(inputs, graph.inputs, strict=True)]
    for place, (array, value) in enumerate(zip(arrays, graph.inputs, strict=True)):
        shape = sized(graph.shapes[value], len(array) if array.ndim else 0)
        if array.shape != shape:
            raise ExportError(f"inputs[{place}]: has shape {array.shape}; the graph takes (batch, {shape[1:]})")
    with np.errstate(all="ignore"):
        return compute(bound, arrays, len(arrays[0]) if arrays else 0)


def compute(graph: Graph, inputs: Sequence[np.ndarray], batch: int) -> list[np.ndarray]:
    """`evaluate` of a graph, or of a body, whose inputs are right and whose parameters are bound."""
    known: dict[int, np.ndarray] = dict(graph.constants) | dict(zip(graph.inputs, inputs, strict=True))
    last = {value: place for place, node in enumerate(graph.nodes) for value in node.inputs}
    kept = {*graph.outputs, *graph.constants}
    for place, node in enumerate(graph.nodes):
        results = apply(node, [known[value] for value in node.inputs], batch)
        for value, result in zip(node.outputs, results, strict=True):
            known[value] = np.asarray(result).astype(graph.dtypes[value], copy=False)
        for value in set(node.inputs) - kept:
            if last[value] == place:
                del known[value]
    return [known[value] for value in graph.outputs]


def apply(node: Node, arrays: list[np.ndarray], batch: int) -> list[np.ndarray]:
    """One operation."""
    if node.op in _CONTROL:
        return _CONTROL[node.op](node.attributes, arrays, batch)
    if node.op not in OPERATIONS:
        name = node.attributes.get("primitive", node.op)
        raise ExportError(f"operation {name!r}: not in the vocabulary of graphs; write the network without it")
    attributes = {name: sized(value, batch) if name in _SIZED else value for name, value in node.attributes.items()}
    with np.errstate(all="ignore"):  # infinities pass as they do in jax; BLAS also raises flags of its own accord
        if node.op in _AXES:
            return [np.asarray(OPERATIONS[node.op](arrays[0], attributes["axes"]))]
        return [np.asarray(OPERATIONS[node.op](*arrays, **attributes))]


def _scan(attributes: dict[str, Any], arrays: list[np.ndarray], batch: int) -> list[np.ndarray]:
    body, length = attributes["body"], attributes["length"]
    first = attributes["constants"] + attributes["carries"]
    constants, carries, stacks = (
        arrays[: attributes["constants"]],
        arrays[attributes["constants"] : first],
        arrays[first:],
    )
    order = range(length - 1, -1, -1) if attributes["reverse"] else range(length)
    rows: list[list[np.ndarray]] = []
    for step in order:
        results = compute(body, [*constants, *carries, *(stack[step] for stack in stacks)], batch)
        carries = results[: len(carries)]
        rows.append(results[len(carries) :])
    if attributes["reverse"]:
        rows.reverse()
    outputs = body.outputs[len(carries) :]
    empty = [np.zeros((0, *sized(body.shapes[value], batch)), body.dtypes[value]) for value in outputs]
    return [*carries, *(map(np.stack, zip(*rows, strict=True)) if rows else empty)]


def _cond(attributes: dict[str, Any], arrays: list[np.ndarray], batch: int) -> list[np.ndarray]:
    branches = attributes["branches"]
    return compute(branches[int(np.clip(int(arrays[0]), 0, len(branches) - 1))], arrays[1:], batch)


def _while(attributes: dict[str, Any], arrays: list[np.ndarray], batch: int) -> list[np.ndarray]:
    first = attributes["condition_constants"]
    second = first + attributes["body_constants"]
    carries = arrays[second:]
    while compute(attributes["condition"], [*arrays[:first], *carries], batch)[0]:
        carries = compute(attributes["body"], [*arrays[first:second], *carries], batch)
    return list(carries)


_CONTROL = {"scan": _scan, "cond": _cond, "while": _while}
