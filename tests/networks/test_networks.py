import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax import networks
from occamax.errors import ArgumentError
from occamax.networks import MLP, NETWORKS, network_from, network_named, source_like
from occamax.networks import vit as vit_module
from occamax.networks._parts import _banded, _patches, convolve, cut, halve, highest
from occamax.networks.vit import Attention, ViT
from occamax.structure.calling import read_network
from occamax.structure.reading import read_layout

from ..tolerances import SINGLE
from ..toys import filled, like, normal


def layout_of(name, shape, classes):
    """The layout without computing first weights."""
    return read_layout(*read_network(NETWORKS[name].template(shape, classes, 0.2)), like(*shape))


def linear(inputs, outputs):
    return inputs * outputs + outputs


def norm(width):
    return 2 * width


def mixer(channels, classes):
    block = norm(256) + linear(64, 512) + linear(512, 64) + norm(256) + linear(256, 512) + linear(512, 256)
    return linear(16 * channels, 256) + 6 * block + norm(256) + linear(256, classes)


def vit(channels, classes):
    block = norm(256) + linear(256, 768) + linear(256, 256) + norm(256) + linear(256, 512) + linear(512, 256)
    tokens = 256 * (1 + 65)  # the class token, and a position for it and for each of 64 patches
    return tokens + linear(16 * channels, 256) + norm(256) + 6 * block + norm(256) + linear(256, classes)


@pytest.mark.parametrize(
    ("name", "shape", "classes", "expected"),
    [
        ("mlp", (1, 28, 28), 10, linear(784, 400) + 4 * linear(400, 400) + linear(400, 10)),
        ("mlp", (3, 32, 32), 100, linear(3072, 400) + 4 * linear(400, 400) + linear(400, 100)),
        (
            "lenet",
            (1, 32, 32),
            10,
            linear(25, 6) + linear(150, 16) + linear(400, 120) + linear(120, 84) + linear(84, 10),
        ),
        (
            "lenet",
            (3, 32, 32),
            10,
            linear(75, 18) + linear(450, 48) + linear(1200, 360) + linear(360, 256) + linear(256, 10),
        ),
        ("lenet-300-100", (1, 28, 28), 10, 266_610),  # as published (Han et al. 2015 and after)
        ("lenet-caffe", (1, 28, 28), 10, 431_080),
        ("mixer", (1, 32, 32), 10, mixer(1, 10)),
        ("mixer", (3, 32, 32), 100, mixer(3, 100)),
        ("vit", (1, 32, 32), 10, vit(1, 10)),
        ("vit", (3, 32, 32), 100, vit(3, 100)),
    ],
)
def test_weight_counts_are_those_counted_by_hand(name, shape, classes, expected):
    layout = layout_of(name, shape, classes)
    assert layout.size == expected
    assert not layout.fixed  # nothing was forgotten


@pytest.mark.parametrize("product", [_banded, _patches])
def test_convolution_as_a_product_is_equinoxs(product):
    layer, image = filled(eqx.nn.Conv2d, 3, 4, (5, 3)), normal(3, 12, 9)
    ours, used, theirs = jax.jit(lambda x: (product(layer.weight, x) + layer.bias, convolve(layer, x), layer(x)))(image)
    assert np.allclose(ours, theirs, atol=SINGLE)
    assert np.allclose(used, theirs, atol=SINGLE)


def test_padding_tokens_change_nothing(monkeypatch):
    """Fused attention takes an even number of tokens; the one that is added must not be attended to."""
    network = filled(ViT, (1, 8, 8), 3, depth=2, heads=2, width=8, hidden=8)
    image = normal(1, 8, 8)
    plain = jax.jit(lambda x: network(x))(image)
    attention = jax.nn.dot_product_attention
    monkeypatch.setattr(vit_module, "has_fused_attention", lambda dtype: True)
    monkeypatch.setattr(jax.nn, "dot_product_attention", lambda *a, implementation, **k: attention(*a, **k))
    assert np.allclose(jax.jit(lambda x: network(x))(image), plain, atol=SINGLE)


