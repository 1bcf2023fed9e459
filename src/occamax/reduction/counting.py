"""A share of a count, exactly. Float32 holds every whole number up to 16.7 million only, and networks have more
weights; so both are multiplied digit by digit, in whole numbers of 32 bits."""

import math
from itertools import product

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

BITS = 12  # of a digit: three products of two of them, and what is carried, fit into 32 bits
BEHIND = 8  # digits behind the point; of what comes after them it is only known whether there is any
OF_COUNT = 3  # digits, enough for counts below 2³¹


def share_of(count: Int[Array, ""], share: Float[Array, ""] | float) -> Int[Array, ""]:
    """The whole number that is nearest to a share, from 0 to 1, of a count below 2³¹; halves go up."""
    whole, digits, _ = _multiplied(count, share)
    return whole + (digits[BEHIND - 1] >> BITS - 1)


def share_of_or_more(count: Int[Array, ""], share: Float[Array, ""] | float) -> Int[Array, ""]:
    """The least whole number that is no less than a share, from 0 to 1, of a count below 2³¹."""
    whole, digits, is_more = _multiplied(count, share)
    return whole + (is_more | jnp.any(jnp.stack(digits) > 0)).astype(count.dtype)


def _multiplied(
    count: Int[Array, ""], share: Float[Array, ""] | float
) -> tuple[Int[Array, ""], list[Int[Array, ""]], Bool[Array, ""]]:
    """The product's whole part, the digits behind its point, the last first, and whether something comes after them.
    Then the share, of 53 bits at most, is under 2⁻⁴³ and the product under 2⁻¹²: what is left out carries nothing."""
    of_share, is_more = _digits(share)
    of_count = [count >> BITS * i & 2**BITS - 1 for i in range(OF_COUNT)]
    digits = [jnp.zeros_like(count)] * (BEHIND + OF_COUNT)
    for (i, one), (j, other) in product(enumerate(of_share), enumerate(of_count)):
        digits[i + j] = digits[i + j] + jnp.asarray(one, count.dtype) * other
    for i in range(len(digits) - 1):
        digits[i + 1] = digits[i + 1] + (digits[i] >> BITS)
        digits[i] = digits[i] & 2**BITS - 1
    whole = sum((digits[BEHIND + i] << BITS * i for i in range(1, OF_COUNT)), digits[BEHIND])
    return whole, digits[:BEHIND], (count > 0) & is_more


def _digits(share: Float[Array, ""] | float) -> tuple[list, Bool[Array, ""] | bool]:
    """A share's digits behind the point, the last first, then its whole part; and whether more come after them. Exact
    in any floating-point type: a product with a power of two, and the part behind the point, lose no bits."""
    floor = math.floor if isinstance(share, float | int) else jnp.floor
    digits = [floor(share)]
    for _ in range(BEHIND):
        share = (share - digits[0]) * 2.0**BITS
        digits.insert(0, floor(share))
    return digits, share > digits[0]
