"""Figures of matplotlib, for files: what the figures of the reproduction and of the benchmarks are drawn with."""

import io
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import AutoLocator, LogLocator, NullFormatter, StrMethodFormatter

from .runs import Group

RC: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "occamax",
}


def drawn(figure: Figure, form: str, **options: Any) -> bytes:
    """The bytes of a file in that format; the same figure always gives the same."""
    unsaid = {"Date": None, "Creator": None} if form == "svg" else {"Software": None}
    buffer = io.BytesIO()
    with matplotlib.rc_context(RC):
        figure.savefig(buffer, format=form, metadata=unsaid, **options)
    return buffer.getvalue()


def new_figure(columns: int, rows: int = 1, width: float = 3.0, height: float = 2.4) -> tuple[Figure, list[Axes]]:
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    return figure, axes


def logarithmic(axis: Axes) -> None:
    """A logarithmic axis of ordinary numbers; call it when everything is drawn."""
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    axis.yaxis.set_major_locator(AutoLocator() if high < 8 * low else LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())


def draw_curve(axis: Axes, group: Group, name: str, style: tuple, label: str) -> None:
    """The mean over seeds, a band from the lowest to the highest. `style` is a colour and dashes."""
    values = group.curve(name)
    colour, dashes = style
    epochs = np.arange(1, values.shape[1] + 1)
    axis.plot(epochs, values.mean(0), color=colour, linestyle=dashes, linewidth=1.5, label=label)
    if len(values) > 1:
        axis.fill_between(epochs, values.min(0), values.max(0), color=colour, alpha=0.15, linewidth=0)
