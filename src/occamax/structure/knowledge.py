"""What is known of each number in a graph before it runs, for one example: what is the same whatever comes in, and what
anything looks at.

`known(graph)` goes forward: an element is known where all that enters it is known, or is multiplied by zero.
`used(graph, facts)` goes back: an element is used where an element that is used, and not known, depends on it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .graph import Graph, Node, sized
from .interpreter import apply
from .links import free_axes, is_windowed
from .vocabulary import CUMULATIVE, ELEMENTWISE, LAYOUT, REDUCTIONS, WINDOWS

_MOVES = LAYOUT | frozenset(["concat", "pad", "take"])


@dataclass(frozen=True, eq=False)
class Fact:
    """Of a value, with a batch of one: which of its elements are not known, and what the others are (0 where not)."""

    unknown: np.ndarray
    value: np.ndarray

    @property
    def nonzero(self) -> np.ndarray:
        """Where it is not known to be zero."""
        return np.asarray(self.unknown | (self.value != 0))


def known(graph: Graph) -> dict[int, Fact]:
    """What is known of every value of a graph whose parameters are bound."""
    facts = {value: _certain(array) for value, array in graph.constants.items()}
    for value in graph.inputs:
        shape = sized(graph.shapes[value], 1)
        facts[value] = Fact(np.ones(shape, bool), np.zeros(shape, graph.dtypes[value]))
    shares = share_axes(graph)
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            results = _forward(graph, node, [facts[value] for value in node.inputs])
            facts.update(zip(node.outputs, results, strict=True))
            if node.op == "dot":
                facts[node.output] = _averaged(graph, node, facts, shares)
    return facts


def _certain(array: np.ndarray) -> Fact:
    array = np.asarray(array)
    return Fact(np.zeros(array.shape, bool), array)


def _forward(graph: Graph, node: Node, facts: list[Fact]) -> list[Fact]:
    shapes = [sized(graph.shapes[value], 1) for value in node.outputs]
    values = [fact.value for fact in facts]
    whole = not any(fact.unknown.any() for fact in facts) and not _counts_batch(graph, node)
    if whole:
        results = [np.asarray(each) for each in apply(node, values, 1)]
        return [
            _certain(each.astype(graph.dtypes[v], copy=False)) for each, v in zip(results, node.outputs, strict=True)
        ]
    if node.op == "take" and facts[1].unknown.any() and not facts[0].unknown.any():
        return [_looked_up(node, facts[0].value, shapes[0])]
    unknown = None if _counts_batch(graph, node) else _unknown(node, facts)
    if unknown is None:
        return [
            Fact(np.ones(shape, bool), np.zeros(shape, graph.dtypes[value]))
            for shape, value in zip(shapes, node.outputs, strict=True)
        ]
    if node.op in ("dot", "conv") and not all(array.any() for array in values):
        return [Fact(np.broadcast_to(unknown, shapes[0]), np.zeros(shapes[0], graph.dtypes[node.output]))]
    results = [_dot(node, *values)] if node.op == "dot" else apply(node, values, 1)
    result = np.asarray(results[0]).astype(graph.dtypes[node.output], copy=False)
    unknown = np.broadcast_to(unknown, shapes[0])
    return [Fact(unknown, np.where(unknown, np.zeros((), result.dtype), result))]


def _counts_batch(graph: Graph, node: Node) -> bool:
    """Whether it takes examples together, so that what one makes is not what all make."""
    if node.op in REDUCTIONS or node.op in ("argmax", "argmin", "softmax", "log_softmax") or node.op in CUMULATIVE:
        axes = node.attributes["axes"] if "axes" in node.attributes else (node.attributes["axis"],)
        return any(graph.shapes[node.inputs[0]][axis] < 0 for axis in axes)
    if node.op == "dot":
        sides = zip(node.inputs, node.attributes["contract"], strict=True)
        return any(graph.shapes[value][axis] < 0 for value, axes in sides for axis in axes)
    return False


def _looked_up(node: Node, table: np.ndarray, shape: tuple[int, ...]) -> Fact:
    """Of a row that is not known: what is the same in all rows."""
    axis = node.attributes["axis"]
    first = table.take([0], axis)
    differs = (table != first).any(axis, keepdims=True)
    ranks = (*first.shape[:axis], *(1,) * (len(shape) - table.ndim + 1), *first.shape[axis + 1 :])
    value = np.where(differs, np.zeros((), table.dtype), first)
    return Fact(*(np.broadcast_to(each.reshape(ranks), shape) for each in (differs, value)))


def _unknown(node: Node, facts: list[Fact]) -> np.ndarray | np.bool | None:
    """Which elements of a node's one output are not known; None where it is not said of this operation."""
    masks = [fact.unknown for fact in facts]
    if node.op == "mul":
        return (masks[0] & facts[1].nonzero) | (masks[1] & facts[0].nonzero)
    if node.op == "select":
        chosen = np.where(facts[0].value.astype(bool), masks[1], masks[2])
        return masks[0] | chosen
    if node.op in ELEMENTWISE:
        return np.any(np.broadcast_arrays(*masks), axis=0)
    if node.op in ("dot", "conv"):
        ways = [(masks[0], facts[1].nonzero), (facts[0].nonzero, masks[1])]
        return np.any([_product(node, *way) for way in ways if way[0].any() and way[1].any()] or [False], axis=0)
    if node.op in _MOVES and not (node.op == "take" and masks[1].any()):
        rest = [np.zeros((), bool)] if node.op == "pad" else [fact.value for fact in facts[1:]]
        return apply(node, masks if node.op == "concat" else [masks[0], *rest], 1)[0]
    if node.op in REDUCTIONS:
        return masks[0].any(tuple(node.attributes["axes"]))
    if node.op in WINDOWS:
        counted = Node("window_sum", node.inputs, node.outputs, node.attributes)
        return apply(counted, [masks[0].astype(np.float32)], 1)[0] > 0
    if node.op in CUMULATIVE or node.op in ("softmax", "log_softmax"):
        return np.broadcast_to(masks[0].any(node.attributes["axis"], keepdims=True), masks[0].shape)
    return None


