"""What an export is made of, and the network that its file holds: traced, bound, compacted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np

from ..evaluation.predictive import Believed
from ..evaluation.temperature import with_outputs_divided
from ..inference.likelihoods import Categorical
from ..inference.model import Model
from ..structure.compaction import Kept, compact
from ..structure.graph import Graph
from ..structure.layout import float_leaves
from ..structure.reading import read_graph
from ..structure.unit_search import parameter_names
from .card import Card
from .draws import averaged, drawn_weights
from .evidence import weights_of, with_last_divided

EXAMPLES = 128  # made up where there are none to compare on


class Training(NamedTuple):
    """Some examples that a network was trained on, in no order, of so many."""

    inputs: np.ndarray
    targets: np.ndarray
    count: int

    def apart(self, *sizes: int) -> list[tuple[Any, Any]]:
        """Parts without a common example, of so many each, or equal ones where there are fewer."""
        equal = len(self.inputs) // len(sizes)
        ends = np.cumsum([0, *(sizes if sum(sizes) <= len(self.inputs) else [equal] * len(sizes))]).tolist()
        return [(jnp.asarray(self.inputs[i:j]), jnp.asarray(self.targets[i:j])) for i, j in pairwise(ends)]


@dataclass(frozen=True)
class Exportable:
    """What an export is made of. **example** is the shape and type of one raw example. **test** raw inputs and targets.
    **inputs** raw examples to compare on where there is no test set; random ones unless given. **temperature** by which
    the outputs of the network at the posterior mean are divided in the file; those of draws are not. **kl_weight** at
    which the posterior was trained. **rounded** the vector of weights to write in place of the posterior mean's, before
    any division. **drawn** the vectors of weights of several networks in its place, whose answers are averaged.
    **others** whose answers are averaged with this one's. **training** examples to repair and judge a network by that
    lost units."""

    model: Model
    believed: Believed
    example: Any
    card: Card
    test: tuple[np.ndarray, np.ndarray] | None = None
    inputs: np.ndarray | None = None
    temperature: float | None = None
    kl_weight: float = 1.0
    rounded: np.ndarray | None = None
    drawn: tuple[np.ndarray, ...] = ()
    others: "tuple[Traced, ...]" = ()
    training: Training | None = None

    @property
    def mean(self) -> Any:
        """The latents of the network in the file: the posterior mean, at its temperature."""
        posterior, mask, *_ = self.believed
        if self.temperature is not None:
            posterior = with_outputs_divided(self.model, posterior, mask, jnp.float32(self.temperature))
        return posterior.point

    @property
    def tempered(self) -> float | None:
        """The KL weight where it was not one; a point has no posterior to be tempered."""
        return None if self.kl_weight == 1.0 or not self.believed.posterior.has_deviations else self.kl_weight

    @property
    def is_classes(self) -> bool:
        return isinstance(self.model.likelihood, Categorical)


class Traced(NamedTuple):
    """One of several sources of a file, and its program."""

    source: Exportable
    program: Graph


def with_others(source: Exportable, others: Sequence[Exportable]) -> Exportable:
    """The source of a file that answers with the average of several networks."""
    return replace(source, others=tuple(Traced(other, trace(other)) for other in others))


def with_draws(source: Exportable, draws: int) -> Exportable:
    """The source of so many networks. Draws have the posterior's temperature and none of their own."""
    weights = drawn_weights(source.model, source.believed, draws)
    return replace(source, drawn=tuple(weights), temperature=None)


def smaller(source: Exportable, program: Graph) -> tuple[Graph, list[Kept]]:
    """The network of a file without its dead units, or the average of several; and what was removed where, of the
    first."""
    if source.drawn:
        names = parameter_names(source.model.network)
        found = [compact(program.bind(leaves_at(source.model, own)), names) for own in source.drawn]
    else:
        each = (Traced(source, program), *source.others)
        found = [compact(own.bind(arrays_in_file(one)), parameter_names(one.model.network)) for one, own in each]
    return averaged([graph for graph, _ in found]) if len(found) > 1 else found[0][0], found[0][1]


def arrays_in_file(source: Exportable) -> dict[int, np.ndarray]:
    """The network's arrays in the file, by the number of their parameter."""
    if source.rounded is None:
        return arrays_of(source.model, source.mean, source.believed.mask)
    weights = with_last_divided(source.model, source.rounded, source.temperature)
    return leaves_at(source.model, weights)


