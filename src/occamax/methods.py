"""Methods: one row of a comparison each. A method is a prior, a posterior, a reduction and an optimiser.

Every field is an option: `BMR(learning_rate=Constant(5e-3))`. The defaults of `MAP`, `MeanFieldFlat`, `MeanFieldTiered`
and `PaperBMR` are the paper's.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .calibration import Calibration
from .errors import ArgumentError
from .estimators import Estimator, SharedDraw
from .model import Model
from .optimizers import AdaBelief, NaturalGradient, Optimizer
from .posteriors import MeanField, PointMass, Posterior
from .priors import FanIn, Flat, Prior, Tiered
from .reduction import Between, Evidence, Horseshoe, Reduction, TargetSparsity
from .schedules import Affordable, Constant, Cosine, Geometric, Ramp, Scaled, Schedule


class Start(ABC):
    """Base of all ways to choose the first posterior means."""

    @abstractmethod
    def __call__(self, model: Model, key: PRNGKeyArray) -> Float[Array, "latents"]: ...


@dataclass(frozen=True)
class Uniform(Start):
    """Every latent uniform in ±radius: the authors' start."""

    radius: float = 2.0

    def __call__(self, model, key):
        return jax.random.uniform(key, (model.latent_count,), minval=-self.radius, maxval=self.radius)


@dataclass(frozen=True)
class VarianceScaled(Start):
    """Weights of variance gain / fan-in, biases zero, gains at one, scales at their prior's mode (c = 1)."""

    gain: float = 1.0

    def __call__(self, model, key):
        stds = []
        for block in model.layout.blocks:
            stds.append(
                np.full(block.rows * block.columns, 0.0 if block.is_gain else np.sqrt(self.gain / block.columns))
            )
            stds.append(np.zeros(block.size - block.rows * block.columns))
        normal = jax.random.normal(key, (model.layout.size,))
        log_scales = jnp.zeros(model.latent_prior.shape.size)
        prior_scales = log_scales[: model.prior.scale_gammas(model.layout)[0].size]
        centers = model.prior.centers(model.layout)
        weights = jnp.asarray(np.concatenate(stds), jnp.float32) * normal + model.layout.gains()
        unit = (weights - centers) / model.prior.weight_stds(model.layout, prior_scales)
        return jnp.concatenate([unit, log_scales, jnp.zeros(model.latent_count - unit.size - log_scales.size)])


@dataclass(frozen=True)
class Method:
    """Base of all methods.

    **learning_rate** of the **optimizer** and **divergence_weight** (1 is the evidence bound, less is a tempered
    posterior) are schedules over the run. **estimator** of the likelihood: one draw a batch, flipout, or local
    reparameterisation. **dropout** is what the command line builds the paper's networks with; a network passed to `fit`
    keeps its own. **calibration** None trains on every example and leaves the outputs as they are.
    """

    prior: Prior = field(default_factory=Flat)
    first_means: Start = field(default_factory=Uniform)
    first_std: float = 0.1
    learning_rate: Schedule = Constant(5e-3)
    divergence_weight: Schedule = Constant(1.0)
    optimizer: Optimizer = AdaBelief()
    estimator: Estimator = SharedDraw()
    reduction: Reduction | None = None
    dropout: float = 0.0
    calibration: Calibration | None = None

    def __post_init__(self):
        if not self.first_std > 0:
            raise ArgumentError(f"first_std: {self.first_std!r} given; a deviation must be positive")
        if not isinstance(self.estimator, Estimator):
            raise ArgumentError(f"estimator: {self.estimator!r} given; it must be an object such as Flipout()")
        if not isinstance(self.optimizer, Optimizer):
            raise ArgumentError(f"optimizer: {self.optimizer!r} given; it must be an object such as AdaBelief()")
        if not 0 <= self.dropout < 1:
            raise ArgumentError(f"dropout: {self.dropout!r} given; it must lie from 0 up to, not including, 1")

    def first_posterior(self, model: Model, key: PRNGKeyArray) -> Posterior:
        return MeanField.around(self.first_means(model, key), self.first_std)

    def pruned_to(self, sparsity: float, epochs: int) -> "Method":
        """This method with exactly that share of the reducible weights removed by the end of a run of `epochs`: the
        evidence decides which, no longer how many. Nothing is undone, since the share was asked for."""
        if self.reduction is None:
            raise ArgumentError(
                f"sparsity: {type(self).__name__} prunes nothing; choose a method that does, such as BMR"
            )
        due = [epoch for epoch in range(epochs) if self.reduction.schedule.due(epoch, epochs)]
        if not due:
            raise ArgumentError(f"epochs: {epochs} leaves no room for a reduction; ask for at least two")
        criterion = TargetSparsity(sparsity, reach=min(0.75, due[-1] / epochs))
        return replace(self, reduction=replace(self.reduction, criterion=criterion, least_left=None, tolerance=None))

    def with_units(self, price: float) -> "Method":
        """This method, which also removes whole units that earn less than `price` nats a weight (see `Reduction`)."""
        if self.reduction is None:
            raise ArgumentError(
                f"unit_price: {type(self).__name__} prunes nothing; choose a method that does, such as BMR"
            )
        if isinstance(self.reduction.criterion, TargetSparsity):
            raise ArgumentError("unit_price: it cannot be had with a fixed sparsity; leave one of the two out")
        return replace(self, reduction=replace(self.reduction, unit_price=price))


