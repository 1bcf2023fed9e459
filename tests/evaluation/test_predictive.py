import jax
import jax.numpy as jnp
import numpy as np

from occamax.evaluation import predict, score
from occamax.inference.likelihoods import Gaussian
from occamax.inference.model import Model
from occamax.inference.posteriors import IndependentNormals, Point
from occamax.inference.priors import FlatPrior

from ..tolerances import SINGLE
from ..toys import Tiny, tiny_data


def model_and_posterior(key, **options):
    model = Model(Tiny(), FlatPrior(), **options)
    posterior = IndependentNormals.around(jax.random.normal(key, (model.latent_count,)), 0.5)
    return model, posterior, jnp.arange(model.layout.size) % 4 != 0


def test_the_predictive_is_the_average_over_draws(key):
    model, posterior, mask = model_and_posterior(key)
    x, y = map(jnp.asarray, tiny_data())
    found = predict(model, posterior, mask, key, x, y, samples=7)
    each = []
    for k in jax.random.split(key, 7):
        each.append(jax.nn.softmax(model.outputs(model.bind(posterior.draw(k), mask), x)))
    mean = np.mean(each, axis=0)
    assert np.allclose(found.expectation, mean, atol=SINGLE)
    assert np.allclose(found.log_likelihood, np.log(mean[np.arange(len(y)), y]), atol=SINGLE)
    entropies = [-(p * np.log(p)).sum(1) for p in map(np.asarray, each)]
    assert np.allclose(found.expected_entropy, np.mean(entropies, axis=0), atol=SINGLE)


def test_chunks_change_nothing(key):
    model, posterior, mask = model_and_posterior(key)
    x, y = map(jnp.asarray, tiny_data(n=37))
    whole, parts = (predict(model, posterior, mask, key, x, y, 3, chunk) for chunk in (1000, 10))
    assert np.allclose(whole.expectation, parts.expectation, atol=SINGLE)


def test_a_point_mass_takes_one_draw(key):
    model, posterior, mask = model_and_posterior(key)
    x, y = map(jnp.asarray, tiny_data())
    found = predict(model, Point(posterior.mean), mask, key, x, y, samples=50)
    expected = jax.nn.softmax(model.outputs(model.bind(posterior.mean, mask), x))
    assert np.allclose(found.expectation, expected, atol=SINGLE)


def test_scores_of_classes_and_of_numbers(key):
    model, posterior, mask = model_and_posterior(key)
    x, y = tiny_data()
    found = predict(model, posterior, mask, key, jnp.asarray(x), jnp.asarray(y), 5)
    figures = score(model, found, y)
    assert set(figures) == {"nll", "accuracy", "ece", "brier", "confidence"}
    assert np.isclose(figures["confidence"], np.mean([max(row) for row in np.asarray(found.expectation)]))
    model, posterior, mask = model_and_posterior(key, likelihood=Gaussian())
    targets = np.stack([x[:, 0], x[:, 1]], axis=1)
    found = predict(model, posterior, mask, key, jnp.asarray(x), jnp.asarray(targets), 5)
    figures = score(model, found, targets)
    assert set(figures) == {"nll", "rmse"}
    assert np.isclose(figures["rmse"], np.sqrt(np.mean((np.asarray(found.expectation) - targets) ** 2)))
