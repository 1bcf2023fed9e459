"""Training examples for an export that must change a network: those of the run's data, where they are still there."""

from pathlib import Path
from typing import Any

import numpy as np

from ..data import reopen
from ..errors import DataError
from ..experiment.problem import Data, Facts, read_data
from ..experiment.starting import examples_at
from ..inference.calibration import Calibration, held_out_of
from .source import Training

MOST = 4000


def training_examples(
    facts: Facts, calibration: Calibration | None, given: Any = None, data_dir: Path | None = None
) -> Training | None:
    """Some of those `given`, inputs and targets, or else of the run's own, none that it held out; None where they are
    not to be had."""
    if given is not None:
        return _some(read_data(given, preprocess=facts.preprocess), None)
    if not facts.origin or facts.origin.get("kind") in ("arrays", "stream"):
        return None
    try:
        return _some(read_data(reopen(facts.origin, data_dir), preprocess=facts.preprocess), calibration)
    except DataError:
        return None


def _some(data: Data, calibration: Calibration | None) -> Training | None:
    apart = held_out_of(calibration, len(data))
    numbers = np.random.default_rng(0).permutation(apart.trained)[:MOST]
    inputs, targets = examples_at(data, apart.places_trained(numbers))
    return Training(np.asarray(inputs), np.asarray(targets), apart.trained) if len(numbers) > 1 else None
