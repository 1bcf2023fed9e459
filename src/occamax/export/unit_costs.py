"""What the units of a network cost in time, measured before it is trained."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..errors import ArgumentError
from ..experiment.folder import RunFolder
from ..experiment.problem import all_kinds
from ..inference.model import Model
from ..methods import Method
from ..reduction.costs import Latency
from ..storage.structured import from_data
from ..structure.reading import read_graph
from ..structure.units import Units
from .card import Card
from .unit_times import Clock, microseconds_each


def with_measured_costs(
    method: Method, model: Model, units: Sequence[Units], example: Any, begun: Path | None
) -> Method:
    """The method that knows what units take. Of a run that was `begun`, it is what was measured then."""
    reduction = method.reduction
    assert reduction is not None
    assert isinstance(reduction.unit_cost, Latency)
    if jax.process_count() > 1:
        raise ArgumentError("unit_cost: hosts measure different times. Measure on one, and give Latency(batch, each)")
    cost = None if begun is None else _measured_before(begun)
    if cost is None or cost.batch != reduction.unit_cost.batch:
        cost = measured(reduction.unit_cost, model, units, example)
    return replace(method, reduction=replace(reduction, unit_cost=cost))


def _measured_before(run: Path) -> Latency | None:
    if not (run / "config.json").is_file():
        return None
    method = from_data(RunFolder.open(run).config().settings["method"], all_kinds(), "method")
    cost = None if method.reduction is None else method.reduction.unit_cost
    return cost if isinstance(cost, Latency) else None


def measured(cost: Latency, model: Model, kinds: Sequence[Units], example: Any) -> Latency:
    """The cost with what the units of a network that was not trained yet take, each of its weights being there."""
    program = read_graph(
        model.network, model.buffers, model.calling, example, model.preprocess, model.likelihood.expectation
    )
    rng = np.random.default_rng(0)
    shape = (cost.batch, *example.shape)
    inputs = rng.normal(size=shape) if np.dtype(example.dtype).kind == "f" else np.zeros(shape)
    card = Card(None, tuple(example.shape), str(np.dtype(example.dtype)), "")
    clock = Clock(model, program, card, inputs.astype(example.dtype))
    weights = rng.uniform(0.5, 1.0, model.layout.size).astype(np.float32) / 100
    found = microseconds_each(clock, kinds, weights, [np.ones(kind.count, bool) for kind in kinds])
    return Latency(cost.batch, tuple((kind.name, round(each, 4)) for kind, each in zip(kinds, found, strict=True)))
