"""Several networks drawn from the posterior, in one file: what it answers is their average, so that what the posterior
knows of its own doubt needs no package of ours."""

from collections.abc import Sequence
from dataclasses import replace

import jax
import numpy as np

from ..errors import ExportError
from ..evaluation.predictive import Believed
from ..inference.model import Model
from ..structure.graph import Graph, Node

MOST = 64


def drawn_weights(model: Model, believed: Believed, count: int, seed: int = 0) -> list[np.ndarray]:
    """So many draws of the vector of weights, the first of those that `predict --samples` averages over."""
    if not 1 <= count <= MOST:
        raise ExportError(f"--draws: {count} given; it must be 1 to {MOST}")
    if not believed.posterior.has_deviations:
        raise ExportError("--draws: this run has a point estimate, of which every draw is the same. Leave it out.")
    key = jax.random.key(seed)
    make = jax.jit(lambda i: model.weights(believed.posterior.draw(jax.random.fold_in(key, i)), believed.mask))
    return [np.asarray(make(i)) for i in range(count)]


def averaged(graphs: Sequence[Graph]) -> Graph:
    """One graph of the same inputs whose output is the mean of the graphs' outputs. Their parameters must be bound."""
    (source,) = graphs[0].inputs
    width = 1 + max(max(graph.shapes) for graph in graphs)
    nodes: list[Node] = []
    constants, shapes, dtypes, results = {}, {}, {}, []
    for place, graph in enumerate(graphs):
        number = {value: value + place * width for value in graph.shapes} | {graph.inputs[0]: source}
        for node in graph.nodes:
            if node.bodies():
                raise ExportError(
                    "a network with loops or branches cannot be one of several in a file; leave --draws out, or export "
                    "the members of an ensemble one by one"
                )
            inputs, outputs = (tuple(number[value] for value in values) for values in (node.inputs, node.outputs))
            nodes.append(Node(node.op, inputs, outputs, node.attributes))
        constants |= {number[value]: array for value, array in graph.constants.items()}
        shapes |= {number[value]: shape for value, shape in graph.shapes.items()}
        dtypes |= {number[value]: dtype for value, dtype in graph.dtypes.items()}
        results.append(number[graph.outputs[0]])
    shape, total, free = graphs[0].shapes[graphs[0].outputs[0]], results[0], len(graphs) * width
    share = free
    constants[share], shapes[share], dtypes[share] = np.asarray(1 / len(graphs), np.float32), (), "float32"
    for op, other in [*(("add", result) for result in results[1:]), ("mul", share)]:
        free += 1
        nodes.append(Node(op, (total, other), (free,)))
        shapes[free], dtypes[free], total = shape, "float32", free
    return replace(
        graphs[0],
        nodes=tuple(nodes),
        outputs=(total,),
        constants=constants,
        shapes=shapes,
        dtypes=dtypes,
        parameters={},
    )
