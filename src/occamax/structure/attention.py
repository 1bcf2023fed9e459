"""What attention needs before its units can go one by one: parts of a joint projection on their own, keys without what
the softmax does not see, and heads whose dead depths stand in the same places."""

from dataclasses import replace

import numpy as np

from .cleaning import prune
from .coupling import Group
from .graph import Graph, Node
from .knowledge import Fact, share_axes
from .links import Key, free_axes
from .removal import fresh


def cut_before_split(graph: Graph) -> Graph:
    """Slices of the outermost axis that a reshape makes, as of (3, heads, depth), taken before the reshape: then what
    is cut apart is not one array any more."""
    made = graph.producers()
    shapes, dtypes = dict(graph.shapes), dict(graph.dtypes)
    nodes: list[Node] = []
    for node in graph.nodes:
        before = made.get(node.inputs[0]) if node.op == "slice" else None
        axes = _split_axis(graph, node, before) if before is not None and before.op == "reshape" else None
        if before is None or axes is None:
            nodes.append(node)
            continue
        axis, place = axes  # of what is reshaped, and of what is cut
        value = before.inputs[0]
        shape = graph.shapes[value]
        block = shape[axis] // graph.shapes[before.output][place]
        bounds = [node.attributes[name][place] * block for name in ("starts", "stops")]
        part = fresh(shapes)
        shapes[part] = tuple(bounds[1] - bounds[0] if i == axis else size for i, size in enumerate(shape))
        dtypes[part] = dtypes[value]
        attributes = {
            "starts": tuple(bounds[0] if i == axis else 0 for i in range(len(shape))),
            "stops": tuple(bounds[1] if i == axis else size for i, size in enumerate(shape)),
            "steps": (1,) * len(shape),
        }
        nodes.append(Node("slice", (value,), (part,), attributes))
        nodes.append(Node("reshape", (part,), node.outputs, {"shape": graph.shapes[node.output]}))
    return prune(replace(graph, nodes=tuple(nodes), shapes=shapes, dtypes=dtypes))


def _split_axis(graph: Graph, node: Node, before: Node) -> tuple[int, int] | None:
    """Where a slice cuts one axis, and that is the outermost of those that a reshape splits one axis into."""
    old, middle, new = (graph.shapes[value] for value in (before.inputs[0], node.inputs[0], node.output))
    cut = [axis for axis, (size, now) in enumerate(zip(middle, new, strict=True)) if size != now]
    if len(cut) != 1 or node.attributes["steps"][cut[0]] != 1 or middle[cut[0]] < 0:
        return None
    axis = cut[0]
    if old[:axis] != middle[:axis] or len(old) <= axis:
        return None
    rest = len(old) - axis - 1  # axes after the one that is split, which must be the same
    inner = middle[axis : len(middle) - rest]
    if old[axis + 1 :] != middle[len(middle) - rest :] or int(np.prod(inner)) != old[axis] or len(inner) < 2:
        return None
    return axis, axis


def cut_before_sum(graph: Graph) -> Graph:
    """Slices of a sum with a known array, where it is read by nothing but slices, taken before the sum."""
    made, readers, depends = graph.producers(), graph.consumers(), graph.dependent()
    shapes, dtypes = dict(graph.shapes), dict(graph.dtypes)
    nodes: list[Node] = []
    for node in graph.nodes:
        before = made.get(node.inputs[0]) if node.op == "slice" else None
        if before is None or before.op != "add" or not _only_cut(graph, before, readers, depends):
            nodes.append(node)
            continue
        parts = []
        for value in before.inputs:
            part = fresh(shapes)
            attributes = _cut_of(node, graph.shapes[value])
            shapes[part] = tuple(map(int.__sub__, attributes["stops"], attributes["starts"]))
            whole = zip(shapes[part], graph.shapes[value], strict=True)
            shapes[part] = tuple(size if size < 0 else now for now, size in whole)
            dtypes[part] = dtypes[value]
            nodes.append(Node("slice", (value,), (part,), attributes))
            parts.append(part)
        nodes.append(Node("add", tuple(parts), node.outputs))
    return prune(replace(graph, nodes=tuple(nodes), shapes=shapes, dtypes=dtypes))


