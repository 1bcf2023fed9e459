"""Checkpoints of which each host writes, or reads, its own part:

    python -m tests.experiment.part_runs save|read OUT COORDINATOR COUNT NUMBER

`save` writes what a reduction is recorded as, then the first state of a small run, then one in the middle of its second
epoch, and is killed in the third save, when the parts are written but nothing speaks of them yet. `read` reads the
second and says which of its own numbers are as they were.
"""

import os
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

import occamax as ox
from occamax.experiment.checkpoint import load_state, state_leaves
from occamax.experiment.devices import Devices
from occamax.experiment.folder import Place, RunFolder
from occamax.experiment.hosts import join_hosts
from occamax.experiment.loop import Epoch, Pause
from occamax.experiment.problem import build_model, read_data
from occamax.experiment.program import Program, Task
from occamax.experiment.writer import Writer
from occamax.inference.calibration import held_out_of
from occamax.inference.training import Budget, Info

from .small_runs import dataset, normed

FIRST, MIDDLE = Place(0), Place(1, 2)
BMR = ox.BMR()


def program_on(devices, method=BMR):
    found = read_data(dataset(), None, None, None)
    model = build_model(normed(), found, method, None, None, "float32", devices)
    return Program(Task(model, method, Budget(2, 4, 30), held_out_of(None, 1)), devices)


def record_on(devices):
    """Of a reduction by half, of weights that are believed by chance."""
    program = program_on(devices, BMR.pruned_to(0.5, 2))
    return program.reduce(program.start(), jnp.float32(0.9), None)[1]


def write_record(path, program):
    """As when an epoch is over."""
    (path / "reductions").mkdir(parents=True, exist_ok=True)
    state = program.start()
    writer = Writer([RunFolder(path)], program, state.mask)
    writer.write(Epoch(1, state, record_on(program.devices), [False], [{"epoch": 1, "neg_elbo": 0.0}], 1.0))
    writer.close()


def pause_of(program):
    """The middle of an epoch: a state, and the one to go back to, with other numbers."""
    before = program.start()
    state = before._replace(posterior=jax.tree.map(lambda leaf: leaf * 2 + 1, before.posterior))
    nats = jnp.zeros((1, 2))
    return Pause(state, Info(nats, nats, nats), record_on(program.devices), before, before.mask)


def save(out, program):
    write_record(out / "recorded", program)
    writer = Writer([RunFolder(out)], program, program.start().mask)
    writer.start(program.start())
    writer.pause(1, pause_of(program))
    RunFolder.save_state = lambda *_: os._exit(9)
    writer.pause(1, pause_of(program))


def read(out, program):
    folder, devices = RunFolder(out), program.devices
    found = folder.checkpoints(jax.process_index(), jax.process_count(), devices.agree)
    loaded = load_state(found[MIDDLE], program.shape_of_one(), MIDDLE, devices, program.model.fill)
    assert loaded.pause is not None
    assert loaded.pause.before is not None
    wanted = pause_of(program_on(Devices()))
    pairs = [(loaded.state, wanted.state), (loaded.pause.before, wanted.before)]
    for own, whole in pairs:
        expected = {name: np.asarray(leaf)[0] for name, leaf in state_leaves(whole).items()}
        for name, leaf in state_leaves(program.place(own)).items():
            there = expected[name]
            filled = there if there.shape == leaf.shape else np.pad(there, (0, len(leaf) - len(there)))
            for shard in leaf.addressable_shards:
                assert np.array_equal(np.asarray(shard.data), filled[shard.index]), name
    means = loaded.state.posterior.point
    print(sum(shard.data.size for shard in means.addressable_shards), means.size)


def main(what, out, coordinator, count, number):
    gather = multihost_utils.process_allgather

    def gather_little(array, **options):
        assert jax.tree.leaves(array)[0].dtype == np.uint8 or np.size(array) < 100, "vectors are gathered on a host"
        return gather(array, **options)

    multihost_utils.process_allgather = gather_little
    join_hosts(coordinator, int(count), int(number))
    {"save": save, "read": read}[what](Path(out), program_on(Devices.of(None, shard_weights=True)))


if __name__ == "__main__":
    main(*sys.argv[1:])
