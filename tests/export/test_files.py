"""Exports: written, measured, read back, refused."""

import json
import subprocess
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax.errors import ExportError
from occamax.evaluation.predictive import Believed, predict
from occamax.evaluation.temperature import outputs_of_draws
from occamax.export import arrays_file
from occamax.export.card import Card
from occamax.export.exporting import Exportable, export_network, trained
from occamax.export.instead import quantised
from occamax.export.measuring import figures_of, interleaved
from occamax.export.posterior_file import mutual_information
from occamax.export.predictor import FORMATS, open_export, open_posterior
from occamax.export.rounding import Rounding
from occamax.export.source import arrays_of, examples_of, trace
from occamax.inference.posteriors import Point
from occamax.storage import load_arrays, save_arrays
from occamax.structure.compaction import compact

from ..tolerances import SINGLE
from .samples import exportable, inputs_for
from .test_onnx import bound


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """An image network as every format, a table as arrays."""
    folder = tmp_path_factory.mktemp("export")
    found = {}
    source = exportable("lenet", keep=0.1, dead=0.3)
    for form in FORMATS:
        path = folder / f"x.{form}"
        found[form] = path, export_network(source, path, form), source
    return found


def test_every_format_says_what_the_network_says(files):
    inputs = inputs_for("lenet", 9)
    for path, measured, source in files.values():
        ask, card = open_export(path)
        assert np.allclose(ask(inputs), trained(source)(inputs), atol=SINGLE)
        assert measured.difference < SINGLE
        assert measured.compared == measured.tested == 40
        assert set(measured.figures) == {"accuracy", "nll", "ece", "ece_floor"}
        assert measured.numbers[1] < measured.numbers[0]
        assert measured.bytes[1] == path.stat().st_size < measured.bytes[0]
        assert measured.zipped_masked < measured.zipped[0]
        assert set(measured.milliseconds) == {1, 128}
        assert any(kept.after < kept.before for kept in measured.units)
        assert card.class_names == source.card.class_names
        assert card.config == {"network": "lenet"}


def test_the_figures_are_those_of_the_file(files):
    path, measured, source = files["onnx"]
    inputs, targets = source.test
    found = open_export(path)[0](inputs).astype(np.float64)
    assert measured.figures["accuracy"] == np.mean(found.argmax(1) == targets)
    assert measured.figures["nll"] == pytest.approx(-np.log(found[np.arange(40), targets]).mean(), rel=1e-5)
    assert open_export(path)[1].figures == measured.figures


def test_what_one_would_do_instead_stands_beside_it(files):
    """Its int8 form is that of the dense network: near its answers, and kept in the record."""
    _, measured, source = files["onnx"]
    rival = measured.instead
    assert rival.zipped < rival.bytes
    assert set(rival.milliseconds) == set(measured.milliseconds)
    inputs, targets = source.test
    dense = figures_of(trained(source)(inputs), targets, is_classes=True)
    assert rival.figures["nll"] == pytest.approx(dense["nll"], abs=0.05)
    assert rival.figures["nll"] != measured.figures["nll"]
    kept = measured.as_data()["int8_by_onnxruntime"]
    assert json.loads(json.dumps(kept))["milliseconds"].keys() == {"1", "128"}
    assert files["safetensors"][1].instead.bytes == pytest.approx(rival.bytes, rel=0.01)  # beside any format


def test_that_there_is_no_int8_form_is_said_with_its_reason(capsys, tmp_path):
    """A batch that onnxruntime cannot run is not a failure of the export."""
    source = exportable("mlp")
    program = trace(source)
    dense = program.bind(arrays_of(source.model, source.mean, source.believed.mask))
    paths = tmp_path / "dense.onnx", tmp_path / "int8.onnx"
    why = quantised(dense, source.card, *paths, np.zeros((1, 9), np.float32))
    assert "InvalidArgument" in why
    paths[0].write_bytes(b"nothing")
    why = quantised(dense, source.card, *paths, examples_of(source, program)[:1])
    assert why
    assert "\n" not in why


def test_bits_beside_a_loss_that_they_may_cost(tmp_path):
    source, path = exportable("mlp"), tmp_path / "x.safetensors"
    found = export_network(source, path, "safetensors", rounding=Rounding(bits=3, max_loss=1e9))
    assert found.loss > 0
    assert set(found.levels) == {7}
    with pytest.raises(ExportError, match=r"--bits: codes of 3 would cost [\d,]+ nats, more than the 0 of --max-loss"):
        export_network(source, path, "safetensors", rounding=Rounding(bits=3, max_loss=1e-9))


