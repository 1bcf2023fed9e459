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
    "ece_floor": Column("floor", 3, None),
    "brier": Column("Brier", 3, "low"),
    "rmse": Column("RMSE", 3, "low"),
    "neg_elbo": Column("−ELBO", 0, "low"),
    "sparsity": Column("pruned", 3, "high"),
    "steps_per_second": Column("steps/s", 0, None),
    "seconds": Column("seconds", 0, None),
}


SHOWN = ("accuracy", "nll", "ece", "ece_floor", "rmse", "neg_elbo", "sparsity")  # where there is little room


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
        place = winner(groups, name)
        if place is not None:
            best[place][i] = True
    return header, rows, best


def winner(groups: Sequence[Group], name: str) -> int | None:
    """The place of the group that is the best in this column beyond chance, as `legend` says; None where none is."""
    rivals = [i for i, group in enumerate(groups) if np.isfinite(group.value(name).mean())]
    if COLUMNS[name].best is None or len(rivals) < 2:
        return None
    if name == "neg_elbo" and _hold_out_others([groups[i] for i in rivals]):
        return None
    sign = 1.0 if COLUMNS[name].best == "high" else -1.0
    means = {i: sign * groups[i].value(name).mean() for i in rivals}
    best = max(rivals, key=lambda i: means[i])
    spreads = {i: np.hypot(groups[i].spread(name), groups[best].spread(name)) for i in rivals}
    return best if all(means[best] - means[i] > spreads[i] for i in rivals if i != best) else None


def legend(groups: Sequence[Group]) -> str:
    """What a table of these groups shows, in words: which entry is bold, what the floor and the bound are, and
    which posteriors are tempered."""
    parts = []
    if len(groups) > 1:
        parts.append(_bold({len(group.summaries) for group in groups if not group.together}))
    if any(np.isfinite(group.value("ece_floor")).any() for group in groups):
        parts.append("Floor: the ECE that a perfectly calibrated network with the same confidences would show.")
    if any(np.isfinite(group.value("ece")).any() > np.isfinite(group.value("ece_floor")).any() for group in groups):
        parts.append(
            "An ECE without its floor is of a run that did not keep one: with 10,000 test examples a perfectly "
            "calibrated network shows some .007 at an accuracy of .9 and .015 at .3 to .6."
        )
    bounds = [group for group in groups if np.isfinite(group.value("neg_elbo")).any()]
    if bounds:
        words = "−ELBO: nats over the examples trained on, at a KL weight of one; lower is better"
        words += "; none is bold among methods that hold out different examples" if _hold_out_others(bounds) else ""
        words += "; a point estimate has no such bound" if len(bounds) < len(groups) else ""
        parts.append(words + ".")
    if any(group.together for group in groups):
        parts.append(
            "Together: the average of what the networks say, with one temperature for all; pruned is of each of them, "
            "the weights kept are those of all."
        )
    tempered = [f"{group.label} (KL weight {group.tempered:.3g})" for group in groups if group.tempered is not None]
    if tempered:
        parts.append(f"Tempered posterior: {', '.join(dict.fromkeys(tempered))}.")
    return " ".join(parts)


def _bold(seeds: set[int]) -> str:
    """What bold means, by how many seeds the methods have."""
    if seeds == {1}:
        return "Bold: the best; of ECE only where the difference is more than chance makes."
    words = "Bold: better than every other by more than the deviations over seeds of the two, combined"
    return words + ("; where there is one seed, that is taken for none, except of ECE." if 1 in seeds else ".")


def _hold_out_others(groups: Sequence[Group]) -> bool:
    """Whether they are trained on different examples, so that their bounds are of different data."""
    return len({group.held_out for group in groups}) > 1


def _entry(group: Group, name: str, brief: bool) -> str:
    values, column = group.value(name), COLUMNS[name]
    if not np.isfinite(values.mean()):
        return "–"
    text = f"{values.mean():,.{column.digits}f}"
    if brief or len(values) == 1 or column.best is None or not values.any():
        return text
    return f"{text}±{values.std(ddof=1):,.{column.digits}f}".replace("±0.", "±.")


def _kept(group: Group) -> str:
    sizes = [summary["sizes"] for summary in group.summaries]
    return f"{np.mean([size['remaining'] for size in sizes]):,.0f}"


def print_comparison(groups: Sequence[Group]) -> None:
    """One table a data set and network, and what it shows in words."""
    console = Console(highlight=False)
    if not console.is_terminal:  # a file has room
        console = Console(highlight=False, width=max(console.width, 120))
    for cell, members in groupby(groups, key=lambda group: group.cell):
        header, rows, best = comparison(list(members), SHOWN)
        table = Table(*header, title=" · ".join(cell), title_justify="left", box=SIMPLE_HEAD)
        for column in table.columns[1:]:
            column.justify, column.overflow = "right", "fold"
        for row, flags in zip(rows, best, strict=True):
            table.add_row(*(f"[bold]{entry}[/bold]" if flag else entry for entry, flag in zip(row, flags, strict=True)))
        console.print(table)
    console.print(legend(groups))
