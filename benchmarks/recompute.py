"""What recomputed activations save, and what they cost in time.

    python benchmarks/recompute.py [--networks mlp-30 resnet20 resnet20-bn vit] [--batch 128] [--rounds 3] [--out FILE]
    python benchmarks/recompute.py --table FILE

`bmr` on Fashion-MNIST's embedded part. Memory is what the compiled steps need beside the data and the state, as XLA
plans it. Time is of two steps, in CPU seconds of this process on a processor and by the clock elsewhere: medians of
interleaved calls.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import contenders
import jax
import jax.numpy as jnp
import numpy as np
import trials

import occamax as ox
from occamax.experiment.environment import environment

STEPS = 2
DEEP, WIDTH = 30, 256


def network_of(name: str, dataset: ox.Dataset) -> Any:
    if name == f"mlp-{DEEP}":
        return ox.MLP(dataset.shape, dataset.classes, (WIDTH,) * DEEP, key=jax.random.key(0))
    return ox.network_named(name)


def timed(clock: Callable[[], float], steps: Any, state: Any, data: Any) -> float:
    own = jax.block_until_ready(jax.tree.map(jnp.copy, state))
    began = clock()
    jax.block_until_ready(steps(own, data))
    return clock() - began


def measure(dataset: ox.Dataset, name: str, batch: int, rounds: int) -> dict[str, Any]:
    method, clock = ox.BMR(), time.process_time if jax.default_backend() == "cpu" else time.perf_counter
    compiled, seconds = [], [[], []]
    for recompute in (False, True):
        network = network_of(name, dataset)
        program = contenders.program_of(dataset, network, method, STEPS, batch=batch, recompute=recompute)
        state, train = program.start(), contenders.on_device(dataset.train)
        steps: Any = program.train_chunk[STEPS]
        compiled.append(steps.lower(state, train).compile())
    for _ in range(rounds + 1):  # the first warms up
        for own, steps in zip(seconds, compiled, strict=True):
            own.append(timed(clock, steps, state, train))
    kept, again = (1e-6 * steps.memory_analysis().temp_size_in_bytes for steps in compiled)
    times = [float(np.median(own[1:])) / STEPS for own in seconds]
    return {
        "network": name, "weights": program.model.layout.size, "batch": batch, "rounds": rounds,
        "kept_mb": round(kept, 1), "recomputed_mb": round(again, 1),
        "kept_seconds": round(times[0], 4), "recomputed_seconds": round(times[1], 4),
        "settings": program.method.as_data(), "command": trials.command(), **environment(),
    }  # fmt: skip


def table(lines: list[dict[str, Any]]) -> str:
    rows = [
        [
            line["network"], f"{line['weights']:,}", str(line["batch"]), f"{line['kept_mb']:.0f}",
            f"{line['recomputed_mb']:.0f}", f"{line['recomputed_mb'] / line['kept_mb']:.2f}",
            f"{line['recomputed_seconds'] / line['kept_seconds']:.2f}",
        ]
        for line in lines
    ]  # fmt: skip
    heads = ["network", "weights", "batch", "MB, kept", "MB, recomputed", "memory, ratio", "time, ratio"]
    return trials.markdown(heads, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=[f"mlp-{DEEP}", "resnet20", "resnet20-bn", "vit"])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    lines, dataset = trials.lines_of(options.table), ox.load_data("fashion_mini")
    for name in [] if options.table else options.networks:
        lines.append(measure(dataset, name, options.batch, options.rounds))
        trials.keep(lines[-1], options.out)
    print(table(lines))


if __name__ == "__main__":
    main()
