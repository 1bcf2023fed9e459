"""`--latency`: units go until a file is fast enough, those first that lose the fewest nats for each microsecond.

What a unit loses is what moving its weights to zero costs, β w²/2σ² each, as the posterior says (`rounding.py`); what
it costs is measured (`unit_times.py`). That gives one order of all units of all kinds (`unit_order.py`); how many of
them go is found by timing files. Where training examples are at hand they go in stages: after each, what is left is
moved so that the network says again what it said at first (`repairing.py` of `reduction`), and is weighed anew.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..errors import ExportError
from ..structure.graph import Graph
from ..structure.unit_search import find_units
from ..structure.units import Units
from .evidence import weight_stds, weights_of
from .moving import MOST_LOST, Repairing, without
from .rounding import Rounding
from .source import Exportable, examples_of
from .unit_order import Item, UnitOrder
from .unit_times import Clock

ROUNDS = 8  # of bisection
STAGE = 0.8  # of the time before that a stage may come down to
MARGIN = 0.98  # of the latency that a file should have when it is looked for, since no two timings are equal


@dataclass(frozen=True)
class LatencyLimit:
    """**milliseconds** that a call on **batch** examples may take, on one core of this machine."""

    milliseconds: float
    batch: int = 1

    def __post_init__(self):
        if not self.milliseconds > 0:
            raise ExportError(f"--latency: {self.milliseconds:g} ms given; it must be a positive time, such as 2ms")
        if isinstance(self.batch, bool) or self.batch < 1:
            raise ExportError(f"--batch: {self.batch} given; it must be a whole number from 1 up")


class Hastened(NamedTuple):
    """What a latency cost. **milliseconds** before and after; **gone** how many units by kind;
    **loss** nats over the data set, as the posterior says of each weight that went; **measured** the same on
    **examples** of the training data, after what is left was moved; None where there are none."""

    milliseconds: tuple[float, float]
    gone: dict[str, int]
    loss: float
    measured: float | None
    examples: int
    batch: int


def hastened(
    source: Exportable, program: Graph, limit: LatencyLimit, form: str, rounding: Rounding
) -> tuple[Exportable, Hastened]:
    """The source without as many units as it takes, and what that cost."""
    if not source.believed.posterior.has_deviations:
        raise ExportError(
            "--latency: this run has a point estimate, which does not say what a unit is worth. Choose another "
            "method's run."
        )
    inputs = examples_of(source, program)
    batch = np.resize(inputs, (limit.batch, *inputs.shape[1:]))
    clock = Clock(source.model, program, source.card, batch, form, rounding.int8)
    kinds, repair = _units_of(source), None if source.training is None else Repairing.of(source)
    wanted, now, first, loss = MARGIN * limit.milliseconds, np.inf, 0.0, 0.0
    gone, found = dict.fromkeys((kind.name for kind in kinds), 0), source
    may_lose = np.inf if repair is None or rounding.max_loss is not None else MOST_LOST * repair.gained(source)
    while now > wanted:
        order, reached = _order(found, kinds, clock), now
        count, (before, now), items = _how_many(clock, order, limit, repair is not None)
        first, marked = first or before, order.marked(items[:count])
        loss += order.loss(marked)
        gone = {name: gone[name] + more for name, more in order.counted(items[:count]).items()}
        found = without(found, marked)
        found = found if repair is None or not count else repair.moved(found)
        if repair is not None and repair.nats(found) - repair.nats(source) > may_lose:
            raise _ruin(limit, min(reached, first))
    measured = None if repair is None else repair.nats(found) - repair.nats(source)
    gone = {name: count for name, count in gone.items() if count}
    result = Hastened((first, now), gone, loss, measured, 0 if repair is None else repair.count, limit.batch)
    _refuse_loss(result, limit, rounding.max_loss)
    return found, result


def _ruin(limit: LatencyLimit, reached: float) -> ExportError:
    enough = math.ceil(1000 * reached / MARGIN) / 1000
    return ExportError(
        f"--latency: {limit.milliseconds:g} ms at batch {limit.batch} would cost more than {MOST_LOST:g} of what the "
        f"network has learnt; {enough:g} ms is the fastest that did not. Ask for that, train with --unit-price and "
        "--unit-cost latency, or say with --max-loss how many nats may be lost"
    )


def _refuse_loss(found: Hastened, limit: LatencyLimit, max_loss: float | None) -> None:
    paid = found.loss if found.measured is None else found.measured
    if max_loss is not None and paid > max_loss:
        raise ExportError(
            f"--latency: {limit.milliseconds:g} ms would cost {paid:,.0f} nats, more than the {max_loss:,.0f} of "
            "--max-loss. Train with --unit-price and --unit-cost latency, so that it learns to do without units"
        )


def _units_of(source: Exportable) -> tuple[Units, ...]:
    model, buffers = source.model, source.believed.buffers or source.model.buffers
    kinds = find_units(model.network, buffers, model.calling, model.layout, source.example, model.preprocess)
    if not kinds:
        raise ExportError("--latency: this network has no units that could go. Train a smaller one")
    return kinds


def _order(source: Exportable, kinds: tuple[Units, ...], clock: Clock) -> UnitOrder:
    """The units of the source as it is now, weighed and timed."""
    model, believed = source.model, source.believed
    weights, mask = weights_of(model, believed.posterior.point, believed.mask), np.asarray(believed.mask)
    losses = np.where(mask, 0.5 * source.kl_weight * (weights / weight_stds(model, believed)) ** 2, 0.0)
    return UnitOrder(kinds, np.where(mask, weights, np.float32(0)), losses.astype(np.float32), clock)


def _how_many(
    clock: Clock, order: UnitOrder, limit: LatencyLimit, in_stages: bool
) -> tuple[int, tuple[float, float], list[Item]]:
    """How many units go, the first of their order: the fewest with which a file was fast enough, by bisection;
    `in_stages`, fast enough is a part of the way. Then the milliseconds before and after, and the order."""
    items = order.sequence()
    first, last = clock.milliseconds([order.weights, order.network(items)])
    wanted = MARGIN * limit.milliseconds
    goal = max(wanted, STAGE * first) if in_stages else wanted
    if first <= wanted:
        return 0, (first, first), items
    if last > goal:
        raise ExportError(
            f"--latency: {limit.milliseconds:g} ms cannot be had at batch {limit.batch} on this machine: the file "
            f"takes {first:.3g} ms as it is, {last:.3g} ms without all {len(items):,} units that could go. Train a "
            "network with fewer layers"
        )
    low, high, found = 0, len(items), last
    for _ in range(ROUNDS):
        middle = (low + high) // 2
        if middle in (low, high):
            break
        (now,) = clock.milliseconds([order.network(items[:middle])])
        low, high, found = (low, middle, now) if now <= goal else (middle, high, found)
    return high, (first, found), items
