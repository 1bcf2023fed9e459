"""One reduction: score, decide, remove. A pure function of the state."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ..errors import ArgumentError
from ..inference.model import Model
from ..inference.posteriors import widen
from ..inference.schedules import InSteps, Schedule
from ..inference.training import REDUCTION_STREAM, State
from ..structure.layout import Layout
from ..structure.units import Units
from .criteria import Beliefs, Criterion, SpikeAndSlab, lowest
from .delta_f import removal, retempered
from .schedule import Every, ReductionSchedule


@dataclass(frozen=True)
class Reduction:
    """How a method prunes: by which criterion, when, and whether the output layer may be reduced too.

    **evidence** None takes ΔF from the posterior as it was trained. Where the divergence weighs β < 1 that is too kind
    to the weights, since every datum counts 1/β times. A schedule over the run says how far ΔF goes back on that: at 1
    it is the evidence that the data really hold, whatever β; between 0 and 1 every datum counts β^(evidence − 1) times
    (see `delta_f.retempered`); more than 1 asks for stronger evidence still.
    **unit_price** None weighs single weights only. A number also weighs whole units (hidden units, channels, attention
    heads) by the sum of their weights' ΔF, and removes those that earn less than that many nats for each weight they
    have in the dense network: 0 is the evidence alone; more trades evidence for a network that is smaller and faster.
    With the criterion `Evidence(math.inf)`, which no single weight meets, units alone are weighed.
    **least_left** None removes at once what the criterion says. A schedule over the run says which share of the
    reducible weights must still be there: the network is pruned no faster than that, the largest ΔF first, and a
    reduction takes no larger share of a layer's units than it may take of the weights.
    **tolerance** None lets every reduction stand. A number undoes one after whose epoch the fit is worse than the best
    so far by more than that share of what the best had gained over a network that learnt nothing; the epoch after it
    trains without a reduction.
    """

    criterion: Criterion = SpikeAndSlab()
    schedule: ReductionSchedule = Every()
    keep_output: bool = True
    evidence: Schedule | None = None
    least_left: Schedule | None = None
    tolerance: float | None = None
    unit_price: float | None = None

    def __post_init__(self):
        for name, kind, example in (
            ("criterion", Criterion, "Evidence()"),
            ("schedule", ReductionSchedule, "Every()"),
        ):
            if not isinstance(getattr(self, name), kind):
                raise ArgumentError(f"{name}: {getattr(self, name)!r} given; it must be an object such as {example}")
        if self.unit_price is not None and not self.unit_price >= 0:
            raise ArgumentError(f"unit_price: {self.unit_price!r} given; it must be 0 or more nats per weight, or None")
        for name in ("evidence", "least_left"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, Schedule) or isinstance(value, InSteps)):
                raise ArgumentError(
                    f"{name}: {value!r} given; it must be a schedule over the run such as ox.schedules.Ramp(0.0, 1.0), "
                    "or None"
                )
        if self.tolerance is not None and not self.tolerance > 0:
            raise ArgumentError(f"tolerance: {self.tolerance!r} given; it must be positive, or None")

    def refuse_point(self) -> None:
        """Refuses a point estimate, where this reduction needs more."""
        if self.criterion.needs_evidence or self.unit_price is not None:
            raise ArgumentError(
                "reduction: this one compares evidence, and a point estimate has none. Choose a mean-field posterior, "
                "or a score that needs no evidence, such as TargetSparsity(0.9, Magnitude())"
            )


class Record(NamedTuple):
    """What one reduction did."""

    mask: Bool[Array, "weights"]  # True keeps
    delta_f: Float[Array, "weights"]  # of each weight before the reduction; 0 for those removed earlier
    threshold: Float[Array, "blocks"]
    removed: Int[Array, "blocks"]  # in this reduction
    remaining: Int[Array, "blocks"]


def reducible(layout: Layout, keep_output: bool) -> Bool[np.ndarray, "weights"]:
    """The weights that may be removed: all, or all but the output layer's."""
    return layout.flags(lambda block: not (keep_output and block is layout.blocks[-1]))


