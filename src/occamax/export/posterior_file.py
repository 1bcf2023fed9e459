"""The posterior in the file: mask, means and deviations of the survivors and of the scales, and the network's program
with its weights left open. Enough to draw networks from the file alone, exactly as the run itself would."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
from jaxtyping import Float

from ..errors import ExportError
from ..evaluation.predictive import Believed
from ..inference.model import Model
from ..inference.posteriors import IndependentNormals
from ..inference.priors import Prior
from ..methods import kinds
from ..storage.structured import from_data, is_whole, to_data
from ..structure.graph import Graph
from ..structure.interpreter import evaluate
from ..structure.layout import Layout, float_leaves
from .arrays_file import Packed, describe, load, rebuild, said
from .card import Card


class Drawn(NamedTuple):
    """**expectation** probabilities of classes, or a prediction, averaged over draws of the weights.
    **expected_entropy** of one draw's probabilities, in nats. **std** of one draw's expectation from another's."""

    expectation: Float[np.ndarray, "n out"]
    expected_entropy: Float[np.ndarray, "n"]
    std: Float[np.ndarray, "n out"]


STD_STEP = 0.1  # of the logarithm of a deviation, where it is rounded
Draw = Callable[[np.ndarray], Drawn]


def pack(model: Model, believed: Believed, graph: Graph, weights: np.ndarray | None = None) -> Packed:
    """What goes into the file. `graph` is the network's program, all arrays of it still parameters. `weights`: rounded
    ones, whose latents are the means; deviations are then rounded too, to steps of a tenth of their logarithm. That
    costs less than a thousandth of a nat each (a factor of e^ε costs ε² nats)."""
    posterior = believed.posterior
    if not isinstance(posterior, IndependentNormals):
        raise ExportError("--posterior: this run has a point estimate, not a posterior. Choose another method's run.")
    prior = to_data(model.prior)
    if not is_whole(prior):
        raise ExportError(f"--posterior: the prior {type(model.prior).__name__} has no form as data; leave it out")
    numbers = float_leaves(model.network)
    random = model.layout.places()
    leaves = jtu.tree_leaves(model.network)
    fixed = {place: np.asarray(leaves[leaf]) for place, leaf in enumerate(numbers) if leaf not in random}
    structure, arrays = describe(graph.bind(fixed), "posterior.a")
    arrays |= _beliefs(model, posterior, np.asarray(believed.mask), weights)
    described = {
        "layout": model.layout.as_data(),
        "prior": prior,
        "latents": model.latent_count,
        "parameters": {str(leaf): place for place, leaf in enumerate(numbers) if leaf in random},
        "structure": structure,
    }
    return Packed(arrays, {"posterior": json.dumps(described, separators=(",", ":"))})


def _beliefs(
    model: Model, posterior: IndependentNormals, mask: np.ndarray, weights: np.ndarray | None
) -> dict[str, np.ndarray]:
    """Means of the weights by layer, zero where one is gone; logarithms of the survivors' deviations; the scales."""
    means, log_stds = (np.array(vector, np.float32) for vector in (posterior.mean, posterior.log_std))
    size, used = mask.size, model.latents_used
    own = means[:size]
    if weights is not None:
        stds = np.asarray(model.prior.weight_stds(model.layout, model.split(posterior.point)[1]))
        own = ((weights - np.asarray(model.prior.centers(model.layout))) / stds).astype(np.float32)
        mask = mask & (weights != np.asarray(model.prior.centers(model.layout)))
        log_stds[:size] = STD_STEP * np.round(log_stds[:size] / STD_STEP)
    own = np.where(mask, np.where(own == 0, np.float32(1e-30), own), np.float32(0))
    found = {f"posterior.mean.{i}": own[start:stop] for i, (start, stop) in enumerate(model.layout.bounds)}
    found["posterior.log_std"] = log_stds[:size][mask]
    scales = {"mean": means[size:used], "log_std": log_stds[size:used]}
    return found | {f"posterior.scales.{name}": values for name, values in scales.items()}


