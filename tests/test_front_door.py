"""What a visitor tries first: `make run`'s command, at a small size. `test_docs.py` runs the README's code."""

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
    for name in ("AdamW", "BMR", "BMR-N"):
        assert re.search(rf"\b{name}\b", done.output), name
