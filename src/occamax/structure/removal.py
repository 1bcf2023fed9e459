"""A graph without some indices of some axes. What they added to a sum is added as a constant."""

from dataclasses import replace

import numpy as np

from .graph import Graph, Node, Shape
from .interpreter import apply
from .knowledge import Fact
from .links import Key, free_axes

Removed = dict[Key, np.ndarray]  # of an axis, True where an index goes


def remove(graph: Graph, removed: Removed, facts: dict[int, Fact]) -> Graph:
    """The graph without the indices that `removed` flags, which must agree with each other along `links`."""
    shapes = {value: _shape(value, shape, removed) for value, shape in graph.shapes.items()}
    constants = {value: cut(array, value, removed) for value, array in graph.constants.items()}
    dtypes = dict(graph.dtypes)
    nodes: list[Node] = []
    alias: dict[int, int] = {}  # a sum → the same with what is added to it

    def constant(array: np.ndarray) -> int:
        number = fresh(shapes)
        shapes[number], dtypes[number], constants[number] = array.shape, str(array.dtype), array
        return number

    for node in graph.nodes:
        attributes = dict(node.attributes)
        inputs = tuple(alias.get(value, value) for value in node.inputs)
        if node.op in ("reshape", "broadcast"):
            attributes["shape"] = shapes[node.output]
        elif node.op == "dynamic_slice":
            attributes["sizes"] = _sizes(graph, node, shapes)
        elif node.op == "slice":
            attributes |= _bounds(graph, node, removed)
        elif node.op == "conv" and attributes["groups"] > 1:
            attributes["groups"] = shapes[inputs[0]][1] // graph.shapes[node.inputs[1]][1]
        elif node.op == "take" and (node.inputs[0], attributes["axis"]) in removed:
            inputs = (inputs[0], constant(_indices(graph, node, removed)))
        nodes.append(Node(node.op, inputs, node.outputs, attributes))
        added = _addition(graph, node, removed, facts)
        if added is not None:
            number = constant(cut(added, node.output, removed))
            total = alias[node.output] = fresh(shapes)
            shapes[total], dtypes[total] = shapes[node.output], dtypes[node.output]
            nodes.append(Node("add", (node.output, number), (total,)))
    outputs = tuple(alias.get(value, value) for value in graph.outputs)
    return replace(graph, nodes=tuple(nodes), outputs=outputs, constants=constants, shapes=shapes, dtypes=dtypes)


def fresh(shapes: dict[int, Shape]) -> int:
    """A number that no value has."""
    return max(shapes, default=-1) + 1


def cut(array: np.ndarray, value: int, removed: Removed) -> np.ndarray:
    """Of a value's array what stays; an axis of one number, which repeats, stays."""
    for axis, size in enumerate(array.shape):
        gone = removed.get((value, axis))
        if gone is not None and size == len(gone):
            array = array.take(np.flatnonzero(~gone), axis)
    return array


def _shape(value: int, shape: Shape, removed: Removed) -> Shape:
    return tuple(
        size - int(removed[value, axis].sum()) if (value, axis) in removed else size for axis, size in enumerate(shape)
    )


def _sizes(graph: Graph, node: Node, shapes: dict[int, Shape]) -> Shape:
    whole = zip(node.attributes["sizes"], graph.shapes[node.inputs[0]], shapes[node.output], strict=True)
    return tuple(now if size == full else size for size, full, now in whole)


def _bounds(graph: Graph, node: Node, removed: Removed) -> dict[str, Shape]:
    """Where a slice begins and ends when some of what is before it, or in it, is gone."""
    starts, stops = list(node.attributes["starts"]), list(node.attributes["stops"])
    for axis in range(len(starts)):
        gone = removed.get((node.inputs[0], axis))
        if gone is not None:
            starts[axis], stops[axis] = (int((~gone[: at[axis]]).sum()) for at in (starts, stops))
    return {"starts": tuple(starts), "stops": tuple(stops)}


def _indices(graph: Graph, node: Node, removed: Removed) -> np.ndarray:
    """The indices of a look-up in what is left of its table."""
    indices, axis = graph.constants[node.inputs[1]], node.attributes["axis"]
    kept = ~removed[node.inputs[0], axis]
    picked = indices[kept[indices]]
    return (np.cumsum(kept) - 1)[picked].astype(indices.dtype)


def summed_axes(graph: Graph, node: Node) -> list[Key]:
    """The keys that a node sums over."""
    if node.op == "dot":
        sides = zip(node.inputs, node.attributes["contract"], strict=True)
        return [(value, axis) for value, axes in sides for axis in axes]
    if node.op == "conv" and node.attributes["groups"] == 1:
        return [(node.inputs[0], 1), (node.inputs[1], 1)]
    if node.op == "reduce_sum":
        return [(node.inputs[0], axis) for axis in node.attributes["axes"]]
    return []


def _addition(graph: Graph, node: Node, removed: Removed, facts: dict[int, Fact]) -> np.ndarray | None:
    """What the removed indices add to a sum, with one number where it repeats; None for nothing."""
    keys = [key for key in summed_axes(graph, node) if key in removed and removed[key].any()]
    if not keys:
        return None
    arrays = []
    for place, value in enumerate(node.inputs):
        array = facts[value].value
        array = array.astype(np.float64) if array.dtype == np.float32 else array
        if place == 0:  # both sides of a product lose the same: one is enough
            gone = np.zeros(array.shape, bool)
            for _, axis in (key for key in keys if key[0] == value):
                gone |= removed[value, axis].reshape([-1 if i == axis else 1 for i in range(array.ndim)])
            array = np.where(gone, array, np.zeros((), array.dtype))
        arrays.append(array)
    if not all(array.any() for array in arrays):
        return None
    total = apply(node, arrays, 1)[0]
    first = tuple(slice(0, 1) if axis in repeated_axes(graph, node) else slice(None) for axis in range(total.ndim))
    total = total[first].astype(graph.dtypes[node.output])
    return total if total.any() else None


def repeated_axes(graph: Graph, node: Node) -> set[int]:
    """The axes of a sum's output along which what known units add must be the same, so that it is one number."""
    depends = graph.dependent()
    if node.op == "conv":
        return {0, *range(2, len(graph.shapes[node.output]))}
    if node.op == "reduce_sum":
        return set(range(len(graph.shapes[node.output]))) if node.inputs[0] in depends else set()
    return {place for side, _, place in free_axes(graph, node) if node.inputs[side] in depends}
