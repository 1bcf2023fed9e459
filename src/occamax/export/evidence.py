"""Which weights an export holds: those of the posterior mean, rounded as far as the evidence lets them be."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np

from ..errors import ExportError
from ..evaluation.predictive import Believed
from ..inference.model import Model
from .rounding import (
    FEW_LEVELS,
    LOSS_PER_WEIGHT,
    Rounded,
    Rounding,
    Survivors,
    at_bits,
    at_loss,
    chosen_widths,
    joined,
    survivors_of,
    with_bits,
)

ATTEMPTS = 10  # files that are written to find one that fits
NARROW = 15  # values of a codebook whose codes take half a byte


def rounded(
    model: Model,
    believed: Believed,
    kl_weight: float,
    rounding: Rounding,
    form: str,
    size_of: Callable[[np.ndarray], int],
    drawn: np.ndarray | None = None,
) -> Rounded | None:
    """The vector of weights, undivided by any temperature, as a file of that form should hold it; None where it should
    be as it is. `size_of` says how large the file of a vector is. `drawn`: the weights in place of the mean's."""
    has_stds = believed.posterior.has_deviations
    if rounding.is_exact or (rounding.is_untold and not has_stds):
        return None
    if not has_stds and (rounding.bits is None or rounding.max_loss is not None):
        raise ExportError(
            "--max-loss, --bytes: this run has a point estimate, which does not say how exactly a weight must be kept. "
            "Give --bits alone, or choose another method's run."
        )
    weights = weights_of(model, believed.posterior.point, believed.mask) if drawn is None else drawn
    layers = _layers(model, believed, kl_weight, weights)
    sizes = model.layout.sizes
    if rounding.bits is not None:
        found = joined(layers, [with_bits(layer, rounding.bits) for layer in layers], weights)
        if rounding.max_loss is not None and found.loss > rounding.max_loss:
            raise ExportError(
                f"--bits: codes of {rounding.bits} would cost {found.loss:,.0f} nats, more than the "
                f"{rounding.max_loss:,.0f} of --max-loss. Give more bits, or none: the evidence then decides"
            )
        return found
    if rounding.max_bytes is not None:
        return _that_fits(layers, weights, sizes, rounding, form, size_of)
    count = sum(len(layer.values) for layer in layers)
    max_loss = LOSS_PER_WEIGHT * count if rounding.max_loss is None else rounding.max_loss
    coded = at_loss(layers, sizes, max_loss) if form == "safetensors" else chosen_widths(layers, max_loss)
    return joined(layers, coded, weights)


def _layers(model: Model, believed: Believed, kl_weight: float, weights: np.ndarray) -> list[Survivors]:
    stds = weight_stds(model, believed) if believed.posterior.has_deviations else None
    return survivors_of(weights, stds, np.asarray(believed.mask), model.layout.bounds, kl_weight)


def weight_stds(model: Model, believed: Believed) -> np.ndarray:
    """The posterior deviation of each weight."""
    scales = model.split(believed.posterior.point)[1]
    return np.asarray(model.prior.weight_stds(model.layout, scales) * believed.posterior.std[: model.layout.size])


def _that_fits(
    layers: list[Survivors],
    weights: np.ndarray,
    sizes: tuple[int, ...],
    rounding: Rounding,
    form: str,
    size_of: Callable[[np.ndarray], int],
) -> Rounded:
    """The most exact of the files that were tried and are no larger. What a file holds beside its codes is learnt from
    the one before."""
    limit = rounding.max_bytes or 0
    most_levels = FEW_LEVELS if form == "safetensors" else NARROW
    best: Rounded | None = None
    bits, smallest = 8.0 * limit, (0, 0, 0.0)
    for _ in range(ATTEMPTS):
        found = joined(layers, at_bits(layers, sizes, bits, most_levels), weights)
        size = size_of(found.weights)
        smallest = size, sum(len(layer.values) for layer in layers) - found.removed, found.loss
        if size <= limit and (best is None or found.loss < best.loss):
            best = found
        wanted = found.bits - 8 * (size - 0.99 * limit)
        if 0.97 * limit <= size <= limit or wanted <= 0 or found.bits < 1:
            break
        bits = wanted
    if best is None:
        raise ExportError(
            f"--bytes: {limit:,} are too few; with {smallest[1]:,} weights left the file has {smallest[0]:,}, the rest "
            "is its program and its card. Train a network with fewer layers or units."
        )
    if rounding.max_loss is not None and best.loss > rounding.max_loss:
        raise ExportError(_missing(layers, best, sum(sizes), rounding))
    return best


def _missing(layers: list[Survivors], found: Rounded, total: int, rounding: Rounding) -> str:
    left = sum(len(layer.values) for layer in layers) - found.removed
    return (
        f"--bytes: {rounding.max_bytes:,} would cost {found.loss:,.0f} nats, more than the {rounding.max_loss:,.0f} of "
        f"--max-loss: {left:,} weights fit. Train with --sparsity {1 - left / total:.3f}, so that it learns to do "
        "without the others"
    )


def with_last_divided(model: Model, weights: np.ndarray, temperature: float | None) -> np.ndarray:
    """The weights of a network whose outputs are divided, where it ends in its last layer."""
    if temperature is None:
        return weights
    start, stop = model.layout.bounds[-1]
    divided = weights.copy()
    divided[start:stop] = (weights[start:stop] / np.float32(temperature)).astype(weights.dtype)
    return divided


@eqx.filter_jit
def _weights(model: Model, latents: Any, mask: Any) -> Any:
    return model.weights(latents, mask)


def weights_of(model: Model, latents: Any, mask: Any) -> np.ndarray:
    """The vector of weights made from the latents; compiled once."""
    return np.asarray(_weights(model, latents, mask))
