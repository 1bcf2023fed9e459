"""Numbers that change over a run, such as the learning rate.

A schedule here is a function of the run's progress, from 0 to 1, so that one recipe serves runs of any length. Where a
number, or an optax schedule (a function of the step), is given instead, `as_schedule` takes it as well.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from ..errors import ArgumentError

__all__ = ["Affordable", "Constant", "Cosine", "Geometric", "InSteps", "PerRun", "Ramp", "Scaled", "Schedule"]


class Schedule(ABC):
    """Base of all schedules: a number as a function of the run's progress, from 0 to 1. Write your own as a frozen
    dataclass.

    Examples:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Halves(ox.schedules.Schedule):
        ...     first: float
        ...     def __call__(self, progress):
        ...         return self.first * 0.5**progress
        >>> ox.BMR(learning_rate=Halves(1e-2)).learning_rate(1.0)
        0.005
    """

    @abstractmethod
    def __call__(self, progress: Any) -> Float[Array, ""] | float:
        """The number when this share of the run is over."""

    def at(self, step: Any, total_steps: int) -> Float[Array, ""] | float:
        """The number before a step of a run of so many."""
        return self(step / total_steps)

    def as_optax(self, total_steps: int) -> optax.Schedule:
        """The same as a function of the step."""
        return lambda step: self.at(step, total_steps)  # type: ignore[return-value]


def passed(progress: Any, begin: float, end: float) -> Float[Array, ""]:
    """How much of the time from `begin` to `end` is over."""
    return jnp.clip((progress - begin) / (end - begin), 0.0, 1.0)


@dataclass(frozen=True)
class Constant(Schedule):
    """The same **value** throughout; what a number given for a schedule becomes.

    Examples:
        >>> ox.BMR(learning_rate=1e-3).learning_rate
        Constant(value=0.001)
    """

    value: float

    def __call__(self, progress):
        return self.value


@dataclass(frozen=True)
class Ramp(Schedule):
    """`first` until `begin`, then a straight line to `last` at `end`.

    Examples:
        >>> ramp = ox.schedules.Ramp(0.0, 1.0, begin=0.25, end=0.75)
        >>> [float(ramp(progress)) for progress in (0.0, 0.5, 1.0)]
        [0.0, 0.5, 1.0]
    """

    first: float
    last: float
    begin: float = 0.0
    end: float = 1.0

    def __call__(self, progress):
        return self.first + (self.last - self.first) * passed(progress, self.begin, self.end)


@dataclass(frozen=True)
class Geometric(Schedule):
    """`first` until `begin`, then by equal factors to `last` at `end`.

    Examples:
        >>> round(float(ox.schedules.Geometric(1.0, 0.01)(0.5)), 6)
        0.1
    """

    first: float
    last: float
    begin: float = 0.0
    end: float = 1.0

    def __call__(self, progress):
        return self.first * (self.last / self.first) ** passed(progress, self.begin, self.end)


@dataclass(frozen=True)
class Cosine(Schedule):
    """From `first` down to `last` along half a cosine; in the share `warm_up` of the run before it, a straight line up
    to `first`.

    Raises:
        ArgumentError: a warm-up outside 0 to 1.

    Examples:
        >>> rate = ox.schedules.Cosine(1e-2, warm_up=0.1)
        >>> round(float(rate(0.55)), 6)  # half of the way down
        0.005
    """

    first: float
    last: float = 0.0
    warm_up: float = 0.0

    def __post_init__(self):
        if not 0.0 <= self.warm_up < 1.0:
            raise ArgumentError(f"warm_up: {self.warm_up!r} given; it must lie from 0 up to, not including, 1")

    def __call__(self, progress):
        over = passed(progress, self.warm_up, 1.0)
        # the first step is a fiftieth of the warm-up's last, not none
        value = self.last + 0.5 * (self.first - self.last) * (1.0 + jnp.cos(math.pi * over))
        return value * jnp.minimum(1.0, (progress + 0.02 * self.warm_up) / self.warm_up) if self.warm_up else value


@dataclass(frozen=True)
class Scaled(Schedule):
    """Another **schedule** times a constant **factor**.

    Examples:
        >>> round(float(ox.schedules.Scaled(ox.schedules.Constant(0.4), 0.5)(0.0)), 6)
        0.2
    """

    schedule: Schedule
    factor: float

    def __call__(self, progress):
        return self.factor * self.schedule(progress)

    def at(self, step, total_steps):
        return self.factor * self.schedule.at(step, total_steps)


@dataclass(frozen=True)
class PerRun(Schedule):
    """`total` in all over the run's steps, the same at each: as a rate of forgetting, e to the minus `total` of the
    start is left at the end.

    Raises:
        ArgumentError: a total that is not positive; or when called with a progress, which does not know the steps.

    Examples:
        >>> ox.schedules.PerRun(5.0).at(step=0, total_steps=1000)
        0.005
    """

    total: float

    def __post_init__(self):
        if not self.total > 0:
            raise ArgumentError(f"total: {self.total!r} given; it must be positive")

    def __call__(self, progress):
        raise ArgumentError("schedule: one in steps needs the number of steps; call `at`")

    def at(self, step, total_steps):
        return min(self.total / total_steps, 0.5)


@dataclass(frozen=True)
class InSteps(Schedule):
    """An optax schedule, or any **function** of the number of steps so far; what such a function given for a schedule
    becomes.

    Raises:
        ArgumentError: when called with a progress, which does not know the steps.

    Examples:
        >>> import optax
        >>> method = ox.BMR(learning_rate=optax.linear_schedule(1e-2, 0.0, 1000))
        >>> round(float(method.learning_rate.at(500, 1000)), 6)
        0.005
    """

    function: Callable[[Any], Any]

    def __call__(self, progress):
        raise ArgumentError("schedule: one in steps needs the number of steps; call `at`")

    def at(self, step, total_steps):
        return self.function(step)


def as_schedule(name: str, value: Any) -> Schedule:
    """A schedule from what a user gives for one: a schedule, a number, or an optax schedule (a function of the step).
    Anything else is refused by the name of its argument."""
    if isinstance(value, Schedule):
        return value
    if isinstance(value, Real) and not isinstance(value, bool):
        return Constant(float(value))
    if callable(value) and not isinstance(value, type | optax.GradientTransformation):
        try:
            found: Any = value(0)
            float(found)
        except Exception as error:
            raise ArgumentError(
                f"{name}: {value!r} is no schedule: called with step 0 it gave no number ({type(error).__name__}). "
                "Give a number, an optax schedule such as optax.cosine_decay_schedule(1e-2, 1000), or "
                "ox.schedules.Cosine(1e-2)"
            ) from error
        return InSteps(value)
    raise ArgumentError(
        f"{name}: {value!r} given; it must be a number, an optax schedule (a function of the step), or one of "
        "ox.schedules, such as ox.schedules.Cosine(1e-2)"
    )


@dataclass(frozen=True)
class Circumstances:
    """What the weight of the KL divergence may depend on beside the time."""

    step: Any
    total_steps: int
    weights: Any  # that are left
    examples: int  # that are trained on
    nats: Any  # that an example costs


@dataclass(frozen=True)
class Affordable(Schedule):
    """A weight of the KL divergence that the data can pay for: `last`, but until `begin` never so much that the weights
    left, at a nat each, would cost more than `share` of the nats that the examples have left to explain. A network that
    is pruned can afford more, and one that fits badly needs more. From `begin` to `end` what is affordable gives way,
    by equal factors, to `last`. `first_nats` are taken for what an example costs until held-out ones have said.

    Raises:
        ArgumentError: a value that is not positive.

    Examples:
        >>> ox.BMR(kl_weight=ox.schedules.Affordable(last=1.0, share=0.5)).kl_weight.last
        1.0
    """

    last: float
    share: float
    begin: float = 0.4
    end: float = 0.8
    first_nats: float = 0.5

    def __post_init__(self):
        for name in ("last", "share", "first_nats"):
            if not getattr(self, name) > 0:
                raise ArgumentError(f"{name}: {getattr(self, name)!r} given; it must be positive")

    def __call__(self, progress):
        return self.last  # what it comes to, whatever the network

    def among(self, now: Circumstances) -> Float[Array, ""]:
        """The weight for a network in these circumstances."""
        paid = self.share * now.nats * now.examples / jnp.maximum(now.weights, 1)
        over = passed(now.step / now.total_steps, self.begin, self.end)
        return jnp.minimum(self.last, paid) ** (1.0 - over) * self.last**over


def kl_weight_of(schedule: Schedule, now: Circumstances) -> Float[Array, ""]:
    """β for the coming epoch. The one place where it is computed; from then on the state carries it."""
    if isinstance(schedule, Affordable):
        return jnp.asarray(schedule.among(now), jnp.float32)
    return jnp.asarray(schedule.at(now.step, now.total_steps), jnp.float32)


def first_nats_of(schedule: Schedule) -> float:
    """What an example is taken to cost before any was asked."""
    return schedule.first_nats if isinstance(schedule, Affordable) else 0.5
