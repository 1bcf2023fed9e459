"""Texts in a file, larger than memory: cut into tokens when a batch needs them."""

import hashlib
import os
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from ..errors import ArgumentError, DataError
from ._options import Options
from ._stream import Stream
from ._text import SPECIAL, TextEncoder

SAMPLED = 20_000, 2**25  # training texts, and bytes of them, that words are learnt from
BLOCKS, BLOCK = 16, 4096  # of a file, evenly spaced, that tell it from another
TRAIN, TEST = "train.txt", "test.txt"
MARK = b"\xef\xbb\xbf"  # with which some programs begin a text in UTF-8


@dataclass(frozen=True, eq=False)
class Texts:
    """A part of a stream: the texts of a file as rows of token numbers. What is kept of a text is where it is."""

    path: Path
    size: int  # of the file
    starts: Int[np.ndarray, "n"]
    lengths: Int[np.ndarray, "n"]
    encoder: TextEncoder | None = None
    dtype = np.dtype(np.int32)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), 0 if self.encoder is None else self.encoder.length

    def of(self, rows: np.ndarray) -> "Texts":
        """Those of these numbers, in this order."""
        return replace(self, starts=self.starts[rows], lengths=self.lengths[rows])

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        assert self.encoder is not None
        return self.encoder.encode(self.texts(rows))

    def texts(self, rows: np.ndarray) -> list[str]:
        """The texts of these numbers, as they are in the file."""
        try:
            with open(self.path, "rb") as file:
                if os.fstat(file.fileno()).st_size != self.size:
                    raise DataError(f"{self.path}: is longer or shorter than when it was opened. Open it again.")
                return [_at(file, int(self.starts[row]), int(self.lengths[row])) for row in rows]
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{self.path}: cannot be read any more ({error}). Open it again.") from error


def _at(file: Any, start: int, length: int) -> str:
    file.seek(start)
    return file.read(length).decode("utf-8").strip()


def open_texts(path: Path | str, *, words: int = 4096, test_share: float = 0.2, seed: int = 0) -> Stream:
    """A file of texts, a line each: a label, a tab, the text, in UTF-8. They are not read into memory: those of the
    coming batches are cut into tokens in the background. The labels are the names of the classes.

    **path** of the file; or of a folder with `train.txt` and, if it has one, `test.txt`. **words** that are learnt at
    most: from the training texts, or where they are many from 20,000 of them (or 32 MB), evenly spaced, which also say
    how long the rows of tokens are. They go into the run and its exports, as those of texts in memory do.
    **test_share** of each class is set aside where there is no test file, by **seed**; it is `stream.test`.

    The file is read through once, to find the lines; 16 bytes a text stay in memory. Needs `occamax[text]`.

    Raises:
        ArgumentError: an option that cannot work.
        DataError: a file that is missing, or a line that is none of a label and a text; it is named.

    Examples:
        >>> from pathlib import Path
        >>> lines = [f"{'good' if i % 2 else 'bad'}\\ta {'lovely' if i % 2 else 'dull'} film" for i in range(20)]
        >>> _ = Path("films.txt").write_text("\\n".join(lines))
        >>> stream = ox.open_texts("films.txt")  # then ox.fit(ox.network_named("text"), stream)
        >>> len(stream), len(stream.test), stream.class_names
        (16, 4, ('bad', 'good'))
    """
    if isinstance(words, bool) or not isinstance(words, int) or words <= len(SPECIAL):
        raise ArgumentError(f"words: {words!r} given; it must be a whole number above {len(SPECIAL)}, say 4096")
    return text_stream(Path(path), Options(test_share=test_share, seed=seed), None, words)


