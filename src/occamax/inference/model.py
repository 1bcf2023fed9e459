"""A Bayesian network: a deterministic network, where its random weights stand, what is believed of them, and how data
arise from what it puts out."""

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from ..errors import ArgumentError
from ..structure.calling import Buffers, Calling, read_network
from ..structure.layout import Fixed, Layout
from ..structure.reading import read_layout
from .estimators import Estimator
from .likelihoods import Categorical, Likelihood
from .posteriors import LatentPrior, Posterior
from .priors import Prior
from .recomputing import recomputing


class BatchPart(NamedTuple):
    """Some examples of a batch: the number of the first, how many the whole batch has, the axis of devices that share
    it, if any do, and whether they average the gradient at the draw of the weights, the same on all of them."""

    start: Int[Array, ""] | int
    total: int
    axis: str | None
    averages_draw: bool = False


class Model(eqx.Module):
    """The joint distribution of weights, scales and data. Pure: no method changes anything.

    **network** holds the deterministic part; its random weights are only a template of shapes. **buffers** are what a
    network with a state starts from.
    **example** one raw example, or its shape and type (`jax.ShapeDtypeStruct`): the network is traced with it.
    **fixed** which arrays of the network are not random (see `Layout.of`).
    **preprocess** turns one raw example (say, bytes) into what the network takes.
    **compute_dtype** is the type of activations and products; bfloat16 is mixed precision. Latents, posterior and
    likelihood stay in float32.
    **multiple** The vector of latents is as long as the next multiple of it, so that devices can share it in equal
    parts; what is over at its end stands for nothing.
    **recompute_activations** in the backward pass in place of keeping them: less memory, more time, the same.

    **prior** of its weights; **likelihood** `Categorical()` unless given.

    Raises:
        LayoutError: a network whose arrays cannot be told apart, or that has none.
        ArgumentError: from `check_data`, data that the network does not take.

    Examples:
        >>> model = ox.Model(network, x[0], ox.FanInPrior())
        >>> weights = model.layout.pack(network)  # (weights,): every array of the network, one after the other
        >>> model.outputs(model.layout.bind(network, weights), jnp.asarray(x[:5])).shape
        (5, 2)
    """

    network: Any
    buffers: Buffers
    calling: Calling = eqx.field(static=True)
    layout: Layout = eqx.field(static=True)
    prior: Prior = eqx.field(static=True)
    likelihood: Likelihood = eqx.field(static=True)
    preprocess: Callable[[Array], Array] = eqx.field(static=True)
    compute_dtype: Any = eqx.field(static=True)
    multiple: int = eqx.field(static=True)
    recompute_activations: bool = eqx.field(static=True)

    def __init__(  # a model is made of nine things, each an object of its own
        self,
        network: Any,
        example: Any,
        prior: Prior | Callable[[Layout], Prior],
        likelihood: Likelihood | None = None,
        fixed: Fixed = None,
        preprocess: Callable[[Array], Array] = jnp.asarray,
        compute_dtype: Any = jnp.float32,
        multiple: int = 1,
        recompute_activations: bool = False,
    ):
        self.network, self.buffers, self.calling = read_network(network)
        self.layout = read_layout(self.network, self.buffers, self.calling, example, preprocess, fixed)
        self.prior = prior if isinstance(prior, Prior) else prior(self.layout)
        self.likelihood = Categorical() if likelihood is None else likelihood
        self.preprocess = preprocess
        self.compute_dtype = jnp.dtype(compute_dtype)
        self.multiple = multiple
        self.recompute_activations = recompute_activations

    def under(self, prior: Prior) -> "Model":
        """The same network under another prior."""
        changed = copy(self)
        object.__setattr__(changed, "prior", prior)
        return changed

    @property
    def latent_prior(self) -> LatentPrior:
        """The prior of the latent vector."""
        pairs = zip(self.prior.scale_gammas(self.layout), self.likelihood.scale_gammas(), strict=True)
        return LatentPrior(*(jnp.asarray(np.concatenate(pair), jnp.float32) for pair in pairs))

    @property
    def latents_used(self) -> int:
        """How many latents stand for something: one a weight, then the scales of prior and likelihood."""
        return self.layout.size + self.latent_prior.shape.size

    @property
    def latent_count(self) -> int:
        """How long the vector is: those used, and what fills it up to the next multiple."""
        return -(-self.latents_used // self.multiple) * self.multiple

    @property
    def fill(self) -> int:
        """How many latents only make the vector divisible by the devices."""
        return self.latent_count - self.latents_used

    def split(self, latents: Float[Array, "latents"]) -> list[Array]:
        """ŵ of every weight, the prior's log-scales, the likelihood's log-scales."""
        first = self.layout.size
        last = first + self.prior.scale_gammas(self.layout)[0].size
        end = last + self.likelihood.scale_gammas()[0].size
        return [latents[:first], latents[first:last], latents[last:end]]

    def weights(self, latents: Float[Array, "latents"], mask: Bool[Array, "weights"]) -> Float[Array, "weights"]:
        """The weights made from the latents; removed ones take their prior centre."""
        unit, log_scales, _ = self.split(latents)
        return self.prior.weights(self.layout, jnp.where(mask, unit, 0.0), log_scales)

    def bind(self, latents: Float[Array, "latents"], mask: Bool[Array, "weights"]) -> Any:
        """The network with its weights made from the latents; removed ones take their prior centre."""
        return self.layout.bind(self.network, self.weights(latents, mask))

    def apply(
        self,
        network: Any,
        inputs: Array,
        buffers: Buffers | None = None,
        key: PRNGKeyArray | None = None,
        part: BatchPart | None = None,
    ) -> tuple[Float[Array, "batch *out"], Buffers]:
        """What a bound network puts out for a batch of raw examples, and its buffers afterwards. With a key it trains:
        dropout is on and buffers change. `buffers` are those of the start unless given."""
        buffers = self.buffers if buffers is None else buffers
        keys = None if key is None else keys_of(key, len(inputs), part)
        network, inputs = self._cast(network), self._cast(jax.vmap(self.preprocess)(inputs))
        axis = None if part is None else part.axis
        is_cut = self.recompute_activations and keys is not None
        apply = recomputing(self.calling.apply) if is_cut else self.calling.apply
        outputs, after = apply(network, self._cast(buffers), inputs, keys, axis)
        after = tuple(new.astype(old.dtype) for new, old in zip(after, buffers, strict=True))
        return outputs.astype(jnp.float32), buffers if keys is None else after

    def outputs(self, network: Any, inputs: Array, buffers: Buffers | None = None) -> Float[Array, "batch *out"]:
        """What a bound network puts out when it predicts."""
        return self.apply(network, inputs, buffers)[0]

    def _cast(self, tree: Any) -> Any:
        """Every floating-point array in the type of computation."""
        if self.compute_dtype == jnp.float32:
            return tree
        return jax.tree.map(lambda leaf: leaf.astype(self.compute_dtype) if eqx.is_inexact_array(leaf) else leaf, tree)

    def expected_log_likelihood(
        self,
        posterior: Posterior,
        estimator: Estimator,
        mask: Bool[Array, "weights"],
        batch: tuple[Array, Array],
        key: PRNGKeyArray,
        buffers: Buffers | None = None,
        part: BatchPart | None = None,
    ) -> tuple[Float[Array, "batch"], Buffers]:
        """An unbiased estimate of E_q[ln p(y | x, w)] for each example, from one draw, and the buffers after it.
        `part`: which examples of a larger batch these are."""
        draw_key, dropout_key = jax.random.split(key)
        latents: Any = posterior.draw(draw_key)
        if part is not None and part.axis is not None and part.averages_draw:
            latents = averaged_gradient(latents, part.axis)
        if estimator.is_local:
            outputs, after = self._local_outputs(posterior, estimator, mask, latents, batch[0], key, part), ()
        else:
            outputs, after = self.apply(self.bind(latents, mask), batch[0], buffers, dropout_key, part)
        return self.likelihood.log_prob(outputs, batch[1], self.split(latents)[2]), after

    def _local_outputs(
        self,
        posterior: Posterior,
        estimator: Estimator,
        mask: Bool[Array, "weights"],
        latents: Float[Array, "latents"],
        inputs: Array,
        key: PRNGKeyArray,
        part: BatchPart | None,
    ) -> Float[Array, "batch *out"]:
        """What the networks put out that the examples see, each its own."""
        draw_key, dropout_key = jax.random.split(key)
        log_scales = self.split(latents)[1]
        unit_mean, unit_std = (vector[: self.layout.size] for vector in (posterior.point, posterior.std))
        stds = self.prior.weight_stds(self.layout, log_scales) * jnp.where(mask, unit_std, 0.0)
        means = self.prior.weights(self.layout, jnp.where(mask, unit_mean, 0.0), log_scales)
        sample, mean, std = (self.layout.bind(self.network, v) for v in (self.weights(latents, mask), means, stds))

        def ask(sample: Any, mean: Any, std: Any, *examples: Any) -> Array:
            def one(x: Array, dropout: PRNGKeyArray, local: PRNGKeyArray) -> Array:
                network = self._cast(estimator.network(sample, mean, std, local))
                x = self._cast(self.preprocess(x))
                return (network(x, key=dropout) if self.calling.takes_key else network(x)).astype(jnp.float32)

            return jax.vmap(one)(*examples)

        keys = (keys_of(own, len(inputs), part) for own in (dropout_key, jax.random.fold_in(draw_key, 1)))
        return (recomputing(ask) if self.recompute_activations else ask)(sample, mean, std, inputs, *keys)

    def check_data(self, inputs: np.ndarray, targets: np.ndarray) -> int:
        """Refuses data that cannot be trained on, before anything is compiled. Gives the number of outputs."""
        if len(inputs) != len(targets) or not len(inputs):
            raise ArgumentError(
                f"data: {len(inputs)} inputs, {len(targets)} targets; there must be as many of both, at least one"
            )
        if np.issubdtype(inputs.dtype, np.floating) and not np.isfinite(inputs).all():
            raise ArgumentError("data: the inputs hold NaN or infinite values; remove or impute them")
        try:
            shape = jax.eval_shape(lambda x: self.outputs(self.network, x), inputs[:1]).shape
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                f"data: the network does not take an example of shape {inputs.shape[1:]}, type {inputs.dtype}: {error}"
            ) from error
        if len(shape) != 2:
            raise ArgumentError(
                f"network: puts out shape {shape[1:]} for one example; it should be one axis of outputs"
            )
        self.likelihood.check_targets(targets, shape[1])
        return shape[1]


def keys_of(key: PRNGKeyArray, count: int, part: BatchPart | None) -> Key[Array, "count"]:
    """One key an example: the same for an example whether its batch is whole or in parts."""
    if part is None:
        return jax.random.split(key, count)
    return jax.lax.dynamic_slice_in_dim(jax.random.split(key, part.total), part.start, count)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def averaged_gradient(vector: Float[Array, "n"], axis: str) -> Float[Array, "n"]:
    """The vector, which all devices of an axis have; its gradient is the mean of theirs."""
    return vector


averaged_gradient.defvjp(
    lambda vector, axis: (vector, None),
    lambda axis, _, gradient: (jax.lax.pmean(gradient, axis),),
)
