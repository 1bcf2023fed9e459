"""A divergence as heavy as calibration asks for, and no heavier, by what held-out examples say."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Array, Float, Int

from .errors import ArgumentError


@dataclass(frozen=True)
class Thermostat:
    """Turns the weight of the divergence up while the network is surer of itself than it is right, and down while it is
    less sure.

    A light divergence fits best and, where there are few data for the network, overfits; a heavy one underfits. Which
    weight is right depends on network and data, and held-out examples tell. From `begin` of the run on, every epoch,

        ln weight ← ln weight + gain · (confidence − accuracy)

    changed by no more than `most` and kept from `coldest` to `warmest`. Until then the method's schedule holds.
    **one_in** so many training examples is held out, evenly spaced, but not more than `most_examples` of all; the
    network never trains on them. Reductions are judged by them too. **draws** of the weights are averaged to look at
    them.
    """

    one_in: int = 20
    most_examples: int = 2500
    draws: int = 5
    begin: float = 0.1
    gain: float = 6.0
    most: float = 0.7
    coldest: float = 1e-3
    warmest: float = 1.0

    def __post_init__(self):
        for name, least in {"one_in": 2, "most_examples": 1, "draws": 1}.items():
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ArgumentError(f"{name}: {value!r} given; it must be a whole number from {least} up")
        for name in ("gain", "most", "coldest"):
            if not getattr(self, name) > 0:
                raise ArgumentError(f"{name}: {getattr(self, name)!r} given; it must be positive")
        if not self.warmest >= self.coldest:
            raise ArgumentError(f"warmest: {self.warmest!r} given; it must not be under coldest, {self.coldest!r}")

    def spacing(self, examples: int) -> int:
        """One in how many of `examples` is held out; 0 where there are too few for that."""
        spacing = max(self.one_in, -(-examples // self.most_examples))
        return spacing if examples >= 2 * spacing else 0

    def turned(self, weight: float, overconfidence: float) -> float:
        """The next epoch's weight."""
        change = min(max(self.gain * overconfidence, -self.most), self.most)
        return min(max(weight * math.exp(change), self.coldest), self.warmest)


def spacing_of(thermostat: Thermostat | None, examples: int) -> int:
    return 0 if thermostat is None else thermostat.spacing(examples)


def held_out(examples: int, spacing: int) -> Int[np.ndarray, "held"]:
    """Which examples are held out: the last of every `spacing`."""
    return np.arange(spacing - 1, examples, spacing) if spacing else np.arange(0)


def trained_count(examples: int, spacing: int) -> int:
    """How many are left to train on."""
    return examples - examples // spacing if spacing else examples


def trained(numbers: Int[Array, "..."], spacing: int) -> Int[Array, "..."]:
    """The numbers 0, 1, 2, … of the examples that are left → their places among all."""
    return numbers + numbers // (spacing - 1) if spacing else numbers


def overconfidence(figures: dict[str, float]) -> Float[np.ndarray, ""] | float | None:
    """Confidence − accuracy of an evaluation's figures; None where there are no classes to be confident of."""
    return figures["confidence"] - figures["accuracy"] if "confidence" in figures else None
