"""Starting from what is trained already: where weights are read from, and what is known of them."""

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from safetensors import SafetensorError, safe_open

from ..data import Stream
from ..data.held_out import HeldOut
from ..errors import ArgumentError, RunError
from ..inference.beginning import Beginning
from ..inference.curvature import Curvature, GaussNewton, Take, diagonal
from ..inference.model import Model
from ..inference.optimizers import Optax
from ..methods import Method
from ..networks import NetworkSource
from ..storage import load_arrays
from ..storage.structured import to_data
from ..structure.calling import Buffers
from ..structure.layout import Layout
from ..structure.vectors import refuse_other, vector_of
from .folder import RunFolder
from .problem import Data

ASKED = 2000  # examples that say what a Gaussian likelihood's noise is
SAME = 1.5  # deviations whose tenth and ninetieth percentile differ by less are one number rather than a curvature


@dataclass(frozen=True, eq=False)
class Moments:
    """What another program found: the **mean** of each weight (the network's own weights unless given), and either its
    **std** or its **precision**, prior included. Each is a tree like the network, arrays by the names of the network's
    leaves, one vector in the order of `Layout`, or, of a network from PyTorch, one tensor in the order of the module's
    `parameters()`. They are taken as they are, but no deviation is wider than the prior's.

    Raises:
        ArgumentError: neither or both of `std` and `precision`; from `fit`, numbers that are not of this network.

    Examples:
        >>> precision = np.linspace(1.0, 100.0, 178)  # one for each weight, from another program
        >>> start = ox.Trained(curvature=ox.Moments(precision=precision))
    """

    mean: Any = None
    std: Any = None
    precision: Any = None

    def __post_init__(self):
        if (self.std is None) == (self.precision is None):
            raise ArgumentError("moments: give either std or precision; one of them, not both")

    def stds(self, layout: Layout, network: Any) -> Float[np.ndarray, "weights"]:
        """The deviations as one vector."""
        if self.std is not None:
            found = vector_of("start: std", self.std, layout, network)
        else:
            precision = vector_of("start: precision", self.precision, layout, network)
            _refuse_not_positive("precision", precision)
            found = precision**-0.5
        _refuse_not_positive("std", found)
        low, high = np.quantile(found, [0.1, 0.9])
        if high < SAME * low:
            warnings.warn(
                f"start: the deviations handed in hardly differ ({low:.2g} to {high:.2g} from the tenth to the "
                "ninetieth percentile): noise of one size, no curvature. ΔF will then order weights much as their "
                "magnitudes do; ox.GaussNewton() measures a curvature in one pass.",
                stacklevel=2,
            )
        return found


@dataclass(frozen=True)
class Trained:
    """Begin with trained weights in place of random ones.

    **weights** None takes the present values of the network's arrays; else a run folder, or a `.safetensors` file whose
    arrays have the names and shapes of the network's. A network's state (BatchNorm) comes along from the pair that is
    passed to `fit`, or from a run. **curvature** says how sure each weight is: `GaussNewton()` or `EmpiricalFisher()`,
    estimated on the training data in one pass, or `Moments(...)` of another program. **largest_std** limits the
    deviations, in those of the prior: where the data say nothing of a weight, its whole prior would be noise. None
    limits them by what the method's posterior begins with from random weights (`MeanField(init_std)`).
    **rate_factor** times the method's learning rate is what it trains at. **keep_zeros** leaves weights that are
    exactly zero (gains: one) removed, as those of a pruned network are; otherwise they may grow again.

    Raises:
        ArgumentError: a value that cannot work; from `fit`, weights that are not of this network, or untrained.

    Examples:
        >>> start = ox.Trained("runs/reference", rate_factor=0.5)
        >>> again = ox.fit(network, (x, y), start=start, epochs=1, steps_per_epoch=2, num_samples=2, progress=False)
    """

    weights: Path | str | None = None
    curvature: Curvature | Moments = field(default_factory=GaussNewton)
    largest_std: float | None = None
    rate_factor: float = 1.0
    keep_zeros: bool = False

    def __post_init__(self):
        if not isinstance(self.curvature, Curvature | Moments):
            raise ArgumentError(
                f"curvature: {self.curvature!r} given; it must be an object such as ox.GaussNewton(), or "
                "ox.Moments(std=…)"
            )
        if self.largest_std is not None and not self.largest_std > 0:
            raise ArgumentError(f"largest_std: {self.largest_std!r} given; it must be positive, or None")
        if not self.rate_factor > 0:
            raise ArgumentError(f"rate_factor: {self.rate_factor!r} given; it must be positive")

    @property
    def is_tempered(self) -> bool:
        """Whether the deviations are those of a posterior at the run's KL weight."""
        return not isinstance(self.curvature, Moments)


