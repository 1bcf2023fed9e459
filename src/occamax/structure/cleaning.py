"""A graph without what says nothing: copies, layout twice over, what is known before it runs, what nobody reads."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from .graph import Graph, Node
from .interpreter import apply
from .vocabulary import ELEMENTWISE, LAYOUT


def clean(graph: Graph) -> Graph:
    """Simplify, fold what depends on neither input nor parameter, prune."""
    return prune(simplify(_folded(simplify(prune(graph)), set(graph.constants) - set(graph.parameters))))


def fold(graph: Graph) -> Graph:
    """Compute what depends on bound parameters and constants alone, unless it is larger than the parameters it is from.

    A parameter that is only reshaped, transposed, cut or cast stays as it is stored.
    """
    return prune(simplify(_folded(simplify(graph), set(graph.constants))))


def prune(graph: Graph) -> Graph:
    """Leave out the nodes and the constants that no output needs. Inputs and parameters stay."""
    needed = set(graph.outputs)
    nodes = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            nodes.append(node)
            needed.update(node.inputs)
    nodes.reverse()
    live = needed | set(graph.inputs) | set(graph.parameters) | {value for node in nodes for value in node.outputs}
    return replace(
        graph,
        nodes=tuple(nodes),
        constants={value: array for value, array in graph.constants.items() if value in live},
        shapes={value: shape for value, shape in graph.shapes.items() if value in live},
        dtypes={value: dtype for value, dtype in graph.dtypes.items() if value in live},
    )


def simplify(graph: Graph) -> Graph:
    """Drop the nodes that give back an input or say what another says, join layout nodes, broadcast as numpy does."""
    alias: dict[int, int] = {}
    made: dict[int, Node] = {}
    said: dict[Any, int] = {}
    nodes = []
    for node in graph.nodes:
        node = replace(node, inputs=tuple(alias.get(value, value) for value in node.inputs))
        node = _joined(graph, node, made)
        same = _same_as(graph, node, made)
        if same is None and len(node.outputs) == 1 and not node.bodies():
            key = (node.op, node.inputs, tuple(node.attributes.items()), graph.dtypes[node.output])
            first = said.setdefault(key, node.output)
            same = None if first == node.output else first
        if same is not None:
            alias[node.output] = same
            continue
        nodes.append(node)
        made.update(dict.fromkeys(node.outputs, node))
    return replace(graph, nodes=tuple(nodes), outputs=tuple(alias.get(value, value) for value in graph.outputs))


def _joined(graph: Graph, node: Node, made: dict[int, Node]) -> Node:
    """The node with the layout nodes before it taken in, where one node can do both."""
    before = made.get(node.inputs[0]) if node.inputs else None
    if node.op in ("reshape", "transpose") and before is not None and before.op == node.op:
        attributes = node.attributes
        if node.op == "transpose":
            attributes = {"axes": tuple(before.attributes["axes"][axis] for axis in attributes["axes"])}
        return replace(node, inputs=before.inputs, attributes=attributes)
    if node.op == "select" and node.inputs[1] == node.inputs[2]:  # jax guards gradients so
        return Node("broadcast", node.inputs[1:2], node.outputs, {"shape": graph.shapes[node.output]})
    if node.op == "dynamic_slice" and all(value in graph.constants for value in node.inputs[1:]):
        return _static(graph, node)
    if node.op in ELEMENTWISE:
        for place, value in enumerate(node.inputs):
            maker = made.get(value)
            if maker is not None and maker.op == "broadcast":
                inputs = (*node.inputs[:place], maker.inputs[0], *node.inputs[place + 1 :])
                if broadcast_shape([graph.shapes[each] for each in inputs]) == graph.shapes[node.output]:
                    node = replace(node, inputs=inputs)
    return node


def _static(graph: Graph, node: Node) -> Node:
    """A dynamic slice whose starts are known, as a slice."""
    shape, sizes = graph.shapes[node.inputs[0]], node.attributes["sizes"]
    wanted = [int(graph.constants[value]) for value in node.inputs[1:]]
    whole = [size == full for size, full in zip(sizes, shape, strict=True)]
    starts = tuple(
        0 if all_ else min(max(start, 0), full - size)
        for start, size, full, all_ in zip(wanted, sizes, shape, whole, strict=True)
    )
    stops = tuple(size if all_ else start + size for start, size, all_ in zip(starts, sizes, whole, strict=True))
    return Node("slice", node.inputs[:1], node.outputs, {"starts": starts, "stops": stops, "steps": (1,) * len(shape)})


def broadcast_shape(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """numpy's rule, for shapes that agree."""
    rank = max(map(len, shapes))
    aligned = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(next((size for size in sizes if size != 1), 1) for sizes in zip(*aligned, strict=True))


