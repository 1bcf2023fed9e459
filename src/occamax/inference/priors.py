"""What is believed about the weights before the data.

Every prior here has one form. The latent variables are one vector: a standard normal ŵ for each weight, then the
logarithms of some Gamma-distributed scales. A prior says what the scales' Gamma priors are and how weights are made
from both. The posterior over the latents is then the same object for all of them.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from ..errors import ArgumentError
from ..structure.layout import Layout


class Prior(ABC):
    """Base of all priors."""

    @abstractmethod
    def scale_gammas(self, layout: Layout) -> tuple[Float[np.ndarray, "scales"], Float[np.ndarray, "scales"]]:
        """Shape and rate of the Gamma prior of each scale."""

    @abstractmethod
    def weight_stds(self, layout: Layout, log_scales: Float[Array, "scales"]) -> Float[Array, "weights"]:
        """The prior standard deviation of each weight, given the scales."""

    @abstractmethod
    def centers(self, layout: Layout) -> Float[Array, "weights"] | float:
        """The prior mean of each weight."""

    def fitted_scales(self, layout: Layout, weights: Float[Array, "weights"]) -> Float[Array, "scales"]:
        """Logarithms of the scales for a network with these weights: at one by default."""
        return jnp.zeros(self.scale_gammas(layout)[0].size)

    def around(self, layout: Layout, weights: Float[np.ndarray, "weights"]) -> "Prior":
        """This prior for a run that begins with these trained weights: another one only where it is made of them."""
        return self

    def weights(
        self, layout: Layout, unit: Float[Array, "weights"], log_scales: Float[Array, "scales"]
    ) -> Float[Array, "weights"]:
        """w = center + std · ŵ. A removed weight has ŵ = 0, so it takes its centre."""
        return self.centers(layout) + self.weight_stds(layout, log_scales) * unit


@dataclass(frozen=True)
class LayerScaled(Prior):
    """Base of priors with one scale a layer (the paper's eq. 9): c_l^-2 ~ Gamma, ŵ ~ Normal(0, 1), w = γ0 · c_l · ŵ."""

    precision_shape: float = field(default=2.0, kw_only=True)
    precision_rate: float = field(default=2.0, kw_only=True)

    @abstractmethod
    def base_stds(self, layout: Layout) -> list[float]:
        """γ0 of each layer."""

    def scale_gammas(self, layout):
        count = len(layout.blocks)
        return np.full(count, self.precision_shape), np.full(count, self.precision_rate)

    def weight_stds(self, layout, log_scales):
        return layout.blocks_to_weights(
            jnp.array(self.base_stds(layout), log_scales.dtype) * jnp.exp(-0.5 * log_scales)
        )

    def fitted_scales(self, layout, weights):
        """Each layer's precision at its posterior mean, the weights given: Gamma priors are conjugate to it."""
        unit = (weights - self.centers(layout)) / self.weight_stds(layout, jnp.zeros(len(layout.blocks)))
        sizes = jnp.asarray(np.array(layout.sizes), unit.dtype)
        return jnp.log((self.precision_shape + 0.5 * sizes) / (self.precision_rate + 0.5 * layout.totals(unit**2)))


@dataclass(frozen=True)
class FlatPrior(LayerScaled):
    """The paper's flat prior: one γ0 for all layers but the last.

    **base_std** γ0 of every layer but the last; **output_std** γ0 of the last. **gain_center** is the prior mean of
    normalisation gains: 0 is the authors' choice, which starts a transformer with its activations switched off; 1 is
    the neutral value.

    **precision_shape**, **precision_rate** of the Gamma prior of c_l^-2, one number a layer that is learnt.

    Examples:
        >>> ox.Flat(prior=ox.FlatPrior(base_std=0.05)).prior.base_std
        0.05
    """

    base_std: float = 0.1
    output_std: float = 1.0
    gain_center: float = 0.0

    def base_stds(self, layout):
        return [self.base_std] * (len(layout.blocks) - 1) + [self.output_std]

    def centers(self, layout):
        return _gain_centers(layout, self.gain_center)


@dataclass(frozen=True)
class FanInPrior(LayerScaled):
    """γ0 = sqrt(gain / inputs) in every layer: what keeps activations at their size through the network, whatever its
    widths.

    **gain** as above. Normalisation gains have a prior of deviation **gain_std** around one. **precision_shape**,
    **precision_rate** of the Gamma prior of c_l^-2, one number a layer that is learnt.

    Examples:
        >>> model = ox.Model(network, x[0], ox.FanInPrior(gain=2.0))
        >>> stds = model.prior.weight_stds(model.layout, jnp.zeros(2))  # of every weight, both layers' scales at one
        >>> float(stds[0])  # √(2 / 8 inputs)
        0.5
    """

    gain: float = 1.0
    gain_std: float = 0.1

    def base_stds(self, layout):
        return [self.gain_std if block.is_gain else (self.gain / block.fan_in) ** 0.5 for block in layout.blocks]

    def centers(self, layout):
        return _gain_centers(layout, 1.0)


class Unscaled(Prior):
    """Base of priors without scales, gains around one."""

    def scale_gammas(self, layout):
        return np.zeros(0), np.zeros(0)

    def centers(self, layout):
        return _gain_centers(layout, 1.0)


@dataclass(frozen=True)
class NormalPrior(Unscaled):
    """Normal(0, **std**²) for every weight, gains around one, and no scales to learn: what is called weight decay
    elsewhere. A tuple has a deviation for each layer, in the order of `Layout`.

    Raises:
        ArgumentError: a deviation that is not positive, or another number of them than the network has layers.

    Examples:
        >>> ox.NaturalBMR(prior=ox.NormalPrior(0.3)).prior
        NormalPrior(std=0.3)
    """

    std: float | tuple[float, ...] = 0.17

    def __post_init__(self):
        if isinstance(self.std, list):  # as read from a file
            object.__setattr__(self, "std", tuple(self.std))
        if not all(std > 0 for std in (self.std if isinstance(self.std, tuple) else (self.std,))):
            raise ArgumentError(f"std: {self.std!r} given; a deviation must be positive")

    def weight_stds(self, layout, log_scales):
        if not isinstance(self.std, tuple):
            return jnp.full(layout.size, self.std, jnp.float32)
        if len(self.std) != len(layout.blocks):
            raise ArgumentError(
                f"std: {len(self.std)} deviations given; the network has {len(layout.blocks)} layers: "
                f"{', '.join(layout.names)}"
            )
        return layout.blocks_to_weights(jnp.asarray(self.std, jnp.float32))


@dataclass(frozen=True)
class TrainedPrior(Unscaled):
    """A `NormalPrior` as wide as the weights that a run begins with want it: in each layer **width** times the root of
    their mean square. A layer that is normalised works the same at any size, and a decayed one has become small: under
    a prior of one width its noise would be many times its weights (`docs/howto/trained.md`). Only for a run with
    `start`.

    Raises:
        ArgumentError: a width that is not positive; from `fit`, no trained weights to begin with.

    Examples:
        >>> method = ox.NaturalBMR(prior=ox.TrainedPrior(width=3.0))
        >>> begun = ox.fit(
        ...     network, (x, y), method=method, start=ox.Trained(), epochs=2, steps_per_epoch=2, progress=False
        ... )
        >>> len(begun.method.prior.std)  # a layer each
        2
    """

    width: float = 3.0

    def __post_init__(self):
        if not self.width > 0:
            raise ArgumentError(f"width: {self.width!r} given; it must be positive")

    def weight_stds(self, layout, log_scales):
        raise ArgumentError(
            "prior: TrainedPrior is made of trained weights, and this run begins with random ones; pass "
            "start=ox.Trained(…), or take ox.NormalPrior()"
        )

    def around(self, layout, weights):
        """Layers without weights of their own size, such as gains that are all one, have a thousandth of what keeps
        activations at their size."""
        deviations = (weights - np.asarray(self.centers(layout))) ** 2
        found = [
            self.width * max(float(np.sqrt(np.mean(deviations[begin:end]))), 0.001 * block.fan_in**-0.5)
            for block, (begin, end) in zip(layout.blocks, layout.bounds, strict=True)
        ]
        return NormalPrior(tuple(float(f"{std:.4g}") for std in found))


@dataclass(frozen=True)
class HorseshoePrior(Prior):
    """Regularised horseshoe, not centred (the paper's hierarchical prior, eq. 8 and appendix B):

        a_il, b_il, â_l, b̂_l ~ Gamma(½, 1)      c_l^-2 ~ Gamma(2, 6)
        τ_il = sqrt(a_il / b_il)                 one per output row: a half-Cauchy variable
        v_l  = τ0 · sqrt(â_l / b̂_l)              one per layer
        γ_il² = c_l² v_l² τ_il² / (c_l² + v_l² τ_il²)      w = γ_il · ŵ

    The output layer has one scale sqrt(â / b̂) and neither row scales nor a slab.
    The scales stand in the order c^-2, â, b̂ (by layer), a, b (by row).

    **global_scale** is τ0: the smaller, the fewer weights are far from zero. **slab_shape**, **slab_rate** of the Gamma
    prior of c_l^-2, **gain_center** the prior mean of normalisation gains.

    Examples:
        >>> ox.Tiered(prior=ox.HorseshoePrior(global_scale=0.001)).prior.slab_rate
        6.0
    """

    global_scale: float = 0.01
    slab_shape: float = 2.0
    slab_rate: float = 6.0
    gain_center: float = 0.0

    def scale_gammas(self, layout):
        slabs, halves = len(layout.blocks) - 1, sum(self._counts(layout)) - (len(layout.blocks) - 1)
        shapes = np.concatenate([np.full(slabs, self.slab_shape), np.full(halves, 0.5)])
        rates = np.concatenate([np.full(slabs, self.slab_rate), np.ones(halves)])
        return shapes, rates

    def _counts(self, layout: Layout) -> tuple[int, ...]:
        """How many of c^-2, â, b̂, a, b there are."""
        layers, rows = len(layout.blocks), sum(layout.row_counts[:-1])
        return layers - 1, layers, layers, rows, rows

    def weight_stds(self, layout, log_scales):
        log_slab_precision, log_a, log_b, log_row_a, log_row_b = lax.split(log_scales, self._counts(layout))
        hidden = Layout(layout.blocks[:-1])
        output_std = jnp.broadcast_to(jnp.exp(0.5 * (log_a[-1] - log_b[-1])), (layout.blocks[-1].size,))
        if not hidden.blocks:
            return output_std
        log_layer_var = 2 * np.log(self.global_scale).astype(log_scales.dtype) + log_a[:-1] - log_b[:-1]
        log_row_var = hidden.blocks_to_rows(log_layer_var) + log_row_a - log_row_b  # ln (v_l τ_il)²
        # γ² = 1 / (1/(vτ)² + 1/c²): the form that neither overflows nor divides zero by zero
        row_var = 1.0 / (jnp.exp(-log_row_var) + hidden.blocks_to_rows(jnp.exp(log_slab_precision)))
        return jnp.concatenate([hidden.rows_to_weights(jnp.sqrt(row_var)), output_std])

    def fitted_scales(self, layout, weights):
        """â of each layer such that its deviation is that of its weights, as far under the slab as it can be told; all
        else at one."""
        size = layout.totals((weights - self.centers(layout)) ** 2) / jnp.asarray(np.array(layout.sizes), weights.dtype)
        var = jnp.clip(size, 1e-8, 0.9)  # the slab's is one
        hidden = jnp.log(1.0 / (1.0 / var[:-1] - 1.0)) - 2 * np.log(self.global_scale)
        slabs, layers, *_ = self._counts(layout)
        zeros = jnp.zeros(self.scale_gammas(layout)[0].size)
        return zeros.at[slabs : slabs + layers].set(jnp.append(hidden, jnp.log(var[-1])))

    def centers(self, layout):
        return _gain_centers(layout, self.gain_center)


def _gain_centers(layout: Layout, center: float) -> Float[Array, "weights"] | float:
    gains = layout.gains()
    return jnp.asarray(np.where(gains, center, 0.0), jnp.float32) if center and gains.any() else 0.0
