"""Units: what goes together when a hidden unit, a channel or a head goes, as places in the vector of weights."""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


@dataclass(frozen=True)
class Part:
    """A piece of the vector, from `start` on, that is (before, units, after) in shape."""

    start: int
    before: int
    after: int


@dataclass(frozen=True)
class Units:
    """Units of one kind in one place, and the pieces of the vector that hold their weights. A weight may belong to two
    units of different places: one makes it, another uses it."""

    name: str
    count: int
    parts: tuple[Part, ...]

    @property
    def weights_each(self) -> int:
        return sum(part.before * part.after for part in self.parts)

    def totals(self, vector: Float[Array, "weights"]) -> Float[Array, "units"]:
        """One number a weight → its sum over each unit."""
        return sum((self._view(vector, part).sum((0, 2)) for part in self.parts), jnp.zeros(self.count, vector.dtype))

    def _view(self, vector: Array, part: Part) -> Array:
        size = part.before * self.count * part.after
        return vector[part.start : part.start + size].reshape(part.before, self.count, part.after)

    def mark(self, vector: Bool[Array, "weights"], flags: Bool[Array, "units"]) -> Bool[Array, "weights"]:
        """The vector with the weights of the flagged units True as well."""
        for part in self.parts:
            marked = self._view(vector, part) | flags[:, None]
            vector = vector.at[part.start : part.start + marked.size].set(marked.ravel())
        return vector
