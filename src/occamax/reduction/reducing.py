"""One reduction: score, decide, measure, remove. A pure function of the state and some examples."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ..errors import ArgumentError
from ..inference.model import Model
from ..inference.posteriors import widen
from ..inference.schedules import InSteps, Schedule
from ..inference.training import REDUCTION_STREAM, Batch, State
from ..structure.layout import Layout
from ..structure.units import Units
from .costs import UnitCost, Weights
from .counting import share_of_or_more
from .criteria import Beliefs, Criterion, SpikeAndSlab
from .delta_f import removal, retempered
from .measuring import Change, Judge, Measuring, alone, largest_part
from .proposing import Proposal, of_units, of_weights
from .schedule import Every, ReductionSchedule


@dataclass(frozen=True)
class Reduction:
    """How a method prunes: by which criterion, when, and whether the output layer may be reduced too.

    **evidence** None takes ΔF from the posterior as it was trained. Where the divergence weighs β < 1 every datum
    counted 1/β times in it, and ΔF is kinder to the weights than the data are. A schedule over the run says how far
    that is taken back, weight by weight: what the data added to a weight's natural parameters counts β^(evidence − 1)
    times, at 1 once. That is the posterior of β = 1 only where weights do not interact (see `delta_f.retempered`); more
    than 1 asks for stronger evidence still.
    **unit_price** None weighs single weights only. A number also weighs whole units (hidden units, channels, attention
    heads, branches of sums) by the sum of their weights' ΔF, and removes those that earn less than that many nats for
    what they cost: 0 is the evidence alone; more trades evidence for a network that is smaller and faster.
    With the criterion `Evidence(math.inf)`, which no single weight meets, units alone are weighed.
    **unit_cost** says in what a unit is paid for: `costs.Weights()` it has in the dense network, `costs.Bytes()` of a
    file, `costs.Latency()` measured on this machine.
    **least_left** None removes at once what the criterion says. A schedule over the run says which share of the
    reducible weights must still be there: the network is pruned no faster than that, the largest ΔF first, and a
    reduction takes no larger share of a layer's units than it may take of the weights.
    **tolerance** None lets every reduction stand. A number undoes one after whose epoch the fit is worse than the best
    so far by more than that share of what the best had gained over a network that learnt nothing; the epoch after it
    trains without a reduction.
    **measuring** says how the change of the bound is measured beside the ΔF that was predicted, and whether a proposal
    must not make it worse.

    **criterion** and **schedule** as above; **keep_output** False lets the output layer be reduced too.

    Raises:
        ArgumentError: a value that cannot work.

    Examples:
        >>> late = ox.Reduction(ox.criteria.Evidence(), ox.criteria.Between(0.5, 0.9), tolerance=0.02)
        >>> method = ox.BMR(reduction=late)
    """

    criterion: Criterion = SpikeAndSlab()
    schedule: ReductionSchedule = Every()
    keep_output: bool = True
    evidence: Schedule | None = None
    least_left: Schedule | None = None
    tolerance: float | None = None
    unit_price: float | None = None
    unit_cost: UnitCost = Weights()
    measuring: Measuring = Measuring()

    def __post_init__(self):
        for name, kind, example in (
            ("criterion", Criterion, "Evidence()"),
            ("schedule", ReductionSchedule, "Every()"),
            ("unit_cost", UnitCost, "costs.Weights()"),
            ("measuring", Measuring, "Measuring()"),
        ):
            if not isinstance(getattr(self, name), kind):
                raise ArgumentError(f"{name}: {getattr(self, name)!r} given; it must be an object such as {example}")
        if self.unit_price is not None and not self.unit_price >= 0:
            raise ArgumentError(f"unit_price: {self.unit_price!r} given; it must be 0 or more nats, or None")
        for name in ("evidence", "least_left"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, Schedule) or isinstance(value, InSteps)):
                raise ArgumentError(
                    f"{name}: {value!r} given; it must be a schedule over the run such as ox.schedules.Ramp(0.0, 1.0), "
                    "or None"
                )
        if self.tolerance is not None and not self.tolerance > 0:
            raise ArgumentError(f"tolerance: {self.tolerance!r} given; it must be positive, or None")

    @property
    def must_measure(self) -> bool:
        """Whether what units cost is still to be measured."""
        return self.unit_price is not None and self.unit_cost.is_open

    def refuse_point(self) -> None:
        """Refuses a point estimate, where this reduction needs more."""
        if self.criterion.needs_evidence or self.unit_price is not None:
            raise ArgumentError(
                "reduction: this one compares evidence, and a point estimate has none. Choose a mean-field posterior, "
                "or a score that needs no evidence, such as TargetSparsity(0.9, Magnitude())"
            )


class Record(NamedTuple):
    """What one reduction did. Where nothing was measured, the nats are not numbers.

    **mask** (weights,), True keeps; **delta_f** of each weight before the reduction, 0 for those removed earlier (with
    `shard_weights` spread over the devices, and filled up with zeros to where it can be); by layer the **threshold**
    and how many weights were **removed** in this reduction and are **remaining**; **proposed** so many weights, of
    which the removed are a part; **predicted** nats: ΔF of what was removed, summed;
    **expected_nll** and **divergence**, by how many nats they grew, over the data set, every datum counted once;
    **data_count** how often a datum counts in the bound that ΔF is of; **allowed** nats that this bound may fall by:
    the price of the units that went.

    Examples:
        >>> records = []
        >>> fitted = ox.fit(network, (x, y), on_epoch=lambda epoch: records.append(epoch.record), **short)
        >>> records[0] is None  # nothing is reduced before the first epoch
        True
    """

    mask: Bool[Array, "weights"]
    delta_f: Float[Array, "weights"]
    threshold: Float[Array, "blocks"]
    removed: Int[Array, "blocks"]
    remaining: Int[Array, "blocks"]
    proposed: Int[Array, ""]
    predicted: Float[Array, ""]
    expected_nll: Float[Array, ""]
    divergence: Float[Array, ""]
    data_count: Float[Array, ""]
    allowed: Float[Array, ""]


def reducible(layout: Layout, keep_output: bool) -> Bool[np.ndarray, "weights"]:
    """The weights that may be removed: all, or all but the output layer's."""
    return layout.flags(lambda block: not (keep_output and block is layout.blocks[-1]))


