"""Where the units of a network stand in its vector of weights: what compaction can remove, a reduction can weigh."""

import math
from typing import Any

import numpy as np

from .blocks import branch_name, find_branches
from .calling import Buffers, Calling
from .coupling import Group, find_groups
from .graph import Graph
from .layout import Layout, float_leaves, named_leaves
from .links import Key
from .naming import place_name
from .reading import read_graph
from .units import Part, Scattered, Units
from .unrolling import Piece, names_of, unrolled


def find_units(
    network: Any, buffers: Buffers, calling: Calling, layout: Layout, example: Any, preprocess: Any = None
) -> tuple[Units, ...]:
    """Hidden units, channels and attention heads, each with all the weights that go when it goes: those that make it
    and those that use it. Units that a normalisation takes together are not among them, since none can go alone. Then
    the branches of sums, as the blocks of a residual network are: each is a kind of its own, with one unit."""
    graph, pieces = unrolled(read_graph(network, buffers, calling, example, preprocess))
    leaves, places = float_leaves(network), layout.places()
    starts = _starts(graph, pieces, {number: places[leaf][0] for number, leaf in enumerate(leaves) if leaf in places})
    names = names_of(parameter_names(network), pieces)
    found: list[Units] = []
    taken: dict[Key, np.ndarray] = {}
    for group in find_groups(graph):
        own = {key: labels >= 0 for key, labels in group.labels.items() if key[0] in graph.parameters}
        if group.mixed or len(group.free) < 2 or any((taken.get(key, False) & here).any() for key, here in own.items()):
            continue
        parts = [part for value, start in starts.items() for part in _parts(graph, group, value, start)]
        if parts:
            taken |= {key: here | taken.get(key, False) for key, here in own.items()}
            found.append(Units(place_name(graph, group, names), len(group.free), tuple(parts)))
    ends = {leaves.index(leaf) for leaf in layout.blocks[-1].leaves}
    last = {value for value, number in graph.parameters.items() if pieces[number].array in ends}
    return (*found, *_branches(graph, starts, last, names))


def _starts(graph: Graph, pieces: dict[int, Piece], places: dict[int, int]) -> dict[int, int]:
    """Where each parameter begins in the vector. `places`: of each array of the network, by number."""
    of = {value: pieces[number] for value, number in graph.parameters.items()}
    return {value: places[piece.array] + piece.start for value, piece in of.items() if piece.array in places}


def _branches(graph: Graph, starts: dict[int, int], last: set[int], names: tuple[str, ...]) -> list[Units]:
    """The branches of sums as units; one with the output layer in it stays. `starts`: parameter → its place in the
    vector; `last`: the parameters of the output layer."""
    found = []
    for branch in find_branches(graph):
        own = [value for value in branch.parameters if value in starts]
        if own and last.isdisjoint(own):
            parts = tuple(Part(starts[value], 1, math.prod(graph.shapes[value])) for value in own)
            named = [
                value for value in own if len(graph.shapes[value]) > 1
            ] or own  # what the branch does, not its scales
            name = branch_name([names[graph.parameters[value]] for value in named])
            found.append(Units(name, 1, parts, least=0))
    return found


def parameter_names(network: Any) -> tuple[str, ...]:
    """What the parameters of a network's graph are called."""
    _, names = named_leaves(network)
    return tuple(names[leaf] for leaf in float_leaves(network))


def _parts(graph: Graph, group: Group, value: int, start: int) -> list[Part | Scattered]:
    """The places of one array's numbers in the vector, by unit. A number that two axes count stands there once."""
    shape, count = graph.shapes[value], len(group.free)
    numbers = np.full(group.count + 1, -1)
    numbers[group.free] = np.arange(count)
    keys = [key for key in group.labels if key[0] == value]
    flat = [_flat(shape, key[1], numbers[group.labels[key]]) for key in keys]
    regular = [_regular(labels, count, start) for labels in flat]
    if len(keys) == 1 and regular[0] is not None:
        return [regular[0]]
    pairs = [np.stack([np.flatnonzero(labels >= 0), labels[labels >= 0]]) for labels in flat]
    if not pairs or not sum(pair.size for pair in pairs):
        return []
    owned = np.unique(np.concatenate(pairs, 1), axis=1)
    return [Scattered(tuple((owned[0] + start).tolist()), tuple(owned[1].tolist()))]


def _flat(shape: tuple[int, ...], axis: int, labels: np.ndarray) -> np.ndarray:
    before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    return np.tile(np.repeat(labels, after), before)


def _regular(labels: np.ndarray, count: int, start: int) -> Part | None:
    """One label a number as (before, units, after), where it is that."""
    other = np.flatnonzero(labels != labels[0])
    after = int(other[0]) if len(other) else len(labels)
    before, rest = divmod(len(labels), count * after)
    if rest or not np.array_equal(labels, np.tile(np.repeat(np.arange(count), after), before)):
        return None
    return Part(start, before, after)
