"""Functions that a runtime has as one operation, found again: means, pooling, softmax, layer normalisation.

The nodes made here are beyond the vocabulary of graphs and only for the ONNX writer:
`reduce_mean` (axes), `window_mean` (as `window_sum`), `layer_norm` (x, gain, bias; axis, epsilon), `image_mean` (x).
"""

import math

import numpy as np

from ..structure.graph import Node, Shape
from ..structure.vocabulary import ELEMENTWISE
from .draft import Draft

POOLED = {"reduce_sum": "window_sum", "reduce_max": "window_max", "reduce_min": "window_min"}


def pooling(draft: Draft, node: Node) -> list[Node] | None:
    """A reduction over parts of axes that a reshape cut, such as the mean of 2 × 2 squares, is pooling."""
    before = draft.made_by(node.inputs[0], "reshape") if node.op in POOLED else None
    if before is None:
        return None
    shape, cut = draft.shapes[before.inputs[0]], draft.shapes[before.output]
    window = _window(shape, cut, node.attributes["axes"])
    if window is None or len(shape) > 5 or window[:2] != (1, 1):
        return None
    plain = (1,) * len(shape)
    attributes = {"window": window, "strides": window, "padding": ((0, 0),) * len(shape)}
    attributes |= {"dilations": plain, "input_dilations": plain}
    return [Node(POOLED[node.op], before.inputs, node.outputs, attributes)]


def _window(shape: Shape, cut: Shape, axes: Shape) -> Shape | None:
    """How long the parts of each axis are that are reduced; None where it is no cutting."""
    window, at = [], 0
    for size in shape:
        inner = cut[at + 1] if at + 1 in axes else 1
        if at in axes or at >= len(cut) or cut[at] * inner != size:
            return None
        window.append(inner)
        at += 1 if at + 1 not in axes else 2
    return tuple(window) if at == len(cut) else None


def images_first(draft: Draft, node: Node) -> list[Node] | None:
    """Pooling of (batch, channels, places …), whatever the order of the axes was."""
    if not node.op.startswith("window_"):
        return None
    attributes, shape = node.attributes, draft.shapes[node.inputs[0]]
    keys = ("window", "strides", "padding", "dilations", "input_dilations")
    rows = list(zip(*(attributes[key] for key in keys), strict=True))
    places = [axis for axis, row in enumerate(rows) if row[:3] != (1, 1, (0, 0))]
    others = [axis for axis in range(len(shape)) if axis not in places and shape[axis] != 1]
    if not places or len(places) > 3:
        return None
    if places[0] >= 2 and len(shape) <= 5 and (1 in others or max(others, default=0) < 2):
        return None  # they are so already
    bare = sorted([*others, *places])
    lead = _lead([shape[axis] for axis in others])
    result = draft.shapes[node.output]
    dtype = draft.dtypes[node.output]
    make = _Maker(draft, dtype)
    x = make.reshape(node.inputs[0], tuple(shape[axis] for axis in bare))
    x = make.transpose(x, tuple(bare.index(axis) for axis in (*others, *places)))
    x = make.reshape(x, (*lead, *(shape[axis] for axis in places)))
    after = [result[axis] for axis in places]
    whole = (1, 1, (0, 0), 1, 1)
    own = dict(zip(keys, map(tuple, zip(whole, whole, *(rows[axis] for axis in places), strict=True)), strict=True))
    x = make.node(node.op, x, (*lead, *after), own)
    x = make.reshape(x, (*(result[axis] for axis in others), *after))
    order = (*others, *places)
    x = make.transpose(x, tuple(order.index(axis) for axis in bare))
    return [*make.nodes, Node("reshape", (x,), node.outputs, {"shape": result})]


def _lead(sizes: list[int]) -> Shape:
    """Batch and channels."""
    if not sizes:
        return (1, 1)
    if sizes[0] >= 0:
        return (1, math.prod(sizes))
    return (sizes[0], math.prod(sizes[1:]))


class _Maker:
    """Nodes in a row."""

    def __init__(self, draft: Draft, dtype: str):
        self.draft, self.dtype = draft, dtype
        self.nodes: list[Node] = []

    def node(self, op: str, x: int, shape: Shape, attributes: dict) -> int:
        value = self.draft.value(shape, self.dtype)
        self.nodes.append(Node(op, (x,), (value,), attributes))
        return value

    def reshape(self, x: int, shape: Shape) -> int:
        return self.node("reshape", x, shape, {"shape": tuple(shape)})

    def transpose(self, x: int, axes: Shape) -> int:
        shape = tuple(self.draft.shapes[x][axis] for axis in axes)
        return self.node("transpose", x, shape, {"axes": axes})


def means(draft: Draft, node: Node) -> list[Node] | None:
    """A sum divided by how many were summed."""
    if node.op not in ("div", "mul"):
        return None
    divisor = draft.number(node.inputs[1])
    if divisor is None or divisor == 0:
        return None
    many = divisor if node.op == "div" else 1 / divisor
    x, shaped = node.inputs[0], draft.made_by(node.inputs[0], "reshape")
    source = draft.made_by(x if shaped is None else shaped.inputs[0], "reduce_sum", "window_sum")
    if source is None:
        return None
    if source.op == "window_sum":
        same = shaped is None and math.isclose(math.prod(source.attributes["window"]), many, rel_tol=1e-6)
        return [Node("window_mean", source.inputs, node.outputs, source.attributes)] if same else None
    sizes = [draft.shapes[source.inputs[0]][axis] for axis in source.attributes["axes"]]
    if min(sizes, default=0) < 1 or not math.isclose(math.prod(sizes), many, rel_tol=1e-6):
        return None
    if shaped is None:
        return [Node("reduce_mean", source.inputs, node.outputs, source.attributes)]
    mean = draft.value(draft.shapes[source.output], draft.dtypes[source.output])
    first = Node("reduce_mean", source.inputs, (mean,), source.attributes)
    return [first, Node("reshape", (mean,), node.outputs, {"shape": draft.shapes[node.output]})]


