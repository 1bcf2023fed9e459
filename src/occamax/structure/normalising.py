"""Whether a network normalises its activations, read from its traced program."""

from .graph import Graph, Node
from .vocabulary import LAYOUT

_THROUGH = LAYOUT | frozenset(["cast", "add", "max", "clamp"])  # from a root to what is divided by it


def normalises(graph: Graph) -> bool:
    """Whether something is divided by a root that depends on the weights, as in the norms of layers, groups and
    responses. A root of the raw input alone is no part of the network."""
    return _divides(graph, set(graph.parameters)) or any(
        _divides(body, set(body.inputs)) for body in graph.walk() if body is not graph
    )


def _divides(graph: Graph, known: set[int]) -> bool:
    reached, made = graph.dependent(known), graph.producers()
    return any(_is_root(node, made) and reached.intersection(node.inputs[-1:]) for node in graph.nodes)


def _is_root(node: Node, made: dict[int, Node]) -> bool:
    """Whether its last input is a root that is divided by, or is put under one."""
    if node.op == "rsqrt":
        return True
    below = [node.inputs[-1]] if node.op == "div" else []
    while below:
        maker = made.get(below.pop())
        if maker is not None and maker.op == "sqrt":
            return True
        if maker is not None and maker.op in _THROUGH:
            below += maker.inputs
    return False
