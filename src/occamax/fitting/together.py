"""How sure several networks are together: one temperature for all, which the examples that they all held out say."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import evaluation
from ..data import reopen
from ..errors import ArgumentError
from ..evaluation import best_temperature, is_as_wanted
from ..experiment.problem import read_data
from ..experiment.program import believed
from ..experiment.starting import examples_at
from ..inference.calibration import Calibration
from ..inference.model import Model
from ..inference.training import EVALUATION_STREAM, State
from .fitted import Fit


def common_temperatures(members: Sequence[Fit], data: Any, data_dir: Path | None) -> tuple[float, float]:
    """By which to divide the outputs of all: of draws of their weights, and of the networks at their posterior
    means. One where the members hold out nothing."""
    known = {member.method.calibration for member in members}
    if len(known) > 1:
        raise ArgumentError(
            "fits: they held out different examples, so none can say how sure all are together; train them with the "
            "same calibration, or average them as they are: ox.Ensemble(fits)"
        )
    calibration = known.pop()
    if calibration is None:
        return 1.0, 1.0
    inputs, targets = _held_out(members, calibration, data, data_dir)
    draws = -(-calibration.num_samples // len(members))
    of_draws = lambda one: _outputs_of_draws(one.model, one.state, inputs, draws)  # noqa: E731
    of_means = lambda one: _outputs_of_mean(one.model, one.state, inputs)  # noqa: E731
    best = [_best_for_all(members, ask, targets, calibration.log_temperature_std) for ask in (of_draws, of_means)]
    return best[0], best[1]


def with_outputs_divided(member: Fit, temperature: float) -> Fit:
    """The same network, with what it puts out divided."""
    state, divisor = member.state, jnp.float32(temperature)
    posterior = evaluation.with_outputs_divided(member.model, state.posterior, state.mask, divisor)
    return replace(member, state=state._replace(posterior=posterior))


def _held_out(
    members: Sequence[Fit], calibration: Calibration, data: Any, data_dir: Path | None
) -> tuple[Array, Array]:
    """The examples that all held out of the training data that they had in common."""
    first, origins = members[0], [member.facts.origin or {} for member in members]
    for i, origin in enumerate(origins):
        if not _is_same(origins[0], origin):
            raise ArgumentError(
                f"fits: number 0 was trained on other examples than number {i}, which may have seen what number 0 held "
                "out, so none can say how sure all are together; train them on the same data, or average them as they "
                "are: ox.Ensemble(fits)"
            )
    if data is None and origins[0].get("kind") in (None, "arrays", "stream"):
        raise ArgumentError(
            "data: none given, and the networks were trained on arrays, which are not kept; pass the training data "
            "that `fit` was given: the examples held out of them say how sure all are together. Without: "
            "ox.Ensemble(fits)"
        )
    found = read_data(reopen(origins[0], data_dir) if data is None else data, preprocess=first.facts.preprocess)
    if not _is_same(origins[0], found.facts.origin or {}):
        raise ArgumentError("data: not what the networks were trained on; pass the training data that `fit` was given")
    inputs, targets = examples_at(found, calibration.held_out(len(found)).places)
    return jnp.asarray(inputs), jnp.asarray(targets)


def _is_same(origin: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether these are the same examples, wherever their files lie; a run that was read back has lists for tuples."""
    own, others = (json.dumps({**one, "path": ""}, sort_keys=True, default=str) for one in (origin, other))
    return own == others


def _best_for_all(members: Sequence[Fit], ask: Callable[[Fit], Array], targets: Array, log_std: float) -> float:
    """The temperature under which targets are likeliest if what the members put out are draws of one network; 1 where
    the outputs of one of them are not divided by dividing its last layer, or nothing is held out."""
    if not len(targets):
        return 1.0
    outputs = [ask(member) for member in members]
    best = best_temperature(jnp.concatenate(outputs), targets, members[0].model.likelihood, log_std)
    pairs = zip(members, outputs, strict=True)
    is_built_in = all(is_as_wanted(ask(with_outputs_divided(one, best)), before / best) for one, before in pairs)
    return best if is_built_in else 1.0


@eqx.filter_jit
def _outputs_of_draws(model: Model, state: State, inputs: Array, draws: int) -> Float[Array, "draws n out"]:
    key = jax.random.fold_in(state.key, EVALUATION_STREAM)
    return evaluation.outputs_of_draws(model, believed(state), key, inputs, draws)


@eqx.filter_jit
def _outputs_of_mean(model: Model, state: State, inputs: Array) -> Float[Array, "1 n out"]:
    return evaluation.outputs_of_mean(model, believed(state), inputs)
