"""Where the units of a network stand in its vector of weights: what compaction can remove, a reduction can weigh.

The network is walked as compaction walks it, with each weight replaced by its own place in the vector.
"""

from typing import Any

import jax.tree_util as jtu
import numpy as np

from ..structure.layout import Layout, Part, Units
from . import chain as c
from .compact import Weighted, consumer_of
from .convert import to_chain


def find_units(network: Any, layout: Layout) -> tuple[Units, ...]:
    """Hidden units, channels and attention heads, each with all the weights that go when it goes: those that make it
    and those that use it. Units of a residual stream are not among them, since compaction cannot remove those."""
    return tuple(_units_of(list(to_chain(_numbered(network, layout)).stages), ""))


def _numbered(network: Any, layout: Layout) -> Any:
    """The network with the place of each weight, counted from 1, instead of the weight, and 0 for what is fixed."""
    leaves, tree = jtu.tree_flatten(network)
    numbered = [np.zeros(leaf.shape, np.int32) if hasattr(leaf, "shape") else leaf for leaf in leaves]
    start = 1
    for block in layout.blocks:
        for leaf, size in zip(block.leaves, block.piece_sizes, strict=True):
            numbered[leaf] = np.arange(start, start + size, dtype=np.int32).reshape(leaves[leaf].shape)
            start += size
    return jtu.tree_unflatten(tree, numbered)


def _units_of(stages: list[Any], path: str) -> list[Units]:
    found = []
    for i, stage in enumerate(stages):
        name = f"{path}{i}"
        if isinstance(stage, c.Residual | c.OverTokens):
            found += _units_of(list(stage.inner.stages), f"{name}.")
        elif isinstance(stage, c.Attention):
            heads = len(stage.query)
            arrays = (stage.query, stage.query_bias, stage.key, stage.key_bias, stage.value, stage.value_bias)
            parts = [_part(np.asarray(array).reshape(1, heads, -1)) for array in arrays]
            outs = np.asarray(stage.out).transpose(1, 0, 2)  # width, heads, inner: as they stand in the vector
            found.append(Units(f"{name} heads", heads, tuple(filter(None, [*parts, _part(outs)]))))
        elif isinstance(stage, Weighted) and (j := consumer_of(stages, i)) is not None:
            units = len(stage.bias)
            own = (np.asarray(stage.weight).reshape(1, units, -1), np.asarray(stage.bias).reshape(1, units, 1))
            used = np.asarray(stages[j].weight).reshape(len(stages[j].weight), units, -1)
            found.append(Units(name, units, tuple(filter(None, map(_part, (*own, used))))))
    return [units for units in found if units.parts]


def _part(places: np.ndarray) -> Part | None:
    """Numbers in the order of the vector, with the units along the second of three axes; None where they are fixed."""
    if not places.any():
        return None
    start, (before, _, after) = int(places.flat[0]) - 1, places.shape
    assert np.array_equal(places.ravel(), np.arange(start + 1, start + 1 + places.size))
    return Part(start, before, after)
