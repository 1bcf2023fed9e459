"""What each operation is in C, for one example. Every value is an array of floats; `c_file.py` says where they lie."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..errors import ExportError
from ..structure.graph import Node, Shape

if TYPE_CHECKING:
    from .c_file import Writer

Rule = Callable[["Writer", Node], None]

UNARY = {
    "neg": "-{0}", "exp": "expf({0})", "exp2": "exp2f({0})", "expm1": "expm1f({0})", "log": "logf({0})",
    "log1p": "log1pf({0})", "tanh": "tanhf({0})", "logistic": "1.0f / (1.0f + expf(-{0}))", "erf": "erff({0})",
    "sqrt": "sqrtf({0})", "rsqrt": "1.0f / sqrtf({0})", "cbrt": "cbrtf({0})", "abs": "fabsf({0})",
    "square": "{0} * {0}", "floor": "floorf({0})", "ceil": "ceilf({0})", "sin": "sinf({0})", "cos": "cosf({0})",
    "relu": "{0} > 0.0f ? {0} : 0.0f", "silu": "{0} / (1.0f + expf(-{0}))", "cast": "(float){0}",
}  # fmt: skip
BINARY = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "max": "fmaxf({0}, {1})",
    "min": "fminf({0}, {1})", "pow": "powf({0}, {1})",
}  # fmt: skip
GELU = {
    True: "0.5f * {0} * (1.0f + tanhf(0.7978845608f * ({0} + 0.044715f * {0} * {0} * {0})))",
    False: "0.5f * {0} * (1.0f + erff({0} * 0.7071067812f))",
}


def strides_of(shape: Shape) -> list[int]:
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def place(names: Sequence[str], strides: Sequence[int]) -> str:
    """An index: the sum of names times strides."""
    parts = [
        name if stride == 1 else f"{name} * {stride}" for name, stride in zip(names, strides, strict=True) if stride
    ]
    return " + ".join(part for part in parts if part != "0") or "0"


def _aligned(shape: Shape, rank: int, result: Shape) -> list[int]:
    """Strides of an array that broadcasts with a result."""
    wide = (1,) * (rank - len(shape)) + shape
    pairs = zip(wide, result, strict=True)
    is_spread = [size == 1 and whole != 1 for size, whole in pairs]
    return [0 if spread else own for spread, own in zip(is_spread, strides_of(wide), strict=True)]


def _elementwise(form: str, count: int) -> Rule:
    def rule(c: "Writer", node: Node) -> None:
        shape = c.shape(node.output)
        with c.loops(shape) as names:
            values = [
                c.at(value, place(names, _aligned(c.shape(value), len(shape), shape))) for value in node.inputs[:count]
            ]
            c.set(node.output, place(names, strides_of(shape)), form.format(*values))

    return rule


def _gelu(c: "Writer", node: Node) -> None:
    _elementwise(GELU[node.attributes["tanh"]], 1)(c, node)


def _integer_pow(c: "Writer", node: Node) -> None:
    _elementwise(f"powf({{0}}, {node.attributes['exponent']}.0f)", 1)(c, node)


def _copy(c: "Writer", node: Node) -> None:
    """The output of a network that ends in another shape."""
    with c.loops([math.prod(c.shape(node.output))]) as (name,):
        c.set(node.output, name, c.at(node.inputs[0], name))


def _transpose(c: "Writer", node: Node) -> None:
    source, shape = strides_of(c.shape(node.inputs[0])), c.shape(node.output)
    with c.loops(shape) as names:
        moved = [source[axis] for axis in node.attributes["axes"]]
        c.set(node.output, place(names, strides_of(shape)), c.at(node.inputs[0], place(names, moved)))


def _slice(c: "Writer", node: Node) -> None:
    source, shape, own = strides_of(c.shape(node.inputs[0])), c.shape(node.output), node.attributes
    first = sum(start * stride for start, stride in zip(own["starts"], source, strict=True))
    with c.loops(shape) as names:
        moved = [step * stride for step, stride in zip(own["steps"], source, strict=True)]
        c.set(node.output, place(names, strides_of(shape)), c.at(node.inputs[0], f"{first} + {place(names, moved)}"))


def _pad(c: "Writer", node: Node) -> None:
    before, shape, padding = c.shape(node.inputs[0]), c.shape(node.output), node.attributes["padding"]
    if any(low < 0 or high < 0 or inner for low, high, inner in padding):
        raise ExportError("pad: that cuts off, or spreads out, has no form in C; export to onnx or safetensors")
    with c.loops(shape) as names:
        c.set(node.output, place(names, strides_of(shape)), c.at(node.inputs[1], "0"))
    strides = strides_of(shape)
    first = sum(low * stride for (low, _, _), stride in zip(padding, strides, strict=True))
    with c.loops(before) as names:
        c.set(node.output, f"{first} + {place(names, strides)}", c.at(node.inputs[0], place(names, strides_of(before))))


def _concat(c: "Writer", node: Node) -> None:
    strides, start, axis = strides_of(c.shape(node.output)), 0, node.attributes["axis"]
    for value in node.inputs:
        shape = c.shape(value)
        with c.loops(shape) as names:
            where = f"{start * strides[axis]} + {place(names, strides)}"
            c.set(node.output, where, c.at(value, place(names, strides_of(shape))))
        start += shape[axis]


def _take(c: "Writer", node: Node) -> None:
    table, indices = node.inputs
    if indices not in c.graph.constants or c.graph.constants[indices].ndim != 1:
        raise ExportError("take: at computed places has no form in C; export to onnx or safetensors")
    axis, before, shape = node.attributes["axis"], c.shape(table), c.shape(node.output)
    numbers = c.whole_numbers(np.clip(c.graph.constants[indices], 0, before[axis] - 1))
    with c.loops(shape) as names:
        moved = [f"{numbers}[{name}]" if i == axis else name for i, name in enumerate(names)]
        c.set(node.output, place(names, strides_of(shape)), c.at(table, place(moved, strides_of(before))))


def _reduce(start: str, form: str, mean: bool = False) -> Rule:
    def rule(c: "Writer", node: Node) -> None:
        before, axes = c.shape(node.inputs[0]), node.attributes["axes"]
        kept = [axis for axis in range(len(before)) if axis not in axes]
        strides = strides_of(before)
        with c.loops([before[axis] for axis in kept]) as outer:
            c.line(f"float s = {start};")
            with c.loops([before[axis] for axis in axes], "r") as inner:
                where = place([*outer, *inner], [strides[axis] for axis in (*kept, *axes)])
                c.line(f"s = {form.format('s', c.at(node.inputs[0], where))};")
            count = math.prod(before[axis] for axis in axes)
            c.set(
                node.output, place(outer, strides_of(c.shape(node.output))), f"s / {count}.0f" if mean else "s"
            )  # fmt: skip

    return rule


def _window(start: str, form: str, mean: bool = False) -> Rule:
    def rule(c: "Writer", node: Node) -> None:
        own, before, shape = node.attributes, c.shape(node.inputs[0]), c.shape(node.output)
        if any(wide != 1 for wide in own["input_dilations"]):
            raise ExportError(f"{node.op}: of a spread-out image has no form in C; export to safetensors")
        with c.loops(shape) as outer:
            c.line(f"float s = {start};")
            with c.loops(own["window"], "r") as inner:
                places = c.inside(outer, inner, own["strides"], own["dilations"], own["padding"], before)
                c.line(f"s = {form.format('s', c.at(node.inputs[0], place(places, strides_of(before))))};")
            size = math.prod(own["window"])
            c.set(node.output, place(outer, strides_of(shape)), f"s / {size}.0f" if mean else "s")

    return rule


def _softmax(is_log: bool) -> Rule:
    def rule(c: "Writer", node: Node) -> None:
        shape, axis = c.shape(node.inputs[0]), node.attributes["axis"] % len(c.shape(node.inputs[0]))
        strides = strides_of(shape)
        with c.loops([1 if i == axis else size for i, size in enumerate(shape)]) as names:
            x = c.at(node.inputs[0], f"{place(names, strides)} + j * {strides[axis]}")
            where = f"{place(names, strides)} + j * {strides[axis]}"
            each = f"for (j = 0; j < {shape[axis]}; ++j)"
            c.line("int j; float s = 0.0f, m = -INFINITY;")
            c.line(f"{each} m = fmaxf(m, {x});")
            c.line(f"{each} s += expf({x} - m);")
            c.line(
                f"{each} {c.at(node.output, where)} = " + (f"{x} - m - logf(s);" if is_log else f"expf({x} - m) / s;")
            )

    return rule


def _layer_norm(c: "Writer", node: Node) -> None:
    x, gain, bias = node.inputs
    shape, axis = c.shape(x), node.attributes["axis"] % len(c.shape(x))
    rows, size = math.prod(shape[:axis]), math.prod(shape[axis:])
    with c.loops([rows]) as (row,):
        each, where = f"for (j = 0; j < {size}; ++j)", f"{row} * {size} + j"
        c.line("int j; float m = 0.0f, s = 0.0f;")
        c.line(f"{each} m += {c.at(x, where)} / {size}.0f;")
        c.line(f"{each} s += ({c.at(x, where)} - m) * ({c.at(x, where)} - m) / {size}.0f;")
        c.line(f"s = 1.0f / sqrtf(s + {node.attributes['epsilon']!r}f);")
        c.line(
            f"{each} {c.at(node.output, where)} = ({c.at(x, where)} - m) * s * {c.at(gain, 'j')} + {c.at(bias, 'j')};"
        )


def _linear(c: "Writer", node: Node) -> None:
    """One pass over the weights that are there."""
    x, weight, bias = node.inputs
    left, right = node.attributes["contract"]
    shape, array = c.shape(x), c.graph.constants[weight]
    if left != tuple(range(len(shape) - len(left), len(shape))):
        raise ExportError("linear: over axes that are not the last has no form in C; export to onnx or safetensors")
    free = [axis for axis in range(array.ndim) if axis not in right]
    inner = math.prod(shape[axis] for axis in left)
    matrix = array.transpose([*free, *right]).reshape(-1, inner)
    outer, rows = len(matrix), math.prod(shape[: len(shape) - len(left)])
    with c.loops([rows, outer]) as (row, out):
        c.set(node.output, f"{row} * {outer} + {out}", c.at(bias, out))
    with c.weights(matrix), c.loops([rows], "r") as (row,):
        product = f"w * {c.at(x, f'{row} * {inner} + p % {inner}')}"
        c.line(f"{c.at(node.output, f'{row} * {outer} + p / {inner}')} += {product};")


def _conv(c: "Writer", node: Node) -> None:
    (x, weight), bias = node.inputs[:2], node.inputs[2:]
    own, array = node.attributes, c.graph.constants.get(weight)
    if array is None or array.ndim != 4 or any(wide != 1 for wide in own["input_dilations"]):
        raise ExportError("conv: only of images, with constant weights, has a form in C; export to onnx or safetensors")
    shape, before = c.shape(node.output), c.shape(x)
    with c.loops(shape) as names:
        c.set(node.output, place(names, strides_of(shape)), c.at(bias[0], names[1]) if bias else "0.0f")
    outputs, inputs, high, wide = array.shape
    with c.weights(array.reshape(outputs, -1)):
        c.line(f"const int o = (int)(p / {inputs * high * wide}), rest = (int)(p % {inputs * high * wide});")
        group = f"o / {outputs // own['groups']} * {inputs} + " if own["groups"] > 1 else ""
        c.line(f"const int from = {group}rest / {high * wide}, h = rest / {wide} % {high}, v = rest % {wide};")
        with c.loops(shape[2:], "r") as (row, column):
            steps = own["strides"], own["dilations"], own["padding"], before[2:]
            places = c.inside((row, column), ("h", "v"), *steps)
            source = c.at(x, place(["from", *places], strides_of(before)[1:]))
            c.line(f"{c.at(node.output, place(['o', row, column], strides_of(shape)[1:]))} += w * {source};")


def _dot(c: "Writer", node: Node) -> None:
    (left, right), (own, others) = node.inputs, node.attributes["contract"]
    shared, theirs = node.attributes["batch"]
    shapes = c.shape(left), c.shape(right)
    free = [axis for axis in range(len(shapes[0])) if axis not in (*own, *shared)]
    rest = [axis for axis in range(len(shapes[1])) if axis not in (*others, *theirs)]
    sizes = [shapes[0][axis] for axis in (*shared, *free)] + [shapes[1][axis] for axis in rest]
    strides = strides_of(shapes[0]), strides_of(shapes[1])
    with c.loops(sizes) as names:
        first, second = len(shared), len(shared) + len(free)
        batch, mine, yours = names[:first], names[first:second], names[second:]
        c.line("float s = 0.0f;")
        with c.loops([shapes[0][axis] for axis in own], "r") as inner:
            a = place([*batch, *mine, *inner], [strides[0][axis] for axis in (*shared, *free, *own)])
            b = place([*batch, *yours, *inner], [strides[1][axis] for axis in (*theirs, *rest, *others)])
            c.line(f"s += {c.at(left, a)} * {c.at(right, b)};")
        c.set(node.output, place(names, strides_of(tuple(sizes))), "s")


RULES: dict[str, Rule] = {
    **{name: _elementwise(form, 1) for name, form in UNARY.items()},
    **{name: _elementwise(form, 2) for name, form in BINARY.items()},
    "gelu": _gelu,
    "integer_pow": _integer_pow,
    "broadcast": _elementwise("{0}", 1),
    "reshape": _copy,
    "transpose": _transpose,
    "slice": _slice,
    "pad": _pad,
    "concat": _concat,
    "take": _take,
    "reduce_sum": _reduce("0.0f", "{0} + {1}"),
    "reduce_mean": _reduce("0.0f", "{0} + {1}", mean=True),
    "reduce_max": _reduce("-INFINITY", "fmaxf({0}, {1})"),
    "reduce_min": _reduce("INFINITY", "fminf({0}, {1})"),
    "window_sum": _window("0.0f", "{0} + {1}"),
    "window_mean": _window("0.0f", "{0} + {1}", mean=True),
    "window_max": _window("-INFINITY", "fmaxf({0}, {1})"),
    "window_min": _window("INFINITY", "fminf({0}, {1})"),
    "softmax": _softmax(is_log=False),
    "log_softmax": _softmax(is_log=True),
    "layer_norm": _layer_norm,
    "linear": _linear,
    "conv": _conv,
    "dot": _dot,
}
