"""Products, convolutions and pooling in ONNX."""

import math

import numpy as np

from ..errors import ExportError
from ..structure.graph import Node, Shape
from .onnx_builder import Builder, Value
from .onnx_layout import pad
from .onnx_ops import RULES, Results, cast, pair
from .phases import PLACES, mean_of_places, padding_of

WORTH_INT8 = 1024  # weights of a product from which on whole numbers are worth their conversion
MOST_INT8 = 63  # two products of a byte and this fit 16 bits, in which processors without VNNI add them up


def _size(sizes: list[int]) -> int:
    """The product of sizes; negative where the batch is among them."""
    return math.prod(map(abs, sizes)) * (-1 if any(size < 0 for size in sizes) else 1)


def _dot(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    contract, batch = node.attributes["contract"], node.attributes["batch"]
    if not batch[0]:
        return [_plain(builder, inputs, contract, results)]
    ways = [(inputs, contract, batch), (inputs[::-1], contract[::-1], batch[::-1])]
    turned = [sum(_order(builder, *side, i == 0)[1] for i, side in enumerate(zip(*way, strict=True))) for way in ways]
    swap = turned[1] < turned[0]
    sides = zip(*ways[swap], strict=True)
    left, right = (_stacked(builder, *side, i == 0) for i, side in enumerate(sides))
    shape, dtype = results[0]
    inner = (*builder.shape_of(left)[:-1], builder.shape_of(right)[-1])
    product: Value = builder.add("MatMul", (left, right), inner, dtype)
    if swap:
        rank = len(inner)
        frees = [
            [size for axis, size in enumerate(builder.shape_of(x)) if axis not in (*own, *shared)]
            for x, own, shared in zip(inputs, contract, batch, strict=True)
        ]  # as they stand in the result
        wide = (*inner[:-2], *frees[1], *frees[0])
        lead = rank - 2
        first, second = len(frees[0]), len(frees[1])
        order = [*range(lead), *range(lead + second, lead + second + first), *range(lead, lead + second)]
        product = builder.transpose(builder.reshape(product, wide), order)
    return [builder.reshape(product, shape)]


def _plain(builder: Builder, inputs: list[Value], contract: tuple[Shape, Shape], results: Results) -> Value:
    """A product without axes in common: left's other axes stay as they are, right becomes a matrix."""
    (left, right), (shape, dtype) = inputs, results[0]
    sizes = builder.shape_of(left), builder.shape_of(right)
    frees = [[axis for axis in range(len(s)) if axis not in own] for s, own in zip(sizes, contract, strict=True)]
    inner = _size([sizes[1][axis] for axis in contract[1]])
    outer = [sizes[1][axis] for axis in frees[1]]
    matrix = builder.reshape(builder.transpose(right, [*contract[1], *frees[1]]), (inner, _size(outer)))
    rows = builder.transpose(left, [*frees[0], *contract[0]])
    kept = tuple(sizes[0][axis] for axis in frees[0])
    rows, wide = builder.reshape(rows, (*kept, inner)), (*kept, _size(outer))
    if builder.int8 and isinstance(rows, str) and isinstance(matrix, np.ndarray) and matrix.size >= WORTH_INT8:
        product = _in_int8(builder, rows, matrix, wide, dtype)
    else:
        product = builder.add("MatMul", (rows, matrix), wide, dtype)
    return builder.reshape(product, shape)


def _in_int8(builder: Builder, rows: str, matrix: np.ndarray, wide: Shape, dtype: str) -> Value:
    """A product of whole numbers: the weights in 7 bits with one unit for the layer, the activations in 8 with a unit
    for the batch, which the runtime finds. It knows these five nodes and computes them as one."""
    unit = float(np.abs(matrix).max()) / MOST_INT8 or 1.0
    whole = np.rint(matrix / unit).astype(np.int8)
    numbers, scale, zero = builder.add_many(
        "DynamicQuantizeLinear", (rows,), [(builder.shape_of(rows), "uint8"), ((), "float32"), ((), "uint8")]
    )
    product = builder.add("MatMulInteger", (numbers, whole, zero), wide, "int32")
    unit_of_both = builder.add("Mul", (scale, np.asarray(unit, np.float32)), (), "float32")
    return builder.add("Mul", (cast(builder, product, dtype), unit_of_both), wide, dtype)


def _order(builder: Builder, x: Value, contract: Shape, batch: Shape, is_left: bool) -> tuple[list[int], bool]:
    """The axes as MatMul wants them, and whether that needs a transposition."""
    shape = builder.shape_of(x)
    free = [axis for axis in range(len(shape)) if axis not in (*contract, *batch)]
    order = [*batch, *free, *contract] if is_left else [*batch, *contract, *free]
    moving = [axis for axis in order if shape[axis] != 1]
    return order, moving != sorted(moving)


def _stacked(builder: Builder, x: Value, contract: Shape, batch: Shape, is_left: bool) -> Value:
    """Matrices along the axes in common, those of size one left out."""
    shape = builder.shape_of(x)
    order, _ = _order(builder, x, contract, batch, is_left)
    free = _size([shape[axis] for axis in range(len(shape)) if axis not in (*contract, *batch)])
    inner = _size([shape[axis] for axis in contract])
    lead = [shape[axis] for axis in batch if shape[axis] != 1]
    return builder.reshape(builder.transpose(x, order), (*lead, *((free, inner) if is_left else (inner, free))))


def _linear(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    """A product with constant weights, and a bias."""
    x, weight, bias = inputs
    product = _plain(builder, [x, weight], node.attributes["contract"], results)
    if isinstance(bias, np.ndarray) and not bias.any():
        return [product]
    return [pair(builder, "Add", (product, bias), *results[0])]


def _conv(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    image, kernel, *bias = inputs
    attributes = node.attributes
    padding, spread = list(attributes["padding"]), attributes["input_dilations"]
    if any(size > 1 for size in spread) or any(min(edges) < 0 for edges in padding):
        edges = [(low, high, wide - 1) for (low, high), wide in zip(padding, spread, strict=True)]
        image = pad(builder, image, np.zeros((), results[0][1]), [(0, 0, 0), (0, 0, 0), *edges])
        padding = [(0, 0)] * len(padding)
    if bias and isinstance(bias[0], np.ndarray) and not bias[0].any():
        bias = []
    shape, dtype = results[0]
    return [
        builder.add(
            "Conv",
            (image, kernel, *bias),
            shape,
            dtype,
            strides=list(attributes["strides"]),
            pads=[low for low, _ in padding] + [high for _, high in padding],
            dilations=list(attributes["dilations"]),
            group=attributes["groups"],
        )
    ]


def _pooled_conv(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    """The filters of the four places are made from one, by constants alone (`phases.py`)."""
    (x, kernel, bias), attributes = inputs, node.attributes
    assert isinstance(kernel, np.ndarray)
    assert isinstance(bias, np.ndarray)
    channels, (shape, dtype) = len(bias), results[0]
    wide = (channels, kernel.shape[1], kernel.shape[2] + 1, kernel.shape[3] + 1)
    filters = [builder.add("Pad", (kernel, padding_of(place)), wide, dtype) for place in PLACES]
    together = builder.add("Concat", filters, (len(PLACES) * channels, *wide[1:]), dtype, axis=0)
    pads = [low for low, _ in attributes["padding"]] + [high for _, high in attributes["padding"]]
    inner = (shape[0], len(PLACES) * channels, *shape[2:])
    x = builder.add(
        "Conv", (x, together, np.tile(bias, len(PLACES))), inner, dtype, strides=[2, 2], pads=pads
    )  # fmt: skip
    for op, own in attributes["activations"]:
        (x,) = RULES[op](builder, Node(op, (), (), dict(own)), [x], [(inner, dtype)])
    return [builder.add("Conv", (x, mean_of_places(channels)), shape, dtype)]


def _window(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    """Pooling of (batch, channels, places): the rewriting has put the axes so."""
    (shape, dtype), attributes, x = results[0], node.attributes, inputs[0]
    window, strides = list(attributes["window"][2:]), list(attributes["strides"][2:])
    whole = (1, (0, 0), 1)
    keys = ("window", "padding", "strides")
    if any(tuple(attributes[key][axis] for key in keys) != whole for axis in (0, 1)):
        raise ExportError(f"{node.op}: over more than three axes has no form in ONNX; export to safetensors")
    if any(wide != 1 for wide in attributes["input_dilations"]):
        raise ExportError(f"{node.op}: of a spread-out image has no form in ONNX; export to safetensors")
    padding = list(attributes["padding"][2:])
    if any(min(edges) < 0 or max(edges) >= wide for edges, wide in zip(padding, window, strict=True)):
        lowest = {"window_max": -math.inf, "window_min": math.inf}.get(node.op, 0.0)
        edges = [(0, 0, 0), (0, 0, 0), *((low, high, 0) for low, high in padding)]
        x, padding = pad(builder, x, np.asarray(lowest, dtype), edges), [(0, 0)] * len(padding)
    x = cast(builder, x, "float32") if np.dtype(dtype).kind != "f" else x
    own: dict[str, list[int] | int] = {
        "kernel_shape": window,
        "strides": strides,
        "pads": [low for low, _ in padding] + [high for _, high in padding],
    }
    if any(wide != 1 for wide in attributes["dilations"]):
        own["dilations"] = list(attributes["dilations"][2:])
    kind = builder.dtype_of(x)
    if node.op in ("window_sum", "window_mean"):
        own |= {"count_include_pad": 1} if any(map(any, padding)) else {}  # the runtime is slower with it
        mean = builder.add("AveragePool", (x,), shape, kind, **own)
        if node.op == "window_sum":
            mean = builder.like("Mul", mean, np.asarray(math.prod(window), kind))
        return [cast(builder, mean, dtype)]
    if node.op == "window_max":
        return [cast(builder, builder.add("MaxPool", (x,), shape, kind, **own), dtype)]
    least = builder.add("MaxPool", (builder.like("Neg", x),), shape, kind, **own)
    return [cast(builder, builder.like("Neg", least), dtype)]


RULES.update(
    {
        "dot": _dot,
        "linear": _linear,
        "conv": _conv,
        "pooled_conv": _pooled_conv,
        **dict.fromkeys(("window_sum", "window_mean", "window_max", "window_min"), _window),
    }
)
