"""How data is opened, and how its rows are parted into training and test examples."""

import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

from ..errors import ArgumentError
from ..names import choose

TASKS = ("classification", "regression")


@dataclass(frozen=True)
class Options:
    """What a user may say about a file or a folder. **target** the column of a table to predict. **task** one of TASKS.
    **test_share** of the examples, where no test set is given. **size** (height, width), or both in one number, to
    which images are resized. **seed** of the split."""

    target: str | None = None
    task: str | None = None
    test_share: float = 0.2
    size: Any = None
    seed: int = 0

    def __post_init__(self):
        if self.task is not None:
            choose("task", self.task, TASKS)
        if not isinstance(self.test_share, numbers.Real) or not 0 < float(self.test_share) < 1:
            raise ArgumentError(f"test_share: {self.test_share!r} given; it must lie between 0 and 1, say 0.2")
        if not _is_whole(self.seed) or self.seed < 0:
            raise ArgumentError(f"seed: {self.seed!r} given; it must be a whole number from 0")
        if self.size is not None:
            sides = (self.size, self.size) if _is_whole(self.size) else self.size
            if not isinstance(sides, tuple | list) or len(sides) != 2 or not all(_is_whole(s) and s > 0 for s in sides):
                raise ArgumentError(f"size: {self.size!r} given; it must be (height, width) or one number, from 1")
            object.__setattr__(self, "size", tuple(int(side) for side in sides))

    def refuse(self, kind: str, *names: str) -> None:
        """An error if one of these was given: it means nothing for this kind of data."""
        for name in names:
            if getattr(self, name) is not None:
                raise ArgumentError(f"{name}: {getattr(self, name)!r} given; it means nothing for {kind}, leave it out")

    def as_dict(self) -> dict[str, Any]:
        size = None if self.size is None else list(self.size)
        share, seed = float(self.test_share), int(self.seed)
        return {"target": self.target, "task": self.task, "test_share": share, "size": size, "seed": seed}

    def part(self, targets: Shaped[np.ndarray, "n ..."]) -> tuple[Int[np.ndarray, "train"], Int[np.ndarray, "test"]]:
        """Row numbers, ascending, of the training and the test examples: `test_share` of each class (of at least two
        examples at least one on either side; a single one is for training), or of all rows of a regression."""
        if len(targets) < 2:
            raise ArgumentError(f"targets: {len(targets)} examples cannot be split; give a test set, or more examples")
        if np.issubdtype(targets.dtype, np.integer):
            groups = [np.flatnonzero(targets == value) for value in np.unique(targets)]
        else:
            groups = [np.arange(len(targets))]
        rng = np.random.default_rng(self.seed)
        test = np.sort(np.concatenate([self._test_of(group, rng) for group in groups]))
        if not len(test):
            raise ArgumentError("targets: no class has two examples, so none can be tested; give a test set")
        return np.setdiff1d(np.arange(len(targets)), test), test

    def _test_of(self, group: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        count = min(max(round(float(self.test_share) * len(group)), 1), len(group) - 1)
        return rng.permutation(group)[:count]


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
