"""What the studies share: train a method on a network, measure it on validation data or, at the very end, the test set,
and keep a line of JSON for each trial, so that a study that was cut off goes on where it was."""

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import occamax as ox
from occamax.command_words import augmentations
from occamax.experiment.environment import environment
from occamax.experiment.loop import Epoch
from occamax.experiment.sizes import sparsity
from occamax.methods import Method
from occamax.reduction import Score, TargetSparsity

CURVE = ("accuracy", "nll", "sparsity", "kl_weight", "fit", "held_out_nll")
BOUND = "−ELBO, nats"  # the head of its column
FIGURES = ("accuracy", "nll", "ece", "confidence", "sparsity")


def by_score(method: Method, score: Score) -> Method:
    """A method with a fixed sparsity, the lowest of that score removed first; all else as it was."""
    assert method.reduction is not None
    assert isinstance(method.reduction.criterion, TargetSparsity)
    criterion = replace(method.reduction.criterion, score=score)
    return replace(method, reduction=replace(method.reduction, criterion=criterion))


@dataclass(frozen=True)
class Trial:
    """One method on one network; `labels` say which in the lines of the file."""

    data: str
    network: str
    method: Method
    labels: dict
    images: int | None = None  # of the training set; all unless given
    augment: tuple[str, ...] = ()


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options that every study has."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--data-dir", type=Path)
    made.add_argument("--seeds", type=int, default=1)
    made.add_argument("--first-seed", type=int, default=0, help="count the seeds from here, say to run them apart")
    made.add_argument("--epochs", type=int, default=50)
    made.add_argument("--steps", type=int, default=500)
    made.add_argument("--samples", type=int, default=100, help="draws in the last evaluation")
    made.add_argument("--precision", default="float32")
    made.add_argument("--test", action="store_true", help="measure on the test set, not on held-out training data")
    made.add_argument("--out", type=Path, help="a file of lines; what is in it already is not run again")
    made.add_argument("--table", type=Path, help="print a file that --out wrote as a Markdown table, and stop")
    return made


def lines_of(path: Path | None) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path is not None and path.exists() else []


def keep(line: dict, path: Path | None) -> None:
    """Adds a line to a file, where there is one."""
    if path is not None:
        with open(path, "a") as file:
            file.write(json.dumps(line) + "\n")


def run(
    trials: Iterable[Trial],
    options: argparse.Namespace,
    measure: Callable[[Trial, argparse.Namespace], dict] | None = None,
) -> None:
    """Trains what is not in the file yet, as `measure` does, printing and keeping each line."""
    budget = {name: vars(options)[name] for name in ("epochs", "steps", "seeds", "first_seed", "test")}
    done = lines_of(options.out)
    for trial in trials:
        names = {"data": trial.data, "network": trial.network, "images": trial.images, **trial.labels, **budget}
        if any(names.items() <= {"first_seed": 0, **line}.items() for line in done):
            continue
        line = {**names, **(measure or named)(trial, options)}
        print(json.dumps(line), flush=True)
        keep(line, options.out)


def named(trial: Trial, options: argparse.Namespace) -> dict:
    """Of a network that has a name, from random weights."""
    return trained(ox.network_named(trial.network), dataset_of(trial, options), trial, options)


