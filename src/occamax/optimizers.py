"""How the posterior follows the gradient."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from .errors import ArgumentError
from .posteriors import MeanField
from .schedules import Schedule

MOST = 0.1  # by which a mean, in deviations, and the logarithm of a deviation may change in one natural step


class Optimizer(ABC):
    """Base of all optimisers. `temper` is passed to every update: β / N, the weight of one nat of divergence."""

    @abstractmethod
    def __call__(self, rate: Schedule, steps: int) -> optax.GradientTransformationExtraArgs:
        """For a run of `steps`, with a learning rate that is a schedule over it."""


@dataclass(frozen=True)
class AdaBelief(Optimizer):
    """The paper's: steps scaled by how much the gradient can be believed (Zhuang et al. 2020)."""

    def __call__(self, rate, steps):
        return optax.with_extra_args_support(optax.adabelief(lambda count: rate(count / steps)))


class _Momentum(NamedTuple):
    count: jax.Array
    momentum: Any  # of the gradient by the means; as a posterior, so that optax finds what belongs to which weight


@dataclass(frozen=True)
class NaturalGradient(Optimizer):
    """Natural gradients of a mean-field posterior, as in IVON (Shen et al. 2024), in one vector.

    The Fisher information of Normal(μ, σ²) in (μ, ln σ) is diag(1/σ², 2), so that with G the gradient of F / N and
    δ = β / N a natural step is

        μ ← μ − rate · σ² m / δ      ln σ ← ln σ − ½ ln(1 + r + ½ r²),   r = spread_rate · G_lnσ / δ

    where m is the mean of the gradients so far, `momentum` of it kept at each step. The logarithm is IVON's update of
    the precision, which can never make it negative. A weight whose data say much moves little, one at its prior much.
    Both changes are kept within about ±`MOST`, that of μ in units of σ: while σ is still the wide one of the start, or
    when the divergence's weight has just changed, σ² / δ is far too long a step. Learning rates of 0.03 to 0.1 train
    (`docs/recipe.md`).
    """

    momentum: float = 0.9
    spread_rate: float = 1e-3

    def __post_init__(self):
        if not 0 <= self.momentum < 1:
            raise ArgumentError(f"momentum: {self.momentum!r} given; it must lie from 0 up to, not including, 1")
        if not self.spread_rate > 0:
            raise ArgumentError(f"spread_rate: {self.spread_rate!r} given; it must be positive")

    def __call__(self, rate, steps):
        def init(params: Any) -> Any:
            return _Momentum(jnp.int32(0), jax.tree.map(jnp.zeros_like, params))

        def update(updates: Any, state: Any, params: Any = None, *, temper: Any = 1.0, **extra_args: Any) -> Any:
            gradient = updates
            kept = self.momentum * state.momentum.mean + (1.0 - self.momentum) * gradient.mean
            unbiased = kept / (1.0 - self.momentum ** (state.count + 1))
            mean = params.std * jnp.clip(-rate(state.count / steps) * params.std * unbiased / temper, -MOST, MOST)
            change = jnp.clip(self.spread_rate * gradient.log_std / temper, -2.0 * MOST, 2.0 * MOST)
            log_std = -0.5 * jnp.log1p(change + 0.5 * change**2)
            momentum = MeanField(kept, state.momentum.log_std)
            return MeanField(mean, log_std), _Momentum(state.count + 1, momentum)

        return optax.GradientTransformationExtraArgs(init, update)
