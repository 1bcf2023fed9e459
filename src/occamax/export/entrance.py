"""The way into a network, made cheap for a runtime that picks entries slowly: what can be is done by the first layer.

Standardising an image is linear, so a first layer can do it on raw pixels. Taking some of the inputs is the same as
zero weights for the others; for narrow layers those are faster than the taking.
"""

from typing import Any

import numpy as np

from . import chain as c
from .card import Card

# Products in the time in which one entry is taken (onnxruntime 1.31, one core, an MLP's 769 of 784 inputs: 14 ns an
# entry; its next layer of 80 units: 0.086 ns a product)
TAKING = 160


def without_costly_taking(stages: list[Any], inputs: int) -> list[Any]:
    """Where a layer follows that takes some of `inputs` entries, zero weights instead if those are faster."""
    match stages:
        case [first, c.Take() as take, c.Affine() as layer, *rest]:
            kept, outputs = len(take.indices), len(layer.bias)
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
            weight = np.asarray(layer.weight, np.float64)
            bias = np.asarray(layer.bias) + np.einsum("oihw,i->o", weight, shift)
            return [_like(layer, weight * scale[:, None, None], bias), *rest]
        case [(c.Flatten() | c.Patches()) as first, c.Affine() as layer, *rest]:
            entries = shape[1] * shape[2] if isinstance(first, c.Flatten) else first.side**2  # of each channel
            return [first, _scaled(layer, np.repeat(scale, entries), np.repeat(shift, entries)), *rest]
        case [(c.Flatten() | c.Patches()) as first, c.Take() as take, c.Affine() as layer, *rest]:
            entries = shape[1] * shape[2] if isinstance(first, c.Flatten) else first.side**2
            taken = [np.repeat(values, entries)[np.asarray(take.indices)] for values in (scale, shift)]
            return [first, take, _scaled(layer, *taken), *rest]
    return None


def _scaled(layer: c.Affine, scale: np.ndarray, shift: np.ndarray) -> c.Affine:
    weight = np.asarray(layer.weight, np.float64)
    return _like(layer, weight * scale, np.asarray(layer.bias) + weight @ shift)


def _like(layer: Any, weight: np.ndarray, bias: np.ndarray) -> Any:
    return type(layer)(weight.astype(np.asarray(layer.weight).dtype), bias.astype(np.asarray(layer.bias).dtype))
