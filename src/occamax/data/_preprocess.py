"""One raw example → what a network takes. Small frozen objects, usable inside jit, that can be written as JSON."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any

from jaxtyping import Float, Shaped, UInt8

from ..errors import DataError
from ..names import choose

# jax is imported where it is used: reading data must not wait for it. `Any` in the types stands for its arrays.


class Preprocess(ABC):
    """Base of the preprocessing objects: frozen, hashable, equal by value."""

    @abstractmethod
    def __call__(self, example: Any) -> Any: ...

    def as_dict(self) -> dict[str, Any]:
        """Plain values, from which `preprocess_from` makes an equal object."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # pyright: ignore[reportArgumentType]
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return {"kind": type(self).__name__, **plain}


@dataclass(frozen=True)
class Standardise(Preprocess):
    """Bytes → zero **mean** and unit **std** per channel, after **pad** pixels of black on every side. (channels,
    height, width) of uint8 in, floats out.

    Examples:
        >>> prepare = ox.Standardise(mean=(0.5,), std=(0.25,), pad=2)
        >>> prepare(np.zeros((1, 28, 28), np.uint8)).shape
        (1, 32, 32)
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    pad: int = 0

    def __call__(self, example: UInt8[Any, "channels height width"]) -> Float[Any, "channels height2 width2"]:
        import jax.numpy as jnp

        image = jnp.pad(example, ((0, 0), (self.pad, self.pad), (self.pad, self.pad)))
        mean, std = (jnp.array(values, jnp.float32).reshape(-1, 1, 1) for values in (self.mean, self.std))
        return (image.astype(jnp.float32) / 255.0 - mean) / std


@dataclass(frozen=True)
class StandardiseColumns(Preprocess):
    """Floats → zero **mean** and unit **std** along one **axis** of the example: the last (the columns of a table, the
    features of a sequence) or the first (the channels of an image).

    Examples:
        >>> prepare = ox.StandardiseColumns(mean=(1.0, 10.0), std=(0.5, 5.0))
        >>> prepare(np.array([2.0, 10.0], np.float32)).tolist()
        [2.0, 0.0]
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    axis: int = -1

    def __call__(self, example: Shaped[Any, "*example"]) -> Float[Any, "*example"]:
        import jax.numpy as jnp

        shape = [1] * example.ndim
        shape[self.axis] = len(self.mean)
        mean, std = (jnp.array(values, jnp.float32).reshape(shape) for values in (self.mean, self.std))
        return (example.astype(jnp.float32) - mean) / std


@dataclass(frozen=True)
class AsIs(Preprocess):
    """Nothing is changed: tokens."""

    def __call__(self, example: Shaped[Any, "*example"]) -> Shaped[Any, "*example"]:
        import jax.numpy as jnp

        return jnp.asarray(example)


_KINDS: dict[str, type[Preprocess]] = {kind.__name__: kind for kind in (Standardise, StandardiseColumns, AsIs)}


def preprocess_from(values: dict[str, Any]) -> Preprocess:
    """The object whose `as_dict()` these values are."""
    kind = _KINDS[choose("preprocess kind", values.get("kind", ""), _KINDS)]
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    del given["kind"]
    try:
        return kind(**given)
    except TypeError as error:
        names = ", ".join(field.name for field in fields(kind)) or "nothing"  # pyright: ignore[reportArgumentType]
        raise DataError(f"preprocess: {kind.__name__} takes {names}; found {', '.join(given) or 'nothing'}") from error
