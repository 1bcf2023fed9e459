"""Loops and branches in ONNX. What a body takes from outside it reads by name; only what changes is passed."""

import numpy as np
from onnx import GraphProto, NodeProto, ValueInfoProto, helper

from ..structure.graph import Graph, Node
from .onnx_builder import Builder, Value, needed
from .onnx_ops import RULES, Results, cast, emit, onnx_type


def _info(builder: Builder, name: str) -> ValueInfoProto:
    sizes = [None if size < 0 else size for size in builder.shapes[name]]
    return helper.make_tensor_value_info(name, onnx_type(builder.dtypes[name]), sizes)


def _outputs(builder: Builder, values: list[Value], graph: Graph, places: list[int]) -> list[str]:
    """Names made inside the body, one for each output and no other's: the runtime wants them so."""
    found = []
    for value, place in zip(values, places, strict=True):
        found.append(builder.add("Identity", (value,), graph.shapes[place], graph.dtypes[place]))
    return found


def _body(builder: Builder, name: str, inputs: list[str], outputs: list[str], nodes: list[NodeProto]) -> GraphProto:
    kept, _ = needed(nodes, outputs)
    taken, given = ([_info(builder, each) for each in names] for names in (inputs, outputs))
    return helper.make_graph(kept, name, taken, given)


def _scan(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    graph, constants, carries = node.attributes["body"], node.attributes["constants"], node.attributes["carries"]
    first = constants + carries
    passed = [builder.new(graph.shapes[value], graph.dtypes[value]) for value in graph.inputs[constants:]]
    with builder.body() as nodes:
        values = emit(builder, graph, [*inputs[:constants], *passed])
        outputs = _outputs(builder, values, graph, list(graph.outputs))
        body = _body(builder, f"scan_{passed[0]}" if passed else "scan", passed, outputs, nodes)
    stacks = len(inputs) - first
    if not stacks:  # ONNX's Scan runs along something
        steps = np.zeros(node.attributes["length"], np.float32)
        counted = helper.make_tensor_value_info(f"{outputs[0]}_step", onnx_type("float32"), [])
        body.input.append(counted)
        inputs, stacks = [*inputs, steps], 1
    backwards = int(node.attributes["reverse"])
    names = builder.add_many(
        "Scan",
        inputs[constants:],
        results,
        body=body,
        num_scan_inputs=stacks,
        scan_input_directions=[backwards] * stacks,
        **({"scan_output_directions": [backwards] * (len(results) - carries)} if len(results) > carries else {}),
    )
    return list(names)


def _branch(builder: Builder, graph: Graph, inputs: list[Value]) -> GraphProto:
    with builder.body() as nodes:
        outputs = _outputs(builder, emit(builder, graph, inputs), graph, list(graph.outputs))
        return _body(builder, f"branch_{outputs[0]}", [], outputs, nodes)


def _cond(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    """The last branch for every higher number, the first for every lower one; If inside If where there are many."""
    return _choice(builder, list(node.attributes["branches"]), inputs, results, 0)


def _choice(builder: Builder, branches: list[Graph], inputs: list[Value], results: Results, at: int) -> list[Value]:
    if len(branches) == 1:
        return emit(builder, branches[0], inputs[1:])
    which = cast(builder, inputs[0], "int32")
    chosen = builder.add("LessOrEqual", (which, np.array(at, np.int32)), (), "bool")
    then = _branch(builder, branches[0], inputs[1:])
    with builder.body() as nodes:
        values = _choice(builder, branches[1:], inputs, results, at + 1)
        outputs = _outputs(builder, values, branches[1], list(branches[1].outputs))
        otherwise = _body(builder, f"branch_{outputs[0]}", [], outputs, nodes)
    return list(builder.add_many("If", (chosen,), results, then_branch=then, else_branch=otherwise))


def _while(builder: Builder, node: Node, inputs: list[Value], results: Results) -> list[Value]:
    first = node.attributes["condition_constants"]
    second = first + node.attributes["body_constants"]
    condition, graph, carries = node.attributes["condition"], node.attributes["body"], inputs[second:]
    (start,) = emit(builder, condition, [*inputs[:first], *carries])
    step, go_on = builder.new((), "int64"), builder.new((), "bool")
    passed = [builder.new(*result) for result in results]
    with builder.body() as nodes:
        values = emit(builder, graph, [*inputs[first:second], *passed])
        outputs = _outputs(builder, values, graph, list(graph.outputs))
        (more,) = emit(builder, condition, [*inputs[:first], *outputs])
        again = builder.add("Identity", (more,), (), "bool")
        body = _body(builder, f"loop_{step}", [step, go_on, *passed], [again, *outputs], nodes)
    names = [builder.new(*result) for result in results]
    builder.nodes.append(
        helper.make_node("Loop", ["", builder.name(start), *map(builder.name, carries)], names, body=body)
    )
    return list(names)


RULES.update({"scan": _scan, "cond": _cond, "while": _while})
