"""A graph while it is being made."""

from typing import Any

import numpy as np

from .graph import Graph, Node, Shape


class Builder:
    """Nodes, values and constants as they come; `graph` gives the finished thing."""

    def __init__(self, allow_unknown: bool = False):
        self.allow_unknown = allow_unknown
        self.nodes: list[Node] = []
        self.shapes: dict[int, Shape] = {}
        self.dtypes: dict[int, str] = {}
        self.constants: dict[int, np.ndarray] = {}
        self.scalars: dict[tuple[str, bytes], int] = {}  # constants that are one number, by what they are
        self.depends: set[int] = set()  # values that depend on the input

    def value(self, shape: Shape, dtype: str, depends: bool = False) -> int:
        number = len(self.shapes)
        self.shapes[number] = tuple(int(size) for size in shape)
        self.dtypes[number] = dtype
        if depends:
            self.depends.add(number)
        return number

    def constant(self, array: np.ndarray) -> int:
        key = (str(array.dtype), array.tobytes())
        if array.ndim == 0 and key in self.scalars:
            return self.scalars[key]
        number = self.value(array.shape, str(array.dtype))
        self.constants[number] = array
        if array.ndim == 0:
            self.scalars[key] = number
        return number

    def emit(self, op: str, inputs: tuple[int, ...] | list[int], shape: Shape, dtype: str, /, **attributes: Any) -> int:
        """One more node with one output."""
        return self.emit_many(op, inputs, [(shape, dtype)], **attributes)[0]

    def emit_many(
        self, op: str, inputs: tuple[int, ...] | list[int], results: list[tuple[Shape, str]], /, **attributes: Any
    ) -> list[int]:
        depends = not self.depends.isdisjoint(inputs)
        outputs = [self.value(shape, dtype, depends) for shape, dtype in results]
        self.nodes.append(Node(op, tuple(inputs), tuple(outputs), attributes))
        return outputs

    def reshape(self, value: int, shape: Shape) -> int:
        return self.emit("reshape", (value,), shape, self.dtypes[value], shape=tuple(shape))

    def transpose(self, value: int, axes: tuple[int, ...]) -> int:
        shape = tuple(self.shapes[value][axis] for axis in axes)
        return self.emit("transpose", (value,), shape, self.dtypes[value], axes=tuple(axes))

    def slice(self, value: int, starts: Shape, stops: Shape, steps: Shape, shape: Shape) -> int:
        dtype = self.dtypes[value]
        return self.emit("slice", (value,), shape, dtype, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps))

    def slice_axis(self, value: int, axis: int, start: int, stop: int) -> int:
        """A cut along one axis."""
        shape = self.shapes[value]
        starts = tuple(start if i == axis else 0 for i in range(len(shape)))
        stops = tuple(stop if i == axis else size for i, size in enumerate(shape))
        new = tuple(stop - start if i == axis else size for i, size in enumerate(shape))
        return self.slice(value, starts, stops, (1,) * len(shape), new)

    def graph(self, inputs: list[int], outputs: list[int], parameters: dict[int, int]) -> Graph:
        return Graph(
            nodes=tuple(self.nodes),
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            constants=dict(self.constants),
            parameters=parameters,
            shapes=dict(self.shapes),
            dtypes=dict(self.dtypes),
        )
