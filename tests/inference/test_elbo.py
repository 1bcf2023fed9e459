"""The objective against NumPyro (same parameters, same draws, same number) and against a conjugate model."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from jax import lax
from numpyro.infer.util import log_density

from occamax.inference.likelihoods import Bernoulli, Categorical, Gaussian
from occamax.inference.model import Model
from occamax.inference.optimizers import AdaBelief, NaturalGradient
from occamax.inference.posteriors import IndependentNormals, Point
from occamax.inference.priors import FlatPrior, HorseshoePrior
from occamax.inference.schedules import Cosine
from occamax.inference.training import objective

from ..tolerances import SINGLE, STANDARD_ERRORS
from ..toys import (
    Fixed,
    KnownNoise,
    Regression,
    conjugate_problem,
    everything,
    exact_posterior,
    like,
    log_likelihood,
    normal,
    tiny_data,
    tiny_model,
)


def tiny_arrays():
    return tuple(map(jnp.asarray, tiny_data()))


def network_logits(first, second, x):
    """Tiny, written again: matrices with the bias as their last column."""
    hidden = jnp.tanh(x @ first[:, :-1].T + first[:, -1])
    return hidden @ second[:, :-1].T + second[:, -1]


def flat_model(x, y):
    precision = numpyro.sample("scales", dist.Gamma(2.0, 2.0).expand([2]).to_event(1))
    first = numpyro.sample("first", dist.Normal(0, 1).expand([3, 5]).to_event(2))
    second = numpyro.sample("second", dist.Normal(0, 1).expand([2, 4]).to_event(2))
    scale = 1 / jnp.sqrt(precision)
    numpyro.sample("y", dist.Categorical(logits=network_logits(0.1 * scale[0] * first, scale[1] * second, x)), obs=y)


def tiered_model(x, y):
    """c^-2 of the hidden layer, then â and b̂ of both layers, then a and b of the hidden layer's three rows."""
    slab = numpyro.sample("slab", dist.Gamma(2.0, 6.0).expand([1]).to_event(1))
    halves = numpyro.sample("halves", dist.Gamma(0.5, 1.0).expand([10]).to_event(1))
    first = numpyro.sample("first", dist.Normal(0, 1).expand([3, 5]).to_event(2))
    second = numpyro.sample("second", dist.Normal(0, 1).expand([2, 4]).to_event(2))
    a, b, row_a, row_b = halves[:2], halves[2:4], halves[4:7], halves[7:]
    c_sqr, v_sqr, tau_sqr = 1 / slab[0], 0.01**2 * a[0] / b[0], row_a / row_b
    gamma = jnp.sqrt(c_sqr * v_sqr * tau_sqr / (c_sqr + v_sqr * tau_sqr))
    logits = network_logits(gamma[:, None] * first, jnp.sqrt(a[1] / b[1]) * second, x)
    numpyro.sample("y", dist.Categorical(logits=logits), obs=y)


def sites(model, latents, names):
    """Our vector of latents as NumPyro's sites."""
    unit, log_scales, _ = model.split(latents)
    first, second = model.layout.matrices(unit)
    scales = jnp.exp(log_scales)
    values = {"scales": scales, "slab": scales[:1], "halves": scales[1:], "first": first, "second": second}
    return {name: values[name] for name in names}


ORACLES = [
    (FlatPrior(), flat_model, ("scales", "first", "second")),
    (HorseshoePrior(), tiered_model, ("slab", "halves", "first", "second")),
]


@pytest.mark.parametrize(("prior", "oracle", "names"), ORACLES, ids=["flat", "tiered"])
def test_the_joint_density_is_numpyros(prior, oracle, names, key):
    """A point mass costs −ln p(latents); with the likelihood at that point it is NumPyro's joint density."""
    model, (x, y) = tiny_model(prior), tiny_arrays()
    latents = normal(model.latent_count)

    @jax.jit
    def both(latents):
        ours = objective(Point(latents), model, everything(model), (x, y), key, len(x))
        return ours, log_density(oracle, (x, y), {}, sites(model, latents, names))[0]

    (loss, (info, _)), expected = both(latents)
    assert np.isclose(info.neg_elbo, -expected, rtol=SINGLE)
    assert np.isclose(loss, -expected / len(x), rtol=SINGLE)


@pytest.mark.parametrize(("prior", "oracle", "names"), ORACLES, ids=["flat", "tiered"])
def test_the_elbo_is_numpyros(prior, oracle, names, key):
    """Over many common draws, NumPyro's ln q − ln p(D, z) averages to our likelihood at the draw plus closed forms."""
    model, (x, y) = tiny_model(prior), tiny_arrays()
    mean = 0.5 * normal(model.latent_count)
    posterior = IndependentNormals(mean, 0.3 * normal(model.latent_count, seed=1) - 1.5)
    mask = everything(model)
    gammas = model.latent_prior

    def both(k):
        latents = posterior.draw(k)
        nll = -jnp.sum(log_likelihood(model, latents, mask, x, y))
        normal = dist.Normal(posterior.mean, posterior.std).log_prob(latents)
        log_q = jnp.sum(normal) - jnp.sum(latents[model.layout.size :])  # of the scales themselves
        log_p, _ = log_density(oracle, (x, y), {}, sites(model, latents, names))
        return nll + posterior.divergence(gammas, mask), log_q - log_p

    ours, theirs = jax.jit(lambda keys: lax.map(both, keys, batch_size=1000))(jax.random.split(key, 20000))
    difference = np.asarray(ours - theirs, np.float64)
    assert abs(difference.mean()) < STANDARD_ERRORS * difference.std() / np.sqrt(len(difference))
    assert abs(float(ours.mean())) > 10 * difference.std() / np.sqrt(len(difference))  # so the test can see a mistake


