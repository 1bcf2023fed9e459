"""One method on one network, dense and pruned to several shares, a seed at a time, or with --together all at once.

    python benchmarks/levels.py DATA NETWORK METHOD [--set VALUE …] [--augment flip crop] [--levels 0 .5 .9] --out FILE
    python benchmarks/levels.py DATA NETWORK METHOD … --levels .9 --epochs 200 --steps 390 --run FOLDER --out FILE
    python benchmarks/levels.py --table FILE

Level 0 prunes nothing; without --levels the evidence decides. --score prunes to the levels in another order of the same
posterior, with the same schedule, held-out examples and temperature. With --test on the test set, otherwise on a fifth
of the training examples, at most 10,000. --run trains nothing: the line is that of a folder of `occamax train`, once
its settings are found to be those that are named.
"""

import argparse
import dataclasses
import json
from pathlib import Path

import trials

from occamax.command_words import augmentations, method_from_words
from occamax.data.augment import as_augmentation
from occamax.methods import Method
from occamax.reduction import Magnitude, Score, SignalToNoise
from occamax.storage.structured import to_data
from occamax.structure.layout import Layout

HEADS = {"accuracy": "accuracy", "nll": "NLL", "ece": "ECE", "ece_floor": "its floor", "sparsity": "pruned"}
SCORES: dict[str, Score | None] = {"evidence": None, "signal-to-noise": SignalToNoise(), "magnitude": Magnitude()}


def at_level(method: Method, level: float | None, epochs: int, score: Score | None = None) -> Method:
    if level is None:
        return method
    if not level:
        return dataclasses.replace(method, reduction=None)
    pruned = method.pruned_to(level, epochs)
    return pruned if score is None else trials.by_score(pruned, score)


def main() -> None:
    parser = trials.parser(__doc__)
    parser.add_argument("data", nargs="?")
    parser.add_argument("network", nargs="?")
    parser.add_argument("method", nargs="?")
    parser.add_argument("--set", nargs="*", default=[], dest="changes", help="values of the method, as for train")
    parser.add_argument("--augment", nargs="*", default=[], help="crop, flip, as for train")
    parser.add_argument("--levels", nargs="*", type=float, default=[None])
    parser.add_argument("--score", choices=SCORES, default="evidence", help="what goes first, at a level")
    parser.add_argument("--images", type=int, help="train on that many examples only")
    parser.add_argument("--run", type=Path, help="the folder of a finished run, in place of training")
    parser.add_argument("--together", action="store_true", help="all seeds in one program")
    options = parser.parse_args()
    if options.table:
        print(table(trials.lines_of(options.table)))
    elif options.method is None:
        parser.error("DATA, NETWORK and METHOD are needed")
    else:
        base = method_from_words(options.method, options.changes)
        labels = {"method": options.method, "changes": options.changes, "augment": options.augment}
        labels["precision"] = options.precision
        score = SCORES[options.score]
        if score is not None:
            labels["score"] = options.score
        at_once = options.seeds if options.together else 1
        for seed in range(options.first_seed, options.first_seed + options.seeds, at_once):
            own = argparse.Namespace(**{**vars(options), "first_seed": seed, "seeds": at_once})
            wanted = [
                trials.Trial(
                    options.data, options.network, at_level(base, level, options.epochs, score),
                    {**labels, "level": level}, options.images, tuple(options.augment),
                )
                for level in options.levels
            ]  # fmt: skip
            trials.run(wanted, own, of_run if options.run else None)


def of_run(trial: trials.Trial, options: argparse.Namespace) -> dict:
    """The figures of a run folder. Its test set is what `train` measures on."""
    config, summary = (json.loads((options.run / f"{name}.json").read_text()) for name in ("config", "summary"))
    layout = Layout.from_data(config["layout"])
    begun = trial.method.begun(is_trained=False)
    ways = [begun.suited_to(dataclasses.replace(layout, is_normalised=either)) for either in (True, False)]
    asked = {"data": trial.data, "network": trial.network, "compute_dtype": options.precision, "batch_size": 128}
    asked |= {"epochs": options.epochs, "steps_per_epoch": options.steps, "seed": options.first_seed}
    others = {name: config[name] for name, value in asked.items() if config[name] != value}
    settings = config["settings"]
    is_same = settings["method"] in [way.as_data() for way in ways]
    is_same &= settings["augment"] == to_data(as_augmentation(augmentations(trial.augment)))
    if others or not is_same or not options.test:
        raise SystemExit(f"{options.run} is another run: {others or 'its method, augmentation, or --test, differs'}")
    known = [name for name in (*trials.FIGURES, "neg_elbo", "temperature", "noise", "ece_floor") if name in summary]
    figures = {name: round(summary[name], 4) for name in known}
    made = {name: summary[name] for name in ("versions", "device", "commit")}
    return {
        **figures, "each": {name: [value] for name, value in figures.items()}, "undone": summary["reductions_undone"],
        "seconds": round(summary["seconds"]), "settings": settings["method"],
        "command": trials.command(), **made,
    }  # fmt: skip


def table(lines: list[dict]) -> str:
    """Accuracy, NLL, ECE, its floor where a line has it, and the bound by level, ± over seeds."""
    for line in lines:
        code = [f"`{word}`" for word in (line["method"], *line["changes"])]
        score = [f"by {line['score']}"] if "score" in line else []
        half = ["float32"] if line["precision"] == "float32" else []
        line["how"] = " ".join([*code, *score, *line["augment"], *half])
    names = ("data", "network", "how", "epochs", "steps", "level", "test")
    lines = trials.merged(lines, *names)
    figures = [
        "accuracy",
        "nll",
        "ece",
        *(["ece_floor"] if any("ece_floor" in line for line in lines) else []),
        "sparsity",
    ]
    rows = [
        [
            line["data"], line["network"], line["how"], f"{line['epochs']} × {line['steps']}",
            "test" if line["test"] else "validation",
            "evidence" if line["level"] is None else trials.short(line["level"], 2),
            *(trials.figure(line, name) if name in line else "" for name in figures), str(line["seeds"]),
        ]
        for line in lines
    ]  # fmt: skip
    heads = ["data", "network", "method", "steps", "measured on", "level", *(HEADS[name] for name in figures), "seeds"]
    said = {"data": "", "network": "", "steps": "", "measured on": "", "level": "level ", "seeds": "seeds: "}
    return trials.markdown(*trials.without_constants(*trials.with_bounds(heads, rows, lines), said))


if __name__ == "__main__":
    main()
