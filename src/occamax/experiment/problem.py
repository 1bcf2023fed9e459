"""What a user hands to `fit`, made into what is trained: data, likelihood, model, and where each came from."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..data import Dataset, Stream, as_augmentation, check_augmentation
from ..data import _preprocess as preprocesses
from ..data import augment as augmentations
from ..errors import ArgumentError
from ..inference.likelihoods import Categorical, Gaussian, Likelihood
from ..inference.model import Model
from ..methods import Method, kinds
from ..networks import NetworkSource, source_like
from ..storage.structured import known_kinds, to_data
from ..structure.layout import Fixed
from .devices import Devices

Arrays = tuple[np.ndarray, np.ndarray]
FIRST = 128  # examples of a stream that are looked at before anything is compiled


@dataclass(frozen=True)
class Facts:
    """What is known of data beside the arrays: names for tables and exports, where they came from, and how one raw
    example becomes an input."""

    name: str = "arrays"
    class_names: tuple[str, ...] | None = None
    target_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    origin: dict[str, Any] | None = None
    preprocess: Any = None

    def as_data(self) -> dict[str, Any]:
        names = {name: getattr(self, name) for name in ("class_names", "target_names", "feature_names")}
        return {**{name: None if value is None else list(value) for name, value in names.items()}, "from": self.origin}


@dataclass(frozen=True)
class Data:
    """Training and test examples with what is known of them."""

    train: Arrays | Stream
    test: Arrays | Stream | None
    facts: Facts

    @property
    def example(self) -> jax.ShapeDtypeStruct:
        """The shape and type of one raw example."""
        if isinstance(self.train, Stream):
            return jax.ShapeDtypeStruct(self.train.shape, self.train.dtype)
        return jax.ShapeDtypeStruct(self.train[0].shape[1:], self.train[0].dtype)

    @property
    def words(self) -> int | None:
        """How many different tokens there may be, where the examples are rows of them: as many as the encoder knows, or
        as there are up to the largest."""
        known = (self.facts.origin or {}).get("encoder") or {}
        if "words" in known:
            return len(known["words"])
        is_tokens = len(self.example.shape) == 1 and np.issubdtype(self.example.dtype, np.signedinteger)
        if not is_tokens:
            return None
        return 1 + (self.train.largest if isinstance(self.train, Stream) else int(self.train[0].max()))

    @property
    def targets(self) -> np.ndarray:
        return self.train.targets if isinstance(self.train, Stream) else self.train[1]

    def __len__(self) -> int:
        return len(self.targets)


def read_data(data: Any, test: Any = None, preprocess: Any = None, image_size: int | None = None) -> Data:
    """From a `Dataset`, a `Stream`, or a pair of inputs and targets. `preprocess` unless the data set has its own."""
    if isinstance(data, Dataset):
        own = data.standardise(image_size) if preprocess is None else preprocess
        facts = Facts(data.name, data.class_names, data.target_names, data.feature_names, data.origin, own)
        tested = _tested((data.test.inputs, data.test.targets) if test is None else test)
        return Data((data.train.inputs, data.train.targets), tested, facts)
    if isinstance(data, str | Path):
        raise ArgumentError(f"data: {str(data)!r} given; open it first: ox.load_data({str(data)!r})")
    if isinstance(data, Stream):
        own = data.standardise(image_size) if preprocess is None else preprocess
        facts = Facts(data.name, data.class_names, origin=data.described(), preprocess=own)
        return Data(data, data.test if test is None else _tested(test), facts)
    train = _pair("data", data)
    facts = Facts("arrays", preprocess=preprocess, origin=_origin(train))
    return Data(train, None if test is None else _tested(test), facts)


def _tested(given: Any) -> Arrays | Stream | None:
    """A test set; none where it is empty."""
    found = given if isinstance(given, Stream) else _pair("test", given)
    return found if isinstance(found, Stream) or len(found[0]) else None


def _pair(name: str, given: Any) -> Arrays:
    try:
        inputs, targets = (np.asarray(part) for part in given)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"{name}: {type(given).__name__} given; it must be "
            f"{'a Dataset (ox.load_data), ' if name == 'data' else ''}a Stream (ox.open_arrays), or a pair of inputs "
            "and targets"
        ) from error
    narrow = {np.dtype(np.float64): np.float32, np.dtype(np.int64): np.int32, np.dtype(bool): np.uint8}
    inputs = inputs.astype(narrow.get(inputs.dtype, inputs.dtype), copy=False)
    wide = {np.dtype(np.float64): np.float32, np.dtype(np.int64): np.int32}
    return inputs, targets.astype(wide.get(targets.dtype, targets.dtype), copy=False)


def _origin(pair: Arrays) -> dict[str, Any]:
    digest = hashlib.blake2b(digest_size=16)
    for array in pair:
        digest.update(np.ascontiguousarray(array).data)
    shapes = {name: list(array.shape) for name, array in zip(("inputs", "targets"), pair, strict=True)}
    return {"kind": "arrays", **shapes, "digest": digest.hexdigest()}


def default_likelihood(data: Data) -> Likelihood:
    """Classes for whole numbers, a Gaussian around real ones, in their own unit."""
    targets = data.targets
    if np.issubdtype(targets.dtype, np.integer):
        return Categorical()
    columns = targets.reshape(len(targets), -1).astype(np.float64)
    scale = columns.std(0)
    scale = np.where(scale > 0, scale, 1.0)
    return Gaussian(center=tuple(columns.mean(0).tolist()), scale=tuple(scale.tolist()))


def build_network(network: Any, data: Data, dropout: float) -> Any:
    """The network itself, where a source of one is given."""
    if not isinstance(network, NetworkSource):
        return network
    outputs = _outputs(data)
    shape = data.example.shape
    is_ours = "name" in network.as_data()
    build = network.template if is_ours else network.network
    return build(shape, outputs, dropout, data.words)


def _outputs(data: Data) -> int:
    if data.facts.class_names is not None:
        return len(data.facts.class_names)
    targets = data.targets
    if np.issubdtype(targets.dtype, np.integer):
        return int(targets.max()) + 1
    return int(np.prod(targets.shape[1:]))


def build_model(
    network: Any,
    data: Data,
    method: Method,
    likelihood: Likelihood | None,
    fixed: Fixed,
    dtype: str,
    devices: Devices,
    recompute_activations: bool = False,
) -> Model:
    """The Bayesian network, checked against its data; its prior is that of the method as it suits the network."""
    chosen = default_likelihood(data) if likelihood is None else likelihood
    if not isinstance(chosen, Likelihood):
        raise ArgumentError(f"likelihood: {chosen!r} given; it must be an object such as ox.Categorical()")
    prepare = jnp.asarray if data.facts.preprocess is None else data.facts.preprocess
    built = build_network(network, data, method.dropout)
    how = jnp.dtype(dtype), devices.multiple, recompute_activations
    model = Model(built, data.example, lambda own: method.suited_to(own).prior, chosen, fixed, prepare, *how)
    if method.estimator.is_local and model.calling.has_state:
        raise ArgumentError("estimator: a network with a state is seen by the whole batch; leave it at SharedDraw()")
    for part in (data.train, *([] if data.test is None else [data.test])):
        check_examples(model, part)
    return model


def check_examples(model: Model, examples: Arrays | Stream) -> None:
    """All examples; of a stream all targets and the first inputs: the others are looked at when they are read."""
    if isinstance(examples, Stream):
        outputs = model.check_data(*examples.take(np.arange(min(FIRST, len(examples)))))
        model.likelihood.check_targets(examples.targets, outputs)
    else:
        model.check_data(*examples)


def checked_augmentation(augment: Any, data: Data) -> Any:
    """An augmentation that keeps an example's shape and type, or None."""
    found = as_augmentation(augment)
    if found is not None:
        check_augmentation(found, data.example)
    return found