@dataclass(frozen=True)
class Start:
    """A `Trained` and what it says of one network: its weights are read, its curvature waits until it is asked for,
    since a run that is resumed needs none."""

    how: Trained
    model: Model
    weights: Float[np.ndarray, "weights"]
    buffers: Buffers
    data: Data
    held_out: HeldOut
    source: dict[str, Any]

    def settings(self) -> dict[str, Any]:
        """What a resumed run must share, as data."""
        own = self.how
        curvature = to_data(own.curvature) if isinstance(own.curvature, Curvature) else {"kind": "Moments"}
        values = {name: getattr(own, name) for name in ("largest_std", "rate_factor", "keep_zeros")}
        return {"kind": "Trained", "curvature": curvature, **values, "weights": digest_of(self.weights)}

    def beginning(self, has_deviations: bool = True) -> Beginning:
        """All that the first posterior needs. One without deviations needs no curvature, which may take minutes."""
        model, weights = self.model, jnp.asarray(self.weights)
        take, count = taker(self.data, self.held_out), self.held_out.trained
        inputs, targets = take(np.arange(min(ASKED, count)))
        network = model.layout.bind(model.network, weights)
        outputs = _outputs(model, network, jnp.asarray(inputs), self.buffers)
        log_scales = model.likelihood.fitted_scales(outputs, jnp.asarray(targets))
        if not has_deviations:
            precision = jnp.zeros_like(weights)
        elif isinstance(self.how.curvature, Moments):
            stds = jnp.asarray(self.how.curvature.stds(model.layout, model.network))
            prior = model.prior.weight_stds(model.layout, model.prior.fitted_scales(model.layout, weights))
            precision = jnp.maximum(stds**-2 - prior**-2, 0.0)
        else:
            precision = diagonal(model, weights, self.buffers, log_scales, take, count, self.how.curvature)
        keep = jnp.ones(weights.size, bool)
        if self.how.keep_zeros:
            keep = weights != jnp.asarray(model.layout.gains(), weights.dtype)
        return Beginning(weights, precision, log_scales, self.buffers, keep)


_outputs = eqx.filter_jit(Model.outputs)


def started(method: Method, how: Any) -> Method:
    """The method as it trains from trained weights. An optax transformation has a rate of its own and keeps it."""
    if not isinstance(how, Trained):
        raise ArgumentError(f"start: {how!r} given; it must be an object such as ox.Trained()")
    method = method.begun(is_trained=True)
    return method if isinstance(method.optimizer, Optax) else method.at_rate(how.rate_factor)


def prepare_start(how: Trained | None, network: Any, model: Model, data: Data, held_out: HeldOut) -> Start | None:
    """What a user asked for, checked before anything is compiled."""
    if how is None:
        return None
    weights, buffers, source = read_weights(how.weights, network, model)
    if isinstance(how.curvature, Moments) and how.curvature.mean is not None:
        weights = vector_of("start: mean", how.curvature.mean, model.layout, model.network)
    _refuse_untrained(weights, model.layout)
    model = model.under(model.prior.around(model.layout, weights))
    return Start(how, model, weights, buffers, data, held_out, source)


def taker(data: Data, held_out: HeldOut) -> Take:
    """Examples by their number among those that are trained on."""

    return lambda numbers: examples_at(data, held_out.places_trained(numbers))


def examples_at(data: Data, places: np.ndarray) -> tuple[Any, Any]:
    """The training examples at these places."""
    if isinstance(data.train, Stream):
        return data.train.take(places)
    return data.train[0][places], data.train[1][places]


