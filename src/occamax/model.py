"""A Bayesian network: a deterministic network, where its random weights stand, what is believed of them, and how data
arise from what it puts out."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .errors import ArgumentError
from .estimators import Estimator
from .layout import Layout
from .likelihoods import Categorical, Likelihood
from .posteriors import LatentPrior, Posterior
from .priors import Prior


class Portion(NamedTuple):
    """Some examples of a batch: the number of the first, and how many the whole batch has."""

    start: Int[Array, ""]
    total: int


class Model(eqx.Module):
    """The joint distribution of weights, scales and data. Pure: no method changes anything.

    **network** holds the deterministic part; its random weights are only a template of shapes.
    **preprocess** turns one raw example (say, bytes) into what the network takes.
    **compute_type** is the type of activations and products; bfloat16 is mixed precision. Latents, posterior and
    likelihood stay in float32.
    **multiple** The vector of latents is as long as the next multiple of it, so that devices can share it in equal
    parts; what is over at its end stands for nothing.
    """

    network: Any
    layout: Layout = eqx.field(static=True)
    prior: Prior = eqx.field(static=True)
    likelihood: Likelihood = eqx.field(static=True)
    preprocess: Callable[[Array], Array] = eqx.field(static=True)
    compute_type: Any = eqx.field(static=True)
    multiple: int = eqx.field(static=True)

    def __init__(
        self,
        network: Any,
        prior: Prior,
        likelihood: Likelihood | None = None,
        select: Callable[[Any], Any] | None = None,
        preprocess: Callable[[Array], Array] = jnp.asarray,
        compute_type: Any = jnp.float32,
        multiple: int = 1,
    ):
        self.network = network
        self.layout = Layout.of(network, select)
        self.prior = prior
        self.likelihood = Categorical() if likelihood is None else likelihood
        self.preprocess = preprocess
        self.compute_type = jnp.dtype(compute_type)
        self.multiple = multiple

    @property
    def latent_prior(self) -> LatentPrior:
        pairs = zip(self.prior.scale_gammas(self.layout), self.likelihood.scale_gammas(), strict=True)
        return LatentPrior(*(jnp.asarray(np.concatenate(pair), jnp.float32) for pair in pairs))

    @property
    def latents_used(self) -> int:
        return self.layout.size + self.latent_prior.shape.size

    @property
    def latent_count(self) -> int:
        """How long the vector is: those used, and what fills it up to the next multiple."""
        return -(-self.latents_used // self.multiple) * self.multiple

    def split(self, latents: Float[Array, "latents"]) -> list[Array]:
        """ŵ of every weight, the prior's log-scales, the likelihood's log-scales."""
        first = self.layout.size
        last = first + self.prior.scale_gammas(self.layout)[0].size
        end = last + self.likelihood.scale_gammas()[0].size
        return [latents[:first], latents[first:last], latents[last:end]]

    def weights(self, latents: Float[Array, "latents"], mask: Bool[Array, "weights"]) -> Float[Array, "weights"]:
        unit, log_scales, _ = self.split(latents)
        return self.prior.weights(self.layout, jnp.where(mask, unit, 0.0), log_scales)

    def bind(self, latents: Float[Array, "latents"], mask: Bool[Array, "weights"]) -> Any:
        """The network with its weights made from the latents; removed ones take their prior centre."""
        return self.layout.bind(self.network, self.weights(latents, mask))

    def outputs(
        self, network: Any, inputs: Array, key: PRNGKeyArray | None = None, portion: Portion | None = None
    ) -> Float[Array, "batch *out"]:
        """What a bound network puts out for a batch of raw examples. With a key its dropout is on."""
        if key is None:
            network = eqx.nn.inference_mode(network)
            return jax.vmap(lambda x: self._apply(network, x, None))(inputs)
        return jax.vmap(lambda x, k: self._apply(network, x, k))(inputs, _keys(key, len(inputs), portion))

    def _apply(self, network: Any, example: Array, key: PRNGKeyArray | None) -> Float[Array, "*out"]:
        """One raw example through a bound network, in the type of computation."""
        network, x = self._cast(network), self._cast(self.preprocess(example))
        outputs = network(x) if key is None or not takes_key(network) else network(x, key=key)
        return outputs.astype(jnp.float32)

    def _cast(self, tree: Any) -> Any:
        """Every floating-point array in the type of computation."""
        if self.compute_type == jnp.float32:
            return tree
        return jax.tree.map(lambda leaf: leaf.astype(self.compute_type) if eqx.is_inexact_array(leaf) else leaf, tree)

    def log_likelihood(
        self, latents: Float[Array, "latents"], mask: Bool[Array, "weights"], inputs: Array, targets: Array, key=None,
        portion: Portion | None = None,
    ) -> Float[Array, "batch"]:  # fmt: skip
        outputs = self.outputs(self.bind(latents, mask), inputs, key, portion)
        return self.likelihood.log_prob(outputs, targets, self.split(latents)[2])

    def expected_log_likelihood(
        self,
        posterior: Posterior,
        estimator: Estimator,
        mask: Bool[Array, "weights"],
        inputs: Array,
        targets: Array,
        key: PRNGKeyArray,
        portion: Portion | None = None,
    ) -> Float[Array, "batch"]:
        """An unbiased estimate of E_q[ln p(y | x, w)] for each example, from one draw. `portion`: which examples of a
        larger batch these are."""
        draw_key, dropout_key = jax.random.split(key)
        latents = posterior.draw(draw_key)
        if not estimator.is_local:
            return self.log_likelihood(latents, mask, inputs, targets, dropout_key, portion)
        _, log_scales, log_noise = self.split(latents)
        unit_mean, unit_std = (vector[: self.layout.size] for vector in (posterior.point, posterior.std))
        stds = self.prior.weight_stds(self.layout, log_scales) * jnp.where(mask, unit_std, 0.0)
        means = self.prior.weights(self.layout, jnp.where(mask, unit_mean, 0.0), log_scales)
        sample, mean, std = (self.layout.bind(self.network, v) for v in (self.weights(latents, mask), means, stds))

        def one(x: Array, dropout: PRNGKeyArray, local: PRNGKeyArray) -> Array:
            return self._apply(estimator.network(sample, mean, std, local), x, dropout)

        local_key = jax.random.fold_in(draw_key, 1)
        keys = (_keys(k, len(inputs), portion) for k in (dropout_key, local_key))
        return self.likelihood.log_prob(jax.vmap(one)(inputs, *keys), targets, log_noise)

    def check_data(self, inputs: np.ndarray, targets: np.ndarray) -> None:
        """Refuses data that cannot be trained on, before anything is compiled."""
        if len(inputs) != len(targets) or not len(inputs):
            raise ArgumentError(
                f"train: {len(inputs)} inputs, {len(targets)} targets; there must be as many of both, at least one"
            )
        if np.issubdtype(inputs.dtype, np.floating) and not np.isfinite(inputs).all():
            raise ArgumentError("train: the inputs hold NaN or infinite values; remove or impute them")
        try:
            shape = jax.eval_shape(lambda x: self.outputs(self.network, x), inputs[:1]).shape
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                f"train: the network does not take an example of shape {inputs.shape[1:]}, type {inputs.dtype}: {error}"
            ) from error
        if len(shape) != 2:
            raise ArgumentError(
                f"network: puts out shape {shape[1:]} for one example; it should be one axis of outputs"
            )
        self.likelihood.check_targets(targets, shape[1])


def _keys(key: PRNGKeyArray, count: int, portion: Portion | None) -> PRNGKeyArray:
    """One key an example: the same for an example whether its batch is whole or in parts."""
    if portion is None:
        return jax.random.split(key, count)
    return jax.lax.dynamic_slice_in_dim(jax.random.split(key, portion.total), portion.start, count)


def takes_key(network: Any) -> bool:
    """Whether a network is called with a key for its dropout."""
    parameters = inspect.signature(type(network).__call__).parameters
    return "key" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