@pytest.mark.parametrize("form", FORMATS)
def test_the_mean_network_has_a_temperature_of_its_own(form, tmp_path):
    """In the file, not in the posterior beside it."""
    plain = exportable("lenet", keep=0.1, dead=0.3)
    path = tmp_path / f"x.{form}"
    measured = export_network(replace(plain, temperature=2.5), path, form, with_posterior=form == "safetensors")
    inputs = inputs_for("lenet", 9)
    logits = np.log(trained(plain)(inputs).astype(np.float64)) / 2.5
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert np.allclose(open_export(path)[0](inputs), expected, atol=SINGLE)
    assert measured.temperature == 2.5
    assert measured.difference < SINGLE
    if form == "safetensors":
        drawn = open_posterior(path, 5)[0](inputs).expectation
        ours = predict(plain.model, plain.believed, jax.random.key(0), jnp.asarray(inputs), None, 5).expectation
        assert np.allclose(drawn, ours, atol=SINGLE)


@pytest.mark.parametrize(
    ("name", "form"), [("table", "onnx"), ("table", "safetensors"), ("text", "onnx"), ("residual", "safetensors")]
)
def test_other_networks_and_no_test_set(name, form, tmp_path):
    source = exportable(name, test=name == "table")
    measured = export_network(source, tmp_path / f"x.{form}", form)
    assert measured.difference < 1e-5
    assert set(measured.figures) == ({"rmse"} if name == "table" else set())
    ask, card = open_export(tmp_path / f"x.{form}")
    inputs = inputs_for(name, 5)
    assert np.allclose(ask(inputs), trained(source)(inputs), atol=1e-4)
    assert (card.class_names is None) == (name == "table")


def test_classes_without_names_are_numbered(tmp_path):
    source = exportable("mlp")
    source = replace(source, card=replace(source.card, class_names=None))
    export_network(source, tmp_path / "x.onnx", "onnx")
    assert open_export(tmp_path / "x.onnx")[1].class_names == ("0", "1", "2", "3")


def test_a_file_that_differs_is_not_written(files, tmp_path, monkeypatch):
    monkeypatch.setattr("occamax.export.exporting.PARITY", -1.0)
    with pytest.raises(ExportError, match="nothing was written"):
        export_network(files["onnx"][2], tmp_path / "x.safetensors", "safetensors")
    assert not list(tmp_path.iterdir())


def test_a_disk_that_is_full_is_said(files, tmp_path, monkeypatch):
    from occamax.export import exporting

    whole = exporting.write_atomic

    def full(path, content):
        if path.parent == tmp_path:
            raise OSError(28, "No space left on device")
        whole(path, content)

    monkeypatch.setattr("occamax.export.exporting.write_atomic", full)
    with pytest.raises(ExportError, match=r"--out.*No space left on device"):
        export_network(files["onnx"][2], tmp_path / "x.onnx", "onnx")
    monkeypatch.setattr("occamax.export.exporting.write", lambda *_, **__: full(tmp_path / "x", b""))
    with pytest.raises(ExportError, match="No space left on device"):
        export_network(files["onnx"][2], tmp_path / "x.onnx", "onnx")
    assert not list(tmp_path.iterdir())


def test_the_posterior_travels(tmp_path):
    """The file alone gives what the model itself gives, to rounding; and it is no larger than the survivors need."""
    source = exportable("residual")
    path, plain = tmp_path / "p.safetensors", tmp_path / "q.safetensors"
    export_network(source, path, "safetensors", with_posterior=True)
    export_network(source, plain, "safetensors")
    inputs = inputs_for("residual", 12)
    expected = jax.jit(lambda x: predict(source.model, source.believed, jax.random.key(0), x, None, 20))(
        jnp.asarray(inputs)
    )
    draw, card = open_posterior(path, 20)
    found = draw(inputs)
    assert np.allclose(found.expectation, expected.expectation, atol=SINGLE)
    assert np.allclose(found.expected_entropy, expected.expected_entropy, atol=1e-4)
    information = mutual_information(found)
    assert (information > 0).all()
    logits = outputs_of_draws(source.model, source.believed, jax.random.key(0), jnp.asarray(inputs), 20)
    assert np.allclose(found.std, jax.nn.softmax(logits).std(0), atol=1e-4)
    assert found.std.max() > 0.01
    alive, weights = int(source.believed.mask.sum()), source.model.layout.size
    words = len(arrays_file.load(path)[1]["posterior"])
    assert path.stat().st_size - plain.stat().st_size < 8 * alive + weights / 8 + words * 1.2 + 6000
    assert len(open_export(path)[0](inputs)) == 12  # without draws it is an export like any other
    assert card.config == {"network": "residual"}