def reduce(  # one after the other: score, decide, measure, remove
    model: Model,
    state: State,
    reduction: Reduction,
    progress: Float[Array, ""] | float = 0.0,
    units: Sequence[Units] = (),
    examples: Batch | None = None,
    data_size: int = 0,
    share: Callable[..., Any] = alone,
) -> tuple[State, Record]:
    """Removes what the criterion says, of a posterior trained with the state's KL weight, and those of the **units**
    that are not worth their price. A removed weight's posterior becomes its prior at once and its moments in the
    optimiser are cleared: nothing of it is left to drift. Gives the state after it and a `Record`.

    **model**, **state** what is believed, **reduction** how, **progress** the share of the run that is over. On
    **examples**, inputs and targets, of **data_size** that it is trained on, the change of the bound is measured;
    **share** shares them out over devices.

    Raises:
        ArgumentError: no examples for a reduction that must be measured.

    Examples:
        >>> evidence = ox.Reduction(ox.criteria.Evidence())
        >>> state, record = ox.reduce(fitted.model, fitted.state, evidence)
        >>> int(state.mask.sum()) <= int(fitted.state.mask.sum())
        True
    """
    if examples is None and reduction.measuring.binding:
        raise ArgumentError("examples: none given; this reduction is measured on some, pass them with data_size")
    beliefs = believe(model, state, reduction, progress)
    data_count = state.kl_weight ** (-1.0 if reduction.evidence is None else reduction.evidence(progress) - 1.0)
    judge = None
    if examples is not None and state.posterior.has_deviations:  # a point estimate has no bound to measure
        judge = Judge(data_count, examples, data_size, share)
    decision, layout = reduction.criterion.decide(model.layout, beliefs), model.layout
    most, limit = _no_faster_than(beliefs, reduction, progress)
    proposal = of_weights(state.mask & beliefs.reducible & ~decision.keep, beliefs, most)

    def stand(proposal: Proposal, number: int) -> Stood:
        key = jax.random.fold_in(beliefs.key, number)
        return _what_stands(model, state, proposal, judge, reduction.measuring, key)

    wanted = proposal.wanted
    gone, change, allowed = stand(proposal, 1)
    if reduction.unit_price is not None and units:
        proposal = of_units(units, gone, beliefs, reduction.unit_price, limit, reduction.unit_cost)
        wanted |= proposal.weights(proposal.size)
        gone, more, allowed = stand(proposal, 2)
        change = Change(*map(jnp.add, change, more))
    mask = state.mask & ~gone
    predicted = jnp.sum(jnp.where(gone, beliefs.delta_f, 0.0))
    counts = _count(layout, gone), _count(layout, mask), jnp.sum(wanted)
    record = Record(mask, beliefs.delta_f, decision.threshold, *counts, predicted, *change, data_count, allowed)
    return remove(state, gone), record


def _no_faster_than(
    beliefs: Beliefs, reduction: Reduction, progress: Float[Array, ""] | float
) -> tuple[Int[Array, ""] | None, Float[Array, ""] | None]:
    """How many weights may go at most, and which share of those that could that is; None where all may."""
    if reduction.least_left is None:
        return None, None
    count = jnp.sum(beliefs.mask & beliefs.reducible)
    least = share_of_or_more(jnp.sum(beliefs.reducible), reduction.least_left(progress))
    most = jnp.maximum(count - least, 0)
    return most, most / jnp.maximum(count, 1)


class Stood(NamedTuple):
    """What of a proposal stands."""

    gone: Bool[Array, "weights"]  # with what was gone before
    change: Change
    allowed: Float[Array, ""]  # nats that the bound may lose for it


def _what_stands(
    model: Model, state: State, proposal: Proposal, judge: Judge | None, measuring: Measuring, key: PRNGKeyArray
) -> Stood:
    """The part of a proposal that the measured bound lets go, or all of it where nothing is measured."""
    if judge is None:
        count, change = proposal.size, Change(jnp.float32(jnp.nan), jnp.float32(jnp.nan))
    else:
        count, change = largest_part(model, state, proposal, judge, measuring, key)
    return Stood(proposal.weights(count), change, proposal.allowed(count))


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


def remove(state: State, gone: Bool[Array, "weights"]) -> State:
    """The state without the weights in `gone`."""
    forget = widen(gone, state.posterior.point)

    def cleared(leaf: Array) -> Array:
        """Whatever has a number for each latent; counters have not."""
        return jnp.where(forget, 0.0, leaf).astype(leaf.dtype) if leaf.shape == forget.shape else leaf

    moments = jax.tree.map(cleared, state.optimizer)
    return state._replace(posterior=state.posterior.forget(gone), optimizer=moments, mask=state.mask & ~gone)


def _count(layout: Layout, flags: Bool[Array, "weights"]) -> Int[Array, "blocks"]:
    return layout.totals(flags.astype(jnp.int32))
