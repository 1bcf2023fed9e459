"""How each operation ties the axes of its values together: which index of one stands and falls with which of another.

A *key* is (value, axis). `links_of(graph)` says for each key what it is tied to.
"""

import math
from dataclasses import dataclass

import numpy as np

from .graph import Graph, Node, Shape
from .vocabulary import CUMULATIVE, ELEMENTWISE, REDUCTIONS, WINDOWS

Key = tuple[int, int]
OUTPUT = "it is the network's output"
_BATCH = 1_000_003  # stands for the batch size where sizes are multiplied; a prime that no size has


@dataclass(frozen=True, eq=False)
class Link:
    """Index `indices[j]` of the source is index j of the target; -1 where the target has it from elsewhere. Without
    indices, index by index."""

    source: Key
    target: Key
    indices: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Merge:
    """A reshape: the axes of one side run through the same numbers as those of the other."""

    sides: tuple[tuple[Key, ...], tuple[Key, ...]]
    sizes: tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Stop:
    """What is labelled here cannot go; `mixes` where all units enter one number, which may still do without some."""

    key: Key
    reason: str
    mixes: bool = False


Tie = Link | Merge | Stop


def links_of(graph: Graph) -> dict[Key, list[Tie]]:
    """The ties of each key."""
    found: dict[Key, list[Tie]] = {}
    ties = [Stop((value, axis), reason) for value, reason in _ends(graph) for axis in range(len(graph.shapes[value]))]
    for node in graph.nodes:
        ties += _ties(graph, node)
    for tie in ties:
        match tie:
            case Link():
                keys = (tie.source, tie.target)
            case Merge():
                keys = (*tie.sides[0], *tie.sides[1])
            case Stop():
                keys = (tie.key,)
        for key in keys:
            found.setdefault(key, []).append(tie)
    return found


def _ends(graph: Graph) -> list[tuple[int, str]]:
    inputs = [(value, "it is the network's input") for value in graph.inputs]
    return inputs + [(value, OUTPUT) for value in graph.outputs]


def _ties(graph: Graph, node: Node) -> list[Tie]:
    if node.op in _RULES:
        return _RULES[node.op](graph, node)
    if node.op in ELEMENTWISE:
        return _elementwise(graph, node)
    if node.op in REDUCTIONS or node.op in ("argmax", "argmin"):
        return _reduction(graph, node)
    if node.op in WINDOWS:
        return _window(graph, node)
    if node.op in CUMULATIVE or node.op in ("softmax", "log_softmax"):
        return _along(graph, node)
    reason = "inside a scan" if node.op in ("scan", "while", "cond") else f"goes through {node.op}"
    return [*_stops(graph, node.inputs, reason), *_stops(graph, node.outputs, reason)]


def _stops(graph: Graph, values: tuple[int, ...], reason: str) -> list[Tie]:
    return [Stop((value, axis), reason) for value in values for axis in range(len(graph.shapes[value]))]


def _same(graph: Graph, source: Key, target: Key) -> list[Tie]:
    """Index by index, unless it is the batch, or one number that repeats."""
    size = graph.shapes[source[0]][source[1]]
    return [Link(source, target)] if size > 1 and size == graph.shapes[target[0]][target[1]] else []


def _elementwise(graph: Graph, node: Node) -> list[Tie]:
    output = node.output
    rank = len(graph.shapes[output])
    found: list[Tie] = []
    for value in dict.fromkeys(node.inputs):
        missing = rank - len(graph.shapes[value])
        for axis in range(len(graph.shapes[value])):
            found += _same(graph, (value, axis), (output, axis + missing))
    return found


def _reduction(graph: Graph, node: Node) -> list[Tie]:
    value = node.inputs[0]
    gone = node.attributes["axes"] if "axes" in node.attributes else (node.attributes["axis"],)
    kept = [axis for axis in range(len(graph.shapes[value])) if axis not in gone]
    reason, mixes = "its units are normalised together", node.op == "reduce_sum"
    found: list[Tie] = [Stop((value, axis), reason if mixes else f"goes through {node.op}", mixes) for axis in gone]
    for place, axis in enumerate(kept):
        found += _same(graph, (value, axis), (node.output, place))
    return found


