"""Objective, step, epoch: pure functions of (state, data).

The negative ELBO over the data set, in nats,

    F = N · E_q[ −ln p(y | x, w) ] + β · KL(q ‖ prior),

with the expectation over one draw of the weights and one batch. A step minimises F / N. β is 1 for the evidence bound;
`neg_elbo` is always reported at β = 1, whatever was minimised. β is set once an epoch and carried in the state.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from ..data.held_out import HeldOut
from ..errors import ArgumentError
from ..structure.calling import Buffers
from .batches import Batches, WithReplacement
from .curvature import Curvature
from .estimators import Estimator, SharedDraw
from .model import BatchPart, Model, keys_of
from .posteriors import Posterior

# Steps take their randomness from fold_in(key, step); these streams are beyond any step.
EVALUATION_STREAM = 2**32 - 1
REDUCTION_STREAM = 2**32 - 2
AUGMENTATION_STREAM = 2**32 - 3  # of a step's own key
CURVATURE_STREAM = 2**32 - 4  # the same

Augment = Callable[[PRNGKeyArray, Array], Array]  # a key and one raw example → another of the same shape and type
Batch = tuple[Array, Array]


class State(NamedTuple):
    """All that changes while training: the **posterior** over the latents; the **optimizer**'s state; the **mask**
    (weights,), True keeps; the run's **key**; the **step** it stands at; **nats** of an example, not explained yet:
    what it cost after the last epoch; the **kl_weight** β under which the posterior is trained; **buffers** of a
    network with a state.

    Examples:
        >>> int(fitted.state.step), fitted.state.mask.shape
        (80, (178,))
    """

    posterior: Posterior
    optimizer: optax.OptState
    mask: Bool[Array, "weights"]
    key: PRNGKeyArray
    step: Int[Array, ""]
    nats: Float[Array, ""]
    kl_weight: Float[Array, ""]
    buffers: Buffers


class Info(NamedTuple):
    """What one step saw, in nats over the data set."""

    neg_elbo: Float[Array, ""]
    expected_nll: Float[Array, ""]
    divergence: Float[Array, ""]


@dataclass(frozen=True)
class Budget:
    """How long to train: **epochs** of **steps_per_epoch** steps on **batch_size** examples each,
    which a device looks at in **micro_batches** parts, one after the other.

    Raises:
        ArgumentError: a number that is not whole and positive.

    Examples:
        >>> ox.Budget(epochs=20, steps_per_epoch=500).total_steps
        10000
    """

    epochs: int = 50
    steps_per_epoch: int = 500
    batch_size: int = 128
    micro_batches: int = 1

    def __post_init__(self):
        for name in ("epochs", "steps_per_epoch", "batch_size", "micro_batches"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ArgumentError(f"{name}: {value!r} given; it must be a whole number from 1 up")
            if value >= 2**31:  # steps are counted in 32 bits
                raise ArgumentError(f"{name}: {value!r} given; it must be under {2**31:,}")

    @property
    def total_steps(self) -> int:
        """Of the whole run."""
        return self.epochs * self.steps_per_epoch


def start(
    model: Model,
    posterior: Posterior,
    optimizer: optax.GradientTransformation,
    key: PRNGKeyArray,
    nats: float = 0.5,
) -> State:
    """The first state. Every leaf is strongly typed, so that the epoch is compiled once, and a copy, since epochs
    donate their state."""
    optimizer_state = optimizer.init(eqx.filter(posterior, eqx.is_array))
    mask = jnp.ones(model.layout.size, bool)
    numbers = jnp.int32(0), jnp.float32(nats), jnp.float32(1.0)
    state = State(posterior, optimizer_state, mask, key, *numbers, model.buffers)
    return jax.tree.map(lambda leaf: jnp.array(leaf, leaf.dtype, copy=True), state)


def objective(
    posterior: Posterior,
    model: Model,
    mask: Bool[Array, "weights"],
    batch: Batch,
    key: PRNGKeyArray,
    data_size: int,
    kl_weight: Float[Array, ""] | float = 1.0,
    estimator: Estimator | None = None,
    buffers: Buffers | None = None,
    part: BatchPart | None = None,
) -> tuple[Float[Array, ""], tuple[Info, Buffers]]:  # the variables of F, one each
    """What a step minimises (F / N); its parts in nats and the network's buffers after it. `part`: which examples of a
    larger batch these are."""
    estimator = SharedDraw() if estimator is None else estimator
    log_likelihood, after = model.expected_log_likelihood(posterior, estimator, mask, batch, key, buffers, part)
    expected_nll = -data_size * jnp.mean(log_likelihood)
    divergence = posterior.divergence(model.latent_prior, mask)
    loss = (expected_nll + kl_weight * divergence) / data_size
    return loss, (Info(expected_nll + divergence, expected_nll, divergence), after)


def draws(
    key: PRNGKeyArray,
    first: Int[Array, ""] | int,
    steps: int,
    batch_size: int,
    held_out: HeldOut,
    batches: Batches = WithReplacement(),
) -> tuple[Int[Array, "steps batch"], Key[Array, "steps"]]:
    """Which of the examples each of the steps from `first` on looks at, and the key for the rest of its randomness: a
    function of the step's number alone. What is held out is not looked at."""
    step_keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(first + jnp.arange(steps))
    batch_keys, keys = jax.vmap(jax.random.split, out_axes=1)(step_keys)
    numbers = batches.numbers(key, batch_keys, first, batch_size, held_out.trained)
    return held_out.places_trained(numbers), keys


