"""Run folders through the command line: written, refused, resumed, evaluated."""

import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from occamax.cli import app
from occamax.errors import ArgumentError, RunError
from occamax.experiment import progress as progress_module
from occamax.experiment.folder import RunFolder
from occamax.fitting import load
from occamax.inference import model as model_module
from occamax.inference.recomputing import recomputing
from occamax.storage import load_arrays, save_arrays

from ..tolerances import SINGLE
from .small_runs import save_npz

SMALL = ("--epochs", "3", "--steps", "4", "--batch", "16", "--samples", "2")
NETWORK = "tests.experiment.small_runs:build_small"


def command(*words):
    result = CliRunner().invoke(app, list(map(str, words)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The small images as a file."""
    return save_npz(tmp_path_factory.mktemp("data") / "pixels.npz")


@pytest.fixture(scope="module")
def finished(tmp_path_factory, data):
    """One small run, with what it printed."""
    path = tmp_path_factory.mktemp("runs") / "bmr"
    return path, command("train", data, NETWORK, "bmr-paper", *SMALL, "--out", path)


def test_a_run_folder_holds_what_the_contract_says(finished, data):
    path, _ = finished
    config = json.loads((path / "config.json").read_text())
    names = (config["data"], config["network"], config["method"], config["epochs"])
    assert names == ("pixels", NETWORK, "bmr-paper", 3)
    assert config["origin"]["network"] == {"function": NETWORK}
    assert config["origin"]["data"]["from"]["path"] == str(data)
    assert [block["name"] for block in config["layout"]] == ["first", "output"]
    assert config["settings"]["preprocess"]["kind"] == "Standardise"
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2, 3]
    assert {"neg_elbo", "accuracy", "nll", "ece", "sparsity", "seconds"} <= set(lines[0])
    summary = json.loads((path / "summary.json").read_text())
    assert summary["accuracy"] == lines[-1]["accuracy"]
    assert summary["sizes"]["weights"] == 37 * 5 + 6 * 3
    assert summary["sizes"]["counted"] == 37 * 5
    assert {"steps_per_second", "seconds", "versions", "device", "commit"} <= set(summary)
    assert (path / "checkpoint.safetensors").is_file()
    assert not (path / "checkpoint.best.safetensors").exists()
    assert not list(path.glob("*.part"))


def test_every_reduction_is_recorded(finished):
    path, _ = finished
    lines = RunFolder.open(path).lines("reductions.jsonl")
    assert [line["epoch"] for line in lines] == [2, 3]
    layer = lines[0]["layers"][0]
    assert {"name", "size", "threshold", "removed", "remaining", "delta_f_before", "delta_f_after"} == set(layer)
    assert sum(layer["delta_f_before"]) == layer["size"]
    arrays, metadata = load_arrays(path / "reductions" / "epoch-0003.safetensors")
    mask = np.unpackbits(arrays["mask"], count=int(metadata["weights"])).astype(bool)
    before = np.unpackbits(arrays["before"], count=int(metadata["weights"])).astype(bool)
    assert mask.sum() == sum(layer["remaining"] for layer in lines[1]["layers"])
    assert len(arrays["delta_f"]) == before.sum()


def test_progress_without_a_terminal_is_plain_lines(finished):
    _, output = finished
    assert "epoch   3/3" in output
    assert "steps/s" in output
    assert "sparsity" in output
    assert "left 0:00" in output
    assert "\x1b" not in output


def test_a_run_says_nothing_or_in_json(data, finished):
    path, _ = finished
    words = ("train", data, NETWORK, "bmr-paper", *SMALL, "--out", path, "--resume")  # finished: nothing is trained
    assert command(*words, "--quiet") == ""
    (line,) = command(*words, "--json").splitlines()
    assert json.loads(line) == {"run": str(path), "summary": RunFolder.open(path).read_json("summary.json")}


def test_evaluate_gives_the_figures_of_the_last_epoch(finished):
    path, _ = finished
    figures, last = load(path).evaluate(), RunFolder.open(path).metrics()[-1]
    assert np.isclose(figures["accuracy"], last["accuracy"])
    assert np.isclose(figures["nll"], last["nll"], rtol=1e-4)
    said = command("evaluate", path, "--samples", 2)
    assert f"{last['accuracy']:.4f}" in said
    with pytest.raises(ArgumentError, match="--samples: 0"):
        command("evaluate", path, "--samples", 0)


def test_a_folder_that_exists_is_refused_and_replaced_when_asked(finished, data, tmp_path):
    path, _ = finished
    with pytest.raises(RunError, match=r"resume.*overwrite"):
        command("train", data, NETWORK, "bmr-paper", *SMALL, "--out", path)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match="no run folder"):
        command("train", data, NETWORK, "bmr-paper", *SMALL, "--out", precious, "--overwrite")
    assert (precious / "thesis.tex").exists()


class KilledError(Exception):
    pass


def test_a_killed_run_resumes_bit_for_bit(finished, data, tmp_path, monkeypatch):
    whole, _ = finished
    path = tmp_path / "killed"
    show = progress_module.Progress.show

    def die(self, epoch):
        show(self, epoch)
        if epoch.number == 2:
            raise KilledError

    words = ("train", data, NETWORK, "bmr-paper", *SMALL, "--out", path)
    with monkeypatch.context() as patch:
        patch.setattr(progress_module.Progress, "show", die)
        with pytest.raises(KilledError):
            command(*words)
    with open(path / "metrics.jsonl", "a") as file:
        file.write('{"epoch": 3, "neg_elbo": 1}\n{"epo')  # a line the checkpoint knows nothing of, and half a line
    command(*words, "--resume")
    (ours, meta), (theirs, other_meta) = (load_arrays(p / "checkpoint.safetensors") for p in (path, whole))
    assert meta == other_meta
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)
    one, two = ([line | {"seconds": None} for line in RunFolder.open(folder).metrics()] for folder in (path, whole))
    assert one == two
    assert RunFolder.open(path).lines("reductions.jsonl") == RunFolder.open(whole).lines("reductions.jsonl")


def test_activations_may_be_recomputed_in_any_part_of_a_run(finished, data, tmp_path, monkeypatch):
    (whole, _), path, calls = finished, tmp_path / "recomputed", []
    monkeypatch.setattr(model_module, "recomputing", lambda own: calls.append(1) or recomputing(own))
    words = ("train", data, NETWORK, "bmr-paper", *SMALL, "--out", path)
    command(*words, "--recompute-activations")
    assert calls
    ours, theirs = (load_arrays(p / "checkpoint.safetensors")[0] for p in (path, whole))
    assert all(np.allclose(ours[name], theirs[name], rtol=SINGLE, atol=SINGLE) for name in theirs)
    command(*words, "--resume")  # without: nothing is refused


def test_resuming_another_run_is_refused_with_the_differences(finished, data):
    """Another budget, or another value of the method as after an upgrade that changed a default."""
    path, _ = finished
    words = ("train", data, NETWORK, "bmr-paper", *SMALL, "--out", path, "--resume")
    for change, says in (
        (("--steps", 5), "steps_per_epoch: 4 there, 5 here"),
        (("--set", "posterior.init_std=0.2"), r"posterior\.init_std: 0\.1 there, 0\.2 here"),
        (("--seed", 1), "seed: 0 there, 1 here"),
    ):
        with pytest.raises(RunError, match=says):
            command(*words, *change)


def test_a_run_is_loaded_as_what_it_was(finished, tmp_path):
    """Its method comes from its folder, whatever the defaults are now."""
    path = tmp_path / "copy"
    shutil.copytree(finished[0], path)
    stored = json.loads((path / "config.json").read_text())
    stored["settings"]["method"]["prior"]["base_std"] = 0.3
    (path / "config.json").write_text(json.dumps(stored))
    assert load(path).method.prior.base_std == 0.3
    stored["settings"]["method"]["prior"]["basic_std"] = 0.3
    (path / "config.json").write_text(json.dumps(stored))
    with pytest.raises(ArgumentError, match=r"method\.prior: FlatPrior: 'basic_std' is not known"):
        load(path)


def test_data_that_changed_are_not_evaluated_on(finished, data, tmp_path):
    copy, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    shutil.copytree(finished[0], copy)
    stored = json.loads((copy / "config.json").read_text())
    stored["origin"]["data"]["from"]["path"] = str(tmp_path / "gone" / "pixels.npz")
    (copy / "config.json").write_text(json.dumps(stored))
    with pytest.raises(Exception, match=r"pixels\.npz: no such file"):
        command("evaluate", copy)
    elsewhere.mkdir()
    shutil.copy(data, elsewhere / "pixels.npz")
    assert "accuracy" in command("evaluate", copy, "--data-dir", elsewhere)
    arrays = dict(np.load(data))
    np.savez(elsewhere / "pixels.npz", **{**arrays, "test_targets": arrays["test_targets"][::-1]})
    with pytest.raises(Exception, match="changed since it was opened"):
        command("evaluate", copy, "--data-dir", elsewhere)


def test_resuming_nothing_is_refused(tmp_path, data):
    with pytest.raises(RunError, match="no run folder"):
        command("train", data, NETWORK, "map", *SMALL, "--out", tmp_path / "never", "--resume")


def test_arrays_that_are_not_contiguous_survive(tmp_path):
    arrays = {"transposed": np.arange(12.0).reshape(3, 4).T, "strided": np.arange(20)[::3], "scalar": np.array(3.0)}
    save_arrays(tmp_path / "a.safetensors", arrays, {})
    loaded, _ = load_arrays(tmp_path / "a.safetensors")
    assert all(np.array_equal(loaded[name], arrays[name]) for name in arrays)
    assert loaded["scalar"].shape == ()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("fashion_mini", "lenett", "map"), r"NETWORK: 'lenett' is not known.*Did you mean lenet\?"),
        (("fashion", "mlp", "map"), "'fashion' is not known"),
        (("fashion_mini", "mlp", "bmr-papper"), r"Did you mean bmr-paper\?"),
        (("fashion_mini", "mlp", "map", "--epochs", "0"), "epochs: 0 given"),
        (("fashion_mini", "mlp", "map", "--steps", "0"), "steps_per_epoch: 0 given"),
        (("fashion_mini", "mlp", "map", "--seeds", "0"), "--seeds: 0"),
        (("fashion_mini", "mlp", "map", "--samples", "0"), "samples: 0"),
        (("fashion_mini", "mlp", "map", "--seed", "-1"), "seed: -1"),
        (("fashion_mini", "mlp", "map", "--precision", "float99"), "compute_dtype: 'float99'"),
        (("fashion_mini", "mlp", "map", "--halvings", "-1"), "halvings: -1"),
    ],
)
def test_bad_words_are_refused_before_any_work(words, says, tmp_path):
    with pytest.raises(ArgumentError, match=says):
        command("train", *words, "--out", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_the_data_command_lists_every_set():
    output = command("data")
    for name in ("fashion_mini", "fashion_mnist", "mnist", "cifar10", "cifar100"):
        assert name in output
