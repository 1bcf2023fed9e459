"""The paper's sentences as checks, each computed from the cells."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..names import LABELS
from .cells import CellResult
from .comparison import Row, compare, misses, place
from .grid import METHODS, NETWORKS
from .published import short

BAYESIAN = ("flat", "tiered", "bmr-paper")
COMPARABLE = 0.05  # accuracies so near to one another are called comparable here; the paper gives no number
ECE_CHANCE = 0.0026  # by which the ECE of one seed on 10,000 images differs by chance, at CIFAR-10's accuracies
REMOVED = 0.01  # a feature with less than this share of the largest one's norm is called removed

Timings = Mapping[tuple[str, str], float]  # network, method → seconds a step
Cells = dict[tuple[str, str], dict[str, Row]]  # data, network → method → row


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
        comparable(rows),
        *(lowest(rows, column) for column in ("ece", "nll")),
        *(followed(rows, column) for column in ("ece", "nll")),
        evidence(rows),
        evidence_with_mask(rows),
        sparser(results),
        over_pruning(results),
        faster(timings or run_timings(results)),
    ]


def agreement(rows: Sequence[Row]) -> Check:
    """BMR-S&S as published: within the tolerances, or better."""
    own = [row for row in rows if row.key[2] == "bmr-paper" and row.published]
    missed = [f"{' · '.join(row.key[:2])} ({', '.join(misses(row))})" for row in own if misses(row)]
    numbers = f"{len(own) - len(missed)} of {len(own)} cells" + (f"; missed: {'; '.join(missed)}" if missed else "")
    sentence = (
        "BMR-S&S is as published or better: accuracy −.015, NLL +.04 (CIFAR-100 +.15), ECE +.015, pruned −.05, in "
        "at least 10 of 12 cells (our sentence)"
    )
    return Check(sentence, len(own) - len(missed) >= 10 if len(own) == 12 else None, numbers)


def _cells(rows: Sequence[Row], methods: Sequence[str]) -> Cells:
    """The cells that were run with all of these methods, in the paper's order."""
    found: Cells = {}
    for row in rows:
        found.setdefault(row.key[:2], {})[row.key[2]] = row
    ordered = sorted(found, key=lambda cell: place((*cell, "map")))
    return {cell: found[cell] for cell in ordered if set(methods) <= set(found[cell])}


def _count(sentence: str, cells: Cells, fails: Callable[[dict[str, Row]], str], allowed: Callable[[int], int]) -> Check:
    """In how many cells a sentence holds. `fails` says why not in one, or nothing; `allowed` how many may fail."""
    against = [f"{' · '.join(cell)} ({why})" for cell, rows in cells.items() if (why := fails(rows))]
    numbers = f"{len(cells) - len(against)} of {len(cells)} cells"
    numbers += f"; not in {'; '.join(against)}" if against else ""
    return Check(sentence, len(against) <= allowed(len(cells)) if cells else None, numbers)


def _majority(full: int) -> int:
    return (full - 1) // 2


def comparable(rows: Sequence[Row]) -> Check:
    """All methods, the point estimate too: the paper counts it among its approximations."""

    def gap(own: dict[str, Row], ours: bool) -> float:
        taken = [own[m].ours["accuracy"] if ours else own[m].published["accuracy"].value for m in METHODS]
        return max(taken) - min(taken)

    cells = _cells(rows, METHODS)
    gaps = [gap(own, True) for own in cells.values()]
    theirs = [gap(own, False) for own in cells.values() if all(own[m].published for m in METHODS)]
    near = [sum(value <= COMPARABLE for value in values) for values in (gaps, theirs)]
    numbers = f"{near[0]} of {len(cells)} cells, by the published figures {near[1]} of {len(theirs)}"
    numbers += f"; our largest difference {short(max(gaps))}" if gaps else ""
    sentence = f"All methods have comparable accuracy (here: within {short(COMPARABLE)} of one another, in every cell)"
    return Check(sentence, max(gaps) <= COMPARABLE if gaps else None, numbers)


def lowest(rows: Sequence[Row], column: str) -> Check:
    def fails(own: dict[str, Row]) -> str:
        winner = min(BAYESIAN, key=lambda name: own[name].ours[column])
        both = f"{LABELS[winner]} {short(own[winner].ours[column])}, BMR-S&S {short(own['bmr-paper'].ours[column])}"
        return both if winner != "bmr-paper" else ""

    sentence = f"BMR-S&S has the lowest {column.upper()} of the Bayesian methods in the majority of cells"
    cells = _cells(rows, BAYESIAN)
    check = _count(sentence, cells, fails, _majority)
    return check if column != "ece" else replace(check, numbers=f"{check.numbers}; {_beyond_chance(cells)}")


