"""ONNX files: raw pixels in, the network's own probabilities out, for any batch."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest

from occamax.data import Standardise
from occamax.errors import ExportError
from occamax.export import Card, compact, to_chain
from occamax.export.onnx_file import write_onnx

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
