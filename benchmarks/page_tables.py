"""The tables of the pages, a function for each kind: files in, Markdown out. `pages.py` puts them into the pages."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import check_cost
import classics
import curve
import exports
import exports_beside
import float32
import floors
import from_trained
import groups
import hosts
import large
import levels
import loading
import means
import numpy as np
import one_shot
import pretrained
import quickstart
import recompute
import reductions
import safety
import scaling
import study
import together
import trials
import unit_groups

from occamax.reproduction.cells import read_cells
from occamax.reproduction.comparison import Row, compare
from occamax.reproduction.grid import DATA, NETWORKS
from occamax.reproduction.published import published, short

TITLES = {
    "fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100",
    "mlp": "MLP", "lenet": "LeNet", "mixer": "Mixer", "vit": "ViT",
}  # fmt: skip
PLACES = [(data, network) for data in DATA for network in NETWORKS]
Line = dict[str, Any]


def study_table(path: Path) -> str:
    """A study, variants by networks. Its older files have a word that the pages no longer use."""
    return study.table(trials.lines_of(path)).replace("warming", "annealing")


def adapter_steps(lines: list[Line]) -> str:
    """A step of a network from PyTorch, and of the same in Equinox (`adapters.py`, which needs PyTorch)."""
    rows = [[line["network"], *(f"{line[name]:.2f}" for name in ("torch_ms", "equinox_ms", "ratio"))] for line in lines]
    return trials.markdown(["network", "from PyTorch, ms a step", "Equinox, ms a step", "ratio"], rows)


def torch_posteriors(lines: list[Line]) -> str:
    """One-shot pruning by posteriors of PyTorch (`torch_posteriors.py`, which needs PyTorch), ± over seeds."""
    orders = ("its own", "Gauss–Newton", "magnitude")
    places: dict[tuple[Any, ...], dict[str, list[Line]]] = {}
    for line in lines:
        place = places.setdefault((line["way"], line["sparsity"], line["repair"]), {})
        place.setdefault(line["order"], []).append(line)
    rows = []
    for (way, share, repair), own in places.items():
        cells = [_over_seeds(own[order]) if order in own and share else "–" for order in orders]
        dense = _over_seeds(own["magnitude"]) if not share else "–"
        rows.append([way, f"{share:.0%}", "–" if not share else "yes" if repair else "no", dense, *cells])
    return trials.markdown(["posterior", "gone", "repair", "dense", *(f"order: {order}" for order in orders)], rows)


def _over_seeds(lines: list[Line]) -> str:
    """Accuracy / NLL, ± over seeds that have a line each."""
    each = {name: [line[name] for line in lines] for name in ("accuracy", "nll")}
    mean = {name: float(np.mean(values)) for name, values in each.items()}
    return " / ".join(trials.figure({**mean, "each": each}, name) for name in each)


def few_examples(path: Path) -> str:
    """`bmr` beside plain training of the lowest NLL, by how many examples there are to learn from."""
    places: dict[tuple[str, int], list[Line]] = {}
    for line in trials.lines_of(path):
        places.setdefault((line["network"], line["images"]), []).append(line)
    rows = []
    for (network, images), lines in places.items():
        ours = next(line for line in lines if line["variant"] == "bmr")
        plain = [line for line in lines if line["variant"] != "bmr"]
        best = min(plain, key=lambda line: line["nll"])
        accurate = max(plain, key=lambda line: line["accuracy"])
        cells = [_figures(ours, " / "), trials.figure(ours, "sparsity"), trials.bound(ours), _figures(best, " / ")]
        rows.append([TITLES[network], f"{images:,}", *cells, trials.figure(accurate, "accuracy")])
    heads = ["`bmr`", "pruned", trials.BOUND, "plain, of the lowest NLL", "the most accurate plain"]
    return trials.markdown(["network", "images", *heads], rows)


def bounds(path: Path) -> str:
    """Methods beside each other with their evidence bound, at a KL weight of one whatever they were trained with."""
    rows = []
    for line in trials.lines_of(path):
        figures = [trials.figure(line, name) for name in ("accuracy", "nll", "ece", "sparsity")]
        budget = f"{line['epochs']} × {line['steps']}"
        rows.append([f"`{line['variant']}`", budget, *figures, str(line["seeds"]), trials.bound(line)])
    heads = ["method", "steps", "accuracy", "NLL", "ECE", "pruned", "seeds", trials.BOUND]
    return trials.markdown(*trials.without_constants(heads, rows, {"steps": "", "seeds": "seeds: "}))


def _by_place(lines: list[Line]) -> dict[tuple[str, str], dict[str, Line]]:
    """(data, network) → variant → its line, seeds that were run apart as one."""
    found: dict[tuple[str, str], dict[str, Line]] = {}
    for line in trials.merged(lines, "data", "network", "variant"):
        found.setdefault((line["data"], line["network"]), {})[line["variant"]] = line
    return found


def _plain(variants: dict[str, Line]) -> Line | None:
    """Plain training at the rate with the best accuracy."""
    tried = [line for name, line in variants.items() if name.startswith("plain")]
    return max(tried, key=lambda line: line["accuracy"]) if tried else None


def _figures(line: Line | None, separator: str = ", ") -> str:
    names = ("accuracy", "nll", "ece")
    return separator.join(trials.figure(line, name) for name in names) if line is not None else ""


def _cells(folder: Path) -> dict[tuple[str, str, str], Row]:
    return {row.key: row for row in compare(read_cells(folder))}


def _row(row: Row, column: str) -> str:
    spread = (row.deviation or {}).get(column)
    return short(row.ours[column]) + (f" ± {short(spread)}" if spread is not None else "")


def methods(folder: Path) -> str:
    """The paper's first and last method in every cell."""
    rows, cells = [], _cells(folder)
    kept = {cell.key: [own["sizes"] for own in cell.group.summaries] for cell in read_cells(folder)}
    for place in PLACES:
        point, ours = cells[(*place, "map")], cells[(*place, "bmr-paper")]
        figures = [", ".join(_row(row, name) for name in ("accuracy", "nll", "ece")) for row in (point, ours)]
        sizes = kept[ours.key]
        left = f"{np.mean([own['remaining'] for own in sizes]):,.0f} of {sizes[0]['weights']:,}"
        spread = (ours.deviation or {}).get("neg_elbo")
        bound = f"{ours.neg_elbo:,.0f}" + (f" ± {spread:,.0f}" if spread is not None else "")
        rows.append([*map(TITLES.__getitem__, place), *figures, bound, _row(ours, "pruned"), left])
    heads = ["Flat-MAP: accuracy, NLL, ECE", "BMR-S&S (`bmr-paper`): accuracy, NLL, ECE", "−ELBO, nats"]
    return trials.markdown(["data", "network", *heads, "pruned", "weights kept"], rows)


