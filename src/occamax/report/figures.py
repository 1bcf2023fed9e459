"""Figures from run folders. Colours are Okabe and Ito's, safe for the colour-blind; dashes tell them apart in grey."""

import io
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import AutoLocator, LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from ..experiment.folder import HISTOGRAM_EDGES
from .runs import Group

STYLES = {  # method → colour, dashes
    "map": ("#000000", "-"),
    "flat": ("#0072B2", (0, (6, 1.5))),
    "tiered": ("#009E73", (0, (3, 1.5, 1, 1.5))),
    "bmr-paper": ("#D55E00", (0, (1, 1))),
    "bmr-rhs": ("#CC79A7", (0, (5, 1, 1, 1, 1, 1))),
    "bmr": ("#E69F00", "-"),
}
OTHERS = ("#56B4E9", "#F0E442", "#882255", "#44AA99")  # methods of the user's own
CURVES = {
    "accuracy": "accuracy",
    "rmse": "root mean squared error",
    "nll": "negative log-likelihood",
    "ece": "calibration error",
    "sparsity": "pruned fraction",
}
RC: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "occamax",
}


def svg(figure: Figure) -> str:
    """A figure as an SVG element to stand in a page."""
    text = drawn(figure, "svg", bbox_inches="tight").decode()
    return text[text.index("<svg") :]


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


def curves(groups: Sequence[Group]) -> Figure:
    """Accuracy, likelihood, calibration and sparsity by epoch; a band spans the seeds."""
    shown = {name: label for name, label in CURVES.items() if any(_has(group, name) for group in groups)}
    figure, axes = new_figure(2, -(-len(shown) // 2), 4.2, 2.6)
    for axis in axes[len(shown) :]:
        axis.set_visible(False)
    for axis, (name, label) in zip(axes, shown.items(), strict=False):
        for group in groups:
            if not _has(group, name) or (name == "sparsity" and not group.curve(name).any()):
                continue
            draw_curve(axis, group, name, style(group), group.label)
        axis.set_xlabel("epoch")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set_ylabel(label)
        if name in ("nll", "ece") and all((group.curve(name) > 0).all() for group in groups if _has(group, name)):
            logarithmic(axis)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    return figure


def style(group: Group) -> tuple:
    """A colour and dashes for a method; one of the user's own has always the same for its name."""
    method = group.config.method
    return STYLES.get(method) or (OTHERS[sum(method.encode()) % len(OTHERS)], "-")


def _has(group: Group, name: str) -> bool:
    return bool(np.isfinite(group.curve(name)).any())


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


def pruned_by_layer(groups: Sequence[Group]) -> Figure:
    figure, (axis,) = new_figure(1, 1, 8.4, 2.6)
    names = [layer["name"] for layer in groups[0].summaries[0]["sizes"]["layers"]]
    width = 0.8 / len(groups)
    for i, group in enumerate(groups):
        layers = [summary["sizes"]["layers"] for summary in group.summaries]
        share = np.mean([[1 - layer["remaining"] / layer["weights"] for layer in run] for run in layers], axis=0)
        axis.bar(np.arange(len(names)) + i * width, share, width, color=style(group)[0], label=group.label)
    axis.set_xticks(np.arange(len(names)) + 0.4 - width / 2, names, rotation=30 if len(names) < 12 else 90, ha="right")
    axis.tick_params(axis="x", labelsize=8 if len(names) < 12 else 6)
    axis.set_ylim(0, 1)
    axis.set_ylabel("pruned fraction")
    axis.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def evidence(group: Group) -> Figure | None:
    """ΔF of the weights that were there before the first and before the last reduction, and of those that stayed."""
    lines = group.lines("reductions.jsonl")
    if not lines:
        return None
    figure, axes = new_figure(2, 1, 4.2, 2.4)
    for axis, line in zip(axes, (lines[0], lines[-1]), strict=True):
        before, after = (
            np.sum([layer[name] for layer in line["layers"]], axis=0) for name in ("delta_f_before", "delta_f_after")
        )
        places = np.arange(len(before))
        axis.bar(places, before, 1.0, color="#BBBBBB", label="before")
        axis.bar(places, after, 0.6, color=style(group)[0], label="kept")
        ticks = [
            i
            for i, edge in enumerate(HISTOGRAM_EDGES)
            if np.isclose(np.log10(max(abs(edge), 1e-9)) % 1, 0) or edge == 0
        ]
        axis.set_xticks(np.array(ticks) - 0.5, [f"{HISTOGRAM_EDGES[i]:g}" for i in ticks], fontsize=7, rotation=45)
        axis.set_yscale("symlog", linthresh=1)
        axis.set_ylim(bottom=0)
        axis.set_xlabel("ΔF of removing a weight, nats (right of 0: the data prefer it gone)", fontsize=7)
        axis.set_title(f"reduction before epoch {line['epoch']}", fontsize=9)
        axis.set_ylabel("weights")
    axes[0].legend(frameon=False)
    return figure


def first_layer(group: Group, most: int = 24) -> Figure | None:
    """The input weights of the strongest units of the first layer that looks at an image, one picture a unit."""
    if not group.folders or not (group.folders[0].path / "weights.safetensors").is_file():  # kept without its arrays
        return None
    layers = group.folders[0].weights()
    name = next((name for name, matrix in layers.items() if picture_side(matrix) is not None), None)
    if name is None:
        return None
    matrix, picture = layers[name], as_images(layers[name])
    order = np.argsort(-np.linalg.norm(matrix, axis=1))[:most]
    columns = min(12, len(order))
    figure, axes = new_figure(columns, -(-len(order) // columns), 0.7, 0.74)
    limit = np.abs(matrix[order]).max() or 1.0
    for axis in axes:
        axis.set_axis_off()
    for axis, unit in zip(axes, order, strict=False):
        axis.imshow(picture[unit], cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
    figure.suptitle(f"{group.label}: {name}, ±{limit:.2g}", fontsize=9, x=0.01, ha="left")
    return figure


def picture_side(matrix: np.ndarray) -> int | None:
    """The side of the square picture that each row is, of one or three channels; None where it is no picture."""
    for channels in (1, 3):
        side = round((matrix.shape[1] / channels) ** 0.5)
        if side > 2 and side * side * channels == matrix.shape[1]:
            return side
    return None


def as_images(matrix: np.ndarray) -> np.ndarray:
    """Rows as square pictures, channels averaged."""
    side = picture_side(matrix)
    assert side is not None
    return matrix.reshape(len(matrix), -1, side, side).mean(1)
