"""A network as one flat list of operations: what its roles, its units, its compaction and its exports are read from.

Plain data, no jax. A value is a number. A size below zero in a shape stands for the batch: -k is k times the batch
size, so -1 is the batch itself. The vocabulary and its attributes are in `vocabulary.py`; `trace.py` makes graphs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import ExportError

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Node:
    """One operation. `attributes` holds numbers, words, tuples of them, and the `Graph`s of bodies."""

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def output(self) -> int:
        """The only output."""
        (output,) = self.outputs
        return output

    def bodies(self) -> dict[str, "Graph"]:
        """The graphs inside this node, by the name of their attribute (branches: `branches.0`, `branches.1` …)."""
        found = {}
        for name, value in self.attributes.items():
            if isinstance(value, Graph):
                found[name] = value
            elif isinstance(value, tuple) and value and isinstance(value[0], Graph):
                found |= {f"{name}.{i}": body for i, body in enumerate(value)}
        return found


@dataclass(frozen=True)
class Graph:
    """Nodes in the order in which they are computed, and what their values are.

    `inputs` are the examples, a batch of each. `parameters` says for a value which array of the network it is. A
    parameter that also stands in `constants` is bound; one that does not must be given to `evaluate`.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: dict[int, np.ndarray]
    parameters: dict[int, int]
    shapes: dict[int, Shape]
    dtypes: dict[int, str]

    def bind(self, arrays: Mapping[int, Any]) -> "Graph":
        """Give parameters their arrays, by leaf number. Shapes must agree; what is not named stays unbound."""
        unknown = set(arrays) - set(self.parameters.values())
        if unknown:
            raise ExportError(
                f"arrays: no parameter {sorted(unknown)}; the graph has {sorted(self.parameters.values())}"
            )
        bound = {}
        for value, leaf in self.parameters.items():
            if leaf in arrays:
                array = np.asarray(arrays[leaf])
                if array.shape != self.shapes[value]:
                    raise ExportError(
                        f"arrays: parameter {leaf} has shape {self.shapes[value]}, given was {array.shape}"
                    )
                bound[value] = array
        return replace(self, constants=self.constants | bound)

    def producers(self) -> dict[int, Node]:
        """The node that computes each value; inputs, constants and parameters have none."""
        return {output: node for node in self.nodes for output in node.outputs}

    def consumers(self) -> dict[int, list[Node]]:
        """The nodes that read each value, in order."""
        found: dict[int, list[Node]] = {value: [] for value in self.shapes}
        for node in self.nodes:
            for value in dict.fromkeys(node.inputs):
                found[value].append(node)
        return found

    def dependent(self, values: "set[int] | None" = None) -> set[int]:
        """Every value computed from one of `values` (the inputs unless told), these included."""
        reached = set(self.inputs) if values is None else set(values)
        for node in self.nodes:
            if reached.intersection(node.inputs):
                reached.update(node.outputs)
        return reached

    def walk(self) -> Iterator["Graph"]:
        """This graph and every graph inside it."""
        yield self
        for node in self.nodes:
            for body in node.bodies().values():
                yield from body.walk()

    def arrays(self) -> dict[str, np.ndarray]:
        """The constants, bound parameters among them, by value number; a body's as `<node>.<attribute>.<value>`."""
        found = {str(value): array for value, array in self.constants.items()}
        for place, node in enumerate(self.nodes):
            for name, body in node.bodies().items():
                found |= {f"{place}.{name}.{key}": array for key, array in body.arrays().items()}
        return found

    def as_dict(self) -> dict[str, Any]:
        """What JSON can hold; `arrays` holds the rest."""
        return {
            "nodes": [[node.op, list(node.inputs), list(node.outputs), _plain(node.attributes)] for node in self.nodes],
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "constants": list(self.constants),
            "parameters": {str(value): leaf for value, leaf in self.parameters.items()},
            "values": {str(value): [list(self.shapes[value]), self.dtypes[value]] for value in self.shapes},
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> "Graph":
        """The graph of `as_dict()` and `arrays()`."""

        def inside(prefix: str) -> dict[str, np.ndarray]:
            return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}

        def node(place: int, op: str, inputs: list, outputs: list, attributes: dict) -> Node:
            restored = {name: _restored(value, f"{place}.{name}.", inside) for name, value in attributes.items()}
            return Node(op, tuple(inputs), tuple(outputs), restored)

        missing = [value for value in stored["constants"] if str(value) not in arrays]
        if missing:
            raise ExportError(f"arrays: no array for the values {missing} of the stored graph; the file is damaged")
        return cls(
            nodes=tuple(node(place, *entry) for place, entry in enumerate(stored["nodes"])),
            inputs=tuple(stored["inputs"]),
            outputs=tuple(stored["outputs"]),
            constants={value: arrays[str(value)] for value in stored["constants"]},
            parameters={int(value): leaf for value, leaf in stored["parameters"].items()},
            shapes={int(value): tuple(shape) for value, (shape, _) in stored["values"].items()},
            dtypes={int(value): dtype for value, (_, dtype) in stored["values"].items()},
        )


def sized(size: int | Shape, batch: int) -> Any:
    """A size, or a shape, with the batch size put in."""
    if isinstance(size, tuple):
        return tuple(sized(each, batch) for each in size)
    return -size * batch if size < 0 else size


def _plain(value: Any) -> Any:
    if isinstance(value, Graph):
        return {"graph": value.as_dict()}
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _restored(value: Any, prefix: str, inside: Any) -> Any:
    if isinstance(value, dict):
        return Graph.from_dict(value["graph"], inside(prefix))
    if isinstance(value, list):
        return tuple(_restored(each, f"{prefix}{i}.", inside) for i, each in enumerate(value))
    return value
