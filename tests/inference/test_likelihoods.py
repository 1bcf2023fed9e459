"""Baselines: what the best constant prediction pays, found by minimising; densities in the unit of the targets."""

import jax.numpy as jnp
import numpy as np
from scipy import optimize, stats

from occamax.inference.likelihoods import Bernoulli, Categorical, Gaussian

from ..tolerances import QUADRATURE, SINGLE


def test_baselines_are_the_best_constants():
    rng = np.random.default_rng(0)
    classes = rng.choice(4, 200, p=[0.5, 0.3, 0.2, 0.0])

    def constant(logits):
        return -np.mean((logits - np.log(np.exp(logits).sum()))[classes])

    best = optimize.minimize(constant, np.zeros(4)).fun
    assert np.isclose(Categorical().baseline(classes), best, atol=1e-4)

    answers = (rng.random((200, 2)) < [0.1, 0.6]).astype(int)
    entropies = sum(stats.bernoulli(share).entropy() for share in answers.mean(0))
    assert np.isclose(Bernoulli().baseline(answers), entropies, atol=QUADRATURE)

    numbers = rng.normal(3.0, 2.0, (200, 1))
    fitted = stats.norm(numbers.mean(), numbers.std())
    assert np.isclose(Gaussian().baseline(numbers), -fitted.logpdf(numbers).mean(), atol=QUADRATURE)


def test_a_gaussian_is_of_the_targets_as_they_are_given():
    """Whatever the unit that the network works in: scipy's density around centre + scale · output."""
    rng = np.random.default_rng(1)
    outputs, targets = rng.normal(size=(2, 6, 2)).astype(np.float32)
    center, scale, log_precision = np.array([3.0, -1.0]), np.array([2.0, 0.1]), 0.7
    likelihood = Gaussian(center=tuple(center.tolist()), scale=tuple(scale.tolist()))
    found = likelihood.log_prob(jnp.asarray(outputs), jnp.asarray(targets), jnp.array([log_precision]))
    around = stats.norm(center + scale * outputs, scale * np.exp(-0.5 * log_precision))
    assert np.allclose(found, around.logpdf(targets).sum(1), rtol=10 * SINGLE)
    assert np.allclose(likelihood.expectation(jnp.asarray(outputs)), center + scale * outputs, rtol=SINGLE)
