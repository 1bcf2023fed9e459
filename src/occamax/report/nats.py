"""What ΔF foretold of each reduction, beside what was measured."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from .runs import Group

FIELDS = "removed", "predicted", "expected_nll", "divergence", "data_count"


class Foretold(NamedTuple):
    """One reduction, in nats, positive where the network is better without what was removed. **predicted** the ΔF of
    what went, summed. **measured** what the bound that this ΔF is of gained; **evidence** what the evidence bound did,
    in which every datum counts once. They are one where nothing is tempered."""

    epoch: int  # that follows it
    predicted: float
    measured: float
    evidence: float
    is_undone: bool

    @property
    def is_right(self) -> bool:
        """Whether the prediction has the sign of what was measured."""
        return (self.predicted >= 0) == (self.measured >= 0)


def foretold(lines: Sequence[dict[str, Any]]) -> list[Foretold]:
    """The reductions of a run that removed something; none where any of them was not measured, as before 0.2."""
    found = []
    for line in lines:
        values: list[Any] = [line.get(name) for name in FIELDS]
        if not all(isinstance(value, int | float) and math.isfinite(value) for value in values):
            return []
        removed, predicted, expected_nll, divergence, data_count = values
        if removed:
            gains = -(data_count * expected_nll + divergence), -(expected_nll + divergence)
            found.append(Foretold(line["epoch"], predicted, *gains, bool(line.get("undone"))))
    return found


def is_tempered(found: Sequence[Foretold]) -> bool:
    """Whether ΔF was of another bound than that of the evidence, in any of them."""
    return any(one.measured != one.evidence for one in found)


def signed(nats: float) -> str:
    """With its sign, and thousands apart."""
    return "0" if abs(nats) < 0.5 else f"{'+' if nats > 0 else '−'}{abs(nats):,.0f}"


def in_words(group: Group) -> str:
    """What the figure says, with the count of right signs over all seeds."""
    runs = [run for run in (foretold(folder.lines("reductions.jsonl")) for folder in group.folders) if run]
    every = [one for run in runs for one in run]
    right, stood = sum(one.is_right for one in every), [one for one in every if not one.is_undone]
    total = {name: signed(sum(getattr(one, name) for one in stood)) for name in ("predicted", "measured", "evidence")}
    seeds = f" in {len(runs)} runs (the first is drawn)" if len(runs) > 1 else ""
    undone = len(every) - len(stood)
    parts = [
        "Before a reduction ΔF says how many nats the bound gains by it, as if weights were independent of each other; "
        "then the gain is measured, on training examples, with the same draws of the weights before and after. Above "
        "zero the network is the better model without what was removed.",
        f"The sign was right in {right} of {len(every)} reductions{seeds}.",
        f"{undone} of them {'was' if undone == 1 else 'were'} undone, since the fit did not recover." if undone else "",
        f"{'Those that stood' if undone else 'Together they'} were to gain {total['predicted']} nats and gained "
        f"{total['measured']} at once",
    ]
    if is_tempered(every):
        parts[-1] += f" in the tempered bound that ΔF is of; the evidence bound changed by {total['evidence']}"
    return " ".join(filter(None, parts)) + "."
