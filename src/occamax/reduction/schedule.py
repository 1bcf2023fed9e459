"""When to reduce. Epochs are counted from 0; a reduction comes before the epoch it is due at."""

from dataclasses import dataclass

from ..errors import ArgumentError


@dataclass(frozen=True)
class Every:
    """Before every `every`-th epoch from `first` on, up to but not including `until`. The default is the paper's:
    before every epoch but the first."""

    first: int = 1
    until: int | None = None
    every: int = 1

    def __post_init__(self):
        if self.first < 0 or self.every < 1:
            raise ArgumentError(f"first={self.first}, every={self.every}: `first` must be 0 or more, `every` 1 or more")

    def due(self, epoch: int) -> bool:
        return (
            epoch >= self.first
            and (self.until is None or epoch < self.until)
            and (epoch - self.first) % self.every == 0
        )
