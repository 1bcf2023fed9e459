"""A network as one vector.

A `Layout` says which arrays of an Equinox module are random and where each stands in one flat vector. A *block* is one
layer: its weight, then its bias. Everything after this file works on the vector; nothing there knows what a ViT is.

    layout = Layout.of(network)
    vector = layout.pack(network)
    network = layout.bind(network, vector)      # the inverse; its gradient is one concatenation
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import equinox as eqx
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from .errors import LayoutError

T = TypeVar("T")
NORMS = (eqx.nn.LayerNorm, eqx.nn.GroupNorm, eqx.nn.RMSNorm, eqx.nn.BatchNorm)
LAYERS = (eqx.nn.Linear, eqx.nn.Conv, eqx.nn.ConvTranspose, eqx.nn.Embedding, *NORMS)


@dataclass(frozen=True)
class Block:
    """One layer's weights, as a matrix of `rows` outputs by `columns` inputs with the bias, if any, as a last column.

    In the vector the matrix comes first, row by row, then the bias. A gain (of a normalisation) has one column.
    """

    name: str
    weight_shape: tuple[int, ...]
    bias_shape: tuple[int, ...] | None
    is_gain: bool
    weight_leaf: int
    bias_leaf: int | None

    @property
    def rows(self) -> int:
        if self.is_gain:
            return math.prod(self.weight_shape)
        return self.weight_shape[0] if self.weight_shape else 1

    @property
    def columns(self) -> int:
        return math.prod(self.weight_shape) // self.rows

    @property
    def size(self) -> int:
        return self.rows * (self.columns + (self.bias_shape is not None))

    @property
    def piece_sizes(self) -> tuple[int, ...]:
        """How many numbers the weight takes, then the bias if there is one."""
        return (self.rows * self.columns,) + ((self.rows,) if self.bias_shape is not None else ())

    @property
    def leaves(self) -> tuple[int, ...]:
        return (self.weight_leaf,) + ((self.bias_leaf,) if self.bias_leaf is not None else ())


@dataclass(frozen=True)
class Part:
    """A piece of the vector, from `start` on, that is (before, units, after) in shape."""

    start: int
    before: int
    after: int


@dataclass(frozen=True)
class Units:
    """Units of one kind in one place, and the pieces of the vector that hold their weights. A weight may belong to two
    units of different places: one makes it, another uses it."""

    name: str
    count: int
    parts: tuple[Part, ...]

    @property
    def weights_each(self) -> int:
        return sum(part.before * part.after for part in self.parts)

    def totals(self, vector: Float[Array, "weights"]) -> Float[Array, "units"]:
        """One number a weight → its sum over each unit."""
        return sum((self._view(vector, part).sum((0, 2)) for part in self.parts), jnp.zeros(self.count, vector.dtype))

    def _view(self, vector: Array, part: Part) -> Array:
        size = part.before * self.count * part.after
        return vector[part.start : part.start + size].reshape(part.before, self.count, part.after)

    def mark(self, vector: Bool[Array, "weights"], flags: Bool[Array, "units"]) -> Bool[Array, "weights"]:
        """The vector with the weights of the flagged units True as well."""
        for part in self.parts:
            marked = self._view(vector, part) | flags[:, None]
            vector = vector.at[part.start : part.start + marked.size].set(marked.ravel())
        return vector


@dataclass(frozen=True)
class Layout:
    """Where each random weight of a network stands in one vector. Immutable and hashable: static under `jit`."""

    blocks: tuple[Block, ...]
    fixed: tuple[str, ...] = ()  # float arrays of the network that were not selected: they stay as they are

    @staticmethod
    def of(network: Any, select: Callable[[Any], Any] | None = None) -> "Layout":
        """Finds the random weights of `network`.

        By default every linear, convolution, embedding and normalisation layer is random. `select` names them instead,
        in the manner of `equinox.tree_at`: it takes the network and returns layers, whole sub-networks or bare arrays,
        `lambda network: (network.encoder, network.class_token)`. What is not selected stays deterministic. The order of
        the selection is the order of the vector; its last layer counts as the output layer.
        """
        leaves, tree = jtu.tree_flatten(network)
        names = [_name(path) for path, _ in jtu.tree_flatten_with_path(network)[0]]
        numbered = jtu.tree_unflatten(tree, list(range(len(leaves))))
        nodes = numbered if select is None else select(numbered)
        bare_allowed = select is not None
        blocks = tuple(block for node in _layers(nodes) for block in _blocks(node, leaves, names, bare_allowed))
        if not blocks:
            raise LayoutError(
                f"network: {type(network).__name__} has no layer that can be made random. Known layers: "
                f"{', '.join(kind.__name__ for kind in LAYERS)}. Name bare arrays with select=lambda network: (...)."
            )
        taken = [leaf for block in blocks for leaf in block.leaves]
        _refuse_shared(taken, leaves, names)
        fixed = (name for i, name in enumerate(names) if i not in set(taken) and eqx.is_inexact_array(leaves[i]))
        return Layout(blocks, tuple(fixed))

    @property
    def size(self) -> int:
        return sum(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(block.size for block in self.blocks)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(block.name for block in self.blocks)

    @property
    def row_counts(self) -> tuple[int, ...]:
        return tuple(block.rows for block in self.blocks)

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """Start and stop of each block in the vector."""
        stops = np.cumsum(self.sizes).tolist()
        return tuple(zip([0, *stops[:-1]], stops, strict=True))

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
            pieces = lax.split(segment, block.piece_sizes)
            found.append(jnp.concatenate([piece.reshape(block.rows, -1) for piece in pieces], axis=1))
        return found

    def spread(self, values: Float[Array, "blocks"]) -> Float[Array, "weights"]:
        """One number a block → one a weight. By way of the rows: the transpose then sums in two stages, which keeps a
        GPU busy also where a batch of seeds would leave it one long sum a seed and block."""
        return self.spread_rows(self.repeat_rows(values))

    def repeat_rows(self, values: Float[Array, "blocks"]) -> Float[Array, "rows"]:
        """One number a block → one an output row."""
        return jnp.concatenate([jnp.broadcast_to(values[i], (rows,)) for i, rows in enumerate(self.row_counts)])

    def totals(self, vector: Array) -> Array:
        """One number a weight → its sum over each block."""
        return jnp.stack([jnp.sum(segment) for segment in self.split(vector)])

    def spread_rows(self, values: Float[Array, "rows"]) -> Float[Array, "weights"]:
        """One number an output row, all blocks in turn → one a weight."""
        pieces = []
        for block, rows in zip(self.blocks, lax.split(values, self.row_counts), strict=True):
            pieces.append(jnp.broadcast_to(rows[:, None], (block.rows, block.columns)).reshape(-1))
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
        rows = np.arange(self.blocks[block].rows)
        pieces = [np.repeat(rows, self.blocks[block].columns)]
        return np.concatenate(pieces + [rows] * (self.blocks[block].bias_shape is not None))

    def column_groups(self, block: int) -> np.ndarray:
        """For each weight of a block its input column; the bias is the last column."""
        rows, columns = self.blocks[block].rows, self.blocks[block].columns
        pieces = [np.tile(np.arange(columns), rows)]
        return np.concatenate(pieces + [np.full(rows, columns)] * (self.blocks[block].bias_shape is not None))


def _name(path: tuple) -> str:
    return jtu.keystr(path, simple=True, separator=".")


def _layers(nodes: Any) -> list[Any]:
    """Known layers, and leaf numbers that stand outside any layer, in tree order."""
    return jtu.tree_leaves(nodes, is_leaf=lambda node: isinstance(node, LAYERS))


def _blocks(node: Any, leaves: list, names: list[str], bare_allowed: bool) -> Iterable[Block]:
    if not isinstance(node, LAYERS):
        if bare_allowed and eqx.is_array(leaves[node]):
            yield _block(node, None, False, leaves, names)
        return
    weight: Any = getattr(node, "weight", None)
    bias: Any = getattr(node, "bias", None)
    if _is_random(weight, leaves):
        yield _block(weight, bias if _is_random(bias, leaves) else None, isinstance(node, NORMS), leaves, names)
    elif _is_random(bias, leaves):  # a tied weight (equinox.nn.Shared) lives elsewhere; its bias does not
        yield _block(bias, None, False, leaves, names)


def _is_random(leaf: Any, leaves: list) -> bool:
    return isinstance(leaf, int) and eqx.is_inexact_array(leaves[leaf])


def _block(weight: int, bias: int | None, is_gain: bool, leaves: list, names: list[str]) -> Block:
    for leaf in (weight, bias):
        if leaf is not None and not jnp.issubdtype(leaves[leaf].dtype, jnp.floating):
            raise LayoutError(
                f"network: {names[leaf]} has type {leaves[leaf].dtype}; only real floating-point arrays can be random. "
                "Leave it out of `select`, or convert it."
            )
    name = names[weight].removesuffix(".weight")
    bias_shape = None if bias is None else tuple(leaves[bias].shape)
    return Block(name, tuple(leaves[weight].shape), bias_shape, is_gain, weight, bias)


def _refuse_shared(taken: list[int], leaves: list, names: list[str]) -> None:
    seen: dict[int, int] = {}
    for leaf in taken:
        first = seen.setdefault(id(leaves[leaf]), leaf)
        if first != leaf:
            raise LayoutError(
                f"network: {names[first]} and {names[leaf]} are one array in two places. They would be trained apart. "
                "Tie them with equinox.nn.Shared, or copy one of them."
            )
        if taken.count(leaf) > 1:
            raise LayoutError(f"select: {names[leaf]} was selected twice. Select each array once.")
