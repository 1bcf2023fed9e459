"""How each primitive of jax becomes nodes of a graph: `RULES[name](builder, equation, inputs)` gives the values.

A rule gives None for a use of the primitive that the vocabulary does not have.
"""

from collections.abc import Callable

import numpy as np

from .builder import Builder
from .indexing import dynamic_slice, dynamic_update, gather
from .sizes import Equation
from .vocabulary import BINARY, CUMULATIVE, REDUCTIONS, UNARY, WINDOWS

Result = int | list[int] | None
Rule = Callable[[Builder, Equation, list[int]], Result]


def _elementwise(op: str) -> Rule:
    return lambda builder, equation, inputs: builder.emit(op, inputs, equation.shape, equation.dtype)


def _alias(builder: Builder, equation: Equation, inputs: list[int]) -> Result:
    return inputs


def _axes(op: str) -> Rule:
    return lambda builder, equation, inputs: builder.emit(
        op, inputs, equation.shape, equation.dtype, axes=equation["axes" if op != "reverse" else "dimensions"]
    )


def _cumulative(op: str) -> Rule:
    return lambda builder, equation, inputs: builder.emit(
        op, inputs, equation.shape, equation.dtype, axis=equation["axis"], reverse=equation["reverse"]
    )


def _argument(op: str) -> Rule:
    return lambda builder, equation, inputs: builder.emit(
        op, inputs, equation.shape, equation.dtype, axis=equation["axes"][0]
    )


def _window(op: str) -> Rule:
    return lambda builder, equation, inputs: builder.emit(
        op,
        inputs,
        equation.shape,
        equation.dtype,
        window=equation["window_dimensions"],
        strides=equation["window_strides"],
        padding=equation["padding"],
        dilations=equation["window_dilation"],
        input_dilations=equation["base_dilation"],
    )


def _integer_pow(builder: Builder, equation: Equation, inputs: list[int]) -> Result:
    return builder.emit("integer_pow", inputs, equation.shape, equation.dtype, exponent=equation["y"])


def _round(builder: Builder, equation: Equation, inputs: list[int]) -> Result:
    ties = "even" if int(equation.first.params["rounding_method"]) == 1 else "away"
    return builder.emit("round", inputs, equation.shape, equation.dtype, ties=ties)


def _cast(builder: Builder, equation: Equation, inputs: list[int]) -> Result:
    return builder.emit("cast", inputs, equation.shape, equation.dtype, dtype=equation.dtype)


def _select(builder: Builder, equation: Equation, inputs: list[int]) -> Result:
    if len(inputs) != 3:
        return None
    which, no, yes = inputs
    if builder.dtypes[which] != "bool":
        which = builder.emit("cast", (which,), builder.shapes[which], "bool", dtype="bool")
    return builder.emit("select", (which, yes, no), equation.shape, equation.dtype)


def _reshape(builder: Builder, equation: Equation, inputs: list[int]) -> Result:
    if equation.name == "reshape" and equation["dimensions"] is not None:
        return None
    return builder.reshape(inputs[0], equation.shape)


def _transpose(builder: Builder, equation: Equation, inputs: list[int]) -> Result:
    return builder.transpose(inputs[0], equation["permutation"])


def _broadcast(builder: Builder, equation: Equation, inputs: list[int]) -> Result:
    sizes = dict(zip(equation["broadcast_dimensions"], builder.shapes[inputs[0]], strict=True))
    aligned = builder.reshape(inputs[0], tuple(sizes.get(axis, 1) for axis in range(len(equation.shape))))
    return builder.emit("broadcast", (aligned,), equation.shape, equation.dtype, shape=equation.shape)


def _iota(builder: Builder, equation: Equation, inputs: list[int]) -> Result:
    axis = equation["dimension"]
    if equation.shape[axis] < 0:
        return None
    line = builder.constant(np.arange(equation.shape[axis]).astype(equation.dtype))
    aligned = builder.reshape(line, tuple(size if i == axis else 1 for i, size in enumerate(equation.shape)))
    return builder.emit("broadcast", (aligned,), equation.shape, equation.dtype, shape=equation.shape)


def _slice(builder: Builder, equation: Equation, inputs: list[int]) -> Result:
    steps = equation["strides"] or (1,) * len(equation.shape)
    starts = equation["start_indices"]
    if min((0, *starts)) < 0:  # starts somewhere in the batch
        return None
    return builder.slice(inputs[0], starts, equation["limit_indices"], steps, equation.shape)


def _split(builder: Builder, equation: Equation, inputs: list[int]) -> Result:
    start, parts = 0, []
    for size in equation["sizes"]:
        parts.append(builder.slice_axis(inputs[0], equation["axis"], start, start + size))
        start += size
    return parts


