"""Gathers and dynamic slices of jax as nodes of a graph; a lookup along one axis becomes `take`."""

from .builder import Builder
from .graph import Shape
from .sizes import Equation


def gather(builder: Builder, equation: Equation, inputs: list[int]) -> int:
    numbers = equation.first.params["dimension_numbers"]
    attributes = {
        "offset": numbers.offset_dims,
        "collapsed": numbers.collapsed_slice_dims,
        "map": numbers.start_index_map,
        "operand_batch": numbers.operand_batching_dims,
        "indices_batch": numbers.start_indices_batching_dims,
    }
    attributes = {name: tuple(map(int, axes)) for name, axes in attributes.items()}
    sizes, shape = equation["slice_sizes"], builder.shapes[inputs[0]]
    mode = "fill" if "FILL" in str(equation.first.params["mode"]) else "clip"
    # along an axis whose slice is as long as the axis there is only one place to start
    moving = [axis for axis in attributes["map"] if sizes[axis] != shape[axis]]
    if len(moving) == 1 and sizes[moving[0]] == 1 and not attributes["operand_batch"]:
        at = attributes["map"].index(moving[0])
        taken = _take(builder, inputs, moving[0], at, mode)
        return _arranged(builder, taken, moving[0], attributes["offset"], attributes["collapsed"], equation.shape)
    return builder.emit("gather", inputs, equation.shape, equation.dtype, **attributes, sizes=sizes, mode=mode)


def _take(builder: Builder, inputs: list[int], axis: int, at: int, mode: str) -> int:
    """`numpy.take` by the numbers that stand at `at` in the indices' last axis."""
    operand, indices = inputs
    places = builder.shapes[indices][:-1]
    numbers = builder.reshape(builder.slice_axis(indices, len(places), at, at + 1), places)
    shape = builder.shapes[operand]
    shape = shape[:axis] + places + shape[axis + 1 :]
    return builder.emit("take", (operand, numbers), shape, builder.dtypes[operand], axis=axis, mode=mode)


def _arranged(builder: Builder, taken: int, axis: int, offset: Shape, collapsed: Shape, shape: Shape) -> int:
    """The axes of a `take` in the order of the gather that it was, whose slices' axes stand at `offset`."""
    rank = len(offset) + len(collapsed)
    kept = [each for each in range(rank) if each not in collapsed]
    places = [f"place {i}" for i in range(len(shape) - len(offset))]
    here = [*(i for i in kept if i < axis), *places, *(i for i in kept if i >= axis)]
    sources = iter(kept), iter(places)
    there = [next(sources[0]) if position in offset else next(sources[1]) for position in range(len(shape))]
    sizes = dict(zip(there, shape, strict=True))
    lined = builder.reshape(taken, tuple(sizes[label] for label in here))
    return builder.transpose(lined, tuple(here.index(label) for label in there))


def dynamic_slice(builder: Builder, equation: Equation, inputs: list[int]) -> int:
    return builder.emit("dynamic_slice", inputs, equation.shape, equation.dtype, sizes=equation["slice_sizes"])


def dynamic_update(builder: Builder, equation: Equation, inputs: list[int]) -> int:
    return builder.emit("dynamic_update", inputs, equation.shape, equation.dtype)
