"""Guides of NumPyro against the exact evidence of a linear regression, with and without each weight."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.autoguide import (
    AutoDiagonalNormal,
    AutoLaplaceApproximation,
    AutoLowRankMultivariateNormal,
    AutoMultivariateNormal,
    AutoNormal,
)
from numpyro.infer.util import log_density

import occamax as ox

from ..toys import exact_evidence, exact_posterior

NOISE, STDS = 0.5, np.array([2.0, 2.0, 2.0, 2.0, 0.7])  # of four weights and a bias
CLOSE = 2e-3  # nats, of some hundred, in single precision


def model(x, y=None):
    bias = numpyro.sample("bias", dist.Normal(0.0, 0.7))
    with numpyro.plate("inputs", 4):
        weights = numpyro.sample("weights", dist.Normal(0.0, 2.0))
    numpyro.sample("y", dist.Normal(x[:, :4] @ weights + x[:, 4] * bias, NOISE), obs=y)


def problem(is_orthogonal):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 5)) @ (np.eye(5) + 0.4 * rng.normal(size=(5, 5)))
    x = np.linalg.qr(x)[0] * 5 if is_orthogonal else x
    return x, x @ np.array([1.0, 0.0, -0.4, 0.05, 0.1]) + NOISE * rng.normal(size=40)


def exact_gains(x, y):
    """ln p(y) without each weight, less that with all."""
    every = [exact_evidence(x, y, NOISE, np.where(np.arange(5) == i, 0.0, STDS**2)) for i in range(5)]
    return np.array(every) - exact_evidence(x, y, NOISE, STDS**2)


def reduced(kind, x, y):
    """The reduction of a guide that has found the exact posterior (`bias` before `weights`, as NumPyro has them)."""
    guide = kind(model)
    numpyro.handlers.seed(guide, jax.random.key(0))(jnp.asarray(x), jnp.asarray(y))  # it learns what its sites are
    mean, covariance = exact_posterior(x, y, NOISE, STDS**2)
    order = [4, 0, 1, 2, 3]
    mean, covariance = mean[order].astype(np.float32), covariance[order][:, order].astype(np.float32)
    std = np.sqrt(np.diag(covariance))
    params = {
        "auto_loc": jnp.asarray(mean),
        "auto_scale": jnp.asarray(std),
        "auto_scale_tril": jnp.asarray(np.linalg.cholesky(covariance)),
        "bias_auto_loc": jnp.asarray(mean[0]),
        "bias_auto_scale": jnp.asarray(std[0]),
        "weights_auto_loc": jnp.asarray(mean[1:]),
        "weights_auto_scale": jnp.asarray(std[1:]),
    }
    return ox.numpyro.reduce_guide(model, guide, params, jnp.asarray(x), jnp.asarray(y))


@pytest.mark.parametrize(
    ("kind", "is_orthogonal"),
    [
        (AutoNormal, True),
        (AutoDiagonalNormal, True),
        (AutoMultivariateNormal, False),
        (AutoLaplaceApproximation, False),
    ],
)
def test_the_evidence_of_every_site_is_exact(kind, is_orthogonal):
    """Independent guides where the inputs are orthogonal, dense ones everywhere."""
    x, y = problem(is_orthogonal)
    found, exact = reduced(kind, x, y), exact_gains(x, y)
    assert list(found) == ["bias", "weights"]
    assert np.allclose(found["weights"].delta_f, exact[:4], atol=CLOSE)
    assert np.allclose(found["bias"].delta_f, exact[4], atol=CLOSE)
    assert np.isclose(found["bias"].prior_std, 0.7)
    masks = {"weights": [True, False, True, False], "bias": False}
    gone = exact_evidence(x, y, NOISE, STDS**2 * [1, 0, 1, 0, 0]) - exact_evidence(x, y, NOISE, STDS**2)
    assert np.isclose(found.joint_delta_f(masks), gone, atol=CLOSE)


def test_numpyro_goes_on_with_the_reduced_model():
    """Its joint density at the exact reduced mode, with the volume around it, is the reduced evidence; what is gone has
    its prior, which costs nothing."""
    x, y = problem(False)
    found = reduced(AutoMultivariateNormal, x, y)
    masks = {"weights": np.array([True, False, True, False])}
    smaller = found.model(masks=masks)
    kept = np.array([1, 0, 1, 0, 1])
    mean, covariance = exact_posterior(x * kept, y, NOISE, STDS**2)
    values = {"weights": jnp.asarray(mean[:4]), "bias": jnp.asarray(mean[4])}
    at_mode = log_density(smaller, (jnp.asarray(x), jnp.asarray(y)), {}, values)[0]
    evidence = at_mode + 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    assert np.isclose(evidence, exact_evidence(x, y, NOISE, STDS**2 * kept), atol=CLOSE)
    moved = {**values, "weights": values["weights"].at[1].set(3.0)}  # used nowhere: only its prior changes
    change = log_density(smaller, (jnp.asarray(x), jnp.asarray(y)), {}, moved)[0] - at_mode
    assert np.isclose(change, -0.5 * 9.0 / 4.0, atol=CLOSE)
    by_evidence = found.masks(threshold=0.0)
    assert np.array_equal(by_evidence["weights"], found["weights"].delta_f <= 0)
    assert 0 < by_evidence["weights"].sum() < 4


def test_what_cannot_be_reduced_is_refused_by_name():
    x, y = map(jnp.asarray, problem(True))

    def scaled(x, y=None):
        scale = numpyro.sample("tau", dist.HalfCauchy(1.0))
        numpyro.sample("y", dist.Normal(x[:, 0] * scale, NOISE), obs=y)

    def shifted(x, y=None):
        numpyro.sample("y", dist.Normal(x[:, 0] * numpyro.sample("w", dist.Normal(1.0, 1.0)), NOISE), obs=y)

    with pytest.raises(ox.ArgumentError, match="site 'tau' is HalfCauchy"):
        ox.numpyro.reduce_guide(scaled, AutoNormal(scaled), {}, x, y)
    with pytest.raises(ox.ArgumentError, match="site 'w' is a Normal around another number"):
        ox.numpyro.reduce_guide(shifted, AutoNormal(shifted), {}, x, y)
    with pytest.raises(ox.ArgumentError, match="guide: AutoLowRankMultivariateNormal given"):
        ox.numpyro.reduce_guide(model, AutoLowRankMultivariateNormal(model), {}, x, y)
    with pytest.raises(ox.ArgumentError, match="params: 'bias_auto_loc'"):
        ox.numpyro.reduce_guide(model, AutoNormal(model), {}, x, y)
    found = reduced(AutoNormal, *problem(True))
    with pytest.raises(ox.ArgumentError, match="masks: 'w' is no latent site; they are bias, weights"):
        found.model(masks={"w": True})
    with pytest.raises(ox.ArgumentError, match=r"masks: 'weights' has shape \(3,\)"):
        found.joint_delta_f({"weights": [True] * 3})
