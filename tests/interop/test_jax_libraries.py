"""Modules of Flax NNX and functions of Haiku go in, say the same, and come out pruned."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import occamax as ox
from occamax.export.card import Card
from occamax.export.onnx_file import write_onnx
from occamax.interop.adapted import parts_of
from occamax.structure.calling import read_network
from occamax.structure.layout import float_leaves
from occamax.structure.reading import read_graph, read_layout

from ..export.test_operations import session
from ..tolerances import ADAPTED

IMAGE = jax.ShapeDtypeStruct((8, 8, 2), np.float32)
INPUTS = np.random.default_rng(0).normal(size=(6, 8, 8, 2)).astype(np.float32)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def train(network, inputs=INPUTS, seed=0):
    """Outputs and statistics of a training step."""
    found, buffers, calling = read_network(network)
    keys = jax.random.split(jax.random.key(seed), len(inputs))
    outputs, after = jax.jit(lambda x: calling.apply(found, buffers, x, keys))(inputs)
    state = jax.tree.unflatten(calling.state_tree, after)
    return np.asarray(outputs), parts_of((found, state))[1]


def predict(network, inputs=INPUTS):
    found, buffers, calling = read_network(network)
    return np.asarray(jax.jit(lambda x: calling.apply(found, buffers, x, None)[0])(inputs))


def structure(network):
    found, buffers, calling = read_network(network)
    read_graph(found, buffers, calling, IMAGE)  # every operation is known: it can be exported
    return read_layout(found, buffers, calling, IMAGE)


def flax_module():
    nnx = pytest.importorskip("flax.nnx", reason="flax is not installed: make test-torch")

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.stem, self.norm = nnx.Conv(2, 4, (3, 3), rngs=rngs), nnx.BatchNorm(4, rngs=rngs)
            self.inner, self.layer_norm = nnx.Conv(4, 4, (3, 3), rngs=rngs), nnx.LayerNorm(4, rngs=rngs)
            self.dropout, self.a_head = nnx.Dropout(0.5, rngs=rngs), nnx.Linear(4, 3, rngs=rngs)

        def __call__(self, x):
            x = nnx.relu(self.norm(self.stem(x)))
            x = x + self.layer_norm(self.inner(x))
            return self.a_head(self.dropout(x).mean((1, 2)))

    return Net(nnx.Rngs(0))


def test_a_flax_module_comes_back_as_it_was():
    module = flax_module()
    network = ox.from_flax(module, IMAGE)
    module.eval()
    assert np.abs(predict(network) - module(INPUTS)).max() < ADAPTED
    assert np.array_equal(ox.to_flax(network)(INPUTS), module(INPUTS))
    assert structure(network).names[-1] == "a_head.kernel"  # the last one used, not the last by name


def test_flax_statistics_are_of_the_whole_batch():
    """Its own training step, with dropout off since its streams are others."""
    module = flax_module()
    module.dropout.rate = 0.0
    found, statistics = train(ox.from_flax(module, IMAGE))
    module.train()
    assert np.abs(found - module(INPUTS)).max() < ADAPTED
    assert np.allclose(statistics["norm.mean"], module.norm.mean[...], atol=ADAPTED)
    assert np.allclose(statistics["norm.var"], module.norm.var[...], atol=ADAPTED)


def test_flax_dropout_follows_the_key():
    network = ox.from_flax(flax_module(), IMAGE)
    first, again, other = (train(network, seed=seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)


def haiku_function():
    hk = pytest.importorskip("haiku", reason="dm-haiku is not installed: make test-torch")

    def net(x, is_training):
        x = hk.Conv2D(4, 3)(x)
        x = jax.nn.relu(hk.BatchNorm(True, True, 0.9)(x, is_training))
        x = x + hk.Conv2D(4, 3)(x)
        x = hk.dropout(hk.next_rng_key(), 0.5, x) if is_training else x
        return hk.Linear(3, name="a_head")(x.mean((1, 2)))

    transformed = hk.transform_with_state(net)
    params, state = transformed.init(jax.random.key(0), jnp.asarray(INPUTS), True)
    modes = {"training": {"is_training": True}, "prediction": {"is_training": False}}
    return transformed, params, state, ox.from_haiku(transformed, params, IMAGE, state=state, **modes)


def test_a_haiku_function_comes_back_as_it_was():
    transformed, params, state, network = haiku_function()
    expected, _ = transformed.apply(params, state, None, INPUTS, is_training=False)
    assert np.abs(predict(network) - expected).max() < ADAPTED
    back, _ = ox.to_haiku(network)
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), back, dict(params)))
    assert structure(network).names[-1] == "a_head.w"


def test_haiku_statistics_are_of_the_whole_batch():
    transformed, params, state, network = haiku_function()
    _, after = transformed.apply(params, state, jax.random.key(0), INPUTS, is_training=True)
    statistics = train(network)[1]
    for module, arrays in after.items():
        for name, array in arrays.items():
            assert np.allclose(statistics[f"{module}.{name}"], array, atol=ADAPTED), name


def exported(network):
    """What a file of the network says in onnxruntime."""
    found, buffers, calling = read_network(network)
    leaves = jax.tree.leaves(found)
    arrays = {n: np.asarray(leaves[i]) for n, i in enumerate(float_leaves(found))}
    graph = read_graph(found, buffers, calling, IMAGE).bind(arrays)
    runner = session(write_onnx(graph, Card(None, IMAGE.shape, str(IMAGE.dtype), ox.__version__)))
    return runner.run(None, {runner.get_inputs()[0].name: INPUTS})[0]


def test_a_flax_module_in_a_file_says_the_same():
    """With BatchNorm, GroupNorm, attention and an LSTM; statistics away from their start."""
    nnx = pytest.importorskip("flax.nnx", reason="flax is not installed: make test-torch")

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.stem, self.norm = nnx.Conv(2, 4, (3, 3), rngs=rngs), nnx.BatchNorm(4, momentum=0.1, rngs=rngs)
            self.group_norm = nnx.GroupNorm(4, num_groups=2, rngs=rngs)
            self.attention = nnx.MultiHeadAttention(2, 4, 4, decode=False, rngs=rngs)
            self.lstm, self.head = nnx.RNN(nnx.LSTMCell(4, 5, rngs=rngs), rngs=rngs), nnx.Linear(5, 3, rngs=rngs)

        def __call__(self, x):
            x = self.group_norm(nnx.relu(self.norm(self.stem(x))))
            x = nnx.avg_pool(x, (4, 4), (4, 4)).reshape(len(x), 4, 4)
            return self.head(self.lstm(x + self.attention(x))[:, -1])

    module = Net(nnx.Rngs(0))
    module.train()
    module(INPUTS)
    module.eval()
    assert np.abs(module.norm.mean[...]).max() > 1e-3
    assert np.abs(exported(ox.from_flax(module, IMAGE)) - module(INPUTS)).max() < ADAPTED


def test_a_haiku_function_in_a_file_says_the_same():
    hk = pytest.importorskip("haiku", reason="dm-haiku is not installed: make test-torch")

    def net(x, is_training):
        x = jax.nn.relu(hk.BatchNorm(True, True, 0.9)(hk.Conv2D(4, 3)(x), is_training))
        x = hk.avg_pool(hk.GroupNorm(2)(x), (4, 4, 1), (4, 4, 1), "VALID").reshape(len(x), 4, 4)
        x = x + hk.MultiHeadAttention(2, 2, w_init=hk.initializers.VarianceScaling())(x, x, x)
        cell = hk.LSTM(5)
        x, _ = hk.dynamic_unroll(cell, x, cell.initial_state(len(x)), time_major=False)
        return hk.Linear(3)(x[:, -1])

    transformed = hk.transform_with_state(net)
    params, state = transformed.init(jax.random.key(0), jnp.asarray(INPUTS), True)
    _, state = transformed.apply(params, state, None, INPUTS, True)
    modes = {"training": {"is_training": True}, "prediction": {"is_training": False}}
    network = ox.from_haiku(transformed, params, IMAGE, state=state, **modes)
    expected, _ = transformed.apply(params, state, None, INPUTS, False)
    assert np.abs(exported(network) - expected).max() < ADAPTED


def test_pruned_parameters_of_haiku_come_back():
    hk = pytest.importorskip("haiku", reason="dm-haiku is not installed: make test-torch")
    transformed = hk.transform(lambda x: hk.Linear(3)(jnp.tanh(hk.Linear(6, name="hidden")(x.reshape(len(x), -1)))))
    params = transformed.init(jax.random.key(0), jnp.asarray(INPUTS))
    data = np.repeat(INPUTS, 6, 0), np.arange(36) % 3
    budget = {"epochs": 2, "steps_per_epoch": 2, "batch_size": 8, "num_samples": 2, "progress": False}
    fitted = ox.fit(ox.from_haiku(transformed, params, IMAGE), data, sparsity=0.5, **budget)
    pruned = fitted.to_haiku()
    assert jax.tree.structure(pruned) == jax.tree.structure(dict(params))
    assert sum(int((array == 0).sum()) for array in pruned["hidden"].values()) == (128 * 6 + 6) // 2
    expected = fitted.model.outputs(fitted.network, jnp.asarray(INPUTS))
    assert np.abs(transformed.apply(pruned, None, INPUTS) - expected).max() < ADAPTED


def test_a_wrong_example_is_refused():
    nnx = pytest.importorskip("flax.nnx", reason="flax is not installed: make test-torch")
    with pytest.raises(ox.ArgumentError, match="Linear does not take a batch of shape"):
        ox.from_flax(nnx.Linear(3, 2, rngs=nnx.Rngs(0)), np.ones(4))
    with pytest.raises(ox.ArgumentError, match=r"must be a flax\.nnx\.Module"):
        ox.from_flax(lambda x: x, np.ones(4))
