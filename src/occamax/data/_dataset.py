"""A data set: arrays, names, statistics, where it came from. Images stay bytes; `standardise` makes what a network's
inputs are made with."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Shaped

from ..errors import ArgumentError
from ._preprocess import AsIs, Preprocess, Standardise, StandardiseColumns

Statistics = tuple[tuple[float, ...], tuple[float, ...]]  # means, deviations
COUNTED = 2**20  # bytes of a channel that are counted at once
CONSTANT = 1e-7  # float32's spacing: a deviation below this share of a column's size is rounding


@dataclass(frozen=True, eq=False)
class Split:
    """Some examples: **inputs** uint8 images (n, channels, height, width), floats (n, columns) or (n, length,
    features), or integer tokens (n, length); **targets** int classes (n,), or floats (n,) or (n, outputs).

    Examples:
        >>> split = ox.Split(x, y)
        >>> len(split), split.rows(slice(10)).inputs.shape
        (300, (10, 8))
    """

    inputs: Shaped[np.ndarray, "n ..."]
    targets: Shaped[np.ndarray, "n ..."]

    def __len__(self) -> int:
        return len(self.targets)

    def rows(self, which: Any) -> "Split":
        """The examples of these numbers, or of this slice."""
        return Split(self.inputs[which], self.targets[which])


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples to train and to test on, their names, and where they came from. Made by `ox.load_data` or
    `ox.dataset_of`.

    **name** for tables; **train**, **test** are `Split`s; **class_names** is None for regression; **origin** is plain
    values, enough to open the set again; **feature_names** and **target_names** of a table's columns.

    Raises:
        ArgumentError: what is asked for does not go with these data, such as the classes of a regression.

    Examples:
        >>> data = ox.dataset_of((x, y), class_names=("no", "yes"))
        >>> data.shape, data.outputs, len(data.train), len(data.test)
        ((8,), 2, 240, 60)
        >>> validation = data.hold_out(40)  # to choose between recipes without a look at the test set
    """

    name: str
    train: Split
    test: Split
    class_names: tuple[str, ...] | None
    origin: dict[str, Any] = field(default_factory=dict)
    feature_names: tuple[str, ...] | None = None
    target_names: tuple[str, ...] | None = None

    @property
    def is_classification(self) -> bool:
        """Whether targets are classes."""
        return self.class_names is not None

    @property
    def classes(self) -> int:
        """How many there are."""
        if self.class_names is None:
            raise ArgumentError(f"{self.name}: a regression has no classes; `outputs` is the width of its target")
        return len(self.class_names)

    @property
    def outputs(self) -> int:
        """How many numbers the network must put out: one per class, or per column of a regression's target."""
        return self.classes if self.is_classification else int(np.prod(self.train.targets.shape[1:]))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one example."""
        return self.train.inputs.shape[1:]

    @cached_property
    def statistics(self) -> Statistics:
        """Mean and deviation over the training set: of each channel of images (bytes in units of 0 to 1), of each
        column of a table, of each feature of a sequence. A constant column has deviation 1."""
        inputs = self.train.inputs
        if _is_images(inputs):
            return byte_statistics(byte_counts(inputs))
        if not np.issubdtype(inputs.dtype, np.floating):
            raise ArgumentError(f"{self.name}: {inputs.dtype} tokens have no statistics; they are taken as they are")
        return _float_statistics(inputs, 1 + self._axis % (inputs.ndim - 1))

    @cached_property
    def target_statistics(self) -> Statistics:
        """Mean and deviation of each column of a regression's training targets. A constant one has deviation 1."""
        if self.is_classification:
            raise ArgumentError(f"{self.name}: classes have no mean; target_statistics is for regression")
        return _float_statistics(self.train.targets.reshape(len(self.train), -1), 1)

    @property
    def _axis(self) -> int:
        """Of an example of floats, the one that has its own mean: channels come first, columns and features last."""
        return -1 if len(self.shape) < 3 else 0

    def hold_out(self, count: int, seed: int = 0) -> "Dataset":
        """The last `count` of the shuffled training examples in place of the test set: for choosing between recipes
        without looking at the test set. The statistics are those of the remaining training examples."""
        if not 0 < count < len(self.train):
            raise ArgumentError(f"count: {count} given; it must lie between 0 and the {len(self.train)} examples")
        order = np.random.default_rng(seed).permutation(len(self.train))
        train, test = self.train.rows(order[:-count]), self.train.rows(order[-count:])
        return replace(self, train=train, test=test, origin=self._after("hold_out", count=count, seed=seed))

    def first(self, count: int) -> "Dataset":
        """Only the first `count` training examples, all of the test set."""
        if not 0 < count <= len(self.train):
            raise ArgumentError(f"count: {count} given; it must lie from 1 to the {len(self.train)} examples")
        return replace(self, train=self.train.rows(slice(count)), origin=self._after("first", count=count))

    def _after(self, step: str, **values: int) -> dict[str, Any]:
        """The origin, with one more thing done to the set since."""
        steps = [*self.origin.get("steps", []), {"step": step, **{name: int(value) for name, value in values.items()}}]
        return {**self.origin, "steps": steps} if self.origin else {}

    def standardise(self, size: int | None = None) -> Preprocess:
        """The preprocessing of one example: for images of bytes, padded to `size` × `size` if that is given, and for
        floats, to zero mean and unit deviation; integer tokens as they are."""
        inputs = self.train.inputs
        if _is_images(inputs):
            return Standardise(*self.statistics, pad=0 if size is None else padding(self.shape, size))
        if size is not None:
            raise ArgumentError(f"size: {size} given, but {self.name} holds {_kind(inputs)}, no images of bytes to pad")
        if inputs.dtype == np.uint8 and inputs.ndim == 3:
            raise ArgumentError(f"{self.name}: {_kind(inputs)}; grey images want a channel axis: inputs[:, None]")
        if np.issubdtype(inputs.dtype, np.floating):
            return StandardiseColumns(*self.statistics, axis=self._axis)
        return AsIs()


