"""Which parts of a network stand and fall together: labels spread from one axis over all that are tied to it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from .graph import Graph, Node
from .links import OUTPUT, Key, Link, Merge, Stop, Tie, free_axes, links_of

NOWHERE = "is split in ways that do not fit"


@dataclass(frozen=True, eq=False)
class Group:
    """Units that were found along one axis, the `seed`. `labels` has for each key that they reach the unit of each
    index, -1 where it belongs to none. `blocked` says of units that cannot go why; `mixed` why all may be needed."""

    seed: Key
    maker: int  # the weight, or other value, that makes them
    count: int
    labels: dict[Key, np.ndarray]
    blocked: dict[int, str]
    mixed: str = ""
    part: int = 0  # where the axis that the weight makes is split: 1 for the outermost part, as heads are

    @property
    def free(self) -> np.ndarray:
        """The units that may go."""
        return np.array([unit for unit in range(self.count) if unit not in self.blocked], int)

    @property
    def is_output(self) -> bool:
        return OUTPUT in self.blocked.values()

    @property
    def why(self) -> str:
        """Why none may go."""
        return self.mixed or next(iter(self.blocked.values()), "")


def find_groups(graph: Graph) -> list[Group]:
    """The groups of units that products, convolutions and tables make, in the order of the graph. Where a reshape cuts
    up an axis, as into heads, the groups are those of its parts, the outer first: they share keys."""
    ties = links_of(graph)
    found: list[Group] = []
    seen: dict[Key, int] = {}  # key → the part of its group
    tried: set[Key] = set()
    for seed, maker in _seeds(graph):
        if seen.get(seed) == 0:
            continue
        waiting, part = [seed], 0
        while waiting:
            start = waiting.pop(0)
            if start in seen and start != seed:
                part = max(part, seen[start])
                continue
            if start in tried:
                continue
            tried.add(start)
            spread = _Spread(graph, ties, start)
            waiting = spread.splits + waiting
            if spread.splits:
                continue
            group = spread.group(maker, part + (start != seed))
            if start == seed or len(group.free):
                part = group.part
                found.append(group)
                seen = dict.fromkeys(group.labels, part) | seen
    return found


def _seeds(graph: Graph) -> Iterator[tuple[Key, int]]:
    """The axes of activations along which weights make something of their own."""
    depends = graph.dependent()
    for node in graph.nodes:
        if not depends.intersection(node.outputs) or len(node.outputs) != 1:
            continue
        for axis, maker in _made(graph, node, depends):
            if graph.shapes[node.output][axis] > 1:
                yield (node.output, axis), maker


def _made(graph: Graph, node: Node, depends: set[int]) -> list[tuple[int, int]]:
    if node.op == "dot":
        frees = free_axes(graph, node)
        return [(place, node.inputs[side]) for side, _, place in frees if node.inputs[side] not in depends]
    if node.op == "conv":
        return [(1, node.inputs[1])]
    if node.op == "take" and node.inputs[0] not in depends:
        before, count = node.attributes["axis"], len(graph.shapes[node.inputs[1]])
        axes = [axis for axis in range(len(graph.shapes[node.output])) if not before <= axis < before + count]
        return [(axis, node.inputs[0]) for axis in axes]
    return []


@dataclass(eq=False)
class _Spread:
    """Labels on their way through a graph, and which of them turned out to be one."""

    graph: Graph
    ties: dict[Key, list[Tie]]
    seed: Key
    labels: dict[Key, np.ndarray] = field(default_factory=dict)
    blocked: dict[int, str] = field(default_factory=dict)
    mixed: str = ""
    splits: list[Key] = field(default_factory=list)

    def __post_init__(self) -> None:
        size = self.graph.shapes[self.seed[0]][self.seed[1]]
        self.parent = np.arange(size)
        self.waiting: list[Key] = []
        self.put(self.seed, np.arange(size))
        while self.waiting:
            key = self.waiting.pop(0)
            for tie in self.ties.get(key, []):
                self.follow(key, tie)

    def put(self, key: Key, labels: np.ndarray) -> None:
        """Label what is not labelled; where it is, the two labels are one."""
        size = self.graph.shapes[key[0]][key[1]]
        old = self.labels.get(key, np.full(size, -1))
        both = (old >= 0) & (labels >= 0) & (self.parent[old] != self.parent[labels])
        if both.any():
            for first, second in zip(old[both], labels[both], strict=True):
                low, high = sorted((self.parent[first], self.parent[second]))
                self.parent[self.parent == high] = low
            self.waiting = list(self.labels)
        new = (old < 0) & (labels >= 0)
        if new.any():
            self.labels[key] = np.where(new, self.parent[labels], old)
            self.waiting.append(key)

    def follow(self, key: Key, tie: Tie) -> None:
        labels = self.parent_of(key)
        match tie:
            case Stop():
                if tie.mixes:
                    self.mixed = self.mixed or tie.reason
                else:
                    self.block(labels, tie.reason)
            case Link() if (indices := tie.indices) is None:
                self.put(tie.target if key == tie.source else tie.source, labels)
            case Link():
                self.pick(key, tie, indices)
            case Merge():
                self.merge(key, tie)

    def pick(self, key: Key, tie: Link, indices: np.ndarray) -> None:
        """Along a link that is not index by index."""
        labels, here = self.parent_of(key), indices >= 0
        if key == tie.source:
            self.put(tie.target, np.where(here, labels[indices], -1))
        if key == tie.target:
            back = np.full(self.graph.shapes[tie.source[0]][tie.source[1]], -1)
            known = here & (labels >= 0)
            back[indices[known]] = labels[known]
            self.put(tie.source, back)
            if known.any():  # several of the target may be one of the source
                self.put(tie.target, np.where(here, self.parent_of(tie.source)[indices], -1))

    def parent_of(self, key: Key) -> np.ndarray:
        labels = self.labels[key]
        return np.where(labels >= 0, self.parent[labels], -1)

    def block(self, labels: np.ndarray, reason: str) -> None:
        for unit in np.unique(labels[labels >= 0]):
            self.blocked.setdefault(int(unit), reason)

    def merge(self, key: Key, tie: Merge) -> None:
        """Through a reshape, to the one axis on the other side along which the labels vary."""
        side = 0 if key in tie.sides[0] else 1
        place = tie.sides[side].index(key)
        shape = [size if i == place else 1 for i, size in enumerate(tie.sizes[side])]
        labels = np.broadcast_to(self.parent_of(key).reshape(shape), tie.sizes[side]).reshape(tie.sizes[1 - side])
        varying = [axis for axis in range(labels.ndim) if (labels != labels.take([0], axis)).any()]
        if len(varying) == 1:
            first = tuple(slice(None) if axis == varying[0] else 0 for axis in range(labels.ndim))
            self.put(tie.sides[1 - side][varying[0]], labels[first])
        elif varying:
            self.splits += [each for each in tie.sides[1 - side] if each not in (*self.labels, *self.splits)]
            self.block(labels, NOWHERE)
        else:
            self.block(labels, "is all of its axis")

    def group(self, maker: int, part: int) -> Group:
        """With the units counted along the seed; one that is all of an axis cannot go."""
        labels = {key: self.parent_of(key) for key in self.labels}
        for each in labels.values():
            if (each == each[0]).all():
                self.block(each, "is all of its axis")
        names, first = np.unique(np.concatenate([labels[self.seed], *labels.values()]), return_index=True)
        names = [int(name) for _, name in sorted(zip(first, names, strict=True)) if name >= 0]
        numbers = np.full(len(self.parent) + 1, -1)  # the last stands for none
        numbers[names] = np.arange(len(names))
        blocked = {int(numbers[self.parent[unit]]): reason for unit, reason in self.blocked.items()}
        labels = {key: numbers[each] for key, each in labels.items()}
        return Group(self.seed, maker, len(names), labels, blocked, self.mixed, part)
