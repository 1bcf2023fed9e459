"""Small models that several tests share. Their numbers come from numpy: a random start of jax's compiles a program for
every shape."""

import functools
import inspect
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from occamax.inference.likelihoods import Likelihood
from occamax.inference.model import Model
from occamax.inference.priors import FlatPrior, Prior


def filled(build, *arguments, seed=0, **options):
    """What `build` makes, a module or several, with numbers of numpy's in its floating-point arrays: matrices and
    kernels of deviation 1 / sqrt(inputs), all else of a tenth. A `key` is passed if it asks for one."""
    if "key" in inspect.signature(build).parameters:
        options = {"key": jax.random.key(0), **options}
    shapes = eqx.filter_eval_shape(build, *arguments, **options)
    rng = np.random.default_rng(seed)

    def numbers(leaf):
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return leaf
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            return jax.device_put(np.zeros(leaf.shape, leaf.dtype))
        std = 0.1 if len(leaf.shape) < 2 else np.prod(leaf.shape[1:]) ** -0.5
        return jax.device_put((std * rng.normal(size=leaf.shape)).astype(leaf.dtype))

    return jax.tree.map(numbers, shapes)


def normal(*shape, seed=0):
    """Standard normals of numpy's, in single precision."""
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def like(*shape, dtype=np.float32):
    """The shape and type of one example, for a model to be traced with."""
    return jax.ShapeDtypeStruct(shape, dtype)


class Tiny(eqx.Module):
    """4 → 3 → 2, tanh: small enough to write down by hand."""

    first: eqx.nn.Linear
    second: eqx.nn.Linear

    def __init__(self, sizes=(4, 3, 2), seed=0):
        self.first = filled(eqx.nn.Linear, sizes[0], sizes[1], seed=seed)
        self.second = filled(eqx.nn.Linear, sizes[1], sizes[2], seed=seed + 1)

    def __call__(self, x):
        return self.second(jnp.tanh(self.first(x)))


def tiny_model(prior=None, likelihood=None, sizes=(4, 3, 2), **options):
    """A model of `Tiny`; `FlatPrior` and classes unless said otherwise."""
    return Model(Tiny(sizes), like(sizes[0]), FlatPrior() if prior is None else prior, likelihood, **options)


def log_likelihood(model, latents, mask, inputs, targets):
    """ln p(y | x, w) of each example at one vector of latents."""
    outputs = model.outputs(model.bind(latents, mask), inputs)
    return model.likelihood.log_prob(outputs, targets, model.split(latents)[2])


def everything(model):
    """The mask that keeps all."""
    return jnp.asarray(np.ones(model.layout.size, bool))


@functools.cache
def layout_of(*sizes):
    """The layout of a `Tiny` of these sizes."""
    return tiny_model(sizes=sizes).layout


def tiny_data(n=32, inputs=4, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, inputs)).astype(np.float32)
    return x, (x[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(np.int32) % classes


@dataclass(frozen=True)
class Fixed(Prior):
    """Independent normals of known deviation: conjugate to the linear model."""

    std: float = 1.0

    def scale_gammas(self, layout):
        return np.zeros(0), np.zeros(0)

    def weight_stds(self, layout, log_scales):
        return jnp.full(layout.size, self.std)

    def centers(self, layout):
        return 0.0


@dataclass(frozen=True)
class KnownNoise(Likelihood):
    """Gaussian with a known deviation."""

    std: float = 1.0

    def log_prob(self, outputs, targets, log_scales):
        residual = (targets.reshape(outputs.shape) - outputs) / self.std
        return jnp.sum(-0.5 * residual**2 - jnp.log(self.std) - 0.5 * jnp.log(2 * jnp.pi), axis=-1)

    def expectation(self, outputs):
        return outputs

    def check_targets(self, targets, outputs):
        pass


class Regression(eqx.Module):
    """Linear regression without a bias."""

    layer: eqx.nn.Linear

    def __init__(self, inputs):
        self.layer = filled(eqx.nn.Linear, inputs, 1, use_bias=False)

    def __call__(self, x):
        return self.layer(x)


def conjugate_problem(n=40, inputs=5, noise_std=0.7, prior_std=1.3, seed=0):
    """Correlated inputs, a known prior and a known noise; with the exact posterior and log evidence by closed form."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, inputs)) @ (np.eye(inputs) + 0.3 * rng.normal(size=(inputs, inputs)))
    w = np.where(np.arange(inputs) % 2, 0.0, rng.normal(size=inputs))
    return x, x @ w + noise_std * rng.normal(size=n), noise_std, prior_std


def exact_posterior(x, y, noise_std, prior_vars):
    precision = x.T @ x / noise_std**2 + np.diag(1 / prior_vars)
    covariance = np.linalg.inv(precision)
    return covariance @ x.T @ y / noise_std**2, covariance


def exact_evidence(x, y, noise_std, prior_vars):
    """ln p(y) of the linear model: a Gaussian with covariance noise² + X V Xᵀ. A variance of zero removes a weight."""
    covariance = noise_std**2 * np.eye(len(y)) + x @ np.diag(prior_vars) @ x.T
    return -0.5 * (np.linalg.slogdet(2 * np.pi * covariance)[1] + y @ np.linalg.solve(covariance, y))
