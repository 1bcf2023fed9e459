"""Numbers that change over a run, such as the learning rate: `schedule(progress)`, progress from 0 to 1."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float


class Schedule(ABC):
    """Base of all schedules."""

    @abstractmethod
    def __call__(self, progress: Any) -> Float[Array, ""] | float: ...


@dataclass(frozen=True)
class Constant(Schedule):
    value: float

    def __call__(self, progress):
        return self.value


@dataclass(frozen=True)
class Ramp(Schedule):
    """`first` until `begin`, then a straight line to `last` at `end`."""

    first: float
    last: float
    begin: float = 0.0
    end: float = 1.0

    def __call__(self, progress):
        share = jnp.clip((progress - self.begin) / (self.end - self.begin), 0.0, 1.0)
        return self.first + (self.last - self.first) * share


@dataclass(frozen=True)
class Cosine(Schedule):
    """From `first` down to `last` along half a cosine."""

    first: float
    last: float = 0.0

    def __call__(self, progress):
        return self.last + 0.5 * (self.first - self.last) * (1.0 + jnp.cos(math.pi * jnp.clip(progress, 0.0, 1.0)))


@dataclass(frozen=True)
class Scaled(Schedule):
    """Another schedule times a constant."""

    schedule: Schedule
    factor: float

    def __call__(self, progress):
        return self.factor * self.schedule(progress)
