"""Trains the small run with everything in it on all the devices that there are:

    python -m tests.experiment.device_runs OUT NAME... [--hosts COORDINATOR COUNT NUMBER]

The names: `all` devices share the batch; `sharded` they share the vectors as well; `streamed` each reads its part of
the batch from files; `said` they share the examples of which the run beside OUT is asked; `masks` they share its
vectors while it is pruned; `moved` how many numbers of those they hand to one another for that.
"""

import re
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np

import occamax as ox
from occamax.experiment.devices import Devices
from occamax.experiment.feeder import BATCH_AXIS
from occamax.experiment.hosts import join_hosts
from occamax.experiment.problem import build_model, read_data
from occamax.experiment.program import Program, Task, find_task_units
from occamax.inference.calibration import held_out_of
from occamax.inference.training import Budget

from .small_runs import dataset, fit_normed, fit_streamed, normed

EXCHANGES = "all-gather|all-reduce|all-to-all|reduce-scatter|collective-permute|collective-broadcast"
UNIT_PRICE = 20.0  # nats per weight: one channel of three goes for it


def asked(path, devices):
    """A program that prunes nine tenths of a run, its state, and 29 examples, which four do not share evenly."""
    run = ox.load(path, normed())
    program = Program(Task(run.model, run.method.pruned_to(0.9, 10), Budget(), held_out_of(None, 1)), devices)
    state = program.place(jax.tree.map(lambda leaf: leaf[None], run.state))
    return program, state, devices.put((dataset().test.inputs[:29], dataset().test.targets[:29]))


def said_by(path, devices):
    """What they say of the examples when they evaluate, calibrate and reduce."""
    program, state, (inputs, targets) = asked(path, devices)
    found = program.evaluate(state, inputs, targets, 3)._asdict()
    found |= {"draws": program.outputs(state, inputs), "mean": program.mean_outputs(state, inputs)}
    _, record = program.reduce(state, jnp.float32(0.9), (inputs, targets))  # the last: it takes the state over
    found |= {name: getattr(record, name) for name in ("removed", "predicted", "expected_nll", "divergence")}
    return {name: np.asarray(values) for name, values in found.items()}


def masks_by(path, devices):
    """What is left of a run when nine tenths must go, and when units have a price."""
    run, data, left = ox.load(path, normed()), read_data(dataset()), {}
    model = build_model(normed(), data, run.method, None, None, "float32", devices)

    def of_devices(leaf):
        """Vectors of latents are filled up to where they can be shared; the mask is as long as it is."""
        is_vector = leaf.shape == (run.model.latent_count,) and leaf.dtype != bool
        return (jnp.pad(leaf, (0, model.latent_count - len(leaf))) if is_vector else leaf)[None]

    priced = replace(run.method.reduction, criterion=ox.criteria.Evidence(np.inf), unit_price=UNIT_PRICE)
    methods = {"target": run.method.pruned_to(0.9, 10), "units": replace(run.method, reduction=priced)}
    for name, method in methods.items():
        units = find_task_units(model, method, data.example)
        program = Program(Task(model, method, Budget(), held_out_of(None, 1), units=units), devices)
        state = program.place(jax.tree.map(of_devices, run.state))
        examples = devices.put((dataset().test.inputs[:29], dataset().test.targets[:29]))
        left[name] = np.asarray(program.reduce(state, jnp.float32(0.9), examples)[1].mask)
    return left


def moved_by(path, devices):
    """The most numbers that any one exchange between the devices brings to each, in the compiled program that decides
    which nine tenths go; and how long the vectors are."""
    run, data, found = ox.load(path, normed()), read_data(dataset()), {}
    model = build_model(normed(), data, run.method, None, None, "float32", devices)
    method = run.method.pruned_to(0.9, 10)
    by_layer = replace(method.reduction, criterion=replace(method.reduction.criterion, per_layer=True))
    for name, own in {"whole": method, "by_layer": replace(method, reduction=by_layer)}.items():
        program = Program(Task(model, own, Budget(), held_out_of(None, 1)), devices)
        lowered = program.reduce.lower(program.start(), jnp.float32(0.9), None)  # pyright: ignore[reportFunctionMemberAccess]
        exchanges = re.findall(rf"= (.*?) (?:{EXCHANGES})(?:-start)?\(", lowered.compile().as_text())
        assert exchanges
        shapes = [shape for one in exchanges for shape in re.findall(r"\b[bf]+\d+\[([\d,]*)\]", one)]
        found[name] = max(np.prod([int(size) for size in shape.split(",") if size]) for shape in shapes)
    return found | {"length": model.latent_count}


@contextmanager
def what_is_read():
    """The numbers of the examples in the batches, chunk by chunk, and of those that this host reads."""
    found, put = {}, Devices.put_examples

    def recorded(self, take, rows, axis):
        chunk = len(found) // 2

        def taken(part):
            found[f"own-{chunk}"] = part
            return take(part)

        if axis == BATCH_AXIS:
            found[f"all-{chunk}"] = rows
        return put(self, taken if axis == BATCH_AXIS else take, rows, axis)

    with patch.object(Devices, "put_examples", recorded):
        yield found


def main(words):
    words, hosts = (words[: words.index("--hosts")], words[-3:]) if "--hosts" in words else (words, None)
    if hosts is not None:
        join_hosts(hosts[0], int(hosts[1]), int(hosts[2]))
    out = Path(words[0])
    for name in words[1:]:
        devices = Devices.of(None, shard_weights=name in ("sharded", "masks", "moved"))
        if name == "said":
            np.savez(out / "said.npz", **said_by(out.parent / "one", devices))
        elif name == "masks":
            np.savez(out / "masks.npz", **masks_by(out.parent / "one", devices))
        elif name == "moved":
            np.savez(out / "moved.npz", **moved_by(out.parent / "one", devices))
        elif name == "streamed":
            with what_is_read() as read:
                fit_streamed(Path(mkdtemp()), out / name, devices=devices, progress=True)
            np.savez(out / f"read-{jax.process_index()}.npz", **read)
        else:
            fit_normed(out / name, devices=devices, progress=True)


if __name__ == "__main__":
    main(sys.argv[1:])
