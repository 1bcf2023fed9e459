"""Data larger than memory: arrays on disk, of which only the batches are read."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import DataError


@dataclass(frozen=True, eq=False)
class Stream:
    """Examples in files, mapped, not read: **inputs** are some arrays that follow one another, **targets** one array in
    memory. `ox.open_arrays` makes one; `ox.fit` reads of it only the batches.

    Examples:
        >>> stream = ox.Stream((x[:100], x[100:]), y)
        >>> len(stream), stream.shape
        (300, (8,))
    """

    inputs: tuple[np.ndarray, ...]
    targets: np.ndarray

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one example."""
        return self.inputs[0].shape[1:]

    @property
    def bytes_each(self) -> int:
        """Of one example's inputs."""
        return int(np.prod(self.shape)) * self.inputs[0].dtype.itemsize

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The examples of these numbers, in the shape of `rows`."""
        flat = rows.ravel()
        starts = np.cumsum([0, *(len(part) for part in self.inputs)])
        part_of = np.searchsorted(starts, flat, side="right") - 1
        found = np.empty((flat.size, *self.shape), self.inputs[0].dtype)
        for i, part in enumerate(self.inputs):
            here = np.flatnonzero(part_of == i)
            here = here[np.argsort(flat[here])]  # in the order of the file
            found[here] = part[flat[here] - starts[i]]
        return found.reshape(*rows.shape, *self.shape), self.targets[rows]


def open_arrays(folder: Path | str) -> Stream:
    """A **folder** of `inputs.npy` and `targets.npy`, or of several of each (`inputs-0.npy`, `inputs-1.npy`, …, in the
    order of their names). Inputs are mapped into memory, so that only what is used is read.

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
