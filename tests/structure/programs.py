"""Networks to read as graphs: each as the function of a batch, its arrays with their names, and what an example is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from occamax.structure.graph import Graph
from occamax.structure.trace import trace


@dataclass(frozen=True)
class Program:
    function: Callable[[list, Any], Any]
    arrays: list[jax.Array]
    names: list[str]
    example: jax.ShapeDtypeStruct

    def graph(self, **options: Any) -> Graph:
        return trace(self.function, self.arrays, self.example, **options)

    def batch(self, size: int) -> np.ndarray:
        generator = np.random.default_rng(size)
        if np.issubdtype(self.example.dtype, np.integer):
            return generator.integers(0, 10, (size, *self.example.shape)).astype(self.example.dtype)
        return generator.normal(size=(size, *self.example.shape)).astype(self.example.dtype)


def program(network: Any, shape: tuple, call: Callable | None = None, dtype: Any = jnp.float32) -> Program:
    """`network(example)`, or `call(network, example)`, over a batch."""
    held, static = eqx.partition(network, eqx.is_inexact_array)
    leaves, tree = jax.tree.flatten(held)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in jax.tree.leaves_with_path(held)]

    def function(arrays: list, batch: Any) -> Any:
        whole = eqx.combine(jax.tree.unflatten(tree, arrays), static)
        return jax.vmap(whole if call is None else lambda example: call(whole, example))(batch)

    return Program(function, leaves, names, jax.ShapeDtypeStruct(shape, dtype))


class Block(eqx.Module):
    """A transformer block."""

    norm: eqx.nn.LayerNorm
    attention: eqx.nn.MultiheadAttention
    feedforward: eqx.nn.MLP

    def __init__(self, width, key):
        self.norm = eqx.nn.LayerNorm(width)
        self.attention = eqx.nn.MultiheadAttention(2, width, use_query_bias=True, use_output_bias=True, key=key)
        self.feedforward = eqx.nn.MLP(width, width, 2 * width, 1, activation=jax.nn.gelu, key=key)

    def __call__(self, tokens):
        normed = jax.vmap(self.norm)(tokens)
        causal = jnp.tril(jnp.ones((len(tokens), len(tokens)), bool))
        tokens = tokens + self.attention(normed, normed, normed, mask=causal)
        return tokens + jax.vmap(self.feedforward)(tokens)


class Recurrent(eqx.Module):
    """A cell along a sequence, backwards, from a state that is learnt."""

    cell: eqx.Module
    start: Any

    def __call__(self, sequence):
        return jax.lax.scan(lambda state, x: (self.cell(x, state), x.sum()), self.start, sequence, reverse=True)


def stacked_call(layers, x):
    """Layers with a leading axis, one after the other in a scan."""
    arrays, static = eqx.partition(layers, eqx.is_array)
    return jax.lax.scan(lambda x, own: (x + eqx.combine(own, static)(x), None), x, arrays)[0]


def normed_convolution(key):
    """A convolution with BatchNorm in inference mode, and the call of it."""

    class Normed(eqx.Module):
        convolution: eqx.nn.Conv2d
        norm: eqx.nn.BatchNorm

    def make():
        return Normed(
            eqx.nn.Conv2d(3, 4, 3, use_bias=False, key=key), eqx.nn.BatchNorm(4, "batch", mode="batch", inference=True)
        )

    network, state = eqx.nn.make_with_state(make)()
    return program(network, (3, 6, 6), lambda net, image: net.norm(net.convolution(image), state)[0])
