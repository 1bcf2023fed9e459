"""Order among scores: places by sorting, or the lowest of them by counting.

Counting looks at every score some dozens of times and moves none: a vector that is spread over devices stays where it
is, and one number a look is summed over them. Sorting would make it whole on each.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, UInt

__all__ = ["lowest", "ranks"]


@jax.jit  # a loop that is asked outside of a compiled program would be compiled every time
def lowest(score: Float[Array, "n"], count: Int[Array, ""]) -> Bool[Array, "n"]:
    """The `count` lowest scores, ties in the order of the vector: `ranks(score) < count`, bit for bit."""
    code, places = _codes(score), jnp.arange(score.size, dtype=jnp.int32)
    cut = _largest(lambda trial: jnp.sum(code < trial, dtype=jnp.int32) <= count, code.dtype)
    below = code < cut
    rest, ties = count - jnp.sum(below, dtype=jnp.int32), code == cut

    def halved(ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = high - (high - low) // 2
        fits = jnp.sum(ties & (places < middle), dtype=jnp.int32) <= rest
        return jnp.where(fits, middle, low), jnp.where(fits, high, middle - 1)

    # the cut is the lowest score that is kept: where no other is like it, nothing is left to take
    last = jnp.where(rest > 0, score.size, 0).astype(jnp.int32)
    before, _ = lax.while_loop(lambda ends: ends[0] < ends[1], halved, (jnp.zeros_like(last), last))
    return below | ties & (places < before)


def _largest(holds: Callable[[Array], Array], dtype: jnp.dtype) -> UInt[Array, ""]:
    """The largest number of that type up to which `holds`, which holds from 0 on; bit by bit from the highest."""
    bits = jnp.iinfo(dtype).bits
    one = jnp.ones((), dtype)

    def body(i: Array, found: Array) -> Array:
        trial = found | one << (bits - 1 - i).astype(dtype)
        return jnp.where(holds(trial), trial, found)

    return lax.fori_loop(0, bits, body, jnp.zeros((), dtype))


def _codes(score: Float[Array, "n"]) -> UInt[Array, "n"]:
    """Whole numbers in the order in which jax sorts: both zeros alike, all that are not numbers alike and last."""
    score = jnp.where(score == 0, jnp.zeros_like(score), score)
    score = jnp.where(jnp.isnan(score), jnp.full_like(score, jnp.nan), score)
    bits = jnp.finfo(score.dtype).bits
    code = lax.bitcast_convert_type(score, f"uint{bits}")
    high = jnp.ones((), code.dtype) << (bits - 1)
    return jnp.where(code & high > 0, ~code, code | high)  # the further below zero, the larger as bits


def ranks(score: Float[Array, "n"]) -> Int[Array, "n"]:
    """The place of each score in their order, ties in the order of the vector."""
    order = jnp.argsort(score, stable=True)
    return jnp.zeros_like(order).at[order].set(jnp.arange(score.size, dtype=order.dtype))
