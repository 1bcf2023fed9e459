"""The Laplace posterior of a few weights with all their covariances: the last layer, or a network that is small.

With the whole Gauss–Newton matrix nothing is left out that the diagonal ignores: for a linear model with Gaussian noise
the posterior, and so ΔF, is exact (`tests/reduction/test_laplace.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..errors import ArgumentError
from ..inference.model import Model
from ..names import choose
from ..structure.calling import Buffers
from .delta_f import Reduced, dense

LARGEST = 3000  # weights: a matrix of 72 MB in double precision, and some of its kind


@dataclass(frozen=True)
class DenseLaplace:
    """Normal(mean, covariance) of the chosen weights, with `places` in the vector of all; independent priors of
    `prior_var` around zero."""

    places: Int[np.ndarray, "n"]
    mean: Float[Array, "n"]
    covariance: Float[Array, "n n"]
    prior_var: Float[Array, "n"]

    def without(self, keep: Bool[Array, "n"]) -> Reduced:
        """The evidence gained when all that is not kept goes at once, and the posterior of what stays."""
        return dense(self.mean, self.covariance, jnp.where(keep, self.prior_var, 0.0), self.prior_var)

    def delta_f(self) -> Float[Array, "n"]:
        """The evidence gained by removing each weight alone: its marginal says it all (Savage–Dickey)."""
        var = jnp.diag(self.covariance)
        return -0.5 * (jnp.log(var / self.prior_var) + self.mean**2 / var)


def dense_laplace(
    model: Model,
    weights: Float[Array, "weights"],
    examples: tuple[Any, Any],
    layers: Sequence[str] | None = None,
    buffers: Buffers = (),
    log_scales: Float[Array, "scales"] | None = None,
    batch_size: int = 100,
) -> DenseLaplace:
    """The posterior of the chosen **layers**, the last one unless given, at trained **weights** (in the order of
    `model.layout`); the others are held. The prior is the **model**'s, with its scales fitted to the weights.

    **examples** inputs and targets, **batch_size** at a time; **buffers** of a network with a state; **log_scales** of
    the likelihood. Gives `mean` (n,) and `covariance` (n, n), `delta_f()` of each weight alone and `without(keep)` of
    many at once.

    Raises:
        ArgumentError: a layer that is not there, or more weights than a covariance can be had of.

    Examples:
        >>> model = ox.Model(network, x[0], ox.NormalPrior(1.0))
        >>> found = ox.dense_laplace(model, model.layout.pack(network), (x, y))
        >>> found.covariance.shape, found.delta_f().shape
        ((34, 34), (34,))
    """
    layout = model.layout
    names = layout.names[-1:] if layers is None else [choose("layers", name, layout.names) for name in layers]
    places = np.flatnonzero(layout.flags(lambda block: block.name in names))
    if len(places) > LARGEST:
        raise ArgumentError(f"layers: {len(places)} weights in {', '.join(names)}; up to {LARGEST} have a covariance")
    stds = model.prior.weight_stds(layout, model.prior.fitted_scales(layout, weights))[places]
    if log_scales is None:
        log_scales = jnp.zeros(model.likelihood.scale_gammas()[0].size)
    total = jnp.diag(stds**-2.0)
    inputs, targets = examples
    for start in range(0, len(inputs), batch_size):
        batch = jnp.asarray(inputs[start : start + batch_size]), jnp.asarray(targets[start : start + batch_size])
        total = total + _curvature(model, weights, jnp.asarray(places), buffers, log_scales, batch)
    mean = (weights - model.prior.centers(layout))[places]
    return DenseLaplace(places, mean, jnp.linalg.inv(total), stds**2)


@eqx.filter_jit
def _curvature(
    model: Model, weights: Array, places: Array, buffers: Buffers, log_scales: Array, batch: tuple[Array, Array]
) -> Float[Array, "n n"]:
    """Σ JᵀHJ of a batch: the sum of (RᵀJ)ᵀ(RᵀJ), R a root of each example's H."""
    inputs, targets = batch

    def ask(own: Array) -> Array:
        return model.outputs(model.layout.bind(model.network, weights.at[places].set(own)), inputs, buffers)

    outputs, back = jax.vjp(ask, weights[places])
    count, width = outputs.shape
    units = jnp.broadcast_to(jnp.eye(width)[:, None], (width, count, width))
    roots = jax.vmap(lambda signs: model.likelihood.curvature_root(outputs, targets, log_scales, signs))(units)
    each = jnp.eye(count)[None, :, :, None] * roots[:, None]  # one example and one column of its root at a time
    rows = jax.vmap(lambda cotangent: back(cotangent)[0])(each.reshape(width * count, count, width))
    return rows.T @ rows
