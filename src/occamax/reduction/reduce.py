"""One reduction: score, decide, remove. A pure function of the state."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from ..errors import ArgumentError
from ..layout import Layout, Units
from ..model import Model
from ..posteriors import MeanField, widen
from ..schedules import Schedule
from ..training import REDUCTION_STREAM, State
from .criteria import Beliefs, Criterion, SpikeAndSlab, lowest
from .delta_f import removal, retempered
from .schedule import Every, When


@dataclass(frozen=True)
class Reduction:
    """How a method prunes: by which criterion, when, and whether the output layer may be reduced too.

    **evidence_weight** None takes ΔF from the posterior as it is. A schedule over the run takes it from the posterior
    that a divergence of that weight would have given: `Constant(1.0)` is the evidence that the data really hold, also
    while a tempered posterior is trained (see `delta_f.retempered`); more asks for stronger evidence and prunes harder.
    **unit_price** None weighs single weights only. A number also weighs whole units (hidden units, channels, attention
    heads) by the sum of their weights' ΔF, and removes those that earn less than that many nats for each weight they
    have in the dense network: 0 is the evidence alone; more trades evidence for a network that is smaller and faster.
    **limit** is the share of the surviving weights, and of the units of a layer, that one reduction may remove; the
    largest ΔF go first.
    **tolerance** None lets every reduction stand. A number undoes one after whose epoch the fit is worse than the best
    so far by more than that share of what the best had gained over a network that learnt nothing; the epoch after it
    trains without a reduction.
    """

    criterion: Criterion = SpikeAndSlab()
    schedule: When = Every()
    keep_output: bool = True
    evidence_weight: Schedule | None = None
    limit: float | None = None
    tolerance: float | None = None
    unit_price: float | None = None

    def __post_init__(self):
        if self.unit_price is not None and not self.unit_price >= 0:
            raise ArgumentError(f"unit_price: {self.unit_price!r} given; it must be 0 or more nats a weight, or None")
        if self.evidence_weight is not None and not isinstance(self.evidence_weight, Schedule):
            raise ArgumentError(
                f"evidence_weight: {self.evidence_weight!r} given; it must be a schedule such as Constant(1.0), or None"
            )
        if self.limit is not None and not 0 < self.limit <= 1:
            raise ArgumentError(f"limit: {self.limit!r} given; it must lie between 0 and 1, or be None")
        if self.tolerance is not None and not self.tolerance > 0:
            raise ArgumentError(f"tolerance: {self.tolerance!r} given; it must be positive, or None")


class Record(NamedTuple):
    """What one reduction did."""

    mask: Bool[Array, "weights"]  # True keeps
    delta_f: Float[Array, "weights"]  # of each weight before the reduction; 0 for those removed earlier
    threshold: Float[Array, "blocks"]
    removed: Int[Array, "blocks"]  # in this reduction
    remaining: Int[Array, "blocks"]


def reducible(layout: Layout, keep_output: bool) -> Bool[Array, "weights"]:
    """The weights that may be removed: all, or all but the output layer's."""
    return jnp.asarray(layout.flags(lambda block: not (keep_output and block is layout.blocks[-1])))


def reduce(
    model: Model,
    state: State,
    reduction: Reduction,
    optimizer: optax.GradientTransformation,
    progress: Float[Array, ""] | float = 0.0,
    divergence_weight: Float[Array, ""] | float = 1.0,
    units: Sequence[Units] = (),
) -> tuple[State, Record]:
    """Removes what the criterion says, of a posterior trained with `divergence_weight`, and those of the `units` that
    are not worth their price. A removed weight's posterior becomes its prior at once and its moments in the optimiser
    are cleared: nothing of it is left to drift."""
    if not isinstance(state.posterior, MeanField):
        raise ArgumentError(
            "method: a reduction needs a mean-field posterior; a point estimate has no evidence to compare"
        )
    layout = model.layout
    mean, std = (layout_part[: layout.size] for layout_part in (state.posterior.mean, state.posterior.std))
    may_go = reducible(layout, reduction.keep_output)
    if reduction.evidence_weight is None:
        delta_f = removal(mean, std**2)
    else:
        delta_f = removal(*retempered(mean, std**2, divergence_weight / reduction.evidence_weight(progress)))
    weight = model.weights(state.posterior.mean, state.mask)
    key = jax.random.fold_in(jax.random.fold_in(state.key, REDUCTION_STREAM), state.step)
    beliefs = Beliefs(delta_f, mean, std, weight, state.mask, may_go, jnp.asarray(progress), key)
    decision = reduction.criterion.decide(layout, beliefs)
    gone = state.mask & may_go & ~decision.keep
    if reduction.limit is not None:
        most = jnp.floor(reduction.limit * jnp.sum(state.mask & may_go)).astype(jnp.int32)
        gone &= lowest(jnp.where(gone, -delta_f, jnp.inf), most)
    if reduction.unit_price is not None:
        alive = state.mask & may_go
        for kind in units:
            gone = kind.mark(gone, idle(kind, delta_f, state.mask, reduction.unit_price, reduction.limit)) & alive
    mask = state.mask & ~gone
    record = Record(mask, delta_f, decision.threshold, _count(layout, gone), _count(layout, mask))
    return remove(state, gone, optimizer), record


def idle(
    units: Units,
    delta_f: Float[Array, "weights"],
    mask: Bool[Array, "weights"],
    price: float,
    limit: float | None = None,
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
