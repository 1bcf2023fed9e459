"""One method on one network, dense and pruned to several shares, a seed at a time, or with --together all at once.

    python benchmarks/levels.py DATA NETWORK METHOD [--set VALUE …] [--augment flip crop] [--levels 0 .5 .9] --out FILE
    python benchmarks/levels.py --table FILE

Level 0 prunes nothing; without --levels the evidence decides. --score prunes to the levels in another order of the same
posterior, with the same schedule, held-out examples and temperature. With --test on the test set, otherwise on a fifth
of the training examples, at most 10,000.
"""

import argparse
import dataclasses

import trials

from occamax.command_words import method_from_words
from occamax.methods import Method
from occamax.reduction import Magnitude, Score, SignalToNoise

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
            trials.run(wanted, own)


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
