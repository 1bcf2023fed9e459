"""Inputs as a user has them: PNG and JPEG files, a folder of them, an array file, a table, texts."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..data._text import TextEncoder, encoder_kind
from ..errors import ArgumentError, DataError
from ..storage.npz import ERRORS, read_npz
from .card import Card

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
SHOWN = 40  # letters of a text in an answer
LARGEST = 2**30  # bytes that an array file may declare
Input = tuple[str, np.ndarray | str]  # its name with its numbers, or with what is wrong with it


def read_images(paths: list[Path], card: Card) -> Iterator[Input]:
    """Each input's name with its numbers, of the shape and type of `card`, or with what is wrong with it."""
    for path in paths:
        if path.is_dir():
            inside = sorted(child for child in path.iterdir() if child.suffix.lower() in ENDINGS)
            if not inside:
                yield str(path), f"there is no image in it (endings: {', '.join(ENDINGS)})"
            for child in inside:
                yield str(child), _image(child, card)
        elif path.suffix == ".npz":
            yield from _array_file(path, card)
        elif path.suffix == ".csv":
            yield from _table(path, card)
        elif path.suffix == ".txt":
            yield from _texts(path, card)
        else:
            yield str(path), _image(path, card)


def _wanted(card: Card) -> str:
    return f"{card.input_dtype} of shape {' × '.join(map(str, card.input_shape)) or '()'}"


def _image(path: Path, card: Card) -> np.ndarray | str:
    if not card.takes_images:
        kinds = {"table": "a .csv with its columns", "text": "a .txt with a text a line"}
        kind = kinds.get(encoder_kind(card.encoder) or "", f"an .npz of {_wanted(card)}")
        return f"is no input of this network, which takes {kind}" if path.exists() else "is not there"
    from PIL import Image, UnidentifiedImageError

    channels, height, width = card.input_shape
    try:
        with Image.open(path) as image:
            if image.size != (width, height) and not card.resize:
                return f"is {image.size[0]} × {image.size[1]} pixels; the network takes {width} × {height}"
            is_grey = image.mode in ("1", "L", "LA", "I", "I;16", "F")
            if channels == 3 and is_grey:
                return "is grey; the network takes colour. Convert it first if that is meant"
            image = image.convert("L" if channels == 1 else "RGB")
            if image.size != (width, height):
                image = image.resize((width, height), Image.Resampling.BILINEAR)
            pixels = np.asarray(image)
    except FileNotFoundError:
        return "is not there"
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        return f"cannot be read as an image ({error})"
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def _array_file(path: Path, card: Card) -> Iterator[Input]:
    try:
        arrays = read_npz(path, LARGEST)
        names = [name for name in ("images", "inputs", "x") if name in arrays] or list(arrays)
        inputs = arrays[names[0]]
    except (OSError, IndexError, *ERRORS) as error:
        yield str(path), f"cannot be read as an array file ({error})"
        return
    held = f"{inputs.dtype} of shape {inputs.shape}"
    if card.takes_images and inputs.ndim == 3 and card.input_shape[0] == 1:
        inputs = inputs[:, None]
    dtype = np.dtype(card.input_dtype)
    kinds = {"f": "fiu", "i": "iu"}.get(dtype.kind, "")  # whole numbers may stand for tokens and for floats
    if (inputs.dtype != dtype and inputs.dtype.kind not in kinds) or inputs.shape[1:] != card.input_shape:
        wanted = " × ".join(map(str, ("n", *card.input_shape)))
        yield str(path), f"holds {held}; the network takes {card.input_dtype} of shape {wanted}"
        return
    for i, example in enumerate(inputs.astype(dtype)):
        yield f"{path}[{i}]", example


def _table(path: Path, card: Card) -> Iterator[Input]:
    """Each row; one that cannot be encoded is named and the others are still answered."""
    if encoder_kind(card.encoder) != "table":
        yield str(path), f"is a table; the network takes {_wanted(card)}"
        return
    from ..data._csv import read_csv
    from ..data._table import TableEncoder

    try:
        encoder = TableEncoder.from_dict(card.encoder or {})
        table = read_csv(path)
        rows = table.cells(encoder.columns)
    except (DataError, ValueError) as error:
        yield str(path), str(error).removeprefix(f"{path}: ")
        return
    for number, row in enumerate(rows):
        name = f"{path}, row {number + 1}"
        try:
            yield name, encoder.encode([row], lambda _, number=number: table.where(number))[0]
        except DataError as error:
            yield name, str(error).removeprefix(f"{table.where(number)}, ")


def _texts(path: Path, card: Card) -> Iterator[Input]:
    """Each line that is not blank is a text."""
    if encoder_kind(card.encoder) != "text":
        yield str(path), f"is text; the network takes {_wanted(card)}"
        return
    try:
        lines = path.read_bytes().decode("utf-8-sig").splitlines()
        numbered = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
        tokens = TextEncoder.from_dict(card.encoder or {}).encode([line for _, line in numbered])
    except FileNotFoundError:
        yield str(path), "is not there"
        return
    except (OSError, UnicodeDecodeError, DataError, ArgumentError) as error:
        yield str(path), f"cannot be read as texts ({error})"
        return
    for (number, line), row in zip(numbered, tokens, strict=True):
        yield f"{path}, line {number}: {line if len(line) <= SHOWN else line[: SHOWN - 1] + '…'}", row
