"""The dense Laplace posterior against the exact evidence of a linear regression."""

import jax.numpy as jnp
import numpy as np
import pytest

from occamax.errors import ArgumentError
from occamax.inference.model import Model
from occamax.reduction.laplace import dense_laplace

from ..toys import (
    Fixed,
    KnownNoise,
    Regression,
    conjugate_problem,
    exact_evidence,
    exact_posterior,
    like,
    tiny_data,
    tiny_model,
)


def test_a_linear_regression_has_its_exact_evidence():
    x, y, noise_std, prior_std = conjugate_problem()
    model = Model(Regression(5), like(5), Fixed(prior_std), KnownNoise(noise_std))
    prior = np.full(5, prior_std**2)
    mean, covariance = exact_posterior(x, y, noise_std, prior)
    data = x.astype(np.float32), y.astype(np.float32)
    found = dense_laplace(model, jnp.asarray(mean, jnp.float32), data, batch_size=16)
    assert np.allclose(found.covariance, covariance, rtol=1e-3, atol=1e-5)
    whole = exact_evidence(x, y, noise_std, prior)
    alone = [exact_evidence(x, y, noise_std, np.where(np.arange(5) == i, 0.0, prior)) - whole for i in range(5)]
    assert np.allclose(found.delta_f(), alone, atol=0.02)
    keep = np.array([True, False, True, False, True])
    reduced = found.without(jnp.asarray(keep))
    assert np.isclose(reduced.delta_f, exact_evidence(x, y, noise_std, prior * keep) - whole, atol=0.02)
    left, _ = exact_posterior(x[:, keep], y, noise_std, prior[keep])
    assert np.allclose(reduced.mean, np.where(keep, np.insert(left, [1, 2], 0.0), 0.0), atol=1e-3)


def test_the_last_layer_alone():
    model, (inputs, targets) = tiny_model(), tiny_data(10)
    found = dense_laplace(model, model.layout.pack(model.network), (inputs, targets))
    assert np.array_equal(found.places, np.arange(15, 23))
    assert np.all(np.linalg.eigvalsh(found.covariance) > 0)
    assert np.all(np.diag(found.covariance) <= found.prior_var + 1e-6)  # data never make it wider
    with pytest.raises(ArgumentError, match="layers: 'third'"):
        dense_laplace(model, jnp.zeros(23), (inputs, targets), layers=["third"])
