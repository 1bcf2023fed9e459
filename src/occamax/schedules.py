"""Numbers that change over a run, such as the learning rate: `schedule(progress)`, progress from 0 to 1."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from .errors import ArgumentError


class Schedule(ABC):
    """Base of all schedules."""

    first_nats: float = 0.5  # taken for what an example costs before any was asked

    @abstractmethod
    def __call__(self, progress: Any) -> Float[Array, ""] | float: ...

    def of_network(self, progress: Any, weights: Any, examples: int, nats: Any) -> Float[Array, ""] | float:
        """The same where the number may also depend on how many weights are left, how many examples there are, and how
        many nats of each are not explained yet."""
        return self(progress)


def passed(progress: Any, begin: float, end: float) -> Float[Array, ""]:
    """How much of the time from `begin` to `end` is over."""
    return jnp.clip((progress - begin) / (end - begin), 0.0, 1.0)


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
        return self.first + (self.last - self.first) * passed(progress, self.begin, self.end)


@dataclass(frozen=True)
class Geometric(Schedule):
    """`first` until `begin`, then by equal factors to `last` at `end`."""

    first: float
    last: float
    begin: float = 0.0
    end: float = 1.0

    def __call__(self, progress):
        return self.first * (self.last / self.first) ** passed(progress, self.begin, self.end)


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


@dataclass(frozen=True)
class Affordable(Schedule):
    """A weight of the divergence that the data can pay for: `last`, but until `begin` never so much that the weights
    left, at a nat each, would cost more than `share` of the nats that the examples have left to explain. A network that
    is pruned can afford more, and one that fits badly needs more. From `begin` to `end` what is affordable gives way,
    by equal factors, to `last`. `first_nats` are taken for what an example costs until held-out ones have said."""

    last: float
    share: float
    begin: float = 0.4
    end: float = 0.8
    first_nats: float = Schedule.first_nats

    def __post_init__(self):
        for name in ("last", "share", "first_nats"):
            if not getattr(self, name) > 0:
                raise ArgumentError(f"{name}: {getattr(self, name)!r} given; it must be positive")

    def __call__(self, progress):
        return self.last  # what it comes to, whatever the network

    def of_network(self, progress, weights, examples, nats):
        affordable = jnp.minimum(self.last, self.share * nats * examples / jnp.maximum(weights, 1))
        over = passed(progress, self.begin, self.end)
        return affordable ** (1.0 - over) * self.last**over
