"""Reduction under a regularised horseshoe: the paper's second-level objective (eq. 10) with continuous scales.

    F[q] = E_q(θ)[ −Σ ΔF(θ_ij) ] + KL( q(θ) ‖ p(θ) )

ΔF(θ) stands for the log likelihood of the scales θ, so learning them needs no data: a short variational loop over the
posterior already found. θ_ij = γ_il of `priors.HorseshoePrior`, with log-normal q over its scales.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Float

from ..errors import ArgumentError
from ..inference.posteriors import IndependentNormals, LatentPrior
from ..inference.priors import HorseshoePrior
from ..structure.layout import Layout
from .criteria import Beliefs, Criterion, Decision
from .delta_f import independent, removal


@dataclass(frozen=True)
class HorseshoeCriterion(Criterion):
    """A weight goes when removing it beats keeping it under the scale the horseshoe has learned for its row: ΔF(0) >
    E_q[ΔF(γ_il)]. The scales of **prior** are learnt by **steps** of Adam at **rate**, with **draws** samples each.

    Raises:
        ArgumentError: a number that is not positive.

    Examples:
        >>> ox.HorseshoeBMR(reduction=ox.Reduction(ox.criteria.HorseshoeCriterion(steps=100))).reduction.criterion.draws
        4
    """

    prior: HorseshoePrior = HorseshoePrior()
    steps: int = 200
    draws: int = 4
    rate: float = 0.05

    def __post_init__(self):
        for name in ("steps", "draws", "rate"):
            if not getattr(self, name) > 0:
                raise ArgumentError(f"{name}: {getattr(self, name)!r} given; it must be positive")

    def decide(self, layout, beliefs):
        var = jnp.minimum(beliefs.std**2, 1.0)  # wider than its prior is noise of the optimiser; ΔF would diverge
        fitted = self.fit_scales(layout, beliefs, var)
        kept_evidence = self._expected(layout, fitted, beliefs, var, beliefs.key)
        keep = removal(beliefs.mean, var) <= kept_evidence
        return Decision(keep, layout.totals(kept_evidence) / jnp.asarray(np.array(layout.sizes), var.dtype))

    def fit_scales(self, layout: Layout, beliefs: Beliefs, var: Float[Array, "weights"]) -> IndependentNormals:
        """Log-normal posterior of the horseshoe's scales given the weights' posterior."""
        gammas = LatentPrior(*(jnp.asarray(values, var.dtype) for values in self.prior.scale_gammas(layout)))
        no_weights = jnp.zeros(0, bool)
        optimizer = optax.adam(self.rate)

        def objective(scales: IndependentNormals, key) -> Float[Array, ""]:
            evidence = jnp.sum(self._expected(layout, scales, beliefs, var, key))
            return scales.divergence(gammas, no_weights) - evidence

        def step(carry, key):
            scales, state = carry
            updates, state = optimizer.update(jax.grad(objective)(scales, key), state)
            return (eqx.apply_updates(scales, updates), state), None

        scales: Any = IndependentNormals.around(self._first_guess(layout, beliefs.mean**2 + var), 0.1)
        keys = jax.random.split(beliefs.key, self.steps)
        (scales, _), _ = lax.scan(step, (scales, optimizer.init(scales)), keys)
        return scales

    def _expected(self, layout, scales: IndependentNormals, beliefs: Beliefs, var, key) -> Float[Array, "weights"]:
        def one(k):
            stds = self.prior.weight_stds(layout, scales.draw(k))
            return independent(beliefs.mean, var, stds**2).delta_f

        return jnp.mean(lax.map(one, jax.random.split(key, self.draws)), axis=0)

    def _first_guess(self, layout: Layout, second_moment: Float[Array, "weights"]) -> Float[Array, "scales"]:
        """Scales whose variances match the weights' second moments, row by row."""
        *hidden, last = layout.matrices(second_moment)
        half_rows = [0.5 * (jnp.log(matrix.mean(1)) - 2 * np.log(self.prior.global_scale)) for matrix in hidden]
        rows = jnp.concatenate(half_rows) if hidden else jnp.zeros(0)
        output = 0.5 * jnp.log(last.mean())
        layers = jnp.zeros(len(hidden))
        return jnp.concatenate([layers, layers, output[None], layers, -output[None], rows, -rows])
