"""The posterior in the file: mask, means and deviations of the survivors, and of the scales. Enough to draw networks
from the file alone, exactly as the run itself would."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, UInt8

from ..data import Standardise
from ..errors import ExportError
from ..evaluation import Predictive, predict
from ..experiment import NETWORKS
from ..inference.model import Model
from ..inference.posteriors import IndependentNormals, Posterior
from ..inference.priors import FanInPrior, FlatPrior, HorseshoePrior, Prior
from ..inference.training import State
from .card import Card

PRIORS: dict[str, type[Any]] = {kind.__name__: kind for kind in (FlatPrior, FanInPrior, HorseshoePrior)}
Draw = Callable[[UInt8[np.ndarray, "n channels height width"]], Predictive]


class Packed(NamedTuple):
    """Arrays and a description, as they go into the file."""

    arrays: dict[str, np.ndarray]
    text: dict[str, str]


def pack(model: Model, state: State) -> Packed:
    if not isinstance(state.posterior, IndependentNormals):
        raise ExportError("--posterior: this run has a point estimate, not a posterior. Choose another method's run.")
    prior: Any = model.prior
    kind = type(prior).__name__
    if PRIORS.get(kind) is not type(prior):
        raise ExportError(f"--posterior: the prior {kind} has no form in a file. Known: {', '.join(PRIORS)}")
    mask = np.asarray(state.mask)
    arrays: dict[str, np.ndarray] = {"posterior.mask": np.packbits(mask)}
    for name in ("mean", "log_std"):
        values = np.asarray(getattr(state.posterior, name), np.float32)
        arrays[f"posterior.{name}"] = values[: mask.size][mask]
        arrays[f"posterior.scales.{name}"] = values[mask.size :]
    described = {"kind": kind, **dataclasses.asdict(prior)}
    return Packed(arrays, {"posterior": json.dumps({"weights": mask.size, "prior": described})})


def unpack(arrays: dict[str, np.ndarray], text: dict[str, str], card: Card) -> tuple[Model, Posterior, np.ndarray]:
    """The model, its posterior and its mask. A file without a posterior is an error that says how to get one."""
    if "posterior" not in text:
        raise ExportError("--samples: the file holds no posterior. Export the run again with --posterior.")
    described = json.loads(text["posterior"])
    model = Model(_network(card), _prior(described["prior"]), preprocess=Standardise(card.mean, card.std, card.pad))
    weights = model.layout.size
    if described["weights"] != weights or len(arrays["posterior.mask"]) != -(-weights // 8):
        raise ValueError(f"a posterior of {described['weights']} weights for a network of {weights}")
    mask = np.unpackbits(arrays["posterior.mask"], count=weights).astype(bool)
    parts = []
    for name in ("mean", "log_std"):
        values = np.zeros(model.latent_count, np.float32)
        values[:weights][mask] = arrays[f"posterior.{name}"]  # removed weights stay at the prior: zero, and ln 1
        values[weights:] = arrays[f"posterior.scales.{name}"]
        parts.append(jnp.asarray(values))
    return model, IndependentNormals(*parts), mask


def _network(card: Card) -> Any:
    spec = NETWORKS[card.config["network"]]
    channels, height, width = card.input_shape
    shape = (channels, height + 2 * card.pad, width + 2 * card.pad)
    return spec.template(shape, len(card.class_names))


def _prior(values: dict[str, Any]) -> Prior:
    return PRIORS[values["kind"]](**{name: float(value) for name, value in values.items() if name != "kind"})


def sampler(model: Model, posterior: Posterior, mask: Any, samples: int, seed: int = 0) -> Draw:
    """The predictive of some images, averaged over `samples` draws of the weights, the same for every call."""
    ask = jax.jit(
        lambda pixels: predict(model, posterior, jnp.asarray(mask), jax.random.key(seed), pixels, None, samples)
    )
    return lambda pixels: jax.device_get(ask(jnp.asarray(pixels)))


def mutual_information(predictive: Predictive) -> Float[np.ndarray, "n"]:
    """How much of the doubt is about the weights, in nats: the entropy of the average less the average entropy."""
    shares = np.asarray(predictive.expectation, np.float64)
    logs = np.log(np.where(shares > 0, shares, 1.0))
    return np.maximum(-(shares * logs).sum(1) - np.asarray(predictive.expected_entropy, np.float64), 0.0)
