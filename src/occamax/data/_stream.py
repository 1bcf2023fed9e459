"""Data larger than memory: parts on disk, of which only the batches are read."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ._dataset import Statistics, padding
from ._preprocess import AsIs, Preprocess, Standardise
from ._prints import Prints, array_print

LOOKED_AT = 2**24  # bytes of inputs that are read at a time


@dataclass(frozen=True, eq=False)
class Stream:
    """Examples in files, of which `ox.fit` reads only the batches. `ox.open_arrays`, `ox.open_images` and
    `ox.open_texts` make one.

    **inputs** are some parts that follow one another: arrays, mapped or not, or what has the `shape` and `dtype` of
    one and gives the examples of some numbers, `part[numbers]`. **targets** one array in memory. **name** for tables,
    **class_names** of the classes 0, 1, …; **origin** plain values that say where the examples came from;
    **statistics** mean and deviation of each channel, by which images are standardised; **test** a stream to test on.

    Raises:
        ArgumentError: from `standardise`, images that cannot be padded to a size.
        DataError: from `take`, an example that holds NaN or infinite values, or that cannot be read; it is named.

    Examples:
        >>> stream = ox.Stream((x[:100], x[100:]), y)
        >>> len(stream), stream.shape
        (300, (8,))
    """

    inputs: tuple[Any, ...]
    targets: np.ndarray
    name: str = "stream"
    class_names: tuple[str, ...] | None = None
    origin: dict[str, Any] | None = None
    statistics: Statistics | None = None
    test: "Stream | None" = None

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one example."""
        return tuple(self.inputs[0].shape[1:])

    @property
    def dtype(self) -> np.dtype:
        """Of one example."""
        return np.dtype(self.inputs[0].dtype)

    @property
    def bytes_each(self) -> int:
        """Of one example's inputs."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def standardise(self, size: int | None = None) -> Preprocess | None:
        """The preprocessing of one example: images are padded to `size` × `size` if that is given, and come to zero
        mean and unit deviation; tokens and arrays are taken as they are."""
        if self.statistics is None:
            return AsIs() if "encoder" in (self.origin or {}) else None
        return Standardise(*self.statistics, pad=0 if size is None else padding(self.shape, size))

    @cached_property
    def _starts(self) -> np.ndarray:
        """The number of the first example of each part, and that of all."""
        return np.cumsum([0, *(len(part) for part in self.inputs)])

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The examples of these numbers, in the shape of `rows`."""
        flat, starts = rows.ravel(), self._starts
        part_of = np.searchsorted(starts, flat, side="right") - 1
        found = np.empty((flat.size, *self.shape), self.dtype)
        for i, part in enumerate(self.inputs):
            here = np.flatnonzero(part_of == i)
            here = here[np.argsort(flat[here])]  # in the order of the file
            for some in np.split(here, range(self._at_once, len(here), self._at_once)):
                found[some] = part[flat[some] - starts[i]]
        self._check_finite(flat, found)
        return found.reshape(*rows.shape, *self.shape), self.targets[rows]

    def some(self, most_bytes: int) -> tuple[np.ndarray, np.ndarray]:
        """Examples whose inputs take no more than so many bytes, evenly spaced: all of them where they are few."""
        count = min(len(self), max(1, most_bytes // self.bytes_each))
        return self.take(np.linspace(0, len(self) - 1, count).astype(int))

    def _check_finite(self, rows: np.ndarray, found: np.ndarray) -> None:
        if not len(found) or not np.issubdtype(found.dtype, np.floating):
            return
        bad = np.flatnonzero(~np.isfinite(found.reshape(len(found), -1)).all(1))
        if len(bad):
            row = int(rows[bad].min())
            i = int(np.searchsorted(self._starts, row, side="right")) - 1
            values = found[bad[np.argmin(rows[bad])]]
            where = f"{_named_part(self.inputs[i], i)}, its row {row - self._starts[i]}"
            raise DataError(
                f"data: example {row} (counted from 0: {where}) holds {values[~np.isfinite(values)][0]}; correct or "
                "remove it"
            )

    @property
    def _at_once(self) -> int:
        """How many examples are read at once, beside those that are read already."""
        return max(1, LOOKED_AT // self.bytes_each)

    @cached_property
    def largest(self) -> int:
        """The largest number in the inputs. All of them are read for it, once, a little at a time."""
        pieces = ((part, i) for part in self.inputs for i in range(0, len(part), self._at_once))
        return max(int(part[i : i + self._at_once].max()) for part, i in pieces)

    def described(self) -> dict[str, Any]:
        """Where the examples came from, with what tells them from others: of each array its size, shape and some rows,
        the first and the last among them; of the targets all."""
        if self.origin is not None:
            return self.origin
        found: Prints = {}
        for i, part in enumerate(self.inputs):
            name = _named_part(part, i)
            found[f"{name} ({i})" if name in found else name] = array_print(part)
        found["targets"] = array_print(self.targets, len(self))
        return {"kind": "stream", "examples": len(self), "files": found}


def _named_part(part: Any, i: int) -> str:
    path = getattr(part, "filename", None)
    return f"inputs {i}" if path is None else Path(path).name


def open_arrays(folder: Path | str) -> Stream:
    """A **folder** of `inputs.npy` and `targets.npy`, or of several of each (`inputs-0.npy`, `inputs-1.npy`, …, in the
    order of their names). Inputs are mapped into memory, so that only what is used is read; targets are read. A folder
    `test` of such files in it is the test set, `stream.test`.

    Raises:
        DataError: files that are missing, damaged, or not as many inputs as targets.

    Examples:
        >>> import os
        >>> os.makedirs("large", exist_ok=True)
        >>> np.save("large/inputs.npy", x), np.save("large/targets.npy", y)
        (None, None)
        >>> stream = ox.open_arrays("large")  # then ox.fit(network, stream)
    """
    folder = Path(folder)
    train = _arrays(folder)
    test = _arrays(folder / "test") if is_arrays(folder / "test") else None
    files = {**train.described()["files"]}
    files |= {f"test/{name}": own for name, own in (test.described()["files"] if test else {}).items()}
    origin = {"kind": "array files", "path": str(folder.resolve()), "options": {}, "files": files}
    return replace(train, name=folder.resolve().name, origin=origin, test=test)


def is_arrays(folder: Path) -> bool:
    """Whether `open_arrays` is meant."""
    return any(folder.glob("inputs*.npy"))


def _arrays(folder: Path) -> Stream:
    inputs = [_mapped(path) for path in _named(folder, "inputs")]
    targets = [np.array(_mapped(path)) for path in _named(folder, "targets")]
    lengths = [[len(part) for part in parts] for parts in (inputs, targets)]
    if sum(lengths[0]) != sum(lengths[1]) or not sum(lengths[0]):
        counts = f"{sum(lengths[0])} inputs, {sum(lengths[1])} targets"
        raise DataError(f"{folder}: {counts}; there must be as many of both, at least one")
    for path, part in zip(_named(folder, "inputs"), inputs, strict=True):
        if part.shape[1:] != inputs[0].shape[1:] or part.dtype != inputs[0].dtype:
            raise DataError(f"{path}: holds {part.dtype}{list(part.shape[1:])}, the first file another kind of example")
    return Stream(tuple(inputs), np.concatenate(targets))


def _named(folder: Path, name: str) -> list[Path]:
    found = sorted(folder.glob(f"{name}.npy")) + sorted(folder.glob(f"{name}-*.npy"))
    if not found:
        raise DataError(f"{folder}: has no {name}.npy, nor {name}-0.npy and so on. Write them with numpy.save.")
    return found


def _mapped(path: Path) -> np.ndarray:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: is no array file, or damaged ({error})") from error
    if array.ndim < 1 or array.dtype.hasobject:
        raise DataError(f"{path}: holds {array.dtype}{list(array.shape)}; the first axis should be the examples")
    return array
