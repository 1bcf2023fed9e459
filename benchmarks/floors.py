"""The ECE that chance alone makes: what a perfectly calibrated classifier shows with so many test examples.

    python benchmarks/floors.py --out results/floors.jsonl
    python benchmarks/floors.py --table results/floors.jsonl

A run keeps its own floor, from its own confidences (`ece_floor`); earlier ones kept none. Here confidences are made:
the largest softmax output of normal numbers, scaled until their mean is as asked, which is the accuracy of a calibrated
classifier. Confidences that are all alike have the highest floor of all with that mean.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import trials
from scipy.optimize import root_scalar

import occamax as ox
from occamax.experiment.environment import environment

SETTINGS = {"bins": 20, "repeats": 200}
ASKED = [(0.98, 10, 10_000), (0.9, 10, 10_000), (0.87, 10, 10_000), (0.8, 10, 10_000), (0.6, 10, 10_000)]
ASKED += [(0.5, 10, 10_000), (0.3, 100, 10_000), (0.2, 100, 10_000), (0.87, 10, 2_000), (0.8, 10, 2_000)]


def probabilities(mean: float, classes: int, examples: int, seed: int = 0) -> np.ndarray:
    """(examples, classes), whose largest have this mean."""
    normal = np.random.default_rng(seed).standard_normal((examples, classes))

    def at(log_scale: float) -> np.ndarray:
        weights = np.exp(np.exp(log_scale) * (normal - normal.max(1, keepdims=True)))
        return weights / weights.sum(1, keepdims=True)

    return at(root_scalar(lambda log_scale: at(log_scale).max(1).mean() - mean, bracket=(-4.0, 8.0)).root)


def alike(mean: float, examples: int) -> np.ndarray:
    """Two classes, the larger always this; a little apart, so that they fall into bins of equal size."""
    confidence = mean + 1e-9 * np.arange(examples)
    return np.stack([confidence, 1 - confidence], 1)


def measure(mean: float, classes: int, examples: int) -> dict:
    floor = ox.calibration_floor(probabilities(mean, classes, examples), **SETTINGS)
    found = {
        "floor": floor.mean,
        "std": floor.std,
        "most": ox.calibration_floor(alike(mean, examples), **SETTINGS).mean,
    }
    asked = {"confidence": mean, "classes": classes, "test_examples": examples}
    return {
        **asked,
        **{name: round(value, 5) for name, value in found.items()},
        "settings": SETTINGS,
    }


def table(lines: list[dict]) -> str:
    rows = [
        [
            trials.short(line["confidence"], 2), str(line["classes"]), f"{line['test_examples']:,}",
            f"{trials.short(line['floor'], 4)} ± {trials.short(line['std'], 4)}", trials.short(line["most"], 4),
        ]
        for line in lines
    ]  # fmt: skip
    heads = ["accuracy and mean confidence", "classes", "test examples", "floor ± from one test set to another"]
    return trials.markdown([*heads, "highest"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="the file of lines, written anew")
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.table:
        lines = trials.lines_of(options.table)
    else:
        made = {"command": trials.command(), **environment()}
        lines = [{**measure(*asked), **made} for asked in ASKED]
    print(table(lines))
    if options.out is not None:
        options.out.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
