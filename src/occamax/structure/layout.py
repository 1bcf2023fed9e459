"""A network as one vector.

A `Layout` says where each random array of a network stands in one flat vector. A *block* is one layer: its weight, then
its bias. What an array is (a matrix, a kernel, a gain, a bias …) is read from how the traced program uses it, so this
holds for any network. Everything after this file works on the vector; nothing there knows what a ViT is.

    layout = Layout.of(network, roles)
    vector = layout.pack(network)
    network = layout.bind(network, vector)      # the inverse; its gradient is one concatenation
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import equinox as eqx
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from ..errors import LayoutError
from ..names import choose
from .roles import Role

T = TypeVar("T")
Fixed = Callable[[Any], Any] | Sequence[str] | None
PRODUCTS = ("matmul", "conv")  # kinds whose last one used is the output layer
MOST_WEIGHTS = 2**31  # places in the vector, and counts of them, have 32 bits


@dataclass(frozen=True)
class Block:
    """One layer's weights, as a matrix of `rows` outputs by `columns` inputs with the bias, if any, as a last column.

    In the vector the weight comes first, in its own order, then the bias. `output_axes` are the axes of the weight that
    count its outputs; a gain (of a normalisation) has one column. `fan_in` is what one output is summed over.

    **name** of the layer, **kind** of use (`matmul`, `conv`, `gain`, `bias`, …), **weight_shape**, **bias_shape** (None
    without one), **weight_leaf** and **bias_leaf** their numbers among the network's leaves.

    Examples:
        >>> block = fitted.model.layout.blocks[0]
        >>> block.name, block.rows, block.columns, block.size
        ('layers.0', 16, 8, 144)
    """

    name: str
    kind: str
    weight_shape: tuple[int, ...]
    bias_shape: tuple[int, ...] | None
    output_axes: tuple[int, ...]
    fan_in: int
    weight_leaf: int = field(repr=False, default=0)
    bias_leaf: int | None = field(repr=False, default=None)

    @property
    def is_gain(self) -> bool:
        """Whether it is the gain of a normalisation."""
        return self.kind == "gain"

    @property
    def rows(self) -> int:
        """How many outputs it has."""
        return math.prod(self.weight_shape[axis] for axis in self.output_axes)

    @property
    def columns(self) -> int:
        """How many inputs an output has."""
        return math.prod(self.weight_shape) // self.rows

    @property
    def size(self) -> int:
        """How many numbers it takes in the vector, bias included."""
        return sum(self.piece_sizes)

    @property
    def piece_sizes(self) -> tuple[int, ...]:
        """How many numbers the weight takes, then the bias if there is one."""
        return (self.rows * self.columns,) + ((self.rows,) if self.bias_shape is not None else ())

    @property
    def leaves(self) -> tuple[int, ...]:
        """The numbers of its arrays among the network's leaves."""
        return (self.weight_leaf,) + ((self.bias_leaf,) if self.bias_leaf is not None else ())

    @property
    def has_rows_first(self) -> bool:
        """Whether the weight's numbers stand row by row, as outputs × inputs."""
        return self.output_axes == tuple(range(len(self.output_axes)))

    def as_matrix(self, weight: Array) -> Array:
        """The weight's numbers as rows × columns."""
        shaped = weight.reshape(self.weight_shape)
        return jnp.moveaxis(shaped, self.output_axes, range(len(self.output_axes))).reshape(self.rows, self.columns)

    def spread(self, rows: Array) -> Array:
        """One number a row → one for each number of the weight, in its own order."""
        if self.has_rows_first:
            return jnp.broadcast_to(rows[:, None], (self.rows, self.columns)).reshape(-1)
        sizes = [self.weight_shape[axis] if axis in self.output_axes else 1 for axis in range(len(self.weight_shape))]
        ordered = sorted(self.output_axes)
        shaped = rows.reshape([self.weight_shape[axis] for axis in self.output_axes])
        shaped = jnp.transpose(shaped, [self.output_axes.index(axis) for axis in ordered])
        return jnp.broadcast_to(shaped.reshape(sizes), self.weight_shape).reshape(-1)


