"""A user's arrays → a data set, checked row by row before any work."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ._dataset import Dataset, Split
from ._options import Options

Pair = tuple[Any, Any]  # inputs, targets
PARTS = ("train", "test")


def dataset_of(
    train: Pair,
    test: Pair | None = None,
    *,
    class_names: Sequence[str] | None = None,
    name: str = "arrays",
    test_share: float = 0.2,
    seed: int = 0,
    feature_names: Sequence[str] | None = None,
    target_names: Sequence[str] | None = None,
) -> Dataset:
    """A data set of arrays, the first axis the examples.

    **train**, **test** inputs and targets. Floats become float32, integers int32 tokens, bytes stay bytes; images are
    (n, channels, height, width). Integer, boolean or text targets (n,) are classes, float targets (n,) or (n, outputs)
    a regression. Without **test**, `test_share` of each class is set aside by `seed`. **class_names** of the classes 0,
    1, …; their numbers unless given. **name** for tables, **feature_names** and **target_names** of columns.

    Raises:
        ArgumentError: arrays that cannot be trained on; the row is named.

    Examples:
        >>> data = ox.dataset_of((x, x[:, 0] * 2.0))  # floats: a regression
        >>> data.is_classification, data.outputs
        (False, 1)
    """
    options = Options(test_share=test_share, seed=seed)
    parts, names = make_splits(train, test, class_names, options)
    origin = {
        "kind": "arrays",
        "digest": _digest(parts),
        **{n: _describe(p) for n, p in zip(PARTS, parts, strict=True)},
    }
    if test is None:
        origin["split"] = {"test_share": options.test_share, "seed": options.seed}
    made = Dataset(
        name, *parts, names, origin, _labels("feature_names", feature_names), _labels("target_names", target_names)
    )
    for argument, given, wanted in (
        ("feature_names", made.feature_names, made.shape[-1]),
        ("target_names", made.target_names, 1 if made.is_classification else made.outputs),
    ):
        if given is not None and len(given) != wanted:
            raise ArgumentError(f"{argument}: {len(given)} names given for {wanted} columns")
    return made


def make_splits(
    train: Pair, test: Pair | None, class_names: Sequence[str] | None, options: Options
) -> tuple[tuple[Split, Split], tuple[str, ...] | None]:
    """The training and the test examples, checked, and the names of their classes."""
    pairs = [_pair(name, pair) for name, pair in zip(PARTS, (train, test), strict=True) if pair is not None]
    inputs = [_inputs(name, pair[0]) for name, pair in zip(PARTS, pairs, strict=False)]
    targets, names = _targets([pair[1] for pair in pairs], class_names)
    splits = [Split(*both) for both in zip(inputs, targets, strict=True)]
    if len(splits) == 1:
        splits = [splits[0].rows(rows) for rows in options.part(targets[0])]
    for what in ("inputs", "targets"):
        ours, theirs = (getattr(split, what) for split in splits)
        if ours.shape[1:] != theirs.shape[1:] or ours.dtype != theirs.dtype:
            kinds = [f"{array.dtype}{list(array.shape[1:])}" for array in (theirs, ours)]
            raise ArgumentError(
                f"test {what}: examples of {kinds[0]}, those for training of {kinds[1]}; make them alike"
            )
    return (splits[0], splits[1]), names


def _pair(name: str, pair: Any) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ArgumentError(f"{name}: {type(pair).__name__} given; it must be a pair (inputs, targets)")
    try:
        inputs, targets = (np.asarray(values) for values in pair)
    except ValueError as error:
        raise ArgumentError(f"{name}: is no array ({error}); all examples must have one shape") from error
    counts = [len(array) if array.ndim else 0 for array in (inputs, targets)]
    if counts[0] != counts[1] or not counts[0]:
        raise ArgumentError(f"{name}: {counts[0]} inputs, {counts[1]} targets; give as many of both, at least one")
    return inputs, targets


def _inputs(name: str, array: np.ndarray) -> np.ndarray:
    argument = f"{name} inputs"
    if array.ndim < 2:
        raise ArgumentError(
            f"{argument}: shape {array.shape}; the first axis is the examples, so write inputs[:, None]"
        )
    if not array.size:
        raise ArgumentError(f"{argument}: shape {array.shape} holds no numbers")
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind in "fb":
        return _floats(argument, array)
    if array.dtype.kind not in "iu":
        raise ArgumentError(f"{argument}: {array.dtype} given; they must be numbers: floats, integer tokens or bytes")
    if array.ndim > 3:
        raise ArgumentError(
            f"{argument}: {array.dtype}{list(array.shape[1:])}; images are uint8 from 0 to 255, or floats"
        )
    return _integers(argument, array)


def _floats(argument: str, array: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        found = array.astype(np.float32, copy=False)
    bad = np.flatnonzero(~np.isfinite(found.reshape(len(found), -1)).all(1))
    if len(bad):
        row = array[bad[0]].ravel()
        value = row[~np.isfinite(found[bad[0]].ravel())][0]
        why = "no finite float32" if np.isfinite(value) else "not finite"
        raise ArgumentError(
            f"{argument}: row {bad[0]} (counted from 0) holds {value}, {why} ({len(bad)} such rows); "
            "correct or remove them"
        )
    return found


def _integers(argument: str, array: np.ndarray) -> np.ndarray:
    limits = np.iinfo(np.int32)
    bad = np.flatnonzero(((array < limits.min) | (array > limits.max)).reshape(len(array), -1).any(1))
    if len(bad):
        raise ArgumentError(f"{argument}: row {bad[0]} (counted from 0) holds a number beyond {limits.max}; use floats")
    return array.astype(np.int32, copy=False)


def _targets(
    arrays: list[np.ndarray], class_names: Sequence[str] | None
) -> tuple[list[np.ndarray], tuple[str, ...] | None]:
    """Classes as int32 (n,) with their names, or floats with None."""
    names = _labels("class_names", class_names)
    arrays = [array.astype(str) if _is_text(array) else array for array in arrays]
    kinds = {{"b": "i", "u": "i"}.get(array.dtype.kind, array.dtype.kind) for array in arrays}
    if kinds == {"f"}:
        if names is not None:
            raise ArgumentError("class_names: given, but the targets are floats; make the targets integers")
        if max(array.ndim for array in arrays) > 2:
            raise ArgumentError(f"train targets: shape {arrays[0].shape}; a regression's are (n,) or (n, outputs)")
        return [_floats(f"{part} targets", array) for part, array in zip(PARTS, arrays, strict=False)], None
    if kinds not in ({"i"}, {"U"}):
        found = ", ".join(str(array.dtype) for array in arrays)
        raise ArgumentError(f"targets: {found} given; they must be integers or texts (classes), or floats (regression)")
    flat = [array[:, 0] if array.shape[1:] == (1,) else array for array in arrays]
    if any(array.ndim != 1 for array in flat):
        raise ArgumentError(
            f"train targets: shape {arrays[0].shape}; classes are (n,): numpy.argmax(targets, 1) if one-hot"
        )
    if kinds == {"U"}:
        names = names or tuple(np.unique(np.concatenate(flat)).tolist())
        flat = [_numbers_of(part, array, names) for part, array in zip(PARTS, flat, strict=False)]
    return [_classes(part, array, names) for part, array in zip(PARTS, flat, strict=False)], names or _numbered(flat)


def _is_text(array: np.ndarray) -> bool:
    return array.dtype.kind == "O" and all(isinstance(value, str) for value in array.ravel())


def _numbers_of(part: str, texts: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    number = {name: i for i, name in enumerate(names)}
    for row, text in enumerate(texts.tolist()):
        if text not in number:
            raise ArgumentError(f"{part} targets: row {row} (counted from 0) holds {text!r}, no name in class_names")
    return np.array([number[text] for text in texts.tolist()], np.int32)


def _classes(part: str, array: np.ndarray, names: tuple[str, ...] | None) -> np.ndarray:
    array = _integers(f"{part} targets", array.astype(np.int32) if array.dtype == bool else array)
    last = array.max() if names is None else len(names) - 1
    bad = np.flatnonzero((array < 0) | (array > last))
    if len(bad):
        raise ArgumentError(
            f"{part} targets: row {bad[0]} (counted from 0) holds class {array[bad[0]]}; classes are numbered from 0"
            + ("" if names is None else f" to {last}, as class_names has {len(names)}")
        )
    return array


def _numbered(arrays: list[np.ndarray]) -> tuple[str, ...]:
    """Names of classes that have none. Numbers far apart are no classes, but somebody's identifiers."""
    seen = np.unique(np.concatenate(arrays))
    count = int(seen[-1]) + 1
    if count < 2:
        raise ArgumentError(
            "targets: all are class 0; there must be two classes or more, or class_names that name them"
        )
    if count > 2 * len(seen):
        raise ArgumentError(
            f"targets: {len(seen)} different classes, but numbers up to {count - 1}; number them from 0 to "
            f"{len(seen) - 1}, or give class_names, or floats for a regression"
        )
    return tuple(map(str, range(count)))


def _labels(argument: str, values: Sequence[str] | None) -> tuple[str, ...] | None:
    if values is None:
        return None
    names = tuple(map(str, values))
    if isinstance(values, str) or len(set(names)) != len(names) or not names:
        raise ArgumentError(f"{argument}: {values!r} given; it must be a sequence of different names")
    return names


def _describe(split: Split) -> dict[str, Any]:
    arrays = {"inputs": split.inputs, "targets": split.targets}
    return {name: {"shape": list(array.shape), "dtype": str(array.dtype)} for name, array in arrays.items()}


def _digest(splits: tuple[Split, Split]) -> str:
    digest = hashlib.sha256()
    for split in splits:
        for array in (split.inputs, split.targets):
            digest.update(f"{array.dtype.name}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
