"""Whether a network normalises its activations, read from its traced program."""

from .graph import Graph, Node
from .vocabulary import ELEMENTWISE, LAYOUT, REDUCTIONS

_ON_THE_WAY = ELEMENTWISE | LAYOUT  # from a sum to its root, and from the root to what is divided by it


def normalises(graph: Graph) -> bool:
    """Whether something is divided by the root of a sum that depends on the weights, as in the norms of layers, groups
    and responses. A sum over the raw input alone is no part of the network. Inside of loops everything counts."""
    return _divides(graph, set(graph.parameters)) or any(
        _divides(body, set(body.inputs)) for body in graph.walk() if body is not graph
    )


def _divides(graph: Graph, known: set[int]) -> bool:
    reached, made = graph.dependent(known), graph.producers()
    below = [value for node in graph.nodes for value in _divided_by(graph, node)]
    roots = [node for value in below for node in _before(value, made) if _is_root(graph, node)]
    sums = [node for root in roots for node in _before(root.inputs[0], made) if node.op in REDUCTIONS]
    return any(reached.intersection(node.inputs) for node in sums)


def _divided_by(graph: Graph, node: Node) -> tuple[int, ...]:
    """What a node divides by, or what is the root that it has the inverse of."""
    if node.op == "div":
        return node.inputs[1:]
    is_inverse = node.op == "rsqrt" or (node.op == "pow" and _exponent(graph, node) < 0)
    if is_inverse:
        return node.outputs
    return node.inputs if node.op == "integer_pow" and node.attributes["exponent"] < 0 else ()


def _is_root(graph: Graph, node: Node) -> bool:
    return node.op in ("sqrt", "rsqrt") or (node.op == "pow" and abs(_exponent(graph, node)) == 0.5)


def _exponent(graph: Graph, node: Node) -> float:
    array = graph.constants.get(node.inputs[1])
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else 0.0


def _before(value: int, made: dict[int, Node]) -> list[Node]:
    """The nodes that a value comes from without a product or a convolution between, the sums on the way with it."""
    found, seen, left = [], set(), [value]
    while left:
        node = made.get(left.pop())
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        found.append(node)
        if node.op in _ON_THE_WAY:
            left += node.inputs
    return found
