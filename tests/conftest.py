"""Shapes in the types are checked while the tests run; float64 is switched on where a test asks for it."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest
from jaxtyping import install_import_hook

with install_import_hook("occamax", "beartype.beartype"):
    pass


@pytest.fixture
def x64():
    """Double precision for the length of one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def key():
    return jax.random.key(0)
