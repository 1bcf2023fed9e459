"""ΔF: how the log evidence changes when the prior of some weights is replaced, from their posterior alone.

With posterior q ≈ p(w | D) under the full prior p, the reduced prior p̃ has (paper, eq. 3 and 4)

    ΔF = ln p̃(D) − ln p(D) = ln E_q[ p̃(w) / p(w) ]

in nats; ΔF > 0 favours the reduced model. For zero-mean Gaussian priors and a Gaussian posterior it is a closed form.
Removal is the limit of a reduced variance of zero, the Savage–Dickey ratio ln q(0) − ln p(0). It is taken exactly:
zero is an ordinary value of `reduced_var`.

Arrays in, arrays out; float64 stays float64.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

__all__ = ["Reduced", "dense", "grouped", "independent", "removal", "retempered"]


class Reduced(NamedTuple):
    """**delta_f** the evidence gained, in nats; **mean** and **var** of the posterior under the reduced prior:
    variances of independent weights, the covariance of dense ones.

    Examples:
        >>> found = ox.delta_f.independent(jnp.array([0.1]), jnp.array([0.04]), reduced_var=0.25)
        >>> print(np.asarray(found.mean).round(3), np.asarray(found.var).round(3))
        [0.089] [0.036]
    """

    delta_f: Array
    mean: Array
    var: Array


def independent(
    mean: Float[Array, "..."],
    var: Float[Array, "..."],
    reduced_var: Float[Array, "..."] | float = 0.0,
    full_var: Float[Array, "..."] | float = 1.0,
) -> Reduced:
    """Each weight by itself, q(w) = Normal(μ, σ²): the paper's ΔF(θ) (section 2.7), for a full prior of any variance.

    In units of the full prior's variance, θ² = reduced_var / full_var and s² = σ² / full_var:

        ρ² = θ² + s² − θ² s²
        ΔF = −½ ln ρ² − ½ (μ²/σ²)(1 − θ²/ρ²)
        reduced mean = μ θ²/ρ²      reduced variance = σ² θ²/ρ²

    Where the reduced prior is so wide that E_q[p̃/p] diverges (ρ² ≤ 0, possible only for θ > 1 and σ² > full_var),
    ΔF is +∞ and the moments are NaN.

    **mean** μ, **var** σ² of the posterior, arrays of one shape; **reduced_var** and **full_var** of the two priors,
    numbers or arrays of that shape.

    Examples:
        >>> found = ox.delta_f.independent(jnp.array([0.1, 0.9]), jnp.array([0.04, 0.04]))
        >>> print(np.asarray(found.delta_f).round(2))  # the first goes, the second stays
        [ 1.48 -8.52]
    """
    ratio = jnp.asarray(reduced_var) / full_var
    relative_var = var / full_var
    rho = ratio + relative_var - ratio * relative_var
    proper = rho > 0
    rho = jnp.where(proper, rho, 1.0)
    shrink = ratio / rho
    delta_f = -0.5 * jnp.log(rho) - 0.5 * (mean**2 / var) * (1.0 - shrink)
    nowhere = jnp.where(proper, shrink, jnp.nan)
    return Reduced(jnp.where(proper, delta_f, jnp.inf), mean * nowhere, var * nowhere)


def removal(
    mean: Float[Array, "..."], var: Float[Array, "..."], full_var: Float[Array, "..."] | float = 1.0
) -> Float[Array, "..."]:
    """Each weight removed by itself: ΔF(0) = −½ (ln(σ²/full_var) + μ²/σ²), the Savage–Dickey log ratio.

    **mean** μ, **var** σ² of the posterior, arrays of one shape; **full_var** of the prior.

    Examples:
        >>> nats = ox.delta_f.removal(jnp.array([0.1, 0.9]), jnp.array([0.04, 0.04]))
        >>> print(np.asarray(nats).round(2))  # the first goes, the second stays
        [ 1.48 -8.52]
    """
    return -0.5 * (jnp.log(var / full_var) + mean**2 / var)


def retempered(
    mean: Float[Array, "..."],
    var: Float[Array, "..."],
    weight: Float[Array, ""] | float,
    full_var: Float[Array, "..."] | float = 1.0,
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Mean and variance of q(w) = Normal(μ, σ²) with its data counted `weight` times, each weight by itself.

    A divergence that weighs β counts every datum 1/β times. What the data added to the prior is the difference of the
    natural parameters; it is scaled, and the prior added again:

        1/σ'² = 1/full_var + weight (1/σ² − 1/full_var)      μ'/σ'² = weight μ/σ²

    With `weight = β` this is the posterior that β = 1 would have given where the weights do not interact: a Gaussian
    likelihood of curvature H with no entries off the diagonal (orthogonal inputs), the scales held. Elsewhere it is a
    reweighing, not that posterior. The variances are still right for a Gaussian likelihood; the means are not: with a
    unit prior the mean-field optimum at β has the mean (H + βI)⁻¹h, and what one weight leaves over another takes up.
    Two inputs at correlation .9, ten examples, β = .05: ΔF at β = 1 is +.48, that of the reweighed posterior −2.31
    (`tests/reduction/test_delta_f.py`).

    **mean** μ, **var** σ², arrays of one shape; **full_var** of the prior.

    Examples:
        >>> mean, var = ox.delta_f.retempered(jnp.array([0.5]), jnp.array([0.1]), weight=0.25)
        >>> print(np.asarray(mean).round(3), np.asarray(var).round(3))  # nearer to zero, and wider
        [0.385] [0.308]
    """
    precision = 1.0 / full_var + weight * (1.0 / var - 1.0 / full_var)
    precision = jnp.maximum(precision, 1e-6 / full_var)  # a posterior wider than its prior, counted many times
    return weight * mean / var / precision, 1.0 / precision


