"""The paper's figures, from the cells alone: 1, S1, S2 (performance by epoch), 2 (pruned by epoch), 3 (spread of the
weights by layer), 4 (first layers)."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..names import LABELS
from ..report.figures import draw_curve, logarithmic, new_figure
from ..report.styles import CURVES, STYLES
from .cells import QUANTILES, CellResult
from .grid import DATA, METHODS, NETWORKS

TITLES = {
    "mlp": "MLP", "lenet": "LeNet-5", "mixer": "MLP-Mixer", "vit": "ViT",
    "fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100",
}  # fmt: skip
NETWORK_STYLES = {  # colours that no method has; dashes as well
    "mlp": ("#332288", "-"),
    "lenet": ("#AA4499", (0, (6, 1.5))),
    "mixer": ("#117733", (0, (3, 1.5, 1, 1.5))),
    "vit": ("#999933", (0, (1, 1))),
}


def paper_figures(results: Sequence[CellResult]) -> dict[str, Figure]:
    """Every figure that the cells suffice for, by file name."""
    made = {}
    names: dict[str, str] = dict(zip(DATA, ("figure-1", "figure-S1", "figure-S2"), strict=True))
    for data in sets_in(results):
        made[f"{names.get(data, 'performance')}-{data.replace('_', '-')}"] = performance(results, data)
    made["figure-2-pruned"] = pruned(results)
    first = [result for result in results if result.key[0] == sets_in(results)[0]]  # the paper's: Fashion-MNIST
    made["figure-3-weights"] = weight_spread(first)
    made["figure-4-first-layer"] = first_layers(first)
    return {name: figure for name, figure in made.items() if figure is not None}


def sets_in(results: Sequence[CellResult]) -> list[str]:
    """The data sets of the results: the paper's in its order, then others."""
    found = sorted({result.key[0] for result in results})
    return [data for data in DATA if data in found] + [data for data in found if data not in DATA]


def performance(results: Sequence[CellResult], data: str) -> Figure | None:
    """Accuracy, calibration error and likelihood by epoch, a column a network."""
    own = [result.group for result in results if result.key[0] == data and result.key[2] in METHODS]
    networks = [network for network in NETWORKS if any(group.config.network == network for group in own)]
    if not networks:
        return None
    figure, axes = new_figure(len(networks), 3, 2.7, 2.1)
    for place_, axis in enumerate(axes):
        row, column = divmod(place_, len(networks))
        name = ("accuracy", "ece", "nll")[row]
        members = [group for group in own if group.config.network == networks[column]]
        for group in sorted(members, key=lambda group: METHODS.index(group.config.method)):
            draw_curve(axis, group, name, STYLES[group.config.method], group.label)
        if name != "accuracy":
            logarithmic(axis)
        if row == 0:
            axis.set_title(TITLES[networks[column]], fontsize=10)
        if row == 2:
            axis.set_xlabel("epoch")
        if column == 0:
            axis.set_ylabel(CURVES[name])
    shared_legend(figure, axes)
    figure.suptitle(TITLES.get(data, data), fontsize=11)
    return figure


def shared_legend(figure: Figure, axes: Sequence[Axes]) -> None:
    entries = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=len(entries), frameon=False)


def pruned(results: Sequence[CellResult]) -> Figure | None:
    """The pruned fraction of BMR-S&S by epoch, a panel a data set."""
    own = [result.group for result in results if result.key[2] == "bmr-paper" and result.key[1] in NETWORKS]
    sets = [data for data in sets_in(results) if any(group.config.data == data for group in own)]
    if not sets:
        return None
    figure, axes = new_figure(len(sets), 1, 3.2, 2.6)
    for axis, data in zip(axes, sets, strict=True):
        for group in sorted((g for g in own if g.config.data == data), key=lambda g: NETWORKS.index(g.config.network)):
            network = group.config.network
            draw_curve(axis, group, "sparsity", NETWORK_STYLES[network], TITLES[network])
        axis.set_title(TITLES.get(data, data), fontsize=10)
        axis.set_xlabel("epoch")
        axis.set_ylim(0, 1)
    axes[0].set_ylabel("pruned fraction")
    shared_legend(figure, axes)
    return figure