@dataclass(frozen=True)
class MAP(Method):
    """Flat-MAP: the most probable weights under the flat prior, with dropout. Plain training with weight decay."""

    learning_rate: Schedule = Constant(1e-3)
    dropout: float = 0.2

    def __post_init__(self):
        super().__post_init__()
        if self.estimator.is_local:
            raise ArgumentError("estimator: a point estimate has no noise to spread; leave it at SharedDraw()")
        if isinstance(self.optimizer, NaturalGradient):
            raise ArgumentError("optimizer: natural gradients are of a Gaussian; for a point leave it at AdaBelief()")

    def first_posterior(self, model, key):
        return PointMass(self.first_means(model, key))


@dataclass(frozen=True)
class MeanFieldFlat(Method):
    """Flat-FF: a fully factorised posterior under the flat prior."""


@dataclass(frozen=True)
class MeanFieldTiered(Method):
    """Tiered-FF: a fully factorised posterior under the regularised horseshoe."""

    prior: Prior = field(default_factory=Tiered)


@dataclass(frozen=True)
class PaperBMR(Method):
    """BMR-S&S, the paper to the letter: Flat-FF, reduced before every epoch but the first by spike-and-slab."""

    learning_rate: Schedule = Constant(1e-2)
    reduction: Reduction | None = field(default_factory=Reduction)


@dataclass(frozen=True)
class HorseshoeBMR(PaperBMR):
    """BMR with the regularised horseshoe in place of spike-and-slab."""

    reduction: Reduction | None = field(default_factory=lambda: Reduction(Horseshoe()))


@dataclass(frozen=True)
class BMR(PaperBMR):
    """Our best recipe so far (`docs/recipe.md` says how it was found):

    - variance-scaled first means, a cosine rate, priors by fan-in with gains centred on one;
    - a divergence that the data can pay for: that of a million weights outweighs some ten thousand images, and at full
      weight the network underfits. Up to four tenths of the run its weights, at a nat each, cost three quarters of what
      held-out examples still cost: little at first, more as the network gets smaller. From eight tenths on it weighs
      six tenths. This makes it a tempered posterior, and every report says so;
    - a weight goes when the evidence prefers it gone. ΔF is first that of the tempered posterior, by seven tenths of
      the run the evidence that the data really hold; and the network is pruned no faster than it can follow, from a
      tenth to four fifths of the run. The rest is for the survivors;
    - a guard that undoes what the network does not recover from;
    - a temperature of the outputs, from at most one training example in twenty that is held out.

    **dial_rate** times the learning rate is what it trains at when told how much to prune (`pruned_to`).
    """

    prior: Prior = field(default_factory=FanIn)
    first_means: Start = field(default_factory=VarianceScaled)
    learning_rate: Schedule = Cosine(1e-2)
    divergence_weight: Schedule = Affordable(0.6, 0.75)
    reduction: Reduction | None = field(
        default_factory=lambda: Reduction(
            criterion=Evidence(),
            schedule=Between(0.1, 0.8),
            evidence=Ramp(0.0, 1.0, 0.1, 0.7),
            least_left=Geometric(1.0, 0.005, 0.1, 0.7),
            tolerance=0.05,
        )
    )
    calibration: Calibration | None = Calibration()
    dial_rate: float = 2.0

    def __post_init__(self):
        super().__post_init__()
        if not self.dial_rate > 0:
            raise ArgumentError(f"dial_rate: {self.dial_rate!r} given; it must be positive")

    def pruned_to(self, sparsity, epochs):
        """Also at `dial_rate` times the learning rate: where more must go than the evidence would let go, the survivors
        have further to move. Twice the rate is a point of accuracy at 99 %, and no harm at 95 % (`docs/recipe.md`)."""
        return replace(super().pruned_to(sparsity, epochs), learning_rate=Scaled(self.learning_rate, self.dial_rate))
