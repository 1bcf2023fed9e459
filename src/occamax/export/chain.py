"""A network as a chain of stages: what compaction works on and what is written to files.

Every stage is an Equinox module that maps one example; a `Chain` of them is an ordinary Equinox module. Weights are
stored as (outputs, inputs). Nothing here knows how the network was trained.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..networks import cut, halve, highest

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "swish": jax.nn.swish,
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,
    "sigmoid": jax.nn.sigmoid,
}
POOLS = {"mean": halve, "max": highest}


class Stage(eqx.Module):
    """Base of all stages."""

    @abstractmethod
    def __call__(self, x: Array) -> Array:
        """One example, or what the stage before made of it."""


class Affine(Stage):
    """Over the last axis: W x + b."""

    weight: Float[Array, "out in"]
    bias: Float[Array, "out"]

    def __call__(self, x):
        return x @ self.weight.T + self.bias


class Convolution(Stage):
    """Stride one, no padding, one group."""

    weight: Float[Array, "out in tall wide"]
    bias: Float[Array, "out"]

    def __call__(self, x):
        found = jax.lax.conv_general_dilated(x[None], self.weight, (1, 1), "VALID")[0]
        return found + self.bias[:, None, None]


class Activation(Stage):
    name: str = eqx.field(static=True)

    def __call__(self, x):
        return ACTIVATIONS[self.name](x)


class Pool(Stage):
    """Over 2 × 2 squares, the "mean" or the "max"."""

    kind: str = eqx.field(static=True)

    def __call__(self, x):
        return POOLS[self.kind](x)


class Flatten(Stage):
    def __call__(self, x):
        return x.ravel()


class Take(Stage):
    """Some of the entries of the last axis."""

    indices: Int[Array, "kept"]

    def __call__(self, x):
        return jnp.take(x, self.indices, axis=-1)


class Patches(Stage):
    """An image → its square patches, row by row, each as one vector (channel, row, column)."""

    side: int = eqx.field(static=True)

    def __call__(self, x):
        return cut(x, self.side)


class Tokens(Stage):
    """Puts a token before the others and adds positions to all."""

    first: Float[Array, "1 width"]
    positions: Float[Array, "tokens width"]

    def __call__(self, x):
        return jnp.concatenate([self.first, x]) + self.positions


class Norm(Stage):
    """Zero mean and unit deviation over the last axis, then a gain and a bias."""

    gain: Float[Array, "width"]
    bias: Float[Array, "width"]
    epsilon: float = eqx.field(static=True)

    def __call__(self, x):
        mean = x.mean(-1, keepdims=True)
        var = jnp.mean((x - mean) ** 2, -1, keepdims=True)
        return (x - mean) / jnp.sqrt(var + self.epsilon) * self.gain + self.bias


class Attention(Stage):
    """Self-attention. Each head has its own query, key and value matrices; `scale` multiplies the products."""

    query: Float[Array, "heads depth width"]
    query_bias: Float[Array, "heads depth"]
    key: Float[Array, "heads depth width"]
    key_bias: Float[Array, "heads depth"]
    value: Float[Array, "heads inner width"]
    value_bias: Float[Array, "heads inner"]
    out: Float[Array, "heads width inner"]
    out_bias: Float[Array, "width"]
    scale: float = eqx.field(static=True)

    def __call__(self, x):
        query, key, value = (
            jnp.einsum("tw,hdw->htd", x, weight) + bias[:, None]
            for weight, bias in (
                (self.query, self.query_bias),
                (self.key, self.key_bias),
                (self.value, self.value_bias),
            )
        )
        shares = jax.nn.softmax(self.scale * jnp.einsum("htd,hsd->hts", query, key))
        return jnp.einsum("hts,hsd,hwd->tw", shares, value, self.out) + self.out_bias


class FirstToken(Stage):
    def __call__(self, x):
        return x[0]


class MeanToken(Stage):
    def __call__(self, x):
        return x.mean(0)


class Chain(Stage):
    stages: tuple[Any, ...]

    def __call__(self, x):
        for stage in self.stages:
            x = stage(x)
        return x


class Residual(Stage):
    """x + inner(x)."""

    inner: Chain

    def __call__(self, x):
        return x + self.inner(x)


class Shift(Stage):
    """Adds a constant."""

    value: Float[Array, "..."]

    def __call__(self, x):
        return x + self.value


class OverTokens(Stage):
    """The inner chain over the axis of tokens in place of the last."""

    inner: Chain

    def __call__(self, x):
        return self.inner(x.T).T


STAGES: dict[str, type[Stage]] = {
    kind.__name__: kind
    for kind in (
        Affine, Convolution, Activation, Pool, Flatten, Take, Patches, Tokens, Norm, Attention, FirstToken, MeanToken,
        Chain, Residual, Shift, OverTokens,
    )
}  # fmt: skip