def dataset_of(trial: Trial, options: argparse.Namespace, held_out: int = 10_000) -> ox.Dataset:
    """With a fifth of the training examples in place of the test set, or as many as `held_out`, unless it is asked."""
    dataset = ox.load_data(trial.data, options.data_dir)
    if not options.test:
        dataset = dataset.hold_out(min(held_out, len(dataset.train) // 5))
    if trial.images is not None:
        dataset = dataset.first(min(trial.images, len(dataset.train)))
    return dataset


def trained(network: Any, dataset: ox.Dataset, trial: Trial, options: argparse.Namespace, **more: Any) -> dict:
    """The last figures, the mean over seeds; `each` has them by seed. `more` is of `ox.fit`."""
    curve, undone = [], []

    def watch(epoch: Epoch) -> None:
        undone.append(sum(epoch.undone))
        lines = epoch.metrics
        curve.append([round(float(np.mean([m[k] for m in lines])), 4) for k in CURVE if k in lines[0]])

    began = time.perf_counter()
    fits = ox.fit(
        network, dataset, trial.method, epochs=options.epochs, steps_per_epoch=options.steps,
        seeds=list(range(options.first_seed, options.first_seed + options.seeds)), num_samples=options.samples,
        compute_dtype=options.precision, augment=augmentations(trial.augment), on_epoch=watch,
        **{"curve_samples": 2, **more},
    )  # fmt: skip
    known = [k for k in (*FIGURES, "neg_elbo", "temperature", "noise", "ece_floor") if k in fits[0].history[-1]]
    each = {k: [round(fitted.history[-1][k], 4) for fitted in fits] for k in known}
    masks = [np.asarray(fitted.state.mask) for fitted in fits]
    return {
        **{k: round(float(np.mean([fitted.history[-1][k] for fitted in fits])), 4) for k in each},
        "each": each,
        "sparsity_of_all": round(float(np.mean([sparsity(mask, mask.size) for mask in masks])), 5),
        "undone": sum(undone),
        "curve": curve[:: max(1, len(curve) // 10)],
        "seconds": round(time.perf_counter() - began),
        "settings": fits[0].config.settings if more else fits[0].method.as_data(),  # as it suits the network
        "command": command(),
        **environment(),
    }


def command() -> str:
    """What was called, with the names of files and folders for where they lie on one machine."""
    words = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words])


def merged(lines: list[dict], *names: str) -> list[dict]:
    """Lines that agree in `names` as one: seeds that were run apart, with the mean over them all."""
    groups: dict[tuple, list[dict]] = {}
    for line in lines:
        groups.setdefault(tuple(line.get(name) for name in names), []).append(line)
    return [_mean(group) if len(group) > 1 else group[0] for group in groups.values()]


def _mean(group: list[dict]) -> dict:
    names = [name for name in group[0]["each"] if all(name in line["each"] for line in group)]  # older ones have fewer
    each = {name: [number for line in group for number in line["each"][name]] for name in names}
    means = {name: round(float(np.mean(numbers)), 4) for name, numbers in each.items()}
    return {**group[0], **means, "each": each, "seeds": sum(line["seeds"] for line in group)}


def short(number: float, digits: int = 3) -> str:
    return f"{number:.{digits}f}".removeprefix("0") if number else "0"


def figure(line: dict, name: str, digits: int = 3) -> str:
    """The mean over seeds, ± the standard deviation of one where there are several."""
    each = line.get("each", {}).get(name, [])
    spread = f" ± {np.std(each, ddof=1):.{digits}f}".replace(" 0.", " .") if len(each) > 1 else ""
    return short(line[name], digits) + spread


def is_point(line: dict) -> bool:
    """Whether the line is of a point estimate, whose `neg_elbo` is a penalised loss that bounds nothing."""
    return line["settings"].get("method", line["settings"])["posterior"]["kind"] == "PointMass"


def bound(line: dict) -> str:
    """−ELBO at a KL weight of one, ± where there are several seeds; a dash for a point estimate, which has none."""
    if is_point(line):
        return "–"
    each = line.get("each", {}).get("neg_elbo", [])
    return f"{line['neg_elbo']:,.0f}" + (f" ± {np.std(each, ddof=1):,.0f}" if len(each) > 1 else "")


def with_bounds(heads: list[str], rows: list[list[str]], lines: list[dict]) -> tuple[list[str], list[list[str]]]:
    """A row a line, with its bound as the last column; of lines that were made before any kept it, as they are."""
    if all("neg_elbo" not in line for line in lines):
        return heads, rows
    return [*heads, BOUND], [[*row, bound(line)] for row, line in zip(rows, lines, strict=True)]


def without_constants(
    heads: list[str], rows: list[list[str]], names: Mapping[str, str]
) -> tuple[list[str], list[list[str]]]:
    """A wide table without the columns that say the same in all of its rows: the head of the first that is left says it
    for all. Only of columns in `names`, which has the words before what they say."""
    constant = [
        i for i, head in enumerate(heads) if head in names and len(rows) > 1 and len({row[i] for row in rows}) == 1
    ]
    said = ", ".join(f"{names[heads[i]]}{rows[0][i]}" for i in constant)
    left = [i for i in range(len(heads)) if i not in constant]
    first = f"{heads[left[0]]} ({said})" if said else heads[left[0]]
    return [first, *(heads[i] for i in left[1:])], [[row[i] for i in left] for row in rows]


def markdown(heads: list[str], rows: Iterable[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
