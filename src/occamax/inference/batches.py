"""Which examples a step looks at: a function of its seed and its number alone, so that a run can go on anywhere."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

PASS_STREAM = 2**32 - 4  # of a run's key: beyond any step, as are the streams of `training`


class Batches(ABC):
    """Base of the ways to draw batches."""

    @abstractmethod
    def numbers(
        self, key: PRNGKeyArray, step_keys: PRNGKeyArray, first: Int[Array, ""] | int, batch_size: int, examples: int
    ) -> Int[Array, "steps batch"]:
        """The examples, of so many, that the steps from `first` on look at: one of `step_keys` a step, `key` the
        run's."""


@dataclass(frozen=True)
class WithReplacement(Batches):
    """Every batch is drawn from all examples, as in the paper.

    Examples:
        >>> ox.BMR().batches
        WithReplacement()
    """

    def numbers(self, key, step_keys, first, batch_size, examples):
        return jax.vmap(lambda own: jax.random.randint(own, (batch_size,), 0, examples))(step_keys)


@dataclass(frozen=True)
class Passes(Batches):
    """Pass after pass over all examples, each in an order of its own; what does not fill a batch at the end of a pass
    waits for another. Every example is seen as often as every other, give or take that rest.

    Examples:
        >>> ox.BMR(batches=ox.Passes()).batches
        Passes()
    """

    def numbers(self, key, step_keys, first, batch_size, examples):
        steps, length = len(step_keys), max(examples // batch_size, 1)  # of a pass, in steps
        step = first + jnp.arange(steps)
        of_pass, row = step // length, step % length
        earliest, most = first // length, (steps - 1) // length + 2  # so many passes at most
        keys = jax.vmap(lambda number: jax.random.fold_in(jax.random.fold_in(key, PASS_STREAM), number))
        orders = jax.vmap(lambda own: jax.random.permutation(own, examples))(keys(earliest + jnp.arange(most)))
        places = (row[:, None] * batch_size + jnp.arange(batch_size)) % examples
        return orders[(of_pass - earliest)[:, None], places]
