"""Runs survive what happens to them: signals, kills, damage, full disks, a second process, divergence."""

import errno
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from occamax.errors import DivergedError, RunError, StoppedError
from occamax.experiment import Config, Experiment, RunFolder, train
from occamax.experiment import checkpoint as checkpoint_module
from occamax.experiment import loop as loop_module
from occamax.experiment import program as program_module
from occamax.experiment.folder import Place
from occamax.experiment.signals import StopSignals
from occamax.storage import load_arrays
from occamax.storage.lock import RunLock

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import kills

SMALL = {"epochs": 4, "steps": 6, "batch": 16, "samples": 2}


@pytest.fixture(autouse=True)
def _short_laps(monkeypatch):
    monkeypatch.setattr(program_module, "LONGEST_LAP", 2)


@pytest.fixture(scope="module")
def experiments():
    """By method. The data are read and the network built once."""
    return {m: Experiment.of(Config("fashion_mini", "lenet-300-100", m, **SMALL)) for m in ("bmr", "bmr-paper")}


@pytest.fixture(scope="module")
def whole(experiments, tmp_path_factory):
    """Uninterrupted runs, by method."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program_module, "LONGEST_LAP", 2)
        found = {}
        for method, experiment in experiments.items():
            found[method] = tmp_path_factory.mktemp("whole") / method
            train(experiment, [found[method]], [0])
        return found


def same_end(path, other):
    assert kills.differences(path, other) == []


def stop_after(monkeypatch, calls):
    """A signal that comes after so many looks."""
    left = iter(range(calls))
    monkeypatch.setattr(StopSignals, "asked", lambda self: next(left, None) is None)
    monkeypatch.setattr(StopSignals, "signum", signal.SIGTERM, raising=False)
    monkeypatch.setattr(StopSignals, "__init__", lambda self: setattr(self, "_before", {}))


@pytest.mark.parametrize("method", ["bmr", "bmr-paper"])
@pytest.mark.parametrize("calls", [1, 4, 5, 9])
def test_a_stop_anywhere_resumes_bit_for_bit(method, calls, experiments, whole, tmp_path, monkeypatch):
    path = tmp_path / "run"
    with monkeypatch.context() as patch:
        stop_after(patch, calls)
        with pytest.raises(StoppedError, match="--resume") as stopped:
            train(experiments[method], [path], [0])
    assert stopped.value.signum == signal.SIGTERM
    assert len(RunFolder(path).metrics()) < SMALL["epochs"]
    train(experiments[method], [path], [0], resume=True)
    same_end(path, whole[method])


def test_seeds_stopped_together_resume_together(experiments, tmp_path, monkeypatch):
    paths = [[tmp_path / name / f"seed{i}" for i in range(2)] for name in ("whole", "stopped")]
    train(experiments["bmr"], paths[0], [0, 1])
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        with pytest.raises(StoppedError, match="--seeds 2"):
            train(experiments["bmr"], paths[1], [0, 1])
    train(experiments["bmr"], paths[1], [0, 1], resume=True)
    for one, two in zip(*paths, strict=True):
        same_end(one, two)


def test_seeds_killed_between_their_checkpoints_go_back_to_a_common_one(experiments, tmp_path, monkeypatch):
    paths = [[tmp_path / name / f"seed{i}" for i in range(2)] for name in ("whole", "killed")]
    train(experiments["bmr"], paths[0], [0, 1])
    save = RunFolder.save_state

    def killed(self, arrays, place, neg_elbo=None):
        if self.path == paths[1][1] and place.epoch == 2:
            raise KeyboardInterrupt
        save(self, arrays, place, neg_elbo)

    monkeypatch.setattr("occamax.experiment.writer.SHARE", 1e9)  # a checkpoint every epoch
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save_state", killed)
        with pytest.raises(KeyboardInterrupt):
            train(experiments["bmr"], paths[1], [0, 1])
    assert [next(iter(RunFolder(path).checkpoints())).epoch for path in paths[1]] == [2, 1]
    train(experiments["bmr"], paths[1], [0, 1], resume=True)
    for one, two in zip(*paths, strict=True):
        same_end(one, two)


def test_kills_at_random_moments(tmp_path):
    """Five of what `benchmarks/kills.py` does by the hundred."""
    kills.begin(tmp_path / "alone").communicate()
    assert kills.killed_run(tmp_path / "killed", 5, random.Random(0)) == 0
    same_end(tmp_path / "killed", tmp_path / "alone")
    assert [line["epoch"] for line in RunFolder(tmp_path / "killed").metrics()] == list(range(1, kills.EPOCHS + 1))


def test_sigterm_saves_and_says_how_to_go_on(tmp_path):
    path = tmp_path / "run"
    process = kills.begin(path)
    while kills.lines(path) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, said
    assert len(RunFolder(path).metrics()) < kills.EPOCHS
    command = shlex.split(said.strip().splitlines()[-1])
    assert (command[0], command[-1]) == ("occamax", "--resume")
    subprocess.run([sys.executable, "-m", *command], check=True, capture_output=True)
    assert len(RunFolder(path).metrics()) == kills.EPOCHS


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(experiments, whole, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("occamax.experiment.writer.SHARE", 1e9)
    path = tmp_path / "run"
    with monkeypatch.context() as patch:
        stop_after(patch, 8)
        with pytest.raises(StoppedError):
            train(experiments["bmr"], [path], [0])
    folder = RunFolder(path)
    newest, before = folder.checkpoints()
    assert newest > before
    damage(folder.checkpoint)
    train(experiments["bmr"], [path], [0], resume=True)
    assert "checkpoint.safetensors: is damaged" in capsys.readouterr().err
    same_end(path, whole["bmr"])
    damage(folder.checkpoint)
    damage(folder.previous)
    with pytest.raises(RunError, match=r"no checkpoint can be used.*previous"):
        train(experiments["bmr"], [path], [0], resume=True)


def test_the_best_is_kept_beside_the_last_two(whole):
    folder = RunFolder(whole["bmr"])
    objectives = {line["epoch"]: line["neg_elbo"] for line in folder.metrics()}
    _, metadata = load_arrays(folder.best)
    assert float(metadata["neg_elbo"]) == objectives[int(metadata["epoch"])] == min(objectives.values())
    assert next(iter(folder.checkpoints())) == Place(SMALL["epochs"])


def test_a_second_process_is_refused(experiments, whole, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(whole["bmr"], path)
    with RunLock(path):
        for how in ({"resume": True}, {"overwrite": True}):
            with pytest.raises(RunError, match=f"is being written by process {os.getpid()}"):
                train(experiments["bmr"], [path], [0], **how)
    train(experiments["bmr"], [path], [0], resume=True)


def test_a_full_disk_leaves_the_last_checkpoint_alone(experiments, tmp_path, monkeypatch):
    path = tmp_path / "run"
    write, calls = os.fsync, iter(range(100))

    def full(descriptor):
        if next(calls) > 6:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module.os, "fsync", full)
        with pytest.raises(RunError, match=r"the disk is full.*--resume"):
            train(experiments["bmr-paper"], [path], [0])
    assert not list(path.rglob("*.part"))
    assert RunFolder(path).checkpoints()
    train(experiments["bmr-paper"], [path], [0], resume=True)


def test_a_folder_removed_while_running_is_said(experiments, tmp_path, monkeypatch):
    append = RunFolder.append

    def append_and_lose(folder, name, values):
        append(folder, name, values)
        shutil.rmtree(folder.path)

    monkeypatch.setattr(RunFolder, "append", append_and_lose)
    with pytest.raises(RunError, match="was removed"):
        train(experiments["bmr-paper"], [tmp_path / "run"], [0])


def test_a_file_in_the_way_is_said(experiments, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunError, match="cannot be made"):
        train(experiments["bmr"], [tmp_path / "file" / "run"], [0])


def diverge_once(monkeypatch, times):
    judge, left = loop_module._stop_if_diverged, iter(range(times))

    def maybe(neg_elbo, steps_before):
        if steps_before == 2 * SMALL["steps"] and next(left, None) is not None:
            neg_elbo = np.full_like(neg_elbo, np.nan)
        judge(neg_elbo, steps_before)

    monkeypatch.setattr(loop_module, "_stop_if_diverged", maybe)


def test_a_run_that_diverges_goes_back_at_half_the_rate_when_asked(experiments, whole, tmp_path, monkeypatch, capsys):
    diverge_once(monkeypatch, 2)
    path = tmp_path / "run"
    train(experiments["bmr-paper"], [path], [0], halvings=2)
    said = capsys.readouterr().err
    assert "0.5 of the rate" in said
    assert "0.25 of the rate" in said
    lines = RunFolder(path).metrics()
    assert [line["epoch"] for line in lines] == [1, 2, 3, 4]
    assert next(iter(RunFolder(path).checkpoints())).rate_factor == 0.25
    end = json.loads((whole["bmr-paper"] / "metrics.jsonl").read_text().splitlines()[-1])
    assert lines[-1]["neg_elbo"] != end["neg_elbo"]


def test_it_stops_when_the_halvings_are_used_up(experiments, tmp_path, monkeypatch):
    diverge_once(monkeypatch, 2)
    with pytest.raises(DivergedError, match=r"step 13.*checkpoint.safetensors"):
        train(experiments["bmr-paper"], [tmp_path / "run"], [0], halvings=1)