def read_weights(
    path: Path | str | None, network: Any, model: Model
) -> tuple[Float[np.ndarray, "weights"], Buffers, dict[str, Any]]:
    """Weights as one vector, the network's buffers, and where they came from as data."""
    if path is None:
        if isinstance(network, NetworkSource) and "name" in network.as_data():
            raise ArgumentError(
                f"start: the network {network.name!r} is made by its name and was never trained. Name a run folder or "
                "a weights file, ox.Trained('runs/…'), or pass the trained network itself"
            )
        weights = np.asarray(model.layout.pack(model.network), np.float32)
        return weights, model.buffers, {"from": "network", "class": type(model.network).__qualname__}
    path = Path(path)
    read = _of_run if path.is_dir() else _of_file
    weights, buffers = read(path, model)
    return weights, buffers, {"from": "run" if path.is_dir() else "file", "name": path.name}


def _of_run(path: Path, model: Model) -> tuple[Float[np.ndarray, "weights"], Buffers]:
    """The weights at the posterior mean of a finished run, and its network's buffers."""
    folder, layout = RunFolder.open(path), model.layout
    theirs, ours = (
        {block.name: (block.weight_shape, block.bias_shape) for block in own.blocks}
        for own in (Layout.from_data(folder.config().layout), layout)
    )
    refuse_other(f"start: {path}", theirs, ours)
    if not (path / "weights.safetensors").is_file():
        raise RunError(f"{path}: has no weights yet; the run is not finished. Finish it with `resume`")
    matrices = {key.split(" ", 1)[1]: array for key, array in load_arrays(path / "weights.safetensors")[0].items()}
    weights = np.zeros(layout.size, np.float32)
    for name, places in zip(layout.names, layout.matrices(jnp.arange(layout.size)), strict=True):
        weights[np.asarray(places)] = matrices[name]
    arrays = load_arrays(folder.chosen_checkpoint())[0] if model.buffers else {}
    return weights, _buffers(path, arrays, model)


def _of_file(path: Path, model: Model) -> tuple[Float[np.ndarray, "weights"], Buffers]:
    """The arrays of a .safetensors file by the names of the network's leaves; buffers as `buffers.0`, `buffers.1` …"""
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, no dict
    except (SafetensorError, OSError, ValueError) as error:
        raise RunError(
            f"start: {path} is neither a run folder nor a .safetensors file that can be read ({error})"
        ) from error
    own = {name: array for name, array in arrays.items() if not name.startswith("buffers.")}
    return vector_of(f"start: {path}", own, model.layout, model.network), _buffers(path, arrays, model)


def _buffers(path: Path, arrays: Mapping[str, np.ndarray], model: Model) -> Buffers:
    """What a network with a state begins with; running statistics of nothing would make its curvature meaningless."""
    found = [arrays.get(f"buffers.{i}") for i in range(len(model.buffers))]
    for i, (own, buffer) in enumerate(zip(found, model.buffers, strict=True)):
        if own is None or own.shape != buffer.shape:
            was = "nothing" if own is None else f"shape {list(own.shape)}"
            raise RunError(
                f"{path}: the network has a state, such as BatchNorm's; buffers.{i} should have shape "
                f"{list(buffer.shape)}, found {was}. Start from a run of the same network, or pass the network and its "
                "state to fit"
            )
    return tuple(jnp.asarray(own, buffer.dtype) for own, buffer in zip(found, model.buffers, strict=True))


def _refuse_untrained(weights: Float[np.ndarray, "weights"], layout: Layout) -> None:
    for name, (begin, end) in zip(layout.names, layout.bounds, strict=True):
        if not np.isfinite(weights[begin:end]).all():
            raise ArgumentError(f"start: {name} holds NaN or infinite weights; training of it had diverged")
    if not weights.any():
        raise ArgumentError("start: every weight of the network is zero; was it ever trained, or loaded?")


def _refuse_not_positive(what: str, values: np.ndarray) -> None:
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise ArgumentError(f"{what}: some of it is zero, negative or no number; every weight needs a positive one")


def digest_of(weights: np.ndarray) -> str:
    return hashlib.blake2b(np.ascontiguousarray(weights).tobytes(), digest_size=16).hexdigest()
