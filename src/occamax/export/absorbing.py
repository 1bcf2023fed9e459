"""Products that do the sums around them: what is multiplied and added by constants before or after is done by the
weights and biases. `linear` (x, weight, bias; contract) is a product with constant weights; a `conv` gets a bias too.
Both, and `pooled_conv`, are beyond the vocabulary of graphs and only for the ONNX writer.
"""

import numpy as np

from ..structure.cleaning import broadcast_shape
from ..structure.graph import Node, Shape
from ..structure.interpreter import apply
from ..structure.vocabulary import ACTIVATIONS, UNARY
from .draft import Draft

AFFINE = ("add", "sub", "mul", "div")
LAYOUT = ("reshape", "transpose", "slice", "reverse", "take")
# Products in the time in which one entry is taken: profiled by hand (onnxruntime 1.31, one core, an MLP's 769 of 784
# inputs: 14 ns an entry; its next layer of 80 units: 0.086 ns a product)
TAKING = 160
Affine = tuple[int, np.ndarray, np.ndarray]  # value, scale, shift; the arrays broadcast with it


def with_biases(draft: Draft, node: Node) -> list[Node] | None:
    """Products with constant weights, with a bias of zeros."""
    if len(node.inputs) != 2 or node.inputs[1] not in draft.constants or draft.dtypes[node.output] != "float32":
        return None
    weight = draft.constants[node.inputs[1]]
    if node.op == "conv":
        bias = draft.constant(np.zeros(len(weight), np.float32))
        return [Node("conv", (*node.inputs, bias), node.outputs, node.attributes)]
    if node.op != "dot" or node.attributes["batch"][0] or node.inputs[0] in draft.constants:
        return None
    contract = node.attributes["contract"]
    free = [size for axis, size in enumerate(weight.shape) if axis not in contract[1]]
    bias = draft.constant(np.zeros(free, np.float32))
    return [Node("linear", (*node.inputs, bias), node.outputs, {"contract": contract})]


def affine(draft: Draft, node: Node) -> Affine | None:
    """A node as scale · value + shift, if one of its inputs is constant."""
    if node.op not in AFFINE or draft.dtypes[node.output] != "float32":
        return None
    left, right = node.inputs
    fixed = left if left in draft.constants else right
    if fixed not in draft.constants:
        return None
    value, number = right if fixed == left else left, draft.constants[fixed].astype(np.float64)
    if draft.shapes[value] != draft.shapes[node.output]:
        return None
    one, zero = np.ones(()), np.zeros(())
    match node.op:
        case "add":
            return value, one, number
        case "sub":
            return (value, np.asarray(-one), number) if fixed == left else (value, one, np.asarray(-number))
        case "mul":
            return value, number, zero
    return None if fixed == left or not number.all() else (value, np.asarray(1 / number), zero)


def along(array: np.ndarray, rank: int, axes: list[int]) -> np.ndarray | None:
    """The array, which broadcasts with one of `rank`, along these axes alone; None where it varies along others."""
    array = array.reshape((1,) * (rank - array.ndim) + array.shape)
    for axis in range(rank):
        if axis not in axes and array.shape[axis] > 1:
            head = np.take(array, [0], axis)
            if not np.array_equal(np.broadcast_to(head, array.shape), array):
                return None
            array = head
    return array.reshape([array.shape[axis] for axis in axes])


def after(draft: Draft, node: Node) -> list[Node] | None:
    """A product, or a normalisation, does what comes after it."""
    found = affine(draft, node)
    made = None if found is None else draft.alone(found[0], "linear", "conv", "layer_norm")
    if found is None or made is None or len(made.inputs) != 3 or not _all_constant(draft, made):
        return None
    rank = len(draft.shapes[node.output])
    weight, bias = (draft.constants[value].astype(np.float64) for value in made.inputs[1:])
    axes = [1] if made.op == "conv" else list(range(rank - bias.ndim, rank))
    scale, shift = (along(array, rank, axes) for array in found[1:])
    if scale is None or shift is None:
        return None
    scaled = weight * _over_outputs(made, scale, weight.shape)
    return [_with(draft, made, node.outputs, scaled, bias * scale + shift)]


