"""What each array of a network is for, read from how its traced program uses it. Blind to the library it is from."""

import math
from dataclasses import dataclass, field, replace

from .axes import NONE, Labels, aligned, moved, own, union
from .graph import Graph, Node
from .vocabulary import LAYOUT

_MOVES = LAYOUT | frozenset(["cast", "pad", "neg", "dynamic_slice"])


@dataclass(frozen=True)
class Role:
    """What one array is for.

    `kind` is `matmul`, `conv`, `embedding` (looked up by integers), `gain` (multiplies activations), `bias` (is added
    to, or put among, activations), `unused`, or `unknown`: then `operation` is what is done with it first.
    `fan_in` is how many inputs enter one output of a matmul or conv, 1 otherwise. `output_axes` are the axes of the
    array that are not summed over. `order` grows with the first use. `bias_of` is the number of the array to whose
    output a bias is added, if there is one. `stacked_axis` runs over the layers of a `lax.scan` and counts in neither
    `fan_in` nor `output_axes`. `notes` are the kinds of later uses that differ.
    """

    kind: str
    fan_in: int = 1
    output_axes: tuple[int, ...] = ()
    order: int = 0
    bias_of: int | None = None
    stacked_axis: int | None = None
    operation: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_stacked(self) -> bool:
        return self.stacked_axis is not None


@dataclass
class _Fact:
    """What is known of a value: the arrays it is, in another layout, and the arrays whose output it is."""

    depends: bool = False  # on the input
    arrays: dict[int, Labels] = field(default_factory=dict)
    results: dict[int, Labels] = field(default_factory=dict)


def roles(graph: Graph) -> tuple[Role, ...]:
    """The role of each parameter, by leaf number. The graph is of a network that predicts, and gives raw outputs."""
    numbers = sorted(graph.parameters.values())
    shapes = {leaf: graph.shapes[value] for value, leaf in graph.parameters.items()}
    reader = _Reader(shapes)
    facts = {value: _Fact(arrays={leaf: own(len(shapes[leaf]))}) for value, leaf in graph.parameters.items()}
    outputs = reader.read(graph, facts | {value: _Fact(depends=True) for value in graph.inputs})
    for fact in outputs:
        reader.use_all(fact, "bias", "output")
    return tuple(reader.found.get(leaf, Role("unused", order=reader.clock + 1)) for leaf in numbers)


class _Reader:
    """Walks through a graph in its order and writes down the first use of each array."""

    def __init__(self, shapes: dict[int, tuple[int, ...]]):
        self.shapes = shapes
        self.found: dict[int, Role] = {}
        self.stacked: dict[int, int] = {}  # array → its axis that a scan runs along
        self.clock = 0

    def read(self, graph: Graph, facts: dict[int, _Fact]) -> list[_Fact]:
        """Read a graph, or a body; what is known of its outputs."""
        facts = {value: _Fact() for value in graph.constants} | facts
        for node in graph.nodes:
            self.clock += 1
            known = [facts[value] for value in node.inputs]
            facts.update(zip(node.outputs, self.step(graph, node, known), strict=True))
            for value in node.outputs:  # zeros over the batch are activations, as in the first state of a loop
                if not facts[value].arrays and any(size < 0 for size in graph.shapes[value]):
                    facts[value].depends = True
        return [facts[value] for value in graph.outputs]

    def step(self, graph: Graph, node: Node, known: list[_Fact]) -> list[_Fact]:
        if node.op in _BODIES:
            return _BODIES[node.op](self, node, known)
        if node.op in _STEPS:
            return [_STEPS[node.op](self, graph, node, known)]
        if node.op in _MOVES:
            parts = ({leaf: moved(graph, node, marks) for leaf, marks in each.items()} for each in _both(known[0]))
            return [_Fact(known[0].depends, *parts)]
        for fact in known:
            self.use_all(fact, "unknown", node.attributes.get("primitive", node.op))
        return [_Fact(any(fact.depends for fact in known)) for _ in node.outputs]

    def use_all(self, fact: _Fact, kind: str, operation: str) -> None:
        for leaf in fact.arrays:
            self.use(leaf, Role(kind, operation=operation if kind == "unknown" else None), set())

    def use(self, leaf: int, role: Role, contracted: set[int]) -> None:
        """Write down a use. The first counts; a different one later is a note. But a matrix that is only summed at
        first is a product all the same: so is that of a recurrent cell whose first state is a constant."""
        stacked = self.stacked.get(leaf)
        late = role.kind in ("matmul", "conv") and len(self.shapes[leaf]) > 1
        if leaf in self.found and not (late and self.found[leaf].kind == "bias"):
            first = self.found[leaf]
            if role.kind != first.kind and role.kind not in first.notes:
                self.found[leaf] = replace(first, notes=(*first.notes, role.kind))
            return
        axes = tuple(axis for axis in range(len(self.shapes[leaf])) if axis not in contracted and axis != stacked)
        self.found[leaf] = replace(role, output_axes=axes, order=self.clock, stacked_axis=stacked)

    def product(self, leaf: int, kind: str, labels: Labels, summed: tuple[int, ...], sizes: tuple[int, ...]) -> None:
        """A use in a sum of products over the axes `summed` of a value with `labels` and `sizes`."""
        inside = set().union(*(labels[axis] for axis in summed))
        outside = set().union(*(mark for axis, mark in enumerate(labels) if axis not in summed))
        visible = math.prod(sizes[axis] for axis in summed)
        if not inside and visible > 1:  # repeats along the sum
            self.use(leaf, Role("gain"), set())
            return
        whole = math.prod(self.shapes[leaf][axis] for axis in inside)
        self.use(leaf, Role(kind, fan_in=min(whole, visible) if inside & outside else whole), inside)


