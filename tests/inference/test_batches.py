"""Which examples a step looks at."""

import jax
import numpy as np
import pytest

from occamax.data.held_out import HeldOut
from occamax.inference.batches import Passes, WithReplacement
from occamax.inference.training import draws


def numbers(first: int, steps: int, batch: int, examples: int, how=Passes(), seed: int = 0) -> np.ndarray:
    found, _ = draws(jax.random.key(seed), first, steps, batch, HeldOut(examples), how)
    return np.asarray(found)


def test_a_pass_shows_every_example_once():
    found = numbers(0, 12, 5, 20)  # three passes of four batches
    for start in (0, 4, 8):
        assert sorted(found[start : start + 4].ravel()) == list(range(20))
    assert not np.array_equal(found[:4], found[4:8])


def test_what_does_not_fill_a_batch_waits_for_another_pass():
    found = numbers(0, 8, 5, 23)
    for start in (0, 4):
        assert len(set(found[start : start + 4].ravel())) == 20
    assert set(found.ravel()) > set(found[:4].ravel())  # another three wait the second time


@pytest.mark.parametrize(
    ("how", "batch", "examples"), [(Passes(), 5, 23), (Passes(), 16, 6), (WithReplacement(), 5, 23)]
)
def test_it_depends_on_the_number_of_the_step_alone(how, batch, examples):
    whole = numbers(0, 14, batch, examples, how)
    parts = [numbers(first, steps, batch, examples, how) for first, steps in ((0, 3), (3, 9), (12, 2))]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert whole.min() >= 0
    assert whole.max() < examples


def test_a_batch_larger_than_the_data_has_each_example_about_as_often():
    counts = np.bincount(numbers(0, 1, 16, 6)[0], minlength=6)
    assert set(counts) == {2, 3}


def test_seeds_have_orders_of_their_own():
    assert not np.array_equal(numbers(0, 4, 5, 20), numbers(0, 4, 5, 20, seed=1))


def test_with_replacement_an_example_may_come_twice_in_a_pass():
    assert len(set(numbers(0, 4, 5, 20, WithReplacement()).ravel())) < 20


def test_what_is_held_out_is_not_looked_at():
    apart = HeldOut(20, 4)
    found, _ = draws(jax.random.key(0), 0, 3, 5, apart, Passes())
    assert sorted(np.asarray(found).ravel()) == sorted(set(range(20)) - set(apart.places))
