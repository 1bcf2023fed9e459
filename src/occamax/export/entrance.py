"""The way into a network, made cheap for a runtime that picks entries slowly: what can be is done by the first layer.

Standardising an image is linear, so a first layer can do it on raw pixels. Taking some of the inputs is the same as
zero weights for the others; for narrow layers those are faster than the taking.
"""

from typing import Any

import numpy as np

from . import chain as c
from .card import Card

# Products in the time in which one entry is taken: profiled by hand (onnxruntime 1.31, one core, an MLP's 769 of 784
# inputs: 14 ns an entry; its next layer of 80 units: 0.086 ns a product)
TAKING = 160


def without_costly_taking(stages: list[Any], shape: tuple[int, int, int]) -> list[Any]:
    """Where the first layer takes some of the entries of an image of `shape`, zero weights instead if those are
    faster."""
    match stages:
        case [first, c.Take() as take, c.Affine() as layer, *rest]:
            kept, outputs, inputs = len(take.indices), len(layer.bias), shape[0] * _entries(first, shape)
            if (inputs - kept) * outputs < TAKING * kept:
                weight: Any = np.zeros((outputs, inputs), np.asarray(layer.weight).dtype)
                weight[:, np.asarray(take.indices)] = layer.weight
                return [first, c.Affine(weight, layer.bias), *rest]
    return stages


def on_raw_pixels(stages: list[Any], card: Card, shape: tuple[int, int, int]) -> list[Any] | None:
    """The same stages for an image of `shape` that was not standardised, if the first layer can do it."""
    scale, shift = 1.0 / (255.0 * np.array(card.std)), -np.array(card.mean) / np.array(card.std)  # by channel
    match stages:
        case [c.Convolution() as layer, *rest]:
            return [_scaled(layer, scale[:, None, None], shift[:, None, None]), *rest]
        case [(c.Flatten() | c.Patches()) as first, c.Affine() as layer, *rest]:
            scale, shift = (np.repeat(values, _entries(first, shape)) for values in (scale, shift))
            return [first, _scaled(layer, scale, shift), *rest]
        case [(c.Flatten() | c.Patches()) as first, c.Take() as take, c.Affine() as layer, *rest]:
            taken = (np.repeat(values, _entries(first, shape))[np.asarray(take.indices)] for values in (scale, shift))
            return [first, take, _scaled(layer, *taken), *rest]
    return None


def _entries(first: Any, shape: tuple[int, int, int]) -> int:
    """How many of each channel a layer after this stage sees at once."""
    return first.side**2 if isinstance(first, c.Patches) else shape[1] * shape[2]


def _scaled(layer: Any, scale: np.ndarray, shift: np.ndarray) -> Any:
    """The layer for inputs x that it would have seen as scale · x + shift."""
    weight, bias = np.asarray(layer.weight, np.float64), np.asarray(layer.bias, np.float64)
    moved = bias + (weight * shift).reshape(len(weight), -1).sum(1)
    return type(layer)((weight * scale).astype(layer.weight.dtype), moved.astype(layer.bias.dtype))
