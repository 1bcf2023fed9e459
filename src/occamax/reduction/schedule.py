"""When to reduce. Epochs are counted from 0; a reduction comes before the epoch it is due at."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from ..errors import ArgumentError


class ReductionSchedule(ABC):
    """Base of all schedules of reductions."""

    @abstractmethod
    def due(self, epoch: int, epochs: int) -> bool:
        """Whether a reduction comes before this epoch of a run of `epochs`."""


@dataclass(frozen=True)
class Every(ReductionSchedule):
    """Before every `every`-th epoch from `first` on, up to but not including `until`. The default is the paper's:
    before every epoch but the first."""

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
    """Before every epoch but the first that begins from share `begin` to share `end` of the run: the same share
    whatever the run's length."""

    begin: float = 0.0
    end: float = 1.0

    def __post_init__(self):
        if not 0.0 <= self.begin <= self.end <= 1.0:
            raise ArgumentError(f"begin={self.begin}, end={self.end}: they must lie in order between 0 and 1")

    def due(self, epoch, epochs):
        return epoch >= 1 and self.begin <= epoch / epochs <= self.end
