"""The pretrained networks of the benchmarks say in Equinox what the modules of the examples say in PyTorch."""

import importlib.util
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors.numpy import load

from occamax.structure.calling import read_network
from occamax.structure.reading import read_layout

from ..tolerances import ADAPTED

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from pretrained_networks import lite0, minilm, table  # noqa: E402
from pretrained_weights import packed, rounded  # noqa: E402

STAGES = ((1, 8, 1, 1, 3), (3, 12, 2, 2, 5), (2, 12, 1, 1, 3))


def example(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shuffled(module):
    """All parameters and running statistics are different from one another, variances positive."""
    torch.manual_seed(0)
    with torch.no_grad():
        for name, value in module.state_dict().items():
            if value.is_floating_point():
                value.add_(torch.rand_like(value) if "running_var" in name else 0.1 * torch.randn_like(value))
    return module.eval()


def outputs(made, inputs):
    network, buffers, calling = read_network(made)
    return np.asarray(calling.apply(network, buffers, jax.numpy.asarray(inputs), None)[0])


def arrays_of(module):
    """By way of a file, from arrays whose memory is in another order than their axes."""
    return load(packed({name: np.asfortranarray(value.numpy()) for name, value in module.state_dict().items()}))


@pytest.mark.parametrize("side", [32, 27])
def test_efficientnet_lite0_is_that_of_the_example(side, monkeypatch):
    theirs = example("efficientnet_lite")
    monkeypatch.setattr(theirs, "STAGES", STAGES)
    module = shuffled(theirs.EfficientNetLite0(5))
    inputs = np.random.default_rng(0).normal(size=(3, 3, side, side)).astype(np.float32)
    with torch.no_grad():
        expected = module(torch.from_numpy(inputs)).numpy()
    made = lite0(arrays_of(module), 5, key=jax.random.key(0), stages=STAGES)
    assert np.abs(outputs(made, inputs) - expected).max() < ADAPTED * max(1.0, np.abs(expected).max())
    network, buffers, calling = read_network(made)
    layout = read_layout(network, buffers, calling, jax.ShapeDtypeStruct(inputs.shape[1:], inputs.dtype))
    assert layout.size == sum(value.numel() for value in module.parameters())
    assert layout.is_normalised


def test_an_output_layer_of_another_width_is_the_own_one(monkeypatch):
    theirs = example("efficientnet_lite")
    monkeypatch.setattr(theirs, "STAGES", STAGES)
    arrays, key = arrays_of(theirs.EfficientNetLite0(5)), jax.random.key(3)
    network, _ = lite0(arrays, 2, key=key, stages=STAGES)
    fresh, _ = lite0(None, 2, key=key, stages=STAGES)
    assert np.array_equal(network.out.weight, fresh.out.weight)
    assert np.array_equal(network.stem.convolution.weight, arrays["_conv_stem.weight"])
    with pytest.raises(ValueError, match=r"_conv_head.weight: \[1280, 12, 1, 1\] given; it must have shape"):
        lite0(arrays, 2, key=key, stages=STAGES[:1])


def test_minilm_is_that_of_the_example():
    theirs = example("minilm")
    module = shuffled(theirs.Encoder(3, layers=2, words=50, width=24, heads=4))
    tokens = np.random.default_rng(0).integers(1, 50, (4, theirs.LENGTH)).astype(np.int32)
    tokens[1, 9:] = tokens[2, 1:] = 0
    with torch.no_grad():
        expected = module(torch.from_numpy(tokens)).numpy()
    how = {"layers": 2, "words": 50, "width": 24, "heads": 4}
    network = minilm(arrays_of(module), 3, key=jax.random.key(0), **how)
    assert np.abs(outputs(network, tokens) - expected).max() < ADAPTED * max(1.0, np.abs(expected).max())
    network, buffers, calling = read_network(network)
    layout = read_layout(network, buffers, calling, jax.ShapeDtypeStruct(tokens.shape[1:], tokens.dtype), fixed=table)
    assert layout.size == sum(value.numel() for value in module.parameters() if value.requires_grad)
    assert layout.is_normalised


def test_what_is_rounded_has_its_gains_as_they_were():
    arrays = {"kernel": np.full((2, 3), 1 / 3, np.float32).T, "gain": np.full(3, 1e5 + 1 / 3, np.float32)}
    found = load(rounded(arrays))
    assert np.array_equal(found["gain"], arrays["gain"])
    assert found["kernel"].shape == (3, 2)
    assert np.abs(found["kernel"] - 1 / 3).max() < 2**-12