def test_what_is_fixed_stays_fixed(tmp_path):
    """Arrays that are not random are in the file; draws of a regression vary in its own unit."""
    import equinox as eqx

    from occamax.inference.model import Model
    from occamax.inference.posteriors import IndependentNormals
    from occamax.inference.priors import FanInPrior

    table = exportable("table")
    network = eqx.tree_at(lambda n: n.layers[0].weight, table.model.network, jnp.asarray(np.ones((8, 4), np.float32)))
    model = Model(
        network,
        table.example,
        FanInPrior(),
        table.model.likelihood,
        lambda n: n.layers[0].weight,
        table.model.preprocess,
    )
    posterior = IndependentNormals(jnp.full(model.latent_count, 0.1), jnp.full(model.latent_count, -2.0))
    source = Exportable(model, Believed(posterior, jnp.ones(model.layout.size, bool), ()), table.example, table.card)
    export_network(source, tmp_path / "x.safetensors", "safetensors", with_posterior=True)
    inputs = inputs_for("table", 6)
    found = open_posterior(tmp_path / "x.safetensors", 5)[0](inputs)
    expected = predict(model, source.believed, jax.random.key(0), jnp.asarray(inputs), None, 5)
    assert np.allclose(found.expectation, expected.expectation, atol=1e-4)
    assert (found.std > 0).all()


