"""Arrays and words as few bytes, and back, with nothing lost. Needs neither jax nor a package beside numpy.

An array that has few different values is stored as those values, the steps from one that is not zero to the next, and
which value each has; one that is mostly zero as its other values and the steps. Huffman's code, which is all of zlib
that is used on them, comes within some hundredths of a bit of the entropy of both. Everything else goes through zlib as
it is.

    4 bytes      length of what follows
    header       through zlib, with the dictionary of `packing_words.py`: a line of JSON {"arrays": [[name, type, shape,
                 how, …]], "text": [[name, length]]}, then the texts, a line break before each
    streams      one after the other, as the header says
"""

import base64
import json
import math
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .packing_words import WORDS

LARGEST = 4 * 2**30  # bytes that a file may unfold to
LONGEST = 255  # step between two values
MOST = 256  # values of a codebook
SHORT = "z85:"  # begins a text that was packed


def pack(arrays: Mapping[str, np.ndarray], text: Mapping[str, str]) -> bytes:
    """One block of bytes."""
    entries, streams = [], []
    for name, array in arrays.items():
        entry, own = _smallest(np.asarray(array))
        entries.append([name, *entry, *map(len, own)])
        streams += own
    lengths = [[name, len(own.encode())] for name, own in text.items()]
    head = json.dumps({"arrays": entries, "text": lengths}, separators=(",", ":"))
    words = "\n".join([head, *text.values()]).encode()
    coder = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zdict=WORDS)
    header = coder.compress(words) + coder.flush()
    return b"".join([len(header).to_bytes(4, "little"), header, *streams])


