"""Dead units go for good: a graph with the same outputs and fewer numbers.

A unit that nothing looks at goes. A unit that is the same whatever comes in goes too, and what it adds to the sums that
it enters becomes a constant there. Removing one may free another, so it is repeated until nothing changes. Units that
stand together, as those of a residual stream do, go together. A branch that puts out a constant becomes that constant.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import ExportError
from .attention import align_heads, cut_before_split, cut_before_sum, drop_key_biases
from .cleaning import fold, prune, simplify
from .coupling import Group, find_groups
from .folding import fold_known, join_additions, take_inputs
from .graph import Graph, Node
from .knowledge import Fact, known, used
from .links import Key
from .naming import place_name
from .removal import Removed, remove, summed_axes
from .unrolling import names_of, unrolled

_GONE = "its branch puts out a constant"
# onnxruntime computes channels of convolutions four at a time: 29 of 32 take a fifth longer than 32, 28 as long; where
# there are few, each counts (1.31, one core, kernels of 3 × 3, by hand)
FOUR, FEW = 4, 12


@dataclass(frozen=True)
class Kept:
    """What became of the units of one place in the network."""

    where: str
    before: int
    after: int
    why: str = ""  # why they could not be removed


def compact(graph: Graph, names: Sequence[str] = ()) -> tuple[Graph, list[Kept]]:
    """The smaller graph, and what was removed where. The parameters must be bound; in the result they are constants.
    `names` are those of the parameters by number (`parameter_names`), for the report."""
    missing = sorted(number for value, number in graph.parameters.items() if value not in graph.constants)
    if missing:
        raise ExportError(f"graph: the parameters {missing} have no arrays; give them by `graph.bind`")
    graph, pieces = unrolled(graph)
    names = names_of(names, pieces) if names else names
    small = cut_before_sum(cut_before_split(prune(replace(graph, parameters={}))))
    places = [group for group in find_groups(small) if not group.is_output]
    sizes = {group.seed: small.shapes[group.seed[0]][group.seed[1]] for group in places}
    changed = True
    while changed:
        small = drop_key_biases(small)
        facts = known(small)
        small, changed = fold_known(small, facts)
        if not changed:
            small, changed = _smaller(small, facts)
    small, inputs = take_inputs(small, known(small))
    small = prune(small)
    report = [Kept(*line) for line in inputs]
    report += [_line(small, group, sizes[group.seed], place_name(graph, group, names)) for group in places]
    return _tidy(small), report


def _tidy(graph: Graph) -> Graph:
    """With as few constants as say the same."""
    graph = prune(simplify(join_additions(prune(simplify(graph)))))
    folded = fold(graph)  # what is made of constants alone; more numbers where one is used in several ways
    return folded if count(folded) <= count(graph) else graph


def _line(graph: Graph, group: Group, size: int, name: str) -> Kept:
    """What became of a place whose seed had so many indices."""
    value, axis = group.seed
    if value not in graph.shapes:
        return Kept(name, group.count, 0, _GONE)
    after = graph.shapes[value][axis] * group.count // size
    return Kept(name, group.count, after, group.why if after == group.count else "")


def _smaller(graph: Graph, facts: dict[int, Fact]) -> tuple[Graph, bool]:
    """The graph without its dead units, or ready to lose more; and whether there were any."""
    groups = find_groups(graph)
    uses = used(graph, facts)
    removed = _removable(graph, groups, facts, uses)
    if removed:
        return prune(remove(graph, removed, facts)), True
    return align_heads(graph, groups, facts, uses)


def _removable(graph: Graph, groups: list[Group], facts: dict[int, Fact], uses: dict[int, np.ndarray]) -> Removed:
    """The indices of the dead units of as many groups as do not get in each other's way."""
    depends = graph.dependent()
    removed: Removed = {}
    labelled: dict[Key, np.ndarray] = {}
    for group in groups:
        dead = _in_fours(graph, group, _dead(graph, group, facts, uses, depends))
        crossing = any((labelled[key] & (each >= 0)).any() for key, each in group.labels.items() if key in labelled)
        if not dead.any() or crossing:
            continue
        for key, labels in group.labels.items():
            here = labels >= 0
            gone = here & dead[labels]
            removed[key] = removed.get(key, False) | gone
            labelled[key] = labelled.get(key, False) | here
    return {key: gone for key, gone in removed.items() if gone.any()}


