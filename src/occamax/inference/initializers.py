"""How the first posterior means are chosen."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .model import Model

__all__ = ["Initializer", "Uniform", "VarianceScaled"]


class Initializer(ABC):
    """Base of all ways to choose the first posterior means: from a model and a key to the means of its latents.

    Examples:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Zeros(ox.init.Initializer):
        ...     def __call__(self, model, key):
        ...         return jnp.zeros(model.latent_count)
        >>> ox.BMR(init=Zeros()).init
        Zeros()
    """

    @abstractmethod
    def __call__(self, model: Model, key: PRNGKeyArray) -> Float[Array, "latents"]:
        """The first mean of every latent."""


@dataclass(frozen=True)
class Uniform(Initializer):
    """Every latent uniform in ±**radius**: the authors' start.

    Examples:
        >>> ox.PaperBMR(init=ox.init.Uniform(radius=1.0)).init
        Uniform(radius=1.0)
    """

    radius: float = 2.0

    def __call__(self, model, key):
        return jax.random.uniform(key, (model.latent_count,), minval=-self.radius, maxval=self.radius)


@dataclass(frozen=True)
class VarianceScaled(Initializer):
    """Weights of variance **gain** / fan-in, biases zero, gains at one, scales at one: the flat prior's mean (c⁻² = 1).

    Examples:
        >>> ox.BMR(init=ox.init.VarianceScaled(2.0)).init  # He's, for ReLU
        VarianceScaled(gain=2.0)
    """

    gain: float = 1.0

    def __call__(self, model, key):
        stds = []
        for block in model.layout.blocks:
            is_shift = block.is_gain or (block.kind == "bias" and len(block.weight_shape) < 2)
            stds.append(np.full(block.rows * block.columns, 0.0 if is_shift else np.sqrt(self.gain / block.fan_in)))
            stds.append(np.zeros(block.size - block.rows * block.columns))
        normal = jax.random.normal(key, (model.layout.size,))
        log_scales = jnp.zeros(model.latent_prior.shape.size)
        prior_scales = log_scales[: model.prior.scale_gammas(model.layout)[0].size]
        centers = model.prior.centers(model.layout)
        weights = jnp.asarray(np.concatenate(stds), jnp.float32) * normal + model.layout.gains()
        unit = (weights - centers) / model.prior.weight_stds(model.layout, prior_scales)
        return jnp.concatenate([unit, log_scales, jnp.zeros(model.latent_count - unit.size - log_scales.size)])
