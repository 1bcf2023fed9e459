"""The lowest of many scores by counting are those by sorting, bit for bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from occamax.reduction.ranking import lowest, ranks

FEW = [-np.inf, -1e38, -1.5, -1e-30, -0.0, 0.0, 1e-30, 1.0, 1.0 + 2**-23, 3e38, np.inf, np.nan]
found = jax.jit(lowest)


def by_hand(score, count):
    """numpy's stable order, which has both zeros alike and what is no number last."""
    drop = np.zeros(len(score), bool)
    drop[np.argsort(score, kind="stable")[: max(count, 0)]] = True
    return drop


@given(st.lists(st.sampled_from(FEW), min_size=12, max_size=12), st.integers(-1, 13))
def test_the_lowest_with_ties_in_the_order_of_the_vector(values, count):
    score = np.array(values, np.float32)
    drop = np.asarray(found(jnp.asarray(score), jnp.int32(count)))
    assert np.array_equal(drop, by_hand(score, count))
    assert np.array_equal(drop, np.asarray(ranks(jnp.asarray(score))) < count)


def test_ties_at_the_cut_by_example():
    score = jnp.array([2.0, 1.0, 0.0, 1.0, -0.0, 1.0, jnp.nan])
    for count, gone in enumerate([[], [2], [2, 4], [1, 2, 4], [1, 2, 3, 4], [1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]]):
        assert np.flatnonzero(found(score, jnp.int32(count))).tolist() == gone
    assert found(score, jnp.int32(7)).all()


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_every_type_and_many_seeds_at_once(dtype):
    rng = np.random.default_rng(0)
    score = jnp.asarray(rng.normal(size=(3, 5001)), dtype)  # in 16 bits with many ties
    counts = jnp.array([0, 1700, 5001])
    drop = jax.vmap(lowest)(score, counts)
    for own, line, count in zip(drop, np.asarray(score, np.float32), counts, strict=True):
        assert np.array_equal(own, by_hand(line, int(count)))


def test_every_count_of_a_vector_that_is_all_alike():
    drop = [found(jnp.full(12, -3.0), jnp.int32(count)) for count in range(13)]
    assert [int(own.sum()) for own in drop] == [*range(13)]
    assert all(own[: int(own.sum())].all() for own in drop)
