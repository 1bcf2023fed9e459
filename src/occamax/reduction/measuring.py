"""How the bound really changes when weights go: measured on training examples, with the same draws before and after.

ΔF is what the posterior says of each weight by itself. Weights whose inputs go together are worth less apart than
together, or more: the sum of their ΔF can be far off, even in its sign. What is measured here has no such blind spot;
it only does not know what the rest will make of it, once it is trained again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ..errors import ArgumentError
from ..inference.model import Model
from ..inference.training import Batch, State
from ..structure.calling import Buffers
from .proposing import Proposal


@dataclass(frozen=True)
class Measuring:
    """Every reduction is measured on training examples, by as many draws of the weights as **draws**: the network with
    what is proposed and without it, draw by draw. One example in **one_in** that an epoch looks at is asked, so that it
    costs some hundredths of the epoch, at least **least** and not more than **most**.

    **binding** takes the largest part of a proposal, the largest ΔF first, under which the bound gets no worse: all of
    it, or what **rounds** of bisection find. Otherwise the proposal stands whatever is measured.

    Raises:
        ArgumentError: a number that is not whole and positive.

    Examples:
        >>> ox.Reduction(ox.criteria.Evidence(), measuring=ox.Measuring(binding=True)).measuring.draws
        8
    """

    binding: bool = False
    draws: int = 8
    one_in: int = 60
    least: int = 128
    most: int = 2048
    rounds: int = 5

    def __post_init__(self):
        for name in ("draws", "one_in", "least", "most", "rounds"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ArgumentError(f"{name}: {value!r} given; it must be a whole number from 1 up")

    def count(self, looked_at: int, examples: int) -> int:
        """How many of so many examples are asked, where an epoch looks at `looked_at`: as many for every draw."""
        wanted = min(max(looked_at // self.one_in, self.least), self.most, examples)
        return wanted if wanted < self.draws else wanted - wanted % self.draws


class Change(NamedTuple):
    """By how many nats the parts of the bound grew, over the data set, every datum counted once."""

    expected_nll: Float[Array, ""]
    divergence: Float[Array, ""]


def alone(ask: Callable[..., Any], about: Any, *examples: Any) -> Any:
    """`ask(about, *examples)` on one device; `Devices.over_examples` shares the examples out."""
    return ask(about, *examples)


class Judge(NamedTuple):
    """What a change is worth: every datum counts `data_count` times, which is once for the evidence bound and 1/β times
    for the objective of a posterior that was trained with the KL weight β. `share` shares the examples out over
    devices."""

    data_count: Float[Array, ""]
    examples: Batch
    data_size: int
    share: Callable[..., Any] = alone

    def gain(self, change: Change) -> Float[Array, ""]:
        """Nats that the bound rises by."""
        return -(self.data_count * change.expected_nll + change.divergence)


def log_likelihoods(
    model: Model,
    state: State,
    mask: Bool[Array, "weights"],
    examples: Batch,
    key: PRNGKeyArray,
    draws: int,
    share: Callable[..., Any] = alone,
) -> Float[Array, "n"]:
    """ln p(y | x, w) of each example with weights of its draw, of which each serves as many examples. What is not in
    the mask is taken to be gone; the draws are the same whatever is gone, and on however many devices."""
    inputs, targets = examples
    parts = draws if len(inputs) % draws == 0 else 1
    blocks = jax.tree.map(lambda a: a.reshape(parts, -1, *a.shape[1:]), (inputs, targets))
    keys = jax.random.split(key, parts)

    def ask(about: tuple[Array, Array, Buffers], x: Array, y: Array) -> Array:
        latents, mask, buffers = about
        outputs = model.outputs(model.bind(latents, mask), x, buffers)
        return model.likelihood.log_prob(outputs, y, model.split(latents)[2])

    def one(block: tuple[PRNGKeyArray, tuple[Array, Array]]) -> Array:
        own, (x, y) = block
        return share(ask, (state.posterior.draw(own), mask, state.buffers), x, y)

    return lax.map(one, (keys, blocks)).reshape(-1)


def largest_part(
    model: Model, state: State, proposal: Proposal, judge: Judge, measuring: Measuring, key: PRNGKeyArray
) -> tuple[Int[Array, ""], Change]:
    """How many items of a proposal stand, the first of its order, and the change of the bound that was measured for
    them. One loop that asks the network at no item, at all, and then by halves: it is compiled once."""
    zero = Change(jnp.float32(0.0), jnp.float32(0.0))
    prior, left = model.latent_prior, state.mask & ~proposal.weights(jnp.int32(0))
    scales_only = state.posterior.divergence(prior, jnp.zeros_like(left))

    def ask(k: Array, before: Array) -> tuple[Array, Change]:
        gone = proposal.weights(k) & left
        now = log_likelihoods(model, state, left & ~gone, judge.examples, key, measuring.draws, judge.share)
        paid = state.posterior.divergence(prior, gone) - scales_only  # by what goes: no difference of large numbers
        return now, Change(-judge.data_size * jnp.mean(now - before), -paid)

    def body(carry: tuple) -> tuple:
        turn, low, high, found, before = carry
        k = jnp.where(turn == 0, 0, jnp.where(turn == 1, proposal.size, (low + high) // 2))
        now, change = ask(k, before)
        stands = judge.gain(change) + proposal.allowed(k) >= 0.0
        stands |= (turn == 1) & (not measuring.binding)
        stands &= turn > 0
        found = jax.tree.map(lambda new, old: jnp.where(stands, new, old), change, found)
        low, high = jnp.where(stands, k, low), jnp.where(stands | (turn == 0), high, k)
        return turn + 1, low, high, found, jnp.where(turn == 0, now, before)

    def goes_on(carry: tuple) -> Array:
        turn, low, high, *_ = carry
        return (turn < 2) | ((turn < 2 + measuring.rounds) & (high - low > 1))

    start = jnp.int32(0), jnp.int32(0), proposal.size, zero, jnp.zeros(len(judge.examples[1]))
    _, low, _, found, _ = lax.while_loop(goes_on, body, start)
    return low, found