def text_stream(path: Path, options: Options, origin: dict[str, Any] | None = None, words: int = 4096) -> Stream:
    """The same, with the options as one; with an `origin`, with the words of then."""
    options.refuse("texts", "target", "task", "size")
    files = [path / TRAIN, *([path / TEST] if (path / TEST).exists() else [])] if path.is_dir() else [path]
    found = [_indexed(file) for file in files]
    class_names = tuple(sorted(found[0].labels))
    if len(class_names) < 2:
        raise DataError(f"{files[0]}: has one label, {', '.join(class_names)}; there must be two or more")
    if strange := sorted(set(found[-1].labels) - set(class_names)):
        raise DataError(f"{files[-1]}: holds the label {strange[0]!r}, which is not among those for training")
    parts = [(own.texts, own.classes(class_names)) for own in found]
    if len(parts) == 1:
        texts, targets = parts[0]
        parts = [(texts.of(rows), targets[rows]) for rows in options.part(targets)]
    if origin is None:
        encoder = TextEncoder.learnt(parts[0][0].texts(_sampled(parts[0][0])), words)
    else:
        encoder = TextEncoder.from_dict(origin["encoder"])
    known = {"kind": "texts", "path": str(path.resolve()), "options": options.as_dict()}
    known |= {"files": {file.name: _print(file) for file in files}, "encoder": encoder.as_dict()}
    common = {"name": path.resolve().stem, "class_names": class_names, "origin": known}
    train, test = (Stream((replace(texts, encoder=encoder),), targets, **common) for texts, targets in parts)
    return replace(train, test=test)


def is_texts(path: Path) -> bool:
    """Whether `open_texts` is meant."""
    return path.suffix.lower() == ".txt" or (path / TRAIN).is_file()


@dataclass
class _Index:
    """Where the texts of a file are, and the label of each, by its number in the order of their first appearance."""

    texts: Texts
    numbers: array
    labels: dict[str, int] = field(default_factory=dict)

    def classes(self, names: tuple[str, ...]) -> Int[np.ndarray, "n"]:
        place = {name: i for i, name in enumerate(names)}
        return np.array([place[label] for label in self.labels], np.int32)[np.array(self.numbers, np.int32)]


def _indexed(path: Path) -> _Index:
    starts, lengths, numbers, labels = array("q"), array("i"), array("i"), {}
    for number, start, line in _lines(path):
        label, tab, text = line.partition(b"\t")
        try:
            name = label.decode("utf-8").strip()
            text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{path}, line {number}: is no text in UTF-8 ({error.reason}). Save it so.") from error
        if not tab or not name:
            raise DataError(f"{path}, line {number}: must be a label and a text, parted by a tab")
        starts.append(start + len(label) + 1)
        lengths.append(len(text))
        numbers.append(labels.setdefault(name, len(labels)))
    if not starts:
        raise DataError(f"{path}: holds no texts; each line must be a label and a text, parted by a tab")
    texts = Texts(path, path.stat().st_size, np.array(starts, np.int64), np.array(lengths, np.int32))
    return _Index(texts, numbers, labels)


def _lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """The number of each line that is not empty, from 1, where it begins, and what it holds."""
    try:
        with open(path, "rb") as file:
            start = len(MARK) if file.read(len(MARK)) == MARK else 0
            file.seek(start)
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, start, line.rstrip(b"\r\n")
                start += len(line)
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}); it must be a file of texts, a line each"
        ) from error


def _sampled(texts: Texts) -> Int[np.ndarray, "sampled"]:
    """The numbers of those that words are learnt from, evenly spaced."""
    count = min(len(texts), SAMPLED[0], max(1, int(SAMPLED[1] / max(texts.lengths.mean(), 1.0))))
    return np.linspace(0, len(texts) - 1, count).astype(int)


def _print(path: Path) -> dict[str, Any]:
    """The size of a file, and a digest of some of it, the first and the last bytes among them."""
    digest, size = hashlib.sha256(), path.stat().st_size
    with open(path, "rb") as file:
        for place in np.linspace(0, max(0, size - BLOCK), BLOCKS).astype(int):
            file.seek(int(place))
            digest.update(file.read(BLOCK))
    return {"bytes": size, "digest": digest.hexdigest()}
