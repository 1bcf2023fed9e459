"""The posterior predictive, draw by draw."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax.evaluation import Believed, predict, score
from occamax.inference.likelihoods import Gaussian
from occamax.inference.posteriors import IndependentNormals, Point

from ..tolerances import SINGLE
from ..toys import normal, tiny_data, tiny_model

KEY = jax.random.key(0)
X, Y = map(jnp.asarray, tiny_data())


@functools.cache
def believed(likelihood=None):
    model = tiny_model(likelihood=likelihood)
    posterior = IndependentNormals.around(normal(model.latent_count), 0.5)
    return model, Believed(posterior, jnp.arange(model.layout.size) % 4 != 0)


@functools.cache
def asked(chunk=1000, likelihood=None):
    """A compiled predictive: of what is believed, the targets and how many draws."""
    model, _ = believed(likelihood)
    return jax.jit(lambda belief, targets, num_samples: predict(model, belief, KEY, X, targets, num_samples, chunk))


def softmax(logits):
    exponentials = np.exp(np.asarray(logits, np.float64))
    return exponentials / exponentials.sum(-1, keepdims=True)


def test_the_predictive_is_the_average_over_draws():
    model, belief = believed()
    found = asked()(belief, Y, 7)
    outputs = jax.jit(lambda key: model.outputs(model.bind(belief.posterior.draw(key), belief.mask), X))
    each = [softmax(outputs(jax.random.fold_in(KEY, i))) for i in range(7)]
    mean = np.mean(each, axis=0)
    assert np.allclose(found.expectation, mean, atol=SINGLE)
    assert np.allclose(found.log_likelihood, np.log(mean[np.arange(len(Y)), Y]), atol=SINGLE)
    entropies = [-(p * np.log(p)).sum(1) for p in each]
    assert np.allclose(found.expected_entropy, np.mean(entropies, axis=0), atol=SINGLE)


@pytest.mark.parametrize("chunk", [10, 16])  # with and without a rest
def test_chunks_change_nothing(chunk):
    belief = believed()[1]
    whole, parts = (asked(size)(belief, Y, 3) for size in (1000, chunk))
    assert np.allclose(whole.expectation, parts.expectation, atol=SINGLE)
    assert np.allclose(whole.log_likelihood, parts.log_likelihood, atol=SINGLE)


def test_a_point_takes_one_draw():
    model, belief = believed()
    belief = belief._replace(posterior=Point(belief.posterior.mean))
    found = asked()(belief, Y, 50)
    expected = softmax(jax.jit(lambda: model.outputs(model.bind(belief.posterior.value, belief.mask), X))())
    assert np.allclose(found.expectation, expected, atol=SINGLE)


def test_without_targets_there_is_no_likelihood():
    model, belief = believed()
    found = jax.jit(lambda: predict(model, belief, KEY, X, num_samples=3))()
    assert np.allclose(found.expectation, asked()(belief, Y, 3).expectation, atol=SINGLE)
    assert np.isnan(found.log_likelihood).all()


def test_scores_of_classes_and_of_numbers():
    model, belief = believed()
    found = jax.device_get(asked()(belief, Y, 5))
    figures = score(model, found, np.asarray(Y))
    assert set(figures) == {"nll", "accuracy", "ece", "brier", "confidence"}
    assert np.isclose(figures["confidence"], np.mean([max(row) for row in found.expectation]))
    assert np.isclose(figures["nll"], -found.log_likelihood.mean())
    model, belief = believed(Gaussian())
    targets = np.asarray(X[:, :2])
    found = jax.device_get(asked(likelihood=Gaussian())(belief, jnp.asarray(targets), 5))
    figures = score(model, found, targets)
    assert set(figures) == {"nll", "rmse"}
    assert np.isclose(figures["rmse"], np.sqrt(np.mean((found.expectation - targets) ** 2)))
