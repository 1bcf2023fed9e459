"""How cost grows with the number of weights and with the batch, Bayesian beside plain.

    python benchmarks/growth.py [--most 1e7] [--plain plain] [--bayesian bmr-natural] [--out growth.json]

An MLP of two hidden layers, from a tenth of a million weights up, at batch 128; then one of a million weights at
batches from 32 up. Time per step in a compiled loop, memory of the compiled program; the last column is the growth of
time since the row above over the growth of what grows: 1 is linear, less is better.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import contenders
import jax
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from trials import command

import occamax as ox
from occamax.experiment.environment import environment
from occamax.methods import METHODS

WIDTHS = {0.1e6: 104, 1e6: 680, 10e6: 2790, 100e6: 9612}
BATCHES = (32, 128, 512, 2048)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=float, default=1e7, help="the largest number of weights")
    parser.add_argument("--least", type=float, default=0.0, help="the smallest")
    parser.add_argument("--plain", default="map", choices=METHODS)
    parser.add_argument("--bayesian", default="bmr-paper", choices=METHODS)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    dataset = ox.load_data("fashion_mini")
    widths = [width for size, width in WIDTHS.items() if options.least <= size <= options.most]
    pair = {"map": METHODS[options.plain](), "bmr": METHODS[options.bayesian]()}
    sweeps = {
        "weights": [measure(dataset, pair, width, 128, options.steps) for width in widths],
        "batch": [measure(dataset, pair, WIDTHS[1e6], batch, options.steps) for batch in BATCHES],
    }
    for name, rows in sweeps.items():
        Console(highlight=False).print(table_of(name, rows))
    if options.out is not None:
        methods = {name: method.as_data() for name, method in pair.items()}
        found = {"command": command(), **environment(), "methods": methods, **sweeps}
        options.out.write_text(json.dumps(found, indent=2) + "\n")


def measure(dataset: ox.Dataset, pair: dict[str, ox.Method], width: int, batch: int, steps: int) -> dict[str, Any]:
    row: dict[str, Any] = {"batch": batch}
    for name, method in pair.items():
        network = ox.MLP(dataset.shape, dataset.classes, (width, width), key=jax.random.key(0))
        program = contenders.program_of(dataset, network, method, steps, batch=batch)
        state, data = program.start(), contenders.on_device(dataset.train)
        train: Any = program.train_chunk[steps]
        compiled = train.lower(state, data).compile()
        memory = compiled.memory_analysis()
        times = []
        for _ in range(4):
            began = time.perf_counter()
            state, info = compiled(state, data)
            jax.block_until_ready(info)
            times.append(time.perf_counter() - began)
        row["weights"] = program.model.layout.size
        row[f"{name}_ms"] = 1e3 * float(np.median(times[1:])) / steps
        row[f"{name}_mb"] = 1e-6 * (memory.temp_size_in_bytes + memory.argument_size_in_bytes)
    return row


def table_of(name: str, rows: list[dict[str, Any]]) -> Table:
    columns = ("weights", "batch", "map_ms", "bmr_ms", "bmr ÷ map", "map_mb", "bmr_mb", "growth")
    table = Table(*columns, title=f"growing {name}", title_justify="left", box=SIMPLE_HEAD)
    for column in table.columns:
        column.justify = "right"
    for before, row in zip([None, *rows], rows, strict=False):
        growth = "" if before is None else f"{row['bmr_ms'] / before['bmr_ms'] / (row[name] / before[name]):.2f}"
        numbers = [f"{row[k]:.2f}" for k in ("map_ms", "bmr_ms")] + [f"{row['bmr_ms'] / row['map_ms']:.2f}"]
        sizes = [f"{row[k]:.0f}" for k in ("map_mb", "bmr_mb")]
        table.add_row(f"{row['weights']:,}", str(row["batch"]), *numbers, *sizes, growth)
    return table


if __name__ == "__main__":
    main()
