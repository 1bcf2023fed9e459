"""The compiled parts of a run: some steps, one reduction, one evaluation, for all seeds at once."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..data.held_out import HeldOut
from ..errors import ArgumentError, ExportError
from ..evaluation import (
    Believed,
    Predictive,
    best_noise,
    best_temperature,
    is_as_wanted,
    outputs_of_draws,
    outputs_of_mean,
    predict,
    temperature_cost,
    with_outputs_divided,
)
from ..inference.beginning import Beginning, first_posterior
from ..inference.model import Model
from ..inference.posteriors import Posterior
from ..inference.recomputing import compiler_options
from ..inference.schedules import Circumstances, first_nats_of, kl_weight_of
from ..inference.training import EVALUATION_STREAM, Augment, Batch, Budget, Info, State, Stepper, start
from ..methods import Method
from ..reduction.reducing import Record, believe, reduce
from ..structure.units import Units
from .devices import Devices
from .starting import Start

T = TypeVar("T")
LONGEST_CHUNK = 100  # steps between two looks at whether to stop


@dataclass(frozen=True)
class Task:
    """What is to be trained: a model, by a method, for so long, on examples of which some are held out."""

    model: Model
    method: Method
    budget: Budget
    held_out: HeldOut
    seeds: tuple[int, ...] = (0,)
    augment: Augment | None = None
    units: tuple[Units, ...] = ()  # that the method weighs
    start: Start | None = None  # from what was trained already


class Program:
    """Compiled functions of the state. Every leaf of the state has a leading axis of seeds, also where there is one."""

    def __init__(self, task: Task, devices: Devices = Devices(), longest_chunk: int = LONGEST_CHUNK):
        self.task, self.devices = task, devices
        self.model, self.method, self.budget, self.seeds = task.model, task.method, task.budget, task.seeds
        self.longest_chunk = min(longest_chunk, LONGEST_CHUNK)
        devices.check_batch(task.budget.batch_size, task.budget.micro_batches)
        self.optimizer = task.method.optimizer(task.method.learning_rate, task.budget.total_steps)
        self.stepper = Stepper(
            task.model, self.optimizer, task.method.estimator, task.augment, devices.share, task.method.batches,
            task.budget.micro_batches, task.method.optimizer.curvature, task.method.optimizer.every,
        )  # fmt: skip
        self.train_chunk: dict[int, Callable[[State, Any], tuple[State, Info]]] = {
            steps: self.compile(self.stepper.epoch(steps, task.budget.batch_size, task.held_out), 1, donate=True)
            for steps in set(self.chunks)
        }
        self.reduce: Callable[[State, Array, Batch | None], tuple[State, Record]] = self.compile(
            self._reduction, 2, donate=True
        )
        self.reduce_untold: Callable[[State, Array, Batch | None], tuple[State, Record]] = self.compile(
            self._untold, 2, donate=True
        )
        self.foretell: Callable[[State, Array, Array], tuple[Array, Array]] = self.compile(self._foretold, 1, own=2)
        self._evaluate: Callable[[State, Array, Array, Array], Predictive] = self.compile(self._evaluation, 3)
        self.outputs: Callable[[State, Array], Array] = self.compile(self._outputs_of_draws, 1)
        self.mean_outputs: Callable[[State, Array], Array] = self.compile(self._outputs_of_mean, 1)
        # of the posterior alone: what does not change is not copied
        self._divided: Callable[[Posterior, Array, Array], Posterior] = self.compile(self._outputs_divided, 0, own=3)
        self._quietened: Callable[[Posterior, Array, Array], Posterior] = self.compile(_quietened, 0, own=3)
        self._kl_weight: Callable[[Array, Array, Array], Array] = self.compile(self._kl_weight_of, 0, own=3)

    def _reduction(self, state: State, progress: Array, examples: Batch | None) -> tuple[State, Record]:
        how, trained = self.method.reduction, self.task.held_out.trained
        assert how is not None
        share = self.devices.over_examples
        state, record = reduce(self.model, state, how, progress, self.task.units, examples, trained, share)
        return state, record._replace(delta_f=self._filled(record.delta_f))

    def _untold(self, state: State, progress: Array, examples: Batch | None) -> tuple[State, Record]:
        """A reduction that does not say what was foretold, for which vectors would be held while it is measured."""
        state, record = self._reduction(state, progress, examples)
        return state, record._replace(delta_f=jnp.zeros(0), predicted=jnp.zeros(()))

    def _foretold(self, state: State, mask: Array, progress: Array) -> tuple[Array, Array]:
        """Of the reduction of this state after which a mask is left: ΔF of each weight, and that of those that went."""
        assert self.method.reduction is not None
        delta_f = believe(self.model, state, self.method.reduction, progress).delta_f
        return self._filled(delta_f), jnp.sum(jnp.where(state.mask & ~mask, delta_f, 0.0))

    def _filled(self, weights: Array) -> Array:
        """A number a weight: with vectors that are spread, as long as they are, so that it is spread too."""
        rest = self.model.latent_count - weights.size if self.devices.shard_weights else 0
        return jnp.pad(weights, (0, rest)) if rest else weights

    def _evaluation(self, state: State, inputs: Array, targets: Array, num_samples: Array) -> Predictive:
        def ask(about: tuple[State, Array], inputs: Array, targets: Array) -> Predictive:
            state, draws = about
            key = jax.random.fold_in(state.key, EVALUATION_STREAM)
            return predict(self.model, believed(state), key, inputs, targets, draws)

        return self.devices.over_examples(ask, (state, num_samples), inputs, targets)

    def _outputs_of_draws(self, state: State, inputs: Array) -> Array:
        assert self.method.calibration is not None
        draws = self.method.calibration.num_samples

        def ask(state: State, inputs: Array) -> Array:
            key = jax.random.fold_in(state.key, EVALUATION_STREAM)
            return outputs_of_draws(self.model, believed(state), key, inputs, draws)

        return self.devices.over_examples(ask, state, inputs, axis=1)

    def _outputs_of_mean(self, state: State, inputs: Array) -> Array:
        def ask(state: State, inputs: Array) -> Array:
            return outputs_of_mean(self.model, believed(state), inputs)

        return self.devices.over_examples(ask, state, inputs, axis=1)

    def _outputs_divided(self, posterior: Posterior, mask: Array, temperature: Array) -> Posterior:
        return with_outputs_divided(self.model, posterior, mask, temperature)

    def _kl_weight_of(self, mask: Array, step: Array, nats: Array) -> Array:
        now = Circumstances(step, self.budget.total_steps, jnp.sum(mask), self.task.held_out.trained, nats)
        return kl_weight_of(self.method.kl_weight, now)

    @property
    def chunks(self) -> list[int]:
        """An epoch's steps cut into chunks of nearly the same length, none longer than `longest_chunk`."""
        steps = self.budget.steps_per_epoch
        count = -(-steps // self.longest_chunk)
        short, longer = divmod(steps, count)
        return [short + 1] * longer + [short] * (count - longer)

    def with_kl_weight(self, state: State) -> State:
        """The state that knows the KL weight of the coming epoch."""
        return state._replace(kl_weight=self.place(self._kl_weight(state.mask, state.step, state.nats)))

    def evaluate(self, state: State, inputs: Array, targets: Array, num_samples: int = 100) -> Predictive:
        """The predictive of every seed, averaged over `num_samples` draws; compiled once for any number of them."""
        return self._evaluate(state, inputs, targets, jnp.int32(num_samples))

    def calibrate(self, state: State, inputs: Array, targets: Array) -> tuple[State, list[dict[str, float]]]:
        """The state with each seed's best noise and temperature on these examples, and those by name. Where the
        likelihood takes no logits, or the outputs do not come from the last layer alone, nothing is changed."""
        calibration, unchanged = self.method.calibration, [{"temperature": 1.0} for _ in self.seeds]
        if not self.model.likelihood.takes_logits or calibration is None:
            return state, unchanged
        quiet, noise = state, None
        if calibration.log_noise_std is not None and state.posterior.has_deviations:
            noise = self._best_noise(state, inputs, targets)
            quiet = self.quietened(state, noise)
        after, found = self._at_best_temperatures(self.outputs, quiet, inputs, targets)
        if after is None:
            return state, unchanged
        lines = [{"temperature": temperature} for temperature in found]
        return after, lines if noise is None else [{**x, "noise": float(y)} for x, y in zip(lines, noise, strict=True)]

    def quietened(self, state: State, factors: Float[np.ndarray, "seeds"]) -> State:
        """The state with each seed's deviations multiplied. They go with the root of the KL weight wherever the data
        say more than the prior: what goes by the one knows of the other."""
        noise = jnp.asarray(factors, jnp.float32)
        posterior = self._quietened(state.posterior, state.mask, noise)
        return state._replace(posterior=posterior, kl_weight=self.place(state.kl_weight * noise**2))

    def _best_noise(self, state: State, inputs: Array, targets: Array) -> np.ndarray:
        """Each seed's factor on its deviations. The draws are the same for every factor, and each is judged at its own
        best temperature."""
        calibration, likelihood = self.method.calibration, self.model.likelihood
        assert calibration is not None
        assert calibration.log_noise_std is not None
        log_std = calibration.log_temperature_std

        def cost(noise: np.ndarray) -> np.ndarray:
            found = self.outputs(self.quietened(state, noise), inputs)
            hot = [math.log(best_temperature(outputs, targets, likelihood, log_std)) for outputs in found]
            pairs = zip(found, hot, strict=True)
            return np.array([float(temperature_cost(own, targets, likelihood, x, log_std)) for own, x in pairs])

        return best_noise(cost, len(self.seeds), calibration.log_noise_std)

    def mean_temperatures(self, state: State, inputs: Array, targets: Array) -> list[float] | list[None]:
        """By which the outputs of each seed's network at the posterior mean are best divided, on the same examples. It
        is another than that of averaged draws, whose average is less sure than they are. The state stays as it is: the
        temperature is for a file that holds this one network. None where there is none to find, as in `calibrate`, and
        for a point estimate, which is calibrated already."""
        is_asked = self.method.calibration is not None and self.model.likelihood.takes_logits
        if not is_asked or not state.posterior.has_deviations:
            return [None] * len(self.seeds)
        after, found = self._at_best_temperatures(self.mean_outputs, state, inputs, targets)
        return [None] * len(self.seeds) if after is None else found

    def _at_best_temperatures(
        self, ask: Callable[[State, Array], Array], state: State, inputs: Array, targets: Array
    ) -> tuple[State | None, list[float]]:
        """The state whose outputs are divided by each seed's best temperature, and those; no state where dividing the
        last layer does not divide the outputs."""
        assert self.method.calibration is not None
        before = ask(state, inputs)
        log_std, likelihood = self.method.calibration.log_temperature_std, self.model.likelihood
        found = [best_temperature(outputs, targets, likelihood, log_std) for outputs in before]
        posterior = self._divided(state.posterior, state.mask, jnp.asarray(found, jnp.float32))
        after = state._replace(posterior=posterior)
        wanted = np.asarray(before) / np.reshape(found, (-1, 1, 1, 1))
        return after if is_as_wanted(ask(after, inputs), wanted) else None, found

    def compile(self, function: Callable, shared: int, donate: bool = False, own: int = 1) -> Any:
        """The function over all seeds at once; the first `own` arguments are each seed's own, the others shared. One
        seed is not mapped over, which costs a GPU time."""
        if len(self.seeds) == 1:

            def lifted(*arguments: Any) -> Any:
                alone = jax.tree.map(lambda leaf: leaf[0], arguments[:own])
                return jax.tree.map(lambda leaf: leaf[None], function(*alone, *arguments[own:]))
        else:
            lifted = jax.vmap(function, in_axes=(*[0] * own, *[None] * shared))

        def settled(*arguments: Any) -> Any:
            return self.devices.constrain(lifted(*arguments), self.model.latent_count)

        options = compiler_options() if self.model.recompute_activations else None
        return jax.jit(settled, donate_argnums=0 if donate else (), compiler_options=options)

    def start(self) -> State:
        """The first state of every seed."""
        begin = jax.jit(self._start)  # one program instead of some dozen small ones
        own = self.task.start
        beginning = None if own is None else own.beginning(self.method.posterior.has_deviations)
        return self.place(stack([begin(jax.random.key(seed), beginning) for seed in self.seeds]))

    def shape_of_one(self) -> State:
        """The shapes and types of one seed's state."""
        return jax.eval_shape(self._start, jax.random.key(0))

    def place(self, tree: T) -> T:
        """A state, or a part of one, where the devices want it."""
        return self.devices.put(tree, self.model.latent_count) if self.devices.mesh is not None else tree

    def _start(self, seed_key: PRNGKeyArray, beginning: Beginning | None = None) -> State:
        first_key, key = jax.random.split(seed_key)
        nats = first_nats_of(self.method.kl_weight)
        if beginning is None:
            posterior = self.method.posterior.start(self.method.init(self.model, first_key))
            return start(self.model, posterior, self.optimizer, key, nats)
        assert self.task.start is not None
        how, mask = self.task.start.how, beginning.keep
        kl_weight = self._kl_weight_of(mask, jnp.int32(0), jnp.float32(nats)) if how.is_tempered else 1.0
        family = self.method.posterior
        largest = family.init_std if how.largest_std is None else how.largest_std
        posterior = first_posterior(self.model, family, beginning, kl_weight, largest)
        state = start(self.model, posterior, self.optimizer, key, nats)
        return state._replace(mask=mask, buffers=beginning.buffers)


def _quietened(posterior: Posterior, mask: Array, factor: Array) -> Posterior:
    return posterior.quieten(mask, factor)


def believed(state: State) -> Believed:
    """What a prediction needs of a state."""
    return Believed(state.posterior, state.mask, state.buffers)


def of_seed(tree: T, index: int) -> T:
    """One seed's part of a state, record or predictive."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def stack(states: list[T]) -> T:
    """One state, or any tree, for all seeds from one each."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def choose(flags: Bool[np.ndarray, "seeds"], chosen: T, other: T) -> T:
    """Each seed's part of `chosen` where its flag is up, else of `other`."""
    if flags.all() or not flags.any():
        return chosen if flags.all() else other
    return jax.tree.map(lambda one, two: jnp.where(flags.reshape(-1, *[1] * (two.ndim - 1)), one, two), chosen, other)


def find_task_units(model: Model, method: Method, example: Any) -> tuple[Units, ...]:
    """The units that the method weighs, if it weighs any."""
    if method.reduction is None or method.reduction.unit_price is None:
        return ()
    from ..structure.unit_search import find_units

    try:
        return find_units(model.network, model.buffers, model.calling, model.layout, example, model.preprocess)
    except ExportError as error:
        raise ArgumentError(f"unit_price: the units of this network cannot be found. {error}") from error