def test_a_posterior_that_is_not_there_is_said(files, tmp_path):
    with pytest.raises(ExportError, match=r"no posterior.*--posterior"):
        open_posterior(files["safetensors"][0], 10)
    with pytest.raises(ExportError, match="onnx file holds no posterior"):
        open_posterior(files["onnx"][0], 10)
    with pytest.raises(ExportError, match="onnx file holds networks only"):
        export_network(files["onnx"][2], tmp_path / "x.onnx", "onnx", with_posterior=True)
    with pytest.raises(ExportError, match="--samples: 0"):
        open_posterior(files["safetensors"][0], 0)
    source = files["onnx"][2]
    point = Exportable(
        source.model, Believed(Point(source.believed.posterior.mean), source.believed.mask), source.example, source.card
    )
    with pytest.raises(ExportError, match="point estimate"):
        export_network(point, tmp_path / "x.safetensors", "safetensors", with_posterior=True)


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_no_export_is_refused(form, files, tmp_path):
    content = files[form][0].read_bytes()
    rng = np.random.default_rng(0)
    changed = []
    for place in rng.integers(0, len(content), 12):
        other = bytearray(content)
        other[place] ^= 1 << int(rng.integers(8))
        changed.append(bytes(other))
    bad = tmp_path / f"bad.{form}"
    for data in (b"", b"{}", content[: len(content) // 2], content[:-1], content[:8], rng.bytes(200), *changed):
        bad.write_bytes(data)
        with pytest.raises(ExportError, match="bad"):
            open_export(bad)
    with pytest.raises(ExportError, match="is not there"):
        open_export(tmp_path / f"gone.{form}")


def test_changed_words_are_noticed(files, tmp_path):
    """Of a file with every array by its name: those are as they were, and so is their digest; but the card says another
    class."""
    graph, card = arrays_file.read(files["safetensors"][0])
    arrays_file.write(tmp_path / "same.safetensors", graph, card, packed=False)
    assert open_export(tmp_path / "same.safetensors")[1].class_names == files["safetensors"][2].card.class_names
    arrays, text = load_arrays(tmp_path / "same.safetensors")
    said = {name: words for name, words in text.items() if name not in ("format", "digest")}
    said["occamax"] = said["occamax"].replace("class 1", "class 9")
    assert said["occamax"] != text["occamax"]
    save_arrays(tmp_path / "other.safetensors", arrays, said)
    with pytest.raises(ExportError, match="its words do not match their digest"):
        open_export(tmp_path / "other.safetensors")


def test_wrong_names_are_refused(files, tmp_path):
    source = files["onnx"][2]
    with pytest.raises(ExportError, match="--format"):
        export_network(source, tmp_path / "x.npz", "npz")
    with pytest.raises(ExportError, match="should end in"):
        export_network(source, tmp_path / "x.bin", "onnx")
    (tmp_path / "x.npz").write_text("")
    with pytest.raises(ExportError, match="endings"):
        open_export(tmp_path / "x.npz")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 3}', '{"format": 2, "class_names": 3}', '{"format": 2}'])
def test_what_is_no_card_is_named(text):
    with pytest.raises(ExportError, match=r"file\.onnx"):
        Card.from_json(text, "file.onnx")


def test_the_first_format_is_named():
    with pytest.raises(ExportError, match=r"file\.onnx: was written by occamax 0\.1"):
        Card.from_json('{"format": 1, "class_names": ["a"]}', "file.onnx")


def test_a_later_format_is_named():
    card = Card(("a",), (1,), "float32", "9.0", format=3)
    with pytest.raises(ExportError, match=r"file\.onnx: is of export format 3; this version reads 2"):
        Card.from_json(card.as_json(), "file.onnx")


@pytest.mark.parametrize("options", [None, {}, {"size": 32}])
def test_a_card_is_made_from_a_run(options):
    origin = {
        "data": {
            "class_names": None,
            "target_names": ["price"],
            "from": {"kind": "table", "encoder": {"columns": ["a"], "categories": [None]}, "options": options},
        },
        "example": {"shape": [1], "dtype": "float32"},
    }
    last = {"rmse": 1.0, "temperature": 1.1, "mean_temperature": 1.2, "epoch": 3}
    card = Card.of({"version": "0.2", "origin": origin, "layout": [{}], "network": "own"}, last)
    assert card.run_figures == {"rmse": 1.0}
    assert not card.figures  # nobody has measured the file yet
    assert (card.temperature, card.mean_temperature) == (1.1, 1.2)
    assert (card.class_names, card.target_names, card.input_shape) == (None, ("price",), (1,))
    assert card.encoder == {"columns": ["a"], "categories": [None]}
    assert card.resize == bool(options)  # images of another size were resized in training
    assert "layout" not in card.config
    assert Card.from_json(card.as_json(), "x") == card


def test_sparse_arrays_of_earlier_files_are_read():
    value = np.array([[0, 2, 0], [0, 0, 0], [3, 0, 4]], np.float32)
    parts = {"values": np.float32([2, 3, 4]), "columns": np.uint8([1, 0, 2]), "pointers": np.uint8([0, 1, 1, 3])}
    arrays = {f"a.{name}": array for name, array in parts.items()}
    assert np.array_equal(arrays_file._fetch({"sparse": "a", "shape": [3, 3]}, arrays), value)


def test_a_graph_comes_back_with_its_bodies(tmp_path):
    source = exportable("lstm")
    graph = compact(bound(source))[0]
    structure, arrays = arrays_file.describe(graph, "a")
    back = arrays_file.rebuild(json.loads(json.dumps(structure)), arrays)
    assert back.nodes == graph.nodes or str(back.nodes) == str(graph.nodes)
    assert all(np.array_equal(back.constants[value], array) for value, array in graph.constants.items())


def test_sparse_arrays_that_lie_are_refused():
    arrays = {
        "a.values": np.ones(2, np.float32),
        "a.columns": np.array([0, 9], np.uint8),
        "a.pointers": np.array([0, 1, 2], np.uint8),
    }
    for shape, error in (((2, 3), IndexError), ((3, 3), ValueError), ((2, 2**40), ValueError), ((0, 3), ValueError)):
        with pytest.raises(error):
            arrays_file._fetch({"sparse": "a", "shape": list(shape)}, arrays)


SCRIPT = """
import sys, time, numpy
began = time.perf_counter()
from pathlib import Path
from occamax.export.images import read_images
from occamax.export.predictor import open_export
from occamax.export.show import answers, of_mean, print_answers
predict, card = open_export(Path(sys.argv[1]))
inputs = numpy.load(sys.argv[2])
numpy.save(sys.argv[3], predict(inputs))
print_answers(answers(of_mean(predict), card, [("a", inputs[0])]), True)
loaded = [name for name in ("jax", "jaxlib", "equinox", "optax", "onnx") if name in sys.modules]
assert not loaded, loaded
"""


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_is_asked_without_jax(form, files, tmp_path):
    inputs = inputs_for("lenet", 4)
    np.save(tmp_path / "inputs.npy", inputs)
    words = [files[form][0], tmp_path / "inputs.npy", tmp_path / "found.npy"]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["label"].startswith("class")
    assert np.allclose(np.load(tmp_path / "found.npy"), open_export(files[form][0])[0](inputs), atol=SINGLE)


def test_a_deployed_file_needs_none_of_us(files, tmp_path):
    """onnxruntime and numpy alone: jax, equinox and occamax cannot be imported in that process."""
    inputs = inputs_for("lenet", 4)
    np.save(tmp_path / "pixels.npy", inputs)
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
    assert np.allclose(np.load(tmp_path / "found.npy"), open_export(files["safetensors"][0])[0](inputs), atol=SINGLE)


def test_nothing_is_unpickled():
    import pathlib

    import occamax.export

    folder = pathlib.Path(occamax.export.__file__).parent
    for path in folder.glob("*.py"):
        words = path.read_text()
        assert "import pickle" not in words
        assert "allow_pickle=True" not in words
        assert "eval(" not in words.replace("evaluate(", "")


def test_what_takes_long_is_timed_once():
    """A dense network in C is called for minutes, a hundred and twenty-eight examples one by one."""
    now, called = [0.0], {"slow": 0, "quick": 0}

    def taking(name, seconds):
        def predict(inputs):
            called[name] += 1
            now[0] += seconds
            return inputs

        return predict

    found = interleaved([taking("slow", 10.0), taking("quick", 0.001)], np.zeros(1), 0.01, lambda: now[0])
    assert np.allclose(found, [10_000, 1])
    assert called["slow"] == 1
    assert called["quick"] >= 4