def _both(fact: _Fact) -> tuple[dict[int, Labels], dict[int, Labels]]:
    return fact.arrays, fact.results


def _broadcast(graph: Graph, node: Node, place: int, labels: dict[int, Labels]) -> dict[int, Labels]:
    """The labels of an elementwise node's input as they lie in its output."""
    old, new = graph.shapes[node.inputs[place]], graph.shapes[node.outputs[0]]
    return {leaf: aligned(old, new, each) for leaf, each in labels.items()}


def _elementwise(reader: _Reader, graph: Graph, node: Node, known: list[_Fact]) -> _Fact:
    """Sums, products and choices: arrays with what is known stay arrays; with activations they are gains or biases."""
    if not any(fact.depends for fact in known):
        parts = [_broadcast(graph, node, place, fact.arrays) for place, fact in enumerate(known)]
        return _Fact(False, union(parts))
    passive = {place: fact.arrays for place, fact in enumerate(known) if not fact.depends and fact.arrays}
    if node.op == "div" and 0 in passive:
        reader.use_all(known[0], "unknown", "div")
        return _Fact(True)
    if node.op in ("mul", "div"):
        return _multiplied(reader, graph, node, known, passive)
    return _added(reader, graph, node, known, passive)


def _multiplied(
    reader: _Reader, graph: Graph, node: Node, known: list[_Fact], passive: dict[int, dict[int, Labels]]
) -> _Fact:
    results: dict[int, Labels] = {}
    for place, arrays in passive.items():
        reader.use_all(known[place], "gain", node.op)
        results |= _broadcast(graph, node, place, arrays)
    active = [place for place, fact in enumerate(known) if fact.depends]
    if not passive and len(active) == 1:  # times a number
        results = _broadcast(graph, node, active[0], known[active[0]].results)
    return _Fact(True, results=results)


def _added(
    reader: _Reader, graph: Graph, node: Node, known: list[_Fact], passive: dict[int, dict[int, Labels]]
) -> _Fact:
    """A bias belongs to the one array along whose outputs it varies; two biases do not belong to one sum."""
    active = [place for place, fact in enumerate(known) if fact.depends and not (node.op == "select" and place == 0)]
    parts = [_broadcast(graph, node, place, known[place].results) for place in active]
    results = union(parts) if all(parts) else {}
    for place, arrays in passive.items():
        for leaf, labels in _broadcast(graph, node, place, arrays).items():
            owner = None
            if len(results) == 1 and node.op != "select":
                ((owner, outputs),) = results.items()
                within = all(mark or not own_mark for own_mark, mark in zip(labels, outputs, strict=True))
                owner = owner if within else None
            reader.use(leaf, Role("bias", bias_of=owner), set())
    return _Fact(True, results={} if passive else results)


def _dot(reader: _Reader, graph: Graph, node: Node, known: list[_Fact]) -> _Fact:
    """A matmul, unless an array is only spread by a constant, as in a banded matrix: then it stays an array."""
    arrays: dict[int, Labels] = {}
    results: dict[int, Labels] = {}
    for side, other in ((0, known[1]), (1, known[0])):
        constant = not other.depends and not other.arrays and bool(_free(graph, node, 1 - side))
        summed = node.attributes["contract"][side]
        for leaf, labels in known[side].arrays.items():
            if constant:
                arrays[leaf] = _row(graph, node, side, labels, frozenset().union(*(labels[axis] for axis in summed)))
            else:
                reader.product(leaf, "matmul", labels, summed, graph.shapes[node.inputs[side]])
                results[leaf] = _row(graph, node, side, labels, NONE)
    return _Fact(bool(results) or any(fact.depends for fact in known), arrays, results)


def _row(graph: Graph, node: Node, side: int, labels: Labels, others: frozenset[int]) -> Labels:
    """The labels of a dot's result from one side's; `others` along the axes of the other side."""
    batch = [labels[axis] for axis in node.attributes["batch"][side]]
    mine = [labels[axis] for axis in _free(graph, node, side)]
    rest = [others for _ in _free(graph, node, 1 - side)]
    return (*batch, *mine, *rest) if side == 0 else (*batch, *rest, *mine)


