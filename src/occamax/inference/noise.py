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
    return math.sqrt(2.0) * inverse_erf(uniform)


# M. Giles, Approximating the erfinv function (GPU Computing Gems, 2010), single precision: near zero, and in the tails
CENTRE = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503)
CENTRE += (-0.00417768164, 0.246640727, 1.50140941)
TAIL = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613)
TAIL += (0.00943887047, 1.00167406, 2.83297682)


def inverse_erf(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """The inverse of the error function inside (−1, 1), float32. `lax.erf_inv` is the same polynomial, but on the CPU
    its log1p is not vectorised for arrays of odd length, which makes it eight times slower there."""
    w = -jnp.log((1.0 - x) * (1.0 + x))
    near = w < 5.0
    v = jnp.where(near, w - 2.5, jnp.sqrt(w) - 3.0)
    polynomial = jnp.where(near, CENTRE[0], TAIL[0])
    for centre, tail in zip(CENTRE[1:], TAIL[1:], strict=True):
        polynomial = jnp.where(near, centre, tail) + polynomial * v
    return polynomial * x


def random_bits(key: PRNGKeyArray, count: int) -> UInt32[Array, "count"]:
    """A word of 32 random bits for each counter from 0 up."""
    seed = jax.random.bits(key, (2,))  # not the key's own words: neighbouring keys differ in one of them only
    return mix(mix(lax.iota(jnp.uint32, count) + seed[0]) ^ seed[1])


def mix(words: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """A bijection of 32-bit words in which every input bit flips each output bit with a chance close to a half."""
    words = (words ^ (words >> 16)) * jnp.uint32(0x7FEB352D)
    words = (words ^ (words >> 15)) * jnp.uint32(0x846CA68B)
    return words ^ (words >> 16)
