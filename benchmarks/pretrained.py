"""Networks that others trained, fine-tuned and pruned: EfficientNet-Lite0 on images, MiniLM on texts.

    python benchmarks/pretrained.py cifar10 lite0 plain --set learning_rate=Cosine(3e-4) --levels 0 .7 --out FILE
    python benchmarks/pretrained.py film_snippets minilm bmr-natural --levels .7 .8 .9 --out FILE
    python benchmarks/pretrained.py --table FILE

All begin with the same weights, those of `pretrained_weights.py` in DATA/pretrained, and an output layer at random, and
train for as many steps. Level 0 prunes nothing; plain training is pruned by magnitude along the schedule that `bmr`
has; without --levels the evidence decides. Plain training and `bmr` have a temperature from the same held-out examples.
With --begin they begin at a run that --keep left, say the fine-tuned dense network; its steps are not counted.
Without --test, what is measured is held-out training examples. The table of words of MiniLM stays as it is. --random
takes small networks of random weights, to try a command.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import trials
from levels import at_level
from pretrained_networks import Larger, lite0, minilm
from pretrained_networks import table as words
from pretrained_weights import FILES
from safetensors.numpy import load_file

import occamax as ox
from occamax.command_words import method_from_words

HEADS = {"accuracy": "accuracy", "nll": "NLL", "ece": "ECE", "ece_floor": "its floor", "sparsity": "pruned"}
SMALL: dict[str, dict[str, Any]] = {
    "lite0": {"stages": ((1, 8, 1, 1, 3), (2, 8, 1, 2, 5)), "width": 16},
    "minilm": {"words": 64, "width": 8, "heads": 2, "layers": 1},
}
NAMES = {"lite0": "EfficientNet-Lite0", "minilm": "MiniLM"}


def share(word: str) -> float | None:
    return None if word == "evidence" else float(word)


def parser() -> argparse.ArgumentParser:
    made = trials.parser(__doc__)
    made.add_argument("data", nargs="?", help="a data set, or film_snippets for MiniLM")
    made.add_argument("model", nargs="?", choices=SMALL)
    made.add_argument("method", nargs="?")
    made.add_argument("--set", nargs="*", default=[], dest="changes", help="values of the method, as for train")
    made.add_argument("--levels", nargs="*", type=share, default=[None], help="or evidence, which decides by itself")
    made.add_argument("--batch", type=int, default=128)
    made.add_argument("--side", type=int, default=128, help="to which images are enlarged")
    made.add_argument("--layers", type=int, default=6, help="of MiniLM")
    made.add_argument("--dropout", type=float, help="unless as the network was trained: .2 and .1")
    made.add_argument("--augment", nargs="*", default=[], help="crop, flip, as for train")
    made.add_argument("--images", type=int, help="train on that many examples only")
    made.add_argument("--held-out", type=int, default=10_000, help="without --test: so many, a fifth at most")
    made.add_argument("--rate-factor", type=float, default=1.0, help="times the method's rate, as of `ox.Trained`")
    made.add_argument("--largest-std", type=float, help="of the first deviations, as of `ox.Trained`")
    made.add_argument("--asked", type=int, default=10_000, help="examples for the curvature at the start")
    made.add_argument("--keep", type=Path, help="a folder for the run")
    made.add_argument("--begin", type=Path, help="such a folder, to begin at")
    made.add_argument("--random", action="store_true")
    return made


def labels_of(options: argparse.Namespace, level: float | None) -> dict[str, Any]:
    """What says which trial it is."""
    names = ["method", "changes", "augment", "precision", "batch", "dropout", "rate_factor", "largest_std", "held_out"]
    names += ["asked"]
    names += ["side"] if options.model == "lite0" else ["layers"]
    begin = None if options.begin is None else options.begin.name
    return {**{name: vars(options)[name] for name in names}, "begin": begin, "random": options.random, "level": level}


def network_of(options: argparse.Namespace, outputs: int) -> Any:
    """As it was trained, with an output layer of its own."""
    how = SMALL[options.model] if options.random else {}
    how = {**how, **({} if options.dropout is None else {"dropout": options.dropout})}
    key = jax.random.key(options.first_seed)
    arrays = None if options.random else load_file(options.data_dir / "pretrained" / FILES[options.model])
    if options.model == "lite0":
        return lite0(arrays, outputs, key=key, **how)
    return minilm(arrays, outputs, key=key, **{"layers": options.layers, **how})


def measure(trial: trials.Trial, options: argparse.Namespace) -> dict:
    """One method, from pretrained weights or from those of a run."""
    of_texts = options.data == "film_snippets"
    path = str(options.data_dir / "pretrained" / FILES[options.data]) if of_texts else options.data
    data = trials.dataset_of(replace(trial, data=path), options, options.held_out)
    begin = None if options.begin is None else options.begin / f"seed{options.first_seed}"
    limits = {"largest_std": options.largest_std, "rate_factor": options.rate_factor}
    start = ox.Trained(begin, ox.GaussNewton(examples=options.asked), **limits)
    more = {"start": start, "batch_size": options.batch, "curve_samples": 1, "out": options.keep}
    more |= {"overwrite": True} if options.keep is not None else {}
    more |= {"fixed": words} if options.model == "minilm" else {"preprocess": Larger(options.side)}
    return trials.trained(network_of(options, data.outputs), data, trial, options, **more)


def main() -> None:
    options = parser().parse_args()
    if options.table:
        print(table(trials.lines_of(options.table)))
        return
    if options.method is None or (options.data_dir is None and not options.random):
        parser().error("DATA, MODEL, METHOD and --data-dir are needed")
    base = method_from_words(options.method, options.changes)
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        own = argparse.Namespace(**{**vars(options), "first_seed": seed, "seeds": 1})
        for level in options.levels:
            method, labels = at_level(base, level, options.epochs), labels_of(options, level)
            data, augment = Path(options.data).stem, tuple(options.augment)
            trials.run([trials.Trial(data, options.model, method, labels, options.images, augment)], own, measure)


def how(line: dict) -> str:
    """The method, and what of it is not as it comes; how many examples and draws calibrate it is left out."""
    words = [line["method"], *(word for word in line["changes"] if not word.startswith("calibration="))]
    words += [] if line["rate_factor"] == 1 else [f"rate_factor={line['rate_factor']:g}"]
    words += [] if line["largest_std"] is None else [f"largest_std={line['largest_std']:g}"]
    begin = [] if line["begin"] is None else [f"from `{line['begin']}`"]
    return " ".join([*(f"`{word}`" for word in words), *line["augment"], *begin])


def table(lines: list[dict]) -> str:
    """Accuracy, NLL, ECE, its floor and the bound by network, method and level, ± over seeds."""
    lines = [{**line, "how": how(line)} for line in lines]
    names = ("data", "network", "how", "side", "batch", "epochs", "steps", "images", "level", "test")
    lines = trials.merged(lines, *names)
    rows = [
        [
            f"{NAMES[line['network']]}, {line['data']}" + (f", {line['side']} pixels" if "side" in line else ""),
            line["how"], f"{line['epochs'] * line['steps']:,} × {line['batch']}",
            "test" if line["test"] else "validation",
            "evidence" if line["level"] is None else f"{100 * line['level']:g} %" if line["level"] else "dense",
            *(trials.figure(line, name) for name in HEADS), str(line["seeds"]),
        ]
        for line in lines
    ]  # fmt: skip
    heads = ["network, data", "method", "steps × batch", "measured on", "level", *HEADS.values(), "seeds"]
    said = {"measured on": "", "seeds": "seeds: "}
    return trials.markdown(*trials.without_constants(*trials.with_bounds(heads, rows, lines), said))


if __name__ == "__main__":
    main()
