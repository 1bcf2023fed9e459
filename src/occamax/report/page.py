"""One self-contained HTML page about some runs: whole without JavaScript, explored with it."""

import html
from collections.abc import Sequence
from importlib.resources import files
from itertools import groupby
from pathlib import Path

import numpy as np

from .. import __version__
from ..storage import write_atomic
from . import charts, exported, nats, pictures
from .runs import Group
from .styles import colour, dashes
from .table import SHOWN, comparison, legend

# nothing may be fetched from anywhere
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def write_report(groups: Sequence[Group], out: Path) -> None:
    """Writes the page about some groups of runs, in their order."""
    sections = [_section(cell, list(members)) for cell, members in groupby(groups, key=lambda group: group.cell)]
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}"><link rel="icon" href="data:,">
<title>occamax report</title><style>
{_beside("page.css")}</style></head><body>
<h1>occamax report</h1>
<p class="note">{_circumstances(groups)}</p>
{_overview(groups)}
{"".join(sections)}
<script>
{_beside("page.js")}</script></body></html>
"""
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(out, page.encode())


def _beside(name: str) -> str:
    return (files("occamax.report") / name).read_text(encoding="utf-8")


def _anchor(cell: tuple[str, str]) -> str:
    return html.escape(f"{cell[0]}-{cell[1]}")


def _overview(groups: Sequence[Group]) -> str:
    """The whole grid, if there is more than one cell of it: each entry leads to its curves."""
    sets, networks = (list(dict.fromkeys(group.cell[i] for group in groups)) for i in (0, 1))
    if len(sets) * len(networks) < 2:
        return ""
    rows = ""
    for network in networks:
        entries = "".join(f"<td>{_cell([g for g in groups if g.cell == (data, network)])}</td>" for data in sets)
        rows += f"<tr><td><b>{html.escape(network)}</b></td>{entries}</tr>\n"
    head = "".join(f"<th>{html.escape(data)}</th>" for data in sets)
    note = "Columns are data sets, rows are networks. Each entry leads to its curves."
    return (
        f'<h2>All comparisons</h2><p class="note">{note}</p>'
        f'<div class="scroll"><table class="grid"><tr><th></th>{head}</tr>\n{rows}</table></div>'
    )


def _cell(groups: Sequence[Group]) -> str:
    if not groups:
        return "–"
    header, rows, best = comparison(groups, SHOWN, brief=True)
    head = "".join(f"<th>{html.escape(title)}</th>" for title in header)
    return f'<a href="#{_anchor(groups[0].cell)}"><table><tr>{head}</tr>\n{_rows(rows, best)}</table></a>'


def _circumstances(groups: Sequence[Group]) -> str:
    found = {summary["device"] for group in groups for summary in group.summaries}
    devices = sorted({kind if kind == name else full for full in found for kind, _, name in [full.partition(": ")]})
    runs = sum(len(group.summaries) for group in groups if not group.together)
    return f"{runs} run{'s' * (runs > 1)} · {html.escape(', '.join(devices))} · occamax {__version__}"


def _section(cell: tuple[str, str], groups: list[Group]) -> str:
    """All about the methods on one data set and network. What several networks say together is in the table alone."""
    rows, groups = groups, [group for group in groups if not group.together]
    parts = [
        f'<h2 id="{_anchor(cell)}">{html.escape(" · ".join(cell))}</h2>',
        f'<p class="note">{html.escape(_budgets(groups))} '
        f"<i>Pruned</i> counts the layers that may be reduced, all but the last; "
        f"<i>weights kept</i> counts all. {_seeds(groups)}</p>",
        _table(rows),
        f'<p class="note">{html.escape(legend(rows))}</p>',
        *_calibration(groups),
        "<h3>By epoch</h3>",
        _switches(groups),
        _charts(charts.curves(groups)),
        *_layers(groups),
        *_calibrated(groups),
        *(part for group in groups for part in _reductions(group)),
        *_examples(groups),
        *exported.section(groups),
    ]
    units = [found for found in map(pictures.first_layer, groups) if found is not None]
    if units:
        note = "One square a unit: its weights from each pixel. White is zero, or removed."
        parts += ["<h3>First layer: what the strongest units look at</h3>", f'<p class="note">{note}</p>', *units]
    return f"<section>{chr(10).join(parts)}</section>"


def _budgets(groups: list[Group]) -> str:
    """How long the methods were trained and how they predict: once where it is the same for all, else of each."""
    found: dict[str, list[str]] = {}
    for group in groups:
        config = group.config
        words = f"{config.epochs} epochs of {config.steps_per_epoch} steps on {config.batch_size} examples"
        words += f"; predictions average {config.num_samples} draws of the weights."
        found.setdefault(words, []).append(group.label)
    if len(found) == 1:
        return next(iter(found))
    return " ".join(f"{', '.join(labels)}: {words}" for words, labels in found.items())


def _seeds(groups: list[Group]) -> str:
    """What the deviations are of, or that there are none."""
    counts = {len(group.summaries) for group in groups}
    if counts == {1}:
        return "One seed each: how much of a difference between methods is chance is not known."
    return "± is the deviation over seeds." + (" Where there is none, it is one seed." if 1 in counts else "")


def _charts(found: Sequence[str], note: str = "") -> str:
    """Charts, side by side where there is room, and what they show in words."""
    words = f'<p class="note">{html.escape(note)}</p>' if note else ""
    return f'<div class="charts">{"".join(found)}{words}</div>'


def _switches(groups: Sequence[Group]) -> str:
    """The legend of all charts of a section; a script makes each entry switch its method on and off."""
    items = ""
    for group in groups:
        line = f'<svg viewBox="0 0 26 8"><path class="line" d="M0 4H26" stroke-dasharray="{dashes(group)}"/></svg>'
        name = html.escape(group.label)
        items += f'<li data-method="{name}" style="--c:{colour(group)}">{line}{name}</li>'
    return f'<ul class="switches" style="color:inherit">{items}</ul>'


def _layers(groups: Sequence[Group]) -> list[str]:
    """The pruned share of each layer, the mean over seeds, one column a method that prunes."""
    reduced = [group for group in groups if group.value("sparsity").any()]
    if not reduced:
        return []
    layers = reduced[0].summaries[0]["sizes"]["layers"]
    shares = []
    for group in reduced:
        runs = [summary["sizes"]["layers"] for summary in group.summaries]
        shares.append(np.mean([[1 - one["remaining"] / one["weights"] for one in run] for run in runs], axis=0))
    head = "".join(f"<th>{html.escape(group.label)}</th>" for group in reduced)
    rows = ""
    for i, layer in enumerate(layers):
        pairs = zip(reduced, shares, strict=True)
        bars = "".join(f"<td>{_bar(colour(group), share[i])}</td>" for group, share in pairs)
        rows += f"<tr><td>{html.escape(layer['name'])}</td><td>{layer['weights']:,}</td>{bars}</tr>\n"
    table = f"<thead><tr><th>layer</th><th>weights</th>{head}</tr></thead>\n<tbody>{rows}</tbody>"
    return [
        "<h3>Pruned fraction by layer</h3>",
        f'<div class="scroll"><table class="sortable">{table}</table></div>',
    ]


def _bar(own: str, share: float) -> str:
    bar = f'<span class="bar" style="--c:{own}"><i style="width:{100 * share:.1f}%"></i></span>'
    return f'{bar}<span class="share">{share:.1%}</span>'


def _calibrated(groups: Sequence[Group]) -> list[str]:
    found = charts.reliability(groups)
    if found is None:
        return []
    note = "Test examples by the confidence of the answer, in bins of equal width, of the first seed. On the diagonal "
    note += "a network is as sure as it is right; below it, too sure."
    return ["<h3>Is it as sure as it is right?</h3>", _charts([found], note)]


def _reductions(group: Group) -> list[str]:
    """What was foretold and measured of a method's reductions, if it made any."""
    name, parts = html.escape(group.label), []
    found = charts.foretold(group)
    if found is not None:
        parts += [f"<h3>{name}: what ΔF foretold of each reduction, and what was measured</h3>"]
        parts.append(_charts([found], nats.in_words(group)))
    histograms = charts.evidence(group) if group.value("sparsity").any() and not group.is_point else []
    if histograms:
        note = (
            "How many weights have which ΔF, over all layers, of the first seed. Right of 0 the data prefer the weight "
        )
        note += "gone; left of it they need it."
        parts += [f"<h3>{name}: what the evidence said of each weight</h3>", _charts(histograms, note)]
    return parts


