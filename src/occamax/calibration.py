"""Examples kept out of training, evenly spaced and without copying any: they say after every epoch what an example
costs, and calibrate the network at the end."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Array, Int

from .errors import ArgumentError


@dataclass(frozen=True)
class Calibration:
    """When training is over, the outputs are divided by the temperature under which held-out examples are likeliest
    (Guo et al. 2017): a network that is surer than it is right becomes less sure. Which class is likeliest for an
    example hardly changes. The temperature goes into the last layer's posterior, so nothing has to carry it along.

    **one_in** so many training examples is held out, the last of each, but not more than **most** in all; the network
    never trains on them. After every epoch they also say what an example costs, which `Affordable` and the guard of the
    reductions go by. **draws** of the weights are averaged at the end, **draws_an_epoch** after every epoch. **spread**
    is the deviation of the temperature's logarithm under its prior: fifty examples say little about it, and leave it
    near one.
    """

    one_in: int = 20
    most: int = 2500
    draws: int = 30
    spread: float = 0.2
    draws_an_epoch: int = 5

    def __post_init__(self):
        for name, least in {"one_in": 2, "most": 1, "draws": 1, "draws_an_epoch": 1}.items():
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ArgumentError(f"{name}: {value!r} given; it must be a whole number from {least} up")
        if not self.spread > 0:
            raise ArgumentError(f"spread: {self.spread!r} given; it must be positive")

    def spacing(self, examples: int) -> int:
        """One in how many of `examples` is held out; 0 where there are too few for that."""
        spacing = max(self.one_in, -(-examples // self.most))
        return spacing if examples >= 2 * spacing else 0


def spacing_of(calibration: Calibration | None, examples: int) -> int:
    """One in how many is held out; 0 for none."""
    return 0 if calibration is None else calibration.spacing(examples)


def places_held_out(examples: int, spacing: int) -> Int[np.ndarray, "held"]:
    """Which examples are held out: the last of every `spacing`."""
    return np.arange(spacing - 1, examples, spacing) if spacing else np.arange(0)


def count_trained(examples: int, spacing: int) -> int:
    """How many are left to train on."""
    return examples - examples // spacing if spacing else examples


def places_trained(numbers: Int[Array, "..."], spacing: int) -> Int[Array, "..."]:
    """The numbers 0, 1, 2, … of the examples that are left → their places among all."""
    return numbers + numbers // (spacing - 1) if spacing else numbers