def _free(graph: Graph, node: Node, side: int) -> list[int]:
    taken = (*node.attributes["contract"][side], *node.attributes["batch"][side])
    return [axis for axis in range(len(graph.shapes[node.inputs[side]])) if axis not in taken]


def _conv(reader: _Reader, graph: Graph, node: Node, known: list[_Fact]) -> _Fact:
    reader.use_all(known[0], "unknown", "conv")
    shape = graph.shapes[node.inputs[1]]
    results = {}
    for leaf, labels in known[1].arrays.items():
        reader.product(leaf, "conv", labels, tuple(range(1, len(shape))), shape)
        results[leaf] = (NONE, labels[0], *(NONE for _ in shape[2:]))
    return _Fact(True, results=results)


def _lookup(reader: _Reader, graph: Graph, node: Node, known: list[_Fact]) -> _Fact:
    """A look-up by what is known beforehand only moves an array; by anything else the array is a table."""
    if not known[1].depends and node.op == "take":
        axis, count = node.attributes["axis"], len(graph.shapes[node.inputs[1]])
        parts = (
            {leaf: (*labels[:axis], *(labels[axis],) * count, *labels[axis + 1 :]) for leaf, labels in each.items()}
            for each in _both(known[0])
        )
        return _Fact(known[0].depends, *parts)
    axes = (node.attributes["axis"],) if node.op == "take" else node.attributes["map"]
    for leaf, labels in known[0].arrays.items():
        reader.use(leaf, Role("embedding"), set().union(*(labels[axis] for axis in axes)))
    return _Fact(True)


def _concat(reader: _Reader, graph: Graph, node: Node, known: list[_Fact]) -> _Fact:
    """Arrays put together stay arrays; put among activations they are like a bias."""
    mixed = any(fact.depends for fact in known)
    if not mixed:
        return _Fact(False, union([fact.arrays for fact in known]))
    for fact in known:
        reader.use_all(fact, "bias", node.op)
    results = [fact.results for fact in known]
    return _Fact(True, results=union(results) if all(results) else {})


def _scan(reader: _Reader, node: Node, known: list[_Fact]) -> list[_Fact]:
    """An array that is scanned over has its first axis for the layers."""
    body, first = node.attributes["body"], node.attributes["constants"]
    second = first + node.attributes["carries"]
    carries = _carried(reader, body, known[first:second], first)
    slices = []
    for fact in known[second:]:
        for leaf, labels in fact.arrays.items():
            if len(labels[0]) == 1:
                (reader.stacked[leaf],) = labels[0]
        slices.append(_Fact(fact.depends, *({leaf: marks[1:] for leaf, marks in each.items()} for each in _both(fact))))
    inputs = [*known[:first], *carries, *slices]
    outputs = reader.read(body, dict(zip(body.inputs, inputs, strict=True)))
    stacks = [
        _Fact(fact.depends, *({leaf: (NONE, *marks) for leaf, marks in each.items()} for each in _both(fact)))
        for fact in outputs[len(carries) :]
    ]
    return [*carries, *stacks]


def _carried(reader: _Reader, body: Graph, known: list[_Fact], first: int) -> list[_Fact]:
    """What is known of a loop's carries: all, where the body hands them on; of others only that they change."""
    facts = []
    for place, fact in enumerate(known):
        if body.outputs[place] == body.inputs[first + place]:
            facts.append(fact)
        else:
            reader.use_all(fact, "bias", "loop")
            facts.append(_Fact(True))
    return facts


def _while(reader: _Reader, node: Node, known: list[_Fact]) -> list[_Fact]:
    condition, body = node.attributes["condition"], node.attributes["body"]
    first, count = node.attributes["condition_constants"], node.attributes["body_constants"]
    carries = _carried(reader, body, known[first + count :], count)
    reader.read(condition, dict(zip(condition.inputs, [*known[:first], *carries], strict=True)))
    reader.read(body, dict(zip(body.inputs, [*known[first : first + count], *carries], strict=True)))
    return carries


def _cond(reader: _Reader, node: Node, known: list[_Fact]) -> list[_Fact]:
    branches = [
        reader.read(body, dict(zip(body.inputs, known[1:], strict=True))) for body in node.attributes["branches"]
    ]
    merged = []
    for facts in zip(*branches, strict=True):
        results = [fact.results for fact in facts]
        depends = known[0].depends or any(fact.depends for fact in facts)
        merged.append(_Fact(depends, union([fact.arrays for fact in facts]), union(results) if all(results) else {}))
    return merged


_STEPS = {
    **dict.fromkeys(("add", "sub", "mul", "div", "select"), _elementwise),
    **dict.fromkeys(("take", "gather"), _lookup),
    "dot": _dot,
    "conv": _conv,
    "concat": _concat,
    "dynamic_update": _concat,
}
_BODIES = {"scan": _scan, "while": _while, "cond": _cond}
