"""Run folders through the command line: written, refused, resumed, evaluated."""

import json
import shutil
from functools import partial

import numpy as np
import pytest
from typer.testing import CliRunner

from occamax.cli import app
from occamax.errors import ArgumentError, DivergedError, OccamaxError, RunError
from occamax.experiment import METHODS, Config, Experiment, RunFolder, evaluate, train
from occamax.experiment import progress as progress_module
from occamax.experiment.program import Program
from occamax.inference.priors import FlatPrior
from occamax.inference.schedules import Constant
from occamax.methods import Flat, PaperBMR
from occamax.storage import load_arrays, save_arrays

SMALL = ("--epochs", "3", "--steps", "4", "--batch", "16", "--samples", "2")


def command(*words):
    result = CliRunner().invoke(app, list(map(str, words)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One small BMR run, with what it printed."""
    path = tmp_path_factory.mktemp("runs") / "bmr"
    return path, command("train", "fashion_mini", "mlp", "bmr-paper", *SMALL, "--out", path)


def test_a_run_folder_holds_what_the_contract_says(finished):
    path, _ = finished
    config = json.loads((path / "config.json").read_text())
    assert (config["data"], config["network"], config["method"], config["epochs"]) == (
        "fashion_mini",
        "mlp",
        "bmr-paper",
        3,
    )
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2, 3]
    assert {"neg_elbo", "accuracy", "nll", "ece", "sparsity", "seconds"} <= set(lines[0])
    summary = json.loads((path / "summary.json").read_text())
    assert summary["accuracy"] == lines[-1]["accuracy"]
    assert summary["sizes"]["weights"] == 959610
    assert summary["sizes"]["counted"] == 959610 - 4010
    assert {"steps_per_second", "seconds", "versions", "device"} <= set(summary)
    assert (path / "checkpoint.safetensors").is_file()
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


def test_evaluate_gives_the_figures_of_the_last_epoch(finished):
    path, _ = finished
    figures = evaluate(RunFolder.open(path))
    last = RunFolder.open(path).metrics()[-1]
    assert np.isclose(figures["accuracy"], last["accuracy"])
    assert np.isclose(figures["nll"], last["nll"], rtol=1e-4)
    assert "accuracy" in command("evaluate", path)


def test_a_folder_that_exists_is_refused_and_replaced_when_asked(finished, tmp_path):
    path, _ = finished
    with pytest.raises(RunError, match=r"--resume.*--overwrite"):
        command("train", "fashion_mini", "mlp", "bmr-paper", *SMALL, "--out", path)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match="no run folder"):
        command("train", "fashion_mini", "mlp", "map", *SMALL, "--out", precious, "--overwrite")
    assert (precious / "thesis.tex").exists()


class KilledError(Exception):
    pass


def test_a_killed_run_resumes_bit_for_bit(finished, tmp_path, monkeypatch):
    whole, _ = finished
    path = tmp_path / "killed"
    show = progress_module.Progress.show

    def die(self, epoch, program):
        show(self, epoch, program)
        if epoch.number == 2:
            raise KilledError

    words = ("train", "fashion_mini", "mlp", "bmr-paper", *SMALL, "--out", path)
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


def test_resuming_another_configuration_is_refused_with_the_differences(finished):
    path, _ = finished
    with pytest.raises(RunError, match="steps: 4 there, 5 asked for"):
        command(
            "train", "fashion_mini", "mlp", "bmr-paper", *SMALL[:2], "--steps", 5, *SMALL[4:], "--out", path, "--resume"
        )


def test_a_run_of_other_values_of_its_method_is_refused(finished, tmp_path, monkeypatch):
    """As after an upgrade that changed a default: it is not resumed as what it is not, nor evaluated with weights that
    another prior makes of it. What does not matter for that, or was not known then, is let pass."""
    path = tmp_path / "copy"
    shutil.copytree(finished[0], path)
    monkeypatch.setitem(METHODS, "bmr-paper", partial(PaperBMR, first_std=0.2))
    with pytest.raises(RunError, match=r"\(first_std: 0\.1 there, 0\.2 here\)"):
        command("train", "fashion_mini", "mlp", "bmr-paper", *SMALL, "--out", path, "--resume")
    evaluate(RunFolder.open(path))
    monkeypatch.setitem(METHODS, "bmr-paper", partial(PaperBMR, prior=FlatPrior(base_std=0.3)))
    with pytest.raises(RunError, match="prior: "):
        evaluate(RunFolder.open(path))
    monkeypatch.setitem(METHODS, "bmr-paper", PaperBMR)
    values = json.loads((path / "method.json").read_text())
    (path / "method.json").write_text(json.dumps({name: values[name] for name in ("prior", "first_std")}))
    command("train", "fashion_mini", "mlp", "bmr-paper", *SMALL, "--out", path, "--resume")


def test_resuming_nothing_is_refused(tmp_path):
    with pytest.raises(RunError, match="no run folder"):
        command("train", "fashion_mini", "mlp", "map", *SMALL, "--out", tmp_path / "never", "--resume")


def test_several_seeds_have_a_folder_each(tmp_path):
    command("train", "fashion_mini", "mlp", "map", *SMALL, "--out", tmp_path / "two", "--seeds", 2)
    one, two = (RunFolder.open(tmp_path / "two" / f"seed{i}") for i in range(2))
    assert (one.config().seed, two.config().seed) == (0, 1)
    assert one.metrics()[-1]["neg_elbo"] != two.metrics()[-1]["neg_elbo"]
    figures = evaluate(two)
    assert np.isclose(figures["nll"], two.metrics()[-1]["nll"], rtol=1e-3)


def test_a_damaged_checkpoint_is_named(finished, tmp_path):
    path = tmp_path / "copy"
    shutil.copytree(finished[0], path)
    checkpoint = path / "checkpoint.safetensors"
    content = bytearray(checkpoint.read_bytes())
    content[len(content) // 2] ^= 1
    checkpoint.write_bytes(content)
    (path / "checkpoint.previous.safetensors").unlink()
    with pytest.raises(RunError, match=r"no checkpoint can be used.*checkpoint.safetensors: is damaged"):
        evaluate(RunFolder.open(path))
    checkpoint.write_bytes(content[:1000])
    with pytest.raises(RunError, match=r"checkpoint.safetensors: is damaged"):
        evaluate(RunFolder.open(path))


def test_arrays_that_are_not_contiguous_survive(tmp_path):
    arrays = {"transposed": np.arange(12.0).reshape(3, 4).T, "strided": np.arange(20)[::3], "scalar": np.float32(3)}
    save_arrays(tmp_path / "a.safetensors", arrays, {})
    loaded, _ = load_arrays(tmp_path / "a.safetensors")
    assert all(np.array_equal(loaded[name], arrays[name]) for name in arrays)
    assert loaded["scalar"].shape == ()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("fashion_mini", "lenett", "map"), r"NETWORK: 'lenett' is not known.*Did you mean lenet\?"),
        (("fashion", "mlp", "map"), "DATA: 'fashion' is not known"),
        (("fashion_mini", "mlp", "bmr-papper"), r"Did you mean bmr-paper\?"),
        (("fashion_mini", "mlp", "map", "--epochs", "0"), "epochs: 0 given"),
        (("fashion_mini", "mlp", "map", "--seeds", "0"), "--seeds: 0"),
        (("fashion_mini", "mlp", "map", "--samples", "0"), "samples: 0"),
        (("fashion_mini", "mlp", "map", "--seed", "-1"), "seed: -1"),
    ],
)
def test_bad_words_are_refused_before_any_work(words, says, tmp_path):
    with pytest.raises(ArgumentError, match=says):
        command("train", *words, "--out", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_run_that_diverges_names_step_and_checkpoint(tmp_path):
    config = Config("fashion_mini", "mlp", "flat", epochs=2, steps=5, batch=16, samples=2)
    experiment = Experiment.of(config)
    wild = Experiment(config, experiment.dataset, experiment.model, Flat(learning_rate=Constant(1e30)))
    with pytest.raises(DivergedError, match=r"at step \d+.*learning rate.*checkpoint.safetensors"):
        train(wild, [tmp_path / "wild"], [0])
    folder = RunFolder.open(tmp_path / "wild")
    state, place, _ = folder.load_state(Program(wild.model, wild.method, config.budget).start())
    assert place.epoch == 0
    assert np.isfinite(np.asarray(state.posterior.mean)).all()


def test_foreign_files_are_refused(tmp_path):
    with pytest.raises(RunError, match="no run folder"):
        RunFolder.open(tmp_path)
    (tmp_path / "config.json").write_text("[1, 2")
    with pytest.raises(RunError, match="no JSON"):
        RunFolder.open(tmp_path).config()
    (tmp_path / "config.json").write_text('{"data": "mnist", "flavour": "strawberry"}')
    with pytest.raises(OccamaxError, match="flavour"):
        RunFolder.open(tmp_path).config()


def test_the_data_command_lists_every_set():
    output = command("data")
    for name in ("fashion_mini", "fashion_mnist", "mnist", "cifar10", "cifar100"):
        assert name in output
