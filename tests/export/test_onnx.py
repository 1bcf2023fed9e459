"""ONNX files: raw pixels in, the network's own probabilities out, for any batch."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from occamax.data import Standardise
from occamax.errors import ExportError
from occamax.export import Card, compact, to_chain
from occamax.export.chain import Activation, Affine, Chain, Convolution, Flatten, Pool, Take
from occamax.export.entrance import on_raw_pixels, without_costly_taking
from occamax.export.onnx_file import steps_between, write_onnx
from occamax.export.phases import PooledConvolution, with_phases

from .test_compact import MAKE, masked


def session(data):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    ("name", "small"),
    [(name, True) for name in MAKE if name != "equinox mlp"] + [("vit", False)],
)
def test_the_file_says_what_the_network_says(name, small):
    make, shape = MAKE[name]
    key = jax.random.key(3)
    network = eqx.nn.inference_mode(masked(make(key), key, 0.3, 0.3, 0.4))
    pad = 2 if shape[-1] == 32 else 0
    raw_shape = (shape[0], shape[1] - 2 * pad, shape[2] - 2 * pad)
    mean, std = tuple(0.1 * i + 0.3 for i in range(shape[0])), tuple(0.2 + 0.05 * i for i in range(shape[0]))
    chain = to_chain(network)
    chain = compact(chain)[0] if small else chain
    classes = np.asarray(chain(jnp.zeros(shape))).size
    card = Card(tuple(f"class {i}" for i in range(classes)), raw_shape, mean, std, pad, "0.0")
    runner = session(write_onnx(chain, card))
    prepare = Standardise(mean, std, pad)
    for batch in (1, 5):
        pixels = np.random.default_rng(0).integers(0, 256, (batch, *raw_shape), np.uint8)
        (found,) = runner.run(None, {"pixels": pixels})
        expected = jax.jit(jax.vmap(lambda x: jax.nn.softmax(network(prepare(x)))))(jnp.asarray(pixels))
        assert found.shape == (batch, classes)
        assert np.allclose(found, expected, atol=1e-5)
    assert Card.from_json(runner.get_modelmeta().custom_metadata_map["occamax"], "x") == card


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "class_names": 3}'])
def test_what_is_no_card_is_named(text):
    with pytest.raises(ExportError, match=r"file\.onnx"):
        Card.from_json(text, "file.onnx")


@given(st.lists(st.integers(0, 800), max_size=20), st.integers(0, 300))
def test_a_vector_comes_back_from_its_steps(gaps, zeros_at_the_end):
    flat = np.concatenate([*([*np.zeros(gap), i + 1.0] for i, gap in enumerate(gaps)), np.zeros(zeros_at_the_end)])
    values, steps = steps_between(flat)
    assert steps.dtype == np.uint8
    back = np.zeros_like(flat)
    back[np.cumsum(steps, dtype=np.int64)] = values
    assert np.array_equal(back, flat)


def test_zeros_take_no_room_in_the_file():
    make, shape = MAKE["lenet-300-100"]
    key = jax.random.key(3)
    chain = to_chain(masked(make(key), key, 0.0, 0.0, 0.95))
    card = Card(tuple("abcd"), shape, (0.3,), (0.2,), 0, "0.0")
    packed, plain = write_onnx(chain, card), write_onnx(chain, card, sparse=False)
    assert len(packed) < len(plain) / 2
    pixels = np.random.default_rng(0).integers(0, 256, (7, *shape), np.uint8)
    outputs = [session(content).run(None, {"pixels": pixels})[0] for content in (packed, plain)]
    assert np.array_equal(*outputs)


@pytest.mark.parametrize(("outputs", "taken"), [(3, False), (3000, True)])
def test_inputs_are_taken_where_it_pays(outputs, taken):
    """Ten of a hundred inputs are dead: a wide layer gains by not looking at them, a narrow one does not."""
    rng = np.random.default_rng(0)
    indices = np.arange(90) + 10
    layer = Affine(rng.normal(size=(outputs, 90)), rng.normal(size=outputs))
    stages = [Flatten(), Take(indices), layer]
    found = without_costly_taking(stages, (1, 10, 10))
    assert any(isinstance(stage, Take) for stage in found) == taken
    x = rng.normal(size=(1, 10, 10))
    assert np.allclose(Chain(tuple(found))(x), Chain(tuple(stages))(x), atol=1e-4)
    card = Card(("a",), (1, 10, 10), (0.3,), (0.2,), 0, "0.0")
    raw = on_raw_pixels(found, card, (1, 10, 10))
    assert np.allclose(Chain(tuple(raw))(255 * (0.2 * x + 0.3)), Chain(tuple(stages))(x), atol=1e-4)


@pytest.mark.parametrize("size", [(8, 9), (12, 7)])
@pytest.mark.parametrize("between", [["tanh"], [], ["relu", "tanh"]])
def test_a_mean_over_squares_joins_the_convolution_before_it(size, between):
    rng = np.random.default_rng(0)
    filters = [rng.normal(size=(3, 2, 3, 2)), rng.normal(size=(5, 3, 2, 2))]
    layers = [Convolution(w.astype(np.float32), rng.normal(size=len(w)).astype(np.float32)) for w in filters]
    stages = [layers[0], *map(Activation, between), Pool("mean"), layers[1], Activation("tanh"), Flatten()]
    (first, *rest) = with_phases(stages)
    assert isinstance(first, PooledConvolution)
    assert rest == stages[-3:]
    card = Card(tuple("abcd"), (2, *size), (0.3, 0.4), (0.2, 0.1), 0, "0.0")
    shape = Chain(tuple(stages))(np.zeros((2, *size), np.float32)).shape
    stages.append(Affine(rng.normal(size=(4, *shape)).astype(np.float32), np.zeros(4, np.float32)))
    pixels = rng.integers(0, 256, (3, 2, *size)).astype(np.uint8)
    plain, ours = (
        session(write_onnx(Chain(tuple(stages)), card, joined=joined)).run(None, {"pixels": pixels})[0]
        for joined in (False, True)
    )
    assert np.allclose(ours, plain, atol=1e-5)
    assert not np.allclose(ours[0], ours[1], atol=1e-3)


def test_a_maximum_stays_as_it_is():
    rng = np.random.default_rng(0)
    layer = Convolution(rng.normal(size=(3, 2, 3, 2)), rng.normal(size=3))
    for stages in ([layer, Pool("max")], [layer, Flatten()], [Pool("mean"), layer], [layer, Pool("max"), Pool("mean")]):
        assert with_phases(stages) == stages
