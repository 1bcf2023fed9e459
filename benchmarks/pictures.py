"""The pictures of the documentation, drawn from the package's own functions.

python benchmarks/pictures.py      # writes docs/pictures/*.svg
"""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from page_tables import package_tests

import occamax as ox
from occamax.report.figures import drawn, new_figure

ROOT = Path(__file__).parents[1]
OUT = ROOT / "docs" / "pictures"
GREY, GOES, STAYS = "#777777", "#0072B2", "#D55E00"


def normal(x: np.ndarray, mean: float, std: float) -> np.ndarray:
    return np.exp(-0.5 * ((x - mean) / std) ** 2) / (std * np.sqrt(2 * np.pi))


def removal(mean: float, std: float) -> float:
    return float(ox.delta_f.removal(jnp.float32(mean), jnp.float32(std**2)))


def densities() -> Figure:
    """Prior and posterior of two weights, with their heights at zero."""
    figure, axes = new_figure(2, 1, 4.2, 2.6)
    x = np.linspace(-2.5, 2.5, 400)
    for axis, mean, std, colour in ((axes[0], 0.15, 0.3, GOES), (axes[1], 0.9, 0.3, STAYS)):
        axis.plot(x, normal(x, 0, 1), color=GREY, label="prior p")
        axis.plot(x, normal(x, mean, std), color=colour, label="posterior q")
        heights = [float(normal(np.zeros(1), *which)[0]) for which in ((0, 1), (mean, std))]
        axis.plot([0, 0], heights, color="black", linewidth=1, linestyle=":")
        axis.plot([0, 0], heights, "o", color="black", markersize=4)
        value = removal(mean, std)
        verdict = "it goes" if value > 0 else "it stays"
        axis.set_title(f"ΔF = ln q(0) − ln p(0) = {value:+.2f} nats: {verdict}".replace("-", "−"), fontsize=9)
        axis.set_xlabel("weight, in deviations of its prior")
        axis.set_yticks([])
        axis.spines["left"].set_visible(False)
    axes[0].legend(frameon=False)
    return figure


def delta_f() -> Figure:
    """ΔF over the mean and the deviation of the posterior; the line where it is zero."""
    figure, (axis,) = new_figure(1, 1, 5.2, 3.4)
    means, stds = np.meshgrid(np.linspace(0, 1.2, 61), np.geomspace(0.02, 1, 61))
    found = np.asarray(ox.delta_f.removal(jnp.asarray(means), jnp.asarray(stds**2)))
    image = axis.contourf(means, stds, found.clip(-6, 4), levels=np.arange(-6, 4.5, 0.5), cmap="RdBu")
    axis.contour(means, stds, found, levels=[0.0], colors="black", linewidths=1.5)
    axis.text(0.05, 0.09, "goes", fontsize=11)
    axis.text(0.85, 0.15, "stays", fontsize=11)
    axis.set_yscale("log")
    axis.set_xlabel("posterior mean μ, in deviations of the prior")
    axis.set_ylabel("posterior deviation σ")
    figure.colorbar(image, ax=axis, label="ΔF, nats (under −6: −6)")
    return figure


def front() -> Figure:
    """What the README's table says: accuracy, NLL and ECE as more weights go, the mean over seeds and a line from the
    lowest to the highest."""
    study = ROOT / "results" / "study"
    found = package_tests(study / "resnet20-on-the-test-set.jsonl", study / "adamw-on-resnet20.jsonl")
    levels = sorted({level for level, _ in found})
    figure, axes = new_figure(3, 1, 3.3, 2.8)
    ways = ((False, GOES, "o", "-", "Bayesian,\nby ΔF"), (True, STAYS, "^", "--", "AdamW,\nby magnitude"))
    for number, title in enumerate(("accuracy", "negative log-likelihood", "calibration error (ECE)")):
        axis = axes[number]
        for plain, colour, marker, dashes, label in ways:
            places = [place for place, level in enumerate(levels) if (level, plain) in found]
            each = [[seed[number] for seed in found[levels[place], plain]] for place in places]
            means = [float(np.mean(values)) for values in each]
            axis.vlines(places, [min(v) for v in each], [max(v) for v in each], color=colour, linewidth=1)
            axis.plot(places, means, color=colour, marker=marker, linestyle=dashes, markersize=4, label=label)
        axis.set_title(title, fontsize=10)
        axis.set_xticks(range(len(levels)), ["none", *(f"{level:.0%}" for level in levels[1:])])
        axis.set_xlabel("weights removed")
    axes[2].set_ylim(0)
    axes[0].legend(frameon=False, loc="lower left")
    return figure


def main() -> None:
    for name, figure in {"densities": densities(), "delta-f": delta_f(), "front": front()}.items():
        (OUT / f"{name}.svg").write_bytes(drawn(figure, "svg", bbox_inches="tight"))
        print(OUT / f"{name}.svg")


if __name__ == "__main__":
    main()
