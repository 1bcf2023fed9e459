"""A PNG or JPEG file → its pixels, by Pillow, which lets other threads work meanwhile."""

import io
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError

FORMATS = ("PNG", "JPEG")
GREY, COLOUR = ("1", "L", "LA"), ("RGB", "RGBA", "P", "PA", "CMYK", "YCbCr")  # Pillow's modes of 8 bits
TURNED = (5, 6, 7, 8)  # of EXIF's orientations, those that swap height and width
ORIENTATION = 0x0112
ENDS = 64  # bytes at either end of a file that tell it from another
# what Pillow raises on bad files
BROKEN = OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error, Warning


@dataclass(frozen=True, eq=False)
class Decoded:
    """One image, grey or of three channels."""

    image: Any  # Pillow's
    is_grey: bool
    is_transparent: bool

    @property
    def pixels(self) -> np.ndarray:
        """(height, width) or (height, width, 3), bytes."""
        return np.asarray(self.image, np.uint8)

    def resized(self, size: tuple[int, int]) -> np.ndarray:
        """The pixels at this height and width."""
        from PIL import Image

        if self.image.size == (size[1], size[0]):
            return self.pixels
        return np.asarray(self.image.resize((size[1], size[0]), Image.Resampling.BILINEAR), np.uint8)


@dataclass(frozen=True)
class Header:
    """What an image says of itself before its pixels are decoded, and what tells its file from another."""

    size: tuple[int, int]  # height, width
    is_grey: bool
    is_transparent: bool
    length: int  # of the file, bytes
    ends: bytes


def decoded(content: bytes, path: Path) -> Decoded:
    """The image of a file: turned as EXIF says, without transparency."""
    from PIL import Image, ImageOps

    with Image.open(io.BytesIO(content), formats=FORMATS) as image:
        mode = _mode(image, path)
        image.load()
        ImageOps.exif_transpose(image, in_place=True)
    is_transparent, kept = _is_transparent(mode, image), "L" if mode in GREY else "RGB"
    image.info.pop("transparency", None)  # a palette's makes Pillow warn
    return Decoded(image if image.mode == kept else image.convert(kept), mode in GREY, is_transparent)


def header_of(path: Path) -> Header:
    """Reads a few bytes of a file."""
    from PIL import Image

    with open(path, "rb") as file:
        head, length = file.read(ENDS), file.seek(0, io.SEEK_END)
        file.seek(max(0, length - ENDS))
        ends = head + file.read()
        file.seek(0)
        with Image.open(file, formats=FORMATS) as opened:
            mode, (width, height) = _mode(opened, path), opened.size
            is_turned = "exif" in opened.info and opened.getexif().get(ORIENTATION) in TURNED
            size = (width, height) if is_turned else (height, width)
            return Header(size, mode in GREY, _is_transparent(mode, opened), length, ends)


def _mode(image: Any, path: Path) -> str:
    if image.mode not in (*GREY, *COLOUR):
        raise DataError(f"{path}: its pixels are of Pillow's mode {image.mode}; save it with 8 bits, grey or colour")
    return image.mode


def _is_transparent(mode: str, image: Any) -> bool:
    return mode in ("LA", "RGBA", "PA") or "transparency" in image.info


@contextmanager
def broken_named(path: Path) -> Iterator[None]:
    """What Pillow says of a file that it cannot read, with the name of the file."""
    from PIL import Image

    try:
        yield
    except (*BROKEN, Image.DecompressionBombError) as error:
        is_empty = path.is_file() and not path.stat().st_size
        what = "is empty" if is_empty else f"cannot be read as PNG or JPEG ({error})"
        raise DataError(f"{path}: {what}. Replace it, or remove it.") from error


@contextmanager
def warnings_heeded() -> Iterator[None]:
    """Of Pillow's warnings only that of an image that unfolds to very much is heeded, as an error. Not for a thread
    beside others that work: the filters of warnings are those of the whole process."""
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield
