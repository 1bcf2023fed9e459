"""Does the temperature of the mean network help? An exported file is the network at its posterior mean, and has a
temperature of its own that held-out examples chose.

    python benchmarks/means.py RUN... [--out FILE]        # run folders of `occamax train … bmr`
    python benchmarks/means.py --table FILE

Prints, on the test set, the figures of the draws (those of the run), of the mean network as it is, and at its
temperature; and the temperature that the test set itself would have chosen, which no file has.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import trials

import occamax as ox
from occamax.evaluation import outputs_of_mean
from occamax.experiment.program import believed
from occamax.export.measuring import figures_of

NAMES = "accuracy", "nll", "ece"


def measure(path: Path, data_dir: Path | None) -> dict[str, Any]:
    fitted = ox.load(path)
    config, summary = fitted.config, fitted.summary or {}
    inputs, targets = fitted.test_set(None, data_dir)
    logits = np.asarray(outputs_of_mean(fitted.model, believed(fitted.state), jnp.asarray(inputs)), np.float64).reshape(
        len(inputs), -1
    )

    def at(temperature: float) -> dict[str, float]:
        found = figures_of(np.asarray(jax.nn.softmax(logits / temperature)), np.asarray(targets), True)
        return {name: round(found[name], 5) for name in NAMES}

    tried = np.exp(np.linspace(-0.5, 0.5, 101))
    best = float(tried[np.argmin([at(temperature)["nll"] for temperature in tried])])
    own = summary["mean_temperature"]
    return {
        "data": config.data, "network": config.network, "method": config.method, "seed": config.seed,
        "epochs": config.epochs, "steps": config.steps_per_epoch, "sparsity": round(summary["sparsity"], 4),
        "neg_elbo": round(summary["neg_elbo"], 4), "ece_floor": round(summary["ece_floor"], 5),
        "draws": {name: round(summary[name], 5) for name in NAMES}, "mean": at(1.0), "at_temperature": at(own),
        "temperature": round(own, 4), "best_temperature": round(best, 3), "command": trials.command(),
        "settings": config.settings,
        **{name: summary[name] for name in ("device", "commit", "versions")},
    }  # fmt: skip


def table(lines: list[dict[str, Any]]) -> str:
    rows = []
    for line in lines:
        budget = f"{line['network']}, {line['data']}, {line['epochs']} × {line['steps']}, seed {line['seed']}"
        figures = [
            " / ".join(trials.short(line[way][n], 4) for n in NAMES) for way in ("draws", "mean", "at_temperature")
        ]
        rows.append([budget, *figures, f"{line['temperature']:.3f}", f"{line['best_temperature']:.3f}"])
    heads = ["run", "draws: accuracy / NLL / ECE", "mean network", "the same at its temperature", "temperature"]
    return trials.markdown(*trials.with_bounds([*heads, "the test set's own"], rows, lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    lines = trials.lines_of(options.table) if options.table else [measure(p, options.data_dir) for p in options.runs]
    print(table(lines))
    if options.out is not None:
        with open(options.out, "a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    main()