def softmax(draft: Draft, node: Node) -> list[Node] | None:
    """exp(x − c) over its sum along one axis, whatever c is that is the same along it."""
    if node.op != "div":
        return None
    top, shaped = draft.made_by(node.inputs[0], "exp"), draft.made_by(node.inputs[1], "reshape")
    total = None if shaped is None else draft.made_by(shaped.inputs[0], "reduce_sum")
    if top is None or shaped is None or total is None or total.inputs[0] != top.output:
        return None
    axes, shape = total.attributes["axes"], draft.shapes[top.output]
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    if len(axes) != 1 or draft.shapes[shaped.output] != kept:
        return None
    x, moved = top.inputs[0], draft.made_by(top.inputs[0], "sub")
    if moved is not None:
        aligned = (1,) * (len(shape) - len(draft.shapes[moved.inputs[1]])) + draft.shapes[moved.inputs[1]]
        if aligned[axes[0]] == 1 and draft.shapes[moved.inputs[0]] == shape:
            x = moved.inputs[0]
    return [Node("softmax", (x,), node.outputs, {"axis": axes[0]})]


def layer_norm(draft: Draft, node: Node) -> list[Node] | None:
    """(x − mean) / sqrt(variance + ε) over the last axes; after `means`."""
    if node.op not in ("mul", "div"):
        return None
    for centred, root in (node.inputs, node.inputs[::-1]) if node.op == "mul" else (node.inputs,):
        minus = draft.made_by(centred, "sub")
        rooted = draft.made_by(root, "rsqrt" if node.op == "mul" else "sqrt")
        shifted = None if rooted is None else draft.made_by(rooted.inputs[0], "add")
        if minus is None or shifted is None or (epsilon := draft.number(shifted.inputs[1])) is None:
            continue
        var = draft.made_by(shifted.inputs[0], "relu")
        spread = _mean_of(draft, shifted.inputs[0] if var is None else var.inputs[0])
        mean = _mean_of(draft, minus.inputs[1])
        if spread is None or mean is None or mean[0] != minus.inputs[0] or mean[1] != spread[1]:
            continue
        if not _is_square(draft, spread[0], centred):
            continue
        shape, axes = draft.shapes[minus.inputs[0]], mean[1]
        if axes != tuple(range(len(shape) - len(axes), len(shape))) or draft.dtypes[node.output] != "float32":
            continue
        own = shape[axes[0] :]
        gain, bias = draft.constant(np.ones(own, np.float32)), draft.constant(np.zeros(own, np.float32))
        attributes = {"axis": axes[0], "epsilon": epsilon}
        return [Node("layer_norm", (minus.inputs[0], gain, bias), node.outputs, attributes)]
    return None


def _mean_of(draft: Draft, value: int) -> tuple[int, Shape] | None:
    """What a mean, with its axes kept at size one, is of, and along which axes."""
    shaped = draft.made_by(value, "reshape")
    mean = None if shaped is None else draft.made_by(shaped.inputs[0], "reduce_mean")
    if mean is None:
        return None
    axes, shape = mean.attributes["axes"], draft.shapes[mean.inputs[0]]
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return (mean.inputs[0], tuple(axes)) if draft.shapes[value] == kept else None


def _is_square(draft: Draft, value: int, of: int) -> bool:
    node = draft.made_by(value, "square", "mul", "integer_pow")
    if node is None or any(each != of for each in node.inputs):
        return False
    return node.op != "integer_pow" or node.attributes["exponent"] == 2


def image_means(draft: Draft, node: Node) -> list[Node] | None:
    """The mean over all places of images made by a convolution, whose layout the runtime keeps for it."""
    if node.op != "reduce_mean" or draft.dtypes[node.output] != "float32":
        return None
    value, shape = node.inputs[0], draft.shapes[node.inputs[0]]
    if len(shape) != 4 or node.attributes["axes"] != (2, 3):
        return None
    while (step := draft.made_by(value, *(ELEMENTWISE - {"select", "cast"}))) is not None:
        value = next((each for each in step.inputs if draft.shapes[each] == shape), -1)
    if draft.made_by(value, "conv") is None:
        return None
    mean = draft.value((*shape[:2], 1, 1), "float32")
    first = Node("image_mean", node.inputs, (mean,))
    return [first, Node("reshape", (mean,), node.outputs, {"shape": draft.shapes[node.output]})]


def apart_from_sum(draft: Draft, node: Node) -> list[Node] | None:
    """Layer normalisation right after a sum, as of tokens in one long row: onnxruntime joins the two where nothing else
    reads the sum, and that takes eight times as long (1.31, profiled by hand)."""
    if node.op != "layer_norm" or draft.alone(node.inputs[0], "add") is None:
        return None
    shape, axis = draft.shapes[node.inputs[0]], node.attributes["axis"]
    if len(shape) != 3 or axis != 2 or shape[1] < 0 or shape[0] == 0:
        return None
    flat, normed = (draft.value((shape[0] * shape[1], shape[2]), "float32") for _ in range(2))
    return [
        Node("reshape", node.inputs[:1], (flat,), {"shape": draft.shapes[flat]}),
        Node("layer_norm", (flat, *node.inputs[1:]), (normed,), node.attributes | {"axis": 1}),
        Node("reshape", (normed,), node.outputs, {"shape": shape}),
    ]
