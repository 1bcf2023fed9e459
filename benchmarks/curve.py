"""The sparsity curve: what is lost as more weights go, by which weights are chosen.

    python benchmarks/curve.py --seeds 3 --test --out results/curve/curve.jsonl [--places mlp:fashion_mnist ...]
    python benchmarks/curve.py --table results/curve/curve.jsonl
    python benchmarks/curve.py --draw results/curve/curve.jsonl

All with the same schedules and the same number of steps: by the evidence (`bmr --sparsity`), by the signal-to-noise
ratio of the same posterior, at random in the same posterior, and by magnitude in plain training, with its dropout and
without.
"""

import dataclasses
from pathlib import Path

import numpy as np
import trials
from matplotlib.ticker import LogLocator, NullLocator

from occamax.methods import BMR, Method
from occamax.reduction import Chance, Magnitude, Score, SignalToNoise, TargetSparsity
from occamax.report.figures import drawn, new_figure

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99)
PLACES = ("mlp:fashion_mnist", "lenet:fashion_mnist", "lenet:cifar10")
FIGURES = {"accuracy": "accuracy", "nll": "negative log-likelihood", "ece": "calibration error"}
STYLES = {
    "evidence": ("#E69F00", "-", "o"),
    "signal to noise": ("#0072B2", (0, (5, 1)), "s"),
    "magnitude": ("#332288", (0, (1, 1)), "^"),
    "magnitude, no dropout": ("#CC79A7", (0, (4, 1, 1, 1)), "D"),
    "chance": ("#999999", (0, (3, 1, 1, 1)), "v"),
}


def by_score(method: Method, score: Score) -> Method:
    """A method with a fixed sparsity, the lowest of that score removed first."""
    assert method.reduction is not None
    assert isinstance(method.reduction.criterion, TargetSparsity)
    criterion = dataclasses.replace(method.reduction.criterion, score=score)
    return dataclasses.replace(method, reduction=dataclasses.replace(method.reduction, criterion=criterion))


def contenders(sparsity: float, epochs: int) -> dict[str, Method]:
    bmr = BMR().pruned_to(sparsity, epochs)
    plain = trials.plain(learning_rate=bmr.learning_rate, reduction=by_score(bmr, Magnitude()).reduction)
    return {
        "evidence": bmr,
        "signal to noise": by_score(bmr, SignalToNoise()),
        "magnitude": plain,
        "magnitude, no dropout": dataclasses.replace(plain, dropout=0.0),
        "chance": by_score(bmr, Chance()),
    }


def main() -> None:
    parser = trials.parser(__doc__)
    parser.add_argument("--places", nargs="+", default=PLACES, metavar="NETWORK:DATA")
    parser.add_argument("--levels", nargs="+", type=float, default=LEVELS)
    parser.add_argument("--ways", nargs="+", default=list(STYLES), choices=list(STYLES))
    parser.add_argument("--draw", type=Path, help="draw a file that --out wrote, as SVG and PNG beside it, and stop")
    options = parser.parse_args()
    if options.table:
        print(table(trials.lines_of(options.table)))
    elif options.draw:
        draw(options.draw)
    else:
        wanted = [
            trials.Trial(data, network, method, {"way": way, "level": level})
            for network, data in (place.split(":") for place in options.places)
            for level in options.levels
            for way, method in contenders(level, options.epochs).items()
            if way in options.ways
        ]
        trials.run(wanted, options)


def table(lines: list[dict]) -> str:
    """Accuracy / NLL / ECE, ways by levels, ± over seeds."""
    rows = []
    for network, data, way in dict.fromkeys((line["network"], line["data"], line["way"]) for line in lines):
        own = {
            line["level"]: line
            for line in lines
            if (line["network"], line["data"], line["way"]) == (network, data, way)
        }
        cells = [
            " / ".join(trials.figure(own[level], name) for name in FIGURES) if level in own else "" for level in LEVELS
        ]
        rows.append([f"{network}, {data}", way, *cells])
    return trials.markdown(["network", "chosen by", *(f"{level:.0%}" for level in LEVELS)], rows)


def draw(path: Path) -> None:
    lines = trials.lines_of(path)
    places = list(dict.fromkeys((line["network"], line["data"]) for line in lines))
    figure, axes = new_figure(len(FIGURES), len(places), 3.2, 2.4)
    grid = np.array(axes).reshape(len(places), len(FIGURES))
    for row, (network, data) in zip(grid, places, strict=True):
        for axis, (name, label) in zip(row, FIGURES.items(), strict=True):
            for way, (colour, dashes, marker) in STYLES.items():
                own = [line for line in lines if (line["network"], line["data"], line["way"]) == (network, data, way)]
                own.sort(key=lambda line: line["level"])
                # the share that is left, on a logarithmic axis that runs from dense to sparse
                left = [1 - line["level"] for line in own]
                if not own:
                    continue
                each = np.array([line["each"][name] for line in own])
                each = 1 - each if name == "accuracy" else each
                axis.plot(left, each.mean(1), color=colour, linestyle=dashes, marker=marker, markersize=4, label=way)
                axis.fill_between(left, each.min(1), each.max(1), color=colour, alpha=0.15, linewidth=0)
            axis.set_xscale("log")
            axis.set_xlim(0.6, 0.008)
            axis.set_xticks([1 - level for level in LEVELS], [f"{level:.0%}" for level in LEVELS])
            axis.minorticks_off()
            axis.set_xlabel("pruned")
            axis.set_yscale("log")
            axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_locator(NullLocator())
            axis.set_ylabel("error" if name == "accuracy" else label)
            axis.set_title(f"{network}, {data}", fontsize=9)
    grid[0, 0].legend(frameon=False, fontsize=8)
    for form in ("svg", "png"):
        out = path.with_suffix(f".{form}")
        out.write_bytes(drawn(figure, form, **({"dpi": 130} if form == "png" else {})))
        print(out)


if __name__ == "__main__":
    main()
