"""Where the units of a network stand in its vector of weights: what compaction can remove, a reduction can weigh."""

import math
from typing import Any

import numpy as np

from .calling import Buffers, Calling
from .coupling import Group, find_groups
from .graph import Graph
from .layout import Layout, float_leaves, named_leaves
from .links import Key
from .reading import read_graph
from .units import Part, Scattered, Units


def find_units(
    network: Any, buffers: Buffers, calling: Calling, layout: Layout, example: Any, preprocess: Any = None
) -> tuple[Units, ...]:
    """Hidden units, channels and attention heads, each with all the weights that go when it goes: those that make it and
    those that use it. Units that a normalisation takes together are not among them, since none can go alone."""
    graph = read_graph(network, buffers, calling, example, preprocess)
    leaves, places = float_leaves(network), layout.places()
    starts = {value: places[leaves[number]][0] for value, number in graph.parameters.items() if leaves[number] in places}
    names = parameter_names(network)
    found: list[Units] = []
    taken: set[Key] = set()
    for group in find_groups(graph):
        own = [key for key in group.labels if key[0] in graph.parameters]
        if group.mixed or len(group.free) < 2 or not taken.isdisjoint(own):
            continue
        parts = [part for value, start in starts.items() for part in _parts(graph, group, value, start)]
        if parts:
            taken.update(own)
            found.append(Units(place_name(graph, group, names), len(group.free), tuple(parts)))
    return tuple(found)


def parameter_names(network: Any) -> tuple[str, ...]:
    """What the parameters of a network's graph are called."""
    _, names = named_leaves(network)
    return tuple(names[leaf] for leaf in float_leaves(network))


def place_name(graph: Graph, group: Group, names: tuple[str, ...] = ()) -> str:
    """A place by the array that makes its units: `layers.0`, or `blocks.1.attention.project_in heads` where they are
    parts of its axis."""
    sources = {group.maker} & set(graph.parameters) or _sources(graph, group.maker)
    if not sources:
        return f"value {group.seed[0]}"
    value = min(sources)
    number = graph.parameters[value]
    name = names[number].removesuffix(".weight").removesuffix(".kernel") if names else f"array {number}"
    return f"{name} heads" if group.is_split else name


def _sources(graph: Graph, value: int) -> set[int]:
    """The parameters that a value is computed from."""
    made = graph.producers()
    waiting, found = [value], set()
    while waiting:
        each = waiting.pop()
        found |= {each} & set(graph.parameters)
        waiting += made[each].inputs if each in made else ()
    return found


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
