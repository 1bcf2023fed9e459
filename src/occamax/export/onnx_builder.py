"""An ONNX graph while it is made: nodes, constants, and layout steps that cancel before they are written.

Arrays of few different values are stored as a codebook and small integers (`onnx_codes.py`), others that are mostly
zero as their other values and the steps between them, five bytes a value. The graph spreads them out from constants
alone, which onnxruntime does once, when it loads the file: what runs is dense.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..structure.graph import Shape
from .onnx_codes import rising, smallest_form, unfold

LONGEST = 255  # step between two values of a packed array
OVERHEAD = 600  # bytes of the nodes that spread one packed array out
UNIFORM = 64  # numbers from which on an array of one number is stored as that number
Value = str | np.ndarray  # the name of a result, or a constant that is not stored yet


class Builder:
    """Collects nodes while a graph is walked. A size below zero in a shape stands for the batch, as in graphs."""

    def __init__(self, packed: bool = True, int8: bool = False):
        self.packed, self.int8 = packed, int8
        self.first: list[onnx.NodeProto] = []  # from constants and the input alone: they stand before all others
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.shapes: dict[str, Shape] = {}
        self.dtypes: dict[str, str] = {}
        self.made: dict[str, tuple[str, tuple[Value, ...], dict[str, Any]]] = {}
        self._stored: dict[Any, str] = {}
        self._count = 0
        self._batch: str | None = None

    def input(self, name: str, shape: Shape, dtype: str) -> str:
        self.shapes[name], self.dtypes[name] = shape, dtype
        return name

    def new(self, shape: Shape, dtype: str) -> str:
        """A name for a result."""
        name = f"x{self._count}"
        self._count += 1
        self.shapes[name], self.dtypes[name] = tuple(shape), dtype
        return name

    def add(self, operation: str, inputs: Sequence[Value], shape: Shape, dtype: str, **attributes: Any) -> str:
        """One more node with one output."""
        (name,) = self.add_many(operation, inputs, [(shape, dtype)], **attributes)
        self.made[name] = (operation, tuple(inputs), attributes)
        return name

    def add_many(
        self, operation: str, inputs: Sequence[Value], results: Sequence[tuple[Shape, str]], **attributes: Any
    ) -> list[str]:
        names = [self.new(*result) for result in results]
        self.nodes.append(helper.make_node(operation, [self.name(x) for x in inputs], names, **attributes))
        return names

    def like(self, operation: str, x: Value, *more: Value, **attributes: Any) -> str:
        """A node whose output has the shape and type of its first input."""
        return self.add(operation, (x, *more), self.shape_of(x), self.dtype_of(x), **attributes)

    def name(self, x: Value) -> str:
        return x if isinstance(x, str) else self.constant(x)

    def shape_of(self, x: Value) -> Shape:
        return self.shapes[x] if isinstance(x, str) else x.shape

    def dtype_of(self, x: Value) -> str:
        return self.dtypes[x] if isinstance(x, str) else str(x.dtype)

    @contextmanager
    def body(self) -> Iterator[list[onnx.NodeProto]]:
        """Inside, nodes go to a list of their own: those of a loop's or a branch's graph."""
        outer, self.nodes = self.nodes, []
        try:
            yield self.nodes
        finally:
            self.nodes = outer

    # constants

    def constant(self, array: np.ndarray) -> str:
        """An array; one that is mostly zero, or one number throughout, is packed if the file is to be `packed`."""
        array = np.asarray(array, order="C")
        key = (str(array.dtype), array.shape, hashlib.blake2b(array.tobytes()).digest())
        if key not in self._stored:
            self._stored[key] = self._packed(array) if self.packed else self._store(array)
        return self._stored[key]

    def _packed(self, array: np.ndarray) -> str:
        if array.dtype == np.int8:
            form = smallest_form(array.astype(np.float32))
            if form is None or form.nbytes + OVERHEAD >= array.nbytes:
                return self._store(array)
            return self._early("Cast", unfold(form, self._shared, self._early), to=TensorProto.INT8)
        if array.dtype != np.float32:
            return rising(array, self._shared, self._early) or self._store(array)
        if array.size > UNIFORM and (array == array.flat[0]).all():
            shape = self._store(np.array(array.shape, np.int64))
            return self._early("Expand", self._store(array.ravel()[:1]), shape)
        form = smallest_form(array)
        if form is not None:
            return unfold(form, self._shared, self._early)
        values, steps = steps_between(array.ravel())
        if values.nbytes + steps.nbytes + OVERHEAD >= array.nbytes:
            return self._store(array)
        size = self._store(np.array([array.size], np.int64))
        wide = self._early("Cast", self._store(steps), to=TensorProto.INT64)
        places = self._early("CumSum", wide, self._store(np.array(0, np.int64)))
        empty = self._early("ConstantOfShape", size)
        spread = self._early("ScatterElements", empty, places, self._store(values), axis=0)
        return self._early("Reshape", spread, self._store(np.array(array.shape, np.int64)))

    def _shared(self, array: np.ndarray) -> str:
        """A constant as it is; one that is there already is not stored again."""
        key = ("plain", str(array.dtype), array.shape, array.tobytes())
        if key not in self._stored:
            self._stored[key] = self._store(array)
        return self._stored[key]

    def _store(self, array: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def _early(self, operation: str, *inputs: str, **attributes: Any) -> str:
        name = self.new((), "")
        self.first.append(helper.make_node(operation, list(inputs), [name], **attributes))
        return name

    # layout

    def reshape(self, x: Value, shape: Shape) -> Value:
        if isinstance(x, np.ndarray):
            return x.reshape(shape)
        while self.is_made_by(x, "Reshape"):
            x = str(self.made[x][1][0])
        if self.shapes[x] == tuple(shape):
            return x
        return self.add("Reshape", (x, self._sizes(self.shapes[x], tuple(shape))), shape, self.dtypes[x])

    def _sizes(self, before: Shape, after: Shape) -> Value:
        """The shape that Reshape takes: 0 copies the size that is there, -1 is whatever is left."""
        copied = [size < 0 and before[i : i + 1] == (size,) for i, size in enumerate(after)]
        sizes = [0 if same else -1 if size < 0 else size for size, same in zip(after, copied, strict=True)]
        return np.array(sizes, np.int64) if sizes.count(-1) <= 1 else self.sizes(after)

    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        if isinstance(x, np.ndarray):
            return x.transpose(axes)
        shape = self.shapes[x]
        after = tuple(shape[axis] for axis in axes)
        moving = [axis for axis in axes if shape[axis] != 1]
        if moving == sorted(moving):
            return self.reshape(x, after)
        if self.is_made_by(x, "Reshape") and len(moving) < len(shape):  # it can leave the axes of size one out as well
            ranks = {axis: rank for rank, axis in enumerate(sorted(moving))}
            bare = str(self.reshape(x, tuple(shape[axis] for axis in sorted(moving))))
            return self.reshape(self._turned(bare, [ranks[axis] for axis in moving]), after)
        return self._turned(x, list(axes))

    def is_made_by(self, x: Value, operation: str) -> bool:
        return isinstance(x, str) and x in self.made and self.made[x][0] == operation

    def _turned(self, x: str, axes: list[int]) -> Value:
        if self.is_made_by(x, "Transpose"):
            _, (source,), attributes = self.made[x]
            return self.transpose(source, [attributes["perm"][axis] for axis in axes])
        return self.add("Transpose", (x,), tuple(self.shapes[x][axis] for axis in axes), self.dtypes[x], perm=axes)

    def sizes(self, shape: Shape) -> Value:
        """A shape as a vector, with the batch size put in."""
        if min(shape, default=0) >= 0:
            return np.array(shape, np.int64)
        parts: list[Value] = []
        for size in shape:
            parts.append(self._times_batch(-size) if size < 0 else np.array([size], np.int64))
        return self.add("Concat", parts, (len(parts),), "int64", axis=0)

    def _times_batch(self, times: int) -> str:
        if self._batch is None:
            source = next(name for name, shape in self.shapes.items() if shape[:1] == (-1,))
            self._batch = self._early("Shape", source, start=0, end=1)
            self.shapes[self._batch], self.dtypes[self._batch] = (1,), "int64"
        return self._batch if times == 1 else self.like("Mul", self._batch, np.array([times], np.int64))


def steps_between(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The values of a vector that are not zero, and the step from each to the next as one byte; where a step is longer,
    a zero on the way is counted as a value."""
    places = np.flatnonzero(flat)
    gaps = np.diff(places, prepend=0)
    stops = np.maximum(gaps - 1, 0) // LONGEST  # zeros to stand on before each value
    ends = np.cumsum(stops + 1) - 1
    values, steps = np.zeros(len(places) + stops.sum(), flat.dtype), np.full(len(places) + stops.sum(), LONGEST)
    values[ends], steps[ends] = flat[places], gaps - stops * LONGEST
    return values, steps.astype(np.uint8)


def needed(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> tuple[list[onnx.NodeProto], set[str]]:
    """The nodes that the outputs need, in order, and every name that they read."""
    names = set(outputs)
    kept = []
    for node in reversed(nodes):
        if names.intersection(node.output):
            kept.append(node)
            names.update(_read(node))
    return kept[::-1], names


def _read(node: onnx.NodeProto) -> set[str]:
    found = set(node.input)
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            found |= {output.name for output in attribute.g.output}
            found |= {name for inner in attribute.g.node for name in _read(inner)}
    return found
