"""What is known becomes a constant; constants added in turn become one; inputs that nothing looks at stay out."""

from dataclasses import replace

import numpy as np

from .cleaning import broadcast_shape, prune
from .graph import Graph, Node
from .interpreter import apply
from .knowledge import Fact
from .removal import fresh
from .vocabulary import ELEMENTWISE, LAYOUT


def fold_known(graph: Graph, facts: dict[int, Fact]) -> tuple[Graph, bool]:
    """Constants in the place of values that are the same whatever comes in, where that takes no more numbers; and
    whether there were any."""
    depends = graph.dependent()
    sure = {value for value in depends if value in facts and not facts[value].unknown.any()}
    last = {value for value in graph.outputs if value in sure}
    for node in graph.nodes:
        if not sure.issuperset(node.outputs):
            last |= sure.intersection(node.inputs)
    small, changed = graph, False
    for value in sorted(last):
        if value not in small.shapes:  # what read it is gone with another
            continue
        array = _collapsed(facts[value].value)
        if any(now > 1 for now, size in zip(array.shape, graph.shapes[value], strict=True) if size < 0):
            continue
        fewer = prune(_replaced(small, value, array))
        if _numbers(fewer) <= _numbers(small):
            small, changed = fewer, True
    return small, changed


def _replaced(graph: Graph, value: int, array: np.ndarray) -> Graph:
    """The graph with a constant, repeated, in the place of what a node gives."""
    number = fresh(graph.shapes)
    shape = graph.shapes[value]
    spread = Node("broadcast", (number,), (value,), {"shape": shape})
    nodes = tuple(spread if value in node.outputs else node for node in graph.nodes)
    return replace(
        graph,
        nodes=nodes,
        constants=graph.constants | {number: array},
        shapes=graph.shapes | {number: array.shape},
        dtypes=graph.dtypes | {number: str(array.dtype)},
    )


def _collapsed(array: np.ndarray) -> np.ndarray:
    """One number along each axis that repeats it."""
    for axis in range(array.ndim):
        first = array.take([0], axis) if array.shape[axis] else array
        array = first if (array == first).all() else array
    return array


def _numbers(graph: Graph) -> int:
    return sum(array.size for array in graph.constants.values())


def join_additions(graph: Graph) -> Graph:
    """x + a + b with a and b known becomes x + (a + b), also where a is added to another part of the sum; x + 0
    becomes x."""
    changed = True
    while changed:
        graph, changed = _join_once(graph)
    return graph


def _join_once(graph: Graph) -> tuple[Graph, bool]:
    arrays = _fixed_arrays(graph)
    made, readers = graph.producers(), graph.consumers()
    for node in graph.nodes:
        if node.op != "add" or (split := _constant_side(node, arrays)) is None:
            continue
        value, number = split
        if graph.shapes[value] != graph.shapes[node.output]:
            continue
        if not arrays[number].any():
            return _passed_on(graph, node, value), True
        hit = _place_for(graph, value, arrays[number], arrays, made, readers)
        if hit is not None:
            inner, array = hit
            base = next(each for each in inner.inputs if each not in arrays)
            graph = _with_constant(graph, inner, base, array)
            return _passed_on(graph, node, value), True
    return graph, False


def _fixed_arrays(graph: Graph) -> dict[int, np.ndarray]:
    """The values that depend neither on the input nor on the batch."""
    arrays = dict(graph.constants)
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            fixed = all(size >= 0 for value in node.outputs for size in graph.shapes[value])
            if fixed and len(node.outputs) == 1 and node.op != "unknown" and all(v in arrays for v in node.inputs):
                result = apply(node, [arrays[value] for value in node.inputs], 1)[0]
                arrays[node.output] = np.asarray(result).astype(graph.dtypes[node.output])
    return arrays


def _constant_side(node: Node, arrays: dict[int, np.ndarray]) -> tuple[int, int] | None:
    """Of a sum of something with a known array: the something, and the array's value."""
    first, second = node.inputs
    if (first in arrays) == (second in arrays):
        return None
    return (second, first) if first in arrays else (first, second)


