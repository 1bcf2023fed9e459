"""Images in class folders, larger than memory: decoded by threads when a batch needs them."""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ._dataset import Statistics, byte_counts, byte_statistics
from ._decoding import Header, broken_named, decoded, header_of, warnings_heeded
from ._images import check_classes, class_folders, colour_of, images_in, parts_of
from ._options import Options
from ._stream import Stream

AT_ONCE = 16  # images that a thread takes up together
SAMPLED = 4096  # images, of those for training, that say what mean and deviation are
COUNTED = 256  # of them at once


@dataclass(frozen=True, eq=False)
class Images:
    """A part of a stream: the images of some files, all of one shape. What is kept of a file is its name."""

    folders: dict[int, Path]  # by the number of the class
    names: np.ndarray  # (n,) bytes, as the system has them
    classes: np.ndarray  # (n,) their numbers
    shape: tuple[int, ...]  # (n, channels, height, width)
    is_resized: bool
    dtype = np.dtype(np.uint8)

    def __len__(self) -> int:
        return len(self.names)

    def of(self, rows: np.ndarray) -> "Images":
        """Those of these numbers, in this order."""
        return replace(self, names=self.names[rows], classes=self.classes[rows], shape=(len(rows), *self.shape[1:]))

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """The images of these numbers, each file read once."""
        which, places = np.unique(rows, return_inverse=True)
        found = np.empty((len(which), *self.shape[1:]), np.uint8)

        def fill(first: int) -> None:
            for i in range(first, min(first + AT_ONCE, len(which))):
                found[i] = self.one(int(which[i]))

        with ThreadPoolExecutor(threads()) as pool:
            for _ in pool.map(fill, range(0, len(which), AT_ONCE)):
                pass
        return found if len(which) == len(rows) and (which == rows).all() else found[places]

    def one(self, row: int) -> np.ndarray:
        """The image of this number, (channels, height, width)."""
        path = self.folders[int(self.classes[row])] / os.fsdecode(self.names[row])
        size = self.shape[-2], self.shape[-1]
        with broken_named(path):
            image = decoded(path.read_bytes(), path)
        pixels = image.resized(size) if self.is_resized else image.pixels
        if pixels.shape[:2] != size or (self.shape[1] == 1 and not image.is_grey):
            what = f"{pixels.shape[0]} × {pixels.shape[1]} pixels, {'grey' if image.is_grey else 'colour'}"
            raise DataError(f"{path}: {what}; it was another image when the folder was opened. Open the folder again.")
        return np.broadcast_to(pixels if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0), self.shape[1:])


def threads() -> int:
    """How many read at once."""
    return min(32, os.cpu_count() or 1)


def open_images(
    folder: Path | str, *, size: int | tuple[int, int] | None = None, test_share: float = 0.2, seed: int = 0
) -> Stream:
    """A folder of class folders of PNG or JPEG images, with or without `train/` and `test/` above them, as
    `ox.load_data` takes it, but not read into memory: the images of the coming batches are decoded in the background,
    by a thread a processor. The examples and their order are those of `ox.load_data(folder)`, byte for byte.

    **folder** of the class folders. **size** (height, width), or both in one number, to which images are resized; all
    must have one size without it. **test_share** of each class is set aside where there is no test folder, by **seed**;
    the stream to test on is `stream.test`.

    The first bytes of every file are read at once, for its size and colour; a file that is damaged further on is named
    when it is read. Mean and deviation for standardising are those of up to 4,096 training images, evenly spaced. In
    memory are the classes and the names of the files.

    Raises:
        ArgumentError: an option that cannot work.
        DataError: a folder that is none of images, files that cannot be read, or images of several sizes.

    Examples:
        >>> import os
        >>> from PIL import Image
        >>> for kind in ("day", "night"):
        ...     os.makedirs(f"skies/{kind}", exist_ok=True)
        ...     for i in range(10):
        ...         Image.new("L", (9, 8), 200 * (kind == "day") + i).save(f"skies/{kind}/{i}.png")
        >>> stream = ox.open_images("skies")  # then ox.fit(network, stream)
        >>> len(stream), len(stream.test), stream.shape, stream.class_names
        (16, 4, (1, 8, 9), ('day', 'night'))
    """
    return image_stream(Path(folder), Options(size=size, test_share=test_share, seed=seed))


