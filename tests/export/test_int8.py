"""Products of whole numbers: what the runtime computes, what it costs, what is refused."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from occamax.errors import ExportError
from occamax.export import exporting, onnx_products
from occamax.export.exporting import export_network, trained
from occamax.export.onnx_builder import Builder
from occamax.export.onnx_products import MOST_INT8, _in_int8
from occamax.export.predictor import open_export
from occamax.export.rounding import Rounding
from occamax.export.show import print_measured

from .samples import exportable, inputs_for

WHOLE = Rounding(bits=32, int8=True)


@pytest.fixture(autouse=True)
def _small_products_too(monkeypatch):
    monkeypatch.setattr(onnx_products, "WORTH_INT8", 24)


def by_hand(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """DynamicQuantizeLinear as ONNX defines it, and sums of whole numbers."""
    low, high = min(x.min(), 0.0), max(x.max(), 0.0)
    scale = np.float32((high - low) / 255)
    zero = np.clip(np.rint(-low / scale), 0, 255)
    numbers = np.clip(np.rint(x / scale) + zero, 0, 255) - zero
    unit = np.abs(matrix).max() / MOST_INT8
    return (numbers @ np.rint(matrix / unit)) * scale * unit


def test_a_product_is_that_of_whole_numbers():
    rng = np.random.default_rng(0)
    x, matrix = rng.normal(size=(5, 64)).astype(np.float32), rng.normal(size=(64, 32)).astype(np.float32)
    builder = Builder(int8=True)
    name = builder.input("x", (-1, 64), "float32")
    result = _in_int8(builder, name, matrix, (-1, 32), "float32")
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", size]) for n, size in (("x", 64), (result, 32))]
    graph = helper.make_graph([*builder.first, *builder.nodes], "g", ends[:1], ends[1:], builder.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    from onnxruntime import InferenceSession

    (found,) = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    np.testing.assert_allclose(found, by_hand(x, matrix), rtol=1e-4, atol=1e-4)
    error = np.abs(found - x @ matrix).mean() / np.abs(x @ matrix).mean()
    assert 1e-3 < error < 0.05


@pytest.mark.parametrize("network", ["mlp", "lenet"])
def test_a_file_in_whole_numbers_is_close_and_timed_beside_float32(network, tmp_path, capsys):
    source, path = exportable(network, keep=0.5), tmp_path / "x.onnx"
    found = export_network(source, path, "onnx", rounding=WHOLE)
    kinds = [node.op_type for node in onnx.load(path).graph.node]
    assert 0 < kinds.count("MatMulInteger") <= sum(b.kind == "matmul" for b in source.model.layout.blocks)
    inputs = inputs_for(network, 9)
    gap = np.abs(open_export(path)[0](inputs) - trained(source)(inputs))
    assert 0 < gap.mean() < exporting.PARITY_INT8
    assert set(found.milliseconds_float) == {1, 128}
    print_measured(found, path)
    assert "whole numbers in place of float32" in capsys.readouterr().out


def test_whole_numbers_and_codebooks_go_together(tmp_path):
    """One unit a layer keeps the number of different values: the file grows by the nodes alone."""
    source = exportable("mlp", keep=0.2)
    plain, path = tmp_path / "plain.onnx", tmp_path / "x.onnx"
    sizes = [
        export_network(source, plain, "onnx", rounding=Rounding(bits=3)).bytes[1],
        export_network(source, path, "onnx", rounding=Rounding(bits=3, int8=True)).bytes[1],
    ]
    assert abs(sizes[1] - sizes[0]) < 1000


def test_what_whole_numbers_spoil_is_not_written(tmp_path, monkeypatch):
    source, path = exportable("mlp"), tmp_path / "x.onnx"
    with pytest.raises(ExportError, match=r"--int8: a \.safetensors file holds weights"):
        export_network(source, tmp_path / "x.safetensors", "safetensors", rounding=WHOLE)
    monkeypatch.setattr(exporting, "PARITY_INT8", 0.0)
    with pytest.raises(ExportError, match="--int8: the file differs"):
        export_network(source, path, "onnx", rounding=WHOLE)
    assert not path.exists()
