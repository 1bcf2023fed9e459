"""The grid: skipped, resumed, shared, failing."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from occamax.cli import app
from occamax.errors import ArgumentError, RunError
from occamax.experiment import run as run_module
from occamax.experiment.config import Config
from occamax.methods import PaperBMR, method_from
from occamax.networks import NetworkSource
from occamax.reproduction import grid as grid_module
from occamax.reproduction.cells import cell_file, read_cells, write_cell
from occamax.reproduction.grid import Cell, Grid, run
from occamax.reproduction.published import Figure, published, short

from ..experiment.small_runs import build_small, dataset

TINY = Config("fashion_mini", "lenet", "map", epochs=2, steps_per_epoch=2, batch_size=8, num_samples=3, curve_samples=1)


@pytest.fixture(autouse=True, scope="module")
def _small_cells():
    """The names of the grid, with a small network and few images behind them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid_module, "network_named", lambda name: NetworkSource(name, build_small))
        patch.setattr(grid_module, "load_data", lambda name, _: replace(dataset(), name=name))
        yield


def tiny(methods=("map", "bmr-paper"), seeds=1):
    return Grid(["fashion_mini"], ["lenet"], methods, seeds, TINY)


def outcomes(grid, out):
    return list(run(grid, out, None, lambda line: None))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("grid")
    found = outcomes(tiny(), out)
    assert [outcome.error for outcome in found] == [None, None]
    return out


def test_every_published_figure_is_read():
    table = published()
    assert len(table) == 48
    assert table["fashion_mnist", "mlp", "bmr-paper"]["pruned"] == Figure(0.993)
    assert table["cifar10", "lenet", "map"]["nll"] == Figure(2.5, is_bound=True)
    assert "pruned" not in table["cifar10", "lenet", "map"]
    assert [short(value) for value in (0.5, -0.0123, 2.5)] == [".500", "-.012", "2.500"]


def test_shards_are_the_grid_cut_up():
    whole = Grid().cells()
    assert len(whole) == len(set(whole)) == 48
    shards = [Grid(shard=(part, 5)).cells() for part in range(1, 6)]
    assert sorted(str(cell) for shard in shards for cell in shard) == sorted(map(str, whole))
    heavy = [sum(cell.network in ("vit", "mixer") for cell in shard) for shard in shards]
    assert max(heavy) - min(heavy) <= 1  # none gets all the long ones


@pytest.mark.parametrize("options", [{"shard": (6, 5)}, {"shard": (0, 5)}, {"seeds": 0}, {"methods": ["magic"]}])
def test_a_grid_that_cannot_be_is_refused(options):
    with pytest.raises(ArgumentError):
        Grid(**options)


def test_a_finished_cell_is_skipped_and_a_new_seed_is_added(finished, monkeypatch):
    assert all(outcome.skipped for outcome in outcomes(tiny(), finished))
    trained, original = [], grid_module.fit

    def counting(*arguments, seeds, **options):
        trained.append(seeds)
        return original(*arguments, seeds=seeds, **options)

    monkeypatch.setattr(grid_module, "fit", counting)
    outcomes(tiny(["map"], seeds=2), finished)
    assert trained == [[1]]
    both = json.loads(cell_file(finished, "fashion_mini-lenet-map").read_text())
    assert both["seeds"] == [0, 1]
    assert len(both["metrics"]) == 2


def test_seeds_trained_elsewhere_stay_in_the_cell(finished, tmp_path):
    cell = cell_file(tmp_path, "fashion_mini-lenet-map")
    run0, run1 = (finished / "runs" / "fashion_mini" / "lenet-map" / f"seed{seed}" for seed in (0, 1))
    write_cell(cell, [run0])
    alone = json.loads(cell.read_text())
    write_cell(cell, [run1])
    both = json.loads(cell.read_text())
    assert both["seeds"] == [0, 1]
    assert both["metrics"][0] == alone["metrics"][0] != both["metrics"][1]
    assert (both["quantiles"], both["config"]) == (alone["quantiles"], alone["config"])  # the first seed's


def test_a_cell_says_which_command_makes_it_and_what_its_method_was(finished):
    cell = json.loads(cell_file(finished, "fashion_mini-lenet-bmr-paper").read_text())
    words = "--data fashion_mini --networks lenet --methods bmr-paper --seeds 1 --epochs 2 --steps 2 --batch 8"
    assert cell["command"] == f"occamax reproduce {words} --samples 3 --curve-samples 1 --precision float32"
    assert method_from(cell["settings"]) == PaperBMR()


def test_a_seed_that_is_added_leaves_a_cell_its_method_and_where_it_is_from(finished, tmp_path):
    path = cell_file(tmp_path, "fashion_mini-lenet-map")
    run0, run1 = (finished / "runs" / "fashion_mini" / "lenet-map" / f"seed{seed}" for seed in (0, 1))
    write_cell(path, [run0])
    old = {**json.loads(path.read_text()), "settings": {"kind": "MAP"}, "provenance": "read from the sources"}
    path.write_text(json.dumps(old))
    write_cell(path, [run1])
    both = json.loads(path.read_text())
    assert (both["settings"], both["provenance"]) == ({"kind": "MAP"}, "read from the sources")
    assert both["command"] == old["command"].replace("--seeds 1", "--seeds 2")


def test_another_budget_is_another_cell(finished):
    longer = Grid(["fashion_mini"], ["lenet"], ["map"], 1, replace(TINY, epochs=3))
    assert grid_module.missing_seeds(longer, Cell("fashion_mini", "lenet", "map"), finished) == [0]
    (found,) = outcomes(longer, finished)  # the old run is neither taken for the new one nor overwritten
    assert found.error is not None
    assert "another budget" in found.error
    assert read_cells(finished)[1].group.config.epochs == 2