def test_likelihoods_are_numpyros():
    outputs, numbers = normal(6, 3), normal(6, 3, seed=2)
    labels, bits = jnp.array([0, 2, 1, 1, 0, 2]), (normal(6, 3, seed=1) > 0).astype(jnp.int32)
    none, log_precision = jnp.zeros(0), jnp.array([0.7])

    @jax.jit
    def pairs():
        noise = dist.Normal(outputs, jnp.exp(-0.5 * log_precision)).to_event(1)
        return (
            (Categorical().log_prob(outputs, labels, none), dist.Categorical(logits=outputs).log_prob(labels)),
            (Bernoulli().log_prob(outputs, bits, none), dist.Bernoulli(logits=outputs).to_event(1).log_prob(bits)),
            (Gaussian().log_prob(outputs, numbers, log_precision), noise.log_prob(numbers)),
        )

    for ours, theirs in pairs():
        assert ours.shape == (6,)
        assert np.allclose(ours, theirs, atol=SINGLE)


def conjugate_model():
    x, y, noise, prior_std = conjugate_problem()
    model = Model(Regression(x.shape[1]), like(x.shape[1]), Fixed(prior_std), KnownNoise(noise))
    mean, covariance = exact_posterior(x, y, noise, np.full(x.shape[1], prior_std**2))
    # the mean-field optimum: the exact means, and the reciprocals of the precision's diagonal; in units of ŵ
    optimum = mean / prior_std, 1 / np.sqrt(np.diag(np.linalg.inv(covariance))) / prior_std
    return model, (jnp.asarray(x, jnp.float32), jnp.asarray(y[:, None], jnp.float32)), optimum


def test_the_gradient_vanishes_at_the_exact_optimum(key):
    model, data, (mean, std) = conjugate_model()
    mask = everything(model)
    log_std = jnp.asarray(np.log(std), jnp.float32)

    slope = jax.grad(objective, has_aux=True)
    each_slope = jax.jit(jax.vmap(lambda p, k: slope(p, model, mask, data, k, len(data[0]))[0], in_axes=(None, 0)))

    def gradients(mean):
        found = each_slope(IndependentNormals(jnp.asarray(mean, jnp.float32), log_std), jax.random.split(key, 4000))
        each = np.concatenate([np.asarray(found.mean), np.asarray(found.log_std)], axis=1)
        return each.mean(0), each.std(0) / np.sqrt(len(each))

    average, error = gradients(mean)
    assert np.all(np.abs(average) < STANDARD_ERRORS * error)
    average, error = gradients(mean + 0.2)
    assert np.any(np.abs(average) > 2 * STANDARD_ERRORS * error)


@pytest.mark.parametrize(
    ("optimizer", "rate"), [(AdaBelief(), Cosine(0.02)), (NaturalGradient(log_std_rate=0.002), Cosine(0.1))]
)
def test_training_reaches_the_exact_optimum(key, optimizer, rate):
    model, data, (mean, std) = conjugate_model()
    mask = everything(model)
    optimizer = optimizer(rate, 4000)
    posterior = IndependentNormals.around(jnp.zeros(5), 0.5)

    def step(carry, k):
        posterior, state = carry
        gradient, _ = jax.grad(objective, has_aux=True)(posterior, model, mask, data, k, len(data[0]))
        updates, state = optimizer.update(gradient, state, posterior, temper=1 / len(data[0]))
        return (optax.apply_updates(posterior, updates), state), None

    train = jax.jit(lambda p: lax.scan(step, (p, optimizer.init(p)), jax.random.split(key, 4000))[0][0])
    found = train(posterior)
    assert np.allclose(found.mean, mean, atol=0.02)
    assert np.allclose(found.std, std, rtol=0.05)


def test_a_removed_weight_costs_nothing():
    """Trap 3: the divergence of what is gone must not stay in the evidence."""
    model = tiny_model()
    posterior = IndependentNormals.around(normal(model.latent_count), 0.1)
    mask = jnp.arange(model.layout.size) % 2 == 0
    divergence = jax.jit(lambda mask: posterior.divergence(model.latent_prior, mask))
    all_kept, half = divergence(everything(model)), divergence(mask)
    mean, std = (np.asarray(part, np.float64)[: model.layout.size] for part in (posterior.mean, posterior.std))
    gone = np.where(mask, 0.0, 0.5 * (mean**2 + std**2 - 1) - np.log(std)).sum()
    assert np.isclose(all_kept - half, gone, rtol=SINGLE)
    assert gone > 1.0
