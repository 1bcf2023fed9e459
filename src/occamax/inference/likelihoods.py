"""How data arise from what a network puts out. Batches in, one number an example out."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..errors import ArgumentError
from .divergences import LOG_2_PI


class Likelihood(ABC):
    """Base of all likelihoods. One that has a noise of its own keeps its logarithm as the last latent."""

    takes_logits: ClassVar[bool] = False  # whether outputs may be divided by a temperature

    def scale_gammas(self) -> tuple[Float[np.ndarray, "scales"], Float[np.ndarray, "scales"]]:
        """Shape and rate of the Gamma prior of each of its own scales; none by default."""
        return np.zeros(0), np.zeros(0)

    @abstractmethod
    def log_prob(
        self, outputs: Float[Array, "batch out"], targets: Array, log_scales: Float[Array, "scales"]
    ) -> Float[Array, "batch"]:
        """ln p(target | output), one number an example."""

    @abstractmethod
    def expectation(self, outputs: Float[Array, "batch out"]) -> Float[Array, "batch out"]:
        """The expected target: probabilities of classes, or a mean."""

    def curvature_root(
        self,
        outputs: Float[Array, "batch out"],
        targets: Array,
        log_scales: Float[Array, "scales"],
        signs: Float[Array, "batch out"],
    ) -> Float[Array, "batch out"]:
        """R s for each example, where R Rᵀ = H, the curvature −∇² ln p(target | output): over random signs s its second
        moment is H. Here from the eigenvectors of H, which serves any likelihood; directions in which ln p bends
        upwards count nothing."""

        def cost(output: Array, target: Array) -> Array:
            return -self.log_prob(output[None], target[None], log_scales)[0]

        values, vectors = jnp.linalg.eigh(jax.vmap(jax.hessian(cost))(outputs, targets))
        return jnp.einsum("nij,nj->ni", vectors, jnp.sqrt(jnp.maximum(values, 0.0)) * signs)

    def fitted_scales(self, outputs: Float[Array, "n out"], targets: Array) -> Float[Array, "scales"]:
        """Logarithms of its own scales for a network that puts these out: none by default."""
        return jnp.zeros(self.scale_gammas()[0].size)

    def baseline(self, targets: np.ndarray) -> float:
        """Nats an example of the best constant prediction: what a network that learnt nothing pays. Infinite where it
        is not known; no reduction is then ever undone."""
        return float("inf")

    @abstractmethod
    def check_targets(self, targets: np.ndarray, outputs: int) -> None:
        """Refuses targets that this likelihood cannot have produced."""


@dataclass(frozen=True)
class Categorical(Likelihood):
    """One of K classes; the network puts out K logits, targets are class numbers (n,), whole numbers from 0 to K − 1.
    What `fit` takes for whole-numbered targets.

    Raises:
        ArgumentError: from `fit`, for targets that are none or a class that the network has no output for.

    Examples:
        >>> logits = jnp.array([[2.0, 0.0], [0.0, 0.0]])
        >>> nats = -ox.Categorical().log_prob(logits, jnp.array([0, 1]), jnp.zeros(0))
        >>> print(np.asarray(nats).round(3))
        [0.127 0.693]
    """

    takes_logits = True

    def log_prob(self, outputs, targets, log_scales):
        return jnp.take_along_axis(jax.nn.log_softmax(outputs), targets[:, None], axis=-1)[:, 0]

    def expectation(self, outputs):
        return jax.nn.softmax(outputs)

    def curvature_root(self, outputs, targets, log_scales, signs):
        chances = jax.nn.softmax(outputs)  # H = diag(p) − p pᵀ = R Rᵀ with R = (1 − p 1ᵀ) diag(√p)
        scaled = jnp.sqrt(chances) * signs
        return scaled - chances * jnp.sum(scaled, axis=-1, keepdims=True)

    def baseline(self, targets):
        share = np.bincount(targets) / len(targets)
        return float(-np.sum(share[share > 0] * np.log(share[share > 0])))

    def check_targets(self, targets, outputs):
        if not np.issubdtype(targets.dtype, np.integer) or targets.ndim != 1:
            raise ArgumentError(
                f"targets: Categorical takes class numbers of shape (n,), not {targets.dtype} of shape {targets.shape}"
            )
        if targets.size and (targets.min() < 0 or targets.max() >= outputs):
            raise ArgumentError(
                f"targets: class {targets.max() if targets.max() >= outputs else targets.min()} found, but the network "
                f"has {outputs} outputs, so classes are 0 to {outputs - 1}"
            )


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """Independent yes-or-no targets of shape (n, out); the network puts out logits.

    Raises:
        ArgumentError: from `fit`, for targets other than zeros and ones, or of another width than the outputs.

    Examples:
        >>> ox.Bernoulli().expectation(jnp.array([[0.0, 100.0]])).tolist()
        [[0.5, 1.0]]
    """

    takes_logits = True

    def log_prob(self, outputs, targets, log_scales):
        signs = 2.0 * targets.reshape(outputs.shape) - 1.0
        return jnp.sum(jax.nn.log_sigmoid(signs * outputs), axis=-1)

    def expectation(self, outputs):
        return jax.nn.sigmoid(outputs)

    def curvature_root(self, outputs, targets, log_scales, signs):
        return jnp.sqrt(jax.nn.sigmoid(outputs) * jax.nn.sigmoid(-outputs)) * signs

    def baseline(self, targets):
        share = np.clip(targets.reshape(len(targets), -1).mean(0), 1e-9, 1 - 1e-9)
        return float(-np.sum(share * np.log(share) + (1 - share) * np.log(1 - share)))

    def check_targets(self, targets, outputs):
        _check_width("Bernoulli", targets, outputs)
        if not np.isin(targets, (0, 1)).all():
            raise ArgumentError("targets: Bernoulli takes zeros and ones; other values were found")


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """Real targets of shape (n, out) with one unknown noise, learned: its precision ~ Gamma(**precision_shape**,
    **precision_rate**). What `fit` takes for targets that are no whole numbers.

    **center** and **scale**, one number an output or one for all, say where the targets lie: the network puts out
    (target − center) / scale, so that it may start near zero whatever the unit. Likelihoods are of the targets as they
    are given, in nats per example of that unit.

    Raises:
        ArgumentError: a scale that is not positive; from `fit`, targets that are not finite or of another width.

    Examples:
        >>> prices = ox.Gaussian(center=(300.0,), scale=(50.0,))
        >>> prices.expectation(jnp.array([[-1.0]])).tolist()  # what an output of −1 stands for
        [[250.0]]
    """

    precision_shape: float = 2.0
    precision_rate: float = 2.0
    center: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)

    def __post_init__(self):
        if not all(scale > 0 for scale in self.scale):
            raise ArgumentError(f"scale: {self.scale!r} given; every one must be positive")

    def scale_gammas(self):
        return np.array([self.precision_shape]), np.array([self.precision_rate])

    def log_prob(self, outputs, targets, log_scales):
        log_precision = log_scales[0]
        center, scale = (jnp.asarray(values, outputs.dtype) for values in (self.center, self.scale))
        squares = ((targets.reshape(outputs.shape) - center) / scale - outputs) ** 2
        unit = jnp.broadcast_to(jnp.log(scale), outputs.shape)
        return 0.5 * jnp.sum(log_precision - LOG_2_PI - jnp.exp(log_precision) * squares - 2.0 * unit, axis=-1)

    def expectation(self, outputs):
        return jnp.asarray(self.center, outputs.dtype) + jnp.asarray(self.scale, outputs.dtype) * outputs

    def curvature_root(self, outputs, targets, log_scales, signs):
        return jnp.exp(0.5 * log_scales[0]) * signs

    def fitted_scales(self, outputs, targets):
        """The precision's posterior mean, the network given: Gamma priors are conjugate to it."""
        center, scale = (jnp.asarray(values, outputs.dtype) for values in (self.center, self.scale))
        squares = ((jnp.asarray(targets).reshape(outputs.shape) - center) / scale - outputs) ** 2
        shape, rate = self.precision_shape + 0.5 * squares.size, self.precision_rate + 0.5 * jnp.sum(squares)
        return jnp.log(shape / rate)[None]

    def baseline(self, targets):
        columns = (targets.reshape(len(targets), -1).astype(np.float64) - np.array(self.center)) / np.array(self.scale)
        var = max(float(columns.var(0).mean()), 1e-12)  # one noise for all outputs
        unit = float(np.broadcast_to(np.log(self.scale), columns.shape[1:]).sum())
        return 0.5 * columns.shape[1] * (LOG_2_PI + 1.0 + float(np.log(var))) + unit

    def check_targets(self, targets, outputs):
        _check_width("Gaussian", targets, outputs)
        for name in ("center", "scale"):
            if len(getattr(self, name)) not in (1, outputs):
                raise ArgumentError(f"{name}: {len(getattr(self, name))} numbers given for {outputs} outputs")
        if not np.isfinite(targets).all():
            raise ArgumentError("targets: NaN or infinite values were found; remove those rows")


def _check_width(name: str, targets: np.ndarray, outputs: int) -> None:
    width = 1 if targets.ndim == 1 else int(np.prod(targets.shape[1:]))
    if width != outputs:
        raise ArgumentError(f"targets: {name} takes {outputs} numbers an example, as the network puts out, not {width}")
