"""What a network is, read from its traced program."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.tree_util as jtu
from jaxtyping import Array

from ..errors import ArgumentError, LayoutError
from ..networks import plain_convolutions
from .calling import Buffers, Calling, batch_norms
from .graph import Graph
from .layout import Fixed, Layout, float_leaves
from .normalising import normalises
from .roles import roles
from .trace import trace


def read_graph(
    network: Any,
    buffers: Buffers,
    calling: Calling,
    example: Any,
    before: Callable[[Array], Array] | None = None,
    after: Callable[[Array], Array] | None = None,
    allow_unknown: bool = False,
) -> Graph:
    """The program of a network that predicts, over a batch of raw examples like `example`. `before` makes one raw
    example an input of the network, `after` makes something of a batch of outputs. The parameters of the graph are the
    floating-point arrays of the network, in the order of its leaves. `allow_unknown` operations where they are only to
    be read past, not run."""
    leaves, tree = jtu.tree_flatten(network)
    numbers = float_leaves(network)

    def program(arrays: list[Array], inputs: Array) -> Array:
        own = list(leaves)
        for number, array in zip(numbers, arrays, strict=True):
            own[number] = array
        inputs = inputs if before is None else jax.vmap(before)(inputs)
        outputs, _ = calling.apply(jtu.tree_unflatten(tree, own), buffers, inputs, None)
        return outputs if after is None else after(outputs)

    shape = jax.ShapeDtypeStruct(example.shape, example.dtype)
    with plain_convolutions():
        return trace(program, [leaves[number] for number in numbers], shape, allow_unknown=allow_unknown)


def read_layout(
    network: Any,
    buffers: Buffers,
    calling: Calling,
    example: Any,
    before: Callable[[Array], Array] | None = None,
    fixed: Fixed = None,
) -> Layout:
    """Where the random weights of a network stand in one vector."""
    try:
        graph = read_graph(network, buffers, calling, example, before, allow_unknown=True)
    except LayoutError:
        raise
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"network: {type(network).__name__} does not take an example of shape {tuple(example.shape)}, type "
            f"{example.dtype}: {error}"
        ) from error
    is_normalised = bool(batch_norms(network)) or normalises(graph)  # what a batch norm divides by is a constant here
    return replace(Layout.of(network, roles(graph), fixed), is_normalised=is_normalised)