@dataclass(frozen=True)
class Layout:
    """Where each random weight of a network stands in one vector. Immutable and hashable: static under `jit`. The last
    of the **blocks** is the output layer: the last product that the network computes. **fixed** are the names of float
    arrays that the user named as fixed: they stay as they are. **is_normalised** where the network normalises its
    activations.

    Raises:
        LayoutError: a network that cannot be laid out, or a vector of another length.

    Examples:
        >>> layout = fitted.model.layout
        >>> layout.names, layout.sizes
        (('layers.0', 'layers.1'), (144, 34))
        >>> vector = layout.pack(network)  # (178,)
        >>> same = layout.bind(network, vector)
    """

    blocks: tuple[Block, ...]
    fixed: tuple[str, ...] = ()
    is_normalised: bool = field(default=False, compare=False)

    def __post_init__(self):
        if self.size >= MOST_WEIGHTS:
            raise LayoutError(
                f"network: has {self.size:,} random weights; they are counted in 32 bits, so there must be fewer than "
                f"{MOST_WEIGHTS:,}. Name parts of it in `fixed`."
            )

    @staticmethod
    def of(network: Any, roles: Sequence[Role], fixed: Fixed = None) -> "Layout":
        """Every floating-point array of `network` is random, or named by `fixed`.

        **roles** what each array is, in the order of the network's floating-point leaves (`structure.read_roles`).
        **fixed** names arrays or whole sub-networks that stay as they are, in the manner of `equinox.tree_at`:
        `lambda network: (network.encoder, network.temperature)`; or is their names.
        """
        leaves, names = named_leaves(network)
        kept = _fixed_leaves(network, fixed)
        numbers = float_leaves(network)
        random = {leaf: role for leaf, role in zip(numbers, roles, strict=True) if leaf not in kept}
        _refuse_unknown(random, names)
        _refuse_shared(list(random), leaves, names)
        blocks = _blocks(random, numbers, leaves, names)
        if not blocks:
            raise LayoutError(
                f"network: {type(network).__name__} has no floating-point array that is random. A network without "
                "weights cannot be trained; check what `fixed` names."
            )
        return Layout(blocks, tuple(names[leaf] for leaf in numbers if leaf in kept))

    @property
    def size(self) -> int:
        """How many weights there are."""
        return sum(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many weights each block has."""
        return tuple(block.size for block in self.blocks)

    @property
    def names(self) -> tuple[str, ...]:
        """The blocks' names."""
        return tuple(block.name for block in self.blocks)

    @property
    def row_counts(self) -> tuple[int, ...]:
        """How many outputs each block has."""
        return tuple(block.rows for block in self.blocks)

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """Start and stop of each block in the vector."""
        stops = np.cumsum(self.sizes).tolist()
        return tuple(zip([0, *stops[:-1]], stops, strict=True))

    def as_data(self) -> list[dict[str, Any]]:
        """What a run folder keeps of it."""
        return [asdict(block) for block in self.blocks]

    @staticmethod
    def from_data(lines: Sequence[dict[str, Any]]) -> "Layout":
        """The layout that `as_data` told of."""
        return Layout(tuple(_block_from(line) for line in lines))

    def pack(self, network: Any) -> Float[Array, "weights"]:
        """The network's weights as one vector, in at least float32."""
        leaves = jtu.tree_leaves(network)
        pieces = [jnp.ravel(leaves[leaf]) for block in self.blocks for leaf in block.leaves]
        dtype = jnp.promote_types(jnp.result_type(*pieces), jnp.float32)
        return jnp.concatenate([piece.astype(dtype) for piece in pieces])

    def bind(self, network: T, vector: Float[Array, "weights"]) -> T:
        """`network` with its random weights taken from `vector`."""
        if vector.shape != (self.size,):
            raise LayoutError(f"vector: shape {vector.shape}, but this layout has {self.size} weights")
        leaves, tree = jtu.tree_flatten(network)
        for leaf, piece in self._pieces(vector):
            leaves[leaf] = piece.reshape(leaves[leaf].shape).astype(leaves[leaf].dtype)
        return jtu.tree_unflatten(tree, leaves)

    def places(self) -> dict[int, tuple[int, int]]:
        """Each random leaf of the network → start and stop of its numbers in the vector."""
        sizes = [size for block in self.blocks for size in block.piece_sizes]
        stops = np.cumsum(sizes).tolist()
        leaves = [leaf for block in self.blocks for leaf in block.leaves]
        return dict(zip(leaves, zip([0, *stops[:-1]], stops, strict=True), strict=True))

    def _pieces(self, vector: Array) -> Iterable[tuple[int, Array]]:
        """Each leaf number with its part of the vector. `lax.split` transposes to one concatenation."""
        sizes = [size for block in self.blocks for size in block.piece_sizes]
        return zip([leaf for block in self.blocks for leaf in block.leaves], lax.split(vector, sizes), strict=True)

    def split(self, vector: Array) -> list[Array]:
        """The vector cut into its blocks."""
        return list(lax.split(vector, self.sizes))

    def matrices(self, vector: Array) -> list[Array]:
        """Each block as its matrix (rows, columns), the bias as the last column. For looking at, not for training."""
        found = []
        for block, segment in zip(self.blocks, self.split(vector), strict=True):
            weight, *bias = lax.split(segment, block.piece_sizes)
            found.append(jnp.concatenate([block.as_matrix(weight), *(b.reshape(-1, 1) for b in bias)], axis=1))
        return found

    def blocks_to_weights(self, values: Float[Array, "blocks"]) -> Float[Array, "weights"]:
        """One number a block → one a weight. By way of the rows: the transpose then sums in two stages, which keeps a
        GPU busy also where a batch of seeds would leave it one long sum a seed and block."""
        return self.rows_to_weights(self.blocks_to_rows(values))

    def blocks_to_rows(self, values: Float[Array, "blocks"]) -> Float[Array, "rows"]:
        """One number a block → one an output row."""
        return jnp.concatenate([jnp.broadcast_to(values[i], (rows,)) for i, rows in enumerate(self.row_counts)])

    def totals(self, vector: Array) -> Array:
        """One number a weight → its sum over each block."""
        return jnp.stack([jnp.sum(segment) for segment in self.split(vector)])

    def rows_to_weights(self, values: Float[Array, "rows"]) -> Float[Array, "weights"]:
        """One number an output row, all blocks in turn → one a weight."""
        pieces = []
        for block, rows in zip(self.blocks, lax.split(values, self.row_counts), strict=True):
            pieces.append(block.spread(rows))
            if block.bias_shape is not None:
                pieces.append(rows)
        return jnp.concatenate(pieces)

    def flags(self, chosen: Callable[[Block], bool]) -> Bool[np.ndarray, "weights"]:
        """True for every weight of the chosen blocks."""
        return np.repeat([chosen(block) for block in self.blocks], self.sizes)

    def gains(self) -> Bool[np.ndarray, "weights"]:
        """True where a weight multiplies a normalised activation, so that one, not zero, is its neutral value."""
        flags = [
            np.full(size, block.is_gain and i == 0) for block in self.blocks for i, size in enumerate(block.piece_sizes)
        ]
        return np.concatenate(flags)

    def row_groups(self, block: int) -> np.ndarray:
        """For each weight of a block its output row, in the order of the vector."""
        own = self.blocks[block]
        rows = np.arange(own.rows)
        return np.concatenate([np.asarray(own.spread(jnp.asarray(rows)))] + [rows] * (own.bias_shape is not None))

    def column_groups(self, block: int) -> np.ndarray:
        """For each weight of a block its input column; the bias is the last column."""
        own = self.blocks[block]
        matrix = np.arange(own.rows * own.columns).reshape(own.weight_shape)
        places = np.moveaxis(matrix, own.output_axes, range(len(own.output_axes))).reshape(own.rows, own.columns)
        columns = np.empty(matrix.size, int)
        columns[places] = np.arange(own.columns)
        return np.concatenate([columns] + [np.full(own.rows, own.columns)] * (own.bias_shape is not None))


def _block_from(line: dict[str, Any]) -> Block:
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in line.items()}
    return Block(**values)


