"""Every operation of the vocabulary in ONNX, against the numpy interpreter, for a batch of one and of seven."""

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest
from jax import lax

from occamax.errors import ExportError
from occamax.export.card import Card
from occamax.export.onnx_file import write_onnx
from occamax.structure.interpreter import evaluate
from occamax.structure.trace import trace

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(6, 3)).astype(np.float32)
KERNEL = RNG.normal(size=(4, 2, 3, 2)).astype(np.float32)
W = RNG.normal(size=(4, 5)).astype(np.float32)
HEADS = RNG.normal(size=(3, 4, 5)).astype(np.float32)


def session(content):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def inputs_for(dtype, batch, shape):
    if dtype == "float32":
        return RNG.normal(size=(batch, *shape)).astype(np.float32)
    return RNG.integers(0, 6, (batch, *shape)).astype(dtype)


def check(one, shape, dtype="float32", batches=(1, 7), atol=2e-5):
    graph = trace(lambda arrays, batch: jax.vmap(one)(batch), [], jax.ShapeDtypeStruct(shape, dtype))
    for as_usual in (True, False):
        card = Card(None, shape, dtype, "0")
        runner = session(write_onnx(graph, card, as_usual))
        for batch in batches:
            inputs = inputs_for(dtype, batch, shape)
            (found,) = runner.run(None, {card.input_name: inputs})
            (expected,) = evaluate(graph, [inputs])
            assert found.shape == expected.shape
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, atol=atol, rtol=1e-4)


UNARY = {
    "neg": lambda x: -x,
    "exp": jnp.exp,
    "exp2": jnp.exp2,
    "expm1": jnp.expm1,
    "log": lambda x: jnp.log(x * x + 1),
    "log1p": lambda x: jnp.log1p(x * x),
    "tanh": jnp.tanh,
    "logistic": jax.nn.sigmoid,
    "erf": lax.erf,
    "erfc": lax.erfc,
    "sqrt": lambda x: jnp.sqrt(x * x),
    "rsqrt": lambda x: lax.rsqrt(x * x + 1),
    "cbrt": jnp.cbrt,
    "abs": jnp.abs,
    "sign": jnp.sign,
    "square": jnp.square,
    "floor": jnp.floor,
    "ceil": jnp.ceil,
    "sin": jnp.sin,
    "cos": jnp.cos,
    "tan": lambda x: jnp.tan(x / 4),
    "asin": lambda x: jnp.arcsin(jnp.tanh(x)),
    "sinh": jnp.sinh,
    "cosh": jnp.cosh,
    "acos": lambda x: jnp.arccos(jnp.tanh(x)),
    "atan": jnp.arctan,
    "asinh": jnp.arcsinh,
    "acosh": lambda x: jnp.arccosh(1 + x * x),
    "atanh": lambda x: jnp.arctanh(jnp.tanh(x) / 2),
    "is_finite": lambda x: jnp.isfinite(1 / jnp.floor(x)),
    "not": lambda x: ~(x > 0),
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
    "exact gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "integer_pow": lambda x: x**5 + 2 * x**3 - x**2,
    "inverse": lambda x: (x + 9) ** -2,
    "round": jnp.round,
    "away": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "cast": lambda x: (4 * x).astype(jnp.int32),
    "clamp": lambda x: jnp.clip(x, -0.5, 0.7),
    "softmax": jax.nn.softmax,
    "log_softmax": jax.nn.log_softmax,
    "first axis": lambda x: jax.nn.softmax(x, axis=0),
    "leaky": jax.nn.leaky_relu,
    "elu": jax.nn.elu,
    "softplus": jax.nn.softplus,
    "hard tanh": jax.nn.hard_tanh,
    "glu": jax.nn.glu,
    "relu6": jax.nn.relu6,
}


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name):
    check(UNARY[name], (3, 4))


BINARY = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / (y * y + 1),
    "max": jnp.maximum,
    "min": jnp.minimum,
    "pow": lambda x, y: jnp.abs(x) ** y,
    "rem": lambda x, y: lax.rem(x, y),
    "atan2": jnp.arctan2,
    "eq": lambda x, y: jnp.round(x) == jnp.round(y),
    "ne": lambda x, y: jnp.round(x) != jnp.round(y),
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "and": lambda x, y: (x > 0) & (y > 0),
    "or": lambda x, y: (x > 0) | (y > 0),
    "xor": lambda x, y: (x > 0) ^ (y > 0),
    "select": lambda x, y: jnp.where(x > y, x, 2 * y),
    "where bool": lambda x, y: jnp.where(x > 0, y > 0, y < 1),
    "constants": lambda x, y: x + 3 - 2 * y + TABLE[:2, :2].sum(),
}


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers(name):
    check(lambda x: BINARY[name](x[0], x[1, :, :1]), (2, 3, 4))


