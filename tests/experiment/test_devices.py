"""Many devices say what one says, also with BatchNorm, dropout and augmentation: virtual devices in one process, and
processes that talk over the loopback."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import occamax as ox
from occamax.errors import ArgumentError
from occamax.experiment.devices import Devices, choose_devices
from occamax.experiment.folder import RunFolder
from occamax.experiment.hosts import join_hosts
from occamax.storage import load_arrays

from .device_runs import asked, masks_by, said_by
from .small_runs import fit_normed, normed, save_npz

ROOT = Path(__file__).parents[2]
CLOSE = 2e-5


def begin(*words, devices=1):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "XLA_FLAGS": flags}
    command = [sys.executable, "-m", *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, cwd=ROOT, **pipes)


def finish(*processes):
    said = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), said
    return said


def coordinator():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One device here; four virtual ones with the vectors shared out, and two hosts that read their data from files,
    in other processes."""
    out, where = tmp_path_factory.mktemp("devices"), coordinator()
    script = "tests.experiment.device_runs"
    processes = [begin(script, out / "hosts", "streamed", "--hosts", where, 2, i) for i in range(2)]
    fit_normed(out / "one")
    said = finish(*processes)
    finish(begin(script, out / "four", "sharded", "said", "masks", "moved", devices=4))
    return out, said


def close(path, other):
    """The same but for rounding. That may tip a weight whose ΔF is at the threshold to the last digit, after which the
    others differ a little too."""
    ours, theirs = (load_arrays(p / "checkpoint.safetensors")[0] for p in (path, other))
    assert set(ours) == set(theirs)
    tipped = np.flatnonzero(ours["mask"] != theirs["mask"])
    assert len(tipped) <= 3
    within = CLOSE if not len(tipped) else 2e-3
    for name in set(theirs) - {"mask"}:
        if theirs[name].dtype == np.float32:
            is_vector = ours[name].shape[-1:] >= ours["mask"].shape
            pair = (np.delete(a[name], tipped) if is_vector else a[name] for a in (ours, theirs))
            assert np.allclose(*pair, rtol=within, atol=within), name
        else:
            assert np.array_equal(ours[name], theirs[name]), name


@pytest.mark.parametrize("name", ["four/sharded", "hosts/streamed"])
def test_many_devices_train_what_one_trains(runs, name):
    out, _ = runs
    close(out / name, out / "one")
    assert [line["epoch"] for line in RunFolder(out / name).metrics()] == [1, 2, 3, 4]


def test_two_hosts_read_the_halves_of_every_batch(runs):
    one, two = (np.load(runs[0] / "hosts" / f"read-{i}.npz") for i in range(2))
    chunks = [name.removeprefix("all-") for name in one if name.startswith("all-")]
    assert sum(one[f"all-{chunk}"].shape[1] for chunk in chunks) == 24  # all steps
    for chunk in chunks:
        halves = [host[f"own-{chunk}"] for host in (one, two)]
        assert np.array_equal(np.concatenate(halves, 2), one[f"all-{chunk}"])
        assert halves[0].shape == halves[1].shape


def test_many_devices_say_of_the_same_network_what_one_says(runs):
    out, _ = runs
    alone, shared = said_by(out / "one", Devices()), np.load(out / "four" / "said.npz")
    assert {"expectation", "log_likelihood", "draws", "mean", "expected_nll"} <= set(alone) == set(shared)
    assert np.isfinite(alone["expected_nll"]).all()
    assert alone["removed"].sum() > 0
    for name, values in alone.items():
        assert values.shape == shared[name].shape
        assert np.allclose(values, shared[name], rtol=1e-6, atol=1e-6), name


def test_many_devices_that_share_the_weights_prune_the_same(runs):
    """Sparsity by rank over all of them, and units by sums that lie on several."""
    out, _ = runs
    alone, shared = masks_by(out / "one", Devices()), np.load(out / "four" / "masks.npz")
    layout = ox.load(out / "one", normed()).model.layout
    for name, left in alone.items():
        assert np.array_equal(left, shared[name]), name
    hidden = layout.size - layout.sizes[-1]  # the output layer stays
    assert (~alone["target"][0][:hidden]).sum() == round(0.9 * hidden)
    channels = layout.matrices(jnp.asarray(alone["units"][0]))[0].any(1)
    assert 0 < channels.sum() < len(channels)


