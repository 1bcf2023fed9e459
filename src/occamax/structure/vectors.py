"""Numbers of the weights, as other programs keep them, in the order of our vector."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from ..errors import ArgumentError
from .layout import Layout, named_leaves


def vector_of(what: str, given: Any, layout: Layout, network: Any) -> Float[np.ndarray, "weights"]:
    """Numbers of the weights as one vector, from a tree like the network, arrays by name, or such a vector. Arrays of
    the network that are not random may be there too. `what` it is, for the error that names what does not match."""
    if hasattr(given, "shape") and tuple(given.shape) == (layout.size,):
        return np.asarray(given, np.float32)
    leaves, names = named_leaves(network)
    wanted = {names[leaf]: tuple(leaves[leaf].shape) for block in layout.blocks for leaf in block.leaves}
    found = dict(given) if isinstance(given, Mapping) else dict(zip(*reversed(named_leaves(given)), strict=True))
    shapes = {name: tuple(array.shape) for name, array in found.items() if hasattr(array, "shape")}
    is_ours = set(wanted) <= set(shapes)
    known = {name: shapes[name] for name in wanted} if is_ours and not isinstance(given, Mapping) else shapes
    refuse_other(what, {name: shape for name, shape in known.items() if name in wanted or name not in names}, wanted)
    return np.concatenate([np.asarray(found[name], np.float32).ravel() for name in wanted])


def refuse_other(what: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Names every array that does not match, up to eight."""
    missing = [f"{name} is missing" for name in wanted if name not in found]
    strange = [f"{name} is no part of the network" for name in found if name not in wanted]
    other = [
        f"{name} has shape {found[name]}, the network's has {wanted[name]}"
        for name in wanted
        if name in found and found[name] != wanted[name]
    ]
    problems = [*other, *missing, *strange]
    if problems:
        more = f"; and {len(problems) - 8} more" if len(problems) > 8 else ""
        raise ArgumentError(f"{what} is of another network: {'; '.join(problems[:8])}{more}")
