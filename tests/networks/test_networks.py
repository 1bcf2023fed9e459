import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax import networks
from occamax.errors import ArgumentError
from occamax.experiment import NETWORKS
from occamax.networks import vit as vit_module
from occamax.networks._parts import _banded, _patches, convolve, cut, halve, highest
from occamax.networks.vit import Attention, ViT
from occamax.structure.layout import Layout

from ..tolerances import SINGLE


def layout_of(name, shape, classes):
    """The layout without computing first weights."""
    shapes = eqx.filter_eval_shape(lambda: NETWORKS[name].build(shape, classes, 0.2, jax.random.key(0)))

    def filled(leaf):
        return jnp.zeros(leaf.shape, leaf.dtype) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf

    return Layout.of(jax.tree.map(filled, shapes))


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
def test_convolution_as_a_product_is_equinoxs(product, key):
    layer = eqx.nn.Conv2d(3, 4, (5, 3), key=key)
    image = jax.random.normal(key, (3, 12, 9))
    assert np.allclose(product(layer.weight, image) + layer.bias, layer(image), atol=SINGLE)
    assert np.allclose(convolve(layer, image), layer(image), atol=SINGLE)


def test_padding_tokens_change_nothing(key, monkeypatch):
    """Fused attention takes an even number of tokens; the one that is added must not be attended to."""
    network = ViT((1, 8, 8), 3, depth=2, heads=2, width=8, hidden=8, key=key)
    image = jax.random.normal(key, (1, 8, 8))
    plain = network(image)
    attention = jax.nn.dot_product_attention
    monkeypatch.setattr(vit_module, "has_fused_attention", lambda dtype: True)
    monkeypatch.setattr(jax.nn, "dot_product_attention", lambda *a, implementation, **k: attention(*a, **k))
    assert np.allclose(network(image), plain, atol=SINGLE)


def test_pooling_is_equinoxs(key):
    image = jax.random.normal(key, (3, 8, 6))
    assert np.allclose(highest(image), eqx.nn.MaxPool2d(2, 2)(image), atol=SINGLE)
    assert np.allclose(halve(image), eqx.nn.AvgPool2d(2, 2)(image), atol=SINGLE)


def test_patches_are_those_of_a_strided_convolution(key):
    layer = eqx.nn.Conv2d(3, 5, 4, stride=4, key=key)
    image = jax.random.normal(key, (3, 8, 12))
    by_patches = cut(image, 4) @ layer.weight.reshape(5, -1).T + layer.bias.ravel()
    assert np.allclose(by_patches, layer(image).reshape(5, -1).T, atol=SINGLE)


def test_attention_is_softmax_of_scaled_products(key):
    attention = Attention(8, 2, key=key)
    x = jax.random.normal(key, (5, 8))
    query, keys, values = jnp.split(jax.vmap(attention.project_in)(x), 3, axis=1)
    heads = []
    for head in (slice(0, 4), slice(4, 8)):
        share = jax.nn.softmax(query[:, head] @ keys[:, head].T / np.sqrt(4))
        heads.append(share @ values[:, head])
    expected = jax.vmap(attention.project_out)(jnp.concatenate(heads, axis=1))
    assert np.allclose(attention(x), expected, atol=SINGLE)


@pytest.mark.parametrize("name", ["mlp", "lenet", "vit"])
def test_dropout_is_where_the_paper_has_it(name, key):
    spec = NETWORKS[name]
    network = spec.build((1, spec.image_size or 28, spec.image_size or 28), 10, 0.2, key)
    image = jnp.ones((1, spec.image_size or 28, spec.image_size or 28))
    one, two = network(image, key=jax.random.key(1)), network(image, key=jax.random.key(2))
    assert not jnp.allclose(one, two)
    still = eqx.nn.inference_mode(network)
    assert jnp.array_equal(still(image), still(image))


def test_the_mixer_has_no_dropout(key):
    network = NETWORKS["mixer"].build((1, 32, 32), 10, 0.2, key)
    image = jnp.ones((1, 32, 32))
    assert jnp.array_equal(network(image, key=jax.random.key(1)), network(image, key=jax.random.key(2)))


@pytest.mark.parametrize("name", ["lenet", "mixer", "vit"])
def test_no_convolution_reaches_the_compiler(name, key):
    """XLA's convolution is slow inside a loop on the CPU."""
    network = NETWORKS[name].build((1, 32, 32), 10, 0.0, key)
    jaxpr = str(jax.make_jaxpr(jax.grad(lambda x: network(x).sum()))(jnp.ones((1, 32, 32))))
    assert "conv_general_dilated" not in jaxpr


def test_lenet_says_what_size_it_takes(key):
    with pytest.raises(ArgumentError, match="32 × 32, not \\(28, 28\\)"):
        networks.LeNet((1, 28, 28), 10, key=key)
