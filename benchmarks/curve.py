"""The sparsity curve: what is lost as more weights go, by which weights are chosen.

    python benchmarks/curve.py --seeds 3 --test --out curve.jsonl [--places mlp:fashion_mnist ...]
    python benchmarks/curve.py --table results/history/curve/curve.jsonl
    python benchmarks/curve.py --draw results/history/curve/curve.jsonl

All with the same schedule, number of steps, held-out examples and a temperature from them: by the evidence
(`bmr --sparsity`), by the signal-to-noise ratio, by the magnitudes and at random in the same posterior, and by
magnitude in plain training (AdamW; with `--plain FILE` as tuned by `opponents.py --sparsity …` for the same place).
The lines of `magnitude` and `magnitude, no dropout` in older files are of plain training without a temperature.
"""

import dataclasses
from pathlib import Path

import numpy as np
import trials
from matplotlib.ticker import LogLocator, NullLocator

from occamax.methods import BMR, Method, Plain, method_from
from occamax.reduction import Chance, Magnitude, SignalToNoise
from occamax.report.figures import drawn, new_figure

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99)
PLACES = ("mlp:fashion_mnist", "lenet:fashion_mnist", "lenet:cifar10")
FIGURES = {"accuracy": "accuracy", "nll": "negative log-likelihood", "ece": "calibration error"}
STYLES = {
    "evidence": ("#E69F00", "-", "o"),
    "signal to noise": ("#0072B2", (0, (5, 1)), "s"),
    "magnitude, same posterior": ("#009E73", (0, (3, 1)), "P"),
    "magnitude, AdamW": ("#332288", (0, (2, 1)), "^"),
    "magnitude": ("#332288", (0, (1, 1)), "^"),
    "magnitude, no dropout": ("#CC79A7", (0, (4, 1, 1, 1)), "D"),
    "chance": ("#999999", (0, (3, 1, 1, 1)), "v"),
}


def contenders(sparsity: float, epochs: int, plain: Method) -> dict[str, Method]:
    """Three orders of one posterior, and chance, that differ in nothing else; and plain training by its magnitudes."""
    bmr = BMR().pruned_to(sparsity, epochs)
    return {
        "evidence": bmr,
        "signal to noise": trials.by_score(bmr, SignalToNoise()),
        "magnitude, same posterior": trials.by_score(bmr, Magnitude()),
        "magnitude, AdamW": plain.pruned_to(sparsity, epochs),
        "chance": trials.by_score(bmr, Chance()),
    }


def tuned_plain(lines: list[dict], network: str, data: str, level: float) -> Method:
    """The plain training that `opponents.py` found best on validation data at this sparsity, else dense; as it comes
    where it was not asked."""
    for stage in (f"tune at {level:g}", "tune"):
        wanted = {"stage": stage, "network": network, "data": data}
        found = [line for line in lines if wanted.items() <= line.items()]
        if found:
            method = method_from(min(found, key=lambda line: line["nll"])["method"])
            return dataclasses.replace(method, reduction=None)
    return Plain()


def main() -> None:
    parser = trials.parser(__doc__)
    parser.add_argument("--places", nargs="+", default=PLACES, metavar="NETWORK:DATA")
    parser.add_argument("--levels", nargs="+", type=float, default=LEVELS)
    ways = list(contenders(0.5, 50, Plain()))
    parser.add_argument("--ways", nargs="+", default=ways, choices=ways)
    parser.add_argument("--plain", type=Path, help="a file of opponents.py that says how plain training is tuned")
    parser.add_argument("--draw", type=Path, help="draw a file that --out wrote, as SVG and PNG beside it, and stop")
    options = parser.parse_args()
    if options.table:
        print(table(trials.lines_of(options.table)))
    elif options.draw:
        draw(options.draw)
    else:
        known = trials.lines_of(options.plain)
        wanted = [
            trials.Trial(data, network, method, {"way": way, "level": level})
            for network, data in (place.split(":") for place in options.places)
            for level in options.levels
            for way, method in contenders(level, options.epochs, tuned_plain(known, network, data, level)).items()
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
