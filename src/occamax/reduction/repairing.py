"""What is left of a network after some of its weights went, moved to where it says again what it said before.

For a Laplace posterior Normal(θ, P⁻¹) with the whole Gauss–Newton matrix, P = JᵀHJ + δ, the posterior without some
weights has another mean: what a removed weight did, those that are left take over as well as they can. Removing by a
linear model's P is `delta_f.dense`, exactly. Here P is never written down, and since much goes at once, J and the
outputs are those of the network that is left:

    minimise over d   ½ ‖J d + f(w) − f(θ)‖²_H + ½ δ ‖d‖²      w ← w + d

by conjugate gradients, each step a product with P. Only what the network itself says is fitted: no label is looked at.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from ..errors import ArgumentError
from ..inference.model import Model
from ..structure.calling import Buffers

Vector = Float[Array, "weights"]


@dataclass(frozen=True)
class Repair:
    """How what is left is moved: **rounds** of Gauss–Newton, each by **steps** of conjugate gradients, on **examples**
    of the training data, **batch_size** at a time.

    Raises:
        ArgumentError: a number that is not whole and positive.

    Examples:
        >>> ox.Repair(rounds=1).steps
        10
    """

    rounds: int = 2
    steps: int = 10
    examples: int = 3000
    batch_size: int = 100

    def __post_init__(self):
        for name in ("rounds", "steps", "examples", "batch_size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ArgumentError(f"{name}: {value!r} given; it must be a whole number from 1 up")


class Examples(NamedTuple):
    """Batches that the network is asked about, and how many examples they stand for."""

    inputs: Array  # batches × batch × …
    targets: Array
    count: int


def batched(inputs: Array, targets: Array, size: int, count: int) -> Examples:
    """Examples cut into batches of one size; what is over is left out."""
    whole = len(inputs) // size * size
    cut = [array[:whole].reshape(-1, size, *array.shape[1:]) for array in (inputs, targets)]
    return Examples(cut[0], cut[1], count)


@eqx.filter_jit
def outputs_of_all(
    model: Model, weights: Vector, buffers: Buffers, examples: Examples
) -> Float[Array, "batches n out"]:
    """What the network with these weights puts out."""
    network = model.layout.bind(model.network, weights)
    return lax.map(lambda x: model.outputs(network, x, buffers), examples.inputs)


@eqx.filter_jit
def repaired(
    model: Model,
    weights: Vector,
    keep: Bool[Array, "weights"],
    buffers: Buffers,
    wanted: Float[Array, "batches n out"],
    log_scales: Float[Array, "scales"],
    examples: Examples,
    prior_precision: Vector,
    steps: int,
) -> Vector:  # nine: of which network, what is left of it, what it should say, and how far it is taken
    """The weights after one Gauss–Newton step, of `steps` conjugate gradients, towards what is `wanted`."""
    share = examples.count / (wanted.shape[0] * wanted.shape[1])
    batches = examples.inputs, examples.targets, wanted

    def ask(weights: Vector, inputs: Array) -> Array:
        return model.outputs(model.layout.bind(model.network, weights), inputs, buffers)

    def total(one: Callable[[tuple[Array, Array, Array]], Vector]) -> Vector:
        """The sum over batches of a vector for each."""
        return share * lax.scan(lambda sum_, batch: (sum_ + one(batch), None), jnp.zeros_like(weights), batches)[0]

    def slope(batch: tuple[Array, Array, Array]) -> Vector:
        inputs, targets, said = batch
        outputs, back = jax.vjp(lambda w: ask(w, inputs), weights)
        return back(_curved(model, said, targets, log_scales, outputs - said))[0]

    def bent(direction: Vector, batch: tuple[Array, Array, Array]) -> Vector:
        inputs, targets, said = batch
        _, back = jax.vjp(lambda w: ask(w, inputs), weights)
        _, along = jax.jvp(lambda w: ask(w, inputs), (weights,), (direction,))
        return back(_curved(model, said, targets, log_scales, along))[0]

    def product(direction: Vector) -> Vector:
        direction = jnp.where(keep, direction, 0.0)
        return jnp.where(keep, total(partial(bent, direction)), 0.0) + prior_precision * direction

    slopes = jnp.where(keep, total(slope), 0.0)
    change, _ = jax.scipy.sparse.linalg.cg(product, -slopes, maxiter=steps, tol=1e-3)
    return jnp.where(keep, weights + change, weights)


def _curved(
    model: Model, outputs: Array, targets: Array, log_scales: Array, direction: Array
) -> Float[Array, "batch out"]:
    """H times a direction at the outputs of each example, H the curvature of its −ln p."""
    cost = lambda z: -jnp.sum(model.likelihood.log_prob(z, targets, log_scales))  # noqa: E731
    return jax.jvp(jax.grad(cost), (outputs,), (direction,))[1]
