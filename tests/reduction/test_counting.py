"""Shares of counts, beside Python's exact fractions."""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from occamax.errors import LayoutError
from occamax.inference.schedules import Schedule
from occamax.reduction import Evidence, Reduction
from occamax.reduction.counting import share_of, share_of_or_more
from occamax.reduction.criteria import Beliefs
from occamax.reduction.reducing import _no_faster_than
from occamax.structure.layout import Block, Layout

COUNTS = st.integers(0, 2**31 - 1)
SHARES = st.floats(0.0, 1.0, allow_subnormal=False)
SINGLES = st.floats(0.0, 1.0, width=32, allow_subnormal=False)  # smaller ones are zero to XLA
traced = {function: jax.jit(function) for function in (share_of, share_of_or_more)}


def agree(count, share, found, found_or_more):
    exact = count * Fraction(share)
    assert int(found) == math.floor(exact + Fraction(1, 2))
    assert int(found_or_more) == math.ceil(exact)


@given(COUNTS, SHARES)
def test_a_share_that_is_known_when_compiled_is_counted_exactly(count, share):
    agree(count, share, share_of(jnp.int32(count), share), share_of_or_more(jnp.int32(count), share))


@given(COUNTS, SINGLES)
def test_a_share_that_is_found_in_the_run_is_counted_exactly(count, share):
    agree(count, share, *(function(jnp.int32(count), jnp.float32(share)) for function in traced.values()))


@given(st.integers(1, 2**31 - 1), st.data())
def test_shares_beside_a_whole_number_or_a_half(count, data):
    """Where a product that was rounded would come out on the other side."""
    twice = data.draw(st.integers(0, 2 * count))
    share = np.float32(twice / (2 * count))
    for near in (share, np.nextafter(share, np.float32(0)), min(np.nextafter(share, np.float32(2)), np.float32(1))):
        if near == 0 or near > np.finfo(np.float32).tiny:
            agree(count, float(near), *(function(jnp.int32(count), near) for function in traced.values()))


def test_float32_would_have_rounded():
    count, share = 100_000_001, np.float32(0.999)
    assert int(share_of(jnp.int32(count), 0.999)) == 99_900_001
    exact = math.ceil(count * Fraction(float(share)))
    assert (
        int(share_of_or_more(jnp.int32(count), jnp.float32(share))) == exact != int(np.ceil(share * np.float32(count)))
    )
    assert int(share_of(jnp.int32(2**31 - 1), 1.0)) == int(share_of(jnp.int32(2**31 - 1), jnp.float32(1))) == 2**31 - 1


class Left(Schedule):
    """The same share throughout, as a number or traced."""

    def __init__(self, share):
        self.share = share

    def __call__(self, progress):
        return self.share


def test_the_pace_is_counted_exactly():
    """A third of 20 million and one must be left: float32 has only every other number there."""
    size, third = 20_000_001, float(np.float32(1 / 3))
    every, nothing = jnp.ones(size, bool), jnp.zeros(1)
    beliefs = Beliefs(nothing, nothing, nothing, nothing, every, every, jnp.float32(0.5), jax.random.key(0))
    for found in (third, jnp.float32(third)):
        most, _ = _no_faster_than(beliefs, Reduction(Evidence(), least_left=Left(found)), 0.5)
        assert most is not None
        assert int(most) == size - math.ceil(size * Fraction(third))


def test_more_weights_than_can_be_counted_are_refused():
    def of_rows(rows):
        return Layout((Block("wide", "matmul", (rows, 2**15), None, (0,), 2**15),))

    assert of_rows(2**16 - 1).size == 2**31 - 2**15
    with pytest.raises(LayoutError, match=r"2,147,483,648 random weights; .* fewer than 2,147,483,648"):
        of_rows(2**16)
