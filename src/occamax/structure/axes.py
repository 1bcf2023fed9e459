"""Which axes of an array the axes of a value come from, through everything that only moves numbers.

`Labels` has a set for each axis of a value: the axes of the array that run along it; none where the value repeats.
"""

import math
from collections.abc import Sequence

from .graph import Graph, Node, Shape

Labels = tuple[frozenset[int], ...]
NONE: frozenset[int] = frozenset()
_BATCH = 1_000_003  # stands for the batch size where sizes are multiplied; a prime that no size has


def own(rank: int) -> Labels:
    """The labels of an array itself."""
    return tuple(frozenset({axis}) for axis in range(rank))


def moved(graph: Graph, node: Node, labels: Labels) -> Labels:
    """The labels after a node of `LAYOUT`, `pad`, `cast` and the like, whose first input has `labels`."""
    old, new = graph.shapes[node.inputs[0]], graph.shapes[node.outputs[0]]
    match node.op:
        case "reshape":
            return reshaped(old, new, labels)
        case "transpose":
            return tuple(labels[axis] for axis in node.attributes["axes"])
        case "broadcast":
            return aligned(old, new, labels)
    return labels


def aligned(old: Shape, new: Shape, labels: Labels) -> Labels:
    """The labels after numpy's broadcasting."""
    missing = len(new) - len(old)
    own_axes = (mark if was == now else NONE for mark, was, now in zip(labels, old, new[missing:], strict=True))
    return (NONE,) * missing + tuple(own_axes)


def union(parts: list[dict[int, Labels]]) -> dict[int, Labels]:
    """The labels of each array in a value that is made of parts of one rank."""
    leaves = dict.fromkeys(leaf for part in parts for leaf in part)
    return {leaf: united([part[leaf] for part in parts if leaf in part]) for leaf in leaves}


def united(many: Sequence[Labels]) -> Labels:
    """The labels of a value that holds several, of one rank."""
    return tuple(frozenset().union(*marks) for marks in zip(*many, strict=True))


def reshaped(old: Shape, new: Shape, labels: Labels) -> Labels:
    """The labels after a reshape: old and new axes go together in the smallest groups of equal size."""
    if 0 in old:
        return (frozenset().union(*labels),) * len(new)
    result = [NONE] * len(new)
    if len(old) == len(new) and old == new:
        return labels
    sources = [axis for axis, size in enumerate(old) if size != 1]
    targets = [axis for axis, size in enumerate(new) if size != 1]
    while sources:
        left, right = [sources.pop(0)], [targets.pop(0)]
        while (difference := _product(old, left) - _product(new, right)) != 0:
            side, rest = (left, sources) if difference < 0 else (right, targets)
            side.append(rest.pop(0))
        marks = frozenset().union(*(labels[axis] for axis in left))
        for axis in right:
            result[axis] = marks
    return tuple(result)


def _product(shape: Shape, axes: list[int]) -> int:
    return math.prod(size if size > 0 else -size * _BATCH for size in (shape[axis] for axis in axes))
