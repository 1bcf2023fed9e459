"""Small networks of many kinds, filled from numpy, with what an export is made of."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from occamax import networks
from occamax.data import Standardise, StandardiseColumns
from occamax.evaluation.predictive import Believed
from occamax.export.card import Card
from occamax.export.exporting import Exportable
from occamax.inference.likelihoods import Categorical, Gaussian
from occamax.inference.model import Model
from occamax.inference.posteriors import IndependentNormals
from occamax.inference.priors import FanInPrior

KEY = jax.random.key(0)
PIXELS = Standardise((0.3, 0.4), (0.2, 0.1))


class Residual(eqx.Module):
    """A strided convolution with padding, batch normalisation, a branch, pooling over all places."""

    first: eqx.nn.Conv2d
    norm: eqx.nn.BatchNorm
    inner: eqx.nn.Conv2d
    head: eqx.nn.Linear

    def __init__(self):
        self.first = eqx.nn.Conv2d(2, 4, 3, 2, padding=1, key=KEY)
        self.norm = eqx.nn.BatchNorm(4, "batch", mode="batch")
        self.inner = eqx.nn.Conv2d(4, 4, 3, padding=1, key=KEY)
        self.head = eqx.nn.Linear(4, 3, key=KEY)

    def __call__(self, x, state):
        x, state = self.norm(self.first(x), state)
        x = jax.nn.relu(x)
        x = x + jax.nn.relu(self.inner(x))
        return self.head(x.mean((1, 2))), state


class Recurrent(eqx.Module):
    cell: eqx.Module
    head: eqx.nn.Linear

    def __call__(self, x):
        start = jnp.zeros(5)
        if isinstance(self.cell, eqx.nn.LSTMCell):
            start = (start, start)
        state, _ = jax.lax.scan(lambda h, row: (self.cell(row, h), None), start, x)
        return self.head(state[0] if isinstance(state, tuple) else state)


class Stacked(eqx.Module):
    """Residual layers in one stack of weights, which a scan runs through."""

    blocks: eqx.nn.Linear
    head: eqx.nn.Linear

    def __init__(self):
        make = lambda key: eqx.nn.Linear(6, 6, key=key)  # noqa: E731
        self.blocks, self.head = eqx.filter_vmap(make)(jax.random.split(KEY, 3)), linear(6, 3)

    def __call__(self, x):
        arrays, rest = eqx.partition(self.blocks, eqx.is_array)
        layer = lambda x, own: (x + jnp.tanh(eqx.combine(own, rest)(x)), None)  # noqa: E731
        return self.head(jax.lax.scan(layer, x, arrays)[0])


class Text(eqx.Module):
    """Tokens, positions, one layer of attention."""

    tokens: eqx.nn.Embedding
    positions: jax.Array
    attention: eqx.nn.MultiheadAttention
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear

    def __call__(self, x):
        h = jax.vmap(self.tokens)(x) + self.positions
        h = jax.vmap(self.norm)(h + self.attention(h, h, h))
        return self.head(h.mean(0))


def layers(*parts):
    return eqx.nn.Sequential([part if isinstance(part, eqx.Module) else eqx.nn.Lambda(part) for part in parts])


def conv(*arguments, **options):
    return eqx.nn.Conv2d(*arguments, key=KEY, **options)


def linear(inputs, outputs):
    return eqx.nn.Linear(inputs, outputs, key=KEY)


def text():
    return Text(
        eqx.nn.Embedding(6, 8, key=KEY),
        jnp.zeros((5, 8)),
        eqx.nn.MultiheadAttention(2, 8, key=KEY),
        eqx.nn.LayerNorm(8),
        linear(8, 3),
    )


# name → network, shape and type of a raw example, preprocessing
MAKE = {
    "mlp": (lambda: networks.MLP((2, 6, 6), 4, (9, 8), key=KEY), (2, 6, 6), "uint8", PIXELS),
    "lenet": (
        lambda: networks.LeNet((1, 32, 32), 5, (3, 4, 6), 8, key=KEY),
        (1, 28, 28),
        "uint8",
        Standardise((0.3,), (0.2,), 2),
    ),
    "lenet-caffe": (
        lambda: networks.LeNetCaffe((1, 28, 28), 4, key=KEY),
        (1, 28, 28),
        "uint8",
        Standardise((0.3,), (0.2,)),
    ),
    "mixer": (lambda: networks.Mixer((2, 8, 8), 4, 4, 1, 6, 7, 8, key=KEY), (2, 8, 8), "uint8", PIXELS),
    "vit": (lambda: networks.ViT((2, 8, 8), 4, 4, 1, 3, 12, 9, key=KEY), (2, 8, 8), "uint8", PIXELS),
    "residual": (lambda: eqx.nn.make_with_state(Residual)(), (2, 8, 8), "uint8", PIXELS),
    "gru": (lambda: Recurrent(eqx.nn.GRUCell(3, 5, key=KEY), linear(5, 3)), (6, 3), "float32", jnp.asarray),
    "lstm": (lambda: Recurrent(eqx.nn.LSTMCell(3, 5, key=KEY), linear(5, 3)), (6, 3), "float32", jnp.asarray),
    "stacked": (Stacked, (6,), "float32", jnp.asarray),
    "text": (text, (5,), "int32", jnp.asarray),
    "grouped": (
        lambda: layers(
            conv(2, 4, 3, stride=2, padding=1, groups=2),
            eqx.nn.GroupNorm(2, 4),
            jax.nn.relu,
            conv(4, 6, 2, dilation=2),
            eqx.nn.AvgPool2d(2, 1, padding=1),
            eqx.nn.MaxPool2d(2, 2),
            jnp.ravel,
            linear(6, 3),
        ),
        (2, 8, 8),
        "uint8",
        PIXELS,
    ),
    "pooled": (
        lambda: layers(
            conv(2, 5, 3, use_bias=False),
            jnp.tanh,
            eqx.nn.AvgPool2d(2, 2),
            eqx.nn.AdaptiveAvgPool2d(2),
            jnp.ravel,
            linear(20, 7),
            eqx.nn.Dropout(0.3),
            jax.nn.sigmoid,
            linear(7, 3),
        ),
        (2, 10, 10),
        "uint8",
        PIXELS,
    ),
    "table": (
        lambda: eqx.nn.MLP(4, 2, 8, 2, jax.nn.gelu, key=KEY),
        (4,),
        "float32",
        StandardiseColumns((1.0, 2, 3, 4), (2.0, 1, 5, 3)),
    ),
    "channels last": (
        lambda: layers(
            lambda x: x.transpose(2, 0, 1), conv(3, 4, 3, padding=1), jax.nn.silu, jnp.ravel, linear(100, 3)
        ),
        (5, 5, 3),
        "float32",
        jnp.asarray,
    ),
}


def exportable(name, keep=0.6, dead=0.4, seed=0, test=True):
    """With some rows of weights removed as a whole, and some weights one by one."""
    make, shape, dtype, preprocess = MAKE[name]
    example = jax.ShapeDtypeStruct(shape, dtype)
    dead = min(dead, 0.1) if name == "table" else dead  # it is narrow
    likelihood = Gaussian(center=(1.0, -2.0), scale=(3.0, 0.5)) if name == "table" else Categorical()
    model = Model(filled(make), example, FanInPrior(), likelihood, preprocess=preprocess)
    rng = np.random.default_rng(seed)
    mask = np.concatenate([_keep(rng, block, keep, dead) for block in model.layout.blocks])
    size = model.layout.size
    mean = rng.normal(size=model.latent_count).astype(np.float32)  # also of what is gone: the mask must take part
    mean[size:] *= 0.1
    posterior = IndependentNormals(jnp.asarray(mean), jnp.full(model.latent_count, np.float32(-1.5)))
    buffers = tuple(_moved(rng, buffer) for buffer in model.buffers)
    outputs = model.layout.blocks[-1].rows
    is_table = name == "table"
    names = None if is_table else tuple(f"class {i}" for i in range(outputs))
    card = Card(
        names, shape, dtype, "0.2", target_names=("price", "size") if is_table else None, config={"network": name}
    )
    inputs = inputs_for(name, 40)
    targets = rng.normal(size=(40, 2)).astype(np.float32) if is_table else rng.integers(0, outputs, 40).astype(np.int32)
    return Exportable(
        model, Believed(posterior, jnp.asarray(mask), buffers), example, card, (inputs, targets) if test else None
    )


def filled(make):
    """The network without its random numbers, which would have to be compiled: zeros."""
    template = eqx.filter_eval_shape(make)
    is_shape = lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct)  # noqa: E731
    zeros = lambda leaf: jnp.asarray(np.zeros(leaf.shape, leaf.dtype)) if is_shape(leaf) else leaf  # noqa: E731
    return jax.tree.map(zeros, template)


def _keep(rng, block, keep, dead):
    if block.is_gain:
        return np.ones(block.size, bool)
    rows = rng.random(block.rows) > dead
    matrix = (rng.random((block.rows, block.columns)) < keep) & rows[:, None]
    biases = [rng.random(block.rows) < 0.7] if block.bias_shape is not None else []
    return np.concatenate([matrix.ravel(), *biases])


def _moved(rng, buffer):
    if not jnp.issubdtype(buffer.dtype, jnp.floating):
        return buffer
    return jnp.asarray(np.abs(rng.normal(size=buffer.shape)).astype(np.float32) + 0.5)


def inputs_for(name, count, seed=1):
    _, shape, dtype, _ = MAKE[name]
    rng = np.random.default_rng(seed)
    if dtype == "float32":
        return rng.normal(size=(count, *shape)).astype(np.float32)
    return rng.integers(0, 6 if dtype == "int32" else 256, (count, *shape)).astype(dtype)
