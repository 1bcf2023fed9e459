"""How the posterior follows the gradient. Any optax transformation does; these are ours."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ..errors import ArgumentError
from .posteriors import IndependentNormals
from .schedules import Constant, Schedule, as_schedule

LARGEST_STEP = 0.1  # by which a mean, in deviations, and the logarithm of a deviation may change in one natural step


class Optimizer(ABC):
    """Base of our optimisers. `temper` is passed to every update: β / N, the weight of one nat of divergence."""

    needs_deviations: bool = False  # whether the posterior must have some

    @abstractmethod
    def __call__(self, rate: Schedule, steps: int) -> optax.GradientTransformationExtraArgs:
        """For a run of `steps`, with a learning rate that is a schedule over it."""


@dataclass(frozen=True)
class AdaBelief(Optimizer):
    """The paper's: steps scaled by how much the gradient can be believed (Zhuang et al. 2020)."""

    def __call__(self, rate, steps):
        return optax.with_extra_args_support(optax.adabelief(rate.as_optax(steps)))


@dataclass(frozen=True)
class Optax(Optimizer):
    """A gradient transformation of optax, with a learning rate of its own: the method's is not used. One that needs
    the loss or other extra arguments of its own is not served."""

    transformation: optax.GradientTransformation

    def __call__(self, rate, steps):
        return optax.with_extra_args_support(self.transformation)


class _Momentum(NamedTuple):
    count: jax.Array
    momentum: Any  # of the gradient by the means; as a posterior, so that optax finds what belongs to which weight


@dataclass(frozen=True)
class NaturalGradient(Optimizer):
    """Natural gradients of a mean-field posterior, as in IVON (Shen et al. 2024), in one vector.

    The Fisher information of Normal(μ, σ²) in (μ, ln σ) is diag(1/σ², 2), so that with G the gradient of F / N and
    δ = β / N a natural step is

        μ ← μ − rate · σ² m / δ      ln σ ← ln σ − ½ ln(1 + r + ½ r²),   r = log_std_rate · G_lnσ / δ

    where m is the mean of the gradients so far, `momentum` of it kept at each step. The logarithm is IVON's update of
    the precision, which can never make it negative. A weight whose data say much moves little, one at its prior much.
    Both changes are kept within about ±`LARGEST_STEP`, that of μ in units of σ: while σ is still the wide one of the
    start, or when the KL weight has just changed, σ² / δ is far too long a step. Learning rates of 0.03 to 0.1 train
    (`docs/recipe.md`).
    """

    needs_deviations = True

    momentum: float = 0.9
    log_std_rate: Any = Constant(1e-3)  # whatever is given, a Schedule once the optimiser is made

    def __post_init__(self):
        if not 0 <= self.momentum < 1:
            raise ArgumentError(f"momentum: {self.momentum!r} given; it must lie from 0 up to, not including, 1")
        rate = as_schedule("log_std_rate", self.log_std_rate)
        if isinstance(rate, Constant) and not rate.value > 0:
            raise ArgumentError(f"log_std_rate: {rate.value!r} given; it must be positive")
        object.__setattr__(self, "log_std_rate", rate)

    def __call__(self, rate, steps):
        def init(params: Any) -> Any:
            return _Momentum(jnp.int32(0), jax.tree.map(jnp.zeros_like, params))

        def update(updates: Any, state: Any, params: Any = None, *, temper: Any = 1.0, **extra_args: Any) -> Any:
            gradient = updates
            kept = self.momentum * state.momentum.mean + (1.0 - self.momentum) * gradient.mean
            unbiased = kept / (1.0 - self.momentum ** (state.count + 1))
            step = -rate.at(state.count, steps) * params.std * unbiased / temper
            mean = params.std * jnp.clip(step, -LARGEST_STEP, LARGEST_STEP)
            change = self.log_std_rate.at(state.count, steps) * gradient.log_std / temper
            change = jnp.clip(change, -2.0 * LARGEST_STEP, 2.0 * LARGEST_STEP)
            log_std = -0.5 * jnp.log1p(change + 0.5 * change**2)
            momentum = IndependentNormals(kept, state.momentum.log_std)
            return IndependentNormals(mean, log_std), _Momentum(state.count + 1, momentum)

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
