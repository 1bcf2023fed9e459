"""What a visitor tries first: `make run`'s command, at a small size; and where the ten things that they try next are
described. `test_docs.py` runs the code of README and pages."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

import occamax as ox
from occamax import cli, fitting
from occamax.networks import MLP

ROOT = Path(__file__).parents[1]
SMALL = {"epochs": 1, "steps_per_epoch": 2, "num_samples": 2}


def narrow(shape, classes, *, key):
    return MLP(shape, classes, hidden=(12, 8), key=key)


@pytest.fixture
def asked(monkeypatch):
    """Runs become short, on few images and a narrow network; what was asked of them is kept."""
    asked, real_fit = [], fitting.fit

    def short(network, data, method, **options):
        asked.append((method.name, *(options[name] for name in SMALL)))
        if not isinstance(network, MLP):
            assert network.name == "mlp"
            network = narrow(data.shape, data.outputs, key=jax.random.key(0))
            method = method if method.name == "bmr" else ox.MAP(name=method.name)  # all alike: compiled once
        few = ox.Dataset(data.name, data.train.rows(slice(100)), data.test.rows(np.arange(20)), data.class_names)
        if "curve_samples" in options:
            options["curve_samples"] = 1
        return real_fit(network, few, method, **{**options, **SMALL})

    monkeypatch.setattr(fitting, "fit", short)
    monkeypatch.setattr(ox, "fit", short, raising=False)
    monkeypatch.setattr(ox, "MLP", narrow, raising=False)
    return asked


def test_make_run(asked, tmp_path):
    """The command of the Makefile, with the methods and the budget that the README names beside its table."""
    words = re.search(r"^run:.*\n\t\$\(BIN\)/occamax (\S+) --out (\S+)$", (ROOT / "Makefile").read_text(), re.M)
    assert words is not None
    done = CliRunner().invoke(cli.app, [words[1], "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert asked == [(name, 15, 100, 20) for name in ("plain", "bmr", "plain-pruned", "bmr-natural")]
    readme = (ROOT / "README.md").read_text()
    assert "15 epochs of 100 steps" in " ".join(readme.split())
    assert f"{words[2]}/report.html" in readme
    assert "<svg" in (tmp_path / "run" / "report.html").read_text()
    for name in ("Plain", "BMR", "BMR-N"):
        assert re.search(rf"\b{name}\b", done.output), name


# what a newcomer would try → where it is described, and what they would type
TASKS = {
    "own CSV": ("start/data.md", "occamax train flowers.csv mlp bmr --target price --epochs 10"),
    "own images": ("start/data.md", "occamax train pictures/ lenet bmr --image-size 32 --epochs 10"),
    "own Equinox module": ("start/network.md", "fitted = ox.fit(network, (x, y), epochs=5, steps_per_epoch=50)"),
    "a torch module": ("start/pytorch.md", "network = ox.from_torch(module, images[0])"),
    "95 % sparsity": ("howto/sparsity.md", "occamax train fashion_mini mlp bmr --sparsity 0.95 --epochs 10"),
    "export to ONNX": ("export.md", "occamax export runs/mine --format onnx"),
    "resume after Ctrl-C": ("howto/resume.md", "--out runs/long --resume"),
    "two devices": ("howto/devices.md", "occamax train fashion_mini mlp bmr --devices 2 --epochs 10"),
    "compare two runs": ("howto/watch.md", "occamax report runs/one runs/two --out report.html"),
    "what ΔF means": ("understand/evidence.md", "print(ox.delta_f.removal(means, variances))"),
}


def clicks(first, wanted):
    """How many links lead from one page to another; infinitely many where none do."""
    seen, here, count = {first}, {first}, 0
    while here:
        if wanted in here:
            return count
        links = {(page, link) for page in here for link in re.findall(r"\]\(([^)#\s]+\.md)", page.read_text())}
        here = {(page.parent / link).resolve() for page, link in links} - seen
        seen, count = seen | here, count + 1
    return float("inf")


@pytest.mark.parametrize("task", TASKS)
def test_a_newcomer_finds_it_within_two_clicks(task):
    page, words = TASKS[task]
    docs = (ROOT / "docs").resolve()
    assert clicks(docs / "index.md", docs / page) <= 2
    blocks = re.findall(r"^```(?:bash|python)\n(.*?)^```$", (docs / page).read_text(), re.DOTALL | re.MULTILINE)
    assert any(words in block for block in blocks)


def test_clicks_are_counted(tmp_path):
    for name, text in {"a": "[b](b.md)", "b": "[c](c.md#there) [a](a.md)", "c": "", "d": "[a](a.md)"}.items():
        (tmp_path / f"{name}.md").write_text(text)
    found = [clicks(tmp_path / "a.md", tmp_path / f"{name}.md") for name in "abcd"]
    assert found == [0, 1, 2, float("inf")]
