"""Augmentation: one raw example, before preprocessing, changed at random. Called as `augment(key, example)`, inside jit
and under vmap; the shape and the type stay."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Shaped

from ..errors import ArgumentError

Augmentation = Callable[[Any, Any], Any]  # key, example → example


@dataclass(frozen=True)
class RandomCrop:
    """The image moved by up to **padding** pixels in each direction, zeros where nothing was.

    Raises:
        ArgumentError: a padding that is no whole number from 1; examples that are no images.

    Examples:
        >>> image = np.ones((3, 32, 32), np.uint8)
        >>> ox.RandomCrop(4)(jax.random.key(0), image).shape  # in training: ox.fit(…, augment=ox.RandomCrop())
        (3, 32, 32)
    """

    padding: int = 4

    def __post_init__(self):
        if not isinstance(self.padding, int) or isinstance(self.padding, bool) or self.padding < 1:
            raise ArgumentError(f"padding: {self.padding!r} given; it must be a whole number of pixels from 1")

    def __call__(self, key: Any, example: Shaped[Any, "channels height width"]) -> Shaped[Any, "channels height width"]:
        import jax
        import jax.numpy as jnp

        _check_image(self, example)
        pad = self.padding
        padded = jnp.pad(example, ((0, 0), (pad, pad), (pad, pad)))
        down, right = jax.random.randint(key, (2,), 0, 2 * pad + 1)
        return jax.lax.dynamic_slice(padded, (0, down, right), example.shape)


@dataclass(frozen=True)
class HorizontalFlip:
    """Left and right exchanged, with this **chance**.

    Raises:
        ArgumentError: a chance outside 0 to 1; examples that are no images.

    Examples:
        >>> augment = (ox.RandomCrop(4), ox.HorizontalFlip())  # for ox.fit(…, augment=augment)
        >>> ox.HorizontalFlip(1.0)(jax.random.key(0), np.array([[[1, 2, 3]]], np.uint8)).tolist()
        [[[3, 2, 1]]]
    """

    chance: float = 0.5

    def __post_init__(self):
        if isinstance(self.chance, bool) or not isinstance(self.chance, int | float) or not 0 <= self.chance <= 1:
            raise ArgumentError(f"chance: {self.chance!r} given; it must lie from 0 to 1")

    def __call__(self, key: Any, example: Shaped[Any, "channels height width"]) -> Shaped[Any, "channels height width"]:
        import jax
        import jax.numpy as jnp

        _check_image(self, example)
        return jnp.where(jax.random.bernoulli(key, self.chance), example[..., ::-1], example)


@dataclass(frozen=True)
class Augmentations:
    """One after the other, with a key each."""

    parts: tuple[Augmentation, ...]

    def __call__(self, key: Any, example: Shaped[Any, "..."]) -> Shaped[Any, "..."]:
        import jax

        for part, own in zip(self.parts, jax.random.split(key, max(len(self.parts), 1)), strict=False):
            example = part(own, example)
        return example


def as_augmentation(value: Any) -> Augmentation | None:
    """None for None or nothing; a callable `(key, example) → example` as it is; several of them in sequence."""
    if value is None or callable(value):
        return None if value is None else _checked("augment", value)
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise ArgumentError(f"augment: {value!r} given; it must be a callable (key, example) → example, or several")
    return Augmentations(tuple(_checked(f"augment[{i}]", part) for i, part in enumerate(value))) if len(value) else None


def check_augmentation(augment: Augmentation, example: Shaped[Any, "..."]) -> None:
    """An error that names the fault if this cannot be traced by jax, or changes an example's shape or type."""
    import jax

    for part in augment.parts if isinstance(augment, Augmentations) else (augment,):
        name = repr(part) if hasattr(part, "__dataclass_fields__") else getattr(part, "__name__", repr(part))
        try:
            found = jax.eval_shape(part, jax.random.key(0), jax.ShapeDtypeStruct(example.shape, example.dtype))
        except Exception as error:  # anything can go wrong in a user's function
            first = str(error).strip().split("\n")[0]
            raise ArgumentError(
                f"augment: {name} fails on {_kind(example)}: {type(error).__name__}: {first}"
            ) from error
        if not hasattr(found, "shape") or (found.shape, found.dtype) != (tuple(example.shape), example.dtype):
            made = _kind(found) if hasattr(found, "shape") else f"a {type(found).__name__}"
            raise ArgumentError(f"augment: {name} makes {made} of {_kind(example)}; it must keep shape and type")


def _checked(argument: str, value: Any) -> Augmentation:
    if inspect.isclass(value):
        raise ArgumentError(f"{argument}: the class {value.__name__} given; call it: {value.__name__}()")
    if not callable(value):
        raise ArgumentError(f"{argument}: {value!r} given; it must be a callable (key, example) → example")
    try:
        inspect.signature(value).bind(None, None)
    except TypeError as error:
        raise ArgumentError(f"{argument}: {value!r} cannot be called with (key, example): {error}") from error
    except ValueError:  # a builtin that does not say its arguments
        pass
    return value


def _check_image(augment: Any, example: Any) -> None:
    if example.ndim != 3:
        raise ArgumentError(
            f"{augment}: shape {tuple(example.shape)} given; it is for images (channels, height, width)"
        )


def _kind(example: Any) -> str:
    return f"{example.dtype}{list(example.shape)}"
