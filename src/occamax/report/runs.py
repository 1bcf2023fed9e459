"""Run folders as rows of a comparison: runs that differ only in their seed are one row."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import RunError
from ..experiment.config import Config
from ..experiment.folder import ENSEMBLE, RunFolder
from ..names import LABELS, label

MOST_FOLDERS = 10_000


@dataclass(frozen=True)
class Group:
    """The runs of one method on one data set and network."""

    config: Config  # of the first seed
    folders: list[RunFolder]  # empty where only figures were kept
    metrics: list[list[dict[str, Any]]]
    summaries: list[dict[str, Any]]
    place: str = ""  # of its folder, where others of its data set and network have the same name
    number: int = 0  # among these
    together: int = 0  # of so many networks as one, in place of runs side by side

    @property
    def label(self) -> str:
        several = f", {self.together} together" if self.together else ""
        return label(self.config.method) + (f" ({self.place})" if self.place else "") + several

    @property
    def tempered(self) -> float | None:
        """The last KL weight, where it was not one; a point estimate has no posterior to be tempered."""
        first = self.summaries[0]
        weight = first.get("kl_weight", first.get("divergence_weight", 1.0))  # 0.1 called it so
        return None if weight == 1.0 or self.is_point else weight

    @property
    def temperature(self) -> float | None:
        """By which its outputs are divided, the mean over seeds; None where they are as they were trained."""
        return self._mean_of("temperature")

    @property
    def noise(self) -> float | None:
        """By which its deviations were multiplied, the mean over seeds; None where they are as they were trained."""
        return self._mean_of("noise")

    def _mean_of(self, name: str) -> float | None:
        found = [summary[name] for summary in self.summaries if name in summary]
        return float(np.mean(found)) if found else None

    @property
    def is_point(self) -> bool:
        """Whether it is a point estimate, whose cost bounds nothing."""
        kind = self._method_part("posterior").get("kind")
        return self.config.method == "map" if kind is None else kind == "PointMass"

    @property
    def held_out(self) -> tuple[int, int] | None:
        """Which examples were held out of training: one in so many, at most so many. None where none were."""
        found = self._method_part("calibration")
        return (found["one_in"], found["most"]) if found else None

    def _method_part(self, name: str) -> dict[str, Any]:
        """A part of the method, as data; nothing for results of 0.1, which have only its name."""
        method = self.config.settings.get("method")
        found = method.get(name) if isinstance(method, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def cell(self) -> tuple[str, str]:
        return self.config.data, self.config.network

    def curve(self, name: str) -> np.ndarray:
        """Seeds × epochs."""
        length = min(map(len, self.metrics))
        return self._numbers(name, [[line.get(name, np.nan) for line in run[:length]] for run in self.metrics])

    def lines(self, name: str) -> list[dict[str, Any]]:
        """A .jsonl file of the first run; none where its folder was not kept."""
        return self.folders[0].lines(name) if self.folders else []

    def examples(self) -> dict[str, Any]:
        """What the first run says of single test examples; nothing where that was not kept, as before 0.2."""
        if not self.folders or not (self.folders[0].path / "examples.json").is_file():
            return {}
        return self.folders[0].read_json("examples.json")

    def value(self, name: str) -> np.ndarray:
        """The last value of each seed; not a number where there is none, as of a point estimate's bound."""
        if name == "neg_elbo" and self.is_point:
            return np.full(len(self.summaries), np.nan)
        return self._numbers(name, [summary.get(name) for summary in self.summaries])

    def spread(self, name: str) -> float:
        """By how much a value changes by chance: its deviation over seeds. Of one seed it is not known and taken for
        nothing, except for the calibration error, of which chance alone makes some."""
        values = self.value(name)
        if len(values) > 1:
            return float(values.std(ddof=1))
        if name == "ece":
            floor = float(self.value("ece_floor_std")[0])
            return floor if np.isfinite(floor) else np.inf
        return 0.0

    def _numbers(self, name: str, values: list) -> np.ndarray:
        try:
            return np.array(values, float)
        except (TypeError, ValueError) as error:
            where = self.folders[0].path if self.folders else " · ".join(self.cell)
            raise RunError(f"{where}: is damaged, its {name} is not a number everywhere ({error})") from error


