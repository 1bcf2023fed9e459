"""Graphs as a runtime computes them fast: the same function, other operations."""

from dataclasses import replace

from ..structure.cleaning import fold
from ..structure.graph import Graph
from . import absorbing, recognising
from .draft import rewritten

RECOGNISED = (
    recognising.pooling,
    recognising.images_first,
    recognising.means,
    recognising.softmax,
    recognising.layer_norm,
    absorbing.with_biases,
    absorbing.after,
    absorbing.merged,
    absorbing.after,
)
FASTER = (
    absorbing.before,  # the sum, then the product
    absorbing.before,
    absorbing.after,
    absorbing.after_layout,
    absorbing.without_costly_taking,
    absorbing.merged,
    absorbing.smaller_first,
    absorbing.pooled_conv,
    recognising.image_means,
    recognising.apart_from_sum,  # the last: nothing is done by what it takes apart
)


def recognised(graph: Graph) -> Graph:
    """As any exporter would write it: known functions as one operation, biases and batch statistics in the layers."""
    graph = fold(replace(graph, parameters={}))
    for rule in RECOGNISED:
        graph = rewritten(graph, rule)
    return graph


def faster(graph: Graph) -> Graph:
    """What can be is done by the layer beside it: preprocessing by the first, pooling by the convolution before."""
    graph = recognised(graph)
    for rule in FASTER:
        graph = rewritten(graph, rule)
    return graph
