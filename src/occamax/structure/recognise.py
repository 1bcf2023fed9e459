"""Functions that jax writes out in small steps, found again and kept as one node: relu, silu, gelu, (log) softmax."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from .graph import Graph, Node

_COMMUTATIVE = ("add", "mul", "max", "min")
_CLOSE = 1e-3  # of a constant to its value, in relative terms: half precision
_HALF_ROOT = math.sqrt(0.5)
_TANH = ("tanh", ("mul", math.sqrt(2 / math.pi), ("add", "x", ("mul", 0.044715, "cube"))))
_ERF = ("erf", "scaled")

# A pattern is the name of a value, a number, or an operation with the patterns of its inputs. `name=` before an
# operation names the value that it gives.
_SHIFTED = ("sub", "x", ("reshape", ("high=", "reduce_max", "x")))
PATTERNS: tuple[tuple[str, dict[str, Any], tuple], ...] = (
    ("relu", {}, ("max", "x", 0.0)),
    ("silu", {}, ("mul", "x", ("logistic", "x"))),
    *(
        ("gelu", {"tanh": True}, tree)
        for tree in (
            ("mul", "x", ("mul", 0.5, ("add", 1.0, _TANH))),
            ("mul", ("mul", 0.5, "x"), ("add", 1.0, _TANH)),
            ("mul", 0.5, ("mul", "x", ("add", 1.0, _TANH))),
        )
    ),
    *(
        ("gelu", {"tanh": False}, tree)
        for tree in (
            ("mul", ("mul", 0.5, "x"), ("erfc", ("mul", ("neg", "x"), _HALF_ROOT))),
            ("mul", ("mul", 0.5, "x"), ("add", 1.0, _ERF)),
            ("mul", "x", ("mul", 0.5, ("add", 1.0, _ERF))),
            ("mul", 0.5, ("mul", "x", ("add", 1.0, _ERF))),
            ("div", ("mul", "x", ("add", 1.0, _ERF)), 2.0),
        )
    ),
    ("softmax", {}, ("div", ("e=", "exp", _SHIFTED), ("reshape", ("sum=", "reduce_sum", "e")))),
    ("log_softmax", {}, ("sub", ("m=", *_SHIFTED), ("log", ("reshape", ("sum=", "reduce_sum", ("exp", "m")))))),
)
_INNER = {  # a value named so in a pattern must have been made in one of these ways
    "cube": (("integer_pow", "x"), ("mul", "x", ("mul", "x", "x")), ("mul", "x", ("square", "x"))),
    "scaled": (("mul", "x", _HALF_ROOT), ("div", "x", math.sqrt(2))),
}


def recognise(graph: Graph) -> Graph:
    """The graph with each written-out function as one node. What is left over is for `prune`."""
    made = graph.producers()
    nodes = []
    for node in graph.nodes:
        for name, attributes, tree in PATTERNS:
            found = _match(graph, made, node.outputs[0], tree, {}) if node.op == tree[0] else None
            if found is not None and graph.shapes[found["x"]] == graph.shapes[node.output]:
                more = _axis(graph, made, found) if "softmax" in name else {}
                if more is not None and graph.dtypes[found["x"]] == graph.dtypes[node.output]:
                    node = Node(name, (found["x"],), node.outputs, attributes | more)
                    break
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def _match(graph: Graph, made: dict[int, Node], value: int, tree: Any, found: dict) -> dict | None:
    """The values that a pattern names, where it fits what made `value`."""
    if isinstance(tree, float):
        return found if _is_number(graph, value, tree) else None
    if isinstance(tree, str):
        if tree in found:
            return found if found[tree] == value else None
        named = found | {tree: value}
        if tree not in _INNER:
            return named
        return next(
            (hit for each in _INNER[tree] if (hit := _match(graph, made, value, each, named)) is not None), None
        )
    if tree[0].endswith("="):
        found, tree = found | {tree[0][:-1]: value}, tree[1:]
    node = made.get(value)
    if node is None or node.op != tree[0] or len(node.inputs) != len(tree) - 1:
        return None
    if node.op == "integer_pow" and node.attributes["exponent"] != 3:
        return None
    orders = [node.inputs, node.inputs[::-1]] if node.op in _COMMUTATIVE else [node.inputs]
    return next((hit for order in orders if (hit := _all(graph, made, order, tree[1:], found)) is not None), None)


def _all(graph: Graph, made: dict[int, Node], values: tuple[int, ...], trees: tuple, found: dict) -> dict | None:
    hit: dict | None = found
    for value, tree in zip(values, trees, strict=True):
        hit = None if hit is None else _match(graph, made, value, tree, hit)
    return hit


def _is_number(graph: Graph, value: int, number: float) -> bool:
    array = graph.constants.get(value)
    if array is None or value in graph.parameters or array.size != 1 or array.dtype.kind not in "fV":
        return False
    return bool(np.isclose(float(array.reshape(())), number, rtol=_CLOSE, atol=0))


def _axis(graph: Graph, made: dict[int, Node], found: dict) -> dict | None:
    """The one axis of a softmax, where its maximum and its sum run along the same."""
    axes = made[found["high"]].attributes["axes"]
    rank = len(graph.shapes[found["x"]])
    if len(axes) != 1 or made[found["sum"]].attributes["axes"] != axes or rank == 0:
        return None
    kept = tuple(1 if axis == axes[0] else size for axis, size in enumerate(graph.shapes[found["x"]]))
    reshaped = [
        node for node in made.values() if node.op == "reshape" and node.inputs[0] in (found["high"], found["sum"])
    ]
    return {"axis": axes[0]} if all(node.attributes["shape"] == kept for node in reshaped) else None
