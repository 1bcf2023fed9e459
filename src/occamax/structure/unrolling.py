"""Layers that a scan runs through, written out one by one, so that each has units, a place in a sum and arrays of its
own."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from .cleaning import prune
from .graph import Graph, Node, Shape
from .removal import fresh

MOST_NODES = 5000  # of a scan that is written out


class Piece(NamedTuple):
    """A parameter as what it is of the network: its **array**, by number, from the number at `start` on; the **layers**
    of the stack that it is, outermost first; and which arrays are stacked **beside** it, itself among them."""

    array: int
    start: int = 0
    layers: tuple[int, ...] = ()
    beside: tuple[int, ...] = ()


def unrolled(graph: Graph) -> tuple[Graph, dict[int, Piece]]:
    """The graph without its scans along stacked weights, and what its parameters are now, by number: an array of the
    network, or one layer of it. A scan along a sequence of data stays."""
    pieces: dict[int, Piece] = {number: Piece(number) for number in graph.parameters.values()}
    while (place := _next(graph)) is not None:
        graph = _Unrolling(graph, pieces).without(place)
    return graph, pieces


def names_of(names: Sequence[str], pieces: dict[int, Piece]) -> tuple[str, ...]:
    """What the parameters of an unrolled graph are called: the layer stands where the names of what is stacked begin to
    differ, so `blocks.widen.weight` becomes `blocks.0.widen.weight`, `blocks.1.widen.weight` and so on."""
    found = []
    for number in range(max(pieces, default=-1) + 1):
        piece = pieces.get(number)
        whole = "" if piece is None else names[piece.array]
        if piece is not None and piece.layers:
            parts = whole.split(".")
            same = _in_common([names[other].split(".")[:-1] for other in piece.beside])
            whole = ".".join([*parts[:same], *map(str, piece.layers), *parts[same:]])
        found.append(whole)
    return tuple(found)


def _in_common(names: Sequence[Sequence[str]]) -> int:
    """How many first parts all have in common."""
    levels = enumerate(zip(*names, strict=False))
    return next((level for level, parts in levels if len(set(parts)) > 1), min(map(len, names)))


def _next(graph: Graph) -> int | None:
    """The place of the first scan that can be written out and has weights for each of its steps."""
    depends = graph.dependent()
    for place, node in enumerate(graph.nodes):
        if node.op == "scan" and node.attributes["length"] * len(node.attributes["body"].nodes) <= MOST_NODES:
            stacks = node.inputs[node.attributes["constants"] + node.attributes["carries"] :]
            if any(value not in depends and _is_weights(graph, value) for value in stacks):
                return place
    return None


def _is_weights(graph: Graph, value: int) -> bool:
    return len(graph.shapes[value]) > 1 and "float" in graph.dtypes[value]


class _Unrolling:
    """A graph on its way, with what its parameters are."""

    def __init__(self, graph: Graph, pieces: dict[int, Piece]):
        self.graph, self.pieces = graph, pieces
        self.shapes, self.dtypes = dict(graph.shapes), dict(graph.dtypes)
        self.constants, self.parameters = dict(graph.constants), dict(graph.parameters)
        self.nodes: list[Node] = []

    def without(self, place: int) -> Graph:
        """The graph with the scan at this place written out."""
        scan = self.graph.nodes[place]
        self.nodes = list(self.graph.nodes[:place])
        given = dict(zip(scan.outputs, self.steps(scan), strict=True))
        for node in self.graph.nodes[place + 1 :]:
            self.nodes.append(replace(node, inputs=tuple(given.get(value, value) for value in node.inputs)))
        read = {value for node in self.nodes for value in node.inputs}
        stacks = {value for value in scan.inputs if value in self.parameters and value not in read}
        for value in stacks:  # its layers are parameters now
            del self.pieces[self.parameters.pop(value)]
        return prune(
            replace(
                self.graph,
                nodes=tuple(self.nodes),
                outputs=tuple(given.get(value, value) for value in self.graph.outputs),
                constants=self.constants,
                parameters=self.parameters,
                shapes=self.shapes,
                dtypes=self.dtypes,
            )
        )

    def steps(self, scan: Node) -> list[int]:
        """The values that the scan puts out."""
        body, constants, carried = (scan.attributes[name] for name in ("body", "constants", "carries"))
        fixed, stacks = scan.inputs[:constants], scan.inputs[constants + carried :]
        carries, rows = list(scan.inputs[constants : constants + carried]), []
        shared = {value: self.value(body.shapes[value], body.dtypes[value]) for value in body.constants}
        self.constants |= {shared[value]: array for value, array in body.constants.items()}
        beside = tuple(self.pieces[self.parameters[stack]].array for stack in stacks if stack in self.parameters)
        length = scan.attributes["length"]
        for layer in reversed(range(length)) if scan.attributes["reverse"] else range(length):
            own = [self.layer(stack, layer, beside) for stack in stacks]
            known = shared | dict(zip(body.inputs, [*fixed, *carries, *own], strict=True))
            for node in body.nodes:
                outputs = tuple(self.value(body.shapes[value], body.dtypes[value]) for value in node.outputs)
                self.nodes.append(replace(node, inputs=tuple(known[value] for value in node.inputs), outputs=outputs))
                known |= dict(zip(node.outputs, outputs, strict=True))
            results = [known[value] for value in body.outputs]
            carries = results[:carried]
            rows.append(results[carried:])
        rows = rows[::-1] if scan.attributes["reverse"] else rows
        return [*carries, *(self.stacked(each) for each in zip(*rows, strict=True))]

    def value(self, shape: Shape, dtype: str) -> int:
        number = fresh(self.shapes)
        self.shapes[number], self.dtypes[number] = shape, dtype
        return number

    def layer(self, stack: int, layer: int, beside: tuple[int, ...]) -> int:
        """One layer of a stack: a parameter or a constant of its own, where the stack is one."""
        shape = self.shapes[stack]
        found = self.value(shape[1:], self.dtypes[stack])
        if stack in self.parameters:
            own, number = self.pieces[self.parameters[stack]], max(self.pieces) + 1
            start = own.start + layer * math.prod(shape[1:])
            self.parameters[found], self.pieces[number] = number, Piece(own.array, start, (*own.layers, layer), beside)
        if stack in self.constants:
            self.constants[found] = self.constants[stack][layer]
        if stack not in self.parameters and stack not in self.constants:
            cut = self.value((1, *shape[1:]), self.dtypes[stack])
            bounds = {"starts": (layer, *(0 for _ in shape[1:])), "steps": (1,) * len(shape)}
            stops = (layer + 1, *(shape[1:]))
            self.nodes.append(Node("slice", (stack,), (cut,), bounds | {"stops": stops}))
            self.nodes.append(Node("reshape", (cut,), (found,), {"shape": shape[1:]}))
        return found

    def stacked(self, values: Sequence[int]) -> int:
        """The values of all steps along a new first axis."""
        parts = []
        for value in values:
            part = self.value((1, *self.shapes[value]), self.dtypes[value])
            self.nodes.append(Node("reshape", (value,), (part,), {"shape": self.shapes[part]}))
            parts.append(part)
        found = self.value((len(parts), *self.shapes[values[0]]), self.dtypes[values[0]])
        self.nodes.append(Node("concat", tuple(parts), (found,), {"axis": 0}))
        return found
