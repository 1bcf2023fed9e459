"""Closed forms between the distributions that priors and posteriors are made of. Arrays in, arrays out, nats."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Bool, Float

LOG_2_PI = math.log(2 * math.pi)


def normal_divergence(mean: Float[Array, "..."], log_std: Float[Array, "..."]) -> Float[Array, "..."]:
    """KL( Normal(mean, std²) ‖ Normal(0, 1) ) = ½(μ² + σ² − 1) − ln σ, from ln σ. By way of σ, which a draw needs too:
    XLA makes another exponential of a square of one."""
    return 0.5 * (mean**2 + _variance_less_one(log_std)) - log_std


def _variance_less_one(log_std: Float[Array, "..."]) -> Float[Array, "..."]:
    std = jnp.exp(log_std)
    return (std - 1.0) * (std + 1.0)


@jax.custom_jvp
def normal_divergences(mean: Float[Array, "n"], log_std: Float[Array, "n"], mask: Bool[Array, "n"]) -> Float[Array, ""]:
    """The sum of `normal_divergence` over what is in the mask. Its slope is written so that no factor of it stays the
    same from step to step: XLA keeps such a factor beside the weights, a vector as long as they are."""
    return jnp.sum(jnp.where(mask, normal_divergence(mean, log_std), 0.0))


@normal_divergences.defjvp
def _along(at: tuple[Array, Array, Array], along: tuple[Any, ...]) -> tuple[Array, Array]:
    (mean, log_std, mask), (by_mean, by_log_std, _) = at, along  # a flag has no slope
    slope_of_log_std = jnp.where(mask, _variance_less_one(log_std), 0.0)
    slope = jnp.sum(jnp.where(mask, mean, 0.0) * by_mean + slope_of_log_std * by_log_std)
    return normal_divergences(mean, log_std, mask), slope


def normal_log_density(value: Float[Array, "..."]) -> Float[Array, "..."]:
    """ln Normal(value; 0, 1)."""
    return -0.5 * (value**2 + LOG_2_PI)


def lognormal_gamma_divergence(
    log_mean: Float[Array, "..."], log_std: Float[Array, "..."], shape: Float[Array, "..."], rate: Float[Array, "..."]
) -> Float[Array, "..."]:
    """KL( LogNormal(m, s²) ‖ Gamma(a, b) ) = b e^{m + s²/2} − a m − a ln b + lnΓ(a) − ½ ln(2πe s²).

    `log_mean` and `log_std` are the mean m and deviation s of the logarithm.
    """
    expected = jnp.exp(log_mean + 0.5 * log_std**2)
    entropy_of_log = 0.5 * (LOG_2_PI + 1.0) + jnp.log(log_std)
    return rate * expected - shape * log_mean - shape * jnp.log(rate) + gammaln(shape) - entropy_of_log


def gamma_log_density(
    log_value: Float[Array, "..."], shape: Float[Array, "..."], rate: Float[Array, "..."]
) -> Float[Array, "..."]:
    """ln Gamma(x; a, b) at x = exp(log_value): the density of x itself, not of its logarithm."""
    return shape * jnp.log(rate) - gammaln(shape) + (shape - 1.0) * log_value - rate * jnp.exp(log_value)
