"""What a checkpoint costs beside an epoch of 500 steps.

    python benchmarks/checkpoints.py [--networks lenet mlp]

Prints the median milliseconds of ten checkpoints, with the one before and the best kept, and their share of the epoch.
"""

import argparse
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

from occamax.experiment import Config, Experiment, RunFolder
from occamax.experiment.checkpoint import state_arrays
from occamax.experiment.folder import Place
from occamax.experiment.program import Program, on_device


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=["lenet", "mlp"])
    for network in parser.parse_args().networks:
        config = Config("fashion_mini", network, "bmr")
        experiment = Experiment.of(config)
        program = Program(experiment.model, experiment.method, config.budget)
        state, data = program.start(), on_device(experiment.dataset.train)
        costs = []
        with tempfile.TemporaryDirectory() as name:
            folder = RunFolder.create(Path(name) / "run", config, experiment.method)
            for epoch in range(10):
                began = time.perf_counter()
                folder.save_state(state_arrays(state), Place(epoch), -float(epoch))
                costs.append(time.perf_counter() - began)
        lap = program.laps[0]
        state, _ = program.train_lap[lap](state, data)  # compiles
        began = time.perf_counter()
        jax.block_until_ready(program.train_lap[lap](state, data))
        epoch_seconds = (time.perf_counter() - began) * config.steps / lap
        cost = float(np.median(costs))
        print(f"{network}: {1e3 * cost:.1f} ms, {cost / epoch_seconds:.3%} of an epoch of {epoch_seconds:.1f} s")


if __name__ == "__main__":
    main()
