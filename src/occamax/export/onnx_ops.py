"""How each operation of a graph is written in ONNX: `emit` walks a graph, `RULES` has the operations.

What depends on constants alone is computed here; an array that repeats is stored once and broadcast.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from onnx import helper

from ..errors import ExportError
from ..structure.graph import Graph, Node, Shape
from ..structure.interpreter import apply
from ..structure.vocabulary import CONTROL
from .onnx_builder import Builder, Value

Results = list[tuple[Shape, str]]
Rule = Callable[[Builder, Node, list[Value], Results], list[Value]]
SAME = {
    "neg": "Neg", "exp": "Exp", "log": "Log", "tanh": "Tanh", "logistic": "Sigmoid", "erf": "Erf", "sqrt": "Sqrt",
    "abs": "Abs", "sign": "Sign", "floor": "Floor", "ceil": "Ceil", "sin": "Sin", "cos": "Cos", "tan": "Tan",
    "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh",
    "atanh": "Atanh", "relu": "Relu",
}  # fmt: skip
PAIRS = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min", "pow": "Pow", "eq": "Equal",
    "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual",
}  # fmt: skip
REDUCE = {"sum": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin", "prod": "ReduceProd", "mean": "ReduceMean"}


def emit(builder: Builder, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
    """Writes the nodes of a graph whose inputs are these; its outputs."""
    known: dict[int, Value] = {**graph.constants, **dict(zip(graph.inputs, inputs, strict=True))}
    for node in graph.nodes:
        arrays = [known[value] for value in node.inputs]
        results = [(graph.shapes[value], graph.dtypes[value]) for value in node.outputs]
        known.update(zip(node.outputs, _written(builder, node, arrays, results), strict=True))
    return [known[value] for value in graph.outputs]


def _written(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    fixed = all(size >= 0 for shape, _ in results for size in shape)
    if fixed and node.op not in CONTROL and all(isinstance(x, np.ndarray) for x in inputs):
        with np.errstate(all="ignore"):
            found = apply(node, [x for x in inputs if isinstance(x, np.ndarray)], 0)
        return [_typed(array, dtype) for array, (_, dtype) in zip(found, results, strict=True)]
    if node.op not in RULES:
        name = node.attributes.get("primitive", node.op)
        raise ExportError(f"operation {name!r}: has no form in ONNX; export to safetensors, or write it another way")
    return RULES[node.op](builder, node, inputs, results)


def _typed(array: np.ndarray, dtype: str) -> np.ndarray:
    return np.asarray(array) if str(np.asarray(array).dtype) == dtype else np.asarray(array).astype(dtype)


def onnx_type(dtype: str) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def number(builder: Builder, like: Value, value: float) -> np.ndarray:
    return np.asarray(value, builder.dtype_of(like))


def cast(builder: Builder, x: Value, dtype: str) -> Value:
    if builder.dtype_of(x) == dtype:
        return x
    return builder.add("Cast", (x,), builder.shape_of(x), dtype, to=onnx_type(dtype))


def shrunk(array: np.ndarray, others: list[Shape], shape: Shape) -> np.ndarray:
    """The array without what it repeats along an axis, where broadcasting with the others puts it back."""
    if any(len(other) == len(shape) for other in others):
        array = array.reshape(array.shape[next((i for i, size in enumerate(array.shape) if size != 1), array.ndim) :])
    for back in range(1, array.ndim + 1):
        full = any(len(other) >= back and other[-back] == shape[-back] for other in others)
        if full and array.shape[-back] > 1:
            head = np.take(array, [0], -back)
            if np.array_equal(np.broadcast_to(head, array.shape), array, equal_nan=array.dtype.kind == "f"):
                array = head
    return array


def pair(builder: Builder, operation: str, inputs: Sequence[Value], shape: Shape, dtype: str) -> str:
    """An operation that broadcasts. One with a number alone is done before a reshape: after a product, mostly."""
    small = list(inputs)
    alone = [x for x in inputs if isinstance(x, str)]
    is_scalar = len(inputs) == 2 and all(x.size == 1 for x in inputs if isinstance(x, np.ndarray))
    if len(alone) == 1 and is_scalar and builder.is_made_by(alone[0], "Reshape") and builder.shapes[alone[0]] == shape:
        source = str(builder.made[alone[0]][1][0])
        done = [source if isinstance(x, str) else x.reshape(()) for x in inputs]
        return str(builder.reshape(builder.add(operation, done, builder.shapes[source], dtype), shape))
    for place, x in enumerate(small):
        if isinstance(x, np.ndarray):
            others = [builder.shape_of(other) for i, other in enumerate(inputs) if i != place]
            small[place] = shrunk(x, others, shape)
    return builder.add(operation, small, shape, dtype)


def _same(operation: str) -> Rule:
    return lambda builder, node, inputs, results: [builder.add(operation, inputs, *results[0])]


def _pair(operation: str) -> Rule:
    return lambda builder, node, inputs, results: [pair(builder, operation, inputs, *results[0])]


def _compare_ne(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    return [builder.like("Not", pair(builder, "Equal", inputs, *results[0]))]


def _logical(operation: str) -> Rule:
    def rule(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
        word = operation if builder.dtype_of(inputs[0]) == "bool" else f"Bitwise{operation}"
        return [pair(builder, word, inputs, *results[0]) if len(inputs) > 1 else builder.add(word, inputs, *results[0])]

    return rule


def _composed(make: Callable[[Builder, Value], Value]) -> Rule:
    return lambda builder, node, inputs, results: [make(builder, inputs[0])]


def _erfc(builder: Builder, x: Value) -> Value:
    return builder.like("Neg", builder.like("Sub", builder.like("Erf", x), number(builder, x, 1)))


def _cbrt(builder: Builder, x: Value) -> Value:
    root = builder.like("Pow", builder.like("Abs", x), number(builder, x, 1 / 3))
    return builder.like("Mul", builder.like("Sign", x), root)


def _is_finite(builder: Builder, x: Value) -> Value:
    shape = builder.shape_of(x)
    nan, infinite = (builder.add(word, (x,), shape, "bool") for word in ("IsNaN", "IsInf"))
    return builder.like("Not", builder.like("Or", nan, infinite))


def _atan2(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    """atan(y / x), half a turn further where x < 0, and 0 at the origin."""
    (shape, dtype), (y, x) = results[0], inputs
    zero = np.zeros((), dtype)
    angle = builder.like("Atan", pair(builder, "Div", inputs, shape, dtype))
    half, back = np.asarray(math.pi, dtype), np.asarray(-math.pi, dtype)
    up = builder.add("GreaterOrEqual", (y, zero), builder.shape_of(y), "bool")
    turn = builder.add("Where", (up, half, back), builder.shape_of(y), dtype)
    left = builder.add("Less", (x, zero), builder.shape_of(x), "bool")
    turned = builder.add("Add", (angle, builder.add("Where", (left, turn, zero), shape, dtype)), shape, dtype)
    still = [builder.add("Equal", (each, zero), builder.shape_of(each), "bool") for each in inputs]
    return [builder.add("Where", (builder.add("And", still, shape, "bool"), zero, turned), shape, dtype)]


def _integer_pow(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    exponent, x = node.attributes["exponent"], inputs[0]
    if exponent in (2, 3):
        squared = builder.like("Mul", x, x)
        return [squared if exponent == 2 else builder.like("Mul", squared, x)]
    return [builder.like("Pow", x, number(builder, x, exponent))]


def _round(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    x = inputs[0]
    if node.attributes["ties"] == "even":
        return [builder.like("Round", x)]
    size = builder.like("Floor", builder.like("Add", builder.like("Abs", x), number(builder, x, 0.5)))
    return [builder.like("Mul", builder.like("Sign", x), size)]


def _select(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    """onnxruntime's Where does not take truths."""
    (shape, dtype), (which, yes, no) = results[0], inputs
    if dtype != "bool":
        return [pair(builder, "Where", inputs, shape, dtype)]
    opposite = builder.like("Not", which)
    both = [pair(builder, "And", each, shape, dtype) for each in ((which, yes), (opposite, no))]
    return [builder.add("Or", both, shape, dtype)]