def test_pooling_is_equinoxs():
    image = normal(3, 8, 6)
    assert np.allclose(highest(image), eqx.nn.MaxPool2d(2, 2)(image), atol=SINGLE)
    assert np.allclose(halve(image), eqx.nn.AvgPool2d(2, 2)(image), atol=SINGLE)


def test_patches_are_those_of_a_strided_convolution():
    layer, image = filled(eqx.nn.Conv2d, 3, 5, 4, stride=4), normal(3, 8, 12)
    by_patches = cut(image, 4) @ layer.weight.reshape(5, -1).T + layer.bias.ravel()
    assert np.allclose(by_patches, layer(image).reshape(5, -1).T, atol=SINGLE)


def test_attention_is_softmax_of_scaled_products():
    """Written out with numpy."""
    attention, x = filled(Attention, 8, 2), normal(5, 8)

    def linear_of(layer, rows):
        return rows @ np.asarray(layer.weight).T + np.asarray(layer.bias)

    query, keys, values = np.split(linear_of(attention.project_in, np.asarray(x)), 3, axis=1)
    heads = []
    for head in (slice(0, 4), slice(4, 8)):
        share = np.exp(query[:, head] @ keys[:, head].T / np.sqrt(4))
        heads.append(share / share.sum(1, keepdims=True) @ values[:, head])
    expected = linear_of(attention.project_out, np.concatenate(heads, axis=1))
    assert np.allclose(jax.jit(lambda x: attention(x))(x), expected, atol=SINGLE)


SMALL = {
    "mlp": (networks.MLP, ((1, 4, 4), 3, (8, 8)), {}),
    "lenet": (networks.LeNet, ((1, 32, 32), 3, (2, 3, 5), 8), {}),
    "vit": (ViT, ((1, 8, 8), 3), {"depth": 1, "heads": 2, "width": 8, "hidden": 8}),
}


def mlp_by_hand(network, image, drop):
    x = image.ravel()
    for layer in network.layers[:-1]:
        x = drop(jax.nn.swish(layer(x)))
    return network.layers[-1](x)


def lenet_by_hand(network, image, drop):
    for place, layer in enumerate(network.convolutions):
        image = jnp.tanh(layer(image))
        image = image if place == 2 else eqx.nn.AvgPool2d(2, 2)(image)
    return network.head(drop(jnp.tanh(network.hidden(image.ravel()))))


def vit_by_hand(network, image, drop):
    patches = jax.vmap(lambda patch: network.norm_embed(network.embed(patch)))(cut(image, 4))
    x = jnp.concatenate([network.tokens.weight[:1], patches]) + network.tokens.weight[1:]
    for block in network.blocks:
        x = x + drop(block.attention(jax.vmap(block.norm_attention)(x)))  # without a key: nothing is dropped inside
        hidden = drop(jax.nn.gelu(jax.vmap(block.feedforward.widen)(jax.vmap(block.norm_feedforward)(x))))
        x = x + drop(jax.vmap(block.feedforward.narrow)(hidden))
    return network.head(network.norm(x[0]))


BY_HAND = {"mlp": (mlp_by_hand, 2), "lenet": (lenet_by_hand, 1), "vit": (vit_by_hand, 3)}


@pytest.mark.parametrize("name", SMALL)
def test_dropout_is_where_the_paper_has_it(name, monkeypatch):
    """After the linear layers but the last, at the rate that is asked for, each time with a key of its own, and only
    while the network trains. Dropout leaves a mark here that tells rate and place; the networks are written again."""
    build, arguments, options = SMALL[name]
    network, image = filled(build, *arguments, dropout=0.2, **options), normal(*arguments[0])
    by_hand, count = BY_HAND[name]
    keys = []

    def mark(self, x, *, key=None, inference=None):
        if key is None or self.inference:
            return x
        keys.append(key)
        return x + self.p * jnp.cos(3 * x)

    monkeypatch.setattr(eqx.nn.Dropout, "__call__", mark)

    @jax.jit
    def all_ways(key):
        trained, still = (net(image, key=key) for net in (network, eqx.nn.inference_mode(network)))
        again, never = (by_hand(network, image, drop) for drop in (lambda x: x + 0.2 * jnp.cos(3 * x), lambda x: x))
        return trained, still, again, never, jnp.stack([jax.random.key_data(own) for own in keys])

    trained, still, again, never, own = all_ways(jax.random.key(1))
    assert np.allclose(trained, again, atol=10 * SINGLE)
    assert np.allclose(still, never, atol=10 * SINGLE)
    assert not np.allclose(trained, still, atol=0.01)
    assert len(np.unique(own, axis=0)) == len(own) == count
    assert dropout_rates(NETWORKS[name].template((1, 32, 32), 10, 0.2)) == {0.2}


