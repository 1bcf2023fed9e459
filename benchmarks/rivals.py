"""What plain training is also compared as: stopped early, and as SWAG. Both are made of what is seen after each epoch.

SWAG (Maddox et al. 2019) and not dropout at prediction: it is for any network, also for one without dropout such as a
ResNet, and it is the one of the two that others compare variational posteriors with.
"""

import dataclasses
import math
from typing import Any

import jax
import numpy as np

import occamax as ox
from occamax.evaluation.metrics import accuracy, calibration_error
from occamax.evaluation.temperature import best_temperature
from occamax.experiment.loop import Epoch
from occamax.experiment.program import of_seed
from occamax.inference.calibration import held_out_of
from occamax.inference.likelihoods import Categorical
from occamax.inference.posteriors import Point
from occamax.inference.schedules import Cosine
from occamax.inference.training import State
from occamax.methods import Method

SHARE, RANK = 0.25, 20  # of the run that SWAG looks at, and the snapshots it keeps apart
LEFT = 0.3  # of the rate at the end of a run for SWAG, so that its weights still move
LOG_TEMPERATURE_STD = 0.2  # `Calibration`'s own


class Snapshots:
    """The state of one seed after each epoch: the one of the lowest held-out NLL among those that are pruned most, and
    those of the last quarter."""

    def __init__(self, epochs: int):
        self.epochs = epochs
        self.best: tuple[float, float, State] | None = None  # weights left, held-out NLL, state
        self.late: list[State] = []

    def __call__(self, epoch: Epoch) -> None:
        state: State = jax.device_get(of_seed(epoch.state, 0))
        found = float(np.sum(state.mask)), epoch.metrics[0].get("held_out_nll", math.inf)
        if epoch.number < self.epochs and (self.best is None or found < self.best[:2]):
            self.best = (*found, state)  # the last epoch's has its temperature already
        if epoch.number > (1 - SHARE) * self.epochs and epoch.number < self.epochs:
            self.late = [*self.late, state][-RANK:]


def swag_of(method: Method) -> Method:
    """Plain training whose rate does not fall to nothing."""
    rate = method.learning_rate
    assert isinstance(rate, Cosine)
    return dataclasses.replace(method, learning_rate=dataclasses.replace(rate, last=LEFT * rate.first))


def swag_draws(states: list[State], count: int, seed: int = 0) -> list[State]:
    """Networks from the Gaussian of these: half its variance that of each weight, half of the low rank that the
    snapshots span."""
    points = np.stack([np.asarray(state.posterior.point, np.float64) for state in states])
    mean, rng = points.mean(0), np.random.default_rng(seed)
    away, std = points - mean, points.std(0)
    rank = max(len(points) - 1, 1)
    found = []
    for _ in range(count):
        own = mean + std * rng.normal(size=mean.size) / math.sqrt(2)
        own += rng.normal(size=len(points)) @ away / math.sqrt(2 * rank)
        found.append(states[-1]._replace(posterior=Point(own.astype(np.float32))))
    return found


def together(fitted: ox.Fit, dataset: ox.Dataset, states: list[State]) -> np.ndarray:
    """Class probabilities on the test set, averaged over these states, with a temperature from the examples that the
    method held out."""
    places = held_out_of(fitted.method.calibration, len(dataset.train)).places
    held = dataset.train.rows(places)
    known = [_logits(fitted, state, held.inputs) for state in states]
    temperature = best_temperature(
        jax.numpy.asarray(np.stack(known)), jax.numpy.asarray(held.targets), Categorical(), LOG_TEMPERATURE_STD
    )
    said = [_logits(fitted, state, dataset.test.inputs) / temperature for state in states]
    return np.mean([np.asarray(jax.nn.softmax(one, axis=-1), np.float64) for one in said], axis=0)


def _logits(fitted: ox.Fit, state: State, inputs: np.ndarray) -> np.ndarray:
    """Up to a constant each, which changes nothing."""
    own: Any = fitted.state._replace(posterior=state.posterior, mask=state.mask, buffers=state.buffers)
    return np.log(np.asarray(dataclasses.replace(fitted, state=own).predict(inputs, 1)) + 1e-30)


def figures(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Accuracy, NLL and ECE of class probabilities."""
    own = probabilities[np.arange(len(labels)), labels]
    return {
        "accuracy": round(accuracy(probabilities, labels), 5),
        "nll": round(float(-np.log(own + 1e-12).mean()), 5),
        "ece": round(calibration_error(probabilities, labels), 5),
    }