def _examples(groups: Sequence[Group]) -> list[str]:
    found = [(group, pictures.examples(group)) for group in groups]
    kept = [(group, words) for group, words in found if words is not None]
    if not kept:
        return []
    parts = ['<h3>Test examples</h3><p class="note">What was said and how surely; # is the place in the test set.</p>']
    for i, (group, words) in enumerate(kept):
        is_open = " open" if i + 1 == len(kept) else ""
        parts.append(f"<details{is_open}><summary>{html.escape(group.label)}</summary>{words}</details>")
    return parts


def _calibration(groups: list[Group]) -> list[str]:
    notes = []
    divided = [f"{group.label} by {group.temperature:.3g}" for group in groups if group.temperature is not None]
    if divided:
        notes.append(f"Outputs divided by a temperature that held-out examples set: {', '.join(divided)}.")
    louder = [f"{group.label} by {group.noise:.3g}" for group in groups if group.noise is not None]
    if louder:
        notes.append(
            f"Deviations of the weights multiplied by a number that held-out examples set: {', '.join(louder)}."
        )
    return [f'<p class="note">{html.escape(note)}</p>' for note in notes]


def _table(groups: list[Group]) -> str:
    header, rows, best = comparison(groups)
    head = "".join(f"<th>{html.escape(title)}</th>" for title in header)
    body = f"<thead><tr>{head}</tr></thead>\n<tbody>{_rows(rows, best, is_switched=True)}</tbody>"
    return f'<div class="scroll"><table class="sortable">{body}</table></div>'


def _rows(rows: list[list[str]], best: list[list[bool]], is_switched: bool = False) -> str:
    lines = ""
    for row, flags in zip(rows, best, strict=True):
        cells = (f"<td{' class=best' * flag}>{html.escape(entry)}</td>" for entry, flag in zip(row, flags, strict=True))
        switched = f' data-series="{html.escape(row[0])}"' if is_switched else ""
        lines += f"<tr{switched}>{''.join(cells)}</tr>\n"
    return lines
