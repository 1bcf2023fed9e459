"""A recurrent network on sequences: each image is read row by row by a GRU in a `lax.scan`.

python examples/gru.py [EPOCHS [STEPS]]
"""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import occamax as ox


class Reader(eqx.Module):
    cell: eqx.nn.GRUCell
    head: eqx.nn.Linear

    def __init__(self, width: int = 48, *, key: jax.Array):
        first, second = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(28, width, key=first)
        self.head = eqx.nn.Linear(width, 10, key=second)

    def __call__(self, image: jax.Array) -> jax.Array:
        start = jnp.zeros(self.cell.hidden_size)
        last, _ = jax.lax.scan(lambda hidden, row: (self.cell(row, hidden), None), start, image[0])
        return self.head(last)


def main(epochs: int = 8, steps: int = 100, *, out: str = "runs/gru") -> None:
    data = ox.load_data("fashion_mini")
    network = Reader(key=jax.random.key(0))
    fitted = ox.fit(network, data, epochs=epochs, steps_per_epoch=steps, num_samples=20, out=out, overwrite=True)
    loaded = ox.load(out, network)
    assert np.array_equal(loaded.predict(data.test.inputs[:9], 5), fitted.predict(data.test.inputs[:9], 5))
    measured = loaded.export(f"{out}/network.onnx")
    print(f"{fitted.sparsity:.0%} pruned; the file differs by {measured.difference:.0e} at most")
    print(f"report: {loaded.report(f'{out}/report.html')}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