def named_leaves(network: Any) -> tuple[list[Any], list[str]]:
    """The leaves of a network and their names."""
    pairs = jtu.tree_flatten_with_path(network)[0]
    return [leaf for _, leaf in pairs], [jtu.keystr(path, simple=True, separator=".") for path, _ in pairs]


def float_leaves(network: Any) -> list[int]:
    """The numbers of the leaves that are real floating-point arrays. Complex ones are refused: none is forgotten."""
    leaves, names = named_leaves(network)
    for leaf, name in zip(leaves, names, strict=True):
        if eqx.is_inexact_array(leaf) and not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise LayoutError(
                f"network: {name} has type {leaf.dtype}; only real floating-point arrays can be random. "
                "Store real and imaginary parts as two arrays."
            )
    return [number for number, leaf in enumerate(leaves) if eqx.is_inexact_array(leaf)]


def _fixed_leaves(network: Any, fixed: Fixed) -> set[int]:
    leaves, names = named_leaves(network)
    if fixed is None:
        return set()
    if not callable(fixed):
        chosen = [choose("fixed", name, names) for name in fixed]
        return {names.index(name) for name in chosen}
    try:
        named = fixed(jtu.tree_unflatten(jtu.tree_structure(network), list(range(len(leaves)))))
    except Exception as error:
        raise LayoutError(
            f"fixed: cannot be applied to this network ({type(error).__name__}: {error}). It should return arrays or "
            "parts of the network, such as lambda network: (network.encoder,)"
        ) from error
    return {leaf for leaf in jtu.tree_leaves(named) if isinstance(leaf, int) and eqx.is_array(leaves[leaf])}


