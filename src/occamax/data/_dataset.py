"""A data set: arrays, names, statistics. Bytes stay bytes; `Standardise` makes one example a network's input."""

from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from ..errors import ArgumentError


@dataclass(frozen=True, eq=False)
class Split:
    inputs: UInt8[np.ndarray, "n channels height width"]
    targets: Int[np.ndarray, "n"]

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True, eq=False)
class Dataset:
    name: str
    train: Split
    test: Split
    class_names: tuple[str, ...]

    @property
    def classes(self) -> int:
        return len(self.class_names)

    @property
    def shape(self) -> tuple[int, int, int]:
        channels, height, width = self.train.inputs.shape[1:]
        return channels, height, width

    @cached_property
    def statistics(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and deviation of each channel over the training set, in units of 0 to 1."""
        channels = self.train.inputs.shape[1]
        counts = np.stack([np.bincount(self.train.inputs[:, c].ravel(), minlength=256) for c in range(channels)])
        share = counts / counts.sum(1, keepdims=True)
        levels = np.arange(256) / 255.0
        mean = share @ levels
        std = np.sqrt(share @ levels**2 - mean**2)
        return tuple(mean.tolist()), tuple(np.maximum(std, 1e-6).tolist())

    def hold_out(self, count: int, seed: int = 0) -> "Dataset":
        """The last `count` of the shuffled training examples in place of the test set: for choosing between recipes
        without looking at the test set. The statistics are those of the remaining training examples."""
        if not 0 < count < len(self.train):
            raise ArgumentError(f"count: {count} given; it must lie between 0 and the {len(self.train)} examples")
        order = np.random.default_rng(seed).permutation(len(self.train))
        kept, held = order[:-count], order[-count:]
        parts = [Split(self.train.inputs[rows], self.train.targets[rows]) for rows in (kept, held)]
        return Dataset(self.name, parts[0], parts[1], self.class_names)

    def first(self, count: int) -> "Dataset":
        """Only the first `count` training examples, all of the test set."""
        if not 0 < count <= len(self.train):
            raise ArgumentError(f"count: {count} given; it must lie from 1 to the {len(self.train)} examples")
        train = Split(self.train.inputs[:count], self.train.targets[:count])
        return Dataset(self.name, train, self.test, self.class_names)

    def standardise(self, size: int | None = None) -> "Standardise":
        """The preprocessing for a network that takes images of `size` × `size`, or of any size."""
        return Standardise(*self.statistics, pad=0 if size is None else (size - self.shape[1]) // 2)


@dataclass(frozen=True)
class Standardise:
    """Bytes → zero mean and unit deviation per channel, after `pad` pixels of black on every side."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    pad: int = 0

    def __call__(self, image: UInt8[Array, "channels height width"]) -> Float[Array, "channels height2 width2"]:
        image = jnp.pad(image, ((0, 0), (self.pad, self.pad), (self.pad, self.pad)))
        mean, std = (jnp.array(values, jnp.float32).reshape(-1, 1, 1) for values in (self.mean, self.std))
        return (image.astype(jnp.float32) / 255.0 - mean) / std
