"""A transformer of a hundred million weights on one device: what it costs to train and prune it, beside plain training.

    python benchmarks/large.py --data-dir DATA --precision bfloat16 --out large.jsonl         # wants a GPU
    python benchmarks/large.py --width 32 --depth 1 --heads 2 --steps 2 --batch-size 8        # to try it
    python benchmarks/large.py --count --data fashion_mini --width 128 --depth 4 --heads 4 --steps 2 --batch-size 5

Each method is a process of its own that has the device to itself, so that the most memory it ever held is its own. The
time of a step is the median over the epochs after the first, in which all is compiled, without their evaluations.

`--count` says where the most memory is held, without a GPU: before every compiled program what is alive on the device,
and what the compiler says that the program takes beside it, in vectors as long as all weights (32 bits each). What is
alive is the same on any device; what a program takes is the compiler's matter, and that of the CPU fuses less than a
GPU's. For a number of a step's activations that is small beside the weights, as it is in a large network, take a small
batch. The test set is cut in proportion to width and depth.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
from trials import command, keep, lines_of, markdown, with_bounds

import occamax as ox
from occamax.command_words import method_from_words
from occamax.experiment.environment import environment
from occamax.experiment.program import Program

BYTES = 4  # of a number
EVALUATED, WIDTH, DEPTH = 1000, 1024, 8  # examples at a time, in a network of a hundred million weights
PROGRAMS = {  # what is counted, and the names of its functions, the older first
    "steps": ("epoch",), "reduction": ("reduction", "untold"), "evaluation": ("evaluation",),
    "calibration": ("outputs_of_draws",),
}  # fmt: skip


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
    made.add_argument("--count", action="store_true", help="count vectors, in place of timing")
    made.add_argument("--out", type=Path)
    made.add_argument("--table", type=Path, help="print a file that --out wrote, and stop")
    return made


def measure(options: argparse.Namespace) -> dict:
    data = ox.load_data(options.data, options.data_dir)
    programs: dict[str, dict[str, float]] = {}
    if options.count:
        test = EVALUATED * options.width * options.depth // (WIDTH * DEPTH)
        data = data.hold_out(max(test, 1)).first(EVALUATED)
        count_vectors(programs)
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
    timed = {
        **{name: round(last[name], 4) for name in ("accuracy", "nll", "ece", "sparsity", "neg_elbo")},
        "steps_per_second": round(options.steps / float(np.median(seconds[1:])), 3),
        "peak_bytes": memory.get("peak_bytes_in_use"),
    }
    return {
        "method": options.alone,
        "weights": fitted.state.mask.size,
        **{name: vars(options)[name] for name in ("data", "epochs", "steps", "batch_size", "precision")},
        **shape,
        "recompute_activations": options.recompute_activations,
        **({"programs": programs} if options.count else timed),
        "settings": fitted.method.as_data(),
        "command": command(),
        **environment(),
    }


def count_vectors(programs: dict[str, dict[str, float]]) -> None:
    """From now on every compiled program of a run notes, where that is the most so far, what was alive when it was
    called, its arguments with it, what it took for itself and what it gave back that is not in its arguments' place."""
    compiled: Any = Program.compile

    def counting(program: Program, function: Any, *how: Any, **more: Any) -> Any:
        jitted, made = compiled(program, function, *how, **more), {}
        vector, name = BYTES * program.model.layout.size, function.__name__.removeprefix("_")

        def call(*arguments: Any) -> Any:
            shapes = str(jax.tree.map(np.shape, arguments))
            if shapes not in made:
                made[shapes] = jitted.lower(*arguments).compile()
            own = made[shapes].memory_analysis()
            given = own.output_size_in_bytes - own.alias_size_in_bytes
            alive = sum(array.nbytes for array in jax.live_arrays())
            found = {"alive": alive, "temporary": own.temp_size_in_bytes, "given": given}
            found = {key: round(count / vector, 2) for key, count in found.items()}
            programs[name] = max(programs.get(name, found), found, key=lambda one: sum(one.values()))
            return made[shapes](*arguments)

        return call

    replaced: Any = counting
    Program.compile = replaced


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
    return markdown(*with_bounds(heads, rows, lines))


def vectors_table(lines: list[dict]) -> str:
    """The most that is held while a program runs, in vectors as long as all weights; the last column as ratios to the
    first line of the same commit."""
    rows, firsts = [], {}
    for line in lines:
        most = {name: sum(own.values()) for name, own in line["programs"].items()}
        cells = [f"{max(most.get(name, 0.0) for name in names):.1f}" for names in PROGRAMS.values()]
        peak = max(most.values())
        alive, first = line["programs"]["epoch"]["alive"], firsts.setdefault(line["commit"], peak)
        held = [cell if cell != "0.0" else "" for cell in cells]
        rows.append(
            [f"`{line['method']}`", line["commit"][:7], f"{alive:.1f}", *held, f"{peak:.1f}", f"{peak / first:.2f}"]
        )
    return markdown(["method", "commit", "alive before steps", *PROGRAMS, "at most", "÷ the first"], rows)


def main() -> None:
    options = parser().parse_args()
    if options.table:
        lines = lines_of(options.table)
        print(vectors_table(lines) if "programs" in lines[0] else table(lines))
    elif options.alone:
        line = measure(options)
        print(json.dumps({name: value for name, value in line.items() if name != "settings"}), flush=True)
        keep(line, options.out)
    else:
        for method in options.methods:
            subprocess.run([sys.executable, *sys.argv, "--alone", method], check=True)


if __name__ == "__main__":
    main()
