"""Ours beside the published figures: one row a cell, and where the two differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from ..names import LABELS
from ..report import Group, winner
from .cells import CellResult
from .grid import DATA, NETWORKS
from .published import COLUMNS, Figure, published, short

FIELD = {"accuracy": "accuracy", "nll": "nll", "ece": "ece", "pruned": "sparsity"}  # column → name in a summary
BOUND = "neg_elbo"  # a column of ours alone: the paper has no figures of it
BETTER = {"accuracy": 1, "nll": -1, "ece": -1, "pruned": 1}  # the sign of a difference for the better


@dataclass(frozen=True)
class Row:
    """One cell's figures: ours (mean over seeds), published, and in which columns ours is the best method."""

    key: tuple[str, str, str]
    seeds: int
    ours: dict[str, float]
    published: dict[str, Figure]
    best: frozenset[str] = frozenset()
    deviation: Mapping[str, float | None] | None = None  # of one seed; None where there is one
    neg_elbo: float | None = None  # at β = 1; None where the file has none, and for point estimates
    mask_nats: float | None = None  # what naming the mask costs on top; None where nothing is pruned
    floor: float | None = None  # of the ECE; None where it was not kept

    def difference(self, column: str) -> float | None:
        """Ours less the published; None where there is none, or only a bound that ours does not contradict."""
        figure = self.published.get(column)
        if figure is None or (figure.is_bound and self.ours[column] >= figure.value):
            return None
        return self.ours[column] - figure.value


def compare(results: Sequence[CellResult]) -> list[Row]:
    """One row a cell, in the paper's order."""
    rows = []
    for result in sorted(results, key=lambda result: place(result.key)):
        rivals = [other.group for other in results if other.key[:2] == result.key[:2]]
        rows.append(replace(_row(result), best=_best(result.group, rivals)))
    return rows


def _row(result: CellResult) -> Row:
    group = result.group
    values = {column: group.value(FIELD[column]) for column in COLUMNS} | {"neg_elbo": group.value("neg_elbo")}
    means = {column: float(each.mean()) for column, each in values.items()}
    deviation = {name: float(each.std(ddof=1)) if len(each) > 1 else None for name, each in values.items()}
    neg_elbo = means.pop("neg_elbo")
    sizes = [summary["sizes"]["layers"] for summary in group.summaries if "sizes" in summary]
    named = float(np.mean([mask_nats(layers) for layers in sizes])) if sizes and means["pruned"] else None
    has_bound = np.isfinite(neg_elbo) and result.key[2] != "map"  # a point mass has no evidence bound
    table = published().get(result.key, {})
    bound = neg_elbo if has_bound else None
    floor = float(group.value("ece_floor").mean())
    floor = floor if np.isfinite(floor) else None
    return Row(result.key, len(group.summaries), means, table, frozenset(), deviation, bound, named, floor)


def mask_nats(layers: Sequence[Mapping[str, Any]]) -> float:
    """−ln p(mask) under the paper's own prior: each layer's share of useful weights uniform, Beta(1, 1), so that a mask
    with k of n weights has probability 1 / ((n + 1) · (n over k)). The output layer, the last, is never reduced."""
    n, k = (np.array([layer[name] for layer in layers[:-1]], float) for name in ("weights", "remaining"))
    return float(np.sum(np.log(n + 1) + gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)))


def place(key: tuple[str, str, str]) -> tuple[int, ...]:
    orders = (DATA, NETWORKS, tuple(LABELS))
    return tuple(order.index(name) if name in order else len(order) for name, order in zip(key, orders, strict=True))


def _best(group: Group, rivals: Sequence[Group]) -> frozenset[str]:
    """The columns in which a group wins against its rivals, itself among them, beyond chance."""
    winners = {column: winner(rivals, name) for column, name in {**FIELD, BOUND: BOUND}.items()}
    return frozenset(column for column, i in winners.items() if i is not None and rivals[i] is group)


def tolerance(row: Row, column: str) -> float:
    """How far from the published figure still counts as published."""
    return {"accuracy": 0.015, "nll": 0.15 if row.key[0] == "cifar100" else 0.04, "ece": 0.015, "pruned": 0.05}[column]


def deviations(row: Row) -> dict[str, float]:
    """Column → difference, where that is more than the tolerance, to either side."""
    found = {column: row.difference(column) for column in COLUMNS}
    return {name: value for name, value in found.items() if value is not None and abs(value) > tolerance(row, name)}


def misses(row: Row) -> list[str]:
    """Where ours is worse than published by more than the tolerance."""
    return [
        f"{column} {short(row.ours[column])} for {row.published[column]}"
        for column, difference in deviations(row).items()
        if difference * BETTER[column] < 0
    ]
