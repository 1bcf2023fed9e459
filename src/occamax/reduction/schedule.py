"""When to reduce. Epochs are counted from 0; a reduction comes before the epoch it is due at."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from ..errors import ArgumentError


class ReductionSchedule(ABC):
    """Base of all schedules of reductions: at which epochs one is due.

    Examples:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Halfway(ox.criteria.ReductionSchedule):
        ...     def due(self, epoch, epochs):
        ...         return epoch == epochs // 2
        >>> method = ox.BMR(reduction=ox.Reduction(ox.criteria.Evidence(), Halfway()))
    """

    @abstractmethod
    def due(self, epoch: int, epochs: int) -> bool:
        """Whether a reduction comes before this epoch of a run of `epochs`."""


@dataclass(frozen=True)
class Every(ReductionSchedule):
    """Before every **every**-th epoch from **first** on, up to but not including **until**. The default is the paper's:
    before every epoch but the first.

    Raises:
        ArgumentError: a negative first, or an `every` under one.

    Examples:
        >>> schedule = ox.criteria.Every(first=2, every=3)
        >>> [epoch for epoch in range(10) if schedule.due(epoch, 10)]
        [2, 5, 8]
    """

    first: int = 1
    until: int | None = None
    every: int = 1

    def __post_init__(self):
        if self.first < 0 or self.every < 1:
            raise ArgumentError(f"first={self.first}, every={self.every}: `first` must be 0 or more, `every` 1 or more")

    def due(self, epoch: int, epochs: int) -> bool:
        return (
            epoch >= self.first
            and (self.until is None or epoch < self.until)
            and (epoch - self.first) % self.every == 0
        )


@dataclass(frozen=True)
class Between(ReductionSchedule):
    """Before every epoch but the first that begins from share **begin** to share **end** of the run: the same share
    whatever the run's length.

    Raises:
        ArgumentError: shares out of order, or outside 0 to 1.

    Examples:
        >>> schedule = ox.criteria.Between(0.2, 0.5)
        >>> [epoch for epoch in range(10) if schedule.due(epoch, 10)]
        [2, 3, 4, 5]
    """

    begin: float = 0.0
    end: float = 1.0

    def __post_init__(self):
        if not 0.0 <= self.begin <= self.end <= 1.0:
            raise ArgumentError(f"begin={self.begin}, end={self.end}: they must lie in order between 0 and 1")

    def due(self, epoch, epochs):
        return epoch >= 1 and self.begin <= epoch / epochs <= self.end