def padding(shape: tuple[int, ...], size: int) -> int:
    """Of black pixels on every side, so that images of this shape become `size` × `size`."""
    _, height, width = shape
    pad = (size - height) // 2
    if pad < 0 or (height + 2 * pad, width + 2 * pad) != (size, size):
        raise ArgumentError(
            f"size: {size} given, but images of {height} × {width} cannot be padded to it by as many pixels on every "
            f"side; open the data with size={size} to resize them"
        )
    return pad


def is_channels_last(inputs: np.ndarray) -> bool:
    """Whether these are (n, height, width, channels): the last axis 1 or 3, and the second not."""
    return inputs.ndim == 4 and inputs.shape[-1] in (1, 3) and inputs.shape[1] not in (1, 3)


def _is_images(inputs: np.ndarray) -> bool:
    is_images = inputs.dtype == np.uint8 and inputs.ndim == 4
    if is_images and is_channels_last(inputs):
        raise ArgumentError(f"inputs: {_kind(inputs)}; channels come first here: numpy.moveaxis(inputs, -1, 1)")
    return is_images


def _kind(inputs: np.ndarray) -> str:
    return f"{inputs.dtype} of shape ({', '.join(['n', *map(str, inputs.shape[1:])])})"


def byte_counts(inputs: np.ndarray) -> np.ndarray:
    """How often each byte is there, (channels, 256). A few images at a time: numpy counts eight bytes for one."""
    few = max(1, COUNTED // max(1, int(np.prod(inputs.shape[2:]))))
    pieces = [inputs[i : i + few] for i in range(0, len(inputs), few)]
    channels = range(inputs.shape[1])
    return np.array([sum(np.bincount(own[:, c].ravel(), minlength=256) for own in pieces) for c in channels])


def byte_statistics(counts: np.ndarray) -> Statistics:
    """Of each channel of images, in units of 0 to 1."""
    share = counts / counts.sum(1, keepdims=True)
    levels = np.arange(256) / 255.0
    mean = share @ levels
    std = np.sqrt(np.maximum(share @ levels**2 - mean**2, 0.0))  # rounding can make a constant's negative
    return tuple(mean.tolist()), tuple(np.maximum(std, 1e-6).tolist())


def _float_statistics(values: np.ndarray, axis: int) -> Statistics:
    others = tuple(i for i in range(values.ndim) if i != axis)
    mean = values.mean(others, dtype=np.float64)
    std = values.std(others, dtype=np.float64)
    std = np.where(std <= CONSTANT * np.abs(mean), 1.0, std)
    return tuple(mean.tolist()), tuple(np.where(std > 0, std, 1.0).tolist())
