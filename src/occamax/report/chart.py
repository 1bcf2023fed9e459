"""Charts as SVG elements: drawn here once, so that they stand in a page without JavaScript; `page.js` adds values under
the pointer and methods that switch on and off, from the data beside each chart. Colours of text and axes are those of
the page, light or dark."""

import html
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

WIDTH, HEIGHT = 420, 250
LEFT, RIGHT, TOP, BOTTOM = 68, 10, 12, 38  # margins


@dataclass(frozen=True)
class Scale:
    """Numbers to the share of an axis. **linear** of kind "symlog" is where it is linear, around zero."""

    low: float
    high: float
    kind: str = "linear"  # linear, log, symlog
    linear: float = 1.0

    @staticmethod
    def over(values: np.ndarray, kind: str = "linear", margin: float = 0.05) -> "Scale":
        """The scale that holds these values, with a margin at both ends."""
        finite = values[np.isfinite(values)]
        smallest = 10.0 ** math.floor(math.log10(max(np.abs(finite[finite != 0]).min(initial=1e9), 1.0)))
        low, high = float(finite.min()), float(finite.max())
        plain = Scale(low, high, kind, smallest)
        ends = np.array([plain._bent(low), plain._bent(high)])
        room = margin * (ends[1] - ends[0]) or 0.5 * abs(ends[0]) or 0.5
        return Scale(plain._straight(ends[0] - room), plain._straight(ends[1] + room), kind, smallest)

    def __call__(self, value: float) -> float:
        low, high = self._bent(self.low), self._bent(self.high)
        return (self._bent(value) - low) / (high - low)

    def _bent(self, value: float) -> float:
        if self.kind == "log":
            return math.log10(value)
        if self.kind == "symlog":
            return math.copysign(math.log10(1 + abs(value) / self.linear), value)
        return value

    def _straight(self, bent: float) -> float:
        if self.kind == "log":
            return 10.0**bent
        if self.kind == "symlog":
            return math.copysign(self.linear * (10.0 ** abs(bent) - 1), bent)
        return bent

    def ticks(self) -> list[float]:
        if self.kind == "symlog":
            sizes = [self.linear * 10.0**i for i in range(12)]
            found = [0.0, *sizes, *(-size for size in sizes)]
        elif self.kind == "log" and self.high > 4 * self.low:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            found = [step * 10.0**i for i in decades for step in (1, 2, 5)]
            found = found if self.high < 1e3 * self.low else [10.0**i for i in decades]
        else:
            found = _round_numbers(self.low, self.high)
        return [tick for tick in sorted(found) if self.low <= tick <= self.high]


def _round_numbers(low: float, high: float) -> list[float]:
    """Between both, in steps of 1, 2 or 5 times a power of ten: as few as there are, but three at least."""
    size, found = 10.0 ** math.floor(math.log10(high - low)), []
    for step in (5 * size, 2 * size, size, size / 2, size / 5, size / 10):
        slack = 1e-9 * step
        found = [step * i for i in range(math.ceil((low - slack) / step), math.floor((high + slack) / step) + 1)]
        if len(found) >= 3:
            break
    return found


@dataclass(frozen=True)
class Series:
    """**ys** over **xs**; **low** and **high** span a band. **mark** "line" joins the points, "points" sets dots,
    "both" does both; **notes** are said of each point under the pointer, in place of its value."""

    name: str
    colour: str
    xs: Sequence[float]
    ys: Sequence[float]
    dashes: str = ""
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    mark: str = "line"
    notes: Sequence[str] | None = None
    method: str = ""  # that switches it; its name unless given


@dataclass(frozen=True)
class Chart:
    """One chart. **by_x** shows all series at the pointer's place; else the nearest point alone. **diagonal** is drawn
    from corner to corner."""

    title: str
    series: Sequence[Series]
    x_label: str
    y_label: str
    kind: str = "linear"  # of the y axis
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    by_x: bool = True
    diagonal: bool = False
    counts: bool = False  # whether x counts something, so that only whole numbers are marked
    has_legend: bool = False  # of its own, where its series are no methods

    def svg(self) -> str:
        """A figure with the drawing and its data."""
        x, y = self._scales()
        parts = [_axes(x, y, self.x_label, ", ".join(filter(None, (self.y_label, scale_words(y.kind)))), self.counts)]
        if self.diagonal:
            parts.append(f'<path class="rule" d="M{_px(x, x.low)} {_py(y, y.low)}L{_px(x, x.high)} {_py(y, y.high)}"/>')
        if self.kind == "symlog" and y.low < 0 < y.high:
            parts.append(f'<path class="rule" d="M{LEFT} {_py(y, 0)}H{WIDTH - RIGHT}"/>')
        parts += [_drawn(series, x, y) for series in self.series]
        data = {"byX": self.by_x, "x": self.x_label, "series": [_data(series, x, y) for series in self.series]}
        return figure(self.title, "".join(parts), data, self._legend() if self.has_legend else "")

    def _legend(self) -> str:
        return legend([(one.colour, one.name) for one in self.series])

    def _scales(self) -> tuple[Scale, Scale]:
        xs = np.concatenate([np.asarray(one.xs, float) for one in self.series])
        ys = np.concatenate(
            [np.asarray(part, float) for one in self.series for part in (one.ys, one.low, one.high) if part is not None]
        )
        kind = "linear" if self.kind == "log" and not (ys[np.isfinite(ys)] > 0).all() else self.kind
        x = Scale.over(xs, margin=0.02) if self.x_range is None else Scale(*self.x_range)
        return x, Scale.over(ys, kind) if self.y_range is None else Scale(*self.y_range, kind)