def final(path: Path) -> str:
    """`bmr` beside plain training on the test set."""
    found, rows = _by_place(trials.lines_of(path)), []
    for place in PLACES:
        ours, plain = found[place]["bmr"], _plain(found[place])
        pruned = trials.figure(ours, "sparsity")
        rows.append([*map(TITLES.__getitem__, place), _figures(plain), _figures(ours), pruned])
    heads = ["plain training: accuracy, NLL, ECE", "`bmr`: accuracy, NLL, ECE", "pruned"]
    return trials.markdown(["data", "network", *heads], rows)


def final_beside(path: Path, folder: Path) -> str:
    """The same with the methods of the paper, from the study where it has them, else from the cells."""
    found, cells, theirs, rows = _by_place(trials.lines_of(path)), _cells(folder), published(), []
    for place in PLACES:
        ours = found[place]["bmr"]
        figures = f"{_figures(ours, ' / ')} / {trials.short(ours['sparsity'], 2)}"
        lines = [found[place].get(name) for name in ("map", "flat", "tiered")]
        nlls = [
            trials.figure(line, "nll") if line is not None else _row(cells[(*place, name)], "nll")
            for name, line in zip(("map", "flat", "tiered"), lines, strict=True)
        ]
        accuracies = ", ".join(short(theirs[(*place, name)]["accuracy"].value) for name in ("map", "bmr-paper"))
        plain = _figures(_plain(found[place]), " / ")
        rows.append([*map(TITLES.__getitem__, place), figures, plain, ", ".join(nlls), accuracies])
    heads = ["`bmr`", "plain", "NLL of `map`, `flat`, `tiered`", "published accuracy: MAP, BMR"]
    return trials.markdown(["data", "network", *heads], rows)


