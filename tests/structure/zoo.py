"""Networks of many kinds, small, for what is read from a traced program."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from occamax import networks
from occamax.structure.calling import read_network
from occamax.structure.layout import float_leaves
from occamax.structure.reading import read_graph, read_layout

from ..toys import filled

KEY = jax.random.key(0)
KEYS = jax.random.split(KEY, 8)
nn = eqx.nn


class ResNet(eqx.Module):
    """A stream of channels with one block on it, BatchNorm throughout."""

    stem: nn.Conv2d
    norm_stem: nn.BatchNorm
    first: nn.Conv2d
    norm_first: nn.BatchNorm
    second: nn.Conv2d
    norm_second: nn.BatchNorm
    down: nn.Conv2d
    head: nn.Linear

    def __init__(self):
        self.stem = nn.Conv2d(2, 6, 3, padding=1, use_bias=False, key=KEYS[0])
        self.norm_stem = nn.BatchNorm(6, "batch", mode="batch")
        self.first = nn.Conv2d(6, 5, 3, padding=1, use_bias=False, key=KEYS[1])
        self.norm_first = nn.BatchNorm(5, "batch", mode="batch")
        self.second = nn.Conv2d(5, 6, 3, padding=1, use_bias=False, key=KEYS[2])
        self.norm_second = nn.BatchNorm(6, "batch", mode="batch")
        self.down = nn.Conv2d(6, 8, 1, stride=2, key=KEYS[3])
        self.head = nn.Linear(8, 3, key=KEYS[4])

    def __call__(self, x, state):
        x, state = self.norm_stem(self.stem(x), state)
        x = jax.nn.relu(x)
        y, state = self.norm_first(self.first(x), state)
        y, state = self.norm_second(self.second(jax.nn.relu(y)), state)
        x = jax.nn.relu(self.down(jax.nn.relu(x + y)))
        return self.head(x.mean((1, 2))), state


class Attention(eqx.Module):
    """Equinox's attention on a stream that is not normalised."""

    attention: nn.MultiheadAttention
    head: nn.Linear
    embed: nn.Linear

    def __init__(self):
        biases = {f"use_{name}_bias": True for name in ("query", "key", "value", "output")}
        self.embed = nn.Linear(5, 12, key=KEYS[0])
        self.attention = nn.MultiheadAttention(3, 12, **biases, key=KEYS[1])
        self.head = nn.Linear(12, 3, key=KEYS[2])

    def __call__(self, x):
        x = jax.vmap(self.embed)(x)
        return self.head((x + self.attention(x, x, x)).mean(0))


class GLU(eqx.Module):
    widen: nn.Linear
    head: nn.Linear

    def __init__(self):
        self.widen, self.head = nn.Linear(6, 14, key=KEYS[0]), nn.Linear(7, 3, key=KEYS[1])

    def __call__(self, x):
        return self.head(jax.nn.glu(self.widen(x)))


class Dense(eqx.Module):
    """Each layer sees all before it."""

    first: nn.Linear
    second: nn.Linear
    head: nn.Linear

    def __init__(self):
        self.first, self.second = nn.Linear(6, 4, key=KEYS[0]), nn.Linear(10, 5, key=KEYS[1])
        self.head = nn.Linear(15, 3, key=KEYS[2])

    def __call__(self, x):
        x = jnp.concatenate([x, jax.nn.relu(self.first(x))])
        return self.head(jnp.concatenate([x, jnp.tanh(self.second(x))]))


class Depthwise(eqx.Module):
    first: nn.Conv2d
    apart: nn.Conv2d
    mix: nn.Conv2d
    head: nn.Linear

    def __init__(self):
        self.first, self.apart = nn.Conv2d(1, 4, 3, key=KEYS[0]), nn.Conv2d(4, 8, 3, groups=4, key=KEYS[1])
        self.mix, self.head = nn.Conv2d(8, 5, 1, key=KEYS[2]), nn.Linear(5 * 16, 3, key=KEYS[3])

    def __call__(self, x):
        x = jax.nn.silu(self.apart(jax.nn.relu(self.first(x))))
        return self.head(jax.nn.relu(self.mix(x)).ravel())


