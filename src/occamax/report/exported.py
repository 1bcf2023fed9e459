"""The files that were made of some runs: how small and how fast, beside the dense network."""

import html
from collections.abc import Sequence
from typing import Any

from .runs import Group
from .table import COLUMNS

HEAD = ("method", "file", "bytes", "dense", "gzipped", "masked, gzipped", "ms at batch 1", "ms at batch 128")
FIGURES = ("accuracy", "nll", "ece", "ece_floor", "rmse")


def section(groups: Sequence[Group]) -> list[str]:
    """A table of the exports of each method's first seed, the last of each name; nothing where there are none."""
    found = [(group, line) for group in groups for line in _last(group.lines("exports.jsonl"))]
    if not found:
        return []
    names = [name for name in FIGURES if any(name in line["figures"] for _, line in found)]
    titles = (*HEAD, *(COLUMNS[name].title for name in names))
    head = "".join(f"<th>{html.escape(title)}</th>" for title in titles)
    rows = "\n".join(_row(group, line, names) for group, line in found)
    note = (
        "Sizes in bytes. Dense: the network before it was pruned, as a file; masked: that file with its zeros. Times "
    )
    note += "are medians on one core of the machine that wrote the file: the dense network → the file. Figures are of "
    note += "the one network in the file, not of averaged draws."
    return [
        "<h3>Exported files</h3>",
        '<div class="scroll"><table class="sortable">',
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>",
        f'<p class="note">{note}</p>',
    ]


def _last(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({line["file"]: line for line in lines}.values())


def _row(group: Group, line: dict[str, Any], names: Sequence[str]) -> str:
    times = [_times(line["milliseconds"].get(size)) for size in ("1", "128")]
    sizes = [line["bytes"][1], line["bytes"][0], line["zipped"][1], line["zipped_masked"]]
    figures = [f"{line['figures'][name]:.3f}" if name in line["figures"] else "–" for name in names]
    cells = [group.label, line["file"], *(f"{size:,}" for size in sizes), *times, *figures]
    return f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"


def _times(pair: Sequence[float] | None) -> str:
    return "–" if pair is None else f"{pair[0]:.2g} → {pair[1]:.2g}"