DIAL = {  # variants of the table, and what it calls them
    "as bmr": "as bmr",
    "twice the rate": "twice the rate",
    "nats by the weights that are to stay": "nats by the weights that are to stay",
    "nats by the weights that are to stay, twice the rate": "the same, twice the rate",
    "nats by the mean of both counts, twice the rate": "nats by the mean of both counts, twice the rate",
    "divergence .6 throughout": "divergence .6 throughout",
    "reached by half the run": "reached by half the run",
    "by signal to noise": "by signal to noise",
    "magnitude in plain training, rate 1e-2": "magnitude in plain training, rate 1e-2",
}


def dial(path: Path) -> str:
    """A target sparsity: some of the variants of the file, accuracy / NLL."""
    places = [("lenet-300-100", 0.985), ("lenet-caffe", 0.996)]
    places += [(network, level) for network in ("mlp", "lenet") for level in (0.95, 0.99)]
    found = {(line["variant"], line["network"], line["level"]): line for line in trials.lines_of(path)}
    heads = []
    for network, level in places:
        line = found["as bmr", network, level]
        budget = "" if line["steps"] == 500 else f", {line['epochs']} × {line['steps']}"
        heads.append(f"{network}, {line['data']}{budget}, {100 * level:g} %")
    rows = []
    for variant, name in DIAL.items():
        own = [found.get((variant, *place)) for place in places]
        rows.append([name, *(_figures_of(line, "accuracy", "nll") for line in own)])
    return trials.markdown(["variant", *heads], rows)


def _figures_of(line: Line | None, *names: str) -> str:
    return " / ".join(trials.figure(line, name) for name in names) if line is not None else ""


def files(path: Path) -> str:
    """Exports in short."""
    rows = []
    for line in trials.lines_of(path):
        config, run = line["config"], line["run"]
        price = f", `--unit-price {config['unit_price']:g}`" if config["unit_price"] is not None else ""
        (dense, size), zipped = line["bytes"], line["zipped"][1]
        times = [dense / size, exports.masked_zipped(line) / zipped]
        words = [
            f"{size / 1e3:.0f} kB, {_times(times[0])} smaller",
            f"{zipped / 1e3:.0f} kB, {_times(times[1])} smaller",
        ]
        before, after = line["milliseconds"]["128"]
        figures = ", ".join(trials.short(run[name]) for name in ("accuracy", "nll", "ece"))
        name, speed = TITLES[config["network"]] + price, f"{before / after:.1f} times faster"
        pruned, accuracy = trials.short(run["sparsity"]), trials.short(line["test_accuracy"])
        rows.append([name, figures, accuracy, pruned, *words, speed])
    heads = ["network", "accuracy, NLL, ECE of 100 draws", "accuracy of the file", "pruned"]
    heads += ["ONNX file, beside the dense one", "both gzipped, the dense one masked", "batch of 128, one core"]
    return trials.markdown(heads, rows)


def _times(ratio: float) -> str:
    return f"{ratio:.0f} times" if ratio >= 10 else f"{ratio:.1f} times"


def _timings(folder: Path, name: str) -> dict[str, float]:
    """name of a row → milliseconds a step."""
    (rows,) = json.loads((folder / f"{name}.json").read_text())["networks"].values()
    return {row["name"]: row["ms_per_step"] for row in rows}


