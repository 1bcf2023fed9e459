"""Units: what goes together when a hidden unit, a channel, a head or a whole branch goes, as places in the vector of
weights."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Num


@dataclass(frozen=True)
class Part:
    """A piece of the vector, from `start` on, that is (before, units, after) in shape."""

    start: int
    before: int
    after: int

    def weights_each(self, count: int) -> int | float:
        return self.before * self.after

    def totals(self, vector: Array, count: int) -> Array:
        return self._view(vector, count).sum((0, 2))

    def mark(self, vector: Array, flags: Array) -> Array:
        marked = self._view(vector, len(flags)) | flags[:, None]
        return vector.at[self.start : self.start + marked.size].set(marked.ravel())

    def flag(self, vector: np.ndarray, flags: np.ndarray) -> None:
        self._view(vector, len(flags))[:, flags] = True

    def sums(self, vector: np.ndarray, count: int) -> np.ndarray:
        return np.add.reduce(self._view(vector, count), (0, 2))

    def _view(self, vector: Any, count: int) -> Any:
        size = self.before * count * self.after
        return vector[self.start : self.start + size].reshape(self.before, count, self.after)


@dataclass(frozen=True)
class Scattered:
    """Places in the vector one by one: `places[i]` belongs to unit `owners[i]`. For what is no regular piece."""

    places: tuple[int, ...]
    owners: tuple[int, ...]

    def weights_each(self, count: int) -> int | float:
        return len(self.places) / count

    def totals(self, vector: Array, count: int) -> Array:
        return jnp.zeros(count, vector.dtype).at[np.array(self.owners)].add(vector[np.array(self.places)])

    def mark(self, vector: Array, flags: Array) -> Array:
        return vector.at[np.array(self.places)].max(flags[np.array(self.owners)])

    def flag(self, vector: np.ndarray, flags: np.ndarray) -> None:
        vector[np.array(self.places)[flags[np.array(self.owners)]]] = True

    def sums(self, vector: np.ndarray, count: int) -> np.ndarray:
        return np.bincount(np.array(self.owners), vector[np.array(self.places)], count)


@dataclass(frozen=True)
class Units:
    """Units of one kind in one place, and the pieces of the vector that hold their weights. A weight may belong to two
    units of different places: one makes it, another uses it. `least` of them must stay; a branch of a sum may go."""

    name: str
    count: int
    parts: tuple[Part | Scattered, ...]
    least: int = 1

    @property
    def weights_each(self) -> int:
        """How many weights a unit has; the mean, rounded, where some have more."""
        return round(sum(part.weights_each(self.count) for part in self.parts))

    def totals(self, vector: Num[Array, "weights"]) -> Num[Array, "units"]:
        """One number a weight → its sum over each unit."""
        return sum((part.totals(vector, self.count) for part in self.parts), jnp.zeros(self.count, vector.dtype))

    def mark(self, vector: Bool[Array, "weights"], flags: Bool[Array, "units"]) -> Bool[Array, "weights"]:
        """The vector with the weights of the flagged units True as well."""
        for part in self.parts:
            vector = part.mark(vector, flags)
        return vector

    def flagged(self, size: int, flags: Bool[np.ndarray, "units"]) -> Bool[np.ndarray, "weights"]:
        """As `mark` on a vector of that size with nothing True, in numpy: nothing is compiled."""
        vector = np.zeros(size, bool)
        for part in self.parts:
            part.flag(vector, flags)
        return vector

    def sums(self, vector: Num[np.ndarray, "weights"]) -> Num[np.ndarray, "units"]:
        """As `totals`, in numpy."""
        return np.sum([part.sums(vector, self.count) for part in self.parts], 0)
