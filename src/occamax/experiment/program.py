"""The compiled parts of a run: one epoch, one reduction, one evaluation, for one seed or several at once."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray

from ..data import Split
from ..errors import ArgumentError, ExportError
from ..evaluation import Predictive, best_temperature, outputs_of_draws, predict, with_outputs_divided
from ..layout import Units
from ..methods import Method
from ..model import Model
from ..reduction import Record, reduce
from ..training import EVALUATION_STREAM, Budget, Info, State, make_epoch, start
from .devices import Devices

T = TypeVar("T")
LONGEST_LAP = 100  # steps between two looks at whether to stop


class Program:
    """Compiled functions of the state. With several seeds every leaf of the state has a leading axis of seeds."""

    def __init__(
        self,
        model: Model,
        method: Method,
        budget: Budget,
        seeds: tuple[int, ...] = (0,),
        devices: Devices = Devices(),
        longest_lap: int | None = None,
    ):
        self.longest_lap = min(longest_lap or LONGEST_LAP, LONGEST_LAP)
        self.model, self.method, self.budget, self.seeds, self.devices = model, method, budget, seeds, devices
        devices.check_batch(budget.batch)
        self.optimizer = method.optimizer(method.learning_rate, budget.total_steps)
        units = _units(model, method)
        parts = (model, self.optimizer, budget, method.divergence_weight, method.estimator)
        sizes = (budget.steps, *set(self.laps))
        compiled = {
            n: self._compile(make_epoch(*parts, n, devices.share, method.calibration), 1, donate=True) for n in sizes
        }

        def reduction(state: State, progress: Array, examples: int) -> tuple[State, Record]:
            assert method.reduction is not None
            weight = method.divergence_weight.of_network(progress, jnp.sum(state.mask), examples, state.nats)
            return reduce(model, state, method.reduction, self.optimizer, progress, weight, units)

        def evaluation(state: State, inputs: Array, targets: Array, samples: Array) -> Predictive:
            key = jax.random.fold_in(state.key, EVALUATION_STREAM)
            return predict(model, state.posterior, state.mask, key, inputs, targets, samples)

        def outputs(state: State, inputs: Array) -> Array:
            assert method.calibration is not None
            key = jax.random.fold_in(state.key, EVALUATION_STREAM)
            return outputs_of_draws(model, state.posterior, state.mask, key, inputs, method.calibration.draws)

        def divided(state: State, temperature: Array) -> State:
            return state._replace(posterior=with_outputs_divided(model, state.posterior, state.mask, temperature))

        self.train: Callable[[State, Any], tuple[State, Info]] = compiled[budget.steps]  # a whole epoch
        self.train_lap: dict[int, Callable[[State, Any], tuple[State, Info]]] = compiled  # so many steps of one
        self.reduce: Callable[[State, Array, int], tuple[State, Record]] = self._compile(reduction, 2, donate=True)
        self._evaluate: Callable[[State, Array, Array, Array], Predictive] = self._compile(evaluation, 3)
        self._outputs: Callable[[State, Array], Array] = self._compile(outputs, 1)
        self._divided: Callable[[State, Array], State] = self._compile(divided, 0, own=2)

    @property
    def fill(self) -> int:
        """How many latents only make the vector divisible by the devices."""
        return self.model.latent_count - self.model.latents_used

    @property
    def laps(self) -> list[int]:
        """An epoch's steps cut into laps of nearly the same length, none longer than `longest_lap`."""
        count = -(-self.budget.steps // self.longest_lap)
        short, longer = divmod(self.budget.steps, count)
        return [short + 1] * longer + [short] * (count - longer)

    def evaluate(self, state: State, inputs: Array, targets: Array, samples: int = 100) -> Predictive:
        """The predictive of every seed, averaged over `samples` draws; compiled once for any number of them."""
        return self._evaluate(state, inputs, targets, jnp.int32(samples))

    def calibrate(self, state: State, inputs: Array, targets: Array) -> tuple[State, list[float]]:
        """The state whose outputs are divided by each seed's best temperature on these examples, and those. Where the
        likelihood takes no logits, or the outputs do not come from the last layer alone, nothing is changed."""
        unchanged = state, [1.0] * len(self.seeds)
        if not self.model.likelihood.takes_logits:
            return unchanged
        before = self._outputs(state, inputs)
        assert self.method.calibration is not None
        spread, likelihood = self.method.calibration.spread, self.model.likelihood
        each = (self.of_seed(before, i) for i in range(len(self.seeds)))
        found = [best_temperature(outputs, targets, likelihood, spread) for outputs in each]
        after = self._divided(state, jnp.asarray(found, jnp.float32).reshape(state.step.shape))
        wanted, outputs = np.asarray(before), np.asarray(self._outputs(after, inputs))
        wanted = wanted / np.reshape(found, (*state.step.shape, 1, 1, 1))
        if np.abs(outputs - wanted).mean() > 0.02 * np.abs(wanted).mean():  # bfloat16 rounds by up to .004
            return unchanged
        return after, found

    def _compile(self, function: Callable, shared: int, donate: bool = False, own: int = 1) -> Any:
        """The function over all seeds at once; the first `own` arguments are each seed's own, the others shared."""
        lifted = function if len(self.seeds) == 1 else jax.vmap(function, in_axes=(*[0] * own, *[None] * shared))

        def settled(*arguments: Any) -> Any:
            return self.devices.settle(lifted(*arguments), self.model.latent_count)

        return jax.jit(settled, donate_argnums=0 if donate else ())

    def start(self) -> State:
        """The first state of every seed."""
        start = jax.jit(self._start)  # one program instead of some dozen small ones
        return self.place(self.stack([start(jax.random.key(seed)) for seed in self.seeds]))

    def place(self, tree: T) -> T:
        """A state, or a part of one, where the devices want it."""
        return self.devices.put(tree, self.model.latent_count) if self.devices.mesh is not None else tree

    def _start(self, seed_key: PRNGKeyArray) -> State:
        first_key, key = jax.random.split(seed_key)
        posterior = self.method.first_posterior(self.model, first_key)
        return start(posterior, self.model.layout.size, self.optimizer, key, self.method.divergence_weight.first_nats)

    def of_seed(self, tree: Any, index: int) -> Any:
        """One seed's part of a state, record or predictive."""
        return tree if len(self.seeds) == 1 else jax.tree.map(lambda leaf: leaf[index], tree)

    def choose(self, flags: Bool[np.ndarray, "seeds"], chosen: Any, other: Any) -> Any:
        """Each seed's part of `chosen` where its flag is up, else of `other`."""
        if len(self.seeds) == 1:
            return chosen if flags[0] else other
        return jax.tree.map(
            lambda one, two: jnp.where(flags.reshape(-1, *[1] * (two.ndim - 1)), one, two), chosen, other
        )

    def stack(self, states: list[T]) -> T:
        """One state, or any tree, for all seeds from one each."""
        return states[0] if len(states) == 1 else jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def _units(model: Model, method: Method) -> tuple[Units, ...]:
    """The units that the method weighs, if it weighs any."""
    if method.reduction is None or method.reduction.unit_price is None:
        return ()
    from ..export.units import find_units  # export itself uses experiments

    try:
        return find_units(model.network, model.layout)
    except ExportError as error:
        raise ArgumentError(f"unit_price: the units of this network are not known. {error}") from error


def on_device(
    split: Split | tuple[Any, Any],
    devices: Devices = Devices(),
) -> tuple[Array, Array]:
    """Inputs and targets where the computation is, whole on every device."""
    inputs, targets = (split.inputs, split.targets) if isinstance(split, Split) else split
    return devices.put((np.asarray(inputs), np.asarray(targets)))
