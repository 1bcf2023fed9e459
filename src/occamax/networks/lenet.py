"""LeNet-5: three 5 × 5 convolutions with average pooling between them, two linear layers, tanh. Images of 32 × 32."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..errors import ArgumentError
from ._parts import convolve, halve


class LeNet(eqx.Module):
    """LeNet-5 with tanh: three 5 × 5 convolutions of so many **channels**, mean pooling, a linear layer of **hidden**
    units with **dropout**, a linear output layer.

    **input_shape** (channels, 32, 32), **classes** the number of outputs, **key** of the first weights.

    Raises:
        ArgumentError: images of another size than 32 × 32.

    Examples:
        >>> network = ox.LeNet((1, 32, 32), 10, key=jax.random.key(0))
        >>> jax.eval_shape(network, jnp.zeros((1, 32, 32))).shape
        (10,)
    """

    convolutions: tuple[eqx.nn.Conv2d, ...]
    hidden: eqx.nn.Linear
    head: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __init__(
        self,
        input_shape: Sequence[int],
        classes: int,
        channels: Sequence[int] = (6, 16, 120),
        hidden: int = 84,
        dropout: float = 0.0,
        *,
        key: PRNGKeyArray,
    ):
        if tuple(input_shape[1:]) != (32, 32):
            raise ArgumentError(f"input_shape: LeNet takes images of 32 × 32, not {tuple(input_shape[1:])}; pad them")
        keys = jax.random.split(key, 5)
        depths = (input_shape[0], *channels)
        pairs = zip(depths[:-1], depths[1:], keys[:3], strict=True)
        self.convolutions = tuple(eqx.nn.Conv2d(inputs, outputs, 5, key=k) for inputs, outputs, k in pairs)
        self.hidden = eqx.nn.Linear(channels[-1], hidden, key=keys[3])
        self.head = eqx.nn.Linear(hidden, classes, key=keys[4])
        self.dropout = eqx.nn.Dropout(dropout)

    def __call__(
        self, image: Float[Array, "channels 32 32"], key: PRNGKeyArray | None = None
    ) -> Float[Array, "classes"]:
        first, second, third = self.convolutions
        x = halve(jnp.tanh(convolve(first, image)))
        x = halve(jnp.tanh(convolve(second, x)))
        x = jnp.tanh(convolve(third, x)).ravel()
        return self.head(self.dropout(jnp.tanh(self.hidden(x)), key=key))
