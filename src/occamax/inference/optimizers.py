"""How the posterior follows the gradient. Any optax transformation does; these are ours."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ..errors import ArgumentError
from .curvature import Curvature
from .posteriors import IndependentNormals
from .schedules import Constant, PerRun, Schedule, as_schedule

LARGEST_CHANGE = 0.2  # of the logarithm of a precision in one natural step


class Optimizer(ABC):
    """Base of our optimisers. `temper` is passed to every update: β / N, the weight of one nat of divergence."""

    needs_deviations: bool = False  # whether the posterior must have some
    curvature: Curvature | None = None  # what the deviations follow; None: the gradient at the draw
    every: int = 1  # one step in so many measures it

    @abstractmethod
    def __call__(self, rate: Schedule, steps: int) -> optax.GradientTransformationExtraArgs:
        """For a run of `steps`, with a learning rate that is a schedule over it."""


@dataclass(frozen=True)
class AdaBelief(Optimizer):
    """The paper's: steps scaled by how much the gradient can be believed (Zhuang et al. 2020).

    Examples:
        >>> ox.BMR().optimizer
        AdaBelief()
    """

    def __call__(self, rate, steps):
        return optax.with_extra_args_support(optax.adabelief(rate.as_optax(steps)))


@dataclass(frozen=True)
class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019): what most people train with. In one step a weight
    is also drawn to its prior's centre by **weight_decay** times the rate. Any optax transformation may stand in its
    place.

    Raises:
        ArgumentError: a negative weight decay.

    Examples:
        >>> import optax
        >>> ours = ox.Plain(optimizer=ox.AdamW(0.01))
        >>> theirs = ox.Plain(optimizer=optax.lion(1e-4))  # its own rate counts
    """

    weight_decay: float = 0.1

    def __post_init__(self):
        _refuse_negative("weight_decay", self.weight_decay)

    def __call__(self, rate, steps):
        made = optax.adamw(rate.as_optax(steps), weight_decay=self.weight_decay)
        return optax.with_extra_args_support(made)


@dataclass(frozen=True)
class Momentum(Optimizer):
    """Stochastic gradients with **momentum**, and **weight_decay** as part of the gradient.

    Raises:
        ArgumentError: a momentum outside 0 to 1, or a negative weight decay.

    Examples:
        >>> ox.Plain(optimizer=ox.Momentum(0.95), learning_rate=0.1).optimizer
        Momentum(momentum=0.95, weight_decay=0.0005)
    """

    momentum: float = 0.9
    weight_decay: float = 5e-4

    def __post_init__(self):
        _refuse_negative("weight_decay", self.weight_decay)
        if not 0 <= self.momentum < 1:
            raise ArgumentError(f"momentum: {self.momentum!r} given; it must lie from 0 up to, not including, 1")

    def __call__(self, rate, steps):
        made = optax.chain(optax.add_decayed_weights(self.weight_decay), optax.sgd(rate.as_optax(steps), self.momentum))
        return optax.with_extra_args_support(made)


def _refuse_negative(name: str, value: float) -> None:
    if not value >= 0:
        raise ArgumentError(f"{name}: {value!r} given; it must be 0 or more")


@dataclass(frozen=True)
class Optax(Optimizer):
    """A gradient transformation of optax, with a learning rate of its own: the method's is not used. One that needs
    the loss or other extra arguments of its own is not served."""

    transformation: optax.GradientTransformation

    def __call__(self, rate, steps):
        return optax.with_extra_args_support(self.transformation)


class _Momentum(NamedTuple):
    count: jax.Array
    momentum: jax.Array  # of the gradient by the means