def speed_gpu(folder: Path, cells: Path) -> str:
    """Milliseconds a step on the H200."""
    times = {network: _timings(folder, f"h200-{network}") for network in NETWORKS}
    sizes = {n: json.loads((cells / f"fashion_mnist-{n}-bmr-paper.json").read_text()) for n in NETWORKS}
    counts = {n: values["summaries"][0]["sizes"]["weights"] for n, values in sizes.items()}

    def row(title: str, value: Callable[[dict[str, float]], str]) -> list[str]:
        cells = []
        for network in NETWORKS:
            try:
                cells.append(value(times[network]))
            except KeyError:
                cells.append("")
        return [title, *cells]

    def ms(name: str) -> Callable[[dict[str, float]], str]:
        return lambda own: f"{own[name]:.3f}" if own[name] < 1 else f"{own[name]:.2f}"

    ours, theirs = "bmr-paper", "authors' BMR"
    rows = [
        ["weights", *(f"{counts[network]:,}" for network in NETWORKS)],
        *(row(f"`{name}`", ms(name)) for name in ("map", "tiered", ours)),
        row("`bmr-paper` ÷ `map`", lambda own: f"{own[ours] / own['map']:.2f}"),
        row(
            "`bmr-paper` faster than `tiered` by", lambda own: f"{1 - own[ours] / own['tiered']:.0%}".replace("%", " %")
        ),
        row("`bmr-paper`, bfloat16", ms("bmr-paper bfloat16")),
        row("`bmr-paper`, eight seeds at once, per seed", ms("bmr-paper × 8 seeds")),
        row("the authors' BMR, in one compiled loop", ms(theirs)),
        row("`bmr-paper` ÷ the authors' BMR", lambda own: f"{own[ours] / own[theirs]:.2f}"),
    ]
    return trials.markdown(["one NVIDIA H200, ms per step, batch 128", *map(TITLES.__getitem__, NETWORKS)], rows)


def speed_cpu(folder: Path) -> str:
    """Milliseconds a step on two CPU cores."""
    mlp, lenet = (_timings(folder, f"cpu-{network}") for network in ("mlp", "lenet"))
    peer = "NumPyro SVI AutoNormal"

    def row(title: str, name: str, other: str | None = None) -> list[str]:
        pair = (mlp.get(name), lenet.get(other or name))
        return [title, *("" if value is None else f"{value:.1f}" for value in pair)]

    own = "NumPyro, SVI with AutoNormal, our convolution"
    rows = [
        *(row(f"`{name}`", name) for name in ("map", "flat", "tiered", "bmr-paper")),
        ["`bmr-paper` ÷ `map`", *(f"{times['bmr-paper'] / times['map']:.2f}" for times in (mlp, lenet))],
        row("NumPyro, SVI with AutoNormal, Equinox's own convolution", peer, f"{peer}, plain convolution"),
        [own, "", f"{lenet[peer]:.1f}"],
        row("the authors' BMR, in one compiled loop", "authors' BMR"),
    ]
    return trials.markdown(["two CPU cores, ms per step, batch 128", "MLP", "LeNet"], rows)


def growth(path: Path) -> str:
    """Files from before the two methods could be chosen do not name them."""
    found, rows = json.loads(path.read_text()), []
    names = {"map": {"name": "map"}, "bmr": {"name": "bmr-paper"}} | found.get("methods", {})
    plain, bayesian = (f"`{names[key]['name']}`" for key in ("map", "bmr"))
    for line in found["weights"]:
        times = [f"{line[name]:.2f}" for name in ("map_ms", "bmr_ms")] + [f"{line['bmr_ms'] / line['map_ms']:.2f}"]
        rows.append([f"{line['weights']:,}", *times, *(f"{line[name]:.0f}" for name in ("map_mb", "bmr_mb"))])
    heads = ["weights", f"{plain} ms", f"{bayesian} ms", "ratio", f"{plain} MB", f"{bayesian} MB"]
    return trials.markdown(heads, rows)


def lab_tests(path: Path) -> dict[tuple[float, bool], list[list[float]]]:
    """The lab's runs on the test set, by sparsity and whether it is plain training: accuracy, NLL and ECE of each seed.
    Of the draws, or for plain training its last epoch."""
    found: dict[tuple[float, bool], list[list[float]]] = {}
    for line in trials.lines_of(path):
        if "test" in line["mean"]:
            shown = line["draws"] or line["mean"]
            found.setdefault((line["sparsity"], line["draws"] is None), []).append(shown["test"])
    return found


def lab_test(path: Path) -> str:
    """The lab's runs on the test set as a table."""
    return _beside(lab_tests(path), "natural gradients (prototype), by ΔF")


