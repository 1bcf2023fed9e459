"""A cell's result as one small JSON file: configuration, command, the method as data, curves and summary of every seed,
the spread of the first seed's weights.

The first layer of the small networks goes beside it in a .safetensors file, for the heat maps.
"""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import RunError
from ..experiment.config import Config
from ..experiment.folder import RunFolder
from ..report import Group
from ..storage import load_arrays, save_arrays, write_atomic

FORMAT = 1
BUDGET = (
    "data",
    "network",
    "method",
    "epochs",
    "steps_per_epoch",
    "batch_size",
)  # what a cell is; the rest is how it was computed
QUANTILES = np.linspace(0.0, 1.0, 201)
LARGEST_PICTURE = 400_000  # weights of a first layer that is kept


@dataclass(frozen=True)
class CellResult:
    """A group of runs without their arrays, and what the figures need of those."""

    group: Group
    commit: str | None
    quantiles: dict[str, np.ndarray]  # layer → |posterior mean| at QUANTILES, of the first seed
    first_layer: np.ndarray | None  # outputs × inputs, of the first seed

    @property
    def key(self) -> tuple[str, str, str]:
        config = self.group.config
        return config.data, config.network, config.method


def cell_file(out: Path, name: str) -> Path:
    return out / "cells" / f"{name}.json"


def finished_seeds(path: Path, config: Config) -> list[int]:
    """The seeds a cell's file holds; none where there is no file, or it is of another budget."""
    if not path.is_file():
        return []
    values = _read(path)
    return values["seeds"] if is_same_cell(Config.from_results(values["config"], path), config) else []


def is_same_cell(one: Config, other: Config) -> bool:
    """Whether two configurations are of the same cell and budget."""
    return all(getattr(one, name) == getattr(other, name) for name in BUDGET)


def budget_options(config: Config) -> dict[str, Any]:
    """How a cell is trained, as options of `occamax reproduce`."""
    return {
        "epochs": config.epochs, "steps": config.steps_per_epoch, "batch": config.batch_size,
        "samples": config.num_samples, "curve-samples": config.curve_samples or config.num_samples,
        "precision": config.compute_dtype,
    }  # fmt: skip


def command_of(config: Config, seeds: Sequence[int]) -> str:
    """The command that makes a cell by itself, as part of whatever grid it was made."""
    names = {"data": config.data, "networks": config.network, "methods": config.method, "seeds": max(seeds) + 1}
    options = names | budget_options(config)
    words = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    return shlex.join(["occamax", "reproduce", *words])


def write_cell(path: Path, runs: Sequence[Path]) -> None:
    """Writes the runs' figures. Other seeds that the file already holds of the same cell stay in it: seeds may be
    trained at different times, on machines that do not see each other's runs."""
    folders = [RunFolder.open(run) for run in runs]
    config = folders[0].config()
    kept = _read(path) if finished_seeds(path, config) else {"seeds": [], "metrics": [], "summaries": []}
    figures = dict(zip(kept["seeds"], zip(kept["metrics"], kept["summaries"], strict=True), strict=True))
    for folder in folders:
        figures[folder.config().seed] = (_columns(folder.metrics()), folder.read_json("summary.json"))
    seeds = sorted(figures)
    weights = folders[0].weights()
    is_first = config.seed == seeds[0]  # the spread and the picture are the first seed's
    own: dict[str, Any] = {"config": config.as_dict(), "settings": config.settings["method"]}
    if not is_first:  # a cell of 0.1 also says where it knows these from
        own = {name: kept[name] for name in ("config", "settings", "provenance") if name in kept}
    values = {
        "format": FORMAT,
        **own,
        "command": command_of(Config.from_results(own["config"], path), seeds),
        "seeds": seeds,
        "metrics": [figures[seed][0] for seed in seeds],
        "summaries": [figures[seed][1] for seed in seeds],
        "quantiles": {n: _quantiles(matrix) for n, matrix in weights.items()} if is_first else kept["quantiles"],
    }
    values["commit"] = values["summaries"][0].get("commit")
    path.parent.mkdir(parents=True, exist_ok=True)
    first = next(iter(weights.values()))
    if is_first and config.network in ("mlp", "lenet") and first.size <= LARGEST_PICTURE:
        save_arrays(path.with_suffix(".safetensors"), {"first_layer": first.astype(np.float16)}, {})
    write_atomic(path, (json.dumps(values) + "\n").encode())


def _columns(lines: list[dict[str, Any]]) -> dict[str, list[float]]:
    return {name: [round(line[name], 6) for line in lines] for name in lines[0]}


def _quantiles(matrix: np.ndarray) -> list[float]:
    return [float(f"{value:.4g}") for value in np.quantile(np.abs(matrix), QUANTILES)]


def read_cells(out: Path) -> list[CellResult]:
    """The cells that are finished, in the order of their names."""
    return [read_cell(path) for path in sorted((out / "cells").glob("*.json"))]


def read_cell(path: Path) -> CellResult:
    values = _read(path)
    config = Config.from_results(values["config"], path)
    columns = values["metrics"]
    metrics = [[dict(zip(run, line, strict=True)) for line in zip(*run.values(), strict=True)] for run in columns]
    picture = path.with_suffix(".safetensors")
    first = load_arrays(picture)[0]["first_layer"].astype(np.float32) if picture.is_file() else None
    quantiles = {name: np.array(line) for name, line in values["quantiles"].items()}
    return CellResult(Group(config, [], metrics, values["summaries"]), values.get("commit"), quantiles, first)


def _read(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text())
        if values["format"] != FORMAT:
            raise RunError(f"{path}: is of format {values['format']}; this version of occamax reads {FORMAT}")
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path}: is no cell of `occamax reproduce` ({error}). Delete it to train it again.") from error
    return values