def _only_cut(graph: Graph, node: Node, readers: dict[int, list[Node]], depends: set[int]) -> bool:
    plain = all(each.op == "slice" and set(each.attributes["steps"]) == {1} for each in readers[node.output])
    ranks = {len(graph.shapes[value]) for value in (*node.inputs, node.output)}
    return (
        plain and len(ranks) == 1 and len(depends.intersection(node.inputs)) == 1 and node.output not in graph.outputs
    )


def _cut_of(node: Node, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """The same cut of an array that repeats along axes of one."""
    bounds = zip(shape, node.attributes["starts"], node.attributes["stops"], strict=True)
    pairs = [(0, 1) if size == 1 else (start, stop) for size, start, stop in bounds]
    return {
        "starts": tuple(start for start, _ in pairs),
        "stops": tuple(stop for _, stop in pairs),
        "steps": (1,) * len(shape),
    }


def drop_key_biases(graph: Graph) -> Graph:
    """A softmax does not see what is added to all keys: it changes all of a row. Such sums are left out."""
    made, readers, depends = graph.producers(), graph.consumers(), graph.dependent()
    dropped: dict[int, int] = {}
    for value, axis in share_axes(graph).items():
        found = _scores(graph, made[value], axis, made, readers)
        if found is None:
            continue
        node, axis = found
        for side, own, place in free_axes(graph, node):
            if place == axis and node.inputs[side] in depends:
                sum_ = _bias_along(graph, (node.inputs[side], own), made, readers, depends)
                dropped |= {} if sum_ is None else {sum_[0].output: sum_[1]}
    kept = [node for node in graph.nodes if not set(node.outputs) & set(dropped)]
    renamed = [replace(node, inputs=tuple(dropped.get(value, value) for value in node.inputs)) for node in kept]
    return prune(replace(graph, nodes=tuple(renamed)))


def _scores(graph: Graph, node: Node, axis: int, made, readers) -> tuple[Node, int] | None:
    """The product that a softmax along an axis is taken of, scaling and moving apart, and which axis that is there;
    None where anything else reads what is between."""
    shift = None
    if node.op == "softmax":
        value, last = node.inputs[0], node
    else:
        power = made.get(node.inputs[0])
        last = made.get(power.inputs[0]) if node.op == "div" and power is not None and power.op == "exp" else None
        if last is None or last.op != "sub" or graph.shapes[last.inputs[1]][axis:][:1] != (1,):
            return None
        value, shift = last.inputs
    while (maker := made.get(value)) is not None and value not in graph.outputs:
        others = [each for each in readers[value] if each is not last]
        if not all(each.op == "reduce_max" and _leads_to(each, shift, readers) for each in others):
            return None
        if maker.op == "dot":
            return maker, axis
        if maker.op == "transpose":
            axis = maker.attributes["axes"][axis]
        elif maker.op != "cast" and not (maker.op in ("mul", "div") and _is_number(graph, maker.inputs[1])):
            return None
        value, last = maker.inputs[0], maker
    return None


def _is_number(graph: Graph, value: int) -> bool:
    return value in graph.constants and graph.constants[value].size == 1


def _leads_to(node: Node, target: int | None, readers: dict[int, list[Node]]) -> bool:
    """Whether a node's output is moved to `target` and read by nothing else on the way."""
    while node.output != target:
        if len(readers[node.output]) != 1 or readers[node.output][0].op not in ("transpose", "reshape"):
            return False
        node = readers[node.output][0]
    return len(readers[node.output]) == 1


def _bias_along(graph, key: Key, made, readers, depends) -> tuple[Node, int] | None:
    """The sum with a known array, the same all along an axis, that a value is moved from; and what it is added to."""
    value, axis = key
    while (node := made.get(value)) is not None and len(readers[value]) == 1 and value not in graph.outputs:
        shape = graph.shapes[value]
        if node.op == "add":
            known = [place for place, each in enumerate(node.inputs) if each not in depends]
            if len(known) != 1 or graph.shapes[node.inputs[1 - known[0]]] != shape:
                return None
            bias = graph.shapes[node.inputs[known[0]]]
            along = axis - (len(shape) - len(bias))
            return (node, node.inputs[1 - known[0]]) if along < 0 or bias[along] == 1 else None
        if node.op == "transpose":
            axis = node.attributes["axes"][axis]
        elif node.op == "reshape":
            moved = _same_axis(graph.shapes[node.inputs[0]], shape, axis)
            if moved is None:
                return None
            axis = moved
        elif node.op != "cast":
            return None
        value = node.inputs[0]
    return None


def _same_axis(old: tuple[int, ...], new: tuple[int, ...], axis: int) -> int | None:
    """The axis before a reshape that runs as `axis` does after it."""
    before = [abs(size) for size in new[:axis] if size != 1]
    for place, size in enumerate(old):
        same = [abs(each) for each in old[:place] if each != 1]
        if size == new[axis] and np.prod(same, initial=1) == np.prod(before, initial=1):
            return place
    return None


def align_heads(
    graph: Graph, groups: list[Group], facts: dict[int, Fact], uses: dict[int, np.ndarray]
) -> tuple[Graph, bool]:
    """Depths in another order in each head, the living first, where more can go together then; and whether there were
    any such."""
    constants, changed = graph.constants, False
    for group in (group for group in groups if group.part > 1):
        others = (each for each in groups if each.part == 1 and any(key[0] == group.seed[0] for key in each.labels))
        heads = next(others, None)
        if heads is None or group.blocked or heads.blocked:
            continue
        alive = _alive(graph, heads, group, facts, uses)
        if alive is None or alive.sum(1).max() >= alive.any(0).sum():
            continue
        orders = np.argsort(~alive, axis=1, kind="stable")
        constants = {value: _ordered(array, value, heads, group, orders) for value, array in constants.items()}
        changed = True
    return replace(graph, constants=constants), changed


def _alive(graph: Graph, heads: Group, depths: Group, facts, uses) -> np.ndarray | None:
    """Heads × depths, True where one is needed. None where the order of depths is not each head's own affair."""
    depends = graph.dependent()
    alive = np.zeros((heads.count, depths.count), bool)
    for key, labels in depths.labels.items():
        value, axis = key
        others = [each for each in heads.labels if each[0] == value]
        if len(others) != 1 or sum(each[0] == value for each in depths.labels) != 1:
            return None
        joint = others[0] == key
        own = heads.labels[others[0]]
        if not _is_regular(labels, own if joint else None, heads.count, depths.count) or (
            not joint and (own < 0).any()
        ):
            return None
        if value not in depends:
            continue
        need = uses[value] & facts[value].unknown
        axes = tuple(i for i in range(need.ndim) if i not in (axis, others[0][1]))
        if joint:
            here = need.any(axes) & (labels >= 0)
            alive[own[here], labels[here]] = True
        else:
            table = need.any(axes)
            table = table if others[0][1] < axis else table.T
            np.logical_or.at(alive, (own[:, None], labels[None, :]), table)
    return alive


def _is_regular(labels: np.ndarray, heads: np.ndarray | None, head_count: int, depth_count: int) -> bool:
    """Whether every head has every depth, in order, as often as any other."""
    if heads is None:
        return np.array_equal(labels, np.arange(depth_count))
    here = labels >= 0
    once = np.tile(np.arange(head_count * depth_count), here.sum() // (head_count * depth_count))
    return np.array_equal(heads[here] * depth_count + labels[here], once)


def _ordered(array: np.ndarray, value: int, heads: Group, depths: Group, orders: np.ndarray) -> np.ndarray:
    """A constant with the depths of each head in their new order."""
    for key in (key for key in depths.labels if key[0] == value):
        axis, labels = key[1], depths.labels[key]
        if key in heads.labels:
            here = np.flatnonzero(labels >= 0)
            blocks = here.reshape(-1, *orders.shape)
            index = np.arange(len(labels))
            index[here] = np.take_along_axis(blocks, orders[None], 2).ravel()
            array = array.take(index, axis)
        else:
            (other,) = (each for each in heads.labels if each[0] == value)
            moved = np.moveaxis(array, (other[1], axis), (0, 1)).copy()
            rows = orders[heads.labels[other]]
            moved = np.take_along_axis(moved, rows.reshape(*rows.shape, *(1,) * (moved.ndim - 2)), 1)
            array = np.moveaxis(moved, (0, 1), (other[1], axis))
    return array
