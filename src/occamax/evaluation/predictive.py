"""The posterior predictive: what the network says, averaged over draws of its weights."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ..inference.likelihoods import Categorical
from ..inference.model import Model
from ..inference.posteriors import Posterior
from ..structure.calling import Buffers
from .metrics import accuracy, brier, calibration_error, calibration_floor

CHUNK = 1000  # examples at a time


class Predictive(NamedTuple):
    """**expectation** E[y] under the posterior: class probabilities or a mean. **log_likelihood** ln E_q[p(y | w)], one
    an example, the log of the averaged density. **expected_entropy** E_q[H(y | w)], for classes: the doubt that would
    be left if the weights were known.

    Examples:
        >>> found = fitted.predictive(x[:3])
        >>> p = found.expectation  # (3, 2)
        >>> doubt = -np.sum(p * np.log(p), axis=1) - found.expected_entropy  # what more data could remove, in nats
        >>> doubt.shape
        (3,)
    """

    expectation: Float[Array, "n out"]
    log_likelihood: Float[Array, "n"]
    expected_entropy: Float[Array, "n"]


class Believed(NamedTuple):
    """All of a state that a prediction needs."""

    posterior: Posterior
    mask: Bool[Array, "weights"]
    buffers: Buffers = ()


def outputs_of(
    model: Model, believed: Believed, latents: Float[Array, "latents"], inputs: Array, chunk: int = CHUNK
) -> Float[Array, "n out"]:
    """What the network with these latents puts out, `chunk` examples at a time."""
    network = model.bind(latents, believed.mask)
    ask = lambda x: model.outputs(network, x[None], believed.buffers)[0]  # noqa: E731
    return lax.map(ask, inputs, batch_size=min(chunk, len(inputs)))


def predict(
    model: Model,
    believed: Believed,
    key: PRNGKeyArray,
    inputs: Array,
    targets: Array | None = None,
    num_samples: int | Int[Array, ""] = 100,
    chunk: int = CHUNK,
) -> Predictive:
    """Averages over `num_samples` draws; one draw and `chunk` examples at a time, so memory does not grow with either.
    `num_samples` may be traced: one compiled program then serves any number of draws.
    A point is the same in every draw, so it takes one. Without targets `log_likelihood` is NaN."""
    num_samples = num_samples if believed.posterior.has_deviations else 1

    def one_draw(i: Int[Array, ""], carry: Predictive) -> Predictive:
        latents = believed.posterior.draw(jax.random.fold_in(key, i))
        outputs = outputs_of(model, believed, latents, inputs, chunk)
        expectation = model.likelihood.expectation(outputs)
        if targets is None:
            log_prob = jnp.full(len(inputs), jnp.nan)
        else:
            log_prob = model.likelihood.log_prob(outputs, targets, model.split(latents)[2])
        entropy = -jnp.sum(jax.scipy.special.xlogy(expectation, expectation), axis=-1)
        return Predictive(
            carry.expectation + expectation / num_samples,
            jnp.logaddexp(carry.log_likelihood, log_prob - jnp.log(jnp.float32(num_samples))),
            carry.expected_entropy + entropy / num_samples,
        )

    n = len(inputs)
    out = jax.eval_shape(lambda x: model.outputs(model.network, x), inputs[:1]).shape[1]
    empty = Predictive(jnp.zeros((n, out)), jnp.full(n, -jnp.inf), jnp.zeros(n))
    return lax.fori_loop(0, num_samples, one_draw, empty)


def averaged(found: Sequence[Predictive]) -> Predictive:
    """The predictive of several networks that count alike, from that of each."""
    each = Predictive(*map(jnp.stack, zip(*found, strict=True)))
    log_likelihood = jax.nn.logsumexp(each.log_likelihood, axis=0) - jnp.log(jnp.float32(len(found)))
    return Predictive(jnp.mean(each.expectation, axis=0), log_likelihood, jnp.mean(each.expected_entropy, axis=0))


def score(model: Model, predictive: Predictive, targets: np.ndarray, with_floor: bool = False) -> dict[str, float]:
    """The figures of a predictive: always nll; accuracy, ece, brier and confidence for classes, rmse for numbers.
    Confidence is the mean probability of the class named: above the accuracy, the network is too sure of itself.
    `with_floor` adds the ece that chance alone makes, and its deviation."""
    expectation = np.asarray(predictive.expectation, np.float64)
    figures = {"nll": float(-np.mean(np.asarray(predictive.log_likelihood, np.float64)))}
    if isinstance(model.likelihood, Categorical):
        figures["accuracy"] = accuracy(expectation, targets)
        figures["ece"] = calibration_error(expectation, targets)
        figures["brier"] = brier(expectation, targets)
        figures["confidence"] = float(expectation.max(1).mean())
        if with_floor:
            figures["ece_floor"], figures["ece_floor_std"] = calibration_floor(expectation)
    else:
        figures["rmse"] = float(np.sqrt(np.mean((expectation - targets.reshape(expectation.shape)) ** 2)))
    return figures
