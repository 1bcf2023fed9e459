"""Standard normals for the draw of the weights: the largest single cost of a Bayesian step on a CPU, so made cheap.

jax's own generator (threefry) takes some seventy operations a number; the weights' noise needs no cryptography. The
key seeds an integer hash of the counter instead: two rounds of a 32-bit mixing function whose constants were found by
search for low bias (C. Wellons' lowbias32, 2018). A quantile transform makes normals of it. Both work element by
element, so the draw is the same under `jit`, `vmap` and any sharding.
"""

import math

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray, UInt32


def standard_normal(key: PRNGKeyArray, count: int) -> Float[Array, "count"]:
    """Independent standard normals, float32."""
    bits = random_bits(key, count)
    # 23 bits, centred in their cells: strictly inside (−1, 1), symmetric, never 0
    uniform = ((bits >> 9).astype(jnp.float32) + 0.5) * 2.0**-22 - 1.0
    return math.sqrt(2.0) * lax.erf_inv(uniform)


def random_bits(key: PRNGKeyArray, count: int) -> UInt32[Array, "count"]:
    """A word of 32 random bits for each counter from 0 up."""
    seed = jax.random.bits(key, (2,))  # not the key's own words: neighbouring keys differ in one of them only
    return mix(mix(lax.iota(jnp.uint32, count) + seed[0]) ^ seed[1])


def mix(words: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """A bijection of 32-bit words in which every input bit flips each output bit with a chance close to a half."""
    words = (words ^ (words >> 16)) * jnp.uint32(0x7FEB352D)
    words = (words ^ (words >> 15)) * jnp.uint32(0x846CA68B)
    return words ^ (words >> 16)
