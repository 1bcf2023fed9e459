"""What several networks share: convolution as one matrix product, cutting an image into patches, pooling, tokens."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

_PLAIN: ContextVar[bool] = ContextVar("plain convolutions", default=False)


@contextmanager
def plain_convolutions() -> Iterator[None]:
    """Inside, `convolve` is one convolution and no matrix product: for reading a program, not for running it."""
    token = _PLAIN.set(True)
    try:
        yield
    finally:
        _PLAIN.reset(token)


def convolve(layer: eqx.nn.Conv2d, image: Float[Array, "channels height width"]) -> Float[Array, "out height2 width2"]:
    """What `layer(image)` gives, as matrix products. Stride one, no padding, one group.

    A convolution inside a compiled loop takes XLA's slow path on the CPU; a matrix product does not. There the banded
    form is the faster one (docs/performance.md).
    """
    if _PLAIN.get():
        return layer(image)
    product = _banded if jax.default_backend() == "cpu" else _patches
    result = product(layer.weight, image)
    return result if layer.bias is None else result + layer.bias.reshape(-1, 1, 1)


def convolve_padded(
    layer: eqx.nn.Conv2d, image: Float[Array, "channels height width"]
) -> Float[Array, "out height2 width2"]:
    """What `layer(image)` gives, with its padding and stride, without a bias; all channels together, or each by itself
    (`groups` as many as there are). On the CPU as a product with patches: for kernels of 3 × 3 a gradient inside a
    compiled loop then takes a half to a tenth of the time, an evaluation a sixth or less, and the banded form is the
    slower one; of each channel by itself as a sum of shifted images, which was faster there (by hand).
    Elsewhere the library's convolution is made for this."""
    if _PLAIN.get() or jax.default_backend() != "cpu":
        return layer(image)
    padding: Any = layer.padding
    if isinstance(padding, str):
        padding = jax.lax.padtype_to_pads(image.shape[1:], layer.kernel_size, layer.stride, padding)
    product = _patches if layer.groups == 1 else _apart
    return product(layer.weight, jnp.pad(image, ((0, 0), *padding)), layer.stride)


def _shifted(image: Float[Array, "channels height width"], sides: tuple[int, ...], stride: tuple[int, ...]) -> list:
    """What each place of a kernel sees, (channels, height2, width2) of each, row by row."""
    (tall, wide), (down, right) = sides, stride
    rows, columns = (image.shape[1] - tall) // down + 1, (image.shape[2] - wide) // right + 1
    high, broad = (rows - 1) * down + 1, (columns - 1) * right + 1
    return [image[:, i : i + high : down, j : j + broad : right] for i in range(tall) for j in range(wide)]


def _apart(
    weight: Float[Array, "channels 1 tall wide"],
    image: Float[Array, "channels height width"],
    stride: tuple[int, ...] = (1, 1),
) -> Float[Array, "channels height2 width2"]:
    """Each channel under a kernel of its own: the image at each place of the kernel, times the weight there."""
    each = jnp.moveaxis(weight.reshape(len(weight), -1), 1, 0)[..., None, None]
    return reduce(
        jnp.add, [own * seen for own, seen in zip(each, _shifted(image, weight.shape[2:], stride), strict=True)]
    )


def _patches(
    weight: Float[Array, "out channels tall wide"],
    image: Float[Array, "channels height width"],
    stride: tuple[int, ...] = (1, 1),
) -> Float[Array, "out height2 width2"]:
    """Every patch under the kernel as a column, by shifted slices; one product with the kernels."""
    shifted = _shifted(image, weight.shape[2:], stride)
    rows, columns = shifted[0].shape[1:]
    patches = jnp.stack(shifted, axis=1).reshape(-1, rows * columns)
    return (weight.reshape(len(weight), -1) @ patches).reshape(-1, rows, columns)


def _banded(
    weight: Float[Array, "out channels tall wide"],
    image: Float[Array, "channels height width"],
    stride: tuple[int, ...] = (1, 1),
) -> Float[Array, "out height2 width2"]:
    """Stripes of the image, as tall as the kernel, times the kernels' banded matrix along the width."""
    out, channels, tall, wide = weight.shape
    _, height, width = image.shape
    down, right = stride
    rows, columns = (height - tall) // down + 1, (width - wide) // right + 1
    first = right * np.arange(columns)[:, None]  # the first pixel under the kernel, in each column of the result
    places = np.arange(width) - first == np.arange(wide)[:, None, None]  # wide × columns × width
    band = jnp.einsum("octk,kxw->tcwox", weight, places.astype(weight.dtype)).reshape(-1, out * columns)
    high = (rows - 1) * down + 1
    stripes = jnp.stack([image[:, i : i + high : down] for i in range(tall)], axis=1)  # channels × tall × rows × width
    stripes = stripes.transpose(2, 1, 0, 3).reshape(rows, tall * channels * width)
    return (stripes @ band).reshape(rows, out, columns).transpose(1, 0, 2)


def halve(image: Float[Array, "channels height width"]) -> Float[Array, "channels height2 width2"]:
    """Average pooling over 2 × 2 squares."""
    channels, height, width = image.shape
    return image.reshape(channels, height // 2, 2, width // 2, 2).mean((2, 4))


def highest(image: Float[Array, "channels height width"]) -> Float[Array, "channels height2 width2"]:
    """Max pooling over 2 × 2 squares."""
    channels, height, width = image.shape
    return image.reshape(channels, height // 2, 2, width // 2, 2).max((2, 4))


def cut(image: Float[Array, "channels height width"], side: int) -> Float[Array, "patches pixels"]:
    """The square patches of an image, row by row, each as one vector (channel, row, column)."""
    channels, height, width = image.shape
    grid = image.reshape(channels, height // side, side, width // side, side)
    return grid.transpose(1, 3, 0, 2, 4).reshape(-1, channels * side * side)


def per_token(layer: Callable[[Array], Array], tokens: Float[Array, "tokens width"]) -> Float[Array, "tokens out"]:
    return jax.vmap(layer)(tokens)


class Feedforward(eqx.Module):
    """Two linear layers with GELU between them, dropout after each."""

    widen: eqx.nn.Linear
    narrow: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __init__(self, width: int, hidden: int, dropout: float = 0.0, *, key: PRNGKeyArray):
        first, second = jax.random.split(key)
        self.widen = eqx.nn.Linear(width, hidden, key=first)
        self.narrow = eqx.nn.Linear(hidden, width, key=second)
        self.dropout = eqx.nn.Dropout(dropout)

    def __call__(
        self, tokens: Float[Array, "tokens width"], key: PRNGKeyArray | None = None
    ) -> Float[Array, "tokens width"]:
        first, second = split_or_none(key, 2)
        hidden = self.dropout(jax.nn.gelu(per_token(self.widen, tokens)), key=first)
        return self.dropout(per_token(self.narrow, hidden), key=second)


def split_or_none(key: PRNGKeyArray | None, count: int) -> list:
    """Keys for the dropouts of a network, or as many None when it is used without dropout."""
    return [None] * count if key is None else list(jax.random.split(key, count))
