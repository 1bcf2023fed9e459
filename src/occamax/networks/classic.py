"""The two networks that pruning papers compare on: LeNet-300-100 and LeNet-5 as Caffe has it. ReLU, no dropout."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..errors import ArgumentError
from ._parts import convolve, highest
from .mlp import MLP


def lenet_300_100(input_shape: Sequence[int], classes: int, *, key: PRNGKeyArray) -> MLP:
    """784-300-100-10: 266,610 weights on MNIST."""
    return MLP(input_shape, classes, (300, 100), activation=jax.nn.relu, key=key)


class LeNetCaffe(eqx.Module):
    """Convolutions of 20 and 50 kernels with max pooling after each, 500 hidden units: 431,080 weights on MNIST."""

    convolutions: tuple[eqx.nn.Conv2d, ...]
    hidden: eqx.nn.Linear
    head: eqx.nn.Linear

    def __init__(self, input_shape: Sequence[int], classes: int, *, key: PRNGKeyArray):
        if tuple(input_shape[1:]) != (28, 28):
            raise ArgumentError(f"input_shape: LeNet-5-Caffe takes images of 28 × 28, not {tuple(input_shape[1:])}")
        keys = jax.random.split(key, 4)
        self.convolutions = (
            eqx.nn.Conv2d(input_shape[0], 20, 5, key=keys[0]),
            eqx.nn.Conv2d(20, 50, 5, key=keys[1]),
        )
        self.hidden = eqx.nn.Linear(50 * 4 * 4, 500, key=keys[2])
        self.head = eqx.nn.Linear(500, classes, key=keys[3])

    def __call__(self, image: Float[Array, "channels 28 28"]) -> Float[Array, "classes"]:
        x = image
        for layer in self.convolutions:
            x = highest(convolve(layer, x))
        return self.head(jax.nn.relu(self.hidden(jnp.ravel(x))))
