"""The published figures (published.csv says how they were read), ours beside them, and the paper's claims as checks."""

import csv
from dataclasses import dataclass
from importlib.resources import files

from ..names import LABELS

COLUMNS = ("accuracy", "nll", "ece", "pruned")


@dataclass(frozen=True)
class Figure:
    """A published value; `is_bound` where only a lower bound could be read (off the plot)."""

    value: float
    is_bound: bool = False

    def __str__(self) -> str:
        return f"{'>' * self.is_bound}{short(self.value)}"


def published() -> dict[tuple[str, str, str], dict[str, Figure]]:
    """(data, network, method) → its published figures."""
    names = {label: name for name, label in LABELS.items()}
    text = (files("occamax") / "reproduction" / "published.csv").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    table = {}
    for row in csv.DictReader(lines):
        key = row["dataset"], row["network"], names[row["method"]]
        table[key] = {name: _figure(row[name]) for name in COLUMNS if row[name]}
    return table


def _figure(text: str) -> Figure:
    return Figure(float(text.removeprefix(">")), text.startswith(">"))


def short(value: float) -> str:
    """Three decimals, without the zero before the point."""
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"
