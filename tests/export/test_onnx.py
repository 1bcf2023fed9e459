"""ONNX files: raw examples in, the network's own answers out, for any batch."""

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax

from occamax.export.absorbing import TAKING
from occamax.export.card import Card
from occamax.export.exporting import arrays_of, named, trace, trained
from occamax.export.onnx_builder import steps_between
from occamax.export.onnx_file import write_onnx
from occamax.storage.digest import is_intact
from occamax.structure.compaction import compact
from occamax.structure.interpreter import evaluate
from occamax.structure.trace import trace as trace_function

from ..tolerances import SINGLE
from .samples import MAKE, exportable, inputs_for
from .test_operations import session


def bound(source):
    return trace(source).bind(arrays_of(source.model, source.believed.posterior.point, source.believed.mask))


def operations(content):
    """Those that run: what is made of constants alone is done when the file is loaded."""
    graph = onnx.load_from_string(content).graph
    reached, found = {each.name for each in graph.input}, []
    for node in graph.node:
        if reached.intersection(node.input) or node.op_type in ("If", "Loop", "Scan"):
            reached.update(node.output)
            found.append(node.op_type)
    return found


@pytest.mark.parametrize("name", MAKE)
def test_the_file_says_what_the_network_says(name):
    source = exportable(name)
    graph = bound(source)
    card = named(source, graph)
    small, _ = compact(graph)
    runners = [session(write_onnx(graph, card, as_usual=True)), session(write_onnx(small, card))]
    inputs = inputs_for(name, 7)
    expected = trained(source)(inputs)
    near = SINGLE * max(1.0, np.abs(expected).max())
    for batch in (1, 7):
        for runner in runners:
            (found,) = runner.run(None, {card.input_name: inputs[:batch]})
            assert found.shape == expected[:batch].shape
            assert np.allclose(found, expected[:batch], atol=near)
    assert np.allclose(evaluate(small, [inputs])[0], expected, atol=near)
    assert not np.allclose(expected[0], expected[1], atol=near)
    assert runners[1].get_inputs()[0].name == ("pixels" if MAKE[name][2] == "uint8" else "inputs")
    assert runners[1].get_outputs()[0].name == ("prediction" if name == "table" else "probabilities")
    assert Card.from_json(runners[1].get_modelmeta().custom_metadata_map["occamax"], "x") == card


@given(st.lists(st.integers(0, 800), max_size=20), st.integers(0, 300))
def test_a_vector_comes_back_from_its_steps(gaps, zeros_at_the_end):
    flat = np.concatenate([*([*np.zeros(gap), i + 1.0] for i, gap in enumerate(gaps)), np.zeros(zeros_at_the_end)])
    values, steps = steps_between(flat)
    assert steps.dtype == np.uint8
    back = np.zeros_like(flat)
    back[np.cumsum(steps, dtype=np.int64)] = values
    assert np.array_equal(back, flat)


def product(weight, shape=(10, 10), before=lambda x: x):
    """A graph of one product with an image of bytes, flattened."""
    return trace_function(
        lambda arrays, x: before(x.astype(np.float32)).reshape(len(x), -1) @ weight,
        [],
        jax.ShapeDtypeStruct((1, *shape), "uint8"),
    )


def test_zeros_take_no_room_in_the_file():
    rng = np.random.default_rng(0)
    weight = (rng.normal(size=(100, 300)) * (rng.random((100, 300)) < 0.05)).astype(np.float32)
    graph, card = product(weight), Card(("a",) * 300, (1, 10, 10), "uint8", "0")
    packed, plain = write_onnx(graph, card), write_onnx(graph, card, as_usual=True)
    assert len(packed) < 5 * np.count_nonzero(weight) + 3000 + 300 * 8 < len(plain) / 5
    pixels = rng.integers(0, 256, (7, 1, 10, 10)).astype(np.uint8)
    outputs = [session(content).run(None, {"pixels": pixels})[0] for content in (packed, plain)]
    assert np.array_equal(*outputs)


def test_the_digest_is_in_the_file():
    content = write_onnx(product(np.ones((100, 3), np.float32)), Card(("a", "b", "c"), (1, 10, 10), "uint8", "0"))
    digest = session(content).get_modelmeta().custom_metadata_map["digest"]
    assert is_intact(content, digest)
    assert not is_intact(content[:-1] + bytes([content[-1] ^ 1]), digest)


