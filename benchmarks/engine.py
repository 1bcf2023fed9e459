"""Whether the engine gives the figures it gave: `bmr-paper` and `bmr` on Fashion-MNIST's MLP and LeNet, three seeds
at once, beside what occamax 0.1 gave (results/cells, results/history/bmr-on-the-test-set.jsonl).

    python benchmarks/engine.py --data-dir DIR --out engine.jsonl            # about four minutes on an H200
    python benchmarks/engine.py --table results/history/engine.jsonl
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import trials

FIGURES = ("accuracy", "nll", "ece", "sparsity")
CELLS = [(network, method) for network in ("mlp", "lenet") for method in ("bmr-paper", "bmr")]
RESULTS = Path(__file__).parents[1] / "results"


def run(options: argparse.Namespace) -> None:
    import occamax as ox
    from occamax.experiment.environment import environment
    from occamax.methods import METHODS

    data = ox.load_data(options.data, options.data_dir)
    for network, method in CELLS:
        began = time.perf_counter()
        fits = ox.fit(
            ox.network_named(network), data, METHODS[method](), epochs=options.epochs, steps_per_epoch=options.steps,
            seeds=options.seeds, curve_samples=2,
        )  # fmt: skip
        line = {
            "data": options.data, "network": network, "method": method, "epochs": options.epochs,
            "steps": options.steps,
            "each": {
                name: [round(float(own.history[-1][name]), 4) for own in fits] for name in (*FIGURES, "neg_elbo")
            },
            "undone": sum(bool(item.get("undone")) for own in fits for item in own.history),
            "seconds": round(time.perf_counter() - began), "settings": fits[0].method.as_data(),
            "command": trials.command(), **environment(),
        }  # fmt: skip
        print(json.dumps({name: line[name] for name in ("network", "method", "each", "seconds")}), flush=True)
        trials.keep(line, options.out)


def before(network: str, method: str) -> dict[str, list[float]]:
    """Each seed's figures of 0.1."""
    if method == "bmr-paper":
        cell = json.loads((RESULTS / "cells" / f"fashion_mnist-{network}-{method}.json").read_text())
        return {name: [own[name] for own in cell["summaries"]] for name in FIGURES}
    for text in (RESULTS / "history" / "bmr-on-the-test-set.jsonl").read_text().splitlines():
        line = json.loads(text)
        if (line["data"], line["network"], line["variant"]) == ("fashion_mnist", network, "bmr"):
            return line["each"]
    raise SystemExit(f"results/history/bmr-on-the-test-set.jsonl: has no line of {network}")


def table(path: Path) -> None:
    print("| network | method | figure | 0.1: mean, seeds | now: mean, seeds | difference | spread of a seed |")
    print("|---|---|---|---|---|---|---|")
    for text in path.read_text().splitlines():
        line: dict[str, Any] = json.loads(text)
        then = before(line["network"], line["method"])
        for name in FIGURES:
            old, new = np.array(then[name]), np.array(line["each"][name])
            spread = np.sqrt((old.var(ddof=1) + new.var(ddof=1)) / 2)
            words = [f"{values.mean():.4f} ({', '.join(f'{v:.4f}' for v in values)})" for values in (old, new)]
            change = new.mean() - old.mean()
            cells = [line["network"], line["method"], name, *words, f"{change:+.4f}", f"{spread:.4f}"]
            print(f"| {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="fashion_mnist")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("engine.jsonl"))
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    table(options.table) if options.table else run(options)


if __name__ == "__main__":
    main()