@dataclass(frozen=True)
class NaturalGradient(Optimizer):
    """Natural gradients of a mean-field posterior, as in IVON (Shen et al. 2024), in one vector.

    The Fisher information of Normal(μ, σ²) in (μ, ln σ) is diag(1/σ², 2), so that with G the gradient of F / N and
    δ = β / N a natural step is

        μ ← μ − rate · σ² m / δ      ln σ ← ln σ − ½ ln(1 + r + ½ r²),   r = log_std_rate · G_lnσ / δ

    where m is the mean of the gradients so far, `momentum` of it kept at each step. The logarithm is IVON's update of
    the precision, which can never make it negative. A weight whose data say much moves little, one at its prior much.

    **log_std_rate** by default forgets the first deviations by the end of a run, whatever its length: e⁻⁵ of them is
    left. What is left is a damping, which a short memory would take away too soon.
    **largest_step** σ² m / δ is kept within that many deviations of the prior: while few gradients are known, and where
    the data say nothing, it is far too long a step.
    **curvature** None takes that of the data from the same gradient, g ε / σ with the draw's own noise ε, as IVON does.
    `ox.GaussNewton()` measures it by random signs on the batch at hand, once in **every** so many steps, for one more
    backward pass there; its own numbers are for the one pass over trained weights.
    Learning rates around 0.05 train, with a warm-up; up to 0.2 where layers are normalised.

    Raises:
        ArgumentError: a momentum outside 0 to 1, a rate, a step or a number of steps that is not positive, or a
            curvature that is none.

    Examples:
        >>> ox.NaturalBMR(optimizer=ox.NaturalGradient(largest_step=0.2), learning_rate=0.02).optimizer.momentum
        0.9
    """

    needs_deviations = True

    momentum: float = 0.9
    log_std_rate: Any = PerRun(5.0)  # whatever is given, a Schedule once the optimiser is made
    largest_step: float = 0.5
    curvature: Any = None  # or a Curvature; what is given is looked at below
    every: int = 10

    def __post_init__(self):
        if self.curvature is not None and not isinstance(self.curvature, Curvature):
            raise ArgumentError(f"curvature: {self.curvature!r} given; it must be ox.GaussNewton(), or None")
        if isinstance(self.every, bool) or not isinstance(self.every, int) or self.every < 1:
            raise ArgumentError(f"every: {self.every!r} given; it must be a whole number of steps from 1 up")
        if not 0 <= self.momentum < 1:
            raise ArgumentError(f"momentum: {self.momentum!r} given; it must lie from 0 up to, not including, 1")
        rate = as_schedule("log_std_rate", self.log_std_rate)
        if isinstance(rate, Constant) and not rate.value > 0:
            raise ArgumentError(f"log_std_rate: {rate.value!r} given; it must be positive")
        if not self.largest_step > 0:
            raise ArgumentError(f"largest_step: {self.largest_step!r} given; it must be positive")
        object.__setattr__(self, "log_std_rate", rate)

    def __call__(self, rate, steps):
        def init(params: Any) -> Any:
            return _Momentum(jnp.int32(0), jnp.zeros_like(params.mean))

        def update(updates: Any, state: Any, params: Any = None, *, temper: Any = 1.0, **extra_args: Any) -> Any:
            gradient = updates
            kept = self.momentum * state.momentum + (1.0 - self.momentum) * gradient.mean
            unbiased = kept / (1.0 - self.momentum ** (state.count + 1))
            step = params.std * (params.std * unbiased / temper)  # no square: see `normal_divergence`
            step = jnp.clip(step, -self.largest_step, self.largest_step)
            mean = -rate.at(state.count, steps) * step
            change = self.log_std_rate.at(state.count, steps) * gradient.log_std / temper
            change = jnp.clip(change, -LARGEST_CHANGE, LARGEST_CHANGE)
            log_std = -0.5 * jnp.log1p(change + 0.5 * change**2)
            return IndependentNormals(mean, log_std), _Momentum(state.count + 1, kept)

        return optax.GradientTransformationExtraArgs(init, update)


def as_optimizer(value: Any) -> Optimizer:
    """An optimiser from what a user gives for one: ours, or a gradient transformation of optax."""
    if isinstance(value, Optimizer):
        return value
    if isinstance(value, optax.GradientTransformation):
        return Optax(value)
    hint = " It looks like a function that makes one: call it, as in optax.adam(1e-3)." if callable(value) else ""
    raise ArgumentError(
        f"optimizer: {value!r} given; it must be an optax gradient transformation such as optax.adam(1e-3), or "
        f"ox.AdaBelief() or ox.NaturalGradient().{hint}"
    )
