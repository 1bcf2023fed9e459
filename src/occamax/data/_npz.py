"""A user's .npz file → a data set."""

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError, DataError
from ..storage.npz import ERRORS, read_npz
from ._arrays import make_splits
from ._dataset import Dataset, is_channels_last
from ._options import Options
from ._prints import file_print

INPUTS, TARGETS = ("x", "inputs", "images"), ("y", "targets", "labels")
TRAIN, TEST = ("train",), ("test", "val", "valid", "validation")  # the first that is there is the test set
LARGEST = 2**36  # bytes: more than that is for `open_arrays`
LAYOUT = "x and y, or x_train, y_train, x_test and y_test (or inputs and targets, images and labels)"


def open_npz(path: Path, options: Options) -> Dataset:
    """`x` and `y`, or `x_train`, `y_train`, `x_test`, `y_test`, or the same with inputs and targets, images and labels,
    the part's name before or after. Images (n, height, width, channels) and (n, height, width) of bytes are turned to
    (n, channels, height, width). Strings in `class_names` name the classes."""
    options.refuse("an .npz file", "target", "size")
    arrays = _read(path)
    lower = {name.lower(): name for name in arrays}
    train = _find(lower, TRAIN) or _find(lower, ("",))
    if train is None:
        raise DataError(f"{path}: holds {', '.join(arrays) or 'no arrays'}; it must hold {LAYOUT}")
    test = next((found for part in TEST if (found := _find(lower, (part,)))), None)
    used = [name for pair in (train, test) if pair is not None for name in pair]
    names = arrays[lower["class_names"]].ravel().tolist() if "class_names" in lower else None
    pairs, axes = _arranged([(arrays[pair[0]], arrays[pair[1]]) for pair in (train, test) if pair is not None])
    try:
        pairs = [(inputs, _for_task(targets, options.task)) for inputs, targets in pairs]
        splits, class_names = make_splits(pairs[0], pairs[1] if test else None, names, options)
    except ArgumentError as error:
        raise DataError(f"{path}: {error}") from error
    origin: dict[str, Any] = {"kind": "npz", "path": str(path.resolve()), "options": options.as_dict()}
    origin |= {"files": {path.name: file_print(path)}, "arrays": used, "axes": axes}
    origin |= {"unused": sorted(arrays.keys() - {*used, lower.get("class_names", "")})}
    return Dataset(path.stem, *splits, class_names, origin)


def _read(path: Path) -> dict[str, np.ndarray]:
    try:
        return read_npz(path, LARGEST)
    except (*ERRORS, OSError) as error:
        raise DataError(
            f"{path}: cannot be read ({error}). Write it with numpy.savez; arrays of numbers only."
        ) from error


def _find(names: dict[str, str], parts: tuple[str, ...]) -> tuple[str, str] | None:
    """The names of the inputs and the targets of this part, "" for all of the data."""
    for part in parts:
        for word, other in zip(INPUTS, TARGETS, strict=True):
            for form in ("{0}_{1}", "{1}_{0}") if part else ("{0}",):
                pair = form.format(word, part), form.format(other, part)
                if all(name in names for name in pair):
                    return names[pair[0]], names[pair[1]]
    return None


def _arranged(pairs: list[tuple[np.ndarray, np.ndarray]]) -> tuple[list[tuple[np.ndarray, np.ndarray]], str]:
    """Images with their channels in the second axis, and what was done in words."""
    first = pairs[0][0]
    if (first.dtype == np.uint8 or first.dtype.kind == "f") and is_channels_last(first):
        return [
            (np.ascontiguousarray(np.moveaxis(x, -1, 1)) if x.ndim == 4 else x, y) for x, y in pairs
        ], "channels moved from last to second"
    if first.dtype == np.uint8 and first.ndim == 3:
        return [(x[:, None] if x.ndim == 3 else x, y) for x, y in pairs], "a channel axis added"
    return pairs, "as they are"


def _for_task(targets: np.ndarray, task: str | None) -> np.ndarray:
    """Targets of the type that stands for the task: integers or texts for classes, floats for a regression."""
    if task == "regression" and targets.dtype.kind in "iub":
        return targets.astype(np.float32)
    if task == "regression" and targets.dtype.kind != "f":
        raise ArgumentError(f"targets: {targets.dtype}; a regression wants numbers")
    if task == "classification" and targets.dtype.kind == "f":
        whole = np.flatnonzero((targets != np.round(targets)).reshape(len(targets), -1).any(1))
        if len(whole):
            row = whole[0]
            raise ArgumentError(f"targets: row {row} (counted from 0) holds {targets[row]}; classes are whole numbers")
        return targets.astype(np.int64)
    return targets
