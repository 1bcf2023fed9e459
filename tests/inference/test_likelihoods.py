"""Baselines: what the best constant prediction pays, found by minimising."""

import numpy as np
from scipy import optimize, stats

from occamax.inference.likelihoods import Bernoulli, Categorical, Gaussian

from ..tolerances import QUADRATURE


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