def weight_spread(results: Sequence[CellResult]) -> Figure | None:
    """The fraction of a layer's weights whose |posterior mean| is at most x: MLP above, LeNet below."""
    found = {result.key[1:]: result for result in results}
    networks = [network for network in ("mlp", "lenet") if any(key[0] == network for key in found)]
    if not networks:
        return None
    columns = max(len(result.quantiles) for key, result in found.items() if key[0] in networks)
    figure, axes = new_figure(columns, len(networks), 2.0, 2.0)
    for axis in axes:
        axis.set_visible(False)
    for row, network in enumerate(networks):
        for method in METHODS:
            result = found.get((network, method))
            for column, (layer, values) in enumerate(result.quantiles.items() if result else ()):
                axis = axes[row * columns + column]
                axis.set_visible(True)
                colour, dashes = STYLES[method]
                label = LABELS[method]
                axis.plot(
                    np.maximum(values, 1e-7), QUANTILES, color=colour, linestyle=dashes, linewidth=1.4, label=label
                )
                axis.set_xscale("log")
                axis.set_xlim(1e-6, 3)
                axis.set_xticks([1e-6, 1e-4, 1e-2, 1])
                axis.set_ylim(0, 1.02)
                axis.set_title(f"{TITLES[network]}: {layer}", fontsize=8)
                if column == 0:
                    axis.set_ylabel("fraction ≤ x")
                if row == len(networks) - 1:
                    axis.set_xlabel("|posterior mean|")
    shared_legend(figure, axes)
    return figure


def first_layers(results: Sequence[CellResult]) -> Figure | None:
    """First layers: the MLP's matrix, LeNet's kernels. Each network has one colour scale."""
    found = {result.key[1:]: result.first_layer for result in results if result.first_layer is not None}
    methods = [method for method in METHODS if any(key[1] == method for key in found)]
    networks = [network for network in ("mlp", "lenet") if any(key[0] == network for key in found)]
    if not networks:
        return None
    figure = Figure(figsize=(2.6 * len(methods), 2.6 * len(networks)), layout="constrained")
    axes = figure.subplots(len(networks), len(methods), squeeze=False)
    for row, network in enumerate(networks):
        pictures = {method: found[network, method] for method in methods if (network, method) in found}
        limit = float(np.quantile(np.abs(np.concatenate([p.ravel() for p in pictures.values()])), 0.995)) or 1.0
        image = None
        for column, method in enumerate(methods):
            axis = axes[row, column]
            axis.set_xticks([])
            axis.set_yticks([])
            if method not in pictures:
                continue
            picture = pictures[method] if network == "mlp" else tiles(pictures[method])
            aspect = "auto" if network == "mlp" else "equal"
            image = axis.imshow(picture, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect=aspect, interpolation="nearest")
            axis.set_title(f"{TITLES[network]}, {LABELS[method]}", fontsize=9)
        if network == "mlp":
            axes[row, 0].set_ylabel("unit")
            for axis in axes[row]:
                axis.set_xlabel("pixel")
        if image is not None:
            figure.colorbar(image, ax=axes[row].tolist(), shrink=0.8)
    return figure


def tiles(kernels: np.ndarray, columns: int = 3) -> np.ndarray:
    """Square kernels (one a row) side by side, with a blank line between."""
    side = round(kernels.shape[1] ** 0.5)
    rows = -(-len(kernels) // columns)
    sheet = np.full((rows * (side + 1) - 1, columns * (side + 1) - 1), np.nan)
    for i, kernel in enumerate(kernels):
        top, left = (i // columns) * (side + 1), (i % columns) * (side + 1)
        sheet[top : top + side, left : left + side] = kernel.reshape(side, side)
    return sheet