def package_tests(path: Path, plain: Path) -> dict[tuple[float, bool], list[list[float]]]:
    """As `lab_tests`: the package's runs on the test set, of a method and of plain training."""
    found: dict[tuple[float, bool], list[list[float]]] = {}
    for is_plain, lines in ((False, trials.lines_of(path)), (True, trials.lines_of(plain))):
        for line in lines:
            if line["test"]:
                seeds = zip(*(line["each"][name] for name in ("accuracy", "nll", "ece")), strict=True)
                found.setdefault((line["level"], is_plain), []).extend([list(seed) for seed in seeds])
    return found


def package_test(path: Path, plain: Path) -> str:
    """The package's runs on the test set as a table, with their bound; plain training has none."""
    bounds: dict[float, list[float]] = {}
    for line in trials.lines_of(path):
        if line["test"]:
            bounds.setdefault(line["level"], []).extend(line["each"]["neg_elbo"])
    return _beside(package_tests(path, plain), "occamax, by ΔF", bounds)


def _beside(
    found: dict[tuple[float, bool], list[list[float]]], title: str, bounds: dict[float, list[float]] | None = None
) -> str:
    rows = []
    for level in sorted({level for level, _ in found}):
        cells = []
        for plain in (False, True):
            seeds = found.get((level, plain), [])
            if not seeds:
                cells += ["", ""]
                continue
            each = dict(zip(("accuracy", "nll", "ece"), zip(*seeds, strict=True), strict=True))
            line = {"each": each} | {name: float(np.mean(values)) for name, values in each.items()}
            cells += [_figures(line, " / "), str(len(seeds))]
        if bounds is not None:
            cells[1:1] = [_nats(bounds[level])]
        rows.append([f"{level:.0%}".replace("%", " %") if level else "dense", *cells])
    heads = [title, *([] if bounds is None else [trials.BOUND]), "seeds", "AdamW, by magnitude", "seeds"]
    return trials.markdown(["pruned", *heads], rows)


def _nats(each: list[float]) -> str:
    return f"{np.mean(each):,.0f}" + (f" ± {np.std(each, ddof=1):,.0f}" if len(each) > 1 else "")


def opponents_beside(folder: Path) -> str:
    """`bmr` beside plain training that was tuned, SWAG of it and five of it, in the cells that have all; an NLL that is
    lower than that of the five by more than a seed's spread is set in bold."""
    rows = []
    for data, network in PLACES:
        lines = {
            line["name"]: line
            for line in trials.lines_of(folder / f"{data}-{network}.jsonl")
            if line["stage"] == "test"
        }
        if "bmr" not in lines:
            continue
        ours = lines["bmr"]
        tuned = next(line for name, line in lines.items() if name.startswith("tuned: "))
        swag = next((line for name, line in lines.items() if name.startswith("SWAG")), None)
        five = tuned["ensemble"]
        together = " / ".join(trials.short(five[name]) for name in ("accuracy", "nll", "ece"))
        shown = [trials.figure(ours, name) for name in ("accuracy", "nll", "ece")]
        if five["nll"] - ours["nll"] > np.std(ours["each"]["nll"], ddof=1):
            shown[1] = f"**{shown[1]}**"
        titles = map(TITLES.__getitem__, (data, network))
        size = [trials.figure(ours, "sparsity"), trials.bound(ours)]
        rows.append([*titles, " / ".join(shown), *size, *(_figures(line, " / ") for line in (tuned, swag)), together])
    heads = ["data", "network", "`bmr`", "pruned", trials.BOUND, "plain, tuned", "SWAG", "five of the plain"]
    return trials.markdown(heads, rows)


