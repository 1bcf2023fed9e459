"""One self-contained HTML page about some runs."""

import html
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from .. import __version__
from ..storage import write_atomic
from . import nats
from .figures import curves, evidence, first_layer, pruned_by_layer, svg
from .runs import Group
from .table import SHOWN, comparison, legend

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #222; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; border-bottom: 1px solid #ddd; }
h3 { font-size: 1rem; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
table { font-size: .88rem; } td, th { padding: .25rem .5rem; text-align: right; white-space: nowrap; }
th { border-bottom: 2px solid #444; font-weight: 600; } td:first-child, th:first-child { text-align: left; }
tr:nth-child(even) { background: #f6f6f6; } td.best { font-weight: 700; } .note { color: #555; font-size: .9rem; }
table.grid > tbody > tr > td { vertical-align: top; } .grid table { font-size: .8rem; }
.grid a { color: inherit; text-decoration: none; } .grid a:hover table { outline: 2px solid #0072B2; }
svg { max-width: 100%; height: auto; } .scroll { overflow-x: auto; }
"""


def write_report(groups: Sequence[Group], out: Path) -> None:
    """Writes the page about some groups of runs, in their order."""
    sections = [_section(cell, list(members)) for cell, members in groupby(groups, key=lambda group: group.cell)]
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>occamax report</title><style>{STYLE}</style></head><body>
<h1>occamax report</h1>
<p class="note">{_circumstances(groups)}</p>
{_overview(groups)}
{"".join(sections)}
</body></html>
"""
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(out, page.encode())


def _anchor(cell: tuple[str, str]) -> str:
    return f"{cell[0]}-{cell[1]}"


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
    note = "Accuracy, negative log-likelihood, calibration error and its floor, −ELBO, pruned fraction, where there is "
    note += "such a figure. Click a cell for its curves."
    return (
        f'<h2>All cells</h2><p class="note">{note}</p>'
        f'<div class="scroll"><table class="grid"><tr><th></th>{head}</tr>\n{rows}</table></div>'
    )


def _cell(groups: Sequence[Group]) -> str:
    if not groups:
        return "–"
    _, rows, best = comparison(groups, SHOWN, brief=True)
    return f'<a href="#{_anchor(groups[0].cell)}"><table>{_rows(rows, best)}</table></a>'


def _circumstances(groups: Sequence[Group]) -> str:
    devices = sorted({summary["device"] for group in groups for summary in group.summaries})
    runs = sum(len(group.summaries) for group in groups)
    return f"{runs} run{'s' * (runs > 1)} · {html.escape(', '.join(devices))} · occamax {__version__}"


def _section(cell: tuple[str, str], groups: list[Group]) -> str:
    config = groups[0].config
    parts = [
        f'<h2 id="{_anchor(cell)}">{cell[0]} · {cell[1]}</h2>',
        f'<p class="note">{config.epochs} epochs of {config.steps_per_epoch} steps on {config.batch_size} examples; '
        f"predictions average {config.num_samples} draws of the weights. "
        f"<i>Pruned</i> counts the layers that may be reduced, all but the last; "
        f"<i>weights kept</i> counts all. {_seeds(groups)}</p>",
        _table(groups),
        f'<p class="note">{html.escape(legend(groups))}</p>',
        *_tempering(groups),
        "<h3>By epoch</h3>",
        svg(curves(groups)),
    ]
    reduced = [group for group in groups if group.value("sparsity").any()]
    if reduced:
        parts += ["<h3>Pruned fraction by layer</h3>", svg(pruned_by_layer(reduced))]
    for group in groups:
        parts += _reductions(group)
    pictures = [svg(figure) for figure in map(first_layer, groups) if figure is not None]
    if pictures:
        parts += ["<h3>First layer: what the strongest units look at</h3>", *pictures]
    return "\n".join(parts)


def _seeds(groups: list[Group]) -> str:
    """What the deviations are of, or that there are none."""
    counts = {len(group.summaries) for group in groups}
    if counts == {1}:
        return "One seed each: how much of a difference between methods is chance is not known."
    return "± is the deviation over seeds." + (" Where there is none, it is one seed." if 1 in counts else "")


def _reductions(group: Group) -> list[str]:
    """What was foretold and measured of a method's reductions, if it made any."""
    name, parts = html.escape(group.label), []
    figure = nats.draw(group)
    if figure is not None:
        parts += [f"<h3>{name}: what ΔF foretold of each reduction, and what was measured</h3>", svg(figure)]
        parts.append(f'<p class="note">{html.escape(nats.in_words(group))}</p>')
    figure = evidence(group) if group.value("sparsity").any() else None
    if figure is not None:
        parts += [f"<h3>{name}: what the evidence said of each weight</h3>", svg(figure)]
    return parts


def _tempering(groups: list[Group]) -> list[str]:
    tempered = [f"{group.label} (KL weight {group.tempered:g})" for group in groups if group.tempered is not None]
    notes = [f"Tempered posterior: {', '.join(tempered)}."] if tempered else []
    divided = [f"{group.label} by {group.temperature:.3g}" for group in groups if group.temperature is not None]
    if divided:
        notes.append(f"Outputs divided by a temperature that held-out examples set: {', '.join(divided)}.")
    return [f'<p class="note">{html.escape(note)}</p>' for note in notes]


def _table(groups: list[Group]) -> str:
    header, rows, best = comparison(groups)
    head = "".join(f"<th>{html.escape(title)}</th>" for title in header)
    return f'<div class="scroll"><table><tr>{head}</tr>\n{_rows(rows, best)}</table></div>'


def _rows(rows: list[list[str]], best: list[list[bool]]) -> str:
    lines = ""
    for row, flags in zip(rows, best, strict=True):
        cells = (f"<td{' class=best' * flag}>{html.escape(entry)}</td>" for entry, flag in zip(row, flags, strict=True))
        lines += f"<tr>{''.join(cells)}</tr>\n"
    return lines
