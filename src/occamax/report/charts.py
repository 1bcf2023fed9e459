"""The charts of a page, from groups of runs."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..experiment.folder import HISTOGRAM_EDGES
from . import nats
from .chart import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Chart, Series, brief, figure, labels, legend
from .runs import Group
from .styles import CURVES, colour, dashes

UNITS = {"nll": "nats per example"}
SHORT = {"nll": " (NLL)", "ece": " (ECE)"}  # as tables call them
FRAMES = 60  # reductions that the slider goes through; of more, evenly chosen ones


def curves(groups: Sequence[Group]) -> list[str]:
    """Accuracy, likelihood, calibration and sparsity by epoch; a band spans the seeds."""
    found = []
    for name, words in CURVES.items():
        series = [_curve(group, name) for group in groups if _has(group, name)]
        if series:
            kind = "log" if name in ("nll", "ece") else "linear"
            title = words + SHORT.get(name, "")
            found.append(Chart(title, series, "epoch", UNITS.get(name, ""), kind, counts=True).svg())
    return found


def _has(group: Group, name: str) -> bool:
    values = group.curve(name)
    return bool(np.isfinite(values).any()) and (name != "sparsity" or bool(values.any()))


def _curve(group: Group, name: str) -> Series:
    values = group.curve(name)
    band = {"low": values.min(0).tolist(), "high": values.max(0).tolist()} if len(values) > 1 else {}
    epochs = list(range(1, values.shape[1] + 1))
    mark = "both" if len(epochs) == 1 else "line"
    return Series(group.label, colour(group), epochs, values.mean(0).tolist(), dashes(group), mark=mark, **band)


def reliability(groups: Sequence[Group]) -> str | None:
    """How often each method is right at each confidence, of its first seed; on the diagonal it is as sure as right."""
    series = []
    for group in groups:
        bins = group.examples().get("reliability", [])
        if bins:
            xs, ys = ([one[name] for one in bins] for name in ("confidence", "accuracy"))
            notes = [
                f"{group.label}: of {one['count']:,} at {one['confidence']:.1%}, {one['accuracy']:.1%} are right"
                for one in bins
            ]
            series.append(Series(group.label, colour(group), xs, ys, dashes(group), mark="both", notes=notes))
    if not series:
        return None
    whole = (0.0, 1.0)
    title = "how often it is right, by how sure it is"
    words = title, series, "confidence", "share that is right", "linear", whole, whole
    return Chart(*words, by_x=False, diagonal=True, has_legend=True).svg()


def foretold(group: Group) -> str | None:
    """What ΔF predicted of each reduction beside what was measured, of the first seed."""
    found = nats.foretold(group.lines("reductions.jsonl"))
    if not found:
        return None
    epochs = [one.epoch for one in found]
    bound = "the tempered bound" if nats.is_tempered(found) else "the evidence bound"
    shown = {"predicted": ("#8a8a8a", "predicted: ΔF, summed"), "measured": (colour(group), f"measured: {bound}")}
    if nats.is_tempered(found):
        shown["evidence"] = ("currentColor", "measured: the evidence bound")
    undone = ["; undone" if one.is_undone else "" for one in found]
    series = []
    for i, (name, (own, words)) in enumerate(shown.items()):
        values = [getattr(one, name) for one in found]
        notes = [f"{words} {nats.signed(value)} nats{end}" for value, end in zip(values, undone, strict=True)]
        places = [epoch + 0.15 * (i - (len(shown) - 1) / 2) for epoch in epochs]
        series.append(Series(words, own, places, values, mark="points", notes=notes, method=group.label))
    values = [value for one in series for value in one.ys]
    kind = "log" if min(values) > 0 else "symlog"
    words = "gain of each reduction", series, "epoch that follows the reduction", "nats", kind
    return Chart(*words, x_range=(min(epochs) - 0.5, max(epochs) + 0.5), counts=True, has_legend=True).svg()


def evidence(group: Group) -> list[str]:
    """The distribution of ΔF over the weights, before the first and before the last reduction. A script makes the
    second one go through all of them, in time, by a slider."""
    lines = group.lines("reductions.jsonl")
    if not lines:
        return []
    chosen = sorted({round(i) for i in np.linspace(0, len(lines) - 1, min(FRAMES, len(lines)))})
    frames = [_frame(lines[i]) for i in chosen]
    top = math.log10(1 + max(max(frame["before"]) for frame in frames))
    first = [_histogram(group, frames[0], top, [])] if len(frames) > 1 else []
    return [*first, _histogram(group, frames[-1], top, frames)]


def _frame(line: dict[str, Any]) -> dict[str, Any]:
    names = {"before": "delta_f_before", "after": "delta_f_after"}
    sums = {name: np.sum([layer[field] for layer in line["layers"]], axis=0).tolist() for name, field in names.items()}
    return {"epoch": line["epoch"], **sums}


def _histogram(group: Group, frame: dict[str, Any], top: float, frames: list[dict[str, Any]]) -> str:
    """Bars of two kinds for each bin, on a logarithmic axis of counts; `frames` where a slider is to change them."""
    bins, room = len(frame["before"]), WIDTH - LEFT - RIGHT
    width, height = room / bins, HEIGHT - TOP - BOTTOM
    parts = [f'<path class="axis" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>']
    for power in range(math.floor(top) + 1):
        at = round(TOP + height * (1 - math.log10(1 + 10**power) / top), 1)
        parts.append(f'<path class="grid" d="M{LEFT} {at}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 5}" y="{at + 3.5}" text-anchor="end">{brief(10**power)}</text>')
    for name, share, own in (("before", 0.9, "#9a9a9a"), ("after", 0.5, colour(group))):
        bars = []
        for i, count in enumerate(frame[name]):
            tall = height * math.log10(1 + count) / top if top else 0.0
            at = LEFT + (i + (1 - share) / 2) * width
            spot = f'x="{at:.1f}" width="{width * share:.1f}" y="{HEIGHT - BOTTOM - tall:.1f}" height="{tall:.1f}"'
            bars.append(f"<rect {spot}/>")
        parts.append(f'<g class="{name}" style="--c:{own}">{"".join(bars)}</g>')
    for i, edge in enumerate(HISTOGRAM_EDGES):
        if edge == 0 or (abs(edge) > 0.5 and abs(math.log10(abs(edge)) - round(math.log10(abs(edge)))) < 1e-6):
            spot = f'x="{LEFT + i * width:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle"'
            parts.append(f"<text {spot}>{brief(edge)}</text>")
    parts.append(labels("ΔF of removing a weight, nats", "weights, log scale"))
    edges = [float(f"{edge:.3g}") for edge in HISTOGRAM_EDGES]
    data = {"edges": edges, "frames": frames or [frame], "top": top, "bars": [LEFT, width, TOP, height]}
    colours = legend([("#9a9a9a", "weights before it"), (colour(group), "weights it kept")])
    return figure(f"reduction before epoch {frame['epoch']}", "".join(parts), data, colours)