def _clamp(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    low, x, high = inputs
    return [pair(builder, "Min", (pair(builder, "Max", (x, low), *results[0]), high), *results[0])]


def _gelu(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    form = "tanh" if node.attributes["tanh"] else "none"
    return [builder.add("Gelu", inputs, *results[0], approximate=form)]


def _along(operation: str) -> Rule:
    return lambda builder, node, inputs, results: [
        builder.add(operation, inputs, *results[0], axis=node.attributes["axis"])
    ]


def _reduce(operation: str) -> Rule:
    def rule(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
        axes = np.array(node.attributes["axes"], np.int64)
        return [builder.add(operation, (inputs[0], axes), *results[0], keepdims=0) if axes.size else inputs[0]]

    return rule


def _reduce_logical(operation: str) -> Rule:
    def rule(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
        numbers = cast(builder, inputs[0], "int32")
        (found,) = _reduce(operation)(builder, node, [numbers], [(results[0][0], "int32")])
        return [cast(builder, found, "bool")]

    return rule


def _argument(operation: str) -> Rule:
    def rule(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
        shape, dtype = results[0]
        found = builder.add(operation, inputs, shape, "int64", axis=node.attributes["axis"], keepdims=0)
        return [cast(builder, found, dtype)]

    return rule


def _cumsum(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    axis = np.array(node.attributes["axis"], np.int64)
    return [builder.like("CumSum", inputs[0], axis, reverse=int(node.attributes["reverse"]))]


def _layer_norm(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    attributes = {"axis": node.attributes["axis"], "epsilon": node.attributes["epsilon"]}
    return [builder.add("LayerNormalization", inputs, *results[0], **attributes)]


def _softmax(operation: str) -> Rule:
    """onnxruntime's own is fast along the last axis."""

    def rule(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
        axis, rank = node.attributes["axis"], len(results[0][0])
        return [builder.add(operation, inputs, *results[0], axis=-1 if axis == rank - 1 else axis)]

    return rule


RULES: dict[str, Rule] = {
    **{name: _same(operation) for name, operation in SAME.items()},
    **{name: _pair(operation) for name, operation in PAIRS.items()},
    **{f"reduce_{name}": _reduce(operation) for name, operation in REDUCE.items()},
    "ne": _compare_ne,
    "and": _logical("And"),
    "or": _logical("Or"),
    "xor": _logical("Xor"),
    "not": _logical("Not"),
    "square": _composed(lambda builder, x: builder.like("Mul", x, x)),
    "exp2": _composed(lambda b, x: b.like("Exp", b.like("Mul", x, number(b, x, math.log(2))))),
    "expm1": _composed(lambda b, x: b.like("Sub", b.like("Exp", x), number(b, x, 1))),
    "log1p": _composed(lambda b, x: b.like("Log", b.like("Add", x, number(b, x, 1)))),
    "rsqrt": _composed(lambda b, x: b.like("Reciprocal", b.like("Sqrt", x))),
    "silu": _composed(lambda b, x: b.like("Mul", x, b.like("Sigmoid", x))),
    "erfc": _composed(_erfc),
    "cbrt": _composed(_cbrt),
    "is_finite": _composed(_is_finite),
    "atan2": _atan2,
    "rem": lambda b, node, inputs, results: [b.add("Mod", inputs, *results[0], fmod=1)],
    "integer_pow": _integer_pow,
    "round": _round,
    "cast": lambda b, node, inputs, results: [cast(b, inputs[0], results[0][1])],
    "clamp": _clamp,
    "select": _select,
    "gelu": _gelu,
    "softmax": _softmax("Softmax"),
    "log_softmax": _softmax("LogSoftmax"),
    "reduce_and": _reduce_logical("ReduceMin"),
    "reduce_or": _reduce_logical("ReduceMax"),
    "argmax": _argument("ArgMax"),
    "argmin": _argument("ArgMin"),
    "cumsum": _cumsum,
    "layer_norm": _layer_norm,
    "image_mean": _same("GlobalAveragePool"),
}
