"""What a unit costs to keep: its weights, its bytes in a file, or its time on the machine at hand. A unit goes when it
earns fewer nats than its price times this."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..errors import ArgumentError
from ..structure.units import Units

__all__ = ["Bytes", "Latency", "UnitCost", "Weights"]


class UnitCost(ABC):
    """Base of all costs: the unit that a price is in nats for.

    Examples:
        >>> isinstance(ox.costs.Weights(), ox.costs.UnitCost)
        True
    """

    @property
    def is_open(self) -> bool:
        """Whether it is still to be measured."""
        return False

    @abstractmethod
    def of(self, units: Units, mask: Bool[Array, "weights"]) -> Float[Array, "units"]:
        """The cost of each unit of one kind, `mask` being True for the weights that are left."""


@dataclass(frozen=True)
class Weights(UnitCost):
    """The weights that it has in the dense network.

    Examples:
        >>> ox.BMR().with_units(0.3).reduction.unit_cost
        Weights()
    """

    def of(self, units: Units, mask: Bool[Array, "weights"]) -> Float[Array, "units"]:
        return jnp.full(units.count, float(units.weights_each))


@dataclass(frozen=True)
class Bytes(UnitCost):
    """What it takes of an exported file, where each of its weights that is left has a code and a step from the one
    before: **bits** together.

    Raises:
        ArgumentError: bits that are not positive.

    Examples:
        >>> ox.BMR().with_units(0.3, ox.costs.Bytes(bits=9.0)).reduction.unit_cost.bits
        9.0
    """

    bits: float = 10.0

    def __post_init__(self):
        if not self.bits > 0:
            raise ArgumentError(f"bits: {self.bits!r} given; it must be positive")

    def of(self, units: Units, mask: Bool[Array, "weights"]) -> Float[Array, "units"]:
        return units.totals(mask.astype(jnp.float32)) * (self.bits / 8)


@dataclass(frozen=True)
class Latency(UnitCost):
    """Microseconds of a call on **batch** examples, one core, in onnxruntime: how much faster the dense network was
    without some units of a kind, for each. **each** holds them by kind; empty, they are measured before training
    begins, and kept in the run.

    Raises:
        ArgumentError: a batch that is no whole number from 1 up, or units that nothing was measured for.

    Examples:
        >>> ox.costs.Latency(batch=128).is_open  # `ox.fit` measures it
        True
        >>> ox.costs.Latency(128, (("layers.0", 2.5),)).is_open
        False
    """

    batch: int = 128
    each: tuple[tuple[str, float], ...] = ()

    def __post_init__(self):
        if isinstance(self.batch, bool) or not isinstance(self.batch, int) or self.batch < 1:
            raise ArgumentError(f"batch: {self.batch!r} given; it must be a whole number from 1 up")

    @property
    def is_open(self) -> bool:
        """Whether it is still to be measured."""
        return not self.each

    def of(self, units: Units, mask: Bool[Array, "weights"]) -> Float[Array, "units"]:
        known = dict(self.each)
        if units.name not in known:
            raise ArgumentError(f"unit_cost: nothing was measured for the units {units.name}; measured were {[*known]}")
        return jnp.full(units.count, known[units.name])
