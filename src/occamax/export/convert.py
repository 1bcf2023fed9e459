"""From a network to a chain: our own networks, and Equinox modules that are sequences of linear and convolution
layers."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import networks
from ..errors import ExportError
from ..networks.mixer import MixerBlock
from ..networks.vit import TransformerBlock
from . import chain as c

NAMES = {
    jax.nn.swish: "swish", jax.nn.silu: "swish", jnp.tanh: "tanh", jax.numpy.tanh: "tanh", jax.nn.relu: "relu",
    jax.nn.gelu: "gelu", jax.nn.sigmoid: "sigmoid",
}  # fmt: skip


def to_chain(network: Any) -> c.Chain:
    """The network as a chain with the same outputs. Dropout is off in it."""
    for kind, convert in CONVERTERS.items():
        if type(network) is kind:
            return c.Chain(tuple(convert(network)))
    raise ExportError(
        f"network: {type(network).__name__} cannot be exported. Known: {', '.join(k.__name__ for k in CONVERTERS)}. "
        "Write it as an equinox.nn.Sequential of Linear, Conv2d, pooling, Lambda(jnp.ravel) and activations."
    )


def affine(layer: eqx.nn.Linear) -> c.Affine:
    bias = jnp.zeros(layer.weight.shape[0], layer.weight.dtype) if layer.bias is None else layer.bias
    return c.Affine(layer.weight, bias)


def convolution(layer: eqx.nn.Conv2d) -> c.Convolution:
    plain = (1, 1)
    padding = tuple(tuple(pair) if not isinstance(pair, int) else (pair, pair) for pair in layer.padding)
    if layer.stride != plain or layer.dilation != plain or layer.groups != 1 or padding != ((0, 0), (0, 0)):
        raise ExportError("network: only convolutions of stride one, without padding, dilation or groups, are exported")
    bias = jnp.zeros(layer.out_channels, layer.weight.dtype) if layer.bias is None else layer.bias.ravel()
    return c.Convolution(layer.weight, bias)


def norm(layer: eqx.nn.LayerNorm) -> c.Norm:
    assert layer.weight is not None
    assert layer.bias is not None
    return c.Norm(layer.weight, layer.bias, float(layer.eps))


def dense(layers: Any, name: str) -> list[c.Stage]:
    """Linear layers with an activation between them."""
    stages: list[c.Stage] = [c.Flatten()]
    for layer in layers[:-1]:
        stages += [affine(layer), c.Activation(name)]
    return [*stages, affine(layers[-1])]


def from_lenet(network: networks.LeNet) -> list[c.Stage]:
    first, second, third = map(convolution, network.convolutions)
    tanh, pool = c.Activation("tanh"), c.Pool("mean")
    stages = [first, tanh, pool, second, tanh, pool, third, tanh, c.Flatten()]
    return [*stages, affine(network.hidden), tanh, affine(network.head)]


def from_caffe(network: networks.LeNetCaffe) -> list[c.Stage]:
    first, second = map(convolution, network.convolutions)
    pool = c.Pool("max")
    stages = [first, pool, second, pool, c.Flatten(), affine(network.hidden), c.Activation("relu")]
    return [*stages, affine(network.head)]


def feedforward(part: Any) -> list[c.Stage]:
    return [affine(part.widen), c.Activation("gelu"), affine(part.narrow)]


def from_mixer(network: networks.Mixer) -> list[c.Stage]:
    stages: list[c.Stage] = [c.Patches(network.patch), affine(network.embed)]
    for block in network.blocks:
        stages += mixer_block(block)
    return [*stages, norm(network.norm), c.MeanToken(), affine(network.head)]


def mixer_block(block: MixerBlock) -> list[c.Stage]:
    over_tokens = c.OverTokens(c.Chain(tuple(feedforward(block.mix_tokens))))
    return [
        c.Residual(c.Chain((norm(block.norm_tokens), over_tokens))),
        c.Residual(c.Chain((norm(block.norm_channels), *feedforward(block.mix_channels)))),
    ]


def from_vit(network: networks.ViT) -> list[c.Stage]:
    tokens = c.Tokens(network.tokens.weight[:1], network.tokens.weight[1:])
    stages: list[c.Stage] = [c.Patches(network.patch), affine(network.embed), norm(network.norm_embed), tokens]
    for block in network.blocks:
        stages += transformer_block(block)
    return [*stages, c.FirstToken(), norm(network.norm), affine(network.head)]


def transformer_block(block: TransformerBlock) -> list[c.Stage]:
    return [
        c.Residual(c.Chain((norm(block.norm_attention), attention(block.attention)))),
        c.Residual(c.Chain((norm(block.norm_feedforward), *feedforward(block.feedforward)))),
    ]


def attention(layer: Any) -> c.Attention:
    joint, out = affine(layer.project_in), affine(layer.project_out)
    width, heads = joint.weight.shape[1], layer.heads
    weights = joint.weight.reshape(3, heads, width // heads, width)
    biases = joint.bias.reshape(3, heads, width // heads)
    outs = out.weight.reshape(width, heads, width // heads).transpose(1, 0, 2)
    return c.Attention(
        query=weights[0], query_bias=biases[0], key=weights[1], key_bias=biases[1], value=weights[2],
        value_bias=biases[2], out=outs, out_bias=out.bias, scale=float((width // heads) ** -0.5),
    )  # fmt: skip


def from_sequential(network: eqx.nn.Sequential) -> list[c.Stage]:
    return [stage for layer in network.layers for stage in from_layer(layer)]


def from_layer(layer: Any) -> list[c.Stage]:
    if isinstance(layer, eqx.nn.Linear):
        return [affine(layer)]
    if isinstance(layer, eqx.nn.Conv2d):
        return [convolution(layer)]
    if isinstance(layer, eqx.nn.Dropout | eqx.nn.Identity):
        return []
    if isinstance(layer, eqx.nn.AvgPool2d | eqx.nn.MaxPool2d):
        if (layer.kernel_size, layer.stride) != ((2, 2), (2, 2)) or np.any(np.asarray(layer.padding)):
            raise ExportError("network: only pooling over 2 × 2 squares with stride 2 is exported")
        return [c.Pool("mean" if isinstance(layer, eqx.nn.AvgPool2d) else "max")]
    function = layer.fn if isinstance(layer, eqx.nn.Lambda) else layer
    if function in (jnp.ravel, np.ravel):
        return [c.Flatten()]
    return [c.Activation(activation_name(function))]


def activation_name(function: Any) -> str:
    for known, name in NAMES.items():
        if function is known:
            return name
    raise ExportError(
        f"network: the function {function!r} cannot be exported. Known: {', '.join(sorted(set(NAMES.values())))}, ravel"
    )


def from_mlp(network: eqx.nn.MLP) -> list[c.Stage]:
    # Equinox gives each unit its own copy of the activation; they are one function
    name = activation_name(getattr(network.activation, "fn", network.activation))
    stages = dense(network.layers, name)[1:]
    last = getattr(network.final_activation, "fn", network.final_activation)
    probe = jnp.array([-1.5, 0.3])
    if not np.array_equal(last(probe), probe):
        stages.append(c.Activation(activation_name(last)))
    return stages


CONVERTERS: dict[type, Callable[[Any], list[c.Stage]]] = {
    networks.MLP: lambda network: dense(network.layers, activation_name(network.activation)),
    networks.LeNet: from_lenet,
    networks.LeNetCaffe: from_caffe,
    networks.Mixer: from_mixer,
    networks.ViT: from_vit,
    eqx.nn.Sequential: from_sequential,
    eqx.nn.MLP: from_mlp,
}