class GRU(eqx.Module):
    embed: nn.Linear
    cell: nn.GRUCell
    hidden: nn.Linear
    head: nn.Linear

    def __init__(self):
        self.embed, self.cell = nn.Linear(3, 5, key=KEYS[0]), nn.GRUCell(5, 6, key=KEYS[1])
        self.hidden, self.head = nn.Linear(6, 7, key=KEYS[2]), nn.Linear(7, 2, key=KEYS[3])

    def __call__(self, x):
        step = lambda state, one: (self.cell(one, state), None)  # noqa: E731
        state, _ = jax.lax.scan(step, jnp.zeros(6, x.dtype), jax.vmap(self.embed)(x))
        return self.head(jax.nn.relu(self.hidden(state)))


class Stacked(eqx.Module):
    """Two residual blocks in one stack of weights, which a scan runs through."""

    embed: nn.Linear
    blocks: tuple[nn.Linear, nn.Linear]
    head: nn.Linear

    def __init__(self):
        stack = lambda *sizes: eqx.filter_vmap(lambda key: nn.Linear(*sizes, key=key))(KEYS[:2])  # noqa: E731
        self.embed, self.blocks = nn.Linear(5, 6, key=KEYS[2]), (stack(6, 7), stack(7, 6))
        self.head = nn.Linear(6, 3, key=KEYS[3])

    def __call__(self, x):
        arrays, rest = eqx.partition(self.blocks, eqx.is_array)

        def block(stream, own):
            widen, narrow = eqx.combine(own, rest)
            return stream + narrow(jax.nn.relu(widen(stream))), None

        return self.head(jax.lax.scan(block, self.embed(x), arrays)[0])


def _sequential():
    return nn.Sequential(
        [
            nn.Conv2d(2, 5, 3, key=KEYS[0]),
            nn.Lambda(jax.nn.relu),
            nn.MaxPool2d(2, 2),
            nn.Conv2d(5, 4, 3, use_bias=False, key=KEYS[1]),
            nn.Lambda(jnp.tanh),
            nn.Lambda(jnp.ravel),
            nn.Linear(16, 7, key=KEYS[2]),
            nn.Dropout(0.3),
            nn.Lambda(jax.nn.sigmoid),
            nn.Linear(7, 3, key=KEYS[3]),
        ]
    )


NETWORKS = {  # name → how it is made, the shape of one example
    "mlp": (lambda: networks.MLP((1, 4, 4), 3, (7, 7, 7), key=KEY), (1, 4, 4)),
    "lenet": (lambda: networks.LeNet((1, 32, 32), 3, (3, 4, 6), 5, key=KEY), (1, 32, 32)),
    "mixer": (lambda: networks.Mixer((1, 8, 8), 3, 4, 2, 6, 5, 7, key=KEY), (1, 8, 8)),
    "vit": (lambda: networks.ViT((1, 8, 8), 3, 4, 2, 2, 8, 5, key=KEY), (1, 8, 8)),
    "sequential": (_sequential, (2, 10, 10)),
    "equinox mlp": (lambda: nn.MLP(5, 3, 8, 2, jax.nn.gelu, key=KEY), (5,)),
    "resnet": (lambda: nn.make_with_state(ResNet)(), (2, 8, 8)),
    "attention": (Attention, (4, 5)),
    "glu": (GLU, (6,)),
    "dense": (Dense, (6,)),
    "depthwise": (Depthwise, (1, 8, 8)),
    "gru": (GRU, (4, 3)),
    "stacked": (Stacked, (5,)),
}


@functools.cache
class Traced:
    """A network of the zoo with its graph and its layout; the same one when asked again."""

    def __init__(self, name, dtype=np.float32):
        make, self.shape = NETWORKS[name]
        given = make() if name == "resnet" else filled(make)  # variances are of their own size
        cast = lambda leaf: leaf.astype(dtype) if eqx.is_inexact_array(leaf) else leaf  # noqa: E731
        self.network, buffers, self.calling = read_network(given)
        self.network, self.buffers = jax.tree.map(cast, self.network), tuple(map(cast, buffers))
        self.example = jax.ShapeDtypeStruct(self.shape, dtype)
        reading = (self.network, self.buffers, self.calling, self.example)
        self.graph, self.layout = read_graph(*reading), read_layout(*reading)
        self.pack = jax.jit(lambda: self.layout.pack(self.network))
        self._arrays = jax.jit(lambda vector: self._floats(self.layout.bind(self.network, vector)))

    def _floats(self, network):
        leaves = jax.tree.leaves(network)
        return [leaves[place] for place in float_leaves(self.network)]

    def bound(self, vector):
        """The graph with the weights of a vector."""
        return self.graph.bind({n: np.asarray(array) for n, array in enumerate(self._arrays(jnp.asarray(vector)))})
