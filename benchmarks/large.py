"""A transformer of a hundred million weights on one device: what it costs to train and prune it, beside plain training.

    python benchmarks/large.py --data-dir DATA --precision bfloat16 --out large.jsonl         # wants a GPU
    python benchmarks/large.py --width 32 --depth 1 --heads 2 --steps 2 --batch-size 8        # to try it

Each method is a process of its own that has the device to itself, so that the most memory it ever held is its own. The
time of a step is the median over the epochs after the first, in which all is compiled, without their evaluations.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
from trials import command, keep, lines_of, markdown

import occamax as ox
from occamax.command_words import method_from_words
from occamax.experiment.environment import environment


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--data", default="cifar10")
    made.add_argument("--data-dir", type=Path)
    made.add_argument("--width", type=int, default=1024)
    made.add_argument("--depth", type=int, default=8)
    made.add_argument("--heads", type=int, default=16)
    made.add_argument("--epochs", type=int, default=8)
    made.add_argument("--steps", type=int, default=60)
    made.add_argument("--batch-size", type=int, default=128)
    made.add_argument("--precision", default="float32")
    made.add_argument("--recompute-activations", action="store_true")
    made.add_argument("--methods", nargs="+", default=["plain", "bmr"])
    made.add_argument("--alone", help="one method, in this process")
    made.add_argument("--out", type=Path)
    made.add_argument("--table", type=Path, help="print a file that --out wrote, and stop")
    return made


def measure(options: argparse.Namespace) -> dict:
    data = ox.load_data(options.data, options.data_dir)
    shape = {"width": options.width, "depth": options.depth, "heads": options.heads, "hidden": 4 * options.width}
    network = ox.ViT(data.shape, data.outputs, **shape, key=jax.random.key(0))
    seconds: list[float] = []
    fitted = ox.fit(
        network, data, method_from_words(options.alone, []), epochs=options.epochs, steps_per_epoch=options.steps,
        batch_size=options.batch_size, num_samples=2, curve_samples=1, compute_dtype=options.precision,
        recompute_activations=options.recompute_activations, on_epoch=lambda epoch: seconds.append(epoch.train_seconds),
    )  # fmt: skip
    memory = jax.devices()[0].memory_stats() or {}
    last = fitted.history[-1]
    return {
        "method": options.alone,
        "weights": fitted.state.mask.size,
        **{name: vars(options)[name] for name in ("data", "epochs", "steps", "batch_size", "precision")},
        **shape,
        "recompute_activations": options.recompute_activations,
        **{name: round(last[name], 4) for name in ("accuracy", "nll", "ece", "sparsity", "neg_elbo")},
        "steps_per_second": round(options.steps / float(np.median(seconds[1:])), 3),
        "peak_bytes": memory.get("peak_bytes_in_use"),
        "settings": fitted.method.as_data(),
        "command": command(),
        **environment(),
    }


def table(lines: list[dict]) -> str:
    """Times and memory as ratios to the first method of the same precision."""
    rows = []
    for line in lines:
        first = next(other for other in lines if other["precision"] == line["precision"])
        memory = line["peak_bytes"]
        rows.append([
            f"`{line['method']}`", f"{line['weights']:,}", line["precision"], f"{1e3 / line['steps_per_second']:.1f}",
            f"{first['steps_per_second'] / line['steps_per_second']:.2f}",
            "" if memory is None else f"{memory / 1e9:.2f}",
            "" if memory is None else f"{memory / first['peak_bytes']:.2f}",
            f"{line['sparsity']:.3f}",
        ])  # fmt: skip
    heads = ["method", "weights", "precision", "ms a step", "÷ the first", "GB at most", "÷ the first", "pruned"]
    return markdown(heads, rows)


def main() -> None:
    options = parser().parse_args()
    if options.table:
        print(table(lines_of(options.table)))
    elif options.alone:
        line = measure(options)
        print(json.dumps({name: value for name, value in line.items() if name != "settings"}), flush=True)
        keep(line, options.out)
    else:
        for method in options.methods:
            subprocess.run([sys.executable, *sys.argv, "--alone", method], check=True)


if __name__ == "__main__":
    main()