def figure(title: str, drawing: str, data: dict[str, Any], extra: str = "") -> str:
    """A drawing with its title, and its data for the script."""
    name = html.escape(title)
    return (
        f'<figure class="chart"><figcaption>{name}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name}">{drawing}</svg>'
        f'{extra}<script type="application/json">{as_json(data)}</script></figure>'
    )


def legend(items: Sequence[tuple[str, str]]) -> str:
    """What each colour is."""
    parts = (f'<span style="--c:{html.escape(own)}"><i></i>{html.escape(words)}</span>' for own, words in items)
    return f'<p class="legend">{"".join(parts)}</p>'


def as_json(data: Any) -> str:
    """JSON that may stand inside a page."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def short(value: float) -> str:
    """A number as an axis has it: few digits, thousands apart, a true minus."""
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return text.replace("-", "−")


def names_of(ticks: Sequence[float], kind: str = "linear") -> list[str]:
    """Numbers beside an axis: with as many decimals as the one that needs most, unless they span more than a decade."""
    if kind == "linear" or (kind == "log" and ticks and ticks[-1] <= 10 * ticks[0]):
        decimals = max((len(f"{tick:.8f}".rstrip("0").partition(".")[2]) for tick in ticks), default=0)
        if all(abs(tick) < 1000 for tick in ticks):
            return [f"{tick:.{decimals}f}".replace("-", "−") for tick in ticks]
    return [brief(tick) for tick in ticks]


def brief(value: float) -> str:
    """A number in little room: thousands are k, millions M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:,.4g}".replace("-", "−") + letter
    return short(value)


def scale_words(kind: str) -> str:
    """What an axis must say of itself."""
    return "" if kind == "linear" else "log scale"


def _px(scale: Scale, value: float) -> float:
    return round(LEFT + scale(value) * (WIDTH - LEFT - RIGHT), 1)


def _py(scale: Scale, value: float) -> float:
    return round(TOP + (1 - scale(value)) * (HEIGHT - TOP - BOTTOM), 1)


def _axes(x: Scale, y: Scale, x_label: str, y_label: str, counts: bool) -> str:
    parts = [f'<path class="axis" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>']
    for tick, name in zip(y.ticks(), names_of(y.ticks(), y.kind), strict=True):
        at = _py(y, tick)
        parts.append(f'<path class="grid" d="M{LEFT} {at}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 5}" y="{at + 3.5}" text-anchor="end">{name}</text>')
    marked = [tick for tick in x.ticks() if not counts or abs(tick - round(tick)) < 1e-9]
    for tick, name in zip(marked, names_of(marked, x.kind), strict=True):
        parts.append(f'<text x="{_px(x, tick)}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{name}</text>')
    return "".join((*parts, labels(x_label, y_label)))


def labels(below: str, beside: str) -> str:
    """What the x axis and the y axis are of."""
    across, middle = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
    words = f'<text x="{across}" y="{HEIGHT - 6}" text-anchor="middle">{html.escape(below)}</text>'
    turned = f'<text transform="translate(12 {middle})rotate(-90)" text-anchor="middle">{html.escape(beside)}</text>'
    return words + (turned if beside else "")


def _points(series: Series, x: Scale, y: Scale, ys: Sequence[float]) -> list[tuple[float, float]]:
    pairs = zip(series.xs, ys, strict=True)
    return [(_px(x, float(one)), _py(y, float(two))) for one, two in pairs if math.isfinite(two)]


def _drawn(series: Series, x: Scale, y: Scale) -> str:
    points, parts = _points(series, x, y, series.ys), []
    if series.low is not None and series.high is not None:
        around = [*_points(series, x, y, series.high), *reversed(_points(series, x, y, series.low))]
        parts.append(f'<polygon class="band" points="{_joined(around)}"/>')
    if series.mark in ("line", "both"):
        dashes = f' stroke-dasharray="{series.dashes}"' if series.dashes else ""
        parts.append(f'<polyline class="line"{dashes} points="{_joined(points)}"/>')
    if series.mark in ("points", "both"):
        parts += [f'<circle cx="{one}" cy="{two}" r="3.5"/>' for one, two in points]
    method = html.escape(series.method or series.name)
    return f'<g data-series="{method}" style="--c:{series.colour}">{"".join(parts)}</g>'


def _joined(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{one:g},{two:g}" for one, two in points)


def _data(series: Series, x: Scale, y: Scale) -> dict[str, Any]:
    """Where the points are and what they say; those that are no numbers are left out."""
    kept = [i for i, value in enumerate(series.ys) if math.isfinite(value)]
    points = _points(series, x, y, series.ys)
    found: dict[str, Any] = {
        "name": series.name,
        "method": series.method or series.name,
        "colour": series.colour,
        "px": [one for one, _ in points],
        "py": [two for _, two in points],
        "x": [_rounded(series.xs[i]) for i in kept],
        "y": [_rounded(series.ys[i]) for i in kept],
    }
    if series.notes is not None:
        found["notes"] = [series.notes[i] for i in kept]
    return found


def _rounded(value: float) -> float:
    return float(f"{float(value):.4g}")