def _dead(
    graph: Graph, group: Group, facts: dict[int, Fact], uses: dict[int, np.ndarray], depends: set[int]
) -> np.ndarray:
    """Which units of a group can go, True for each. One always stays, and one of every axis."""
    dead = np.zeros(group.count, bool)
    dead[group.free] = True
    for (value, axis), labels in group.labels.items():
        if value in depends:
            alive = _any_but(uses[value] & facts[value].unknown, axis)
            dead[labels[alive & (labels >= 0)]] = False
    if dead.any():
        for node in graph.nodes:
            for key in summed_axes(graph, node):
                if key in group.labels and key[0] in depends:
                    labels = group.labels[key]
                    bound = _not_foldable(node, key, facts)
                    dead[labels[bound & (labels >= 0)]] = False
    waiting = True
    while waiting and dead.any():
        waiting = False
        for labels in group.labels.values():
            if (labels >= 0).all() and dead[labels].all():
                dead[labels[0]] = False
                waiting = True
    return dead


def _in_fours(graph: Graph, group: Group, dead: np.ndarray) -> np.ndarray:
    """The dead units of which so many stay, where they are channels of convolutions, that four divide what is left."""
    left = group.count - int(dead.sum())
    missing = -left % FOUR
    if left <= FEW or not missing or not _is_of_channels(graph, group):
        return dead
    staying = np.flatnonzero(dead)[:missing]
    return dead & ~np.isin(np.arange(group.count), staying)


def _is_of_channels(graph: Graph, group: Group) -> bool:
    convolutions = [node for node in graph.nodes if node.op == "conv"]
    return any(key in group.labels for node in convolutions for key in ((node.inputs[0], 1), (node.output, 1)))


def _any_but(mask: np.ndarray, axis: int) -> np.ndarray:
    return np.asarray(mask.any(tuple(other for other in range(mask.ndim) if other != axis)))


def _not_foldable(node: Node, key: Key, facts: dict[int, Fact]) -> np.ndarray:
    """Along an axis that is summed over: where what is known adds something that is not the same everywhere."""
    value, axis = key
    fact = facts[value]
    place = node.inputs.index(value)
    if node.op == "conv":
        axes = tuple(range(2, fact.value.ndim))
        padded = any(map(any, node.attributes["padding"])) or any(d != 1 for d in node.attributes["input_dilations"])
        reads = _any_but(facts[node.inputs[1]].nonzero, 1)
    elif node.op == "dot":
        contract, batch = node.attributes["contract"], node.attributes["batch"]
        axes = tuple(a for a in range(fact.value.ndim) if a not in contract[place] and a not in batch[place])
        padded = False
        reads = _any_but(facts[node.inputs[1 - place]].nonzero, contract[1 - place][contract[place].index(axis)])
    else:
        axes = tuple(a for a in range(fact.value.ndim) if a not in node.attributes["axes"])
        padded, reads = False, np.ones(fact.value.shape[axis], bool)
    varies = fact.value != 0 if padded else np.zeros(fact.value.shape, bool)
    for other in axes:
        varies = varies | (fact.value != fact.value.take([0], other))
    return _any_but(varies, axis) & reads


def count(graph: Graph) -> int:
    """How many floating-point numbers the constants of a graph hold."""
    return sum(int(array.size) for array in graph.arrays().values() if _is_real(array))


def count_nonzero(graph: Graph) -> int:
    """How many of them are not zero."""
    return sum(int(np.count_nonzero(array)) for array in graph.arrays().values() if _is_real(array))


def _is_real(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" or str(array.dtype) == "bfloat16"
