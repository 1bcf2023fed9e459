"""EfficientNet-Lite0 and MiniLM in Equinox, with weights of PyTorch: as in `examples/`, without PyTorch.

`lite0(arrays, outputs, key=key)` and `minilm(arrays, outputs, key=key)` take arrays by the names that the modules of
the examples have for them (`state_dict()`), in any precision; an output layer of another width stays random. None for
the arrays leaves all of it random. `pretrained_weights.py` writes such arrays as files.

EfficientNet: Tan and Le (2019), "Lite". MiniLM: BERT (Devlin et al. 2019), distilled (Wang et al. 2020).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt8

from occamax.networks._parts import convolve_padded, split_or_none

Arrays = Mapping[str, np.ndarray]
Stage = tuple[int, int, int, int, int]  # widening, channels, blocks, stride of the first, side of the kernel
STAGES: tuple[Stage, ...] = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)  # fmt: skip
WORDS, LENGTH, WIDTH, HEADS, LAYERS = 30_522, 32, 384, 12, 6
MANY = 10_000  # batches that running statistics were averaged over: they count as they are


@dataclass(frozen=True)
class Larger:
    """An image of bytes → three channels of `side` × `side`, scaled as EfficientNet-Lite was trained."""

    side: int

    def __call__(self, image: UInt8[Array, "channels h w"]) -> Float[Array, "3 side side"]:
        shape = (len(image), self.side, self.side)
        larger = jax.image.resize(image.astype(jnp.float32), shape, "linear")
        return jnp.broadcast_to((larger - 127.0) / 128.0, (3, *shape[1:]))


def _convolution(inputs: int, outputs: int, side: int, stride: int, groups: int, key: PRNGKeyArray) -> eqx.nn.Conv2d:
    """Padded as TensorFlow pads, where the weights are from: what is odd comes at the end."""
    return eqx.nn.Conv2d(inputs, outputs, side, stride, padding="SAME", groups=groups, use_bias=False, key=key)


class Normed(eqx.Module):
    """A convolution and its BatchNorm, ReLU6 where it is asked for."""

    convolution: eqx.nn.Conv2d
    norm: eqx.nn.BatchNorm
    clipped: bool = eqx.field(static=True)

    def __init__(
        self, inputs: int, outputs: int, side: int = 1, stride: int = 1, *, apart: bool = False, clipped: bool = True,
        key: PRNGKeyArray,
    ):  # fmt: skip
        self.convolution = _convolution(inputs, outputs, side, stride, inputs if apart else 1, key)
        self.norm = eqx.nn.BatchNorm(outputs, axis_name="batch", eps=1e-3, momentum=0.9, mode="batch")
        self.clipped = clipped

    def __call__(self, x: Float[Array, "inputs h w"], state: Any) -> tuple[Float[Array, "outputs h2 w2"], Any]:
        x, state = self.norm(convolve_padded(self.convolution, x), state)
        return jax.nn.relu6(x) if self.clipped else x, state


class Block(eqx.Module):
    """Widen, look around each channel by itself, narrow; the stream is added where its shape stays."""

    widen: Normed | None
    around: Normed
    narrow: Normed
    adds: bool = eqx.field(static=True)

    def __init__(self, widening: int, inputs: int, outputs: int, stride: int, side: int, *, key: PRNGKeyArray):
        one, two, three = jax.random.split(key, 3)
        inner = widening * inputs
        self.widen = Normed(inputs, inner, key=one) if widening > 1 else None
        self.around = Normed(inner, inner, side, stride, apart=True, key=two)
        self.narrow = Normed(inner, outputs, clipped=False, key=three)
        self.adds = stride == 1 and inputs == outputs

    def __call__(self, x: Float[Array, "inputs h w"], state: Any) -> tuple[Float[Array, "outputs h2 w2"], Any]:
        y, state = (x, state) if self.widen is None else self.widen(x, state)
        y, state = self.around(y, state)
        y, state = self.narrow(y, state)
        return x + y if self.adds else y, state


class EfficientNetLite0(eqx.Module):
    """Image → outputs. `head` is the last convolution, `out` the output layer, as the others name them."""

    stem: Normed
    blocks: tuple[Block, ...]
    head: Normed
    dropout: eqx.nn.Dropout
    out: eqx.nn.Linear

    def __init__(
        self, outputs: int, stages: Sequence[Stage] = STAGES, width: int = 1280, dropout: float = 0.2, *,
        key: PRNGKeyArray,
    ):  # fmt: skip
        first, last, final, *keys = jax.random.split(key, 3 + sum(stage[2] for stage in stages))
        self.stem, blocks, inputs, own = Normed(3, 32, 3, 2, key=first), [], 32, iter(keys)
        for widening, channels, count, stride, side in stages:
            for i in range(count):
                step = stride if i == 0 else 1
                blocks.append(Block(widening, inputs, channels, step, side, key=next(own)))
                inputs = channels
        self.blocks = tuple(blocks)
        self.head = Normed(inputs, width, key=last)
        self.dropout, self.out = eqx.nn.Dropout(dropout), eqx.nn.Linear(width, outputs, key=final)

    def __call__(
        self, image: Float[Array, "3 h w"], state: Any, *, key: PRNGKeyArray | None = None
    ) -> tuple[Float[Array, "outputs"], Any]:
        x, state = self.stem(image, state)
        for block in self.blocks:
            x, state = block(x, state)
        x, state = self.head(x, state)
        return self.out(self.dropout(x.mean((1, 2)), key=key, inference=key is None)), state

    def parts(self) -> Iterator[tuple[str, str, Normed]]:
        """Names of the convolution and its norm in PyTorch, and both here."""
        yield "_conv_stem", "_bn0", self.stem
        for i, block in enumerate(self.blocks):
            if block.widen is not None:
                yield f"_blocks.{i}._expand_conv", f"_blocks.{i}._bn0", block.widen
            yield f"_blocks.{i}._depthwise_conv", f"_blocks.{i}._bn1", block.around
            yield f"_blocks.{i}._project_conv", f"_blocks.{i}._bn2", block.narrow
        yield "_conv_head", "_bn1", self.head


def lite0(arrays: Arrays | None, outputs: int, *, key: PRNGKeyArray, **how: Any) -> tuple[EfficientNetLite0, Any]:
    """The network and its state, with these weights and running statistics; `how` is of `EfficientNetLite0`."""
    network, state = eqx.nn.make_with_state(EfficientNetLite0)(outputs, key=key, **how)
    if arrays is None:
        return network, state
    places: dict[str, Callable[[EfficientNetLite0], Any]] = {"_fc": lambda net: net.out}
    for i, (convolution, norm, own) in enumerate(network.parts()):
        places[convolution] = lambda net, i=i: list(net.parts())[i][2].convolution
        places[norm] = lambda net, i=i: list(net.parts())[i][2].norm
        mean, var = (jnp.asarray(arrays[f"{norm}.running_{name}"], jnp.float32) for name in ("mean", "var"))
        kept: Any = own.norm
        state = state.set(kept.batch_state_index, (mean, var)).set(kept.batch_counter, jnp.array(MANY))
    return _filled(network, arrays, places, "_fc"), state


class Layer(eqx.Module):
    """Attention among the tokens, then each token by itself; each is added and normalised."""

    query: eqx.nn.Linear
    key: eqx.nn.Linear
    value: eqx.nn.Linear
    mix: eqx.nn.Linear
    mix_norm: eqx.nn.LayerNorm
    widen: eqx.nn.Linear
    narrow: eqx.nn.Linear
    narrow_norm: eqx.nn.LayerNorm
    dropout: eqx.nn.Dropout
    heads: int = eqx.field(static=True)

    def __init__(self, width: int, heads: int, dropout: float, *, key: PRNGKeyArray):
        four, last = list(jax.random.split(key, 5)), 4 * width
        self.query, self.key, self.value, self.mix = (eqx.nn.Linear(width, width, key=own) for own in four[:4])
        one, two = jax.random.split(four[4])
        self.widen, self.narrow = eqx.nn.Linear(width, last, key=one), eqx.nn.Linear(last, width, key=two)
        self.mix_norm, self.narrow_norm = eqx.nn.LayerNorm(width, eps=1e-12), eqx.nn.LayerNorm(width, eps=1e-12)
        self.dropout, self.heads = eqx.nn.Dropout(dropout), heads

    def __call__(
        self, x: Float[Array, "tokens width"], hidden_from: Float[Array, "tokens"], key: PRNGKeyArray | None
    ) -> Float[Array, "tokens width"]:
        one, two = split_or_none(key, 2)
        mixed = jax.vmap(self.mix)(self.attend(x, hidden_from))
        x = jax.vmap(self.mix_norm)(x + self.dropout(mixed, key=one, inference=key is None))
        inner = jax.nn.gelu(jax.vmap(self.widen)(x), approximate=False)
        inner = self.dropout(jax.vmap(self.narrow)(inner), key=two, inference=key is None)
        return jax.vmap(self.narrow_norm)(x + inner)

    def attend(self, x: Float[Array, "tokens width"], hidden_from: Float[Array, "tokens"]) -> Float[Array, "tokens w"]:
        """Each head takes a mean of the values of the tokens that may be looked at."""
        query, key, value = (
            jax.vmap(own)(x).reshape(len(x), self.heads, -1) for own in (self.query, self.key, self.value)
        )
        scores = jnp.einsum("qhd,khd->hqk", query, key) / query.shape[-1] ** 0.5 + hidden_from
        return jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores, axis=-1), value).reshape(len(x), -1)


class MiniLM(eqx.Module):
    """Tokens → the mean of what they become → outputs. Token 0 fills up and is not looked at."""

    words: Float[Array, "words width"]
    places: Float[Array, "length width"]
    norm: eqx.nn.LayerNorm
    layers: tuple[Layer, ...]
    head: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __init__(
        self, outputs: int, layers: int = LAYERS, words: int = WORDS, width: int = WIDTH, heads: int = HEADS,
        dropout: float = 0.1, *, key: PRNGKeyArray,
    ):  # fmt: skip
        first, second, third, *keys = jax.random.split(key, 3 + layers)
        self.words = 0.02 * jax.random.normal(first, (words, width))
        self.places = 0.02 * jax.random.normal(second, (LENGTH, width))
        self.norm = eqx.nn.LayerNorm(width, eps=1e-12)
        self.layers = tuple(Layer(width, heads, dropout, key=own) for own in keys)
        self.head, self.dropout = eqx.nn.Linear(width, outputs, key=third), eqx.nn.Dropout(dropout)

    def __call__(self, tokens: Int[Array, "tokens"], *, key: PRNGKeyArray | None = None) -> Float[Array, "outputs"]:
        x = jax.vmap(self.norm)(self.words[tokens] + self.places[: len(tokens)])
        seen = (tokens != 0).astype(x.dtype)
        for layer, own in zip(self.layers, split_or_none(key, len(self.layers)), strict=True):
            x = layer(x, (1.0 - seen) * -1e9, own)
        return self.head((x * seen[:, None]).sum(0) / jnp.maximum(seen.sum(), 1.0))


def table(network: MiniLM) -> tuple[Array]:
    """What stays as it is: the table of words, half of all numbers."""
    return (network.words,)


def minilm(arrays: Arrays | None, outputs: int, *, key: PRNGKeyArray, **how: Any) -> MiniLM:
    """The network with these weights, of the first so many layers; `how` is of `MiniLM`."""
    network = MiniLM(outputs, key=key, **how)
    if arrays is None:
        return network
    bare = eqx.tree_at(
        lambda net: (net.words, net.places), network, (_array(arrays, "words.weight"), _array(arrays, "places"))
    )
    places: dict[str, Callable[[MiniLM], Any]] = {"norm": lambda net: net.norm, "head": lambda net: net.head}
    for i in range(len(network.layers)):
        for name in ("query", "key", "value", "mix", "mix_norm", "widen", "narrow", "narrow_norm"):
            places[f"layers.{i}.{name}"] = lambda net, i=i, name=name: getattr(net.layers[i], name)
    return _filled(bare, arrays, places, "head")


def _array(arrays: Arrays, name: str) -> Float[Array, "..."]:
    return jnp.asarray(arrays[name], jnp.float32)


def _filled(network: Any, arrays: Arrays, places: Mapping[str, Callable[[Any], Any]], output: str) -> Any:
    """The network with weights and biases of its layers from the arrays. The output layer's only where they fit."""
    for name, place in places.items():
        for kind in ("weight", "bias"):
            own, is_output = getattr(place(network), kind), name == output
            given = arrays.get(f"{name}.{kind}")
            if own is None or (is_output and (given is None or given.shape != own.shape)):
                continue
            if given is None or given.shape != own.shape:
                was = "nothing" if given is None else list(given.shape)
                raise ValueError(f"{name}.{kind}: {was} given; it must have shape {list(own.shape)}")
            network = eqx.tree_at(
                lambda net, place=place, kind=kind: getattr(place(net), kind), network, _array(arrays, f"{name}.{kind}")
            )
    return network