def _product(node: Node, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Where a sum of products has a term at all."""
    product = _dot if node.op == "dot" else lambda node, *arrays: apply(node, list(arrays), 1)[0]
    return product(node, left.astype(np.float32), right.astype(np.float32)) > 0.5


def _dot(node: Node, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """A product, computed once where tokens or examples are the same, as what is known of them mostly is."""
    arrays, shape = [left, right], []
    for side, array in enumerate(arrays):
        summed, batch = node.attributes["contract"][side], node.attributes["batch"][side]
        shape += [array.shape[axis] for axis in batch] if side == 0 else []
        for axis in (axis for axis in range(array.ndim) if axis not in summed and axis not in batch):
            shape.append(array.shape[axis])
            if array.shape[axis] > 1 and _repeats(arrays[side], axis):
                arrays[side] = arrays[side].take([0], axis)
    return np.broadcast_to(apply(node, arrays, 1)[0], shape)


def _repeats(array: np.ndarray, axis: int) -> bool:
    first, second = array.take([0], axis), array.take([1], axis)
    return np.array_equal(first, second) and bool((array == first).all())


def share_axes(graph: Graph) -> dict[int, int]:
    """The values whose numbers sum to one along an axis, and that axis: softmax, also where it is written out."""
    made = graph.producers()
    shares: dict[int, int] = {}
    for node in graph.nodes:
        if node.op == "softmax":
            shares[node.output] = node.attributes["axis"] % len(graph.shapes[node.output])
        elif node.op == "transpose" and node.inputs[0] in shares:
            shares[node.output] = node.attributes["axes"].index(shares[node.inputs[0]])
        elif node.op == "div" and (axis := _normalised_axis(graph, made, *node.inputs)) is not None:
            shares[node.output] = axis
    return shares


def _normalised_axis(graph: Graph, made: dict[int, Node], above: int, below: int) -> int | None:
    """The axis of x / sum(x), if it is that."""
    reshaped = made.get(below)
    total = made.get(reshaped.inputs[0]) if reshaped is not None and reshaped.op == "reshape" else None
    if total is None or total.op != "reduce_sum" or total.inputs[0] != above or len(total.attributes["axes"]) != 1:
        return None
    (axis,) = total.attributes["axes"]
    kept = tuple(1 if i == axis else size for i, size in enumerate(graph.shapes[above]))
    return axis if graph.shapes[below] == kept else None


def _averaged(graph: Graph, node: Node, facts: dict[int, Fact], shares: dict[int, int]) -> Fact:
    """What is the same all along an average is known to come out of it, whatever the shares are."""
    fact = facts[node.output]
    for side in (0, 1):
        contract = node.attributes["contract"][side]
        other = facts[node.inputs[1 - side]]
        if len(contract) != 1 or contract[0] != shares.get(node.inputs[side]):
            continue
        (along,) = node.attributes["contract"][1 - side]
        first = other.value.take([0], along)
        same = (~other.unknown & (other.value == first)).all(along, keepdims=True)
        constant = np.where(same, first, np.zeros((), first.dtype))
        size = other.value.shape[along]
        one = np.zeros(facts[node.inputs[side]].value.shape, first.dtype)
        one[tuple(slice(0, 1) if axis == contract[0] else slice(None) for axis in range(one.ndim))] = 1
        spread = [np.broadcast_to(each, other.value.shape).astype(one.dtype) for each in (constant, same)]
        values, flags = (apply(node, [one, each] if side == 0 else [each, one], 1)[0] for each in spread)
        sure = (flags > 0.5) & fact.unknown & (size > 0)
        fact = Fact(fact.unknown & ~sure, np.where(sure, values, fact.value).astype(fact.value.dtype))
    return fact


def used(graph: Graph, facts: dict[int, Fact]) -> dict[int, np.ndarray]:
    """Which elements of each value anything looks at."""
    found = {value: np.zeros(sized(shape, 1), bool) for value, shape in graph.shapes.items()}
    for value in graph.outputs:
        found[value][...] = True
    for node in reversed(graph.nodes):
        needs = [found[value] & facts[value].unknown for value in node.outputs]
        if not any(need.any() for need in needs):
            continue
        for place, value in enumerate(node.inputs):
            if facts[value].unknown.any():
                found[value] |= _backward(graph, node, needs[0], [facts[v] for v in node.inputs], place)
    return found


def _backward(graph: Graph, node: Node, need: np.ndarray, facts: list[Fact], place: int) -> np.ndarray | bool:
    """Which elements of an input the needed elements of the only output depend on; True for all."""
    shape = facts[place].unknown.shape
    if node.op in ELEMENTWISE:
        if node.op == "select" and place > 0 and not facts[0].unknown.any():
            need = need & (facts[0].value.astype(bool) == (place == 1))
        return _gathered(need, shape)
    if node.op in _MOVES and place < (len(facts) if node.op == "concat" else 1):
        return _origins(node, need, facts, place)
    if node.op == "dot":
        return _dot_back(graph, node, need, facts, place)
    if node.op == "conv" and place == 0:
        return _conv_back(node, need, facts[1])
    if node.op in REDUCTIONS:
        return np.broadcast_to(np.expand_dims(need, tuple(node.attributes["axes"])), shape)
    if node.op in WINDOWS:
        axes = tuple(axis for axis in range(need.ndim) if is_windowed(node.attributes, axis))
        return np.broadcast_to(need.any(axes, keepdims=True), shape)
    if node.op in CUMULATIVE or node.op in ("softmax", "log_softmax"):
        return np.broadcast_to(need.any(node.attributes["axis"], keepdims=True), shape)
    return True


def _gathered(need: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The inverse of broadcasting."""
    need = np.asarray(need.any(tuple(range(need.ndim - len(shape)))))
    axes = tuple(axis for axis, size in enumerate(shape) if size == 1 and need.shape[axis] != 1)
    return np.asarray(need.any(axes, keepdims=True))


def _origins(node: Node, need: np.ndarray, facts: list[Fact], place: int) -> np.ndarray:
    """Where the needed elements come from, for operations that only move."""
    shape = facts[place].unknown.shape
    numbers = [np.full(fact.unknown.shape, -1) for fact in facts]
    numbers[place] = np.arange(numbers[place].size).reshape(shape)
    if node.op == "take":
        numbers[1] = facts[1].value
        if facts[1].unknown.any():
            return np.ones(shape, bool)
    origins = np.asarray(apply(node, numbers, 1)[0])[need]
    found = np.zeros(numbers[place].size, bool)
    found[origins[origins >= 0]] = True
    return found.reshape(shape)


def _dot_back(graph: Graph, node: Node, need: np.ndarray, facts: list[Fact], place: int) -> np.ndarray:
    other = 1 - place
    frees = [[(axis, at) for own, axis, at in free_axes(graph, node) if own == side] for side in (0, 1)]
    batch = node.attributes["batch"]
    leading = tuple(range(len(batch[0])))
    attributes: dict[str, Any] = {
        "contract": (tuple(at for _, at in frees[other]), tuple(axis for axis, _ in frees[other])),
        "batch": (leading, batch[other]),
    }
    back = Node("dot", node.inputs, node.outputs, attributes)
    result = _product(back, need, facts[other].nonzero)  # batch, own free, contracted in the other's order
    order = sorted(range(len(node.attributes["contract"][other])), key=lambda i: node.attributes["contract"][other][i])
    axes = [*batch[place], *(axis for axis, _ in frees[place]), *(node.attributes["contract"][place][i] for i in order)]
    return result.transpose(np.argsort(axes))


def _conv_back(node: Node, need: np.ndarray, kernel: Fact) -> np.ndarray:
    """By channels: all places of one that any output channel in need looks at."""
    groups, spatial = node.attributes["groups"], tuple(range(2, need.ndim))
    wanted = need.any((0, *spatial)).reshape(groups, -1)
    looked = kernel.nonzero.any(spatial).reshape(groups, wanted.shape[1], -1)
    channels = (wanted[:, :, None] & looked).any(1).reshape(-1)
    return channels.reshape(1, -1, *(1 for _ in spatial))
