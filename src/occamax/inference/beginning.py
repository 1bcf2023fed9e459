"""The first posterior of a network that was trained already: its weights, and how sharply the data hold them."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..structure.calling import Buffers
from .model import Model
from .posteriors import Posterior, PosteriorFamily


class Beginning(NamedTuple):
    """What is known of a trained network, all in the unit of its weights."""

    weights: Float[Array, "weights"]
    precision: Float[Array, "weights"]  # that the data add to the prior's, every datum counted once
    log_scales: Float[Array, "scales"]  # of the likelihood
    buffers: Buffers
    keep: Bool[Array, "weights"]  # what is not removed from the start


def latents_at(
    model: Model, weights: Float[Array, "weights"], log_scales: Float[Array, "scales"]
) -> Float[Array, "latents"]:
    """The latents of which `model.weights` makes these weights, the inverse of the prior's scaling; `log_scales` are
    the likelihood's, the prior's are fitted to the weights."""
    own = model.prior.fitted_scales(model.layout, weights)
    unit = (weights - model.prior.centers(model.layout)) / model.prior.weight_stds(model.layout, own)
    latents = jnp.concatenate([unit, own, log_scales])
    return jnp.concatenate([latents, jnp.zeros(model.fill)]).astype(jnp.float32)


def unit_stds(model: Model, beginning: Beginning, kl_weight: Float[Array, ""] | float = 1.0) -> Float[Array, "weights"]:
    """The deviation of each ŵ under a diagonal Laplace posterior: 1 / √(1 + h s² / β), where h is what the data say of
    the weight, s its prior's deviation, and the KL weight β counts every datum 1/β times."""
    stds = model.prior.weight_stds(model.layout, model.prior.fitted_scales(model.layout, beginning.weights))
    return 1.0 / jnp.sqrt(1.0 + beginning.precision * stds**2 / kl_weight)


def first_posterior(
    model: Model,
    family: PosteriorFamily,
    beginning: Beginning,
    kl_weight: Float[Array, ""] | float = 1.0,
    largest_std: float = 1.0,
) -> Posterior:
    """The belief that a run from trained weights begins with; what is removed from the start has its prior's."""
    means = latents_at(model, beginning.weights, beginning.log_scales)
    stds = jnp.minimum(unit_stds(model, beginning, kl_weight), largest_std)
    return family.start(means, stds).forget(~beginning.keep)
