"""The README's first table: a line for each of the four runs that `make run` left.

    make run && python benchmarks/quickstart.py --out results/quickstart.jsonl

Trains nothing: figures, method, commit, device and versions are read from the run folders.
"""

import argparse
from pathlib import Path

import trials

from occamax.experiment.folder import RunFolder
from occamax.names import LABELS

ROOT = Path(__file__).parents[1]
METHODS = ("plain", "plain-pruned", "bmr", "bmr-natural")
FIGURES = ("accuracy", "nll", "ece", "ece_floor", "sparsity", "temperature", "neg_elbo")


def line_of(run: Path) -> dict:
    """One run, from its folder."""
    folder = RunFolder.open(run)
    config, summary = folder.config(), folder.read_json("summary.json")
    names = {"method": config.method, "data": config.data, "network": config.network, "seed": config.seed}
    return {
        **names, "epochs": config.epochs, "steps": config.steps_per_epoch, "samples": config.num_samples,
        **{name: round(summary[name], 4) for name in FIGURES}, "remaining": summary["sizes"]["remaining"],
        "settings": config.settings["method"], "command": "make run",
        **{name: summary[name] for name in ("versions", "device", "commit")},
    }  # fmt: skip


def table(lines: list[dict]) -> str:
    rows = [
        [
            LABELS[line["method"]],
            *(trials.short(line[name]) for name in ("accuracy", "nll", "ece", "ece_floor", "sparsity")),
            f"{line['remaining']:,}",
        ]
        for line in lines
    ]
    heads = ["method", "accuracy", "NLL", "ECE", "floor of ECE", "pruned", "weights kept"]
    return trials.markdown(*trials.with_bounds(heads, rows, lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "quickstart")
    parser.add_argument("--out", type=Path, help="the file of lines, written anew")
    options = parser.parse_args()
    lines = [line_of(options.runs / method) for method in METHODS]
    print(table(lines))
    if options.out is not None:
        options.out.unlink(missing_ok=True)
        for line in lines:
            trials.keep(line, options.out)


if __name__ == "__main__":
    main()