def _same_as(graph: Graph, node: Node, made: dict[int, Node]) -> int | None:
    """The value that a node gives back as it is, if it does."""
    attributes = node.attributes
    shape = graph.shapes[node.inputs[0]] if node.inputs else ()
    same: Any = False
    match node.op:
        case "reshape" | "broadcast":
            same = attributes["shape"] == shape
        case "transpose":
            same = attributes["axes"] == tuple(range(len(shape)))
        case "slice":
            whole = graph.shapes[node.output] == shape and all(step == 1 for step in attributes["steps"])
            return node.inputs[0] if whole else _piece(graph, node, made)
        case "cast":
            same = attributes["dtype"] == graph.dtypes[node.inputs[0]]
        case "concat":
            same = len(node.inputs) == 1
        case "pad":
            same = not any(map(any, attributes["padding"]))
        case "reverse":
            same = not attributes["axes"]
        case "select" if (which := graph.constants.get(node.inputs[0])) is not None and which.size == 1:
            chosen = node.inputs[1 if which.all() else 2]
            return chosen if graph.shapes[chosen] == graph.shapes[node.output] else None
        case "max":
            return next((b for a, b in (node.inputs, node.inputs[::-1]) if _lowest(graph, a, b)), None)
    return node.inputs[0] if same else None


def _lowest(graph: Graph, value: int, other: int) -> bool:
    """Whether a value is the number -∞, which the maximum with `other` does not see."""
    array = graph.constants.get(value)
    wide = math.prod(array.shape) == 1 and array.ndim <= len(graph.shapes[other]) if array is not None else False
    return wide and array is not None and array.dtype.kind in "fV" and float(array.reshape(())) == -math.inf


def _piece(graph: Graph, node: Node, made: dict[int, Node]) -> int | None:
    """The part of a concatenation that a slice cuts out again, whole."""
    before = made.get(node.inputs[0])
    if before is None or before.op != "concat" or any(step != 1 for step in node.attributes["steps"]):
        return None
    axis, start, stops = before.attributes["axis"], 0, node.attributes["stops"]
    for part in before.inputs:
        size = graph.shapes[part][axis]
        if start == node.attributes["starts"][axis] and graph.shapes[part] == graph.shapes[node.output]:
            return part if stops[axis] == start + size else None
        start += size
    return None


def _folded(graph: Graph, known: set[int]) -> Graph:
    """Constants in the place of what is computed from `known` values alone and read by something that is not."""
    sources: dict[int, set[int]] = {value: {value} & set(graph.parameters) for value in known}
    ready: dict[int, Node] = {}
    for node in graph.nodes:
        fixed = all(size >= 0 for value in node.outputs for size in graph.shapes[value])
        if fixed and len(node.outputs) == 1 and node.op != "unknown" and all(value in sources for value in node.inputs):
            ready[node.output] = node
            sources[node.output] = set().union(*(sources[value] for value in node.inputs))
    kept = {node.outputs[0] for node in graph.nodes if node.outputs[0] not in ready}
    waiting = [value for node in graph.nodes if node.outputs[0] in kept for value in node.inputs] + list(graph.outputs)
    constants = dict(graph.constants)
    while waiting:
        value = waiting.pop()
        if value not in ready or value in kept or value in constants:
            continue
        if _stays(graph, ready[value], sources[value], ready):
            kept.add(value)
            waiting.extend(ready[value].inputs)
        else:
            constants[value] = _computed(graph, value, ready, {})
    return replace(graph, nodes=tuple(node for node in graph.nodes if node.outputs[0] in kept), constants=constants)


def _stays(graph: Graph, node: Node, sources: set[int], ready: dict[int, Node]) -> bool:
    """Whether a node stays though its result is known: it only copies, only moves a parameter, or makes more of it."""
    if node.op == "broadcast":
        return True
    moved: Node | None = node
    while moved is not None and moved.op in LAYOUT | {"cast"}:
        if moved.inputs[0] in graph.parameters:
            return True
        moved = ready.get(moved.inputs[0])
    given = sum(math.prod(graph.shapes[value]) for value in sources)
    return bool(sources) and math.prod(graph.shapes[node.output]) > given


def _computed(graph: Graph, value: int, ready: dict[int, Node], memory: dict[int, np.ndarray]) -> np.ndarray:
    if value in graph.constants:
        return graph.constants[value]
    if value not in memory:
        arrays = [_computed(graph, each, ready, memory) for each in ready[value].inputs]
        with np.errstate(all="ignore"):
            (result,) = apply(ready[value], arrays, 0)
        memory[value] = np.asarray(result).astype(graph.dtypes[value])
    return memory[value]
