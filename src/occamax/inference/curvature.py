"""How sharply the data hold each weight of a trained network: the diagonal of a curvature, by random signs.

With outputs z = f(w, x), J = ∂z/∂w and H = −∇²_z ln p(y | z), the Gauss–Newton matrix of the data is Σ JᵀHJ. For signs
s of ±1 and a root R of H (R Rᵀ = H), one backward pass through a batch gives

    g = Σ_n J_nᵀ R_n s_n      E[g²] = diag Σ_n J_nᵀ H_n J_n,

since signs of different examples and outputs cancel on average: unbiased, at the price of one gradient a batch and draw
(Hutchinson 1990; Martens et al. 2012). With R_n s_n replaced by s_n ∇_z ln p(y_n | z_n) the same pass gives the
empirical Fisher information.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from ..errors import ArgumentError
from ..structure.calling import Buffers
from .likelihoods import Likelihood
from .model import Model

Take = Callable[[np.ndarray], tuple[Array, Array]]  # numbers of examples → their inputs and targets


@dataclass(frozen=True)
class Curvature(ABC):
    """Base of the estimates. **draws** of signs for each batch of **batch_size**; at most **examples** of the training
    data are looked at, and stand for all of them."""

    draws: int = 1
    examples: int = 10_000
    batch_size: int = 50

    def __post_init__(self):
        for name in ("draws", "examples", "batch_size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ArgumentError(f"{name}: {value!r} given; it must be a whole number from 1 up")

    @abstractmethod
    def probe(
        self,
        likelihood: Likelihood,
        outputs: Float[Array, "batch out"],
        targets: Array,
        log_scales: Float[Array, "scales"],
        key: PRNGKeyArray,
    ) -> Float[Array, "batch out"]:
        """A random vector at the outputs whose second moment is the curvature there."""


@dataclass(frozen=True)
class GaussNewton(Curvature):
    """The generalised Gauss–Newton matrix, which for classes is the Fisher information: what the network itself
    expects, whatever the labels.

    **draws** of signs for each batch of **batch_size**; at most **examples** of the training data are looked at, and
    stand for all of them.

    Raises:
        ArgumentError: a number that is not whole and positive.

    Examples:
        >>> ox.Trained(curvature=ox.GaussNewton(draws=4)).curvature
        GaussNewton(draws=4, examples=10000, batch_size=50)
    """

    def probe(self, likelihood, outputs, targets, log_scales, key):
        signs = jax.random.rademacher(key, outputs.shape, outputs.dtype)
        return likelihood.curvature_root(outputs, targets, log_scales, signs)


@dataclass(frozen=True)
class EmpiricalFisher(Curvature):
    """The second moment of the gradients at the labels as they are. Cheap to define, and misleading where the network
    fits them all: no error, no gradient, no curvature (Kunstner et al. 2019).

    **draws**, **examples**, **batch_size** as in `GaussNewton`.

    Raises:
        ArgumentError: a number that is not whole and positive.

    Examples:
        >>> ox.Trained(curvature=ox.EmpiricalFisher(examples=2000)).curvature.examples
        2000
    """

    def probe(self, likelihood, outputs, targets, log_scales, key):
        slopes = jax.grad(lambda z: jnp.sum(likelihood.log_prob(z, targets, log_scales)))(outputs)
        return slopes * jax.random.rademacher(key, (len(outputs), 1), outputs.dtype)


@eqx.filter_jit
def _added(
    total: Float[Array, "weights"],
    model: Model,
    weights: Float[Array, "weights"],
    buffers: Buffers,
    log_scales: Float[Array, "scales"],
    batch: tuple[Array, Array, Float[Array, "batch"]],
    curvature: Curvature,
    key: PRNGKeyArray,
) -> Float[Array, "weights"]:
    """The total with one batch more; the batch's last part says which of its examples count."""
    inputs, targets, counted = batch
    ask = lambda w: model.outputs(model.layout.bind(model.network, w), inputs, buffers)  # noqa: E731
    outputs, back = jax.vjp(ask, weights)

    def one(total: Array, key: PRNGKeyArray) -> tuple[Array, None]:
        probe = curvature.probe(model.likelihood, outputs, targets, log_scales, key)
        return total + back(probe * counted[:, None])[0] ** 2 / curvature.draws, None

    return lax.scan(one, total, jax.random.split(key, curvature.draws))[0]


def diagonal(
    model: Model,
    weights: Float[Array, "weights"],
    buffers: Buffers,
    log_scales: Float[Array, "scales"],
    take: Take,
    count: int,
    curvature: Curvature,
    seed: int = 0,
) -> Float[Array, "weights"]:  # eight: of which network, at what, on what, how
    """The curvature of −ln p(data | weights) in each weight, in nats over `count` examples, of which `take` gives those
    asked for. `log_scales` are the likelihood's own. The network predicts: dropout is off, buffers stay."""
    used = np.random.default_rng(seed).permutation(count)[: curvature.examples]
    total, size = jnp.zeros_like(weights), min(curvature.batch_size, len(used))
    for number, start in enumerate(range(0, len(used), size)):
        rows = used[start : start + size]
        counted = np.arange(size) < len(rows)
        inputs, targets = take(np.resize(rows, size))  # the last batch is filled up with what does not count
        batch = jnp.asarray(inputs), jnp.asarray(targets), jnp.asarray(counted, weights.dtype)
        key = jax.random.fold_in(jax.random.key(seed), number)
        total = _added(total, model, weights, buffers, log_scales, batch, curvature, key)
    return total * (count / len(used))
