"""A chain as an ONNX graph: raw pixels in, class probabilities out, any batch. Built with onnx's own helpers.

Arrays that are mostly zero are stored as their other values and the steps between them, five bytes a value. The graph
spreads them out from constants alone, which onnxruntime does once, when it loads the file: what runs is dense.
"""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..errors import ExportError
from ..storage.digest import NO_DIGEST, digest_of
from . import chain as c
from .card import Card
from .entrance import on_raw_pixels, without_costly_taking
from .phases import PLACES, PooledConvolution, mean_of_places, padding, with_phases

OPSET = 20  # the first with Gelu; onnxruntime runs it from 1.17 on
IR_VERSION = 9
LONGEST = 255  # step between two values of a packed array
OVERHEAD = 600  # bytes of the nodes that spread one packed array out


class Graph:
    """Collects nodes and constants while a chain is walked."""

    def __init__(self, image_shape: tuple[int, int, int], sparse: bool = True):
        self.image_shape = image_shape  # after padding
        self.sparse = sparse
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, value: Any) -> str:
        """An array; one that is mostly zero is packed, if the graph is to be `sparse`."""
        array = np.asarray(value, order="C")
        if self.sparse and array.dtype == np.float32:
            values, steps = steps_between(array.ravel())
            if values.nbytes + steps.nbytes + OVERHEAD < array.nbytes:
                return self._spread(values, steps, array.shape)
        return self._stored(array)

    def _stored(self, array: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def _spread(self, values: np.ndarray, steps: np.ndarray, shape: tuple[int, ...]) -> str:
        size = self._stored(np.array([np.prod(shape)], np.int64))
        wide = self.add("Cast", self._stored(steps), to=TensorProto.INT64)
        places = self.add("CumSum", wide, self._stored(np.array(0, np.int64)))
        spread = self.add("ScatterElements", self.add("ConstantOfShape", size), places, self._stored(values), axis=0)
        return self.shape(spread, *shape)

    def add(self, operation: str, *inputs: str, **attributes: Any) -> str:
        name = f"x{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, list(inputs), [name], **attributes))
        return name

    def shape(self, x: str, *sizes: int) -> str:
        return self.add("Reshape", x, self.constant(np.array(sizes, np.int64)))

    def product(self, x: str, weight: Any, bias: Any) -> str:
        """x Wᵀ + b over the last axis."""
        product = self.add("MatMul", x, self.constant(np.asarray(weight).T))
        return self.add("Add", product, self.constant(bias)) if np.any(bias) else product


def steps_between(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The values of a vector that are not zero, and the step from each to the next as one byte; where a step is longer,
    a zero on the way is counted as a value."""
    places = np.flatnonzero(flat)
    gaps = np.diff(places, prepend=0)
    stops = np.maximum(gaps - 1, 0) // LONGEST  # zeros to stand on before each value
    ends = np.cumsum(stops + 1) - 1
    values, steps = np.zeros(len(places) + stops.sum(), flat.dtype), np.full(len(places) + stops.sum(), LONGEST)
    values[ends], steps[ends] = flat[places], gaps - stops * LONGEST
    return values, steps.astype(np.uint8)


def write_onnx(chain: c.Chain, card: Card, sparse: bool = True, joined: bool = True) -> bytes:
    """The file's bytes. The graph is checked by onnx before it is given out. `sparse` leaves zeros out of it, `joined`
    makes one of a convolution and the mean over squares after it."""
    channels, height, width = card.input_shape
    graph = Graph((channels, height + 2 * card.pad, width + 2 * card.pad), sparse)
    stages = without_costly_taking(list(chain.stages), graph.image_shape)
    raw = on_raw_pixels(stages, card, graph.image_shape)
    x = _prepare(graph, card, standardise=raw is None)
    for stage in with_phases(raw or stages) if joined else raw or stages:
        x = _emit(graph, stage, x)
    graph.add("Softmax", x, axis=-1)
    graph.nodes[-1].output[0] = "probabilities"
    pixels = helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["batch", *card.input_shape])
    outputs = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", len(card.class_names)])
    made = helper.make_graph(graph.nodes, "occamax", [pixels], [outputs], graph.constants)
    model = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="occamax",
        producer_version=card.version,
    )  # fmt: skip
    helper.set_model_props(model, {"occamax": card.as_json(), "digest": NO_DIGEST})
    onnx.checker.check_model(model, full_check=True)
    content = model.SerializeToString()
    return content.replace(NO_DIGEST.encode(), digest_of(content).encode(), 1)


def _prepare(graph: Graph, card: Card, standardise: bool) -> str:
    """Bytes → floats, padded, and standardised unless the first layer does it: what the network was trained on."""
    x = graph.add("Cast", "pixels", to=TensorProto.FLOAT)
    if card.pad:
        pads = np.array([0, 0, card.pad, card.pad] * 2, np.int64)
        x = graph.add("Pad", x, graph.constant(pads), graph.constant(np.float32(0.0)))
    if not standardise:
        return x
    mean, std = (np.array(values, np.float32).reshape(-1, 1, 1) for values in (card.mean, card.std))
    x = graph.add("Mul", x, graph.constant((1.0 / (255.0 * std)).astype(np.float32)))
    return graph.add("Add", x, graph.constant((-mean / std).astype(np.float32)))


def _emit(graph: Graph, stage: Any, x: str) -> str:
    match stage:
        case c.Affine():
            return graph.product(x, stage.weight, stage.bias)
        case c.Convolution():
            return graph.add("Conv", x, graph.constant(stage.weight), graph.constant(stage.bias))
        case PooledConvolution():
            return _pooled(graph, stage, x)
        case c.Activation():
            return _activation(graph, stage.name, x)
        case c.Pool():
            operation = "AveragePool" if stage.kind == "mean" else "MaxPool"
            return graph.add(operation, x, kernel_shape=[2, 2], strides=[2, 2])
        case c.Flatten():
            return graph.add("Flatten", x, axis=1)
        case c.Take():
            return graph.add("Gather", x, graph.constant(np.asarray(stage.indices, np.int64)), axis=-1)
        case c.Norm():
            gain, bias = graph.constant(stage.gain), graph.constant(stage.bias)
            return graph.add("LayerNormalization", x, gain, bias, axis=-1, epsilon=stage.epsilon)
        case c.FirstToken():
            return graph.add("Gather", x, graph.constant(np.int64(0)), axis=1)
        case c.MeanToken():
            return graph.add("ReduceMean", x, graph.constant(np.array([1], np.int64)), keepdims=0)
        case c.Chain():
            for inner in stage.stages:
                x = _emit(graph, inner, x)
            return x
        case c.Residual():
            return graph.add("Add", x, _emit(graph, stage.inner, x))
        case c.Shift():
            return graph.add("Add", x, graph.constant(stage.value))
        case c.OverTokens():
            turned = graph.add("Transpose", x, perm=[0, 2, 1])
            return graph.add("Transpose", _emit(graph, stage.inner, turned), perm=[0, 2, 1])
        case c.Patches():
            return _patches(graph, stage, x)
        case c.Tokens():
            return _tokens(graph, stage, x)
        case c.Attention():
            return _attention(graph, stage, x)
    raise ExportError(f"network: a stage {type(stage).__name__} has no form in ONNX")


def _pooled(graph: Graph, stage: PooledConvolution, x: str) -> str:
    """The filters of the four places are made from one, by constants alone."""
    weight, bias = graph.constant(stage.layer.weight), np.asarray(stage.layer.bias)
    filters = [graph.add("Pad", weight, graph.constant(padding(place))) for place in PLACES]
    x = graph.add(
        "Conv", x, graph.add("Concat", *filters, axis=0), graph.constant(np.tile(bias, len(PLACES))), strides=[2, 2]
    )
    for activation in stage.activations:
        x = _emit(graph, activation, x)
    return graph.add("Conv", x, graph.constant(mean_of_places(len(bias))))


def _activation(graph: Graph, name: str, x: str) -> str:
    if name == "swish":
        return graph.add("Mul", x, graph.add("Sigmoid", x))
    if name == "gelu":
        return graph.add("Gelu", x, approximate="tanh")
    return graph.add({"tanh": "Tanh", "relu": "Relu", "sigmoid": "Sigmoid"}[name], x)


def _patches(graph: Graph, stage: c.Patches, x: str) -> str:
    """A 0 in a shape copies the size that is there: the batch."""
    channels, height, width = graph.image_shape
    side = stage.side
    cut = graph.shape(x, 0, channels, height // side, side, width // side, side)
    turned = graph.add("Transpose", cut, perm=[0, 2, 4, 1, 3, 5])
    return graph.shape(turned, 0, (height // side) * (width // side), channels * side * side)


def _tokens(graph: Graph, stage: c.Tokens, x: str) -> str:
    """The first token, once for each example of the batch."""
    first, positions = np.asarray(stage.first), np.asarray(stage.positions)
    size = graph.add("Shape", x, start=0, end=1)
    shape = graph.add("Concat", size, graph.constant(np.array(first.shape, np.int64)), axis=0)
    repeated = graph.add("Expand", graph.constant(first), shape)
    return graph.add("Add", graph.add("Concat", repeated, x, axis=1), graph.constant(positions))


def _attention(graph: Graph, stage: c.Attention, x: str) -> str:
    heads = len(stage.query)

    def project(weight: Any, bias: Any, perm: list[int], factor: float = 1.0) -> str:
        depth = weight.shape[1]
        flat = graph.product(x, factor * np.asarray(weight).reshape(heads * depth, -1), factor * np.ravel(bias))
        return graph.add("Transpose", graph.shape(flat, 0, -1, heads, depth), perm=perm)

    query = project(stage.query, stage.query_bias, [0, 2, 1, 3], stage.scale)
    key = project(stage.key, stage.key_bias, [0, 2, 3, 1])
    value = project(stage.value, stage.value_bias, [0, 2, 1, 3])
    shares = graph.add("Softmax", graph.add("MatMul", query, key), axis=-1)
    mixed = graph.add("Transpose", graph.add("MatMul", shares, value), perm=[0, 2, 1, 3])
    inner = stage.value.shape[1]
    out = np.asarray(stage.out).transpose(1, 0, 2).reshape(-1, heads * inner)
    return graph.product(graph.shape(mixed, 0, -1, heads * inner), out, stage.out_bias)