class Sampler(NamedTuple):
    """Networks drawn from a posterior, run by numpy."""

    graph: Graph
    layout: Layout
    prior: Prior
    posterior: IndependentNormals
    mask: Any
    parameters: dict[int, int]  # the leaf of the network → the parameter of the graph

    def weights(self, key: Any) -> Any:
        """One draw, as the model itself makes it."""
        latents = self.posterior.draw(key)
        size, scales = self.layout.size, self.prior.scale_gammas(self.layout)[0].size
        unit = jnp.where(self.mask, latents[:size], 0.0)
        return self.prior.weights(self.layout, unit, latents[size : size + scales])

    def arrays(self, vector: np.ndarray) -> dict[int, np.ndarray]:
        """The graph's parameters, cut out of a vector of weights."""
        shapes = {
            leaf: shape
            for block in self.layout.blocks
            for leaf, shape in ((block.weight_leaf, block.weight_shape), (block.bias_leaf, block.bias_shape))
        }
        places = self.layout.places().items()
        return {self.parameters[leaf]: vector[start:stop].reshape(shapes[leaf]) for leaf, (start, stop) in places}

    def draws(self, num_samples: int, seed: int = 0) -> Draw:
        """What averages over so many draws, the same for every call."""
        make, key = jax.jit(self.weights), jax.random.key(seed)

        def ask(inputs: np.ndarray) -> Drawn:
            total = squares = entropy = np.zeros(())
            for i in range(num_samples):
                weights = self.arrays(np.asarray(make(jax.random.fold_in(key, i))))
                (found,) = evaluate(self.graph, [inputs], weights)
                total, squares = total + found.astype(np.float64), squares + found.astype(np.float64) ** 2
                entropy = entropy + entropy_of(found)
            mean = total / num_samples
            var = np.maximum(squares / num_samples - mean**2, 0.0)
            return Drawn(mean, entropy / num_samples, np.sqrt(var))

        return ask


def read_posterior(path: Path) -> tuple[Sampler, Card]:
    """What was exported with `--posterior`. A file without one is an error that says how to get one."""
    with said(path):
        arrays, text = load(path)
        card = Card.from_json(text["occamax"], str(path))
        if "posterior" not in text:
            raise ExportError(f"--samples: {path} holds no posterior. Export the run again with --posterior.")
        return _unpack(arrays, json.loads(text["posterior"])), card


def _unpack(arrays: dict[str, np.ndarray], described: dict[str, Any]) -> Sampler:
    layout = Layout.from_data(described["layout"])
    prior = from_data(described["prior"], kinds(), "prior")
    scales, weights = arrays["posterior.scales.mean"].size, layout.size
    if not isinstance(prior, Prior) or described["latents"] < weights + scales:
        raise ValueError("a posterior that does not fit its network")
    found = _means(arrays, len(layout.blocks), weights)
    mask = found != 0
    parts = []
    for name, own in (("mean", found[mask]), ("log_std", arrays["posterior.log_std"])):
        values = np.zeros(described["latents"], np.float32)
        values[:weights][mask] = own  # removed weights stay at the prior: zero, and ln 1
        values[weights : weights + scales] = arrays[f"posterior.scales.{name}"]
        parts.append(jnp.asarray(values))
    graph = rebuild(described["structure"], arrays)
    parameters = {int(leaf): place for leaf, place in described["parameters"].items()}
    return Sampler(graph, layout, prior, IndependentNormals(*parts), jnp.asarray(mask), parameters)


def _means(arrays: dict[str, np.ndarray], blocks: int, size: int) -> np.ndarray:
    """The means of all weights; an earlier version kept those of the survivors, and a mask."""
    if "posterior.mask" not in arrays:
        return np.concatenate([arrays[f"posterior.mean.{i}"] for i in range(blocks)])
    mask, found = np.unpackbits(arrays["posterior.mask"], count=size).astype(bool), np.zeros(size, np.float32)
    own = arrays["posterior.mean"]
    found[mask] = np.where(own == 0, np.float32(1e-30), own)
    return found


def entropy_of(probabilities: np.ndarray) -> Float[np.ndarray, "n"]:
    """In nats, of each row."""
    shares = np.asarray(probabilities, np.float64)
    logs = np.log(np.where(shares > 0, shares, 1.0))
    return -(shares * logs).sum(1)


def mutual_information(drawn: Drawn) -> Float[np.ndarray, "n"]:
    """How much of the doubt is about the weights, in nats: the entropy of the average less the average entropy."""
    return np.maximum(entropy_of(drawn.expectation) - drawn.expected_entropy, 0.0)
