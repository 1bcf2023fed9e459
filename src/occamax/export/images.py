"""Images as a user has them: PNG and JPEG files, a folder of them, or an array file."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..storage.npz import ERRORS, read_npz
from .card import Card

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
LARGEST = 2**30  # bytes that an array file may declare


def read_images(paths: list[Path], card: Card) -> Iterator[tuple[str, np.ndarray | str]]:
    """Each image's name with its pixels (channels, height, width), or with what is wrong with it."""
    for path in paths:
        if path.is_dir():
            inside = sorted(child for child in path.iterdir() if child.suffix.lower() in ENDINGS)
            if not inside:
                yield str(path), f"there is no image in it (endings: {', '.join(ENDINGS)})"
            for child in inside:
                yield str(child), _image(child, card)
        elif path.suffix == ".npz":
            yield from _array_file(path, card)
        else:
            yield str(path), _image(path, card)


def _image(path: Path, card: Card) -> np.ndarray | str:
    from PIL import Image, UnidentifiedImageError

    channels, height, width = card.input_shape
    try:
        with Image.open(path) as image:
            if image.size != (width, height):
                return f"is {image.size[0]} × {image.size[1]} pixels; the network takes {width} × {height}"
            is_grey = image.mode in ("1", "L", "LA", "I", "I;16", "F")
            if channels == 3 and is_grey:
                return "is grey; the network takes colour. Convert it first if that is meant"
            pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"))
    except FileNotFoundError:
        return "is not there"
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        return f"cannot be read as an image ({error})"
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def _array_file(path: Path, card: Card) -> Iterator[tuple[str, np.ndarray | str]]:
    try:
        arrays = read_npz(path, LARGEST)
        images = arrays["images"] if "images" in arrays else next(iter(arrays.values()))
    except (OSError, StopIteration, *ERRORS) as error:
        yield str(path), f"cannot be read as an array file ({error})"
        return
    if images.ndim == 3 and card.input_shape[0] == 1:
        images = images[:, None]
    if images.dtype != np.uint8 or images.shape[1:] != card.input_shape:
        wanted = " × ".join(map(str, card.input_shape))
        yield str(path), f"holds {images.dtype} of shape {images.shape}; the network takes uint8 of shape n × {wanted}"
        return
    for i, image in enumerate(images):
        yield f"{path}[{i}]", image
