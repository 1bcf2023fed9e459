"""Objective, step, epoch: pure functions of (state, data).

The negative ELBO over the data set, in nats,

    F = N · E_q[ −ln p(y | x, w) ] + β · KL(q ‖ prior),

with the expectation over one draw of the weights and one batch. A step minimises F / N. β is 1 for the evidence bound;
`neg_elbo` is always reported at β = 1, whatever was minimised.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .calibration import Calibration, count_trained, places_trained, spacing_of
from .errors import ArgumentError
from .estimators import Estimator, SharedDraw
from .model import Model, Portion
from .posteriors import Posterior
from .schedules import Schedule

# Steps take their randomness from fold_in(key, step); these streams are beyond any step.
EVALUATION_STREAM = 2**32 - 1
REDUCTION_STREAM = 2**32 - 2


class State(NamedTuple):
    """All that changes while training."""

    posterior: Posterior
    optimizer: optax.OptState
    mask: Bool[Array, "weights"]
    key: PRNGKeyArray
    step: Int[Array, ""]
    nats: Float[Array, ""]  # of an example, not explained yet: what it cost after the last epoch


class Info(NamedTuple):
    """What one step saw, in nats over the data set."""

    neg_elbo: Float[Array, ""]
    expected_nll: Float[Array, ""]
    divergence: Float[Array, ""]


@dataclass(frozen=True)
class Budget:
    """How long to train: `epochs` of `steps` steps on `batch` examples each."""

    epochs: int = 50
    steps: int = 500
    batch: int = 128

    def __post_init__(self):
        for name in ("epochs", "steps", "batch"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ArgumentError(f"{name}: {value!r} given; it must be a whole number from 1 up")

    @property
    def total_steps(self) -> int:
        return self.epochs * self.steps


def start(
    posterior: Posterior,
    weights: int,
    optimizer: optax.GradientTransformation,
    key: PRNGKeyArray,
    nats: float = Schedule.first_nats,
) -> State:
    """The first state. Every leaf is strongly typed, so that the epoch is compiled once, and a copy, since epochs
    donate their state."""
    optimizer_state = optimizer.init(eqx.filter(posterior, eqx.is_array))
    state = State(posterior, optimizer_state, jnp.ones(weights, bool), key, jnp.int32(0), jnp.float32(nats))
    return jax.tree.map(lambda leaf: jnp.array(leaf, leaf.dtype, copy=True), state)


def objective(
    posterior: Posterior,
    model: Model,
    mask: Bool[Array, "weights"],
    batch: tuple[Array, Array],
    key: PRNGKeyArray,
    data_size: int,
    divergence_weight: Float[Array, ""] | float = 1.0,
    estimator: Estimator = SharedDraw(),
    portion: Portion | None = None,
) -> tuple[Float[Array, ""], Info]:
    """What a step minimises (F / N), and its parts in nats. `portion`: which examples of a larger batch these are."""
    log_likelihood = model.expected_log_likelihood(posterior, estimator, mask, *batch, key, portion)
    expected_nll = -data_size * jnp.mean(log_likelihood)
    divergence = posterior.divergence(model.latent_prior, mask)
    loss = (expected_nll + divergence_weight * divergence) / data_size
    return loss, Info(expected_nll + divergence, expected_nll, divergence)


def draws(
    key: PRNGKeyArray, first: Int[Array, ""] | int, steps: int, batch: int, examples: int, spacing: int = 0
) -> tuple[Int[Array, "steps batch"], PRNGKeyArray]:
    """Which of the examples each of the steps from `first` on looks at, and the key for the rest of its randomness: a
    function of the step's number alone. The last of every `spacing` examples is held out."""
    step_keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(first + jnp.arange(steps))
    batch_keys, keys = jax.vmap(jax.random.split, out_axes=1)(step_keys)
    count = count_trained(examples, spacing)
    numbers = jax.vmap(lambda key: jax.random.randint(key, (batch,), 0, count))(batch_keys)
    return places_trained(numbers, spacing), keys


Share = Callable[..., Any]  # (slope, posterior, mask, batch, key, weight) → gradient and Info, see `alone`


def alone(slope: Callable[..., Any], *arguments: Any) -> Any:
    """The whole batch on one device."""
    return slope(*arguments, None)


def make_step(
    model: Model,
    optimizer: optax.GradientTransformationExtraArgs,
    budget: Budget,
    divergence_weight: Schedule,
    estimator: Estimator = SharedDraw(),
    share: Share = alone,
) -> Callable[[State, tuple[Array, Array], PRNGKeyArray, int, Int[Array, ""]], tuple[State, Info]]:
    """One step on one batch of data of a given size, with so many weights left. `share` shares the work on the batch
    out over devices."""

    def step(
        state: State, batch: tuple[Array, Array], key: PRNGKeyArray, data_size: int, weights: Int[Array, ""]
    ) -> tuple[State, Info]:
        def slope(posterior: Posterior, mask: Array, batch: Any, key: PRNGKeyArray, weight: Any, portion: Any) -> Any:
            gradient = jax.grad(objective, has_aux=True)
            return gradient(posterior, model, mask, batch, key, data_size, weight, estimator, portion)

        weight = divergence_weight.of_network(state.step / budget.total_steps, weights, data_size, state.nats)
        gradient, info = share(slope, state.posterior, state.mask, batch, key, weight)
        before: Any = state.posterior
        updates, optimizer_state = optimizer.update(gradient, state.optimizer, before, temper=weight / data_size)
        after = eqx.apply_updates(before, updates)
        return state._replace(posterior=after, optimizer=optimizer_state, step=state.step + 1), info

    return step


def make_epoch(
    model: Model,
    optimizer: optax.GradientTransformationExtraArgs,
    budget: Budget,
    divergence_weight: Schedule,
    estimator: Estimator = SharedDraw(),
    steps: int | None = None,
    share: Share = alone,
    calibration: Calibration | None = None,
) -> Callable[[State, tuple[Array, Array]], tuple[State, Info]]:
    """One epoch as one function: `budget.steps` steps, batches drawn with replacement where the data lie. With `steps`
    it is that many steps of one: all randomness depends on the step's number alone. What is held out for the
    calibration is not trained on.

    Wrap it in `jax.jit(..., donate_argnums=0)`; `jax.vmap` over the state trains several seeds at once.
    """
    step = make_step(model, optimizer, budget, divergence_weight, estimator, share)
    count = budget.steps if steps is None else steps

    def epoch(state: State, data: tuple[Array, Array]) -> tuple[State, Info]:
        weights, examples = jnp.sum(state.mask), len(data[0])
        spacing = spacing_of(calibration, examples)
        data_size = count_trained(examples, spacing)

        # The batches and keys of all steps at once, each from its own step's number: two launches a step fewer
        def one(carry: State, drawn: tuple[Array, PRNGKeyArray]) -> tuple[State, Info]:
            rows, key = drawn
            return step(carry, (data[0][rows], data[1][rows]), key, data_size, weights)

        return lax.scan(one, state, draws(state.key, state.step, count, budget.batch, examples, spacing))

    return epoch
