"""A graph while it is rewritten: one rule at a time, node by node."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..structure.cleaning import prune, simplify
from ..structure.graph import Graph, Node, Shape

Rule = Callable[["Draft", Node], list[Node] | None]


class Draft:
    """What a rule may read of the graph so far, and how it makes new values."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.nodes: list[Node] = []
        self.constants = dict(graph.constants)
        self.shapes, self.dtypes = dict(graph.shapes), dict(graph.dtypes)
        self.made: dict[int, Node] = {}
        self.uses = Counter(value for node in graph.nodes for value in node.inputs) + Counter(graph.outputs)
        self._old = self._next = max(self.shapes, default=-1) + 1

    def value(self, shape: Shape, dtype: str) -> int:
        number, self._next = self._next, self._next + 1
        self.shapes[number], self.dtypes[number] = tuple(shape), dtype
        return number

    def constant(self, array: np.ndarray) -> int:
        number = self.value(array.shape, str(array.dtype))
        self.constants[number] = array
        return number

    def made_by(self, value: int, *ops: str) -> Node | None:
        """The node that makes a value, if it is one of these operations."""
        node = self.made.get(value)
        return node if node is not None and node.op in ops else None

    def alone(self, value: int, *ops: str) -> Node | None:
        """The same, if nothing else reads the value."""
        return self.made_by(value, *ops) if self.uses[value] == 1 else None

    def number(self, value: int) -> float | None:
        """The number that a constant is, None for anything else."""
        array = self.constants.get(value)
        return float(array.reshape(())) if array is not None and array.size == 1 and array.dtype.kind == "f" else None

    def add(self, node: Node) -> None:
        self.nodes.append(node)
        self.uses.update(value for value in node.inputs if value >= self._old)  # those of old values are counted
        self.made.update(dict.fromkeys(node.outputs, node))


def rewritten(graph: Graph, rule: Rule) -> Graph:
    """The graph with some nodes replaced by others that compute the same."""
    draft = Draft(graph)
    for node in graph.nodes:
        found = rule(draft, node)
        for each in [node] if found is None else found:
            draft.add(each)
    changed = replace(
        graph, nodes=tuple(draft.nodes), constants=draft.constants, shapes=draft.shapes, dtypes=draft.dtypes
    )
    return prune(simplify(changed))