def unpack(content: bytes) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays and words. A block that is no such block is a ValueError."""
    try:
        first = 4 + int.from_bytes(content[:4], "little")
        decoder = zlib.decompressobj(-15, zdict=WORDS)
        head, _, words = decoder.decompress(content[4:first], LARGEST).partition(b"\n")
        header = json.loads(head)
        reader = _Reader(content[first:])
        arrays = {name: _read(reader, kind, shape, *rest) for name, kind, shape, *rest in header["arrays"]}
        return arrays, _texts(header["text"], words)
    except (zlib.error, KeyError, TypeError, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"no packed arrays ({error})") from error


def short_text(text: str) -> str:
    """Words as fewer letters, for a file that may hold text only: zlib with the same dictionary, in base 85."""
    coder = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zdict=WORDS)
    return SHORT + base64.b85encode(coder.compress(text.encode()) + coder.flush()).decode()


def whole_text(text: str) -> str:
    """The words of `short_text`; others are as they are. A ValueError where it is damaged."""
    if not text.startswith(SHORT):
        return text
    try:
        content = base64.b85decode(text.removeprefix(SHORT))
        return zlib.decompressobj(-15, zdict=WORDS).decompress(content, LARGEST).decode()
    except zlib.error as error:
        raise ValueError(f"no packed text ({error})") from error


def _texts(lengths: list[list[Any]], words: bytes) -> dict[str, str]:
    found, place = {}, 0
    for name, length in lengths:
        found[name] = words[place : place + length].decode()
        place += length + 1
    return found


class _Reader:
    """Streams one after the other, none longer than it should be."""

    def __init__(self, content: bytes):
        self.content, self.place = content, 0

    def next(self, length: int, size: int) -> bytes:
        """The next stream, of so many bytes, `size` unfolded."""
        own = self.content[self.place : self.place + length]
        self.place += length
        found = own if length == size else zlib.decompressobj(-15).decompress(own, size)
        if size > LARGEST or len(found) != size:
            raise ValueError("a stream of another length than it should have")
        return found


def _smallest(array: np.ndarray) -> tuple[list[Any], list[bytes]]:
    """How an array is stored in the fewest bytes: [type, shape, how, …] and its streams."""
    head = [array.dtype.str, list(array.shape)]
    plain = [*head, "plain"], [shorter(array.tobytes())]
    if array.dtype.kind != "f" or not array.size or not np.isfinite(array).all():
        return plain
    ways = [plain, _spread(head, array)]
    book = np.unique(array[array != 0])
    if len(book) < MOST:
        ways += [_coded(head, array, book, order) for order in (("C", "F") if array.ndim > 1 else ("C",))]
    return min(ways, key=lambda way: sum(map(len, way[1])) + 4 * len(way[1]))


def _spread(head: list[Any], array: np.ndarray) -> tuple[list[Any], list[bytes]]:
    """The values that are not zero, each as it is, and the steps to them."""
    flat = array.ravel()
    steps, codes = coded_steps(flat, np.zeros(0, flat.dtype))
    values = flat[flat != 0]
    streams = [shorter(values.tobytes()), shorter(steps.tobytes()), shorter(np.packbits(codes > 0).tobytes())]
    return [*head, "spread", len(values), len(steps)], streams


def _coded(head: list[Any], array: np.ndarray, book: np.ndarray, order: Any) -> tuple[list[Any], list[bytes]]:
    steps, codes = coded_steps(array.ravel(order), book)
    with np.errstate(over="ignore"):
        short = book.astype(np.float16)
    values = short if (short == book).all() else book
    streams = [values.tobytes(), shorter(steps.tobytes()), shorter(codes.tobytes())]
    return [*head, "coded", order, values.dtype.str, len(book), len(steps)], streams


def coded_steps(flat: np.ndarray, book: np.ndarray, longest: int = LONGEST) -> tuple[np.ndarray, np.ndarray]:
    """The step to each value that is not zero, and its number in the sorted book from 1 on; 0 is a zero to stand on
    where a step is too long. Steps are counted from before the first."""
    places = np.flatnonzero(flat)
    gaps = np.diff(places, prepend=-1)
    stops = (gaps - 1) // longest
    ends = np.cumsum(stops + 1) - 1
    total = len(places) + int(stops.sum())
    steps, codes = np.full(total, longest), np.zeros(total, int)
    steps[ends], codes[ends] = gaps - stops * longest, np.searchsorted(book, flat[places]) + 1
    return steps.astype(np.uint8), codes.astype(np.uint8)


def shorter(content: bytes) -> bytes:
    """Through zlib, where that is shorter."""
    found = [content]
    for strategy in (zlib.Z_HUFFMAN_ONLY, zlib.Z_DEFAULT_STRATEGY):
        coder = zlib.compressobj(9, zlib.DEFLATED, -15, 9, strategy)
        found.append(coder.compress(content) + coder.flush())
    best = min(found, key=len)
    return best if len(best) < len(content) else content


def _read(reader: _Reader, kind: str, shape: list[int], how: str, *rest: Any) -> np.ndarray:
    dtype, size = np.dtype(kind), math.prod(shape)
    if dtype.kind not in "fiub" or min(shape, default=0) < 0 or size * dtype.itemsize > LARGEST:
        raise ValueError(f"an array of shape {shape}")
    read: dict[str, Callable[..., np.ndarray]] = {"plain": _read_plain, "spread": _read_spread, "coded": _read_coded}
    return read[how](reader, dtype, tuple(shape), size, *rest)


def _read_plain(reader: _Reader, dtype: np.dtype, shape: tuple[int, ...], size: int, length: int) -> np.ndarray:
    return np.frombuffer(reader.next(length, size * dtype.itemsize), dtype).reshape(shape)


def _read_spread(reader: _Reader, dtype: np.dtype, shape: tuple[int, ...], size: int, *counts: int) -> np.ndarray:
    many, total, *lengths = counts
    values = np.frombuffer(reader.next(lengths[0], many * dtype.itemsize), dtype)
    steps = np.frombuffer(reader.next(lengths[1], total), np.uint8)
    stands = np.unpackbits(np.frombuffer(reader.next(lengths[2], -(-total // 8)), np.uint8), count=total).astype(bool)
    flat = np.zeros(size, dtype)
    flat[_places(steps, size)[stands]] = values
    return flat.reshape(shape)


def _places(steps: np.ndarray, size: int) -> np.ndarray:
    places = np.cumsum(steps.astype(np.int64)) - 1
    if len(steps) and (places[-1] >= size or steps.min() < 1):
        raise ValueError("values beyond their array")
    return places


def _read_coded(
    reader: _Reader, dtype: np.dtype, shape: tuple[int, ...], size: int, order: Any, kind: str, *counts: int
) -> np.ndarray:
    levels, total, *lengths = counts
    own = np.dtype(kind)
    book = np.frombuffer(reader.next(lengths[0], levels * own.itemsize), own).astype(dtype)
    steps, codes = (np.frombuffer(reader.next(length, total), np.uint8) for length in lengths[1:])
    if total and codes.max() > levels:
        raise ValueError("values beyond their codebook")
    flat = np.zeros(size, dtype)
    flat[_places(steps, size)] = np.concatenate([np.zeros(1, dtype), book])[codes]
    return flat.reshape(shape, order=order)
