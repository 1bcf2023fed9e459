"""Every example runs, at a small size, from training to the report."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import occamax as ox

EXAMPLES = Path(__file__).parents[1] / "examples"
KEPT = ("resnet", "gru", "transformer", "regression", "image_folder")  # those that save, load, export and report


def load(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def small(monkeypatch):
    """The embedded images, few of them."""

    def few(*arguments, **options):
        found = real(*arguments, **options)
        if found.name != "fashion_mini":
            return found
        rows = np.arange(20)
        return ox.Dataset(
            found.name, found.train.rows(slice(100)), found.test.rows(rows), found.class_names, found.origin
        )

    real = ox.load_data
    monkeypatch.setattr(ox, "load_data", few, raising=False)


@pytest.mark.parametrize("name", KEPT)
def test_a_network_or_data_of_ones_own_goes_all_the_way(name, small, tmp_path, capsys, monkeypatch):
    module = load(name)
    if name == "resnet":
        resnet = module.ResNet
        monkeypatch.setattr(module, "ResNet", lambda *, key: resnet((4, 8), key=key))
    if name == "regression":
        monkeypatch.setattr(module.write_table, "__defaults__", (200, 0))
    if name == "image_folder":
        monkeypatch.setattr(module.write_images, "__defaults__", (8,))
    if name == "transformer":
        sentences = module.sentences
        monkeypatch.setattr(module, "sentences", lambda count, seed=0: sentences(100, seed))
    module.main(1, 2, out=str(tmp_path / "run"))
    words = capsys.readouterr().out
    assert "differs by" in words
    assert (tmp_path / "run" / "network.onnx").is_file()
    assert "<svg" in (tmp_path / "run" / "report.html").read_text()


def test_the_stages_in_sight(small, capsys):
    load("prune_mlp").main(4, 1)
    assert "weights left" in capsys.readouterr().out


def test_a_bare_array(capsys):
    load("own_network").main(2, 5)
    assert "weights kept by input" in capsys.readouterr().out


def test_the_evidence_is_exact(capsys):
    load("evidence").main()
    assert capsys.readouterr().out
