"""Whether a network of another library that runs on jax takes an example, told before any work is lost."""

from typing import Any

import equinox as eqx
import jax
import numpy as np

from ..errors import ArgumentError
from ..structure.calling import read_network


def check_runs(network: Any, example: Any, name: str) -> None:
    """Refuses a network that does not map a batch of such examples to a vector of outputs each, training or not."""
    found, statistics, calling = read_network(network)
    one = example_shape(example)
    batch = jax.ShapeDtypeStruct((2, *one.shape), one.dtype)
    try:
        for keys in (None, jax.random.split(jax.random.key(0), 2)):
            outputs, _ = eqx.filter_eval_shape(calling.apply, found, statistics, batch, keys)
    except Exception as error:
        raise ArgumentError(
            f"example: {name} does not take a batch of shape {batch.shape}, type {batch.dtype} "
            f"({type(error).__name__}: {error}). The example is one, without the batch axis"
        ) from error
    if len(outputs.shape) != 2:
        raise ArgumentError(f"module: {name} puts out shape {outputs.shape[1:]} for one example; it should be one axis")


def example_shape(example: Any) -> jax.ShapeDtypeStruct:
    """The shape of one example and the type that jax has it in."""
    one = example.detach().cpu().numpy() if hasattr(example, "detach") else example
    one = one if hasattr(one, "shape") and hasattr(one, "dtype") else np.asarray(one)
    narrow = {"float64": np.float32, "float16": np.float32, "int64": np.int32}
    return jax.ShapeDtypeStruct(tuple(one.shape), np.dtype(narrow.get(str(one.dtype), one.dtype)))
