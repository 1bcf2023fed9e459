"""Files as their authors publish them → arrays. Nothing is unpickled; no file is read further than it should go."""

import gzip
import lzma
import struct
import zlib
from pathlib import Path

import numpy as np

from ..errors import DataError

OPENERS = {".gz": gzip.open, ".xz": lzma.open}
IDX_BYTES = 0x08  # the type code of unsigned bytes
HINT = "Delete it and let occamax download it again, or put an intact copy there."


def read_idx(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """An idx file of unsigned bytes with exactly this shape."""
    header_size = 4 + 4 * len(shape)
    expected = header_size + int(np.prod(shape))
    content = _read(path, expected)
    magic = struct.pack(">HBB", 0, IDX_BYTES, len(shape))
    if content[:4] != magic:
        raise DataError(f"{path}: starts with {content[:4].hex()}, an idx file of this kind with {magic.hex()}. {HINT}")
    found = struct.unpack(f">{len(shape)}I", content[4:header_size]) if len(content) >= header_size else ()
    if found != shape:
        raise DataError(f"{path}: declares shape {found}, expected {shape}. {HINT}")
    if len(content) != expected:
        few = "more than " if len(content) > expected else ""
        raise DataError(f"{path}: holds {few}{min(len(content), expected)} bytes, expected {expected}. {HINT}")
    return np.frombuffer(content, np.uint8, offset=header_size).reshape(shape)


def read_records(path: Path, count: int, record: int) -> np.ndarray:
    """A binary file of `count` records of `record` bytes each."""
    content = _read(path, count * record)
    if len(content) != count * record:
        size = path.stat().st_size
        raise DataError(f"{path}: holds {size} bytes, expected {count * record} ({count} records of {record}). {HINT}")
    return np.frombuffer(content, np.uint8).reshape(count, record)


def check_labels(labels: np.ndarray, classes: int, path: Path) -> np.ndarray:
    if labels.max() >= classes:
        raise DataError(
            f"{path}: holds label {labels.max()}, but there are {classes} classes (0 to {classes - 1}). {HINT}"
        )
    return labels.astype(np.int32)


def _read(path: Path, expected: int) -> bytes:
    """At most one byte more than expected, so that a file too long is noticed and not swallowed."""
    try:
        with OPENERS.get(path.suffix, open)(path, "rb") as file:
            return file.read(expected + 1)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{path}: cannot be read ({error}). {HINT}") from error
