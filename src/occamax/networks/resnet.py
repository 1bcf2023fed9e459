"""ResNet-20 (He et al. 2016): a first convolution, three stages of three blocks at 16, 32 and 64 channels, SiLU. Images
of 32 × 32.

With filter response norm (Singh and Krishnan 2020) an example's outputs depend on no other example, which is what the
literature on Bayesian residual networks uses; with batch norm it is what most people have.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..errors import ArgumentError
from ._parts import convolve_padded


class FilterResponseNorm(eqx.Module):
    """Each channel divided by the root of its mean square over the image, then scaled and shifted."""

    gain: Float[Array, "channels 1 1"]
    shift: Float[Array, "channels 1 1"]
    epsilon: float = eqx.field(static=True)

    def __init__(self, channels: int, epsilon: float = 1e-6):
        self.gain, self.shift, self.epsilon = jnp.ones((channels, 1, 1)), jnp.zeros((channels, 1, 1)), epsilon

    def __call__(self, x: Float[Array, "channels h w"], state: Any = None) -> tuple[Float[Array, "channels h w"], Any]:
        scale = jax.lax.rsqrt(jnp.mean(x * x, axis=(1, 2), keepdims=True) + self.epsilon)
        return x * scale * self.gain + self.shift, state


class Block(eqx.Module):
    """silu(x + norm(conv(silu(norm(conv(x)))))); where the number of channels changes, the first convolution halves the
    image and a convolution of 1 × 1 takes x along."""

    first: eqx.nn.Conv2d
    second: eqx.nn.Conv2d
    norms: tuple[Any, Any]
    shortcut: eqx.nn.Conv2d | None

    def __init__(self, inputs: int, outputs: int, norm: Any, *, key: PRNGKeyArray):
        one, two, three = jax.random.split(key, 3)
        stride = 1 if inputs == outputs else 2
        self.first = eqx.nn.Conv2d(inputs, outputs, 3, stride, padding=1, use_bias=False, key=one)
        self.second = eqx.nn.Conv2d(outputs, outputs, 3, padding=1, use_bias=False, key=two)
        self.norms = norm(outputs), norm(outputs)
        self.shortcut = None if stride == 1 else eqx.nn.Conv2d(inputs, outputs, 1, stride, use_bias=False, key=three)

    def __call__(self, x: Float[Array, "inputs h w"], state: Any) -> tuple[Float[Array, "outputs h2 w2"], Any]:
        inner, state = self.norms[0](convolve_padded(self.first, x), state)
        inner, state = self.norms[1](convolve_padded(self.second, jax.nn.silu(inner)), state)
        return jax.nn.silu(inner + (x if self.shortcut is None else convolve_padded(self.shortcut, x))), state


class ResNet(eqx.Module):
    """A residual network: **widths** of the stages, each of **blocks** blocks. **norm** makes a normalisation for so
    many channels. With batch norm it is made by `eqx.nn.make_with_state` and called with the state.

    **input_shape** of one image, **classes** the number of outputs, **key** of the first weights.

    Raises:
        ArgumentError: examples that are no images (channels, height, width).

    Examples:
        >>> small = ox.ResNet((3, 8, 8), 10, widths=(4, 8), blocks=1, key=jax.random.key(0))
        >>> jax.eval_shape(small, jnp.zeros((3, 8, 8))).shape
        (10,)
    """

    first: eqx.nn.Conv2d
    norm: Any
    blocks: tuple[Block, ...]
    head: eqx.nn.Linear

    def __init__(
        self,
        input_shape: Sequence[int],
        classes: int,
        widths: Sequence[int] = (16, 32, 64),
        blocks: int = 3,
        norm: Any = FilterResponseNorm,
        *,
        key: PRNGKeyArray,
    ):
        if len(input_shape) != 3:
            raise ArgumentError(f"input_shape: a ResNet takes images (channels, height, width), not {input_shape}")
        keys = iter(jax.random.split(key, 2 + blocks * len(widths)))
        depths = [width for width in widths for _ in range(blocks)]
        pairs = zip((widths[0], *depths[:-1]), depths, strict=True)
        self.first = eqx.nn.Conv2d(input_shape[0], widths[0], 3, padding=1, use_bias=False, key=next(keys))
        self.norm = norm(widths[0])
        self.blocks = tuple(Block(inputs, outputs, norm, key=next(keys)) for inputs, outputs in pairs)
        self.head = eqx.nn.Linear(widths[-1], classes, key=next(keys))

    def __call__(self, image: Float[Array, "channels h w"], state: Any = None) -> Any:
        x, after = self.norm(convolve_padded(self.first, image), state)
        x = jax.nn.silu(x)
        for block in self.blocks:
            x, after = block(x, after)
        logits = self.head(jnp.mean(x, axis=(1, 2)))
        return logits if state is None else (logits, after)


def batch_norm(channels: int) -> eqx.nn.BatchNorm:
    return eqx.nn.BatchNorm(channels, axis_name="batch", mode="batch")


def resnet20(shape: Sequence[int], classes: int, *, key: PRNGKeyArray) -> ResNet:
    return ResNet(shape, classes, key=key)


def resnet20_batch_norm(shape: Sequence[int], classes: int, *, key: PRNGKeyArray) -> tuple[ResNet, eqx.nn.State]:
    return eqx.nn.make_with_state(ResNet)(shape, classes, norm=batch_norm, key=key)
