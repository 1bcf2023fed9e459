"""Exports of a run, through the command line: written, measured, read back, refused."""

import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from occamax.cli import app
from occamax.data import load_data
from occamax.errors import ExportError
from occamax.evaluation import predict
from occamax.experiment import Config, Experiment, RunFolder, restore, train
from occamax.export import arrays_file, export
from occamax.export.posterior_file import mutual_information
from occamax.export.predictor import FORMATS, open_export, open_posterior


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "run"
    config = Config("fashion_mini", "lenet", "bmr", epochs=3, steps=20, batch=32, samples=2, sparsity=0.99)
    train(Experiment.of(config), [path], [0])
    return path


@pytest.fixture(scope="module")
def files(run):
    return {form: (run / f"x.{form}", export(run, form, run / f"x.{form}")) for form in FORMATS}


def command(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def test_every_format_says_what_the_network_says(run, files):
    pixels = load_data("fashion_mini").test.inputs[:64]
    answers = {}
    for form, (path, measured) in files.items():
        ask, card = open_export(path)
        answers[form] = ask(pixels)
        assert measured.difference < 1e-5
        assert measured.accuracy[0] == measured.accuracy[1]
        assert measured.numbers[1] < measured.numbers[0]
        assert measured.bytes[1] == path.stat().st_size < measured.bytes[0]
        assert card.class_names[0] == "T-shirt/top"
        assert card.config["network"] == "lenet"
        assert {"accuracy", "nll", "ece", "sparsity"} <= set(card.figures)
    assert np.allclose(answers["onnx"], answers["npz"], atol=1e-5)
    assert np.array_equal(answers["safetensors"], answers["npz"])


def test_a_run_in_mixed_precision_is_compared_in_single(tmp_path, monkeypatch):
    """bfloat16 itself is further from the file than any parity allows. The comparison may be cut short."""
    monkeypatch.setattr("occamax.export.exporting.COMPARED_SECONDS", 0.0)
    path = tmp_path / "run"
    config = Config("fashion_mini", "lenet-300-100", "bmr", epochs=2, steps=10, samples=2, precision="bfloat16")
    train(Experiment.of(config), [path], [0])
    measured = export(path, "npz", path / "x.npz")
    assert measured.difference < 1e-5
    assert measured.compared == 100  # the first part
    assert measured.accuracy[0] == measured.accuracy[1] != measured.test_accuracy


def test_a_file_that_differs_is_not_written(run, tmp_path, monkeypatch):
    monkeypatch.setattr("occamax.export.exporting.PARITY", -1.0)
    with pytest.raises(ExportError, match="nothing was written"):
        export(run, "npz", tmp_path / "x.npz")
    assert not list(tmp_path.iterdir())


def test_the_command_prints_what_it_measured(run, tmp_path):
    result = command("export", run, "--format", "onnx", "--out", tmp_path / "n.onnx")
    assert result.exit_code == 0, result.output
    for text in ("bytes, gzipped", "ms at batch 128", "accuracy", "largest difference"):
        assert text in result.output


def test_images_are_answered_and_bad_ones_named(files, tmp_path):
    pixels = load_data("fashion_mini").test.inputs[:3, 0]
    folder = tmp_path / "images"
    folder.mkdir()
    for i, image in enumerate(pixels):
        Image.fromarray(image).save(folder / f"{i}.png")
    Image.fromarray(np.zeros((5, 7), np.uint8)).save(folder / "small.png")
    (folder / "torn.jpg").write_bytes(b"not an image")
    np.savez(tmp_path / "more.npz", images=pixels)
    path = files["onnx"][0]
    result = command("predict", path, folder, tmp_path / "more.npz", tmp_path / "gone.png", "--json")
    assert result.exit_code == 1  # three could not be answered
    lines = [json.loads(line) for line in result.output.splitlines()]
    good = [line for line in lines if "error" not in line]
    assert len(good) == 6
    assert [line["label"] for line in good[:3]] == [line["label"] for line in good[3:]]
    assert all(0.1 <= line["probability"] <= 1 and 0 <= line["uncertainty"] <= 2.4 for line in good)
    errors = {line["image"].rsplit("/", 1)[-1]: line["error"] for line in lines if "error" in line}
    assert "7 × 5" in errors["small.png"]
    assert "cannot be read" in errors["torn.jpg"]
    assert errors["gone.png"] == "is not there"
    table = command("predict", files["npz"][0], folder / "0.png")
    assert table.exit_code == 0
    assert good[0]["label"] in table.output


def test_grey_for_colour_is_said(files):
    from dataclasses import replace

    from occamax.export.images import _image

    _, card = open_export(files["npz"][0])
    path = files["npz"][0].parent / "grey.png"
    Image.fromarray(np.zeros((28, 28), np.uint8)).save(path)
    assert "is grey" in _image(path, replace(card, input_shape=(3, 28, 28)))


@pytest.mark.parametrize("form", ["safetensors", "npz"])
def test_the_posterior_travels(run, files, form, tmp_path):
    """The file alone gives what the run itself gives, to rounding; and it is no larger than the survivors need."""
    path = tmp_path / f"p.{form}"
    export(run, form, path, with_posterior=True)
    experiment, state = restore(RunFolder.open(run))
    pixels = load_data("fashion_mini").test.inputs[:40]
    key = jax.random.key(0)
    expected = predict(experiment.model, state.posterior, state.mask, key, jnp.asarray(pixels), None, 30)
    draw, card = open_posterior(path, 30)
    found = draw(pixels)
    assert np.allclose(found.expectation, expected.expectation, atol=1e-5)
    information = mutual_information(found)
    assert (information > 0).all()
    shares = np.asarray(expected.expectation, np.float64)
    entropy = -(shares * np.log(shares)).sum(1)
    assert np.allclose(information + np.asarray(expected.expected_entropy), entropy, atol=1e-4)
    alive, weights = int(state.mask.sum()), experiment.model.layout.size
    assert path.stat().st_size - files[form][0].stat().st_size < 8 * alive + weights / 8 + 2000
    with Image.fromarray(pixels[0, 0]) as image:
        image.save(tmp_path / "0.png")
    result = command("predict", path, tmp_path / "0.png", "--samples", 30, "--json")
    line = json.loads(result.output)
    assert line["mutual_information"] == pytest.approx(information[0], abs=1e-4)
    assert line["probability"] == pytest.approx(shares[0].max(), abs=1e-4)
    assert "of the weights" in command("predict", path, tmp_path / "0.png", "--samples", 3).output
    assert len(open_export(path)[0](pixels)) == 40  # without draws it is an export like any other
    assert card.config["method"] == "bmr"


def test_a_posterior_that_is_not_there_is_said(run, files, tmp_path):
    with pytest.raises(ExportError, match=r"no posterior.*--posterior"):
        open_posterior(files["npz"][0], 10)
    with pytest.raises(ExportError, match="ONNX file holds one network"):
        open_posterior(files["onnx"][0], 10)
    with pytest.raises(ExportError, match="ONNX file holds one network"):
        export(run, "onnx", tmp_path / "x.onnx", with_posterior=True)
    with pytest.raises(ExportError, match="--samples: 0"):
        open_posterior(files["npz"][0], 0)


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_no_export_is_refused(form, files, tmp_path):
    good = files[form][0].read_bytes()
    bad = tmp_path / f"bad.{form}"
    middle = len(good) * 2 // 3  # among the weights
    flipped = good[:middle] + bytes([good[middle] ^ 4]) + good[middle + 1 :]
    damaged = [b"", b"hello", good[: len(good) // 2], good[:40] + b"\xff" * 60 + good[100:]]
    for data in [*damaged, flipped]:
        bad.write_bytes(data)
        result = CliRunner().invoke(app, ["predict", str(bad), "x.png"])
        assert isinstance(result.exception, ExportError), (result.exception, data[:20])
    with pytest.raises(ExportError, match="is not there"):
        open_export(tmp_path / f"gone.{form}")


def test_wrong_names_are_refused(run, tmp_path):
    with pytest.raises(ExportError, match="--format"):
        export(run, "pickle", tmp_path / "x.pickle")
    with pytest.raises(ExportError, match="should end in"):
        export(run, "onnx", tmp_path / "x.bin")
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(ExportError, match="endings"):
        open_export(tmp_path / "x.txt")


def test_sparse_arrays_come_back():
    rng = np.random.default_rng(0)
    for shape in ((3, 400), (50, 20, 5, 5), (1, 1), (300, 70_000)):
        value = (rng.random(shape) > 0.97) * rng.normal(size=shape).astype(np.float32)
        arrays = {}
        place = arrays_file._store(value.astype(np.float32), arrays)
        assert np.array_equal(arrays_file._fetch(place, arrays), value)
        if value.size > 1000:
            assert "sparse" in place
            assert sum(array.nbytes for array in arrays.values()) < value.nbytes / 5
    assert arrays_file.smallest_type(255) is np.uint8
    assert arrays_file.smallest_type(256) is np.uint16


def test_a_deployed_file_needs_neither_jax_nor_us(files, tmp_path):
    """onnxruntime and numpy alone: jax, equinox and occamax cannot be imported in that process."""
    pixels = load_data("fashion_mini").test.inputs[:4]
    np.save(tmp_path / "pixels.npy", pixels)
    script = f"""
import sys
for name in ("jax", "jaxlib", "equinox", "occamax", "onnx"):
    sys.modules[name] = None
import numpy, onnxruntime
session = onnxruntime.InferenceSession({str(files["onnx"][0])!r}, providers=["CPUExecutionProvider"])
found = session.run(None, {{"pixels": numpy.load({str(tmp_path / "pixels.npy")!r})}})[0]
numpy.save({str(tmp_path / "found.npy")!r}, found)
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=120)
    expected = open_export(files["safetensors"][0])[0](pixels)
    assert np.allclose(np.load(tmp_path / "found.npy"), expected, atol=1e-5)
