"""Operations that move, cut, pad and look up, in ONNX."""

import math

import numpy as np

from ..errors import ExportError
from ..structure.graph import Node, Shape
from .onnx_builder import Builder, Value
from .onnx_ops import RULES, Results, cast

IDENTITY = {"cumprod": ("Mul", 1.0), "cummax": ("Max", -math.inf), "cummin": ("Min", math.inf)}


def _reshape(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    return [builder.reshape(inputs[0], results[0][0])]


def _transpose(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    return [builder.transpose(inputs[0], node.attributes["axes"])]


def _broadcast(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    """Expand leaves an axis as it is where the shape says 1."""
    shape, dtype = results[0]
    before = builder.shape_of(inputs[0])
    before = (1,) * (len(shape) - len(before)) + before
    sizes = tuple(1 if old == new else new for old, new in zip(before, shape, strict=True))
    return [builder.add("Expand", (inputs[0], builder.sizes(sizes)), shape, dtype)]


def cut(builder: Builder, x: Value, starts: Shape, stops: Shape, steps: Shape, shape: Shape) -> Value:
    """A slice; axes that are whole are not named."""
    before = builder.shape_of(x)
    named = [i for i in range(len(before)) if (starts[i], stops[i], steps[i]) != (0, before[i], 1)]
    if not named:
        return x
    if any(stops[i] < 0 and (stops[i] != before[i]) for i in named):
        raise ExportError("slice: ends somewhere in the batch; apply the network to one example by jax.vmap")
    ends = [np.iinfo(np.int64).max if stops[i] == before[i] else stops[i] for i in named]
    vectors = [np.array(v, np.int64) for v in ([starts[i] for i in named], ends, named, [steps[i] for i in named])]
    return builder.add("Slice", (x, *vectors), shape, builder.dtype_of(x))


def _slice(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    attributes = node.attributes
    return [cut(builder, inputs[0], attributes["starts"], attributes["stops"], attributes["steps"], results[0][0])]


def _reverse(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    axes = list(node.attributes["axes"])
    lowest = np.iinfo(np.int64).min
    vectors = [np.array(v, np.int64) for v in ([-1] * len(axes), [lowest] * len(axes), axes, [-1] * len(axes))]
    return [builder.like("Slice", inputs[0], *vectors)]


def _concat(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    axis = node.attributes["axis"]
    parts = [x for x in inputs if builder.shape_of(x)[axis] != 0]
    return [builder.add("Concat", parts, *results[0], axis=axis)]


def pad(builder: Builder, x: Value, filling: Value, padding: list[tuple[int, int, int]]) -> Value:
    """XLA's padding: `interior` between the elements, `low` and `high` around them, cut off where negative."""
    for axis, (low, high, interior) in enumerate(padding):
        if interior:
            x = _spread(builder, x, filling, axis, interior)
            padding[axis] = (low, high - interior, 0)
    shape = builder.shape_of(x)
    if any(shape[axis] < 0 and any(edges) for axis, edges in enumerate(padding)):
        raise ExportError("pad: along the batch; apply the network to one example by jax.vmap")
    if not any(map(any, padding)):
        return x
    pads = np.array([edges[0] for edges in padding] + [edges[1] for edges in padding], np.int64)
    after = tuple(size + low + high for size, (low, high, _) in zip(shape, padding, strict=True))
    return builder.add("Pad", (x, pads, builder.reshape(filling, ())), after, builder.dtype_of(x))


def _spread(builder: Builder, x: Value, filling: Value, axis: int, interior: int) -> Value:
    """Every element of an axis followed by as many fillings."""
    shape = builder.shape_of(x)
    column = builder.reshape(x, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    edges = [(0, 0, 0)] * (axis + 1) + [(0, interior, 0)] + [(0, 0, 0)] * (len(shape) - axis - 1)
    return builder.reshape(
        pad(builder, column, filling, edges), (*shape[:axis], shape[axis] * (interior + 1), *shape[axis + 1 :])
    )


def _pad(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    return [pad(builder, inputs[0], inputs[1], list(node.attributes["padding"]))]


def _clipped(builder: Builder, indices: Value, highest: int, lowest: int = 0) -> Value:
    wide = cast(builder, indices, "int64") if isinstance(indices, str) else indices.astype(np.int64)
    if isinstance(wide, np.ndarray):
        return np.asarray(np.clip(wide, lowest, highest))
    low, high = np.array(lowest, np.int64), np.array(highest, np.int64)
    return builder.like("Min", builder.like("Max", wide, low), high)


def _from_the_end(builder: Builder, indices: Value, size: int) -> Value | None:
    """The indices before jax counted the negative ones from the end, as Gather does itself."""
    if not builder.is_made_by(indices, "Where"):
        return None
    is_low, moved, plain = builder.made[str(indices)][1]
    if not builder.is_made_by(is_low, "Less") or not builder.is_made_by(moved, "Add"):
        return None
    (value, zero), (same, added) = builder.made[str(is_low)][1], builder.made[str(moved)][1]
    numbers = isinstance(zero, np.ndarray) and isinstance(added, np.ndarray) and zero.size == added.size == 1
    is_so = isinstance(value, str) and value == same == plain and numbers
    return plain if is_so and not np.any(zero) and np.all(added == size) else None


def _take(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    """An index out of range is clipped, or, where jax would fill in NaN, an error of the runtime."""
    table, indices = inputs
    axis, mode = node.attributes["axis"], node.attributes["mode"]
    size = builder.shape_of(table)[axis]
    plain = _from_the_end(builder, indices, size)
    if mode == "clip":
        indices = _clipped(builder, indices if plain is None else plain, size - 1, 0 if plain is None else -size)
    elif plain is not None:
        indices = plain
    if builder.dtype_of(indices) not in ("int32", "int64"):
        indices = cast(builder, indices, "int64")
    if isinstance(indices, np.ndarray):
        indices = indices.astype(np.int64)
    return [builder.add("Gather", (table, indices), *results[0], axis=axis)]


def _gather(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    """XLA's gather where it takes single entries along some axes and all of the others, each example its own."""
    (operand, indices), attributes = inputs, node.attributes
    shape, places = builder.shape_of(operand), builder.shape_of(indices)[:-1]
    sizes, mapped, batch = attributes["sizes"], attributes["map"], attributes["operand_batch"]
    moving = [axis for axis in mapped if sizes[axis] != shape[axis]]
    rest = [axis for axis in range(len(shape)) if axis not in (*moving, *batch)]
    whole = all(sizes[axis] == shape[axis] for axis in rest) and all(sizes[axis] == 1 for axis in moving)
    if not whole or attributes["indices_batch"] != tuple(range(len(batch))) or not moving:
        raise ExportError("gather: of blocks at computed places has no form in ONNX; export to safetensors")
    columns = np.array([mapped.index(axis) for axis in moving], np.int64)
    at = builder.add("Gather", (indices, columns), (*places, len(moving)), builder.dtype_of(indices), axis=len(places))
    highest = np.array([shape[axis] - 1 for axis in moving], np.int64)
    at = builder.like("Min", builder.like("Max", cast(builder, at, "int64"), np.array(0, np.int64)), highest)
    table = builder.transpose(operand, [*batch, *moving, *rest])
    found_shape = (*places, *(shape[axis] for axis in rest))
    found = builder.add("GatherND", (table, at), found_shape, results[0][1], batch_dims=len(batch))
    kept = [axis for axis in range(len(shape)) if axis not in (*attributes["collapsed"], *batch)]
    order = _order(len(places), rest, kept, attributes["offset"], len(results[0][0]))
    return [builder.reshape(builder.transpose(found, order), results[0][0])]


def _order(places: int, rest: list[int], kept: list[int], offset: Shape, rank: int) -> list[int]:
    """Of places, then the rest, as they stand in the result, where the kept axes are at `offset`. Kept axes that are
    not among the rest are of size one, and so are those of the rest that are not kept: they go last."""
    first = iter(range(places))
    wanted = [kept[offset.index(i)] if i in offset else None for i in range(rank)]
    axes = [next(first) if axis is None else places + rest.index(axis) for axis in wanted if axis in (None, *rest)]
    return [*axes, *(axis for axis in range(places + len(rest)) if axis not in axes)]


def _starts(builder: Builder, inputs: list[Value], shape: Shape, sizes: Shape) -> tuple[list[int], Value, Value]:
    """Of a block at a computed place: the axes along which it is not whole, its starts and its ends there."""
    named = [axis for axis, size in enumerate(sizes) if size != shape[axis]]
    if any(shape[axis] < 0 for axis in named):
        raise ExportError("dynamic slice: along the batch; apply the network to one example by jax.vmap")
    starts = [builder.reshape(_clipped(builder, inputs[axis], shape[axis] - sizes[axis]), (1,)) for axis in named]
    start = builder.add("Concat", starts, (len(named),), "int64", axis=0)
    return named, start, builder.like("Add", start, np.array([sizes[axis] for axis in named], np.int64))


def _dynamic_slice(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    x, *places = inputs
    named, start, stop = _starts(builder, places, builder.shape_of(x), node.attributes["sizes"])
    return [builder.add("Slice", (x, start, stop, np.array(named, np.int64)), *results[0]) if named else x]


def _dynamic_update(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    x, update, *places = inputs
    named, start, stop = _starts(builder, places, builder.shape_of(x), builder.shape_of(update))
    if len(named) != 1:
        raise ExportError("dynamic_update: along more than one axis has no form in ONNX; export to safetensors")
    (shape, dtype), axis = results[0], np.array(named, np.int64)
    zero, last = np.array([0], np.int64), np.array([np.iinfo(np.int64).max], np.int64)
    before = builder.add("Slice", (x, zero, start, axis), shape, dtype)
    after = builder.add("Slice", (x, stop, last, axis), shape, dtype)
    return [builder.add("Concat", (before, update, after), shape, dtype, axis=named[0])]


def _cumulative(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    """Every element with the one 1, 2, 4 … places before it, until all are in."""
    operation, nothing = IDENTITY[node.op]
    (shape, dtype), x, axis = results[0], inputs[0], node.attributes["axis"]
    if not np.issubdtype(np.dtype(dtype), np.floating) and node.op != "cumprod":
        info = np.iinfo(dtype)
        nothing = info.min if nothing < 0 else info.max
    filling, step = np.asarray(nothing, dtype), 1
    while step < shape[axis]:
        edges = [(0, 0, 0)] * len(shape)
        edges[axis] = (-step, step, 0) if node.attributes["reverse"] else (step, -step, 0)
        x = builder.like(operation, x, pad(builder, x, filling, edges))
        step *= 2
    return [x]


RULES.update(
    {
        "reshape": _reshape,
        "transpose": _transpose,
        "broadcast": _broadcast,
        "slice": _slice,
        "reverse": _reverse,
        "concat": _concat,
        "pad": _pad,
        "take": _take,
        "gather": _gather,
        "dynamic_slice": _dynamic_slice,
        "dynamic_update": _dynamic_update,
        "cumprod": _cumulative,
        "cummax": _cumulative,
        "cummin": _cumulative,
    }
)