def reduce(
    model: Model,
    state: State,
    reduction: Reduction,
    optimizer: optax.GradientTransformation,
    progress: Float[Array, ""] | float = 0.0,
    units: Sequence[Units] = (),
) -> tuple[State, Record]:
    """Removes what the criterion says, of a posterior trained with the state's KL weight, and those of the `units` that
    are not worth their price. A removed weight's posterior becomes its prior at once and its moments in the optimiser
    are cleared: nothing of it is left to drift."""
    layout = model.layout
    beliefs = believe(model, state, reduction, progress)
    decision = reduction.criterion.decide(layout, beliefs)
    alive, limit = state.mask & beliefs.reducible, None
    gone = alive & ~decision.keep
    if reduction.least_left is not None:
        count = jnp.sum(alive)
        least = jnp.ceil(reduction.least_left(progress) * jnp.sum(beliefs.reducible)).astype(count.dtype)
        most = jnp.maximum(count - least, 0)
        limit = most / jnp.maximum(count, 1)
        gone &= lowest(jnp.where(gone, -beliefs.delta_f, jnp.inf), most)
    if reduction.unit_price is not None:
        for kind in units:
            chosen = idle(kind, beliefs.delta_f, state.mask, reduction.unit_price, limit)
            gone = kind.mark(gone, chosen) & alive
    mask = state.mask & ~gone
    record = Record(mask, beliefs.delta_f, decision.threshold, _count(layout, gone), _count(layout, mask))
    return remove(state, gone, optimizer), record


def believe(model: Model, state: State, reduction: Reduction, progress: Float[Array, ""] | float) -> Beliefs:
    """What the criterion may look at."""
    layout, posterior = model.layout, state.posterior
    mean, std = posterior.point[: layout.size], posterior.std[: layout.size]
    may_go = jnp.asarray(reducible(layout, reduction.keep_output))
    may_go = lax.optimization_barrier(may_go)  # XLA takes seconds to count constants, and complains
    if not posterior.has_deviations:
        reduction.refuse_point()
        delta_f = jnp.zeros_like(mean)
    elif reduction.evidence is None:
        delta_f = removal(mean, std**2)
    else:
        delta_f = removal(*retempered(mean, std**2, state.kl_weight ** reduction.evidence(progress)))
    weight = model.weights(posterior.point, state.mask)
    key = jax.random.fold_in(jax.random.fold_in(state.key, REDUCTION_STREAM), state.step)
    return Beliefs(delta_f, mean, std, weight, state.mask, may_go, jnp.asarray(progress), key)


def idle(
    units: Units,
    delta_f: Float[Array, "weights"],
    mask: Bool[Array, "weights"],
    price: float,
    limit: Float[Array, ""] | float | None = None,
) -> Bool[Array, "units"]:
    """The units that earn less than `price` nats for each weight they have in the dense network. At most a share
    `limit` of those alive, the least worth first; one always stays."""
    gain = units.totals(jnp.where(mask, delta_f, 0.0)) + price * units.weights_each
    alive = units.totals(mask.astype(jnp.int32)) > 0
    chosen = alive & (gain > 0)
    most = jnp.maximum(jnp.sum(alive) - 1, 0)
    if limit is not None:
        most = jnp.minimum(most, jnp.ceil(limit * jnp.sum(alive)).astype(most.dtype))
    return chosen & lowest(jnp.where(chosen, -gain, jnp.inf), most)


def remove(state: State, gone: Bool[Array, "weights"], optimizer: optax.GradientTransformation) -> State:
    """The state without the weights in `gone`."""
    forget = widen(gone, state.posterior.point)
    moments = optax.tree.map_params(optimizer, lambda leaf: jnp.where(forget, 0.0, leaf), state.optimizer)
    return state._replace(posterior=state.posterior.forget(gone), optimizer=moments, mask=state.mask & ~gone)


def _count(layout: Layout, flags: Bool[Array, "weights"]) -> Int[Array, "blocks"]:
    return layout.totals(flags.astype(jnp.int32))
