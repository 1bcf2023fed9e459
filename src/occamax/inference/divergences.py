"""Closed forms between the distributions that priors and posteriors are made of. Arrays in, arrays out, nats."""

import math

import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

LOG_2_PI = math.log(2 * math.pi)


def normal_divergence(mean: Float[Array, "..."], log_std: Float[Array, "..."]) -> Float[Array, "..."]:
    """KL( Normal(mean, std²) ‖ Normal(0, 1) ) = ½(μ² + σ² − 1) − ln σ, from ln σ."""
    return 0.5 * (mean**2 + jnp.exp(2.0 * log_std) - 1.0) - log_std


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