Share = Callable[
    ..., Any
]  # (slope, averages_draw, posterior, mask, buffers, batch, key, kl_weight) → what the slope gives, see `alone`


def alone(slope: Callable[..., Any], averages_draw: bool, *arguments: Any) -> Any:
    """The whole batch on one device."""
    return slope(*arguments, None)


def in_micro_batches(slope: Callable[..., Any], count: int) -> Callable[..., Any]:
    """The same slope, from a batch in `count` equal parts one after the other: their mean, in the memory of one. Each
    example keeps its own random numbers, and all see one draw of the weights. A network with a state, as BatchNorm has,
    sees each part as a batch of its own and carries its state from one to the next."""

    def mean_slope(posterior: Any, mask: Any, buffers: Any, batch: Batch, key: Any, weight: Any, part: Any) -> Any:
        size = len(batch[1]) // count
        whole = BatchPart(0, len(batch[1]), None) if part is None else part
        parts = jax.tree.map(lambda leaf: leaf.reshape(count, size, *leaf.shape[1:]), batch)

        def one(carry: Any, given: Any) -> Any:
            (total_so_far, buffers), (number, own) = carry, given
            place = BatchPart(whole.start + number * size, whole.total, whole.axis)
            gradient, (info, buffers) = slope(posterior, mask, buffers, own, key, weight, place)
            return (jax.tree.map(jnp.add, total_so_far, (gradient, info)), buffers), None

        zero = jnp.float32(0)
        nothing = jax.tree.map(jnp.zeros_like, eqx.filter(posterior, eqx.is_array)), Info(zero, zero, zero)
        (summed, buffers), _ = lax.scan(one, (nothing, buffers), (jnp.arange(count), parts))
        gradient, info = jax.tree.map(lambda leaf: leaf / count, summed)
        return gradient, (info, buffers)

    return mean_slope


