"""What each array is for is told from the program, whatever library and layout it is from."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax.networks import LeNet, plain_convolutions
from occamax.structure.roles import roles

from .programs import Block, Recurrent, normed_convolution, program, stacked_call

KEY = jax.random.key(0)


def read(made) -> dict:
    """Name → kind, fan_in, output axes, the name of what a bias belongs to."""
    found = roles(made.graph(allow_unknown=True))
    owner = [None if role.bias_of is None else made.names[role.bias_of] for role in found]
    rows = [(role.kind, role.fan_in, role.output_axes, own) for role, own in zip(found, owner, strict=True)]
    return dict(zip(made.names, rows, strict=True))


def raw(made) -> dict:
    return dict(zip(made.names, roles(made.graph(allow_unknown=True)), strict=True))


def functional(arrays, shape, call, dtype=jnp.float32):
    return program({name: jnp.ones(size) for name, size in arrays.items()}, shape, call, dtype)


@pytest.mark.parametrize("plain", [True, False])
def test_a_network_of_convolutions(plain):
    made = program(LeNet((1, 32, 32), 10, key=KEY), (1, 32, 32))
    if plain:
        with plain_convolutions():
            found = read(made)
    else:
        found = read(made)
    assert found["convolutions.1.weight"] == ("conv" if plain else "matmul", 150, (0,), None)
    assert found["convolutions.1.bias"] == ("bias", 1, (0, 1, 2), "convolutions.1.weight")
    assert found["head.weight"] == ("matmul", 84, (0,), None)
    assert found["head.bias"] == ("bias", 1, (0,), "head.weight")


def test_grouped_and_transposed_convolutions():
    layers = [eqx.nn.Conv2d(4, 8, 3, groups=2, key=KEY), eqx.nn.ConvTranspose2d(8, 6, 3, key=KEY)]
    found = read(program(eqx.nn.Sequential(layers), (4, 9, 9)))
    assert found["layers.0.weight"] == ("conv", 18, (0,), None)
    assert found["layers.1.weight"] == ("conv", 72, (0,), None)


def test_a_transformer_block():
    found = read(program(Block(8, KEY), (6, 8)))
    assert found["norm.weight"] == ("gain", 1, (0,), None)
    assert found["norm.bias"] == ("bias", 1, (0,), "norm.weight")
    assert found["attention.query_proj.weight"] == ("matmul", 8, (0,), None)
    assert found["attention.query_proj.bias"] == ("bias", 1, (0,), "attention.query_proj.weight")
    assert found["attention.output_proj.bias"] == ("bias", 1, (0,), "attention.output_proj.weight")
    assert found["feedforward.layers.1.weight"] == ("matmul", 16, (0,), None)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(eqx.nn.LayerNorm((3, 4)), (3, 4)), (eqx.nn.GroupNorm(2, 4), (4, 3, 3)), (eqx.nn.RMSNorm(4), (4,))],
)
def test_norms(layer, shape):
    found = read(program(layer, shape))
    assert found["weight"][0] == "gain"
    assert found["bias"][::3] == ("bias", "weight")


def test_batch_norm_in_inference():
    found = read(normed_convolution(KEY))
    assert found["convolution.weight"] == ("conv", 27, (0,), None)
    assert found["norm.weight"][0] == "gain"
    assert found["norm.bias"][::3] == ("bias", "norm.weight")


def test_cells_in_a_scan():
    found = read(program(Recurrent(eqx.nn.GRUCell(4, 5, key=KEY), jnp.ones(5)), (6, 4)))
    assert found["cell.weight_ih"] == ("matmul", 4, (0,), None)
    assert found["cell.weight_hh"] == ("matmul", 5, (0,), None)
    assert found["cell.bias"] == ("bias", 1, (0,), "cell.weight_ih")
    assert found["cell.bias_n"] == ("bias", 1, (0,), "cell.weight_hh")
    assert found["start"] == ("bias", 1, (0,), None)
    lstm = read(program(Recurrent(eqx.nn.LSTMCell(4, 5, key=KEY), (jnp.zeros(5), jnp.zeros(5))), (6, 4)))
    assert lstm["cell.weight_hh"] == ("matmul", 5, (0,), None)
    assert lstm["cell.bias"] == ("bias", 1, (0,), None)  # of the sum of two products


def test_layers_that_are_scanned_over_are_stacked():
    layers = eqx.filter_vmap(lambda key: eqx.nn.MLP(4, 4, 8, 1, key=key))(jax.random.split(KEY, 3))
    made = program(layers, (4,), stacked_call)
    assert read(made)["layers.0.weight"] == ("matmul", 4, (1,), None)
    assert read(made)["layers.0.bias"] == ("bias", 1, (1,), "layers.0.weight")
    assert all(role.stacked_axis == 0 and role.is_stacked for role in raw(made).values())


def test_a_tied_table_is_a_table():
    made = program(
        eqx.nn.Embedding(10, 4, key=KEY), (7,), lambda net, ids: jax.vmap(net)(ids) @ net.weight.T, jnp.int32
    )
    role = raw(made)["weight"]
    assert (role.kind, role.output_axes, role.notes) == ("embedding", (1,), ("matmul",))


def test_the_head_is_used_last_though_first_in_the_tree():
    arrays = {"a_head": (8, 3), "a_head_bias": (3,), "kernel": (4, 2, 4), "kernel_bias": (2, 4), "spare": (3,)}

    def call(net, x):
        hidden = jnp.einsum("i,ihd->hd", x, net["kernel"]) + net["kernel_bias"]
        return jnp.tanh(hidden).reshape(-1) @ net["a_head"] + net["a_head_bias"]

    made = functional(arrays, (4,), call)
    assert read(made)["a_head"] == ("matmul", 8, (1,), None)
    assert read(made)["kernel"] == ("matmul", 4, (1, 2), None)
    assert read(made)["kernel_bias"] == ("bias", 1, (0, 1), "kernel")
    assert read(made)["spare"][0] == "unused"
    order = sorted(made.names, key=lambda name: raw(made)[name].order)
    assert order == ["kernel", "kernel_bias", "a_head", "a_head_bias", "spare"]


def test_arrays_among_the_tokens():
    def call(net, x):
        tokens = jnp.concatenate([net["token"][None], x]) + net["places"]
        return jnp.split(tokens @ net["fused"].T, 3, -1)[0] + net["places_again"]

    arrays = {"token": (4,), "places": (6, 4), "fused": (12, 4), "places_again": (6, 4)}
    found = read(functional(arrays, (5, 4), call))
    assert found["token"] == ("bias", 1, (0,), None)
    assert found["places"] == ("bias", 1, (0, 1), None)
    assert found["fused"] == ("matmul", 4, (0,), None)
    assert found["places_again"][3] is None  # varies along the tokens, which are no outputs of the weight


def test_weights_that_are_cut_scaled_or_one_for_each_head():
    def call(net, x):
        heads = jnp.einsum("hoi,hi->ho", net["heads"], x)
        parts = zip(jnp.split(net["fused"], 3), jnp.split(net["bias"], 3), strict=True)
        scaled = (net["scaled"] / 2).T @ x[0]
        return heads, [x @ weight.T + bias for weight, bias in parts], scaled * (1 + net["gain"])

    arrays = {"heads": (3, 5, 4), "fused": (12, 4), "bias": (12,), "scaled": (4, 6), "gain": (6,)}
    found = read(functional(arrays, (3, 4), call))
    assert found["heads"] == ("matmul", 4, (0, 1), None)
    assert found["fused"] == ("matmul", 4, (0,), None)
    assert found["bias"] == ("bias", 1, (0,), "fused")
    assert found["scaled"] == ("matmul", 4, (1,), None)
    assert found["gain"] == ("gain", 1, (0,), None)


def test_numbers_that_stand_in_several_places_of_a_matrix():
    """Six numbers make a matrix of two by two whose diagonals are the same: an output is a sum of two."""
    places = np.array([[1, 2], [0, 1]])
    found = read(functional({"band": (6,)}, (2,), lambda net, x: x @ net["band"][places]))
    assert found["band"][:2] == ("matmul", 2)


def test_both_branches_and_loops_are_read():
    def call(net, x):
        x = jax.lax.cond(x.sum() > 0, lambda x: net["yes"] @ x, lambda x: net["no"] @ x, x)
        return jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, jnp.tanh(s[1] @ net["loop"])), (0, x))[1]

    found = read(functional({"yes": (4, 4), "no": (4, 4), "loop": (4, 4)}, (4,), call))
    assert found["yes"] == found["no"] == ("matmul", 4, (0,), None)
    assert found["loop"] == ("matmul", 4, (1,), None)


def test_what_cannot_be_told_names_the_first_operation():
    def call(net, x):
        direction = net["direction"] / jnp.linalg.norm(net["direction"])
        return jnp.tanh(net["squashed"]) * (direction @ x)

    made = functional({"squashed": (4,), "direction": (4, 4)}, (4,), call)
    assert raw(made)["squashed"].kind == raw(made)["direction"].kind == "unknown"
    assert raw(made)["squashed"].operation == "tanh"


def test_a_matrix_that_first_meets_a_constant_is_a_product():
    """A recurrent cell unrolled from a state of zeros. A table that is only added stays one."""

    def call(net, x):
        state = jnp.zeros(5)
        for row in x:
            state = jnp.tanh(net["inner"] @ row + net["back"] @ state)
        return state + net["table"][0]

    found = read(functional({"inner": (5, 4), "back": (5, 5), "table": (2, 5)}, (3, 4), call))
    assert found["back"] == ("matmul", 5, (0,), None)
    assert found["table"][0] == "bias"


def test_a_matrix_that_is_added_before_it_multiplies_is_a_product():
    def call(net, x):
        return jnp.tanh(x[0] + net["back"][0]) @ net["back"]

    assert read(functional({"back": (4, 4)}, (3, 4), call))["back"][0] == "matmul"
