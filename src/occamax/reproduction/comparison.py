"""Ours beside the published figures, and the paper's sentences as checks."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..names import LABELS
from .cells import CellResult
from .grid import DATA, NETWORKS
from .published import COLUMNS, Figure, published, short

FIELD = {"accuracy": "accuracy", "nll": "nll", "ece": "ece", "pruned": "sparsity"}  # column → name in a summary
BAYESIAN = ("flat", "tiered", "bmr-paper")


@dataclass(frozen=True)
class Row:
    """One cell's figures: ours (mean over seeds), published, and in which columns ours is the best method."""

    key: tuple[str, str, str]
    seeds: int
    ours: dict[str, float]
    published: dict[str, Figure]
    best: frozenset[str] = frozenset()

    def difference(self, column: str) -> float | None:
        """Ours less the published; None where there is none, or only a bound that ours does not contradict."""
        figure = self.published.get(column)
        if figure is None or (figure.is_bound and self.ours[column] >= figure.value):
            return None
        return self.ours[column] - figure.value


def compare(results: Sequence[CellResult]) -> list[Row]:
    """One row a cell, in the paper's order."""
    table = published()
    rows = []
    for result in sorted(results, key=lambda result: place(result.key)):
        ours = {column: float(result.group.value(FIELD[column]).mean()) for column in COLUMNS}
        rows.append(Row(result.key, len(result.group.summaries), ours, table.get(result.key, {})))
    return [Row(row.key, row.seeds, row.ours, row.published, _best(row, rows)) for row in rows]


def place(key: tuple[str, str, str]) -> tuple[int, ...]:
    orders = (DATA, NETWORKS, tuple(LABELS))
    return tuple(order.index(name) if name in order else len(order) for name, order in zip(key, orders, strict=True))


def _best(row: Row, rows: Iterable[Row]) -> frozenset[str]:
    rivals = [other for other in rows if other.key[:2] == row.key[:2]]
    if len(rivals) < 2:
        return frozenset()
    better = {"accuracy": max, "nll": min, "ece": min, "pruned": max}
    return frozenset(
        column
        for column in COLUMNS
        if row.ours[column] == better[column](other.ours[column] for other in rivals)
        and (column != "pruned" or row.ours[column] > 0)
    )


Timings = Mapping[tuple[str, str], float]  # network, method → seconds a step


@dataclass(frozen=True)
class Check:
    """A sentence that can be checked. `holds` is None where the runs for it are missing."""

    sentence: str
    holds: bool | None
    numbers: str


def checks(results: Sequence[CellResult], timings: Timings | None = None) -> list[Check]:
    """The paper's sentences. `timings` of steps alone on the device are better than those of runs that shared it."""
    rows = compare(results)
    return [
        agreement(rows),
        *(lowest(rows, column) for column in ("ece", "nll")),
        sparser(results),
        faster(timings or run_timings(results)),
    ]


def agreement(rows: Sequence[Row]) -> Check:
    """BMR-S&S as published: within the tolerances, or better."""
    own = [row for row in rows if row.key[2] == "bmr-paper" and row.published]
    missed = [f"{' · '.join(row.key[:2])} ({', '.join(misses(row))})" for row in own if misses(row)]
    numbers = f"{len(own) - len(missed)} of {len(own)} cells" + (f"; missed: {'; '.join(missed)}" if missed else "")
    sentence = (
        "BMR-S&S is as published or better: accuracy −.015, NLL +.04 (CIFAR-100 +.15), ECE +.015, pruned −.05, in "
        "at least 10 of 12 cells"
    )
    return Check(sentence, len(own) - len(missed) >= 10 if len(own) == 12 else None, numbers)


def misses(row: Row) -> list[str]:
    """Where ours is worse than published by more than the tolerance."""
    slack = {"accuracy": -0.015, "nll": 0.15 if row.key[0] == "cifar100" else 0.04, "ece": 0.015, "pruned": -0.05}
    found = []
    for column, limit in slack.items():
        difference = row.difference(column)
        if difference is not None and difference * np.sign(limit) > abs(limit):
            found.append(f"{column} {short(row.ours[column])} for {row.published[column]}")
    return found


def lowest(rows: Sequence[Row], column: str) -> Check:
    holds, full, against = 0, 0, []
    cells = {row.key[:2] for row in rows}
    for cell in sorted(cells, key=lambda cell: place((*cell, "map"))):
        values = {row.key[2]: row.ours[column] for row in rows if row.key[:2] == cell and row.key[2] in BAYESIAN}
        if len(values) < len(BAYESIAN):
            continue
        full += 1
        winner = min(values, key=lambda name: values[name])
        holds += winner == "bmr-paper"
        if winner != "bmr-paper":
            both = f"{LABELS[winner]} {short(values[winner])}, BMR-S&S {short(values['bmr-paper'])}"
            against.append(f"{' · '.join(cell)} ({both})")
    numbers = f"{holds} of {full} cells" + (f"; not in {'; '.join(against)}" if against else "")
    sentence = f"BMR-S&S has the lowest {column.upper()} of the Bayesian methods"
    return Check(sentence, holds == full if full else None, numbers)


def sparser(results: Sequence[CellResult]) -> Check:
    """At every threshold: the quantiles of |mean| lie below Tiered-FF's, layer by layer, the output layer apart."""
    by_key = {result.key: result for result in results}
    parts, all_hold = [], True
    for network in ("mlp", "lenet"):
        pair = [by_key.get(("fashion_mnist", network, method)) for method in ("bmr-paper", "tiered")]
        if pair[0] is None or pair[1] is None:
            continue
        shares = [
            float(np.mean(pair[0].quantiles[layer] <= pair[1].quantiles[layer]))
            for layer in list(pair[0].quantiles)[:-1]
        ]
        parts.append(f"{network}: share of thresholds by layer {', '.join(f'{share:.0%}' for share in shares)}")
        all_hold &= min(shares) == 1.0
    sentence = "BMR-S&S is sparser than Tiered-FF at every threshold (Fashion-MNIST)"
    return Check(sentence, all_hold if parts else None, "; ".join(parts) or "not run")


def run_timings(results: Sequence[CellResult]) -> Timings:
    """Seconds a step as the runs noted them, the mean over data sets."""
    found: dict[tuple[str, str], list[float]] = {}
    for result in results:
        _, network, method = result.key
        found.setdefault((network, method), []).append(1 / float(result.group.value("steps_per_second").mean()))
    return {key: float(np.mean(values)) for key, values in found.items()}


def measured_timings(folder: Path) -> Timings:
    """Seconds a step from the GPU's tables of `benchmarks/speed.py` in a folder; later files count where two have the
    same network."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        values = json.loads(path.read_text())
        if values.get("device", "").startswith("gpu") and "ceilings" in values:
            for network, rows in values["networks"].items():
                found |= {(network, row["name"]): row["ms_per_step"] / 1e3 for row in rows if "ms_per_step" in row}
    return found


def faster(timings: Timings) -> Check:
    parts, gains = [], []
    for network in NETWORKS:
        ours, theirs = timings.get((network, "bmr-paper")), timings.get((network, "tiered"))
        if ours is not None and theirs is not None:
            gains.append(1 - ours / theirs)
            parts.append(f"{network} {gains[-1]:.0%}")
    sentence = "A step of BMR-S&S takes 30 % less time than one of Tiered-FF"
    return Check(sentence, min(gains) >= 0.3 if gains else None, ", ".join(parts) or "not run")