def test_a_reduction_leaves_the_shared_vectors_where_they_are(runs):
    """What decides which weights go, by rank over all of them or of every layer, and what is recorded of it, needs no
    vector of numbers on any one device."""
    moved = np.load(runs[0] / "four" / "moved.npz")
    assert max(moved["whole"], moved["by_layer"]) <= moved["length"] // 4


def test_a_reduction_is_measured_by_all_devices(runs):
    for devices, is_shared in ((Devices.of(1), True), (Devices(), False)):
        program, state, examples = asked(runs[0] / "one", devices)
        assert ("shard_map" in str(jax.make_jaxpr(program.reduce)(state, 0.9, examples))) == is_shared


def test_statistics_of_a_batch_are_those_of_the_whole(runs):
    """BatchNorm's buffers are no mean of what four devices found apart: variances would be too small."""
    out, _ = runs
    one, four = (load_arrays(out / name / "checkpoint.safetensors")[0] for name in ("one", "four/sharded"))
    buffers = [name for name in one if name.startswith("buffers") and one[name].dtype == np.float32]
    assert len(buffers) >= 2
    assert all(np.allclose(one[name], four[name], rtol=CLOSE, atol=CLOSE) for name in buffers)


def test_only_the_first_host_writes_and_speaks(runs):
    _, said = runs
    assert "epoch   4/4" in said[0][0]
    assert "epoch" not in said[1][0]


def test_a_checkpoint_knows_no_devices(runs, tmp_path):
    """What four devices saved is loaded on one, and trained on there."""
    out, _ = runs
    loaded = ox.load(out / "four" / "sharded", normed())
    assert loaded.model.multiple == 1
    again = fit_normed(out / "four" / "sharded", resume=True)
    assert np.array_equal(again.state.posterior.mean, loaded.state.posterior.mean)


def words(out):
    data, network = out.parent / "pixels.npz", "tests.experiment.small_runs:build_small"
    return f"occamax train {data} {network} map --epochs 3000 --steps 4 --batch 16 --samples 1 --out {out}".split()


def hosts(out, *more):
    where = ("--devices=all", f"--coordinator={coordinator()}", "--num-processes=2")
    return [begin(*words(out), *where, f"--process-id={i}", *more) for i in range(2)]


def wait_for(path, count, process):
    while process.poll() is None and (not path.exists() or path.read_text().count("\n") < count):
        time.sleep(0.01)


def test_hosts_that_are_stopped_or_die(tmp_path):
    """A signal to one host stops all, and the run goes on; a host that dies ends the others, and it goes on without."""
    out, metrics = tmp_path / "run", tmp_path / "run" / "metrics.jsonl"
    save_npz(tmp_path / "pixels.npz")
    both = hosts(out, *(["--shard-weights"] if importlib.util.find_spec("orbax") else []))
    wait_for(metrics, 1, both[0])
    assert [process.poll() for process in both] == [None, None]  # neither has ended by itself
    both[1].send_signal(signal.SIGTERM)
    said = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [143, 143], said
    assert "everything is saved" in said[0][1]
    done = len(RunFolder(out).metrics())
    assert 1 <= done < 3000
    first, second = hosts(out, "--resume")
    wait_for(metrics, done + 2, first)
    second.kill()
    second.communicate()
    _, said = first.communicate(timeout=120)
    assert first.returncode != 0
    if "PThread" not in said:  # jax's own watch over the hosts may end the process before we can say anything
        assert "another host of this run is gone" in said
        assert "--resume" in said
    done = len(RunFolder(out).metrics())
    alone = begin(*words(out), "--resume")
    wait_for(metrics, done + 2, alone)
    alone.kill()
    alone.communicate()
    assert [line["epoch"] for line in RunFolder(out).metrics()][: done + 2] == list(range(1, done + 3))


def test_what_cannot_be_is_refused():
    with pytest.raises(ArgumentError, match=r"devices: 99 given; there are \d+"):
        Devices.of(99)
    for words, says in (("some", "--devices: 'some'"), ("0", "devices: 0"), (None, "say --devices all")):
        with pytest.raises(ArgumentError, match=says):
            choose_devices(words, shard_weights=True)
    with pytest.raises(ArgumentError, match=r"batch.*: 3"):
        replace(Devices.of(1), mesh=jax.sharding.Mesh(np.array(jax.devices() * 2), ("devices",))).check_batch(3)
    with pytest.raises(ArgumentError, match="belong together"):
        join_hosts("127.0.0.1:1", None, None)
    with pytest.raises(ArgumentError, match="--process-id: 2"):
        join_hosts("127.0.0.1:1", 2, 2)
