"""The few lines that docs/start/pytorch.md shows, run as they stand, on little data."""

import functools
import re
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest

import occamax as ox

from ..tolerances import ADAPTED

ROOT = Path(__file__).parents[2]
PAGE, README = ((ROOT / name).read_text() for name in ("docs/start/pytorch.md", "README.md"))
GENERATOR = np.random.default_rng(0)
IMAGES, LABELS = GENERATOR.normal(size=(40, 5)).astype(np.float32), GENERATOR.integers(0, 2, 40)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def lines_of(title):
    """The code under a heading."""
    return re.search(rf"^## {title}\n.*?```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)[1]


@pytest.fixture
def run(monkeypatch):
    small = functools.partial(ox.fit, epochs=2, steps_per_epoch=2, batch_size=8, num_samples=2)
    monkeypatch.setattr(ox, "fit", small, raising=False)

    def run(title, **names):
        code = lines_of(title)
        assert len([line for line in code.splitlines() if line]) <= 5
        found = {"images": IMAGES, "labels": LABELS, **names}
        exec(code, found)
        return found

    return run


def test_equinox(run):
    layers = [eqx.nn.Linear(5, 8, key=jax.random.key(0)), eqx.nn.Lambda(jax.nn.relu)]
    network = eqx.nn.Sequential([*layers, eqx.nn.Linear(8, 2, key=jax.random.key(1))])
    first = run("Equinox", network=network)["pruned"].layers[0]
    assert int((first.weight == 0).sum()) + int((first.bias == 0).sum()) == 24


def test_flax(run):
    nnx = pytest.importorskip("flax.nnx", reason="flax is not installed: make test-torch")
    module = nnx.Sequential(nnx.Linear(5, 8, rngs=nnx.Rngs(0)), nnx.relu, nnx.Linear(8, 2, rngs=nnx.Rngs(1)))
    assert lines_of("Flax NNX").split("\n\n")[1] in README
    found = run("Flax NNX", module=module)
    first = found["pruned"].layers[0]
    assert int((first.kernel[...] == 0).sum()) + int((first.bias[...] == 0).sum()) == 24
    assert np.abs(found["pruned"](IMAGES) - jax.vmap(found["fitted"].network)(IMAGES)).max() < ADAPTED


def test_pytorch(run):
    torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
    pytest.importorskip("torchax", reason="torchax is not installed: make test-torch")
    module = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    assert lines_of("PyTorch").split("\n\n")[1] in README
    pruned = run("PyTorch", module=module)["pruned"]
    assert sum(int((parameter == 0).sum()) for parameter in pruned[0].parameters()) == 24
    assert type(pruned) is type(module)
