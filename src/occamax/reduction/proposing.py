"""What should go, before it is measured: single weights or whole units, in an order."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..structure.units import Units
from .costs import UnitCost, Weights
from .criteria import Beliefs
from .ranking import lowest

LEAST_COST = 1e-6  # of a unit that costs nothing, so that it can be divided by


class Proposal(NamedTuple):
    """Items that should go, weights or units, and which would go first: those with the lowest `score`, which is
    infinite for what should stay. `marks` names the weights that are gone when some items go; those that it names for
    no item are gone already. For each item that goes the bound may lose its `price`."""

    wanted: Bool[Array, "items"]
    score: Float[Array, "items"]
    marks: Callable[[Bool[Array, "items"]], Bool[Array, "weights"]]
    price: Float[Array, "items"] | float

    @property
    def size(self) -> Int[Array, ""]:
        return jnp.sum(self.wanted, dtype=jnp.int32)

    def first(self, count: Int[Array, ""]) -> Bool[Array, "items"]:
        """So many of the wanted items, in their order."""
        return self.wanted & lowest(self.score, count)

    def weights(self, count: Int[Array, ""]) -> Bool[Array, "weights"]:
        """The weights that are gone when so many items go."""
        return self.marks(self.first(count))

    def allowed(self, count: Int[Array, ""]) -> Float[Array, ""]:
        """Nats that the bound may lose when so many items go."""
        return jnp.sum(jnp.where(self.first(count), self.price, 0.0))


def of_weights(wanted: Bool[Array, "weights"], beliefs: Beliefs, most: Int[Array, ""] | None = None) -> Proposal:
    """Single weights, the largest ΔF first, `most` of them at most. They may cost nothing."""
    score = jnp.where(wanted, -beliefs.delta_f, jnp.inf)
    return Proposal(wanted if most is None else wanted & lowest(score, most), score, lambda chosen: chosen, 0.0)


def of_units(
    units: Sequence[Units],
    gone: Bool[Array, "weights"],
    beliefs: Beliefs,
    price: float,
    limit: Float[Array, ""] | float | None = None,
    cost: UnitCost | None = None,
) -> Proposal:
    """Units of all kinds in one order, after the weights in `gone`: those that gain most for what they `cost` (their
    weights unless told) go first. A unit may cost the bound what it is priced at."""
    cost = Weights() if cost is None else cost
    alive = beliefs.mask & beliefs.reducible
    living = jnp.where(beliefs.mask, beliefs.delta_f, 0.0)
    wanted = jnp.concatenate([idle(kind, beliefs, price, limit, cost) for kind in units])
    costs = jnp.concatenate([cost.of(kind, beliefs.mask) for kind in units])
    gain = jnp.concatenate([kind.totals(living) for kind in units]) / jnp.maximum(costs, LEAST_COST)
    ends = np.cumsum([kind.count for kind in units])[:-1]

    def marks(chosen: Bool[Array, "items"]) -> Bool[Array, "weights"]:
        vector = gone
        for kind, flags in zip(units, jnp.split(chosen, ends), strict=True):
            vector = kind.mark(vector, flags)
        return vector & alive

    return Proposal(wanted, jnp.where(wanted, -gain, jnp.inf), marks, price * costs)


def idle(
    units: Units,
    beliefs: Beliefs,
    price: float,
    limit: Float[Array, ""] | float | None = None,
    cost: UnitCost | None = None,
) -> Bool[Array, "units"]:
    """The units that earn less than `price` nats for what they cost: each weight in the dense network, unless told. At
    most a share `limit` of those alive, the least worth first; as many as must stay do. A unit of which nothing is left
    but weights of the output layer, which may not go, went before."""
    costs = (Weights() if cost is None else cost).of(units, beliefs.mask)
    gain = units.totals(jnp.where(beliefs.mask, beliefs.delta_f, 0.0)) + price * costs
    alive = units.totals((beliefs.mask & beliefs.reducible).astype(jnp.int32)) > 0
    chosen = alive & (gain > 0)
    most = jnp.maximum(jnp.sum(alive) - units.least, 0)
    if limit is not None:
        most = jnp.minimum(most, jnp.ceil(limit * jnp.sum(alive)).astype(most.dtype))
    return chosen & lowest(jnp.where(chosen, -gain, jnp.inf), most)
