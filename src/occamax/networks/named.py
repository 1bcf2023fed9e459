"""Networks by name, or by the name of a user's own function: what the command line and the tables call them."""

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ..errors import ArgumentError
from ..names import choose
from .classic import LeNetCaffe, lenet_300_100
from .lenet import LeNet
from .mixer import Mixer
from .mlp import MLP
from .resnet import resnet20, resnet20_batch_norm
from .text import TextTransformer
from .vit import ViT


@dataclass(frozen=True)
class NetworkSource:
    """How a network is built for data of a shape. **build** takes the shape of one input, the number of outputs, and by
    name a `key` and, if it has any use for them, a `dropout` and the number of `words` that tokens stand for; it gives
    a module, or the pair of a module and its state.
    **image_size** is the size of images it takes, None for any.

    **name** is what tables call it.

    Raises:
        ArgumentError: a function that cannot be called so.

    Examples:
        >>> def wide(shape, outputs, *, key):
        ...     return ox.MLP(shape, outputs, hidden=(32,), key=key)
        >>> source = ox.NetworkSource("wide", wide)
        >>> source.network((8,), 2).layers[0].weight.shape
        (32, 8)
    """

    name: str
    build: Callable[..., Any]
    image_size: int | None = None

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Of what it sees, of an example of this shape."""
        return shape if self.image_size is None else (shape[0], self.image_size, self.image_size)

    def network(
        self, shape: tuple[int, ...], outputs: int, dropout: float = 0.0, words: int | None = None, seed: int = 0
    ) -> Any:
        """The network for examples of this shape."""
        taken = inspect.signature(self.build).parameters
        if "words" in taken and words is None:
            raise ArgumentError(
                f"NETWORK: {self.name} takes token numbers, but the data are none; open a set of texts, such as "
                "film_snippets"
            )
        options = {name: value for name, value in {"dropout": dropout, "words": words}.items() if name in taken}
        try:
            return self.build(self.shape(shape), outputs, key=jax.random.key(seed), **options)
        except TypeError as error:
            raise ArgumentError(
                f"NETWORK: {self.name} cannot be called as function(input_shape, outputs, key=key): {error}"
            ) from error

    def template(self, shape: tuple[int, ...], outputs: int, dropout: float = 0.0, words: int | None = None) -> Any:
        """The network with zeros for weights: those that are trained come from the method, and all are trained. Only
        for networks that are nothing but such weights."""
        shapes = eqx.filter_eval_shape(self.network, shape, outputs, dropout, words)

        def zeros(leaf: Any) -> Any:
            is_shape = isinstance(leaf, jax.ShapeDtypeStruct)
            return jax.device_put(np.zeros(leaf.shape, leaf.dtype)) if is_shape else leaf

        return jax.tree.map(zeros, shapes)

    def as_data(self) -> dict[str, str]:
        """What a run keeps of it, to build it again."""
        return {"name" if self.name in NETWORKS else "function": self.name}


def _lenet(shape, classes, dropout=0.0, *, key):
    wide = shape[0] == 3  # the paper widens it for colour
    channels, hidden = ((18, 48, 360), 256) if wide else ((6, 16, 120), 84)
    return LeNet(shape, classes, channels, hidden, dropout, key=key)


def _mlp(shape, classes, dropout=0.0, *, key):
    return MLP(shape, classes, dropout=dropout, key=key)


def _vit(shape, classes, dropout=0.0, *, key):
    return ViT(shape, classes, dropout=dropout, key=key)


def _text(shape, classes, words, dropout=0.0, *, key):
    return TextTransformer(shape, classes, words, dropout=dropout, key=key)


NETWORKS: dict[str, NetworkSource] = {
    source.name: source
    for source in (
        NetworkSource("mlp", _mlp),
        NetworkSource("lenet", _lenet, 32),
        NetworkSource("mixer", Mixer, 32),
        NetworkSource("lenet-300-100", lenet_300_100),
        NetworkSource("lenet-caffe", LeNetCaffe),
        NetworkSource("vit", _vit, 32),
        NetworkSource("resnet20", resnet20, 32),
        NetworkSource("resnet20-bn", resnet20_batch_norm, 32),
        NetworkSource("text", _text),
    )
}


def network_named(words: str) -> NetworkSource:
    """The network of these **words**, as on the command line: a name, or `package.module:function` of the user's own.

    Raises:
        ArgumentError: a name that is not known, a module that cannot be imported, or one without the function.

    Examples:
        >>> ox.network_named("lenet").image_size
        32
    """
    if ":" not in words:
        return NETWORKS[choose("NETWORK", words, [*NETWORKS, "package.module:function"])]
    module_name, _, name = words.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (ImportError, ValueError, TypeError) as error:
        raise ArgumentError(
            f"NETWORK: {module_name} cannot be imported ({error}). It is looked for where Python looks for modules; "
            "the folder you are in is one of them"
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        raise ArgumentError(f"NETWORK: {module_name} has no function {name!r}")
    return NetworkSource(words, function, getattr(function, "image_size", None))


def source_like(
    network: Any, shape: tuple[int, ...], outputs: int, dropout: float = 0.0, words: int | None = None
) -> NetworkSource | None:
    """The named source that builds a **network** like this one for examples of this shape, whatever the values of its
    weights: the same classes with the same values. None where it is another's, or has a width of its own."""
    root = network[0] if isinstance(network, tuple) else network
    if not type(root).__module__.startswith(f"{__package__}."):
        return None
    for source in NETWORKS.values():
        try:
            same = eqx.filter_eval_shape(source.network, shape, outputs, dropout, words)
        except (ArgumentError, ValueError):  # not for examples of this shape
            continue
        if _kind(same) == _kind(network):
            return source
    return None


def _kind(network: Any) -> tuple[Any, list[Any]]:
    """What is left of it without the values of its arrays."""
    leaves, structure = jax.tree.flatten(network)
    return structure, [(leaf.shape, leaf.dtype) if hasattr(leaf, "dtype") else leaf for leaf in leaves]


def network_from(data: dict[str, str]) -> NetworkSource | None:
    """The source that `as_data` told of; None for a network that was passed in by hand."""
    words = data.get("name") or data.get("function")
    return None if words is None else network_named(words)