def image_stream(path: Path, options: Options, origin: dict[str, Any] | None = None) -> Stream:
    """The same, with the options as one; an `origin` says nothing that the files do not."""
    if not path.is_dir():
        raise DataError(f"{path}: is no folder; it must hold one folder of PNG or JPEG images per class")
    options.refuse("a folder of images", "target", "task")
    found: Counter[str] = Counter()
    parts, unused = parts_of(path)
    folders = {part: class_folders(own, found) for part, own in parts.items()}
    class_names = check_classes(path, parts, folders)
    seen = _Seen(options.size, found)
    with warnings_heeded():
        listed = {part: _listed(own, class_names, seen) for part, own in folders.items()}
    whole = {part: _images(own, seen) for part, own in listed.items()}
    train, test = (whole["train"], whole["test"]) if "test" in whole else _parted(whole["train"], options)
    train = train.of(np.random.default_rng(options.seed).permutation(len(train)))
    origin = {"kind": "images", "path": str(path.resolve()), "options": options.as_dict()}
    origin |= {"files": _prints(listed), "ignored": found["ignored"], "unused": unused}
    origin |= {"resized": found["resized"], "colour": colour_of(found), "transparency_dropped": found["transparent"]}
    origin["test"] = parts["test"].name if "test" in parts else "a share of each class"
    common = {"name": path.resolve().name, "class_names": class_names, "origin": origin}
    streams = [Stream((own,), own.classes.astype(np.int32), **common) for own in (train, test)]
    return replace(streams[0], statistics=_statistics(train), test=streams[1])


@dataclass
class _Seen:
    """What the headers said so far."""

    size: tuple[int, int] | None
    found: Counter[str]
    first: tuple[Path, tuple[int, int]] | None = None

    def look(self, path: Path, header: Header) -> None:
        self.found["transparent"] += header.is_transparent
        self.found["grey" if header.is_grey else "colour"] += 1
        self.first = self.first or (path, self.size or header.size)
        before, (height, width) = self.first
        own = f"{path}: {header.size[0]} × {header.size[1]} pixels"
        if header.size == (height, width):
            return
        if self.size is None:
            raise DataError(
                f"{own}, but {before} has {height} × {width}. Give all one size, or pass size=({height}, {width}) to "
                "have them resized."
            )
        self.found["resized"] += 1


@dataclass(frozen=True)
class _Class:
    """The files of one class."""

    folder: Path
    number: int
    names: np.ndarray
    digest: str


def _listed(folders: Iterable[Path], class_names: tuple[str, ...], seen: _Seen) -> list[_Class]:
    return [_class(folder, class_names.index(folder.name), seen) for folder in folders]


def _class(folder: Path, number: int, seen: _Seen) -> _Class:
    """Looks at the header of every file of a class."""
    paths, digest = images_in(folder, seen.found), hashlib.sha256()

    def header(path: Path) -> Header:
        with broken_named(path):
            return header_of(path)

    for path, own in zip(paths, _in_threads(header, paths), strict=True):
        seen.look(path, own)
        digest.update(b"%s\0%d\0%s" % (os.fsencode(path.name), own.length, own.ends))
    return _Class(folder, number, np.array([os.fsencode(path.name) for path in paths]), digest.hexdigest())


def _in_threads(ask: Callable[[Path], Any], paths: list[Path]) -> Iterator[Any]:
    with ThreadPoolExecutor(threads()) as pool:
        yield from pool.map(ask, paths)


def _images(classes: list[_Class], seen: _Seen) -> Images:
    assert seen.first is not None
    names = np.concatenate([own.names for own in classes])
    shape = len(names), 3 if seen.found["colour"] else 1, *seen.first[1]
    numbers = np.repeat([own.number for own in classes], [len(own.names) for own in classes])
    folders = {own.number: own.folder for own in classes}
    return Images(folders, names, numbers.astype(np.int32), shape, seen.size is not None)


def _parted(images: Images, options: Options) -> tuple[Images, Images]:
    train, test = options.part(images.classes)
    return images.of(train), images.of(test)


def _statistics(train: Images) -> Statistics:
    places = np.linspace(0, len(train) - 1, min(len(train), SAMPLED)).astype(int)
    pieces = (places[first : first + COUNTED] for first in range(0, len(places), COUNTED))
    return byte_statistics(np.sum([byte_counts(train[rows]) for rows in pieces], axis=0))


def _prints(listed: dict[str, list[_Class]]) -> dict[str, dict[str, Any]]:
    """Of each class folder, by its name below the root: of every file its name, its size and its ends."""
    return {
        f"{part}/{own.folder.name}" if len(listed) > 1 else own.folder.name: {
            "images": len(own.names),
            "digest": own.digest,
        }
        for part, classes in listed.items()
        for own in classes
    }
