"""Milliseconds a step of the engine of 0.1 or of 0.2, whichever PYTHONPATH leads to; run them in turn to compare.

git archive bd8291d src | tar -x -C OLD
PYTHONPATH=OLD/src python benchmarks/lab/step_time.py old mlp,lenet 8 500 map,bmr-paper DATA
PYTHONPATH=src python benchmarks/lab/step_time.py new mlp,lenet 8 500 map,bmr-paper DATA
"""
# ruff: noqa: I001, imports of two versions

import json
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

WHICH, NETWORKS, ROUNDS, STEPS, METHODS, DATA = sys.argv[1:7]
NAME = sys.argv[7] if len(sys.argv) > 7 else "fashion_mnist"


def old(network, method, steps):
    from occamax.data import load_data
    from occamax.experiment.config import METHODS, NETWORKS
    from occamax.experiment.program import Program, on_device
    from occamax.training import Budget

    data, chosen = load_data(NAME, Path(DATA)), METHODS[method]()
    program = Program(NETWORKS[network].model(data, chosen), chosen, Budget(50, steps))
    return program.train, program.start(), on_device(data.train)


def new(network, method, steps):
    import occamax as ox
    from occamax.experiment.problem import build_model, read_data
    from occamax.experiment.program import Program, Task
    from occamax.inference.calibration import held_out_of
    from occamax.methods import METHODS

    source, chosen = ox.network_named(network), METHODS[method]()
    data = read_data(ox.load_data(NAME, Path(DATA)), image_size=source.image_size)
    model = build_model(source, data, chosen, None, None, "float32", ox.Devices())
    chosen = chosen.suited_to(model.layout)
    program = Program(Task(model, chosen, ox.Budget(50, steps), held_out_of(chosen.calibration, len(data))))
    loop = program.compile(program.stepper.epoch(steps, 128, program.task.held_out), 1, donate=True)
    return loop, program.with_kl_weight(program.start()), tuple(map(jnp.asarray, data.train))


found = {}
for network in NETWORKS.split(","):
    for method in METHODS.split(","):
        loop, state, train = {"old": old, "new": new}[WHICH](network, method, int(STEPS))
        state, _ = jax.block_until_ready(loop(state, train))
        laps = []
        for _ in range(int(ROUNDS)):
            began = time.perf_counter()
            state, _ = jax.block_until_ready(loop(state, train))
            laps.append(1e3 * (time.perf_counter() - began) / int(STEPS))
        found[f"{network} {method}"] = [round(float(np.median(laps)), 4), round(float(np.min(laps)), 4)]
print(json.dumps({"which": WHICH, "ms": found, "jax": jax.__version__, "device": jax.devices()[0].device_kind}))