def opponents_together(folder: Path) -> str:
    """Three of `bmr` averaged, beside tuned plain training and five of it averaged, without a common temperature; an
    NLL is bold where it is lower than that of the five."""
    rows = []
    for data, network in PLACES:
        path = folder / f"{data}-{network}.jsonl"
        lines = {line["name"]: line for line in trials.lines_of(path) if line["stage"] == "test"}
        if "bmr" not in lines:
            continue
        ours, tuned = lines["bmr"], next(line for name, line in lines.items() if name.startswith("tuned: "))
        figures = [line["ensemble"] for line in (ours, tuned)]
        shown = [[trials.short(own[name]) for name in ("accuracy", "nll", "ece")] for own in figures]
        if figures[0]["nll"] < figures[1]["nll"]:
            shown[0][1] = f"**{shown[0][1]}**"
        left = f"{ours['seeds'] * (1 - ours['sparsity']):.0%}"
        both = [" / ".join(one) for one in shown]
        bound = trials.bound(ours)
        rows.append([TITLES[data], TITLES[network], both[0], left, _figures(tuned, " / "), both[1], bound])
    heads = ["data", "network", "three of `bmr`", "their weights, of one dense network's", "plain, tuned"]
    return trials.markdown([*heads, "five of the plain", f"{trials.BOUND}, one of `bmr`"], rows)


def opponents_front(folder: Path) -> str:
    """`bmr` and tuned plain training, a column a figure."""
    rows = []
    for data, network in PLACES:
        path = folder / f"{data}-{network}.jsonl"
        lines = {line["name"]: line for line in trials.lines_of(path) if line["stage"] == "test"}
        if "bmr" not in lines:
            continue
        tuned = next(line for name, line in lines.items() if name.startswith("tuned: "))
        both = [trials.figure(line, name) for name in ("accuracy", "nll", "ece") for line in (lines["bmr"], tuned)]
        share = trials.short(lines["bmr"]["sparsity"])
        rows.append([f"{TITLES[data]}, {TITLES[network]}", share, *both, trials.bound(lines["bmr"])])
    figures = (f"{name}{who}" for name in ("accuracy", "NLL", "ECE") for who in ("", ", plain"))
    return trials.markdown(["data, network", "pruned", *figures, trials.BOUND], rows)


KINDS: dict[str, Callable[..., str]] = {
    "lab-test": lab_test,
    "package-test": package_test,
    "hosts": lambda path: hosts.table(trials.lines_of(path)),
    "opponents": opponents_beside,
    "opponents-front": opponents_front,
    "opponents-together": opponents_together,
    "together": lambda path: together.table(trials.lines_of(path)),
    "study": study_table,
    "safety": lambda path: safety.table(trials.lines_of(path)),
    "curve": lambda path: curve.table(trials.lines_of(path)),
    "classics": lambda path: classics.table(trials.lines_of(path)),
    "exports": lambda path: exports.table(trials.lines_of(path)),
    "bounds": bounds,
    "adapters": lambda path: adapter_steps(trials.lines_of(path)),
    "torch-posteriors": lambda path: torch_posteriors(trials.lines_of(path)),
    "few-examples": few_examples,
    "levels": lambda path: levels.table(trials.lines_of(path)),
    "reductions": lambda path: reductions.counted(trials.lines_of(path)),
    "reduced": lambda path: reductions.figures(trials.lines_of(path)),
    "loading": lambda path: loading.table(trials.lines_of(path)),
    "recompute": lambda path: recompute.table(trials.lines_of(path)),
    "check-cost": lambda path: check_cost.table(trials.lines_of(path)),
    "from-trained": lambda path: from_trained.table(trials.lines_of(path)),
    "pretrained": lambda path: pretrained.table(trials.lines_of(path)),
    "target-by-natural": lambda path: classics.targets(trials.lines_of(path)),
    "groups": lambda path: groups.table(trials.lines_of(path)),
    "unit-groups": lambda path: unit_groups.table(trials.lines_of(path)),
    "means": lambda path: means.table(trials.lines_of(path)),
    "float32": float32.table,
    "floors": lambda path: floors.table(trials.lines_of(path)),
    "quickstart": lambda path: quickstart.table(trials.lines_of(path)),
    "one-shot": lambda path: one_shot.table(trials.lines_of(path)),
    "exports-beside": lambda path: exports_beside.table(trials.lines_of(path)),
    "methods": methods,
    "final": final,
    "final-beside": final_beside,
    "dial": dial,
    "files": files,
    "speed-gpu": speed_gpu,
    "speed-cpu": speed_cpu,
    "growth": growth,
    "large": lambda path: large.table(trials.lines_of(path)),
    "large-vectors": lambda path: large.vectors_table(trials.lines_of(path)),
    "scaling": scaling.table,
    "scaling-outlook": scaling.outlook,
}
