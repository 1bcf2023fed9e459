"""Runs survive what happens to them: signals, kills, damage, full disks, a second process, divergence. The network has
BatchNorm and dropout, the data are augmented."""

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
from typer.testing import CliRunner

import occamax as ox
from occamax.cli import app
from occamax.errors import DivergedError, RunError, StoppedError
from occamax.experiment import loop as loop_module
from occamax.experiment import program as program_module
from occamax.experiment import writer as writer_module
from occamax.experiment.folder import Place, RunFolder
from occamax.experiment.signals import StopSignals
from occamax.storage import RunLock, load_arrays
from occamax.storage import files as files_module

from .small_runs import BUDGET, CHUNK, FITS, fit_normed, fit_small, normed, save_npz, small

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import kills

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _short_chunks(monkeypatch):
    monkeypatch.setattr(program_module, "LONGEST_CHUNK", CHUNK)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Uninterrupted runs, by method."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program_module, "LONGEST_CHUNK", CHUNK)
        place = tmp_path_factory.mktemp("whole")
        for method, fit in FITS.items():
            fit(place / method, keep_best=True)
        return {method: place / method for method in FITS}


@pytest.fixture(scope="module")
def two_seeds(tmp_path_factory):
    """Two seeds at once, uninterrupted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program_module, "LONGEST_CHUNK", CHUNK)
        place = tmp_path_factory.mktemp("seeds") / "whole"
        fit_small(place, seeds=2)
        return place


def same_end(path, other):
    assert kills.differences(path, other) == []


def stop_after(monkeypatch, calls):
    """A signal that comes after so many looks."""
    left = iter(range(calls))
    monkeypatch.setattr(StopSignals, "asked", lambda self: next(left, None) is None)
    monkeypatch.setattr(StopSignals, "signum", signal.SIGTERM, raising=False)
    monkeypatch.setattr(StopSignals, "__init__", lambda self: setattr(self, "_before", {}))


def stopped(monkeypatch, calls, fit, *arguments, **options):
    with monkeypatch.context() as patch:
        stop_after(patch, calls)
        with pytest.raises(StoppedError, match="resume=True") as found:
            fit(*arguments, **options)
    assert found.value.signum == signal.SIGTERM


@pytest.mark.parametrize(("method", "stops"), [("bmr", ((1, 4), (3, 10), (1, 12), (3, 20))), ("bmr-paper", ((4, 10),))])
def test_a_stop_anywhere_resumes_bit_for_bit(method, stops, whole, tmp_path, monkeypatch):
    """One run that is stopped again and again: after so many looks, at this step; the twelfth ends an epoch."""
    path = tmp_path / "run"
    for number, (looks, step) in enumerate(stops):
        stopped(monkeypatch, looks, FITS[method], path, keep_best=True, resume=number > 0)
        assert load_arrays(RunFolder(path).checkpoint)[0]["step"] == step
        assert len(RunFolder(path).metrics()) == step // BUDGET["steps_per_epoch"] < BUDGET["epochs"]
    FITS[method](path, resume=True, keep_best=True)
    same_end(path, whole[method])


def test_what_a_resumed_run_must_remember_is_in_its_checkpoint(whole):
    """Else the tests above would prove less than they say."""
    arrays, _ = load_arrays(whole["bmr"] / "checkpoint.safetensors")
    buffers = [array for name, array in arrays.items() if name.startswith("buffers")]
    assert any(array.dtype == np.float32 and np.any(array != array.ravel()[0]) for array in buffers)
    assert arrays["step"] == BUDGET["epochs"] * BUDGET["steps_per_epoch"]


def test_seeds_stopped_together_resume_together(two_seeds, tmp_path, monkeypatch):
    stopped(monkeypatch, 5, fit_small, tmp_path, seeds=2)
    fit_small(tmp_path, seeds=2, resume=True)
    for seed in ("seed0", "seed1"):
        same_end(tmp_path / seed, two_seeds / seed)


def test_seeds_killed_between_their_checkpoints_go_back_to_a_common_one(two_seeds, tmp_path, monkeypatch):
    save = RunFolder.save_state

    def killed(self, arrays, place, *rest):
        if self.path == tmp_path / "seed1" and place.epoch == 2:
            raise KeyboardInterrupt
        save(self, arrays, place, *rest)

    monkeypatch.setattr("occamax.experiment.writer.SHARE", 1e9)  # a checkpoint every epoch
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save_state", killed)
        with pytest.raises(KeyboardInterrupt):
            fit_small(tmp_path, seeds=2)
    paths = [tmp_path / "seed0", tmp_path / "seed1"]
    assert [next(iter(RunFolder(path).checkpoints())).epoch for path in paths] == [2, 1]
    fit_small(tmp_path, seeds=2, resume=True)
    for path in paths:
        same_end(path, two_seeds / path.name)


def test_seeds_that_share_no_checkpoint_are_said(two_seeds, tmp_path):
    shutil.copytree(two_seeds, tmp_path / "two")
    for seed, epochs in (("seed0", (3, 4)), ("seed1", (1, 2))):
        folder = RunFolder(tmp_path / "two" / seed)
        arrays, _ = load_arrays(folder.checkpoint)
        for epoch in epochs:
            folder.save_state(arrays, Place(epoch))
    with pytest.raises(RunError, match=r"stopped at different epochs .*seed1 at epoch 2"):
        fit_small(tmp_path / "two", seeds=2, resume=True)


def test_kills_and_signals_to_a_process(tmp_path, monkeypatch):
    """A few of what `benchmarks/kills.py` does by the hundred: killed at a random moment, then asked to stop by
    SIGTERM, which saves and says how to go on."""
    data, epochs = save_npz(tmp_path / "pixels.npz"), 300
    network = "tests.experiment.small_runs:build_small"
    words = f"train {data} {network} bmr-paper --epochs {epochs} --steps 4 --batch 16 --samples 2".split()
    alone, path = tmp_path / "alone", tmp_path / "killed"
    monkeypatch.setattr(program_module, "LONGEST_CHUNK", 100)  # as in a process of its own
    assert CliRunner().invoke(app, [*words, "--out", str(alone)]).exit_code == 0
    resume = kills.killed(path, 1, random.Random(15), words, ROOT)  # soon after an epoch
    process = kills.begin(path, *resume, words=words, where=ROOT)
    first = kills.lines(path)
    while kills.lines(path) <= first:
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, said
    assert len(RunFolder(path).metrics()) < epochs
    command = shlex.split(said.strip().splitlines()[-1])
    assert (command[0], command[-1]) == ("occamax", "--resume")
    subprocess.run([sys.executable, "-m", *command], check=True, capture_output=True, cwd=ROOT)
    same_end(path, alone)
    assert [line["epoch"] for line in RunFolder(path).metrics()] == list(range(1, epochs + 1))


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_damaged_checkpoint_is_named_and_resume_uses_the_one_before(whole, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("occamax.experiment.writer.SHARE", 1e9)
    path = tmp_path / "run"
    stopped(monkeypatch, 8, fit_normed, path, keep_best=True)
    folder = RunFolder(path)
    newest, before = folder.checkpoints()
    assert newest > before
    damage(folder.checkpoint)
    fit_normed(path, resume=True, keep_best=True)
    assert "checkpoint.safetensors: is damaged" in capsys.readouterr().err
    same_end(path, whole["bmr"])
    damage(folder.checkpoint)
    damage(folder.previous)
    with pytest.raises(RunError, match=r"no checkpoint can be used.*previous"):
        fit_normed(path, resume=True, keep_best=True)


def test_a_damaged_checkpoint_is_replaced_by_none_unless_asked(whole, tmp_path):
    """The figures of another would be of another epoch."""
    path = tmp_path / "run"
    shutil.copytree(whole["bmr"], path)
    damage(path / "checkpoint.safetensors")
    with pytest.raises(RunError, match=r"checkpoint\.safetensors: is damaged.*`previous`"):
        ox.load(path, normed())
    before = ox.load(path, normed(), checkpoint="previous")
    assert int(before.state.step) < BUDGET["epochs"] * BUDGET["steps_per_epoch"]
    (path / "checkpoint.safetensors").write_bytes((path / "checkpoint.safetensors").read_bytes()[:1000])
    with pytest.raises(RunError, match=r"checkpoint\.safetensors: is damaged"):
        ox.load(path, normed())


def test_the_best_is_kept_when_asked(whole, two_seeds):
    folder = RunFolder(whole["bmr"])
    objectives = {line["epoch"]: line["neg_elbo"] for line in folder.metrics()}
    _, metadata = load_arrays(folder.best)
    assert float(metadata["neg_elbo"]) == objectives[int(metadata["epoch"])] == min(objectives.values())
    assert next(iter(folder.checkpoints())) == Place(BUDGET["epochs"])
    best = ox.load(folder.path, normed(), checkpoint="best")
    assert int(best.state.step) == int(metadata["epoch"]) * BUDGET["steps_per_epoch"]
    assert not RunFolder(two_seeds / "seed0").best.exists()
    with pytest.raises(RunError, match="was not kept; train with `keep_best`"):
        ox.load(two_seeds / "seed0", small(), checkpoint="best")
    with pytest.raises(ox.ArgumentError, match=r"checkpoint: 'bets'.*Did you mean best"):
        ox.load(whole["bmr"], normed(), checkpoint="bets")


def test_a_second_process_is_refused(whole, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(whole["bmr-paper"], path)
    with RunLock(path):
        for how in ({"resume": True}, {"overwrite": True}):
            with pytest.raises(RunError, match=f"is being written by process {os.getpid()}"):
                fit_small(path, **how)
    fit_small(path, resume=True)


def test_a_full_disk_leaves_the_last_checkpoint_alone(whole, tmp_path, monkeypatch):
    path = tmp_path / "run"
    write, calls = os.fsync, iter(range(100))

    def full(descriptor):
        if next(calls) > 6:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(files_module.os, "fsync", full)
        with pytest.raises(RunError, match=r"the disk is full.*resume"):
            fit_small(path, keep_best=True)
    assert not list(path.rglob("*.part"))
    assert RunFolder(path).checkpoints()
    fit_small(path, resume=True, keep_best=True)
    same_end(path, whole["bmr-paper"])


def test_a_folder_removed_while_running_is_said(tmp_path, monkeypatch):
    append = RunFolder.append

    def append_and_lose(folder, name, values):
        append(folder, name, values)
        shutil.rmtree(folder.path)

    monkeypatch.setattr(RunFolder, "append", append_and_lose)
    with pytest.raises(RunError, match="was removed"):
        fit_small(tmp_path / "run")


def test_a_file_in_the_way_is_said(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunError, match="cannot be made"):
        fit_small(tmp_path / "file" / "run")


def diverge(monkeypatch, times):
    """In the third epoch, so many times."""
    judge, left = loop_module._stop_if_diverged, iter(range(times))

    def maybe(neg_elbo, steps_before):
        if steps_before == 2 * BUDGET["steps_per_epoch"] and next(left, None) is not None:
            neg_elbo = np.full_like(neg_elbo, np.nan)
        judge(neg_elbo, steps_before)

    monkeypatch.setattr(loop_module, "_stop_if_diverged", maybe)


def test_a_run_that_diverges_goes_back_at_half_the_rate_when_asked(whole, tmp_path, monkeypatch, capsys):
    diverge(monkeypatch, 2)
    monkeypatch.setattr(writer_module, "SHARE", 1e9)  # a checkpoint every epoch: twice the same one is gone back to
    path = tmp_path / "run"
    fit_small(path, halvings=2)
    said = capsys.readouterr().err
    assert "0.5 of the rate" in said
    assert "0.25 of the rate" in said
    lines = RunFolder(path).metrics()
    assert [line["epoch"] for line in lines] == [1, 2, 3, 4]
    assert next(iter(RunFolder(path).checkpoints())).rate_factor == 0.25
    end = json.loads((whole["bmr-paper"] / "metrics.jsonl").read_text().splitlines()[-1])
    assert lines[-1]["neg_elbo"] != end["neg_elbo"]
    assert ox.load(path, small()).method.learning_rate == ox.PaperBMR().learning_rate  # the method is as asked


def test_it_stops_when_the_halvings_are_used_up(tmp_path, monkeypatch):
    diverge(monkeypatch, 2)
    with pytest.raises(DivergedError, match=r"step 13.*checkpoint.safetensors"):
        fit_small(tmp_path / "run", halvings=1)


def test_a_run_that_diverges_names_step_and_checkpoint(tmp_path):
    with pytest.raises(DivergedError, match=r"at step \d+.*learning rate.*checkpoint.safetensors"):
        fit_small(tmp_path / "wild", ox.PaperBMR(learning_rate=1e30))
    arrays, metadata = load_arrays(tmp_path / "wild" / "checkpoint.safetensors")
    assert metadata["epoch"] == "0"
    assert np.isfinite(arrays["posterior.mean"]).all()
