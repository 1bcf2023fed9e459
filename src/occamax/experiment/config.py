"""What a run is, in names and numbers: the only place where strings choose behaviour."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from .. import methods, networks
from ..data import SOURCES, Dataset, load
from ..errors import ArgumentError
from ..methods import Method
from ..model import Model
from ..names import choose
from ..training import Budget
from .devices import Devices


@dataclass(frozen=True)
class NetworkSpec:
    """How a named network is built for a data set. `image_size` is the size it takes, None for any."""

    build: Callable[[tuple[int, ...], int, float, PRNGKeyArray], eqx.Module]
    image_size: int | None = None

    def shape(self, dataset: Dataset) -> tuple[int, ...]:
        """Of the images it sees."""
        return dataset.shape if self.image_size is None else (dataset.shape[0], self.image_size, self.image_size)

    def module(self, dataset: Dataset, dropout: float = 0.0) -> Any:
        """The network for a data set."""
        return self.template(self.shape(dataset), dataset.classes, dropout)

    def template(self, shape: tuple[int, ...], classes: int, dropout: float = 0.0) -> Any:
        """The network with zeros for weights: those that are trained come from the method, and all are trained."""
        shapes = eqx.filter_eval_shape(self.build, shape, classes, dropout, jax.random.key(0))

        def zeros(leaf: Any) -> Any:
            is_shape = isinstance(leaf, jax.ShapeDtypeStruct)
            return jax.device_put(np.zeros(leaf.shape, leaf.dtype)) if is_shape else leaf

        return jax.tree.map(zeros, shapes)

    def model(self, dataset: Dataset, method: Method, compute_type: Any = jnp.float32, multiple: int = 1) -> Model:
        """The Bayesian network for a data set and a method."""
        prepare = dataset.standardise(self.image_size)
        module = self.module(dataset, method.dropout)
        return Model(module, method.prior, preprocess=prepare, compute_type=compute_type, multiple=multiple)


def _lenet(shape, classes, dropout, key):
    wide = shape[0] == 3  # the paper widens it for colour
    channels, hidden = ((18, 48, 360), 256) if wide else ((6, 16, 120), 84)
    return networks.LeNet(shape, classes, channels, hidden, dropout, key=key)


NETWORKS: dict[str, NetworkSpec] = {
    "mlp": NetworkSpec(lambda shape, classes, dropout, key: networks.MLP(shape, classes, dropout=dropout, key=key)),
    "lenet": NetworkSpec(_lenet, 32),
    "mixer": NetworkSpec(lambda shape, classes, dropout, key: networks.Mixer(shape, classes, key=key), 32),
    "lenet-300-100": NetworkSpec(lambda shape, classes, dropout, key: networks.lenet_300_100(shape, classes, key=key)),
    "lenet-caffe": NetworkSpec(lambda shape, classes, dropout, key: networks.LeNetCaffe(shape, classes, key=key)),
    "vit": NetworkSpec(lambda shape, classes, dropout, key: networks.ViT(shape, classes, dropout=dropout, key=key), 32),
}

METHODS: dict[str, Callable[[], Method]] = {
    "map": methods.MAP,
    "flat": methods.MeanFieldFlat,
    "tiered": methods.MeanFieldTiered,
    "bmr-paper": methods.PaperBMR,
    "bmr-rhs": methods.HorseshoeBMR,
    "bmr": methods.BMR,
}

PRECISIONS = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}

# the names the paper gives them
LABELS = {
    "map": "Flat-MAP",
    "flat": "Flat-FF",
    "tiered": "Tiered-FF",
    "bmr-paper": "BMR-S&S",
    "bmr-rhs": "BMR-RHS",
    "bmr": "BMR",
}


@dataclass(frozen=True)
class Config:
    """One run. Written to and read from `config.json`."""

    data: str
    network: str
    method: str
    epochs: int = 50
    steps: int = 500
    batch: int = 128
    seed: int = 0
    samples: int = 100  # draws of the weights in the last evaluation
    precision: str = "float32"  # of activations and products
    curve_samples: int | None = None  # draws in the evaluations before the last; as many unless given
    sparsity: float | None = None  # share of the reducible weights to remove; the evidence decides unless given
    unit_price: float | None = None  # nats a weight that a unit must earn to stay; units are not weighed unless given

    def __post_init__(self):
        choose("DATA", self.data, SOURCES)
        choose("NETWORK", self.network, NETWORKS)
        choose("METHOD", self.method, METHODS)
        choose("precision", self.precision, PRECISIONS)
        for name in ("sparsity", "unit_price"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise ArgumentError(f"{name}: {value!r} given; it must be a number")
        _ = self.budget
        _ = self.chosen_method()
        numbers = {"seed": 0, "samples": 1} | ({} if self.curve_samples is None else {"curve_samples": 1})
        for name, least in numbers.items():
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ArgumentError(f"{name}: {value!r} given; it must be a whole number from {least} up")
        if self.seed >= 2**32:
            raise ArgumentError(f"seed: {self.seed} given; it must be under 2³²")

    @property
    def budget(self) -> Budget:
        return Budget(self.epochs, self.steps, self.batch)

    def chosen_method(self) -> Method:
        method = METHODS[self.method]()
        method = method if self.sparsity is None else method.pruned_to(self.sparsity, self.epochs)
        return method if self.unit_price is None else method.with_units(self.unit_price)

    @property
    def name(self) -> str:
        return f"{self.data}-{self.network}-{self.method}-seed{self.seed}"

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_dict(values: dict[str, Any], source: Path) -> "Config":
        known = {field.name: field for field in dataclasses.fields(Config)}
        strange = set(values) - set(known)
        missing = {name for name, field in known.items() if field.default is dataclasses.MISSING} - set(values)
        if strange or missing:
            raise ArgumentError(
                f"{source}: is no configuration of this version of occamax "
                f"(unknown: {sorted(strange) or 'none'}, missing: {sorted(missing) or 'none'})"
            )
        return Config(**values)


@dataclass(frozen=True)
class Experiment:
    """A configuration made real: data, model, method."""

    config: Config
    dataset: Dataset
    model: Model
    method: Method
    devices: Devices = Devices()

    @staticmethod
    def of(config: Config, data_dir: Path | None = None, devices: Devices = Devices()) -> "Experiment":
        dataset = load(SOURCES[config.data], data_dir)
        method = config.chosen_method()
        model = NETWORKS[config.network].model(dataset, method, PRECISIONS[config.precision], devices.multiple)
        return Experiment(config, dataset, model, method, devices)