def _stack(builder: Builder, equation: Equation, inputs: list[int]) -> Result:
    axis = equation["axis"]
    row = (*equation.shape[:axis], 1, *equation.shape[axis + 1 :])
    rows = [builder.reshape(value, row) for value in inputs]
    return builder.emit("concat", rows, equation.shape, equation.dtype, axis=axis)


def _unstack(builder: Builder, equation: Equation, inputs: list[int]) -> Result:
    axis = equation["axis"]
    rows = [builder.slice_axis(inputs[0], axis, i, i + 1) for i in range(len(equation.results))]
    return [builder.reshape(row, shape) for row, (shape, _) in zip(rows, equation.results, strict=True)]


def _tile(builder: Builder, equation: Equation, inputs: list[int]) -> Result:
    repeats = equation["reps"]
    shape = builder.shapes[inputs[0]]
    pairs = list(zip((1,) * len(shape), shape, strict=True))
    spread = builder.reshape(inputs[0], tuple(size for pair in pairs for size in pair))
    wide = tuple(size for pair in zip(repeats, shape, strict=True) for size in pair)
    tiled = builder.emit("broadcast", (spread,), wide, equation.dtype, shape=wide)
    return builder.reshape(tiled, equation.shape)


def _concat(builder: Builder, equation: Equation, inputs: list[int]) -> Result:
    return builder.emit("concat", inputs, equation.shape, equation.dtype, axis=equation["dimension"])


def _pad(builder: Builder, equation: Equation, inputs: list[int]) -> Result:
    return builder.emit("pad", inputs, equation.shape, equation.dtype, padding=equation["padding_config"])


def _dot(builder: Builder, equation: Equation, inputs: list[int]) -> Result:
    """The side that depends on the input goes first: `x @ W`, also where jax wrote `W @ x`."""
    (left, right), (left_batch, right_batch) = equation["dimension_numbers"]
    plain = {"contract": (left, right), "batch": (left_batch, right_batch)}
    swapped = inputs[0] not in builder.depends and inputs[1] in builder.depends
    if not swapped:
        return builder.emit("dot", inputs, equation.shape, equation.dtype, **plain)
    leading = len(left_batch)
    first = len(builder.shapes[inputs[0]]) - len(left) - leading  # how many free axes each side has
    second = len(builder.shapes[inputs[1]]) - len(right) - leading
    shape = equation.shape
    shape = shape[:leading] + shape[leading + first :] + shape[leading : leading + first]
    plain = {"contract": (right, left), "batch": (right_batch, left_batch)}
    result = builder.emit("dot", inputs[::-1], shape, equation.dtype, **plain)
    order = (*range(leading), *range(leading + second, leading + second + first), *range(leading, leading + second))
    return builder.transpose(result, order)


def _conv(builder: Builder, equation: Equation, inputs: list[int]) -> Result:
    if equation["batch_group_count"] != 1 or equation["feature_group_count"] < 1:
        return None
    numbers = equation.first.params["dimension_numbers"]
    image = builder.transpose(inputs[0], tuple(map(int, numbers.lhs_spec)))
    kernel = builder.transpose(inputs[1], tuple(map(int, numbers.rhs_spec)))
    result = builder.emit(
        "conv",
        (image, kernel),
        tuple(equation.shape[axis] for axis in numbers.out_spec),
        equation.dtype,
        strides=equation["window_strides"],
        padding=equation["padding"],
        dilations=equation["rhs_dilation"],
        input_dilations=equation["lhs_dilation"],
        groups=equation["feature_group_count"],
    )
    return builder.transpose(result, tuple(int(axis) for axis in np.argsort(numbers.out_spec)))


RULES: dict[str, Rule] = {
    **{name: _elementwise(name) for name in UNARY | BINARY},
    **{name: _axes(name) for name in REDUCTIONS},
    **{name: _cumulative(name) for name in CUMULATIVE},
    **dict.fromkeys(("copy", "copy_p", "stop_gradient", "optimization_barrier", "sharding_constraint"), _alias),
    **dict.fromkeys(("device_put", "name", "pvary", "pcast", "layout_constraint"), _alias),
    **{name.replace("window", "reduce_window"): _window(name) for name in WINDOWS},
    "add_any": _elementwise("add"),
    "clamp": _elementwise("clamp"),
    "rev": _axes("reverse"),
    "argmax": _argument("argmax"),
    "argmin": _argument("argmin"),
    "integer_pow": _integer_pow,
    "round": _round,
    "convert_element_type": _cast,
    "select_n": _select,
    "reshape": _reshape,
    "squeeze": _reshape,
    "expand_dims": _reshape,
    "transpose": _transpose,
    "broadcast_in_dim": _broadcast,
    "iota": _iota,
    "slice": _slice,
    "split": _split,
    "concatenate": _concat,
    "stack": _stack,
    "unstack": _unstack,
    "tile": _tile,
    "pad": _pad,
    "dot_general": _dot,
    "conv_general_dilated": _conv,
    "gather": gather,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update,
}
