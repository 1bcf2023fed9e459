"""A graph as an ONNX file: raw examples in, probabilities or a prediction out, any batch."""

import onnx
from onnx import helper

from ..storage.digest import NO_DIGEST, digest_of
from ..structure.graph import Graph
from . import onnx_control, onnx_layout, onnx_products  # noqa: F401, their rules
from .card import Card
from .onnx_builder import Builder, needed
from .onnx_codes import DOMAIN
from .onnx_functions import functions
from .onnx_ops import emit, onnx_type
from .packing import short_text
from .rewriting import faster, recognised

OPSET = 20  # the first with Gelu; onnxruntime runs it from 1.17 on
IR_VERSION = 9


def write_onnx(graph: Graph, card: Card, as_usual: bool = False, int8: bool = False) -> bytes:
    """The file's bytes, checked by onnx before they are given out. `as_usual`: as any exporter would write it, nothing
    packed or joined. `int8`: products with weights in whole numbers."""
    graph = recognised(graph) if as_usual else faster(graph)
    builder = Builder(packed=not as_usual, int8=int8)
    (value,), (result,) = graph.inputs, graph.outputs
    source = builder.input(card.input_name, graph.shapes[value], graph.dtypes[value])
    (found,) = emit(builder, graph, [source])
    answer = helper.make_node("Identity", [builder.name(found)], [card.output_name])
    if builder.nodes and isinstance(found, str) and builder.nodes[-1].output[0] == found:
        builder.nodes[-1].output[0] = card.output_name
    else:
        builder.nodes.append(answer)
    nodes, names = needed([*builder.first, *builder.nodes], [card.output_name])
    sizes = ["batch", *graph.shapes[value][1:]], ["batch", *graph.shapes[result][1:]]
    inputs = helper.make_tensor_value_info(card.input_name, onnx_type(graph.dtypes[value]), sizes[0])
    outputs = helper.make_tensor_value_info(card.output_name, onnx_type(graph.dtypes[result]), sizes[1])
    constants = [tensor for tensor in builder.constants if tensor.name in names]
    made = helper.make_graph(nodes, "occamax", [inputs], [outputs], constants)
    used = {node.op_type for node in nodes if node.domain == DOMAIN}
    model = helper.make_model(
        made,
        functions=functions(OPSET, used),
        opset_imports=[helper.make_opsetid("", OPSET), *([helper.make_opsetid(DOMAIN, 1)] if used else [])],
        ir_version=IR_VERSION,
        producer_name="occamax",
        producer_version=card.version,
    )
    helper.set_model_props(model, {"occamax": short_text(card.as_json()), "digest": NO_DIGEST})
    onnx.checker.check_model(model, full_check=True)
    content = model.SerializeToString()
    return content.replace(NO_DIGEST.encode(), digest_of(content).encode(), 1)