@dataclass(frozen=True)
class Stepper:
    """How one step is made: of which model, by which optimiser, with which estimate of the likelihood. `augment`
    changes each example before it is looked at; `share` shares the work on the batch out over devices; `batches` says
    which examples a step looks at. `micro_batches`: into how many parts a device cuts its part of the batch, to have
    the activations of one at a time; the step is the same. `curvature` measures, in one of `every` steps, how sharply
    the data hold each weight; None takes it from the gradient at the draw."""

    model: Model
    optimizer: optax.GradientTransformationExtraArgs
    estimator: Estimator = SharedDraw()
    augment: Augment | None = None
    share: Share = alone
    batches: Batches = WithReplacement()
    micro_batches: int = 1
    curvature: Curvature | None = None
    every: int = 1

    def __call__(
        self, state: State, batch: Batch, key: PRNGKeyArray, data_size: int, probes: Float[Array, ""] | float = 1.0
    ) -> tuple[State, Info]:
        """One step on one batch of data of a given size. `probes`: for how many steps its measure of the curvature
        stands; at zero there is none."""

        def slope(
            posterior: Posterior, mask: Array, buffers: Any, batch: Batch, key: Any, weight: Any, part: Any
        ) -> Any:
            batch = self._augmented(batch, key, part)
            gradient = jax.grad(objective, has_aux=True)
            return gradient(posterior, self.model, mask, batch, key, data_size, weight, self.estimator, buffers, part)

        before: Any = state.posterior
        whole = slope if self.micro_batches == 1 else in_micro_batches(slope, self.micro_batches)
        # Devices that have one draw of the weights average the gradient there: half the numbers of the posterior's
        averages_draw = self.micro_batches == 1 and not self.estimator.is_local
        given = before, state.mask, state.buffers, batch, key, state.kl_weight
        gradient, (info, buffers) = self.share(whole, averages_draw, *given)
        temper = state.kl_weight / data_size
        # The update waits for the objective: XLA would copy a posterior that is still read when it is written over
        temper = jnp.where(jnp.isnan(info.neg_elbo), jnp.nan, temper)
        if self.curvature is not None:
            slope_at = partial(self._slope_by_curvature, given, temper, probes)
            nothing = partial(jnp.zeros_like, gradient.log_std)
            by_log_std = lax.cond(jnp.asarray(probes) > 0, slope_at, nothing)
            gradient = eqx.tree_at(lambda own: own.log_std, gradient, by_log_std)
        updates, optimizer_state = self.optimizer.update(gradient, state.optimizer, before, temper=temper)
        after = eqx.apply_updates(before, updates)
        state = state._replace(posterior=after, optimizer=optimizer_state, step=state.step + 1, buffers=buffers)
        return state, info

    def _slope_by_curvature(
        self, given: tuple[Any, ...], temper: Array, times: Array | float
    ) -> Float[Array, "latents"]:
        """The slope of F / N by the logarithms of the deviations, so many times, with h the curvature of an example's
        cost at the draw: σ² h from the data (Price's theorem), and what the divergence makes of it."""

        def slope(posterior: Posterior, mask: Array, buffers: Any, batch: Batch, key: Any, _: Any, part: Any) -> Any:
            batch = self._augmented(batch, key, part)
            return jax.grad(self._probed, has_aux=True)(posterior, mask, buffers, batch, key, part)

        posterior, mask, _, batch, *_ = given
        whole = slope if self.micro_batches == 1 else in_micro_batches(slope, self.micro_batches)
        mean_slope, _ = self.share(whole, False, *given)
        curvature = len(batch[1]) * mean_slope.mean**2  # examples' random signs cancel on average
        cost = jax.grad(lambda own: temper * own.divergence(self.model.latent_prior, mask))(posterior).log_std
        return times * (posterior.std**2 * curvature + cost)

    def _probed(
        self, posterior: Posterior, mask: Array, buffers: Any, batch: Batch, key: PRNGKeyArray, part: BatchPart | None
    ) -> tuple[Array, Any]:
        """A random sum of the outputs at the draw, whose slope by the means squared is the curvature on average. Each
        example has a key of its own, whatever part of a batch it is in."""
        assert self.curvature is not None
        probe, (draw_key, dropout_key) = self.curvature.probe, jax.random.split(key)
        latents = posterior.draw(draw_key)
        outputs, after = self.model.apply(self.model.bind(latents, mask), batch[0], buffers, dropout_key, part)
        log_scales = self.model.split(latents)[2]
        keys = keys_of(jax.random.fold_in(key, CURVATURE_STREAM), len(batch[1]), part)
        ask = lambda output, target, own: probe(self.model.likelihood, output[None], target[None], log_scales, own)[0]  # noqa: E731
        probes = lax.stop_gradient(jax.vmap(ask)(outputs, batch[1], keys))
        zero = jnp.float32(0)
        return jnp.sum(probes * outputs) / len(batch[1]), (Info(zero, zero, zero), after)

    def _augmented(self, batch: Batch, key: PRNGKeyArray, part: BatchPart | None) -> Batch:
        """Each example changed by a key of its own, the same whether its batch is whole or in parts."""
        if self.augment is None:
            return batch
        keys = keys_of(jax.random.fold_in(key, AUGMENTATION_STREAM), len(batch[1]), part)
        return jax.vmap(self.augment)(keys, batch[0]), batch[1]

    def probes(self, steps: int) -> Float[Array, "steps"]:
        """For how many of so many steps each one's measure of the curvature stands. It does not depend on the state, so
        that several seeds at once leave out the same steps."""
        asked = np.arange(steps) % self.every == 0
        return jnp.asarray(np.where(asked, steps / asked.sum(), 0.0), jnp.float32)

    def epoch(self, steps: int, batch_size: int, held_out: HeldOut) -> Callable[[State, Batch], tuple[State, Info]]:
        """So many steps as one function of the state and the data: batches are drawn where the data lie, by the
        step's number alone. What is held out is not trained on.

        Wrap it in `jax.jit(..., donate_argnums=0)`; `jax.vmap` over the state trains several seeds at once.
        """

        def epoch(state: State, data: Batch) -> tuple[State, Info]:
            # The batches and keys of all steps at once, each from its own step's number: two launches a step fewer
            def one(carry: State, drawn: tuple[tuple[Array, PRNGKeyArray], Array]) -> tuple[State, Info]:
                (rows, key), probes = drawn
                return self(carry, (data[0][rows], data[1][rows]), key, held_out.trained, probes)

            drawn = draws(state.key, state.step, steps, batch_size, held_out, self.batches)
            return lax.scan(one, state, (drawn, self.probes(steps)))

        return epoch