def _along(graph: Graph, node: Node) -> list[Tie]:
    """A function along one axis; the others stay what they are."""
    value, axis = node.inputs[0], node.attributes["axis"]
    rank = len(graph.shapes[value])
    reason = "its units are normalised together" if "softmax" in node.op else f"goes through {node.op}"
    found: list[Tie] = [Stop((value, axis % rank), reason), Stop((node.output, axis % rank), reason)]
    for other in range(rank):
        found += _same(graph, (value, other), (node.output, other)) if other != axis % rank else []
    return found


def _window(graph: Graph, node: Node) -> list[Tie]:
    value, attributes = node.inputs[0], node.attributes
    found: list[Tie] = []
    for axis in range(len(graph.shapes[value])):
        if is_windowed(attributes, axis):
            found += [Stop((each, axis), "goes through a window") for each in (value, node.output)]
        else:
            found += _same(graph, (value, axis), (node.output, axis))
    return found


def is_windowed(attributes: dict, axis: int) -> bool:
    """Whether a window does anything along this axis."""
    plain = all(attributes[name][axis] == 1 for name in ("window", "strides", "dilations", "input_dilations"))
    return not plain or any(attributes["padding"][axis])


def _dot(graph: Graph, node: Node) -> list[Tie]:
    left, right = node.inputs
    contract, batch = node.attributes["contract"], node.attributes["batch"]
    found: list[Tie] = []
    for first, second in zip(*contract, strict=True):
        found += _same(graph, (left, first), (right, second))
    for place, (first, second) in enumerate(zip(*batch, strict=True)):
        found += _same(graph, (left, first), (node.output, place)) + _same(graph, (right, second), (node.output, place))
    for side, axis, place in free_axes(graph, node):
        found += _same(graph, (node.inputs[side], axis), (node.output, place))
    return found


def free_axes(graph: Graph, node: Node) -> list[tuple[int, int, int]]:
    """The axes of a product's inputs that it does not sum over: (0 left or 1 right, axis, axis of the output)."""
    found, place = [], len(node.attributes["batch"][0])
    for side, value in enumerate(node.inputs):
        taken = (*node.attributes["contract"][side], *node.attributes["batch"][side])
        for axis in range(len(graph.shapes[value])):
            if axis not in taken:
                found.append((side, axis, place))
                place += 1
    return found