def test_numbers_that_are_whole():
    check(lambda x: (x // 2 + x % 3 - (x & 3) | 4).sum(), (5,), "int32")
    check(lambda x: jnp.maximum(x, 2) * jnp.where(x > 3, x, 1), (5,), "int32")
    check(lambda x: x.astype(jnp.float32).mean() * 0.5, (3, 4), "uint8")


def pool(x, window, strides, padding, init=-jnp.inf, combine=lax.max):
    return lax.reduce_window(x, init, combine, window, strides, padding)


LAYOUT = {
    "reshape": lambda x: x.reshape(3, 8),
    "transpose": lambda x: x.transpose(2, 0, 1),
    "ravel": jnp.ravel,
    "broadcast": lambda x: jnp.broadcast_to(x[:, :1], x.shape) + 1,
    "tile": lambda x: jnp.tile(x, (1, 2, 1)),
    "class token": lambda x: jnp.concatenate([jnp.asarray(TABLE[:1, :1, None] + jnp.zeros((1, 3, 4))), x]),
    "slice": lambda x: x[1:, :2, ::2],
    "reverse": lambda x: x[::-1, :, ::-1],
    "roll": lambda x: jnp.roll(x, 1, 1),
    "pad": lambda x: jnp.pad(x, ((0, 0), (1, 2), (0, 1)), constant_values=3.0),
    "interior": lambda x: lax.pad(x, 0.5, ((0, 0, 0), (1, -1, 2), (-1, 2, 1))),
    "stack": lambda x: jnp.stack([x[0], x[1] * 2]),
    "sum": lambda x: x.sum(1),
    "all sum": jnp.sum,
    "max": lambda x: x.max((0, 2)),
    "min": lambda x: x.min(-1),
    "prod": lambda x: x.prod(1),
    "all": lambda x: (x > -1).all(1),
    "any": lambda x: (x > 1).any(1),
    "mean": lambda x: x.mean((1, 2)),
    "var": lambda x: x.var(0),
    "argmax": lambda x: x.argmax(1),
    "argmin": lambda x: x.argmin(-1),
    "cumsum": lambda x: jnp.cumsum(x, 1),
    "back": lambda x: lax.cumsum(x, 2, reverse=True),
    "cumprod": lambda x: jnp.cumprod(x, 2),
    "cummax": lambda x: lax.cummax(x, 1),
    "cummin": lambda x: lax.cummin(x, 2, True),
    "take": lambda x: x[:, jnp.array([2, 0])],
    "one": lambda x: x[:, -1],
    "mix": lambda x: x[jnp.array([0, 1]), jnp.array([2, 1])],
    "logsumexp": lambda x: jax.nn.logsumexp(x, -1),
    "norm": lambda x: x / jnp.linalg.norm(x, axis=-1, keepdims=True),
    "standardize": lambda x: jax.nn.standardize(x, axis=-1),
    "instance": lambda x: jax.nn.standardize(x, axis=(1, 2)),
}


@pytest.mark.parametrize("name", LAYOUT)
def test_layout_and_reductions(name):
    check(LAYOUT[name], (2, 3, 4))


PRODUCTS = {
    "matrix": lambda x: x @ W.T.reshape(5, 4),
    "left": lambda x: jnp.einsum("oi,tci->oct", W, x),
    "heads": lambda x: jnp.einsum("tci,cji->tcj", x, HEADS),
    "own": lambda x: jnp.einsum("tci,sci->cts", x, x),
    "two axes": lambda x: jnp.einsum("tci,ciz->tz", x, HEADS.transpose(0, 2, 1)),
    "inner": lambda x: jnp.vdot(x, x),
    "outer": lambda x: jnp.einsum("tci,sdj->ts", x, x),
    "vector": lambda x: x @ W[0],
    "attention": lambda x: jax.nn.dot_product_attention(x, 2 * x, x - 1),
    "causal": lambda x: jax.nn.dot_product_attention(x, x, x, is_causal=True),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name):
    check(PRODUCTS[name], (2, 3, 5))


def convolve(x, strides=(1, 1), padding="VALID", **more):
    return lax.conv_general_dilated(x[None], KERNEL, strides, padding, **more)[0]


WINDOWS = {
    "plain": convolve,
    "strided": lambda x: convolve(x, (2, 1), ((1, 2), (0, 1))),
    "same": lambda x: convolve(x, padding="SAME"),
    "dilated": lambda x: convolve(x, rhs_dilation=(2, 3)),
    "transposed": lambda x: convolve(x, padding=((1, 0), (2, 1)), lhs_dilation=(2, 2)),
    "grouped": lambda x: convolve(jnp.concatenate([x, 2 * x]), feature_group_count=2),
    "biased": lambda x: jnp.tanh(convolve(x) + TABLE[:4, :1, None]) * TABLE[:4, 1:2, None],
    "last channels": lambda x: lax.conv_general_dilated(
        x.transpose(1, 2, 0)[None],
        KERNEL.transpose(2, 3, 1, 0),
        (1, 1),
        "VALID",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )[0],
    "max": lambda x: pool(x, (1, 2, 2), (1, 2, 2), "VALID"),
    "padded": lambda x: pool(x, (1, 3, 3), (1, 2, 1), "SAME"),
    "sum": lambda x: pool(x, (1, 2, 3), (1, 1, 2), ((0, 0), (1, 1), (0, 0)), 0.0, lax.add),
    "min": lambda x: pool(x, (1, 2, 2), (1, 1, 1), "VALID", jnp.inf, lax.min),
    "wide edge": lambda x: pool(x, (1, 2, 2), (1, 1, 1), ((0, 0), (3, 0), (0, 2))),
    "over channels": lambda x: pool(x, (2, 2, 1), (1, 2, 1), "VALID"),
    "joined": lambda x: jnp.tanh(convolve(x) + 1).reshape(4, 2, 3, 3, 2).mean((2, 4)),
    "joined, padded": lambda x: jax.nn.relu(convolve(x, padding=((1, 1), (0, 0)))).reshape(4, 4, 2, 3, 2).mean((2, 4)),
    "highest": lambda x: x.reshape(2, 4, 2, 7, 1).max((2, 4)),
    "one axis": lambda x: x.reshape(2, 2, 4, 7).mean(2),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_convolutions_and_pooling(name):
    check(WINDOWS[name], (2, 8, 7), atol=1e-4)


def branches(x):
    return lax.switch(2, [lambda x: x, lambda x: 2 * x, lambda x: x + 1], x)


def until(x):
    return lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 0.5 + x), (0, x))[1]


def scanned(x, **more):
    return lax.scan(lambda h, row: (jnp.tanh(h + row @ W.T[:4, :4]), h * 2), jnp.zeros(4), x, **more)


CONTROL = {
    "scan": lambda x: scanned(x)[0],
    "rows": lambda x: scanned(x)[1],
    "reversed": lambda x: scanned(x, reverse=True)[1],
    "fori": lambda x: lax.fori_loop(0, 3, lambda i, h: h * 0.5 + x, x),
    "while": until,
    "switch": branches,
    "counted": lambda x: lax.fori_loop(0, 3, lambda i, h: h + lax.dynamic_index_in_dim(x, i, 0), x[:1]),
    "cond": lambda x: lax.cond(x.sum() > 0, lambda: x, lambda: -x),
    "map": lambda x: lax.map(jnp.sin, x),
    "associative": lambda x: lax.associative_scan(jnp.add, x),
    "own length": lambda x: x[jnp.argmax(x[:, 0])],
    "picked": lambda x: jnp.take_along_axis(x, jnp.argmax(x, 1)[:, None], 1),
}


@pytest.mark.parametrize("name", CONTROL)
def test_loops_and_branches(name):
    check(CONTROL[name], (3, 4))


def test_a_block_is_put_in_its_place():
    def program(arrays, batch):
        start = jnp.argmax(jnp.arange(3.0))
        block = lax.dynamic_slice(batch, (0, start - 1, 0), (batch.shape[0], 1, 4))
        return lax.dynamic_update_slice(batch, block * 2, (0, start, 0))

    graph = trace(program, [], jax.ShapeDtypeStruct((3, 4), "float32"))
    inputs = inputs_for("float32", 2, (3, 4))
    (found,) = session(write_onnx(graph, Card(None, (3, 4), "float32", "0"))).run(None, {"inputs": inputs})
    assert np.allclose(found[:, 2], 2 * inputs[:, 1])
    assert np.array_equal(found[:, :2], inputs[:, :2])


LOOKUPS = {
    "rows": lambda x: jnp.asarray(TABLE)[x],
    "take": lambda x: jnp.take(TABLE, x, axis=0, mode="clip"),
    "one hot": lambda x: jax.nn.one_hot(x, 6) @ TABLE,
    "negative": lambda x: jnp.asarray(TABLE)[x - 6],
    "columns": lambda x: jnp.take(TABLE.T, x, axis=1),
    "masked": lambda x: jnp.where(x[:, None] > 2, jnp.asarray(TABLE)[x], 0),
}


@pytest.mark.parametrize("name", LOOKUPS)
@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_lookups(name, dtype):
    if dtype == "uint8" and name == "negative":
        pytest.skip("bytes are not negative")
    check(LOOKUPS[name], (5,), dtype)


def test_what_has_no_form_is_said():
    graph = trace(lambda arrays, x: lax.erf_inv(x), [], jax.ShapeDtypeStruct((3,), "float32"))
    with pytest.raises(ExportError, match=r"erf_inv.*safetensors"):
        write_onnx(graph, Card(None, (3,), "float32", "0"))
