"""How the expected log-likelihood is estimated from one draw of the weights a step.

All are unbiased for networks that use each linear layer once per example, and differ in cost and variance. Linear
layers are treated; convolutions, embeddings and normalisations always share one draw over the batch.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray


class Estimator(ABC):
    """Base of all estimators: what one example's network is, given a draw of the weights and their moments."""

    is_local: bool = True  # each example has a network of its own

    @abstractmethod
    def layer(self, sample: eqx.nn.Linear, mean: eqx.nn.Linear, std: eqx.nn.Linear, key: PRNGKeyArray) -> Any:
        """The linear layer that one example sees."""

    def network(self, sample: Any, mean: Any, std: Any, key: PRNGKeyArray) -> Any:
        """The network that one example sees: its linear layers replaced."""
        count = len([leaf for leaf in jax.tree.leaves(sample, is_leaf=_is_linear) if _is_linear(leaf)])
        keys = iter(jax.random.split(key, max(count, 1)))

        def replace(one: Any, two: Any, three: Any) -> Any:
            return self.layer(one, two, three, next(keys)) if _is_linear(one) else one

        return jax.tree.map(replace, sample, mean, std, is_leaf=_is_linear)


@dataclass(frozen=True)
class SharedDraw(Estimator):
    """One draw for the whole batch: the paper's.

    Examples:
        >>> ox.BMR().estimator
        SharedDraw()
    """

    is_local = False

    def layer(self, sample, mean, std, key):
        return sample


@dataclass(frozen=True)
class Flipout(Estimator):
    """The draw's deviation from the mean, with signs of its own for each example (Wen et al. 2018). Twice the products
    of a shared draw. Unbiased also where a layer is used several times per example, as over tokens.

    Examples:
        >>> ox.BMR(estimator=ox.Flipout()).estimator.is_local  # examples of a batch see different weights
        True
    """

    def layer(self, sample, mean, std, key):
        return FlippedLinear(
            sample, mean, *(jax.random.rademacher(k, (n,), mean.weight.dtype) for k, n in _sizes(key, mean))
        )


@dataclass(frozen=True)
class LocalReparameterisation(Estimator):
    """The layer's output is drawn instead of its weights (Kingma et al. 2015): a Gaussian of mean M x, variance S² x².
    Twice the products, the lowest variance. Where a layer is used several times per example its uses share their noise,
    which has the right marginal distribution but not the right joint one.

    Examples:
        >>> ox.BMR(estimator=ox.LocalReparameterisation()).estimator.is_local
        True
    """

    def layer(self, sample, mean, std, key):
        return LocalLinear(mean, std, jax.random.normal(key, (mean.weight.shape[0],), mean.weight.dtype))


class FlippedLinear(eqx.Module):
    sample: eqx.nn.Linear
    mean: eqx.nn.Linear
    input_signs: Float[Array, "inputs"]
    output_signs: Float[Array, "outputs"]

    def __call__(self, x: Float[Array, "inputs"], *, key: PRNGKeyArray | None = None) -> Float[Array, "outputs"]:
        deviation = (self.sample.weight - self.mean.weight) @ (self.input_signs * x)
        if self.mean.bias is not None and self.sample.bias is not None:
            deviation = deviation + (self.sample.bias - self.mean.bias)
        return self.mean(x) + self.output_signs * deviation


class LocalLinear(eqx.Module):
    mean: eqx.nn.Linear
    std: eqx.nn.Linear
    noise: Float[Array, "outputs"]

    def __call__(self, x: Float[Array, "inputs"], *, key: PRNGKeyArray | None = None) -> Float[Array, "outputs"]:
        variance = self.std.weight**2 @ x**2
        if self.std.bias is not None:
            variance = variance + self.std.bias**2
        return self.mean(x) + self.noise * jnp.sqrt(variance + TINY)


TINY = 1e-12  # variance of a unit whose weights are all removed is zero, where the square root has no derivative


def _is_linear(node: Any) -> bool:
    return isinstance(node, eqx.nn.Linear)


def _sizes(key: PRNGKeyArray, layer: eqx.nn.Linear) -> list[tuple[PRNGKeyArray, int]]:
    first, second = jax.random.split(key)
    return [(first, layer.weight.shape[1]), (second, layer.weight.shape[0])]