def _blocks(random: dict[int, Role], numbers: list[int], leaves: list, names: list[str]) -> tuple[Block, ...]:
    """A block for each array that is no bias of another, in the order of use, the output layer last."""
    biases: dict[int, int] = {}  # weight → bias
    for leaf, role in random.items():
        weight = None if role.bias_of is None else numbers[role.bias_of]
        if (
            weight in random
            and weight not in biases
            and _belongs(leaves[leaf].shape, leaves[weight].shape, random[weight])
        ):
            biases[weight] = leaf
    taken = set(biases.values())
    found = sorted((leaf for leaf in random if leaf not in taken), key=lambda leaf: random[leaf].order)
    products = [leaf for leaf in found if random[leaf].kind in PRODUCTS]
    if products:  # whatever comes after it
        found = [leaf for leaf in found if leaf != products[-1]] + products[-1:]
    return tuple(_block(leaf, biases.get(leaf), random[leaf], leaves, names) for leaf in found)


def _belongs(bias: tuple[int, ...], weight: tuple[int, ...], role: Role) -> bool:
    """Whether a bias has one number for each output of the weight."""
    return math.prod(bias) == math.prod(weight[axis] for axis in _output_axes(weight, role))


def _output_axes(shape: tuple[int, ...], role: Role) -> tuple[int, ...]:
    """Of a product those that are not summed over; a gain has an output for each number, a table for each row."""
    if role.kind in PRODUCTS:
        stacked = () if role.stacked_axis is None else (role.stacked_axis,)
        return tuple(sorted({*stacked, *role.output_axes}))
    if role.kind == "gain" or len(shape) < 2:
        return tuple(range(len(shape)))
    return (0,)


def _block(weight: int, bias: int | None, role: Role, leaves: list, names: list[str]) -> Block:
    shape = tuple(leaves[weight].shape)
    axes = _output_axes(shape, role)
    columns = math.prod(shape) // max(1, math.prod(shape[axis] for axis in axes))
    # a row of a table that is looked up, or added, should have a length of about one
    fan_in = role.fan_in if role.kind in PRODUCTS else columns
    bias_shape = None if bias is None else tuple(leaves[bias].shape)
    name = names[weight].removesuffix(".weight")
    return Block(name, role.kind, shape, bias_shape, axes, fan_in, weight, bias)


def _refuse_unknown(random: dict[int, Role], names: list[str]) -> None:
    for leaf, role in random.items():
        if role.kind == "unused":
            raise LayoutError(
                f"network: {names[leaf]} is not used when the network predicts, so nothing can be learnt about it. "
                "Remove it, or name it in `fixed`."
            )
        if role.kind == "unknown":
            raise LayoutError(
                f"network: what {names[leaf]} is for cannot be told: the first thing done with it is "
                f"`{role.operation}`. Use it in a product, a sum or a look-up, or name it in `fixed`."
            )


def _refuse_shared(taken: list[int], leaves: list, names: list[str]) -> None:
    seen: dict[int, int] = {}
    for leaf in taken:
        first = seen.setdefault(id(leaves[leaf]), leaf)
        if first != leaf:
            raise LayoutError(
                f"network: {names[first]} and {names[leaf]} are one array in two places. They would be trained apart. "
                "Tie them with equinox.nn.Shared, or copy one of them."
            )
