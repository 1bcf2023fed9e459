"""Blocks: where a network adds what a branch makes of a value to that value, the branch can go as a whole."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .graph import Graph, Node


@dataclass(frozen=True)
class Branch:
    """One term of a sum, and the parameters (values of the graph) that nothing else needs."""

    term: int
    parameters: tuple[int, ...]


def find_branches(graph: Graph) -> list[Branch]:
    """The branches of all sums of two terms that both depend on the input. Of x + f(x) it is f; of g(x) + f(x), as
    where a stream becomes narrower, the one with more numbers of its own."""
    depends, needed = graph.dependent(), _needed(graph)
    found = []
    for node in graph.nodes:
        if node.op == "add" and len(set(node.inputs)) == 2 and depends.issuperset(node.inputs):
            terms = [Branch(term, _only_for(graph, node, term, needed)) for term in node.inputs]
            first, second = (graph.dependent({term}) for term in node.inputs)
            if node.inputs[1] in first:
                branch = terms[1]
            elif node.inputs[0] in second:
                branch = terms[0]
            else:
                branch = max(terms, key=lambda each: _numbers(graph, each))
            if branch.parameters:
                found.append(branch)
    return found


def branch_name(names: Sequence[str]) -> str:
    """What a branch with parameters of these names is called: by what they have in common, else by the first."""
    parts = [name.split(".")[:-1] for name in names]
    common = []
    for level in zip(*parts, strict=False):
        if len(set(level)) > 1:
            break
        common.append(level[0])
    return ".".join(common or parts[0] or [names[0]]) + " branch"


def _only_for(graph: Graph, node: Node, term: int, needed: set[int]) -> tuple[int, ...]:
    """The parameters that are needed only because this sum has this term."""
    return tuple(value for value in graph.parameters if value in needed - _needed(graph, node, term))


def _needed(graph: Graph, without: Node | None = None, term: int | None = None) -> set[int]:
    """Every value that the outputs are made of; one term of one sum left out, where told."""
    found = set(graph.outputs)
    for node in reversed(graph.nodes):
        if found.intersection(node.outputs):
            found.update(value for value in node.inputs if node is not without or value != term)
    return found


def _numbers(graph: Graph, branch: Branch) -> int:
    return sum(math.prod(graph.shapes[value]) for value in branch.parameters)