def after_layout(draft: Draft, node: Node) -> list[Node] | None:
    """A product is multiplied by a number that what only moves its results is multiplied by."""
    found = affine(draft, node)
    if found is None or found[1].size != 1 or found[2].any():
        return None
    path: list[Node] = []
    value = found[0]
    while step := draft.alone(value, *LAYOUT[:4]):
        path.insert(0, step)
        value = step.inputs[0]
    made = draft.alone(value, "linear", "conv")
    if not path or made is None or len(made.inputs) != 3 or not _all_constant(draft, made):
        return None
    arrays = [draft.constants[each].astype(np.float64) * found[1].reshape(()) for each in made.inputs[1:]]
    last = draft.value(draft.shapes[value], "float32")
    nodes = [_with(draft, made, (last,), *arrays)]
    for step in path[:-1]:
        again = draft.value(draft.shapes[step.output], "float32")
        nodes.append(Node(step.op, (last,), (again,), step.attributes))
        last = again
    return [*nodes, Node(path[-1].op, (last,), node.outputs, path[-1].attributes)]


def _over_outputs(node: Node, scale: np.ndarray, shape: Shape) -> np.ndarray:
    """One number an output, as it broadcasts with the weights."""
    if node.op == "conv":
        return scale.reshape((-1,) + (1,) * (len(shape) - 1))
    if node.op == "layer_norm":
        return scale
    contracted = node.attributes["contract"][1]
    return np.expand_dims(scale, tuple(sorted(contracted)))


def before(draft: Draft, node: Node) -> list[Node] | None:
    """A product does what comes before it, where only layout lies between: preprocessing, mostly."""
    if node.op not in ("linear", "conv") or len(node.inputs) != 3 or not _all_constant(draft, node):
        return None
    path: list[Node] = []
    value = node.inputs[0]
    while (step := draft.alone(value, *LAYOUT)) and all(each in draft.constants for each in step.inputs[1:]):
        path.append(step)
        value = step.inputs[0]
    source = draft.alone(value, *AFFINE)
    found = None if source is None else affine(draft, source)
    if found is None:
        return None
    shape = draft.shapes[value]
    moved = [_moved(draft, path[::-1], array, shape) for array in found[1:]]
    product = _scaled(draft, node, *moved)
    if product is None:
        return None
    nodes, last = [], found[0]
    for step in path[::-1]:
        again = draft.value(draft.shapes[step.output], draft.dtypes[step.output])
        nodes.append(Node(step.op, (last, *step.inputs[1:]), (again,), step.attributes))
        last = again
    return [*nodes, Node(product.op, (last, *product.inputs[1:]), product.outputs, product.attributes)]


def _moved(draft: Draft, path: list[Node], array: np.ndarray, shape: Shape) -> np.ndarray:
    """The array as it stands where the path ends, for one example."""
    array = np.broadcast_to(array, tuple(abs(size) for size in shape))
    for step in path:
        (array,) = apply(step, [array, *(draft.constants[value] for value in step.inputs[1:])], 1)
    return array


