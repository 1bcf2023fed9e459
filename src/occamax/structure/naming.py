"""What a place with units is called: by the array that makes them."""

from collections.abc import Sequence

from .coupling import Group
from .graph import Graph


def place_name(graph: Graph, group: Group, names: Sequence[str] = ()) -> str:
    """`layers.0`, or `blocks.1.attention.project_in heads` where the units are parts of an axis, `stem groups` where a
    convolution makes them, whose channels a normalisation takes in groups; `array 3` without
    names. `graph` has the parameters; `names` are theirs, by number."""
    sources = _sources(graph, group.maker)
    if not sources:
        return f"value {group.seed[0]}"
    number = graph.parameters[min(sources)]
    name = names[number].removesuffix(".weight").removesuffix(".kernel") if names else f"array {number}"
    makes_channels = any(node.op == "conv" and group.maker in node.inputs for node in graph.nodes)
    words = ("", " groups", " channels of a group") if makes_channels else ("", " heads", " depths", " more depths")
    return name + words[min(group.part, len(words) - 1)]


def _sources(graph: Graph, value: int) -> set[int]:
    """The parameters that a value is computed from."""
    made = graph.producers()
    waiting, found = [value], set()
    while waiting:
        each = waiting.pop()
        found |= {each} & set(graph.parameters)
        waiting += made[each].inputs if each in made else ()
    return found
