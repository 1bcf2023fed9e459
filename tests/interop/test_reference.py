"""The examples of the reference that need another library; where it is not installed, they skip."""

import jax
import numpy as np
import pytest

import occamax as ox

from .. import reference

LIBRARIES = {"torch": "torch", "vector": "torch", "flax": "flax", "haiku": "haiku"}


@pytest.mark.parametrize("name", sorted(reference.OTHERS))
def test_its_example_runs(name):
    pytest.importorskip(LIBRARIES[name.rpartition("_")[2]])
    space = {"ox": ox, "np": np, "jax": jax, "x": np.zeros((300, 8), np.float32)}
    wrong = reference.run(f"ox.{name}", space)
    assert not wrong, wrong