def _scaled(draft: Draft, node: Node, scale: np.ndarray, shift: np.ndarray) -> Node | None:
    """The product for inputs x that it would have seen as scale · x + shift."""
    weight, bias = (draft.constants[value].astype(np.float64) for value in node.inputs[1:])
    if node.op == "conv":
        scale_of, shift_of = (along(array, scale.ndim, [1]) for array in (scale, shift))
        if scale_of is None or shift_of is None:
            return None
        if shift_of.any() and any(map(any, node.attributes["padding"])):
            return None  # what is padded with is not shifted
        groups, outputs, inputs = node.attributes["groups"], len(weight), weight.shape[1]
        tail = (1,) * (weight.ndim - 2)
        spread = [np.broadcast_to(each, (groups * inputs,)).reshape(groups, inputs) for each in (scale_of, shift_of)]
        own = [np.repeat(each, outputs // groups, 0).reshape(outputs, inputs, *tail) for each in spread]
        more = (weight * own[1]).reshape(outputs, -1).sum(1)
        return _with(draft, node, node.outputs, weight * own[0], bias + more)
    left, right = node.attributes["contract"]
    scale_of, shift_of = (along(array, scale.ndim, list(left)) for array in (scale, shift))
    if scale_of is None or shift_of is None:
        return None
    sizes = [weight.shape[axis] for axis in right]
    order = np.argsort(right)
    free = [axis for axis in range(weight.ndim) if axis not in right]
    own = [np.expand_dims(np.broadcast_to(each, sizes).transpose(order), tuple(free)) for each in (scale_of, shift_of)]
    return _with(draft, node, node.outputs, weight * own[0], bias + (weight * own[1]).sum(tuple(right)))


def _all_constant(draft: Draft, node: Node) -> bool:
    return all(value in draft.constants for value in node.inputs[1:])


def _with(draft: Draft, node: Node, outputs: Shape, weight: np.ndarray, bias: np.ndarray) -> Node:
    arrays = (draft.constant(array.astype(np.float32)) for array in (weight, bias))
    return Node(node.op, (node.inputs[0], *arrays), outputs, node.attributes)


def merged(draft: Draft, node: Node) -> list[Node] | None:
    """Constants that are added to and multiplied with one value, one after the other: one product and one sum."""
    found = affine(draft, node)
    if found is None:
        return None
    value, scale, shift = found
    length, numbers = 1, scale.size + shift.size
    while (step := draft.alone(value, *AFFINE)) and (own := affine(draft, step)):
        first, second = np.asarray(scale * own[1]), np.asarray(scale * own[2] + shift)
        if first.size + second.size > numbers + own[1].size + own[2].size:
            break
        (value, scale, shift), length = (own[0], first, second), length + 1
    steps = [("mul", scale)] if (scale != 1).any() else []
    steps += [("add", shift)] if shift.any() else []
    if length < 2 and steps:
        return None
    shape = draft.shapes[node.output]
    if not steps:
        return [Node("reshape", (value,), node.outputs, {"shape": shape})]
    names = [*(draft.value(shape, "float32") for _ in steps[1:]), node.output]
    sources = [value, *names]
    return [
        Node(op, (source, draft.constant(array.astype(np.float32))), (name,))
        for (op, array), source, name in zip(steps, sources, names, strict=False)
    ]


def smaller_first(draft: Draft, node: Node) -> list[Node] | None:
    """x · s · c with c known and s smaller than x, as a norm's scale and gain are: x · (s · c)."""
    found = affine(draft, node) if node.op == "mul" else None
    made = None if found is None else draft.alone(found[0], "mul")
    if found is None or made is None or (shape := draft.shapes[made.output]) != draft.shapes[node.output]:
        return None
    for large, small in (made.inputs, made.inputs[::-1]):
        own = draft.shapes[small]
        fits = len(own) == len(shape) and broadcast_shape([own, found[1].shape]) == own
        if small not in draft.constants and draft.shapes[large] == shape and own != shape and fits:
            scale = draft.value(own, "float32")
            number = draft.constant(found[1].astype(np.float32))
            return [Node("mul", (small, number), (scale,)), Node("mul", (large, scale), node.outputs)]
    return None


def without_costly_taking(draft: Draft, node: Node) -> list[Node] | None:
    """Taking some of the inputs is the same as zero weights for the others; for narrow layers those are faster."""
    taken = draft.alone(node.inputs[0], "take") if node.op == "linear" else None
    if taken is None or taken.inputs[1] not in draft.constants or not _all_constant(draft, node):
        return None
    (left, right), axis = node.attributes["contract"], taken.attributes["axis"]
    indices, weight = draft.constants[taken.inputs[1]], draft.constants[node.inputs[1]]
    if left != (axis,) or indices.ndim != 1:
        return None
    inputs, outputs = draft.shapes[taken.inputs[0]][axis], weight.size // len(indices)
    if (inputs - len(indices)) * outputs >= TAKING * len(indices):
        return None
    wide = np.zeros([inputs if i == right[0] else size for i, size in enumerate(weight.shape)], weight.dtype)
    wide[(slice(None),) * right[0] + (indices,)] = weight
    return [Node("linear", (taken.inputs[0], draft.constant(wide), node.inputs[2]), node.outputs, node.attributes)]


def pooled_conv(draft: Draft, node: Node) -> list[Node] | None:
    """A convolution, activations and the mean over 2 × 2 squares, as one (`phases.py`)."""
    if node.op != "window_mean" or len(draft.shapes[node.output]) != 4:
        return None
    attributes = node.attributes
    if (attributes["window"], attributes["strides"]) != ((1, 1, 2, 2), (1, 1, 2, 2)) or _has_edges(attributes):
        return None
    activations, value = [], node.inputs[0]
    while step := draft.alone(value, *(UNARY | ACTIVATIONS)):
        activations.insert(0, (step.op, tuple(step.attributes.items())))
        value = step.inputs[0]
    conv = draft.alone(value, "conv")
    if conv is None or len(conv.inputs) != 3 or not _all_constant(draft, conv):
        return None
    own = conv.attributes
    plain = [own[key] == (1, 1) for key in ("strides", "dilations", "input_dilations")]
    if not all(plain) or own["groups"] != 1 or min(map(min, own["padding"])) < 0:
        return None
    joined = {"padding": own["padding"], "activations": tuple(activations)}
    return [Node("pooled_conv", conv.inputs, node.outputs, joined)]


def _has_edges(attributes: dict) -> bool:
    return any(map(any, attributes["padding"])) or any(
        size != 1 for key in ("dilations", "input_dilations") for size in attributes[key]
    )
