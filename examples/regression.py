"""Regression on a table: a CSV with a named target column, numbers and words mixed.

python examples/regression.py [EPOCHS [STEPS]]
"""

import csv
import sys
from pathlib import Path

import equinox as eqx
import jax
import numpy as np

import occamax as ox


def write_table(path: Path, rows: int = 4000, seed: int = 0) -> None:
    """Made-up flats: the rent follows from size, distance and district, and not from the three columns of noise."""
    rng = np.random.default_rng(seed)
    districts = {"harbour": 150.0, "hill": 300.0, "old town": 250.0}
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["size", "distance", "district", "noise_a", "noise_b", "noise_c", "rent"])
        for _ in range(rows):
            size, distance, noise = rng.uniform(20, 120), rng.exponential(4), rng.normal(size=3)
            district = str(rng.choice(list(districts)))
            rent = 9 * size + districts[district] + 400 / (1 + distance) + 40 * rng.normal()
            values = [size, distance, district, *noise, rent]
            writer.writerow([value if isinstance(value, str) else f"{value:.3f}" for value in values])


def main(epochs: int = 15, steps: int = 150, *, out: str = "runs/regression") -> None:
    table = Path(out).with_suffix(".csv")
    write_table(table)
    data = ox.load_data(table, target="rent")
    network = eqx.nn.MLP(data.shape[0], data.outputs, 64, 2, jax.nn.silu, key=jax.random.key(0))
    fitted = ox.fit(network, data, epochs=epochs, steps_per_epoch=steps, num_samples=20, out=out, overwrite=True)
    loaded = ox.load(out, network)
    assert np.array_equal(loaded.predict(data.test.inputs[:9], 5), fitted.predict(data.test.inputs[:9], 5))
    measured = loaded.export(f"{out}/network.onnx")
    print(
        f"root mean squared error {fitted.evaluate()['rmse']:.1f}, where the noise is 40; {fitted.sparsity:.0%} pruned"
    )
    print(f"the file differs by {measured.difference:.0e} at most; report: {loaded.report(f'{out}/report.html')}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
