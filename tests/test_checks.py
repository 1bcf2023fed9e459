"""The checks of shapes and types are on, in every module of the package."""

import dataclasses
import importlib
import importlib.util
import inspect
import pkgutil

import jax.numpy as jnp
import pytest
from jaxtyping import TypeCheckError

import occamax
from occamax.inference.posteriors import IndependentNormals
from occamax.inference.training import Budget
from occamax.reduction import delta_f

SKIPPED = {"occamax.__main__"}  # runs when it is imported
if importlib.util.find_spec("torchax") is None:  # need PyTorch: make test-torch
    SKIPPED |= {"occamax.interop.torch_checks", "occamax.interop.torch_program"}


def modules():
    found = pkgutil.walk_packages(occamax.__path__, "occamax.")
    return [importlib.import_module(info.name) for info in found if info.name not in SKIPPED]


def test_a_wrong_type_or_shape_is_refused():
    mean, var = jnp.zeros(3), jnp.ones(3)
    delta_f.removal(mean, var)
    with pytest.raises(TypeCheckError, match="parameter 'mean'"):
        delta_f.removal([0.0, 0.0, 0.0], var)
    with pytest.raises(TypeCheckError, match="parameter 'mean'"):
        delta_f.removal(jnp.zeros(3, int), var)
    with pytest.raises(TypeCheckError, match="parameter 'covariance'"):
        delta_f.dense(mean, jnp.ones((3, 2)))
    with pytest.raises(TypeCheckError, match="log_std"):
        IndependentNormals(mean, jnp.ones(4))
    with pytest.raises(TypeCheckError, match="epochs"):
        Budget(epochs="3")


def test_a_whole_number_is_a_float():
    assert delta_f.removal(jnp.zeros(3), jnp.ones(3), 1).shape == (3,)


def test_as_a_user_has_it_nothing_is_checked(unchecked):
    assert delta_f.removal(jnp.zeros(3, int), jnp.ones(3)).shape == (3,)


def test_every_function_of_the_package_is_checked():
    """Each public function and class of every module carries the mark of the checker."""
    checked = 0
    for module in modules():
        for name, value in vars(module).items():
            if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
                continue
            if inspect.isfunction(value):
                assert hasattr(value, "__wrapped__") or not value.__annotations__, f"{module.__name__}.{name}"
                checked += 1
            elif dataclasses.is_dataclass(value) and isinstance(value, type):
                checked += 1
    assert checked > 200