def test_a_failing_cell_does_not_end_the_grid(tmp_path, monkeypatch):
    original = grid_module.fit

    def breaks(network, data, method, **options):
        if method.name == "map":
            raise MemoryError("no room")
        return original(network, data, method, **options)

    monkeypatch.setattr(grid_module, "fit", breaks)
    found = {outcome.cell.method: outcome.error for outcome in outcomes(tiny(), tmp_path)}
    assert found == {"map": "MemoryError: no room", "bmr-paper": None}
    assert "no room" in (tmp_path / "runs/fashion_mini/lenet-map/error.txt").read_text()
    monkeypatch.setattr(grid_module, "fit", original)
    again = {outcome.cell.method: (outcome.skipped, outcome.error) for outcome in outcomes(tiny(), tmp_path)}
    assert again == {"map": (False, None), "bmr-paper": (True, None)}


def test_an_interrupted_cell_goes_on_where_it_was(finished, tmp_path, monkeypatch):
    class Interrupting(run_module.Progress):
        def show(self, epoch):
            raise KeyboardInterrupt

    original = run_module.Progress
    monkeypatch.setattr(run_module, "Progress", Interrupting)
    with pytest.raises(KeyboardInterrupt):
        outcomes(tiny(["bmr-paper"]), tmp_path)
    monkeypatch.setattr(run_module, "Progress", original)
    assert not (tmp_path / "cells").exists()
    outcomes(tiny(["bmr-paper"]), tmp_path)
    one, other = (read_cells(out)[0] for out in (finished, tmp_path))
    assert one.key == other.key
    for name in ("accuracy", "nll", "neg_elbo"):
        assert np.array_equal(one.group.curve(name)[:1], other.group.curve(name))


def test_the_command_writes_figures_table_and_page(finished):
    words = ["reproduce", "--data", "fashion_mini", "--networks", "lenet", "--methods", "map,bmr-paper", "--epochs", 2]
    words += ["--steps", 2, "--batch", 8, "--no-cache", "--out", finished]
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    assert "2 finished before" in result.output
    assert "2 of the paper's 48 cells are here" in (finished / "README.md").read_text()
    assert "BMR-S&S" in (finished / "table.md").read_text()
    for kind in ("svg", "png"):
        assert (finished / "figures" / f"figure-2-pruned.{kind}").stat().st_size > 1000
    assert "All cells" not in (finished / "report.html").read_text()  # one cell needs no overview


WORDS = (
    "reproduce --data fashion_mini --networks lenet-300-100 --methods map,flat --epochs 1 --steps 1 --batch 8 "
    "--samples 1"
)


def test_workers_share_the_grid(tmp_path):
    result = CliRunner().invoke(app, [*WORDS.split(), "--workers", "2", "--no-cache", "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "2 cells, 2 finished before" in result.output  # by the workers
    assert [found.key[2] for found in read_cells(tmp_path / "out")] == ["flat", "map"]


def test_jobs_share_the_grid(tmp_path):
    """submitit's local mode: the same jobs, as processes of this machine."""
    more = ["--workers", "2", "--submit", "local", "--minutes", "5", "--out", str(tmp_path / "out")]
    command = [sys.executable, "-m", "occamax", *WORDS.split(), *more]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result
    assert [found.key[2] for found in read_cells(tmp_path / "out")] == ["flat", "map"]
    assert "--shard 2/2" in result.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--submit pbs", "--submit: 'pbs'"),
        ("--submit slurm --slurm gpu", "--slurm: 'gpu'"),
        ("--networks ,", "nothing"),
    ],
)
def test_a_command_that_cannot_be_is_refused(words, says):
    result = CliRunner().invoke(app, ["reproduce", *words.split()])
    assert isinstance(result.exception, ArgumentError)
    assert says in str(result.exception)


def test_a_damaged_cell_is_named(finished, tmp_path):
    path = cell_file(tmp_path, "x")
    path.parent.mkdir()
    for text in ("{", "[]", '{"format": 99}'):
        path.write_text(text)
        with pytest.raises(RunError, match=r"x\.json"):
            read_cells(tmp_path)


def test_cells_of_the_first_version_are_still_read(finished, tmp_path):
    """Only names and numbers are wanted of them; a new seed may be added."""
    path = cell_file(tmp_path, "fashion_mini-lenet-map")
    write_cell(path, [finished / "runs" / "fashion_mini" / "lenet-map" / "seed0"])
    values = json.loads(path.read_text())
    old = {"data": "fashion_mini", "network": "lenet", "method": "map", "epochs": 2, "steps": 2, "batch": 8, "seed": 0}
    values["config"] = {**old, "samples": 3, "curve_samples": 1, "precision": "float32", "sparsity": None}
    for line in [*values["metrics"], *values["summaries"]]:
        line["divergence_weight"] = line.pop("kl_weight")
    path.write_text(json.dumps(values))
    (found,) = read_cells(tmp_path)
    assert found.group.config.steps_per_epoch == 2
    assert found.group.tempered is None
    assert grid_module.missing_seeds(tiny(["map"], 2), Cell("fashion_mini", "lenet", "map"), tmp_path) == [1]
    write_cell(path, [finished / "runs" / "fashion_mini" / "lenet-map" / "seed1"])
    assert json.loads(path.read_text())["seeds"] == [0, 1]
