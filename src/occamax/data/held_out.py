"""Which training examples are held out: evenly spaced, without copying any. The one place that knows."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class HeldOut:
    """Of `examples` the last of every `spacing` is held out; 0 holds out none."""

    examples: int
    spacing: int = 0

    @property
    def count(self) -> int:
        return self.examples // self.spacing if self.spacing else 0

    @property
    def trained(self) -> int:
        """How many are left to train on."""
        return self.examples - self.count

    @property
    def places(self) -> np.ndarray:
        """Which examples are held out."""
        return np.arange(self.spacing - 1, self.examples, self.spacing) if self.spacing else np.arange(0)

    def places_trained(self, numbers: Any) -> Any:
        """The numbers 0, 1, 2, … of the examples that are left → their places among all."""
        return numbers + numbers // (self.spacing - 1) if self.spacing else numbers
