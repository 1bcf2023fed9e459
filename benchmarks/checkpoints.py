"""What a checkpoint costs beside an epoch of 500 steps.

    python benchmarks/checkpoints.py [--networks lenet mlp] [--steps 100]

Prints the median milliseconds of ten checkpoints, with the one before and the best kept, and their share of the epoch.
"""

import argparse
import tempfile
import time
from pathlib import Path

import contenders
import jax
import numpy as np

import occamax as ox
from occamax.experiment.checkpoint import state_arrays
from occamax.experiment.config import Config
from occamax.experiment.folder import Place, RunFolder

EPOCH_STEPS = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=["lenet", "mlp"])
    parser.add_argument("--steps", type=int, default=100, help="steps that are timed, to tell how long an epoch takes")
    options = parser.parse_args()
    dataset = ox.load_data("fashion_mini")
    for network in options.networks:
        program = contenders.program_of(dataset, network, ox.BMR(), options.steps)
        state, data = program.start(), contenders.on_device(dataset.train)
        costs = []
        with tempfile.TemporaryDirectory() as name:
            folder = RunFolder.create(Path(name) / "run", Config("fashion_mini", network, "bmr"))
            for epoch in range(10):
                began = time.perf_counter()
                arrays = {name: array[0] for name, array in state_arrays(state).items()}
                folder.save_state(arrays, Place(epoch), -float(epoch), keep_best=True)
                costs.append(time.perf_counter() - began)
        chunk = program.chunks[0]
        state, _ = program.train_chunk[chunk](state, data)  # compiles
        began = time.perf_counter()
        jax.block_until_ready(program.train_chunk[chunk](state, data))
        epoch_seconds = (time.perf_counter() - began) * EPOCH_STEPS / chunk
        cost = float(np.median(costs))
        print(f"{network}: {1e3 * cost:.1f} ms, {cost / epoch_seconds:.3%} of an epoch of {epoch_seconds:.1f} s")


if __name__ == "__main__":
    main()
