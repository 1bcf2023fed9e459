"""Many devices say what one says: virtual devices in one process, and processes that talk over the loopback."""

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace

import jax
import numpy as np
import pytest

from occamax.errors import ArgumentError
from occamax.experiment import RunFolder
from occamax.experiment.devices import Devices, choose_devices, join_hosts
from occamax.storage import load_arrays

WORDS = ("train", "fashion_mini", "lenet-300-100", "bmr", "--epochs=3", "--steps=10", "--batch=32", "--samples=2")
CLOSE = 1e-5


def begin(out, *more, devices=1, words=WORDS):
    flags = f"--xla_force_host_platform_device_count={devices}"
    command = [sys.executable, "-m", "occamax", *words, "--out", str(out), *map(str, more)]
    environment = {**os.environ, "XLA_FLAGS": flags}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(*processes):
    said = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), said
    return said


def hosts(out, count, *more):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    where = ("--devices=all", f"--coordinator=127.0.0.1:{port}", f"--num-processes={count}")
    return [begin(out, *where, f"--process-id={i}", *more) for i in range(count)]


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    path = tmp_path_factory.mktemp("devices") / "one"
    finish(begin(path))
    return path


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
            pair = (np.delete(arrays[name], tipped) for arrays in (ours, theirs))
            assert np.allclose(*pair, rtol=within, atol=within), name
        else:
            assert np.array_equal(ours[name], theirs[name]), name


@pytest.mark.parametrize("more", [(), ("--shard-weights",)])
def test_virtual_devices(one, tmp_path, more):
    finish(begin(tmp_path / "four", "--devices=4", *more, devices=4))
    close(tmp_path / "four", one)


def test_dropout_is_the_same_on_every_device(tmp_path):
    """Its masks belong to examples, not to devices."""
    words = ("train", "fashion_mini", "mlp", "map", *WORDS[4:-2], "--batch=8", "--samples=1")
    for name, devices in (("one", 1), ("two", 2)):
        finish(begin(tmp_path / name, f"--devices={devices}", devices=devices, words=words))
    one, two = ([line["neg_elbo"] for line in RunFolder(tmp_path / name).metrics()] for name in ("one", "two"))
    assert np.allclose(one, two, rtol=CLOSE)


@pytest.mark.parametrize(("count", "more"), [(2, ()), (4, ("--shard-weights",))])
def test_several_processes(one, tmp_path, count, more):
    said = finish(*hosts(tmp_path / "several", count, *more))
    close(tmp_path / "several", one)
    assert "epoch   3/3" in said[0][0]
    assert all("epoch" not in out for out, _ in said[1:])  # only the first writes and speaks
    assert [line["epoch"] for line in RunFolder(tmp_path / "several").metrics()] == [1, 2, 3]


def test_a_signal_to_one_host_stops_all_and_the_run_goes_on(one, tmp_path):
    out = tmp_path / "run"
    processes = hosts(out, 2, "--epochs=3", "--shard-weights")
    while not (out / "metrics.jsonl").exists():
        assert processes[0].poll() is None
        time.sleep(0.01)
    processes[1].send_signal(signal.SIGTERM)
    said = [process.communicate(timeout=120) for process in processes]
    if [process.returncode for process in processes] != [0, 0]:  # they had not ended by themselves
        assert [process.returncode for process in processes] == [143, 143], said
        finish(*hosts(out, 2, "--epochs=3", "--resume"))
    close(out, one)


def test_a_host_that_dies_ends_the_others_and_the_run_goes_on_without_it(one, tmp_path):
    out = tmp_path / "run"
    first, second = hosts(out, 2, "--epochs=200")
    metrics = out / "metrics.jsonl"
    while first.poll() is None and (not metrics.exists() or metrics.read_text().count("\n") < 2):
        time.sleep(0.02)
    second.kill()
    second.communicate()
    _, said = first.communicate(timeout=120)
    assert first.returncode != 0
    assert "another host of this run is gone" in said
    assert "--resume" in said
    done = len(RunFolder(out).metrics())
    alone = begin(out, "--epochs=200", "--resume")
    while alone.poll() is None and metrics.read_text().count("\n") < done + 2:
        time.sleep(0.02)
    alone.kill()
    alone.communicate()
    assert [line["epoch"] for line in RunFolder(out).metrics()][: done + 2] == list(range(1, done + 3))


def test_what_cannot_be_is_refused():
    with pytest.raises(ArgumentError, match=r"--devices: 99 given; there are \d+"):
        Devices.of(99)
    for words, says in (("some", "--devices: 'some'"), ("0", "--devices: 0"), (None, "say --devices all")):
        with pytest.raises(ArgumentError, match=says):
            choose_devices(words, shard_weights=True)
    with pytest.raises(ArgumentError, match="--batch: 3"):
        replace(Devices.of(1), mesh=jax.sharding.Mesh(np.array(jax.devices() * 2), ("devices",))).check_batch(3)
    with pytest.raises(ArgumentError, match="belong together"):
        join_hosts("127.0.0.1:1", None, None)
    with pytest.raises(ArgumentError, match="--process-id: 2"):
        join_hosts("127.0.0.1:1", 2, 2)
