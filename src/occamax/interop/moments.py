"""Means and variances by parameter name, from an optimiser or a Laplace approximation elsewhere, in the order of our
vector: what `ox.delta_f`, a criterion or a start takes.

    moments = ox.named_moments(network, example, precision=precisions)          # of laplace-torch, by name
    gained = ox.delta_f.removal(moments.mean, moments.var, full_var=1 / prior_precision)
"""

import math
import warnings
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..errors import ArgumentError
from ..structure.calling import read_network
from ..structure.layout import Layout
from ..structure.reading import read_layout
from ..structure.vectors import plain, split, vector_of
from .checks import example_shape

BARE = (
    "moments: ΔF of a bare Laplace posterior prunes badly: its factor ln(precision / prior precision) sends thousands "
    "of small weights of well-determined layers at once. Order by the signal-to-noise ratio (mean² / variance), or let "
    "these moments start the training of a posterior."
)
ADAM = (
    "moments: an optimiser's average of squared gradients of batches is no curvature: it depends on the batch size and "
    "on how long it averages. It may order weights; ΔF of it is no evidence."
)


class OrderedMoments(NamedTuple):
    """Mean and variance of every random weight, in the order of **layout**."""

    mean: Float[Array, "weights"]
    var: Float[Array, "weights"]
    layout: Layout


def named_moments(
    network: Any,
    example: Any,
    *,
    mean: Any = None,
    var: Any = None,
    precision: Any = None,
    is_curvature: bool = True,
) -> OrderedMoments:
    """The moments of an independent Gaussian posterior over the weights of a network.

    **network** any network of ours: of `ox.from_torch`, then names are those of its `state_dict`. **example** one
    example of its input. **mean**, the present weights unless given, and either **var** or **precision** (of the
    posterior: data and prior) by name: arrays of the parameters' shapes, or numbers; or, of a network from PyTorch,
    one tensor in the order of the module's `parameters()`.
    **is_curvature** False says that they are an optimiser's averages of squared gradients.

    Raises:
        ArgumentError: names that are not those of the network, neither or both of `var` and `precision`, or numbers
            that are not positive.

    Examples:
        >>> import warnings
        >>> names = ("layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias")
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")  # it warns of ΔF of a posterior that was not trained
        ...     moments = ox.named_moments(network, x[0], precision={name: 100.0 for name in names})
        >>> moments.mean.shape, round(float(moments.var[0]), 6)
        ((178,), 0.01)
    """
    found, statistics, calling = read_network(network)
    layout = read_layout(found, statistics, calling, example_shape(example))
    if (var is None) == (precision is None):
        raise ArgumentError("var, precision: one of both must be given, by parameter name")
    given, word = (var, "var") if precision is None else (precision, "precision")
    spread = jnp.asarray(vector_of(f"{word}: it", given, layout, found))
    if not bool(jnp.all(spread > 0)):
        raise ArgumentError(f"{word}: not all values are positive; add the prior's precision to the curvature")
    center = layout.pack(found) if mean is None else jnp.asarray(vector_of("mean: it", mean, layout, found))
    warnings.warn(BARE if is_curvature else ADAM, stacklevel=2)
    return OrderedMoments(center, spread if precision is None else 1.0 / spread, layout)


def named_from_vector(module: Any, vector: Any) -> dict[str, np.ndarray]:
    """A **vector** in the order of a PyTorch **module**'s trained `parameters()`, as laplace-torch keeps it, by name.

    Raises:
        ArgumentError: a vector of another length.

    Examples:
        >>> import torch
        >>> named = ox.named_from_vector(torch.nn.Linear(8, 2), np.arange(18))
        >>> {name: array.shape for name, array in named.items()}
        {'weight': (2, 8), 'bias': (2,)}
    """
    numbers = np.asarray(plain(vector))
    shapes = {name: tuple(tensor.shape) for name, tensor in module.named_parameters() if tensor.requires_grad}
    total = sum(map(math.prod, shapes.values()))
    if numbers.shape != (total,):
        raise ArgumentError(f"vector: shape {numbers.shape} given; the module has {total} trained parameters")
    return split(numbers, shapes)