def read_groups(paths: Iterable[Path]) -> list[Group]:
    """Finished runs, grouped, in the order of the methods. A folder of run folders counts as its runs. Seeds that were
    made an ensemble of stand below their group as one."""
    found: dict[str, list[RunFolder]] = {}
    for path in paths:
        for folder in _runs_in(Path(path)):
            if not (folder.path / "summary.json").is_file():
                raise RunError(f"{folder.path}: the run is not finished (no summary.json). Continue it with `resume`.")
            found.setdefault(_same_but_for_seed(folder.config()), []).append(folder)
    groups = [
        Group(
            folders[0].config(), folders, [f.metrics() for f in folders], [f.read_json("summary.json") for f in folders]
        )
        for folders in found.values()
    ]
    return [row for group in told_apart(in_order(groups)) for row in (group, *_together(group))]


def _together(group: Group) -> list[Group]:
    """The ensemble of a group's seeds, if there is one."""
    parents = {folder.path.parent for folder in group.folders}
    parent = RunFolder(parents.pop())
    if parents or not (parent.path / ENSEMBLE).is_file():
        return []
    known, first = parent.read_json(ENSEMBLE), group.summaries[0]
    try:
        if sorted(known["members"]) != sorted(folder.path.name for folder in group.folders) or not known["figures"]:
            return []
        sizes = {"sparsity": known["sparsity"], "sizes": {"remaining": known["weights"]}}
        own = {name: first[name] for name in ("kl_weight", "device") if name in first}
        summary = {**known["figures"], **sizes, **own, "temperature": known["temperature"]}
        return [replace(group, folders=[], metrics=[[]], summaries=[summary], together=len(known["members"]))]
    except (KeyError, TypeError) as error:
        where = parent.path / ENSEMBLE
        raise RunError(f"{where}: is damaged ({type(error).__name__}: {error})") from error


def told_apart(groups: Sequence[Group]) -> list[Group]:
    """Groups of one name on the same data set and network, as of one method with other values, also say where they are
    kept, from where their paths part."""
    alike: dict[tuple, list[Group]] = {}
    for group in groups:
        alike.setdefault((group.cell, group.label), []).append(group)
    places = {}
    for members in alike.values():
        paths = [[folder.path.resolve() for folder in group.folders] for group in members]
        folders = [Path(os.path.commonpath(own)) for own in paths]
        if len(set(folders)) < len(folders):  # seeds of several lie side by side
            folders = [own[0] for own in paths]
        above = os.path.commonpath([folder.parent for folder in folders])
        for number, (group, folder) in enumerate(zip(members, folders, strict=True)):
            places[id(group)] = (str(folder.relative_to(above)) if len(members) > 1 else "", number)
    return [replace(group, place=place, number=number) for group in groups for place, number in [places[id(group)]]]


def in_order(groups: Iterable[Group]) -> list[Group]:
    """By data set and network, then in the order of the methods."""
    order = list(LABELS)

    def place(group: Group) -> tuple:
        method = group.config.method
        return group.cell, order.index(method) if method in order else len(order), method

    return sorted(groups, key=place)


def _same_but_for_seed(config: Config) -> str:
    return json.dumps(replace(config, seed=0).as_dict(), sort_keys=True)


def _runs_in(path: Path) -> list[RunFolder]:
    if (path / "config.json").is_file() or not path.is_dir():
        return [RunFolder.open(path)]
    inside = sorted(_search(path))
    if not inside:
        raise RunError(
            f"{path}: there is no run folder in it. Name folders that `fit(out=…)` or `occamax train` wrote."
        )
    return [RunFolder.open(child) for child in inside]


def _search(path: Path) -> Iterator[Path]:
    """Run folders anywhere inside, within reason."""
    for number, (place, folders, files) in enumerate(os.walk(path)):
        if number > MOST_FOLDERS:
            raise RunError(
                f"{path}: holds more than {MOST_FOLDERS} folders. Name the run folders, or one nearer to them."
            )
        if "config.json" in files:
            yield Path(place)
            folders.clear()  # there is no run in a run
