"""Numbers of the weights, as other programs keep them, in the order of our vector."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from ..errors import ArgumentError
from .layout import Layout, float_leaves, named_leaves


def vector_of(what: str, given: Any, layout: Layout, network: Any) -> Float[np.ndarray, "weights"]:
    """Numbers of the weights as one vector, from a tree like the network, arrays by name (one number stands for all of
    an array), such a vector, or a tensor of PyTorch in the order of `parameters()`. Arrays of the network that are not
    random may be there too. `what` it is, for the error that names what does not match."""
    if hasattr(given, "detach"):
        given = _in_their_order(what, plain(given), network)
    elif hasattr(given, "shape"):
        if tuple(given.shape) != (layout.size,):
            raise ArgumentError(_of_another_size(what, given, layout.size))
        return np.asarray(given, np.float32)
    leaves, names = named_leaves(network)
    wanted = {names[leaf]: tuple(leaves[leaf].shape) for block in layout.blocks for leaf in block.leaves}
    found = given if isinstance(given, Mapping) else dict(zip(*reversed(named_leaves(given)), strict=True))
    found = {name: plain(array) for name, array in found.items()}
    if isinstance(given, Mapping):
        found = {n: np.broadcast_to(a, wanted[n]) if np.shape(a) == () and n in wanted else a for n, a in found.items()}
    shapes = {name: tuple(array.shape) for name, array in found.items() if hasattr(array, "shape")}
    is_ours = set(wanted) <= set(shapes)
    known = {name: shapes[name] for name in wanted} if is_ours and not isinstance(given, Mapping) else shapes
    refuse_other(what, {name: shape for name, shape in known.items() if name in wanted or name not in names}, wanted)
    return np.concatenate([np.asarray(found[name], np.float32).ravel() for name in wanted])


def plain(array: Any) -> Any:
    """A tensor of PyTorch as an array of numpy, anything else as it is."""
    return array.detach().cpu().numpy() if hasattr(array, "detach") else array


def split(vector: np.ndarray, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Arrays of these shapes, which lie in the vector one behind the other, by name."""
    parts = np.split(vector, np.cumsum([math.prod(shape) for shape in shapes.values()])[:-1])
    return {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}


def _in_their_order(what: str, numbers: np.ndarray, network: Any) -> dict[str, np.ndarray]:
    """A vector in the order of a module's parameters, by name: theirs is the order of a network's leaves, ours that in
    which they are used."""
    leaves, names = named_leaves(network)
    shapes = {names[leaf]: tuple(leaves[leaf].shape) for leaf in float_leaves(network)}
    size = sum(map(math.prod, shapes.values()))
    if numbers.shape != (size,):
        raise ArgumentError(_of_another_size(what, numbers, size))
    return split(numbers, shapes)


def _of_another_size(what: str, given: Any, size: int) -> str:
    return (
        f"{what} has shape {tuple(given.shape)}; one vector must hold a number for each of the {size} weights. Of part "
        "of them, or of a matrix, give arrays by name; a Laplace approximation must be diagonal and of all weights"
    )


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