def _conv(graph: Graph, node: Node) -> list[Tie]:
    image, kernel = node.inputs
    output, groups = node.output, node.attributes["groups"]
    outside = [(value, axis) for value in node.inputs for axis in range(2, len(graph.shapes[value]))]
    outside += [(output, axis) for axis in range(2, len(graph.shapes[output]))]
    found: list[Tie] = [Stop(key, "is a place in an image") for key in outside]
    found += _same(graph, (kernel, 0), (output, 1))
    if groups == 1:
        return found + _same(graph, (image, 1), (kernel, 1))
    channels, outputs = graph.shapes[image][1], graph.shapes[kernel][0]
    if graph.shapes[kernel][1] != 1:
        reason = "its convolution has groups of several channels"
        return found + [Stop(key, reason) for key in ((image, 1), (kernel, 0), (kernel, 1), (output, 1))]
    return [*found, Link((image, 1), (kernel, 0), np.arange(outputs) // (outputs // channels))]


def _reshape(graph: Graph, node: Node) -> list[Tie]:
    source, target = node.inputs[0], node.output
    old, new = graph.shapes[source], graph.shapes[target]
    if 0 in old:
        return []
    lefts = [axis for axis, size in enumerate(old) if size != 1]
    rights = [axis for axis, size in enumerate(new) if size != 1]
    found: list[Tie] = []
    while lefts:
        left, right = [lefts.pop(0)], [rights.pop(0)]
        while (difference := _extent(old, left) - _extent(new, right)) != 0:
            side, rest = (left, lefts) if difference < 0 else (right, rights)
            side.append(rest.pop(0))
        keys = (tuple((source, axis) for axis in left), tuple((target, axis) for axis in right))
        sizes = (tuple(old[axis] for axis in left), tuple(new[axis] for axis in right))
        if len(left) == len(right) == 1:
            found += _same(graph, keys[0][0], keys[1][0])
        elif min(*sizes[0], *sizes[1]) < 0:
            found += [Stop(key, "is reshaped together with the batch") for side in keys for key in side]
        else:
            found.append(Merge(keys, sizes))
    return found


def _extent(shape: Shape, axes: list[int]) -> int:
    return math.prod(size if size > 0 else -size * _BATCH for size in (shape[axis] for axis in axes))


def _transpose(graph: Graph, node: Node) -> list[Tie]:
    pairs = enumerate(node.attributes["axes"])
    return [tie for place, axis in pairs for tie in _same(graph, (node.inputs[0], axis), (node.output, place))]


def _picked(graph: Graph, node: Node, axis: int, indices: np.ndarray) -> list[Tie]:
    return [Link((node.inputs[0], axis), (node.output, axis), indices)]


def _slice(graph: Graph, node: Node) -> list[Tie]:
    found: list[Tie] = []
    attributes = node.attributes
    for axis, size in enumerate(graph.shapes[node.inputs[0]]):
        bounds = attributes["starts"][axis], attributes["stops"][axis], attributes["steps"][axis]
        if size < 0 or bounds == (0, size, 1):
            found += _same(graph, (node.inputs[0], axis), (node.output, axis))
        elif bounds[2] != 1:
            found += [Stop((each, axis), "goes through a slice with steps") for each in (node.inputs[0], node.output)]
        else:
            found += _picked(graph, node, axis, np.arange(*bounds))
    return found


def _reverse(graph: Graph, node: Node) -> list[Tie]:
    found: list[Tie] = []
    for axis, size in enumerate(graph.shapes[node.inputs[0]]):
        if axis in node.attributes["axes"] and size > 1:
            found += _picked(graph, node, axis, np.arange(size)[::-1])
        else:
            found += _same(graph, (node.inputs[0], axis), (node.output, axis))
    return found


def _concat(graph: Graph, node: Node) -> list[Tie]:
    along, start = node.attributes["axis"], 0
    found: list[Tie] = []
    for value in node.inputs:
        for axis, size in enumerate(graph.shapes[value]):
            if axis != along:
                found += _same(graph, (value, axis), (node.output, axis))
            elif size > 0:
                indices = np.full(graph.shapes[node.output][axis], -1)
                indices[start : start + size] = np.arange(size)
                found.append(Link((value, axis), (node.output, axis), indices))
                start += size
    return found


def _pad(graph: Graph, node: Node) -> list[Tie]:
    found: list[Tie] = []
    value = node.inputs[0]
    for axis, (low, high, interior) in enumerate(node.attributes["padding"]):
        size = graph.shapes[value][axis]
        if (low, high, interior) == (0, 0, 0):
            found += _same(graph, (value, axis), (node.output, axis))
        elif size < 0 or interior or low < 0 or high < 0:
            found += [Stop((each, axis), "goes through pad") for each in (value, node.output)]
        else:
            found += _picked(graph, node, axis, np.r_[np.full(low, -1), np.arange(size), np.full(high, -1)])
    return found


def _take(graph: Graph, node: Node) -> list[Tie]:
    table, indices = node.inputs
    axis, count = node.attributes["axis"], len(graph.shapes[indices])
    found: list[Tie] = _stops(graph, (indices,), "goes through take")
    for other in range(len(graph.shapes[table])):
        if other != axis:
            found += _same(graph, (table, other), (node.output, other + (count - 1) * (other > axis)))
    known = graph.constants.get(indices)
    if (
        known is not None
        and count == 1
        and 0 <= known.min(initial=0) <= known.max(initial=0) < graph.shapes[table][axis]
    ):
        return found + _picked(graph, node, axis, np.asarray(known))
    found.append(Stop((table, axis), "goes through take"))
    return found + [Stop((node.output, axis + place), "goes through take") for place in range(count)]


def _dynamic(graph: Graph, node: Node) -> list[Tie]:
    """Axes that are taken, or put in, whole."""
    parts = (node.inputs[0], node.output) if node.op == "dynamic_slice" else (*node.inputs[:2], node.output)
    found: list[Tie] = []
    for axis in range(len(graph.shapes[parts[0]])):
        if len({graph.shapes[value][axis] for value in parts}) == 1:
            found += [tie for value in parts[:-1] for tie in _same(graph, (value, axis), (parts[-1], axis))]
        else:
            found += [Stop((value, axis), f"goes through {node.op}") for value in parts]
    return found


_RULES = {
    "dot": _dot,
    "conv": _conv,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast": _elementwise,
    "slice": _slice,
    "reverse": _reverse,
    "concat": _concat,
    "pad": _pad,
    "take": _take,
    "dynamic_slice": _dynamic,
    "dynamic_update": _dynamic,
}