def dropout_rates(network):
    is_dropout = lambda node: isinstance(node, eqx.nn.Dropout)  # noqa: E731
    return {node.p for node in jax.tree.leaves(network, is_leaf=is_dropout) if is_dropout(node)}


def test_the_mixer_has_no_dropout():
    assert dropout_rates(NETWORKS["mixer"].template((1, 32, 32), 10, 0.2)) <= {0.0}


@pytest.mark.parametrize("name", ["lenet", "mixer", "vit", "resnet20"])
def test_no_convolution_reaches_the_compiler(name):
    """XLA's convolution is slow inside a loop on the CPU."""
    network = NETWORKS[name].template((1, 32, 32), 10)
    jaxpr = str(jax.make_jaxpr(jax.grad(lambda x: network(x).sum()))(jnp.ones((1, 32, 32))))
    assert "conv_general_dilated" not in jaxpr


def test_lenet_says_what_size_it_takes(key):
    with pytest.raises(ArgumentError, match="32 × 32, not \\(28, 28\\)"):
        networks.LeNet((1, 28, 28), 10, key=key)


def own_network(shape, outputs, *, key):
    """What a user names on the command line."""
    return eqx.nn.Sequential([eqx.nn.Lambda(jnp.ravel), eqx.nn.Linear(int(np.prod(shape)), outputs, key=key)])


def two_arguments(shape, outputs):
    return None


def test_a_network_of_ones_own_by_its_name():
    source = network_named(f"{__name__}:own_network")
    assert source.network((2, 3), 4)(jnp.ones((2, 3))).shape == (4,)
    assert network_from(source.as_data()) == source
    assert network_from(NETWORKS["mlp"].as_data()) == NETWORKS["mlp"]
    assert network_from({"class": "Mine"}) is None


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("lenett", "NETWORK: 'lenett' is not known.*Did you mean lenet"),
        ("no_such_module:function", "NETWORK: no_such_module cannot be imported"),
        (f"{__name__}:nothing", "has no function 'nothing'"),
    ],
)
def test_a_network_that_is_not_there_is_refused(words, named):
    with pytest.raises(ArgumentError, match=named):
        network_named(words)


def test_a_function_that_takes_no_key_is_refused_with_how_it_is_called():
    with pytest.raises(ArgumentError, match="cannot be called as function\\(input_shape, outputs, key=key\\)"):
        network_named(f"{__name__}:two_arguments").network((2,), 3)


@pytest.mark.parametrize("name", list(NETWORKS))
def test_a_named_network_is_known_whatever_its_weights(name):
    shape, words = ((12,), 30) if name == "text" else ((3, 28, 28), None)
    given = NETWORKS[name].network(shape, 10, 0.1, words, seed=1)
    found = source_like(given, shape, 10, 0.1, words)
    assert found is not None
    assert found.name == name
    # nor is one of other examples, of other outputs, or with another value
    assert source_like(given, (20,) if name == "text" else (1, 28, 28), 10, 0.1, words) is None
    assert source_like(given, shape, 9, 0.1, words) is None
    if name not in ("mixer", "lenet-300-100", "lenet-caffe", "resnet20", "resnet20-bn"):  # these have no dropout
        assert source_like(given, shape, 10, 0.0, words) is None


def test_a_network_with_a_value_of_its_own_has_no_name():
    key = jax.random.key(0)
    for options in ({"hidden": (16,)}, {"activation": jax.nn.relu}, {"dropout": 0.1}):
        assert source_like(MLP((8,), 2, **options, key=key), (8,), 2) is None
    assert source_like(eqx.nn.MLP(8, 2, 3, 2, key=key), (8,), 2) is None
