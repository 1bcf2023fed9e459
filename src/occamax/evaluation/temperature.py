"""The temperature of a network's outputs and the noise of its weights, and a posterior that has them built in."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, PRNGKeyArray
from scipy.optimize import brentq

from ..inference.likelihoods import Likelihood
from ..inference.model import Model
from ..inference.posteriors import Posterior
from .predictive import CHUNK, Believed, outputs_of

RANGE = 0.05, 20.0  # in which the temperature is looked for
NOISE_STEP, NOISE_STEPS = 0.85, 8  # from one, down and up, by this factor; so often at most


def outputs_of_draws(
    model: Model, believed: Believed, key: PRNGKeyArray, inputs: Array, num_samples: int, chunk: int = CHUNK
) -> Float[Array, "draws n out"]:
    """What the network puts out under each of some draws of its weights."""
    keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(num_samples))
    return lax.map(lambda own: outputs_of(model, believed, believed.posterior.draw(own), inputs, chunk), keys)


def outputs_of_mean(model: Model, believed: Believed, inputs: Array, chunk: int = CHUNK) -> Float[Array, "1 n out"]:
    """What the one network at the posterior mean puts out, as if it were a single draw."""
    return outputs_of(model, believed, believed.posterior.point, inputs, chunk)[None]


def temperature_cost(
    outputs: Float[Array, "draws n out"],
    targets: Array,
    likelihood: Likelihood,
    log_temperature: Float[Array, ""] | float,
    log_std: float = math.inf,
) -> Float[Array, ""]:
    """Nats that the targets cost under the average over draws of the divided outputs, and the temperature itself under
    a prior of deviation `log_std` on its logarithm."""
    divided = outputs / jnp.exp(log_temperature)
    log_prob = jax.vmap(lambda one: likelihood.log_prob(one, targets, jnp.zeros(0)))(divided)
    averaged = jax.nn.logsumexp(log_prob, axis=0) - math.log(len(outputs))
    return 0.5 * (log_temperature / log_std) ** 2 - jnp.sum(averaged)


def best_temperature(
    outputs: Float[Array, "draws n out"], targets: Array, likelihood: Likelihood, log_std: float = math.inf
) -> float:
    """By which to divide the outputs so that the targets cost the fewest nats (`temperature_cost`)."""
    slope = jax.jit(jax.grad(lambda x: temperature_cost(outputs, targets, likelihood, x, log_std)))
    low, high = map(math.log, RANGE)  # a root of the slope is sharper than the least cost: rounding flattens that
    if slope(low) >= 0:
        return RANGE[0]
    if slope(high) <= 0:
        return RANGE[1]
    root: Any = brentq(lambda x: float(slope(x)), low, high, xtol=1e-6)
    return math.exp(root)


def best_noise(
    cost: Callable[[Float[np.ndarray, "seeds"]], Float[np.ndarray, "seeds"]], seeds: int, log_std: float
) -> Float[np.ndarray, "seeds"]:
    """The factor on the deviations that costs each seed the fewest nats, with a prior of deviation `log_std` on its
    logarithm. In steps of a constant factor, down from one and then up, until no seed gains any more; what a step of
    15 % leaves to gain is far below what some thousand examples could tell."""
    best, least = np.ones(seeds), cost(np.ones(seeds))
    for step in (NOISE_STEP, 1 / NOISE_STEP):
        for power in range(1, NOISE_STEPS + 1):
            now = np.full(seeds, step**power)
            found = cost(now) + 0.5 * (np.log(now) / log_std) ** 2
            gains = found < least
            best, least = np.where(gains, now, best), np.where(gains, found, least)
            if not gains.any():
                break
    return best


def is_as_wanted(outputs: Any, wanted: Any) -> bool:
    """Whether outputs that a divided last layer puts out are the divided outputs; bfloat16 rounds by up to .004."""
    outputs, wanted = np.asarray(outputs), np.asarray(wanted)
    return bool(np.abs(outputs - wanted).mean() <= 0.02 * np.abs(wanted).mean())


def with_outputs_divided(
    model: Model, posterior: Posterior, mask: Bool[Array, "weights"], temperature: Float[Array, ""]
) -> Posterior:
    """The posterior whose last layer, weights and biases, is that of a network whose outputs are divided. Exact where
    the network ends in its last layer."""
    layout = model.layout
    last = mask & jnp.asarray(layout.flags(lambda block: block is layout.blocks[-1]))
    return posterior.divide(last, temperature)