def describe(model: Model, method: Method, data: Data, network: Any, augment: Any, start: Any = None) -> dict[str, Any]:
    """The parts of a `Config` that say in full what a run is; `start`, where it begins at what was trained already."""
    settings = {
        "method": method.as_data(),
        "likelihood": to_data(model.likelihood),
        "preprocess": to_data(data.facts.preprocess),
        "augment": to_data(augment),
        "fixed": list(model.layout.fixed),
    }
    source = _source(network, model, method, data)
    example: dict[str, Any] = {"shape": list(data.example.shape), "dtype": str(data.example.dtype)}
    example |= {} if data.words is None else {"words": data.words}
    origin = {"data": data.facts.as_data(), "network": source, "example": example}
    if start is not None:
        settings["start"], origin["start"] = start.settings(), start.source
    return {"settings": settings, "origin": origin, "layout": model.layout.as_data()}


def _source(network: Any, model: Model, method: Method, data: Data) -> dict[str, str]:
    """How to build the network again: by name, also where it was passed in and is as the named one. Where arrays stay
    as they were given, no name tells of them."""
    found = network
    if not isinstance(network, NetworkSource):
        like = (data.example.shape, _outputs(data), method.dropout, data.words)
        found = None if model.layout.fixed else source_like(network, *like)
    return {"class": type(model.network).__qualname__} if found is None else found.as_data()


def network_name(network: Any, model: Model) -> str:
    if isinstance(network, NetworkSource):
        return network.name
    return getattr(model.network, "library_name", type(model.network).__name__)  # of another library's class


def all_kinds() -> dict[str, type]:
    """Every class that a part of a run's settings may be, by name."""
    return kinds() | known_kinds(preprocesses, augmentations)