@pytest.mark.parametrize(("outputs", "taken"), [(3, False), (40 * TAKING, True)])
def test_inputs_are_taken_where_it_pays(outputs, taken):
    """Ten of a hundred inputs are dead: a wide layer gains by not looking at them, a narrow one does not."""
    weight = np.random.default_rng(0).normal(size=(100, outputs)).astype(np.float32)
    weight[:10] = 0.0
    small, kept = compact(product(weight))
    assert [(line.where, line.after) for line in kept[:1]] == [("inputs", 90)]
    content = write_onnx(small, Card(("a",) * outputs, (1, 10, 10), "uint8", "0"))
    assert ("Gather" in operations(content)) is taken
    pixels = np.random.default_rng(1).integers(0, 256, (3, 1, 10, 10)).astype(np.uint8)
    (found,) = session(content).run(None, {"pixels": pixels})
    assert np.allclose(found, pixels.reshape(3, -1) @ weight, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize(
    ("name", "absent"),
    [("mlp", {"Sub", "Div", "Mul"}), ("mixer", {"Sub", "Div", "Sqrt"}), ("vit", {"Sub", "Div", "Exp"})],
)
def test_the_first_layer_standardises(name, absent):
    source = exportable(name)
    graph = bound(source)
    found = set(operations(write_onnx(graph, named(source, graph)))) - ({"Mul"} if name != "mlp" else set())
    if name == "mlp":
        absent = absent - {"Mul"}  # swish is a product
    assert not found & absent
    assert name == "mlp" or "LayerNormalization" in found


def test_black_edges_are_not_standardised_away():
    """What a padded convolution sees beyond the image is zero after standardising: it stays a step of its own."""
    source = exportable("residual")
    graph = bound(source)
    steps = operations(write_onnx(graph, named(source, graph)))
    assert steps.index("Add") < steps.index("Conv")


@pytest.mark.parametrize(("name", "joined"), [("lenet", 2), ("pooled", 1), ("lenet-caffe", 0), ("grouped", 0)])
def test_a_mean_over_squares_joins_the_convolution_before_it(name, joined):
    source = exportable(name)
    graph = bound(source)
    card = named(source, graph)
    steps = operations(write_onnx(graph, card))
    pools = operations(write_onnx(graph, card, as_usual=True)).count("AveragePool")
    assert pools - steps.count("AveragePool") == joined


def test_batch_statistics_go_into_the_layers():
    source = exportable("residual")
    graph = bound(source)
    steps = operations(write_onnx(graph, named(source, graph)))
    assert not {"Sqrt", "Div", "Sub"} & set(steps)


def test_a_sum_is_not_joined_with_the_norm_after_it(tmp_path):
    """Where nothing else reads the sum, onnxruntime would do both in one operation, which is slow."""
    source = exportable("mixer")
    graph = bound(source)
    card = named(source, graph)
    joined = []
    for as_usual in (True, False):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.optimized_model_filepath = str(tmp_path / f"{as_usual}.onnx")
        onnxruntime.InferenceSession(write_onnx(graph, card, as_usual), options, providers=["CPUExecutionProvider"])
        steps = [node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node]
        joined.append(steps.count("SkipLayerNormalization"))
        assert steps.count("LayerNormalization") + joined[-1] == 3
    assert joined == [1, 0]


def response_normed(arrays, x):
    """A convolution, filter response normalisation, swish, another convolution, the mean over all places."""
    first, gain, shift, second = arrays
    x = lax.conv(x, first, (1, 1), "SAME")
    x = x * lax.rsqrt(jnp.mean(x * x, axis=(2, 3), keepdims=True) + 1e-6) * gain + shift
    return lax.conv(jax.nn.silu(x), second, (1, 1), "SAME").mean((2, 3))


def test_a_norm_over_images_scales_by_the_smaller_array():
    """Scale and gain of a channel are multiplied first; the means over places are those of images."""
    rng = np.random.default_rng(0)
    shapes = [(4, 2, 3, 3), (4, 1, 1), (4, 1, 1), (3, 4, 3, 3)]
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    graph = trace_function(response_normed, arrays, jax.ShapeDtypeStruct((2, 6, 6), "float32"))
    graph = graph.bind(dict(enumerate(arrays)))
    card = Card(("a", "b", "c"), (2, 6, 6), "float32", "0")
    contents = [write_onnx(graph, card, as_usual) for as_usual in (True, False)]
    steps = [operations(content) for content in contents]
    assert [each.count("GlobalAveragePool") for each in steps] == [0, 2]
    assert [each.count("ReduceMean") for each in steps] == [2, 0]
    small = onnx.shape_inference.infer_shapes(onnx.load_from_string(contents[1]))
    sizes = {each.name: [d.dim_value for d in each.type.tensor_type.shape.dim[1:]] for each in small.graph.value_info}
    made = [sizes.get(node.output[0]) for node in small.graph.node if node.op_type == "Mul"]
    assert made.count([4, 1, 1]) == 1
    inputs = rng.normal(size=(3, 2, 6, 6)).astype(np.float32)
    found = [session(content).run(None, {"inputs": inputs})[0] for content in contents]
    assert np.allclose(found[0], found[1], atol=1e-5)
    assert np.allclose(found[0], evaluate(graph, [inputs])[0], atol=1e-5)


def test_one_number_is_stored_once():
    source = exportable("grouped")
    graph = bound(source)
    content = write_onnx(graph, named(source, graph))
    assert "LayerNormalization" in operations(content)
    assert max(np.prod(tensor.dims) for tensor in onnx.load_from_string(content).graph.initializer) <= 6 * 4 * 4
