"""The comparison as rows of text, for a terminal and for a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from .runs import Group


@dataclass(frozen=True)
class Column:
    title: str
    digits: int
    best: str | None  # "high", "low", or None where no value is better


COLUMNS = {
    "accuracy": Column("accuracy", 3, "high"),
    "nll": Column("NLL", 3, "low"),
    "ece": Column("ECE", 3, "low"),
    "brier": Column("Brier", 3, "low"),
    "rmse": Column("RMSE", 3, "low"),
    "sparsity": Column("pruned", 3, "high"),
    "steps_per_second": Column("steps/s", 0, None),
    "seconds": Column("seconds", 0, None),
}


def comparison(
    groups: Sequence[Group], names: Sequence[str] = tuple(COLUMNS), brief: bool = False
) -> tuple[list[str], list[list[str]], list[list[bool]]]:
    """Header, rows, and which entries are the best of their column among these groups. `brief` leaves out the
    deviations over seeds and the weights kept."""
    names = [name for name in names if any(np.isfinite(group.value(name)).any() for group in groups)]
    header = ["method", *(COLUMNS[name].title for name in names)] + ["weights kept"] * (not brief)
    rows = [[group.label, *(_entry(group, name, brief) for name in names)] for group in groups]
    if not brief:
        rows = [[*row, _kept(group)] for row, group in zip(rows, groups, strict=True)]
    best = [[False] * len(header) for _ in groups]
    for i, name in enumerate(names, start=1):
        column = COLUMNS[name]
        means = np.array([group.value(name).mean() for group in groups])
        if not np.isfinite(means).any():
            continue
        if column.best is not None and len(groups) > 1:
            winner = np.nanmax(means) if column.best == "high" else np.nanmin(means)
            for row, mean in enumerate(means):
                best[row][i] = bool(mean == winner)
    return header, rows, best


def _entry(group: Group, name: str, brief: bool) -> str:
    values, digits = group.value(name), COLUMNS[name].digits
    text = f"{values.mean():,.{digits}f}"
    if brief or len(values) == 1 or not digits or not values.any():
        return text
    return f"{text}±{values.std(ddof=1):.{digits}f}".replace("±0.", "±.")


def _kept(group: Group) -> str:
    sizes = [summary["sizes"] for summary in group.summaries]
    return f"{np.mean([size['remaining'] for size in sizes]):,.0f}"


def print_comparison(groups: Sequence[Group]) -> None:
    """One table a data set and network."""
    console = Console(highlight=False)
    for cell, members in groupby(groups, key=lambda group: group.cell):
        header, rows, best = comparison(list(members), ("accuracy", "nll", "ece", "rmse", "sparsity"))
        table = Table(*header, title=" · ".join(cell), title_justify="left", box=SIMPLE_HEAD)
        for column in table.columns[1:]:
            column.justify = "right"
        for row, flags in zip(rows, best, strict=True):
            table.add_row(*(f"[bold]{entry}[/bold]" if flag else entry for entry, flag in zip(row, flags, strict=True)))
        console.print(table)