def dense(
    mean: Float[Array, "n"],
    covariance: Float[Array, "n n"],
    reduced_var: Float[Array, "n"] | float = 0.0,
    full_var: Float[Array, "n"] | float = 1.0,
) -> Reduced:
    """A group of weights with a dense posterior q(w) = Normal(m, C) and independent priors.

    With P = C⁻¹, R = diag(reduced_var), Σ = diag(full_var) and A = R (P − Σ⁻¹) + 1:

        reduced covariance = A⁻¹ R      reduced mean = A⁻¹ R P m
        ΔF = ½ ln|Σ| − ½ ln|C| − ½ ln|A| − ½ mᵀ P (m − reduced mean)

    A zero in `reduced_var` removes that weight exactly; the others are kept under their reduced priors.

    **mean** (n,), **covariance** (n, n) of the posterior; **reduced_var** and **full_var** of the priors, numbers or
    (n,).

    Examples:
        >>> covariance = jnp.array([[0.04, 0.03], [0.03, 0.04]])
        >>> found = ox.delta_f.dense(jnp.array([0.1, 0.3]), covariance, reduced_var=jnp.array([0.0, 1.0]))
        >>> print(np.asarray(found.mean[1]).round(3))  # of the second, now that the first is gone
        0.225
    """
    reduced = jnp.broadcast_to(jnp.asarray(reduced_var, mean.dtype), mean.shape)
    full = jnp.broadcast_to(jnp.asarray(full_var, mean.dtype), mean.shape)
    factor = jnp.linalg.cholesky(covariance)
    precision = jax.scipy.linalg.cho_solve((factor, True), jnp.eye(mean.size, dtype=mean.dtype))
    natural_mean = jax.scipy.linalg.cho_solve((factor, True), mean)
    A = reduced[:, None] * (precision - jnp.diag(1.0 / full)) + jnp.eye(mean.size, dtype=mean.dtype)
    new_covariance = jnp.linalg.solve(A, jnp.diag(reduced))
    new_mean = new_covariance @ natural_mean
    sign, log_det = jnp.linalg.slogdet(A)
    log_volume = 0.5 * jnp.sum(jnp.log(full)) - jnp.sum(jnp.log(jnp.diag(factor))) - 0.5 * log_det
    delta_f = log_volume - 0.5 * natural_mean @ (mean - new_mean)
    return Reduced(jnp.where(sign > 0, delta_f, jnp.inf), new_mean, new_covariance)


def grouped(
    mean: Float[Array, "n"],
    var: Float[Array, "n"],
    groups: Int[Array, "n"],
    group_count: int,
    reduced_var: Float[Array, "groups"] | float = 0.0,
    full_var: Float[Array, "n"] | float = 1.0,
) -> Reduced:
    """Groups of independent weights (rows, columns, any index groups) whose members change their prior together.

    `groups` names the group of each weight, −1 for none. `delta_f` has one number a group, the sum over its members;
    the moments have one a weight, unchanged outside the groups. By default each group is removed.

    The sum is the group's ΔF where the *exact* posterior factorises, not where only its approximation does. Weights
    whose inputs go together can stand in for one another: each alone is easily spared, all together are not. 24 equal
    weights of .05, inputs that correlate by .3, 220 examples, unit noise, prior variance ⅛: the sum is +33 nats, the
    exact ΔF −15. `dense` is exact there, if it is given the covariance.

    **mean**, **var** (n,) of the posterior, **groups** (n,) numbers below **group_count**; **reduced_var** a number or
    one a group, **full_var** a number or one a weight.

    Examples:
        >>> groups = jnp.array([0, 0, 1, -1])
        >>> found = ox.delta_f.grouped(jnp.array([0.1, 0.2, 0.9, 0.5]), jnp.full(4, 0.04), groups, group_count=2)
        >>> print(np.asarray(found.delta_f).round(2))
        [ 2.59 -8.52]
    """
    member = groups >= 0
    each_var = jnp.broadcast_to(jnp.asarray(reduced_var, mean.dtype), (group_count,))[groups]
    parts = independent(mean, var, each_var, full_var)
    total = jax.ops.segment_sum(jnp.where(member, parts.delta_f, 0.0), jnp.where(member, groups, 0), group_count)
    return Reduced(total, jnp.where(member, parts.mean, mean), jnp.where(member, parts.var, var))
