"""A graph computes what the network computes, at every batch size, and survives being stored."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax.errors import ExportError
from occamax.networks import LeNet, Mixer, ViT, plain_convolutions
from occamax.structure.cleaning import fold
from occamax.structure.graph import Graph
from occamax.structure.interpreter import evaluate
from occamax.structure.vocabulary import OPERATIONS

from ..tolerances import SINGLE
from .programs import Block, Recurrent, normed_convolution, program, stacked_call

KEY = jax.random.key(0)
IMAGES = eqx.nn.Sequential(
    [
        eqx.nn.Conv2d(4, 8, 3, 2, padding="SAME", groups=2, key=KEY),
        eqx.nn.Lambda(jax.nn.silu),
        eqx.nn.MaxPool2d(2, 2),
        eqx.nn.AvgPool2d(3, 1, padding=1),
        eqx.nn.ConvTranspose2d(8, 4, 3, 2, key=KEY),
        eqx.nn.Conv2d(4, 4, 3, dilation=2, key=KEY),
        eqx.nn.AdaptiveAvgPool2d(2),
    ]
)
RESIDUAL = {"w": jax.random.normal(KEY, (5, 5)), "b": jnp.ones(5)}
TABLE = eqx.nn.Embedding(10, 4, key=KEY)
LAYERS = eqx.filter_vmap(lambda key: eqx.nn.MLP(4, 4, 8, 1, key=key))(jax.random.split(KEY, 3))


def odds(net, x):
    """What the layers above do not use."""
    y = jnp.flip(jnp.cumsum(x))
    y = jnp.concatenate([y, jnp.roll(x, 1), jnp.tile(x, 2), jnp.clip(x, -1, 1), x[::2], jnp.pad(x, (1, 2))])
    which = jnp.argmax(x)
    picked = jnp.take_along_axis(x, jnp.arange(5)[::-1], 0)
    branch = jax.lax.cond(x.sum() > 0, lambda z: z * net["b"], lambda z: z @ net["w"], x)
    last = jax.lax.dynamic_slice(x, (which,), (1,))
    looped = jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 0.5 + x), (0, x))[1]
    outer = jnp.stack([x, x**3, x**2, jnp.sqrt(jnp.abs(x)), jax.scipy.special.erf(x), jnp.log1p(x * x)], 1)
    return y, picked, branch, last, looped, jax.nn.log_softmax(outer, 0), jax.nn.gelu(outer, approximate=False), which


PROGRAMS = {
    "mlp": lambda: program(eqx.nn.MLP(4, 3, 8, 2, activation=jax.nn.gelu, key=KEY), (4,)),
    "images": lambda: program(IMAGES, (4, 13, 13)),
    "transformer": lambda: program(Block(8, KEY), (6, 8)),
    "gru": lambda: program(Recurrent(eqx.nn.GRUCell(4, 5, key=KEY), jnp.ones(5)), (6, 4)),
    "lstm": lambda: program(Recurrent(eqx.nn.LSTMCell(4, 5, key=KEY), (jnp.zeros(5), jnp.ones(5))), (6, 4)),
    "table": lambda: program(TABLE, (7,), lambda net, ids: jax.vmap(net)(ids) @ net.weight.T, jnp.int32),
    "batch norm": lambda: normed_convolution(KEY),
    "group norm": lambda: program(eqx.nn.GroupNorm(2, 4), (4, 3, 3)),
    "rms norm": lambda: program(eqx.nn.RMSNorm(4), (4,)),
    "residual": lambda: program(RESIDUAL, (5,), lambda net, x: x + jax.nn.relu(net["w"] @ x + net["b"])),
    "stacked layers": lambda: program(LAYERS, (4,), stacked_call),
    "odds": lambda: program(RESIDUAL, (5,), odds),
    "mixer": lambda: program(Mixer((3, 8, 8), 10, depth=1, width=16, key=KEY), (3, 8, 8)),
    "vit": lambda: program(ViT((3, 8, 8), 10, depth=1, width=16, hidden=16, key=KEY), (3, 8, 8)),
    "lenet, as products": lambda: program(LeNet((1, 32, 32), 10, key=KEY), (1, 32, 32)),
}


def assert_agrees(graph, made):
    batch = made.batch(7)
    expected = jax.tree.leaves(jax.jit(made.function)(made.arrays, batch))
    for size in (1, 7):
        found = evaluate(graph, [batch[:size]], dict(enumerate(made.arrays)))
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs[:size], rtol=SINGLE, atol=SINGLE)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_graph_computes_what_the_network_computes(name):
    made = PROGRAMS[name]()
    graph = made.graph()
    stored = Graph.from_dict(json.loads(json.dumps(graph.as_dict())), graph.arrays())
    assert stored.as_dict() == graph.as_dict()
    assert {node.op for each in graph.walk() for node in each.nodes} <= OPERATIONS
    assert_agrees(stored, made)


def test_convolutions_are_kept_where_asked():
    made = program(LeNet((1, 32, 32), 10, key=KEY), (1, 32, 32))
    with plain_convolutions():
        graph = made.graph()
    assert [node.op for node in graph.nodes if node.op in ("conv", "dot")] == ["conv"] * 3 + ["dot"] * 2
    assert_agrees(graph, made)


def test_functions_with_names_are_one_node():
    def call(net, x):
        return jax.nn.softmax(jax.nn.silu(jax.nn.relu(x)), 0), jax.nn.log_softmax(x, 1), jax.nn.gelu(x)

    ops = [node.op for node in program({}, (3, 4), call).graph().nodes]
    assert sorted(ops) == ["gelu", "log_softmax", "relu", "silu", "softmax"]


def test_the_side_of_the_input_comes_first_and_needs_no_transposes():
    graph = program(eqx.nn.MLP(4, 3, 8, 1, key=KEY), (4,)).graph()
    assert [node.op for node in graph.nodes] == ["dot", "reshape", "add", "relu", "dot", "reshape", "add"]
    assert graph.shapes[graph.outputs[0]] == (-1, 3)


def test_folding_keeps_a_parameter_that_is_only_moved():
    arrays = {"scale": jnp.ones(4), "w": jnp.ones((4, 4))}
    made = program(arrays, (4,), lambda net, x: jax.nn.softplus(net["scale"]) * (net["w"].T @ x))
    bound = made.graph().bind(dict(enumerate(made.arrays)))
    folded = fold(bound)
    assert "exp" not in [node.op for node in folded.nodes]
    weight = next(value for value, leaf in folded.parameters.items() if leaf == made.names.index("w"))
    assert weight in folded.constants
    assert any(weight in node.inputs for node in folded.nodes)
    np.testing.assert_allclose(evaluate(folded, [made.batch(3)])[0], evaluate(bound, [made.batch(3)])[0], rtol=SINGLE)


def test_an_operation_without_an_entry_is_named():
    made = program({}, (4,), lambda net, x: jnp.sort(x))
    with pytest.raises(ExportError, match="'sort'"):
        made.graph()
    assert [node.op for node in made.graph(allow_unknown=True).nodes] == ["unknown"]


def test_a_mean_over_the_batch_is_refused():
    def function(arrays, batch):
        return batch - batch.mean(0)

    made = program({}, (4,))
    with pytest.raises(ExportError, match="batch size"):
        type(made)(function, [], [], made.example).graph()


def test_what_is_missing_or_has_another_shape_is_named():
    made = program(eqx.nn.Linear(4, 3, key=KEY), (4,))
    graph = made.graph()
    with pytest.raises(ExportError, match=r"no array for the parameters \[0, 1\]"):
        evaluate(graph, [made.batch(1)])
    with pytest.raises(ExportError, match="parameter 1 has shape"):
        graph.bind({1: np.ones(7)})
    with pytest.raises(ExportError, match=r"inputs\[0\]"):
        evaluate(graph, [np.ones((2, 5))], dict(enumerate(made.arrays)))
