"""A small transformer on words of a made-up language: good ones, bad ones, and one that turns the next word round.

python examples/transformer.py [EPOCHS [STEPS]]
"""

import sys

import equinox as eqx
import jax
import numpy as np

import occamax as ox

LENGTH, WORDS = 12, 40  # of a sentence, and of the language; word 0 is "not"


class Block(eqx.Module):
    norms: tuple[eqx.nn.LayerNorm, eqx.nn.LayerNorm]
    attention: eqx.nn.MultiheadAttention
    widen: eqx.nn.Linear
    narrow: eqx.nn.Linear

    def __init__(self, width: int, *, key: jax.Array):
        first, second, third = jax.random.split(key, 3)
        self.norms = (eqx.nn.LayerNorm(width), eqx.nn.LayerNorm(width))
        self.attention = eqx.nn.MultiheadAttention(4, width, key=first)
        self.widen = eqx.nn.Linear(width, 2 * width, key=second)
        self.narrow = eqx.nn.Linear(2 * width, width, key=third)

    def __call__(self, x: jax.Array) -> jax.Array:
        seen = jax.vmap(self.norms[0])(x)
        x = x + self.attention(seen, seen, seen)
        return x + jax.vmap(lambda token: self.narrow(jax.nn.gelu(self.widen(self.norms[1](token)))))(x)


class Transformer(eqx.Module):
    words: eqx.nn.Embedding
    positions: jax.Array
    blocks: tuple[Block, ...]
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear

    def __init__(self, width: int = 32, depth: int = 2, *, key: jax.Array):
        first, second, third, *keys = jax.random.split(key, depth + 3)
        self.words = eqx.nn.Embedding(WORDS, width, key=first)
        self.positions = jax.random.normal(second, (LENGTH, width))
        self.blocks = tuple(Block(width, key=own) for own in keys)
        self.norm = eqx.nn.LayerNorm(width)
        self.head = eqx.nn.Linear(width, 2, key=third)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = jax.vmap(self.words)(tokens) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x.mean(0)))


def sentences(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Words and whether the sentence is a kind one: the moods of its words add up, and "not" turns the next one's."""
    rng = np.random.default_rng(seed)
    moods = np.concatenate([[0.0], np.random.default_rng(7).normal(size=WORDS - 1)])  # the same language every time
    tokens = rng.integers(1, WORDS, (count, LENGTH))
    tokens[rng.random((count, LENGTH)) < 0.2] = 0
    signs = np.where(np.pad(tokens[:, :-1], ((0, 0), (1, 0)), constant_values=1) == 0, -1.0, 1.0)
    return tokens.astype(np.int32), ((signs * moods[tokens]).sum(1) > 0).astype(np.int32)


def main(epochs: int = 12, steps: int = 200, *, out: str = "runs/transformer") -> None:
    data = ox.dataset_of(sentences(8000), sentences(2000, seed=1), class_names=("rude", "kind"), name="sentences")
    network = Transformer(key=jax.random.key(0))
    fitted = ox.fit(network, data, epochs=epochs, steps_per_epoch=steps, num_samples=20, out=out, overwrite=True)
    loaded = ox.load(out, network)
    assert np.array_equal(loaded.predict(data.test.inputs[:9], 5), fitted.predict(data.test.inputs[:9], 5))
    measured = loaded.export(f"{out}/network.onnx", data=data)
    print(f"{fitted.sparsity:.0%} pruned; the file differs by {measured.difference:.0e} at most")
    print(f"report: {loaded.report(f'{out}/report.html')}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
