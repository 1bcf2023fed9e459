"""The posterior predictive, draw by draw."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax import networks
from occamax.evaluation import Believed, predict, score
from occamax.inference.likelihoods import Gaussian
from occamax.inference.model import Model
from occamax.inference.posteriors import IndependentNormals, Point
from occamax.inference.priors import FlatPrior

from ..experiment.small_runs import normed, pixels
from ..tolerances import SINGLE
from ..toys import everything, filled, like, normal, tiny_data, tiny_model

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


def test_dropout_is_off():
    """However much of it there is: what is predicted is what the network says in inference mode."""
    network = filled(networks.MLP, (4,), 2, (6,), dropout=0.9)
    model = Model(network, like(4), FlatPrior())
    point = Point(normal(model.latent_count))
    found = jax.jit(lambda: predict(model, Believed(point, everything(model)), KEY, X, Y))()
    still = eqx.nn.inference_mode(model.bind(point.value, everything(model)))
    assert np.allclose(found.expectation, softmax(jax.vmap(still)(X)), atol=SINGLE)


def test_buffers_are_those_of_the_state():
    """What BatchNorm learnt of the data, not what it began with."""
    network, state = normed()
    model = Model((network, state), like(1, 6, 6), FlatPrior())
    x = jnp.asarray(pixels(5)[0], jnp.float32)
    learnt = tuple(5.0 + leaf if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf for leaf in model.buffers)
    mask, latents = everything(model), normal(model.latent_count)
    found = jax.jit(lambda: predict(model, Believed(Point(latents), mask, learnt), KEY, x))()
    bound = eqx.nn.inference_mode(model.bind(latents, mask))
    later = jax.tree.unflatten(jax.tree.structure(state), learnt)
    one, other = (softmax(jax.vmap(lambda x, s=s: bound(x, s)[0], axis_name="batch")(x)) for s in (later, state))
    assert np.allclose(found.expectation, one, atol=SINGLE)
    assert not np.allclose(one, other, atol=0.01)


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