def _beyond_chance(cells: Cells) -> str:
    """In how many cells the ECE of BMR-S&S and the lowest of the others differ by more than chance: by more than the
    deviations over seeds of the two, taken together, and `ECE_CHANCE` for that of a single seed."""
    ahead = behind = 0
    for own in cells.values():
        theirs = min((own[name] for name in BAYESIAN if name != "bmr-paper"), key=lambda row: row.ours["ece"])
        both = (own["bmr-paper"], theirs)
        chance = float(np.linalg.norm([(row.deviation or {}).get("ece") or ECE_CHANCE for row in both]))
        difference = theirs.ours["ece"] - both[0].ours["ece"]
        ahead, behind = ahead + (difference > chance), behind + (difference < -chance)
    return f"beyond chance {ahead} ahead, {behind} behind"


def followed(rows: Sequence[Row], column: str) -> Check:
    def fails(own: dict[str, Row]) -> str:
        tiered, flat = own["tiered"].ours[column], own["flat"].ours[column]
        return f"Flat-FF {short(flat)}, Tiered-FF {short(tiered)}" if flat <= tiered else ""

    sentence = f"It is followed by Tiered-FF, with a single exception: a lower {column.upper()} than Flat-FF"
    return _count(sentence, _cells(rows, BAYESIAN), fails, lambda full: min(1, _majority(full)))


def _bounded(rows: Sequence[Row]) -> Cells:
    cells = _cells(rows, BAYESIAN)
    return {cell: own for cell, own in cells.items() if all(own[m].neg_elbo is not None for m in BAYESIAN)}


def _rival(own: dict[str, Row]) -> tuple[str, float]:
    """The other method with the greatest evidence."""
    return min(((LABELS[m], own[m].neg_elbo or 0.0) for m in ("flat", "tiered")), key=lambda pair: pair[1])


def evidence(rows: Sequence[Row]) -> Check:
    def fails(own: dict[str, Row]) -> str:
        name, theirs = _rival(own)
        ours = own["bmr-paper"].neg_elbo or 0.0
        return f"{name} {theirs:,.0f}, BMR-S&S {ours:,.0f}" if theirs <= ours else ""

    sentence = "BMR-S&S has the greatest evidence: the lowest negative ELBO of the Bayesian methods, its mask given"
    return _count(sentence, _bounded(rows), fails, lambda full: 0)


def evidence_with_mask(rows: Sequence[Row]) -> Check:
    """Given a mask its evidence is that of one model among many, picked by the data; naming it costs nats too."""
    cells = {cell: own for cell, own in _bounded(rows).items() if own["bmr-paper"].mask_nats is not None}
    after, costs = [], []
    for own in cells.values():
        costs.append(own["bmr-paper"].mask_nats or 0.0)
        after.append((own["bmr-paper"].neg_elbo or 0.0) + costs[-1] < _rival(own)[1])
    numbers = f"{sum(after)} of {len(cells)} cells"
    numbers += f"; the mask costs {min(costs):,.0f} to {max(costs):,.0f} nats" if costs else ""
    sentence = "The same when the whole mask must be named, under the paper's own prior over masks (our sentence)"
    return Check(sentence, all(after) if after else None, numbers)


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
    sentence = "BMR-S&S is sparser than Tiered-FF at every threshold (Fashion-MNIST, one seed)"
    return Check(sentence, all_hold if parts else None, "; ".join(parts) or "not run")


def removed_features(layer: np.ndarray) -> int:
    """Rows of a first layer (outputs × inputs) whose norm is next to nothing."""
    norms = np.linalg.norm(layer, axis=1)
    return int(np.sum(norms < REMOVED * norms.max()))


def over_pruning(results: Sequence[CellResult]) -> Check:
    """What the paper shows in its figure 4: features of LeNet's first layer that are gone."""
    layers = {result.key: result.first_layer for result in results if result.key[1] == "lenet"}
    parts, fewer = [], []
    for data in dict.fromkeys(key[0] for key in sorted(layers, key=place)):
        ours, theirs = (layers.get((data, "lenet", method)) for method in ("bmr-paper", "tiered"))
        if ours is None or theirs is None:
            continue
        counts = removed_features(ours), removed_features(theirs)
        fewer.append(counts[0] < counts[1])
        parts.append(f"{data} {counts[0]} and {counts[1]} of {len(ours)}")
    sentence = (
        "BMR-S&S is less prone to over-pruning than Tiered-FF: fewer features of LeNet's first layer go (one seed)"
    )
    return Check(sentence, all(fewer) if fewer else None, "; ".join(parts) or "not run")


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
