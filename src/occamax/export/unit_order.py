"""In which order units go when a network must become faster: the fewest nats for a microsecond first."""

from collections.abc import Sequence

import numpy as np

from ..structure.units import Units
from .unit_times import Clock, microseconds_each

SHARE = 8  # one in so many of the units that are left goes before costs and losses are looked at again
NO_TIME = 1e-6  # microseconds of a unit without which the network was no faster: it goes last

Item = tuple[int, int]  # which kind, which unit of it


class UnitOrder:
    """Units of all kinds of a network with these `weights`, zero where they are gone, each of which loses so many nats
    when it goes. What a unit costs is measured once for its kind, as microseconds for each number that it has in a file
    without the units that are gone: as others go, it has fewer."""

    def __init__(self, kinds: Sequence[Units], weights: np.ndarray, losses: np.ndarray, clock: Clock):
        self.kinds, self.weights, self.losses = kinds, weights, losses
        self.living = [kind.sums((weights != 0).astype(np.float32)) > 0 for kind in kinds]
        dead = [(k, int(unit)) for k, own in enumerate(self.living) for unit in np.flatnonzero(~own)]
        self.dead = self.marked(dead)
        each = microseconds_each(clock, kinds, weights, self.living)
        numbers = [float(kind.sums((~self.dead).astype(np.float32)).max()) for kind in kinds]
        self.per_number = [one / max(many, 1.0) for one, many in zip(each, numbers, strict=True)]

    def sequence(self) -> list[Item]:
        """All units that may go, in order."""
        living, found, gone = [own.copy() for own in self.living], [], self.dead
        while True:
            there, losing = (~gone).astype(np.float32), np.where(gone, np.float32(0), self.losses)
            items = np.concatenate([self._rows(k, own, there, losing) for k, own in enumerate(living)])
            if not len(items):
                return found
            order = np.argsort(items[:, 2], kind="stable")[: -(-len(items) // SHARE)]
            for kind, unit in items[order, :2].astype(int).tolist():
                if living[kind].sum() > self.kinds[kind].least:
                    living[kind][unit] = False
                    found.append((kind, unit))
            gone = gone | self.marked(found)

    def _rows(self, kind: int, living: np.ndarray, there: np.ndarray, losing: np.ndarray) -> np.ndarray:
        """Kind, unit, and nats for a microsecond, of each unit that may go."""
        units = self.kinds[kind]
        if living.sum() <= units.least:
            return np.zeros((0, 3))
        costs = units.sums(there) * self.per_number[kind]
        ratio = units.sums(losing) / np.maximum(costs, NO_TIME)
        own = np.flatnonzero(living)
        return np.stack([np.full(len(own), kind), own, ratio[own]], 1)

    def marked(self, items: Sequence[Item]) -> np.ndarray:
        """The weights that go with these units, True."""
        gone = np.zeros(len(self.weights), bool)
        for number, kind in enumerate(self.kinds):
            flags = np.zeros(kind.count, bool)
            flags[[unit for own, unit in items if own == number]] = True
            gone = gone | kind.flagged(len(gone), flags) if flags.any() else gone
        return gone

    def counted(self, items: Sequence[Item]) -> dict[str, int]:
        """How many of each kind, by its name."""
        counts = [sum(own == number for own, _ in items) for number in range(len(self.kinds))]
        return {kind.name: count for kind, count in zip(self.kinds, counts, strict=True)}

    def loss(self, gone: np.ndarray) -> float:
        """Nats, as the posterior says of each weight by itself."""
        return float(self.losses[gone].sum())

    def network(self, items: Sequence[Item]) -> np.ndarray:
        """The weights when these units are gone."""
        return np.where(self.marked(items), np.float32(0), self.weights)
