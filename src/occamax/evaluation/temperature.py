"""The temperature of a network's outputs, and a posterior that has it built in."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, PRNGKeyArray
from scipy.optimize import brentq

from ..inference.likelihoods import Likelihood
from ..inference.model import Model
from ..inference.posteriors import Posterior
from .predictive import CHUNK, Believed, outputs_of

RANGE = 0.05, 20.0  # in which the temperature is looked for


def outputs_of_draws(
    model: Model, believed: Believed, key: PRNGKeyArray, inputs: Array, num_samples: int, chunk: int = CHUNK
) -> Float[Array, "draws n out"]:
    """What the network puts out under each of some draws of its weights."""
    keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(num_samples))
    return lax.map(lambda own: outputs_of(model, believed, believed.posterior.draw(own), inputs, chunk), keys)


def outputs_of_mean(model: Model, believed: Believed, inputs: Array, chunk: int = CHUNK) -> Float[Array, "1 n out"]:
    """What the one network at the posterior mean puts out, as if it were a single draw."""
    return outputs_of(model, believed, believed.posterior.point, inputs, chunk)[None]


def best_temperature(
    outputs: Float[Array, "draws n out"], targets: Array, likelihood: Likelihood, log_std: float = math.inf
) -> float:
    """By which to divide the outputs so that the targets are likeliest under their average over draws, with a prior of
    deviation `log_std` on its logarithm."""

    def cost(log_temperature: Array) -> Array:
        log_prob = jax.vmap(lambda one: likelihood.log_prob(one, targets, jnp.zeros(0)))(
            outputs / jnp.exp(log_temperature)
        )
        return 0.5 * (log_temperature / log_std) ** 2 - jnp.sum(jax.nn.logsumexp(log_prob, axis=0))

    slope = jax.jit(jax.grad(cost))  # its root is sharper than the least cost: rounding flattens that
    low, high = map(math.log, RANGE)
    if slope(low) >= 0:
        return RANGE[0]
    if slope(high) <= 0:
        return RANGE[1]
    root: Any = brentq(lambda x: float(slope(x)), low, high, xtol=1e-6)
    return math.exp(root)


def with_outputs_divided(
    model: Model, posterior: Posterior, mask: Bool[Array, "weights"], temperature: Float[Array, ""]
) -> Posterior:
    """The posterior whose last layer, weights and biases, is that of a network whose outputs are divided. Exact where
    the network ends in its last layer."""
    layout = model.layout
    last = mask & jnp.asarray(layout.flags(lambda block: block is layout.blocks[-1]))
    return posterior.divide(last, temperature)