def named(source: Exportable, program: Graph) -> Card:
    """The card, with numbers for the names of classes that have none."""
    card = source.card
    if not source.is_classes or card.class_names is not None:
        return card if source.is_classes else replace(card, class_names=None)
    return replace(card, class_names=tuple(map(str, range(program.shapes[program.outputs[0]][1]))))


def trace(source: Exportable) -> Graph:
    """The program from raw examples to what is expected of the target: probabilities, or a mean in the target's unit.
    Every array of the network is a parameter."""
    model = source.model
    return read_graph(
        model.network,
        source.believed.buffers or model.buffers,
        model.calling,
        source.example,
        model.preprocess,
        model.likelihood.expectation,
    )


def arrays_of(model: Model, latents: Any, mask: Any) -> dict[int, np.ndarray]:
    """The network's arrays for these latents, by the number of their parameter."""
    return leaves_at(model, weights_of(model, latents, mask))


def leaves_at(model: Model, weights: np.ndarray) -> dict[int, np.ndarray]:
    """The network's arrays for a vector of weights, by the number of their parameter; by numpy, with nothing to be
    compiled."""
    leaves, places = jtu.tree_leaves(model.network), model.layout.places()
    found = {}
    for number, leaf in enumerate(float_leaves(model.network)):
        own = leaves[leaf]
        given = np.asarray(weights, np.float32)[slice(*places[leaf])].reshape(own.shape) if leaf in places else own
        found[number] = np.asarray(given, own.dtype)
    return found


def as_if_unpruned(source: Exportable) -> dict[int, np.ndarray]:
    """The network with draws from the prior for what was removed: how much a file shrinks that has no zeros."""
    model, mask, point = source.model, source.believed.mask, np.array(source.mean)
    gone = np.flatnonzero(~np.asarray(mask))
    point[gone] = np.random.default_rng(0).normal(size=len(gone)).astype(point.dtype)
    return arrays_of(model, jnp.asarray(point), jnp.ones_like(mask))


def trained(source: Exportable) -> Callable[[np.ndarray], np.ndarray]:
    """The trained network itself, in float32 whatever it was trained in, as the file is. Its outputs are divided where
    they are put out: that the file divides its last layer instead is compared too."""
    model, believed = source.model, source.believed
    given = source.drawn if source.rounded is None else (source.rounded,)
    vectors = given or [weights_of(model, believed.posterior.point, believed.mask)]
    buffers = believed.buffers or model.buffers
    scale = jnp.float32(1.0 if source.temperature is None else source.temperature)
    others = [trained(other.source) for other in source.others]

    def average(inputs: np.ndarray) -> np.ndarray:
        own = np.mean([np.asarray(_ask(model, buffers, scale, each, jnp.asarray(inputs))) for each in vectors], 0)
        return np.mean([own, *(other(inputs) for other in others)], 0)

    return average


@eqx.filter_jit
def _ask(model: Model, buffers: Any, scale: Any, weights: Any, inputs: Any) -> Any:
    """One program for all networks of a model, so that it is compiled once."""
    network = model.layout.bind(model.network, jnp.asarray(weights, jnp.float32))
    outputs, _ = model.calling.apply(network, buffers, jax.vmap(model.preprocess)(inputs), None)
    return model.likelihood.expectation(outputs / scale)


def examples_of(source: Exportable, program: Graph) -> np.ndarray:
    """Raw examples: of the test set, given ones, or random ones of the type that the network takes."""
    if source.test is not None:
        return np.asarray(source.test[0])
    if source.inputs is not None:
        return np.asarray(source.inputs)
    rng, shape = np.random.default_rng(0), (EXAMPLES, *source.example.shape)
    dtype = np.dtype(source.example.dtype)
    if dtype.kind == "f":
        return rng.normal(size=shape).astype(dtype)
    tables = [program.shapes[node.inputs[0]][node.attributes["axis"]] for node in program.nodes if node.op == "take"]
    highest = 255 if dtype == np.uint8 else min([size for size in tables if size > 0], default=2) - 1
    return rng.integers(0, highest, shape, endpoint=True).astype(dtype)
