"""Every example runs, at a small size, from training to the report."""

import importlib.util
import io
import tarfile
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


@pytest.fixture
def torch():
    pytest.importorskip("torchax", reason="torchax is not installed: make test-torch")
    found = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
    found.manual_seed(0)
    return found


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_network_of_pictures_from_torch(torch, small, tmp_path, capsys, monkeypatch):
    """One block, images of 8 × 8, no weights of ImageNet."""
    example = load("efficientnet_lite")
    monkeypatch.setattr(example, "STAGES", ((2, 8, 1, 1, 3),))
    example.main(2, 2, 8, module=example.EfficientNetLite0(10), out=str(tmp_path / "lite0"))
    agree(capsys.readouterr().out, tmp_path / "lite0.onnx")


def agree(words, path):
    """70 % are gone, and PyTorch and the file say what we say."""
    pruned, in_torch, in_file = words.strip().splitlines()[-3:]
    assert pruned.startswith("70% pruned")
    assert "outputs differ by" in in_torch
    assert float(in_torch.split("differ by ")[1].split()[0]) < 1e-4
    assert float(in_file.split("differs by ")[1].split()[0]) < 1e-4
    assert path.is_file()


def ratings(path, count):
    """A package with as many rated snippets, half of them good; two more are neither."""
    lines = [f"{i}\t{2.0 if i % 2 else -1.5}\tfilm {i % 2}" for i in range(count)] + ["98\t0.1\tso", "99\t-0.5\tso"]
    inner = packed("hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt", "\n".join(lines).encode())
    path.write_bytes(packed("vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz", inner))
    return str(path)


def packed(name, content):
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return found.getvalue()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_network_of_words_from_torch(torch, tmp_path, capsys, monkeypatch):
    """One layer of width 8 and 20 words, drawn; the tokens are handed in."""
    example = load("minilm")
    monkeypatch.setattr(example, "LENGTH", 6)
    rows = {f"film {i}": np.array([1, 2, 3, 4, 5 + i, 0], np.int32) for i in range(2)}
    monkeypatch.setattr(example, "tokens_of", lambda texts: np.stack([rows[text] for text in texts]))
    module = example.Encoder(2, layers=1, words=20, width=8, heads=2)
    example.main(ratings(tmp_path / "vader.tar.gz", 60), 2, 2, module=module, out=str(tmp_path / "minilm"))
    agree(capsys.readouterr().out, tmp_path / "minilm.onnx")
