"""The command line on a user's own data and networks: tables, arrays, folders of images; every value of a method."""

import json

import equinox as eqx
import jax
import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import occamax as ox
from occamax.cli import app
from occamax.command_words import augmentations, method_from_words
from occamax.errors import ArgumentError, DataError, LayoutError, OccamaxError
from occamax.experiment.folder import RunFolder

from .experiment.small_runs import pixels, save_npz

SMALL = "tests.experiment.small_runs:build_small"
NORMED = "tests.experiment.small_runs:build_normed"
QUICK = ("--epochs", 2, "--steps", 20, "--batch", 8, "--samples", 2)


def command(*words, code=0):
    result = CliRunner().invoke(app, list(map(str, words)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A table of flowers, with a text, a class and a number to predict, and the small images as class folders."""
    folder = tmp_path_factory.mktemp("own")
    rng = np.random.default_rng(0)
    lines = ["length,width,colour,kind,price"]
    for _ in range(60):
        length, width = rng.normal(5, 1), rng.normal(2, 0.5)
        colour = rng.choice(["blue", "red"])
        kind = "large" if length > 5 else "small"
        lines.append(f"{length:.3f},{width:.3f},{colour},{kind},{100 + 20 * width + rng.normal():.2f}")
    (folder / "flowers.csv").write_text("\n".join(lines) + "\n")
    images, classes = pixels(60)
    for number, (image, name) in enumerate(zip(images, classes, strict=True)):
        path = folder / "shapes" / ("left", "middle", "right")[name] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0]).save(path)
    return folder


@pytest.fixture(scope="module")
def kinds(place):
    """Of flowers, by their kind."""
    out = place / "runs" / "kinds"
    method = ("--set", "reduction.tolerance=0.5", "--set", "prior=FanInPrior(gain=2.0)", "--set", "learning_rate=5e-3")
    words = ("train", place / "flowers.csv", SMALL, "bmr-paper", "--target", "kind", *QUICK, *method, "--out", out)
    return out, command(*words)


@pytest.fixture(scope="module")
def prices(place):
    """Of flowers: a number, from the numbers and texts beside it."""
    out = place / "runs" / "prices"
    words = ("--epochs", 2, "--steps", 200, "--batch", 16, "--samples", 2, "--keep-best")
    command("train", place / "flowers.csv", SMALL, "flat", "--target", "price", *words, "--out", out)
    return out


@pytest.fixture(scope="module")
def shapes(place):
    """A network with a state on a folder of images."""
    out = place / "runs" / "shapes"
    more = ("--augment", "crop=1", "--augment", "flip", "--fixed", "conv.bias", "--test-share", 0.25)
    command("train", place / "shapes", NORMED, "flat", *QUICK, *more, "--out", out)
    return out


def test_a_table_of_classes(kinds):
    out, said = kinds
    config = RunFolder(out).config()
    assert (config.data, config.network, config.method) == ("flowers", SMALL, "bmr-paper")
    data = config.origin["data"]
    assert data["class_names"] == ["large", "small"]
    assert data["from"]["encoder"]["columns"] == ["length", "width", "colour", "price"]
    assert config.origin["example"] == {"shape": [5], "dtype": "float32"}  # the text has two columns
    assert config.settings["preprocess"]["kind"] == "StandardiseColumns"
    assert "accuracy" in said
    method = ox.load(out).method
    assert method.reduction.tolerance == 0.5
    assert method.prior == ox.FanInPrior(gain=2.0)
    assert method.learning_rate == ox.schedules.Constant(5e-3)


def test_a_table_of_numbers(prices):
    metrics = RunFolder(prices).metrics()
    assert metrics[-1]["rmse"] < 8  # the target's deviation is 10
    assert RunFolder(prices).config().origin["data"]["target_names"] == ["price"]
    assert "rmse" in command("evaluate", prices)
    assert (prices / "checkpoint.best.safetensors").is_file()
    assert "rmse" in command("evaluate", prices, "--checkpoint", "best")


def test_a_folder_of_images_and_a_network_with_a_state(shapes):
    config = RunFolder(shapes).config()
    assert config.origin["data"]["class_names"] == ["left", "middle", "right"]
    assert config.settings["fixed"] == ["conv.bias"]
    assert [part["kind"] for part in config.settings["augment"]["parts"]] == ["RandomCrop", "HorizontalFlip"]
    fitted = ox.load(shapes)
    assert len(fitted.test_set()[1]) == 15
    assert np.array_equal(fitted.network[0].conv.bias, ox.network_named(NORMED).network((1, 6, 6), 3)[0].conv.bias)
    figures = fitted.evaluate()
    assert figures["nll"] == pytest.approx(RunFolder(shapes).metrics()[-1]["nll"], rel=1e-5)


def test_runs_are_compared(kinds, prices, shapes, tmp_path):
    said = command("report", *(kinds[0], prices, shapes), "--out", tmp_path / "page.html")
    assert "flowers" in said
    assert "RMSE" in said
    page = (tmp_path / "page.html").read_text()
    assert "All comparisons" in page
    assert "shapes" in page


def test_what_is_exported_answers_about_files(kinds, place):
    out, _ = kinds
    assert "network" in command("export", out, "--bits", 32).replace("\n", "")
    with pytest.raises(ArgumentError, match="--batch: 128 given without --latency"):
        command("export", out, "--batch", 128)
    (place / "new.csv").write_text("length,width,colour,price\n7.5,2.0,red,140\n2.5,2.0,blue,140\n")
    said = command("predict", out / "network.onnx", place / "new.csv", "--json")
    answers = [json.loads(line) for line in said.splitlines()]
    encoded = np.array([[7.5, 2.0, 0, 1, 140], [2.5, 2.0, 1, 0, 140]], np.float32)
    fitted = ox.load(out)
    prepared = jax.vmap(fitted.model.preprocess)(encoded)
    wanted = jax.nn.softmax(jax.vmap(fitted.network)(prepared))
    assert [answer["label"] for answer in answers] == [("large", "small")[i] for i in np.argmax(wanted, 1)]
    assert [answer["probability"] for answer in answers] == pytest.approx(np.asarray(wanted).max(1), abs=1e-4)


def test_an_image_is_asked_about(shapes, place):
    said = command("export", shapes, "--format", "safetensors", "--posterior")
    assert "network.safetensors" in said.replace("\n", "")
    image = next((place / "shapes" / "left").iterdir())
    for more in ((), ("--samples", 3)):
        (answer,) = command("predict", shapes / "network.safetensors", image, "--json", *more).splitlines()
        assert json.loads(answer)["label"] in ("left", "middle", "right")


def test_units_have_a_price(place):
    out = place / "runs" / "units"
    words = ("train", place / "flowers.csv", SMALL, "bmr-paper", "--target", "kind", *QUICK, "--unit-price", 100.0)
    command(*words, "--out", out)
    fitted = ox.load(out)
    assert fitted.method.reduction.unit_price == 100.0
    gone = [i for i in range(5) if not fitted.masks["first"][i].any()]
    assert gone  # no unit is worth a hundred nats per weight


def test_a_network_that_was_passed_by_hand_is_named_to_evaluate_it(tmp_path, place):
    data = ox.load_data(place / "flowers.csv", target="kind")
    network = ox.network_named(SMALL).network((5,), 2)
    options = {"epochs": 1, "steps_per_epoch": 20, "batch_size": 8, "num_samples": 2, "progress": False}
    ox.fit(network, data, ox.PaperBMR(), out=tmp_path / "run", **options)
    with pytest.raises(OccamaxError, match="a network of your own"):
        command("evaluate", tmp_path / "run")
    assert "accuracy" in command("evaluate", tmp_path / "run", "--network", SMALL)
    with pytest.raises(OccamaxError, match="another than the one"):
        command("evaluate", tmp_path / "run", "--network", "tests.test_cli:two_layers")


def two_layers(shape, outputs, *, key):
    return eqx.nn.MLP(shape[0], outputs, 3, 2, key=key)


def wrong(shape):
    return None


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("flowers.csv", "nowhere.at:all"), r"NETWORK: nowhere\.at cannot be imported"),
        (("flowers.csv", "tests.test_cli:nothing"), "has no function 'nothing'"),
        (("flowers.csv", "tests.test_cli:wrong"), "cannot be called as function"),
        (("flowers.csv", SMALL, "--target", "kindd"), "kindd"),
        (("flowers.csv", SMALL, "--target", "kind", "--task", "sorting"), "sorting"),
        (("flowers.csv", SMALL, "--target", "kind", "--test-share", "1.5"), r"1\.5"),
        (("flowers.csv", SMALL, "--fixed", "first.wieght"), r"first\.wieght"),
        (("flowers.csv", SMALL, "--augment", "blur"), "--augment: 'blur'"),
        (("flowers.csv", SMALL, "--augment", "crop"), "augment: .*RandomCrop"),
        (("flowers.csv", SMALL, "--augment", "tests.test_cli:nothing"), "cannot be found"),
        (("flowers.csv", SMALL, "--set", "learning_rate"), "it must be like learning_rate=5e-3"),
        (("flowers.csv", SMALL, "--sparsity", "1.5"), r"sparsity: 1\.5"),
        (("nothing.csv", SMALL), r"nothing\.csv: no such file"),
        (("damaged.csv", SMALL), r"damaged\.csv"),
        (("shapes", SMALL, "--target", "kind"), "target"),
    ],
)
def test_words_that_cannot_be_meant_are_refused_before_any_work(words, says, place, tmp_path):
    (place / "damaged.csv").write_text("length,kind\n1.0,a\nmuch,b\n2.0\n")
    data, network, *more = words
    target = () if "--target" in more or data == "shapes" else ("--target", "kind")
    with pytest.raises((ArgumentError, DataError, LayoutError), match=says):
        command("train", place / data, network, "bmr", *target, *more, *QUICK, "--out", tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("change", "path", "value"),
    [
        ("learning_rate=5e-3", "learning_rate", ox.schedules.Constant(5e-3)),
        ("learning_rate=Cosine(1e-2, last=1e-4)", "learning_rate", ox.schedules.Cosine(1e-2, 1e-4)),
        ("kl_weight=1", "kl_weight", ox.schedules.Constant(1.0)),
        ("reduction.tolerance=none", "reduction.tolerance", None),
        ("reduction.criterion=Evidence(threshold=-1.5)", "reduction.criterion", ox.criteria.Evidence(-1.5)),
        ("reduction.criterion.threshold=2", "reduction.criterion.threshold", 2),
        ("reduction.keep_output=false", "reduction.keep_output", False),
        ("reduction=None", "reduction", None),
        ("optimizer=NaturalGradient(momentum=0.95)", "optimizer", ox.NaturalGradient(momentum=0.95)),
        ("estimator=Flipout", "estimator", ox.Flipout()),
        ("prior.gain=2", "prior.gain", 2),
        ("calibration.one_in=10", "calibration.one_in", 10),
    ],
)
def test_every_value_of_a_method_can_be_set(change, path, value):
    found = method_from_words("bmr", [change])
    for name in path.split("."):
        found = getattr(found, name)
    assert found == value


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (["lerning_rate=1"], "Did you mean learning_rate"),
        (["prior.width=1"], r"FanInPrior: 'width' is not known"),
        (["prior=Flatt()"], "'Flatt' is not known"),
        (["prior=FlatPrior(colour=1)"], "colour"),
        (["learning_rate=__import__('os')"], "'__import__' is not known"),
        (["learning_rate=(lambda: 1)()"], "numbers and objects"),
        (["learning_rate='fast'"], "numbers and objects"),
        (["learning_rate=1 +"], "neither a number nor an object"),
        (["learning_rate.first.value=1"], "nothing to change inside"),
        (["reduction=none", "reduction.tolerance=0.1"], "nothing to change inside of None"),
        (["=3"], "it must be like"),
        (["dropout=2"], "dropout: 2"),
        (["prior=Evidence()"], "prior: "),
    ],
)
def test_values_that_cannot_be_are_refused(changes, says):
    with pytest.raises((ArgumentError, TypeError), match=says):
        method_from_words("bmr", changes)


def darker(key, example):
    return example // 2


def test_augmentations_by_their_words():
    assert augmentations(["crop", "crop=2", "flip"]) == [ox.RandomCrop(), ox.RandomCrop(2), ox.HorizontalFlip()]
    (own,) = augmentations(["tests.test_cli:darker"])
    assert own is darker or own.__name__ == "darker"


def test_a_default_folder_is_named_by_what_it_holds(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command("train", place / "flowers.csv", SMALL, "bmr-paper", "--target", "kind", *QUICK, "--seed", 4, "--no-cache")
    assert (tmp_path / "runs" / "flowers-build_small-bmr-paper-seed4" / "summary.json").is_file()


def test_a_run_begins_at_another_and_is_pruned_at_once(place, kinds):
    """`--start RUN`, then `prune RUN`; what it left can be evaluated."""
    out = place / "runs" / "again"
    words = ("train", place / "flowers.csv", SMALL, "flat", "--target", "kind", *QUICK)
    command(*words, "--start", kinds[0], "--out", out)
    config = RunFolder.open(out).config()
    assert config.origin["start"] == {"from": "run", "name": "kinds"}
    assert config.settings["start"]["curvature"]["kind"] == "GaussNewton"
    with pytest.raises(ArgumentError, match=r"start: .* is of another network"):
        command("train", place / "shapes", SMALL, "flat", *QUICK, "--start", kinds[0], "--out", place / "runs" / "no")
    said = command("prune", out, "--sparsity", 0.5, "--tolerance", 0, "--no-repair")
    assert "sparsity 0.5" in said
    assert RunFolder.open(place / "runs" / "again-pruned").config().settings["prune"]["repair"] is None
    assert "accuracy" in command("evaluate", place / "runs" / "again-pruned")
    with pytest.raises(ArgumentError, match="--order: 'size'"):
        command("prune", out, "--order", "size", "--out", place / "runs" / "other")


def test_data_larger_than_memory_are_read_from_disk(place, shapes):
    """Images by the same options as those that are read into memory, and arrays with a test set of their own; a command
    opens them again."""
    out = place / "runs" / "streamed"
    command("train", place / "shapes", NORMED, "flat", *QUICK, "--fixed", "conv.bias", "--stream", "--out", out)
    assert RunFolder(out).config().origin["data"]["from"]["kind"] == "images"
    assert "accuracy" in command("evaluate", out)
    memory = ox.load(shapes).test_set()
    for folder in (place / "arrays", place / "arrays" / "test"):
        folder.mkdir()
        np.save(folder / "inputs.npy", memory[0].astype(np.float32) / 255)  # arrays are not standardised
        np.save(folder / "targets.npy", memory[1])
    out = place / "runs" / "arrays"
    command("train", place / "arrays", NORMED, "flat", *QUICK, "--stream", "--out", out)
    assert "accuracy" in command("evaluate", out)
    np.save(place / "arrays" / "targets.npy", memory[1][::-1])
    with pytest.raises(DataError, match="targets holds as much as before, but other contents"):
        command("evaluate", out)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("flowers.csv", SMALL, "--stream"), "is no folder"),
        (("films.txt", SMALL), "--stream"),
        (("films.txt", SMALL, "--stream"), "has one label, good"),
        (("shapes", SMALL, "--stream", "--target", "kind"), "target"),
    ],
)
def test_what_is_no_stream_is_refused(words, says, place, tmp_path):
    (place / "films.txt").write_text("good\tfilm\n")
    with pytest.raises((ArgumentError, DataError), match=says):
        command("train", place / words[0], *words[1:2], "flat", *words[2:], "--out", tmp_path / "x")


def test_seeds_are_an_ensemble_too(tmp_path):
    """Trained side by side, told together, kept in the folder that they lie in; evaluated, exported, reported."""
    data, out = save_npz(tmp_path / "data.npz"), tmp_path / "two"
    words = ("train", data, SMALL, "bmr", "--seeds", 2, *QUICK, "--out", out)
    said = command(*words)
    assert "the 2 networks together:  accuracy " in said
    assert "of one dense network's weights" in said
    known = json.loads((out / "ensemble.json").read_text())
    assert known["members"] == ["seed0", "seed1"]
    assert f"{known['figures']['nll']:.4f}" in command("evaluate", out, "--network", SMALL, "--samples", 2)
    assert "the average of 2 networks" in command("export", out, "--network", SMALL)
    assert "probability" in command("predict", out / "network.onnx", data)
    page = tmp_path / "report.html"
    table = command("report", out, "--out", page)
    assert "BMR, 2 together" in table
    assert "BMR, 2 together" in page.read_text()
    assert "2 runs" in page.read_text()  # not three
    for more, options in (("draws", 2), ("latency", "1ms")):
        with pytest.raises(ArgumentError, match=f"--{more}: it is of one network"):
            command("export", out, "--network", SMALL, f"--{more}", options)
    with pytest.raises(ArgumentError, match="holds an ensemble; prune its members"):
        command("prune", out, "--network", SMALL)
    lines = [json.loads(line) for line in command(*words, "--overwrite", "--json").splitlines() if line[0] == "{"]
    assert lines[-1]["ensemble"] == str(out)
    assert lines[-1]["figures"] == known["figures"]
