"""Multi-layer perceptron: the paper's has five hidden layers of 400, swish."""

import math
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from ._parts import split_or_none


class MLP(eqx.Module):
    """A multi-layer perceptron: the input flattened, **hidden** layers of these widths with **activation** (swish) and
    **dropout** after each, a linear output layer.

    **input_shape** of one example, **classes** the number of outputs, **key** of the first weights. An example of that
    shape in, (classes,) out.

    Examples:
        >>> network = ox.MLP((1, 28, 28), 10, hidden=(300, 100), key=jax.random.key(0))
        >>> network(jnp.zeros((1, 28, 28))).shape
        (10,)
    """

    layers: tuple[eqx.nn.Linear, ...]
    dropout: eqx.nn.Dropout
    activation: Callable[[Array], Array] = eqx.field(static=True)

    def __init__(
        self,
        input_shape: Sequence[int],
        classes: int,
        hidden: Sequence[int] = (400,) * 5,
        dropout: float = 0.0,
        activation: Callable[[Array], Array] = jax.nn.swish,
        *,
        key: PRNGKeyArray,
    ):
        sizes = (math.prod(input_shape), *hidden, classes)
        keys = jax.random.split(key, len(sizes) - 1)
        pairs = zip(sizes[:-1], sizes[1:], keys, strict=True)
        self.layers = tuple(eqx.nn.Linear(inputs, outputs, key=k) for inputs, outputs, k in pairs)
        self.dropout = eqx.nn.Dropout(dropout)
        self.activation = activation

    def __call__(self, image: Float[Array, "..."], key: PRNGKeyArray | None = None) -> Float[Array, "classes"]:
        x = image.ravel()
        for layer, k in zip(self.layers[:-1], split_or_none(key, len(self.layers) - 1), strict=True):
            x = self.dropout(self.activation(layer(x)), key=k)
        return self.layers[-1](x)