def _place_for(graph, value, array, arrays, made, readers) -> tuple[Node, np.ndarray] | None:
    """A sum before this one, read by nothing else, whose known part can take in `array`."""
    node = made.get(value)
    if node is None or node.op != "add" or len(readers[value]) != 1 or value in graph.outputs:
        return None
    split = _constant_side(node, arrays)
    if split is not None:
        base, own = split
        both = broadcast_shape([arrays[own].shape, array.shape])
        fits = broadcast_shape([graph.shapes[base], both]) == graph.shapes[node.output]
        if fits and int(np.prod(both)) <= array.size + arrays[own].size:
            return node, (arrays[own] + array).astype(array.dtype)
        return _place_for(graph, base, array, arrays, made, readers)
    for each in node.inputs:
        if graph.shapes[each] == graph.shapes[node.output] and node.inputs[0] != node.inputs[1]:
            hit = _place_for(graph, each, array, arrays, made, readers)
            if hit is not None:
                return hit
    return None


def _with_constant(graph: Graph, node: Node, base: int, array: np.ndarray) -> Graph:
    number = fresh(graph.shapes)
    changed = Node("add", (base, number), node.outputs)
    return replace(
        graph,
        nodes=tuple(changed if each is node else each for each in graph.nodes),
        constants=graph.constants | {number: array},
        shapes=graph.shapes | {number: array.shape},
        dtypes=graph.dtypes | {number: str(array.dtype)},
    )


def _passed_on(graph: Graph, node: Node, value: int) -> Graph:
    """The graph without a node that gives back an input."""
    nodes = [
        replace(each, inputs=tuple(value if v == node.output else v for v in each.inputs))
        for each in graph.nodes
        if each.outputs != node.outputs
    ]
    outputs = tuple(value if v == node.output else v for v in graph.outputs)
    return replace(graph, nodes=tuple(nodes), outputs=outputs)


def take_inputs(graph: Graph, facts: dict[int, Fact]) -> tuple[Graph, list[tuple[str, int, int]]]:
    """Entries of the input that nothing looks at are not taken at all; and how many of how many stay, where."""
    plain = set(graph.inputs)
    depends = graph.dependent()
    readers = graph.consumers()
    report: list[tuple[str, int, int]] = []
    nodes: list[Node] = []
    constants, shapes, dtypes = dict(graph.constants), dict(graph.shapes), dict(graph.dtypes)

    def constant(array: np.ndarray) -> int:
        number = fresh(shapes)
        shapes[number], dtypes[number], constants[number] = array.shape, str(array.dtype), array
        return number

    for node in graph.nodes:
        moves = node.op in ELEMENTWISE | LAYOUT | {"concat", "pad"}
        if moves and all(value in plain or value not in depends for value in node.inputs):
            plain.update(node.outputs)
        found = _first_product(graph, node, plain, depends, readers) if node.op == "dot" else None
        if found is None:
            nodes.append(node)
            continue
        side, axis, weight_axis = found
        value, weight = node.inputs[side], node.inputs[1 - side]
        array = facts[weight].value
        reads = np.asarray(array.any(tuple(other for other in range(array.ndim) if other != weight_axis)))
        reads[0] |= not reads.any()
        report.append(("inputs" if len(shapes[value]) == 2 else "patch inputs", len(reads), int(reads.sum())))
        if not reads.all():
            places = np.flatnonzero(reads).astype(np.int32)
            taken = fresh(shapes)
            shapes[taken] = tuple(len(places) if i == axis else size for i, size in enumerate(shapes[value]))
            dtypes[taken] = dtypes[value]
            nodes.append(Node("take", (value, constant(places)), (taken,), {"axis": axis, "mode": "clip"}))
            fewer = constant(array.take(places, weight_axis))
            node = replace(node, inputs=(taken, fewer) if side == 0 else (fewer, taken))
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes), constants=constants, shapes=shapes, dtypes=dtypes), report


def _first_product(graph, node, plain, depends, readers) -> tuple[int, int, int] | None:
    """Of a product of the input, as it came in, with weights that nothing else reads: which side the input is, the axis
    that is summed over, and that of the weights."""
    contract = node.attributes["contract"]
    for side in (0, 1):
        value, weight = node.inputs[side], node.inputs[1 - side]
        if value in plain and weight not in depends and len(readers[weight]) == 1 and len(contract[0]) == 1:
            return side, contract[side][0], contract[1 - side][0]
    return None
