"""The functions that a file of ours brings along: how an array is unfolded, said once for all arrays. onnxruntime puts
their nodes in their place when it loads the file, and computes them there and then."""

from typing import Any

import onnx
from onnx import helper

from .onnx_codes import DENSE, DIGITS, DOMAIN, SPARSE

INT64, FLOAT = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT

# A line a node: result = operation, inputs. In the file every name is a letter.
_DIGITS = """
    wide = Cast words
    pieces = Div wide powers
    small = Mod pieces base
    flat = Reshape small all
    digits = Slice flat first count
"""
_DENSE = """
    codes = digits words powers base count
    values = Cast book
    flat = Gather values codes
    array = Reshape flat shape
"""
_SPARSE = """
    codes = digits words powers base count
    steps = digits words2 powers2 base2 count2
    n0 = Sub base2 base2
    n1 = Div base2 base2
    most = Sub base2 n1
    longer = Add steps n1
    far = Min longer most
    ends = CumSum far n0
    places = Sub ends n1
    real = Less steps most
    stands = Cast real
    counted = CumSum stands n0
    which = Mul counted stands
    own = Gather codes which
    values = Cast book
    these = Gather values own
    size = ReduceProd shape
    empty = ConstantOfShape size
    spread = ScatterElements empty places these
    array = Reshape spread shape
"""
_INPUTS = "words", "powers", "base", "count"


def functions(opset: int, used: set[str]) -> list[onnx.FunctionProto]:
    """Those that are called, and what they call."""
    every = (
        (DIGITS, _INPUTS, "digits", _DIGITS),
        (DENSE, (*_INPUTS, "book", "shape"), "array", _DENSE),
        (SPARSE, (*_INPUTS, *(f"{name}2" for name in _INPUTS), "book", "shape"), "array", _SPARSE),
    )
    wanted = used | ({DIGITS} if used else set())
    return [_function(opset, *each) for each in every if each[0] in wanted]


def _function(opset: int, name: str, inputs: tuple[str, ...], output: str, body: str) -> onnx.FunctionProto:
    letters: dict[str, str] = {}

    def named(*names: str) -> list[str]:
        return [letters.setdefault(each, chr(ord("a") + len(letters))) for each in names]

    given = named(*inputs)
    nodes = []
    if name == DIGITS:
        numbers = {"first": 0, "all": -1}
        nodes = [helper.make_node("Constant", [], named(each), value_ints=[own]) for each, own in numbers.items()]
    for line in body.strip().splitlines():
        result, _, rest = line.strip().partition(" = ")
        operation, *taken = rest.split()
        domain = DOMAIN if operation == DIGITS else ""
        attributes: dict[str, Any] = {"to": FLOAT if taken == ["book"] else INT64} if operation == "Cast" else {}
        nodes.append(helper.make_node(operation, named(*taken), named(result), domain=domain, **attributes))
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_function(DOMAIN, name, given, named(output), nodes, imports)
