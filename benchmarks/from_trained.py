"""A run from scratch beside one that begins at trained weights, with a tenth of its steps.

    python benchmarks/from_trained.py --data fashion_mini --network mlp --steps 100 --out results/from_trained.jsonl
    python benchmarks/from_trained.py --data fashion_mnist --network lenet --epochs 50 --steps 500 --seeds 3   # a GPU's
    python benchmarks/from_trained.py --only trained --method bmr-natural --set kl_weight=0.05 --sparsity 0.9

The dense network is trained by `ox.Plain()` for a third as long as the run from scratch, or as --start-set and
--start-epochs say, and kept in --keep. Its own line comes first: without its temperature, as most people have theirs,
and with it.
"""

import argparse
import json
import re
import time
from pathlib import Path

import numpy as np
from trials import command, figure, keep, lines_of, markdown, with_bounds

import occamax as ox
from occamax.command_words import method_from_words
from occamax.experiment.environment import environment

FIGURES = ("accuracy", "nll", "ece", "sparsity")
KEPT = (*FIGURES, "neg_elbo")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--data", default="fashion_mini")
    made.add_argument("--data-dir", type=Path)
    made.add_argument("--network", default="lenet")
    made.add_argument("--images", type=int, help="train on that many examples only")
    made.add_argument("--epochs", type=int, default=15)
    made.add_argument("--steps", type=int, default=100, help="in an epoch of the run from scratch")
    made.add_argument("--seeds", type=int, default=1)
    made.add_argument("--samples", type=int, default=20)
    made.add_argument("--start-set", nargs="*", default=[], help="values of `plain` for the dense network")
    made.add_argument("--start-epochs", type=int, help="of the dense network; a third of --epochs unless given")
    made.add_argument("--largest-std", type=float, help="of the first deviations, in those of the prior")
    made.add_argument("--keep", type=Path, default=Path("runs/one_shot"), help="folder of the dense run")
    made.add_argument("--only", nargs="+", default=["dense", "bare", "scratch", "trained"], help="of the four kinds")
    made.add_argument("--method", default="bmr")
    made.add_argument("--set", nargs="*", default=[], dest="changes", help="values of the method, as for train")
    made.add_argument("--sparsity", type=float, help="asked for; the evidence decides unless given")
    made.add_argument("--precision", default="float32")
    made.add_argument("--test", action=argparse.BooleanOptionalAction, default=True, help="or on held-out examples")
    made.add_argument("--out", type=Path)
    made.add_argument("--table", type=Path)
    return made


def dense(data: ox.Dataset, options: argparse.Namespace, is_bare: bool) -> Path:
    """The folder of the dense run; a bare one has no temperature and holds nothing out."""
    kept = f"{'bare' if is_bare else 'dense'}-{options.data}-{options.network}"
    kept += "" if options.images is None else f"-{options.images}"
    kept += "" if options.precision == "float32" else f"-{options.precision}"
    kept += "".join(f"-{value}" for value in (*options.start_set, options.start_epochs) if value is not None)
    path = options.keep / re.sub(r"[^\w.-]+", "-", kept if options.test else f"{kept}-held-out")
    if not (path / "summary.json").is_file():
        method = method_from_words("plain", [*options.start_set, *(["calibration=None"] if is_bare else [])])
        epochs = options.start_epochs or max(1, options.epochs // 3)
        budget = {"epochs": epochs, "steps_per_epoch": options.steps, "num_samples": 1}
        budget["compute_dtype"] = options.precision
        ox.fit(ox.network_named(options.network), data, method, out=path, overwrite=path.exists(), **budget)
    return path


def trained(data: ox.Dataset, options: argparse.Namespace, start: ox.Trained | None) -> dict:
    steps = options.steps if start is None else max(1, options.steps // 10)
    method, began = method_from_words(options.method, options.changes), time.perf_counter()
    if options.sparsity is not None:
        method = method.pruned_to(options.sparsity, options.epochs)
    fits = ox.fit(
        ox.network_named(options.network), data, method, start=start, epochs=options.epochs, steps_per_epoch=steps,
        seeds=options.seeds, num_samples=options.samples, curve_samples=1, compute_dtype=options.precision,
    )  # fmt: skip
    each = {name: [round(fitted.history[-1][name], 4) for fitted in fits] for name in KEPT}
    means = {name: round(float(np.mean(values)), 4) for name, values in each.items()}
    total = {"total_steps": steps * options.epochs, "seconds": round(time.perf_counter() - began)}
    return {**means, "each": each, **total, "settings": fits[0].config.settings}


def measure(options: argparse.Namespace) -> None:
    data = ox.load_data(options.data, options.data_dir)
    data = data if options.test else data.hold_out(min(10_000, len(data.train) // 5))
    data = data if options.images is None else data.first(options.images)
    for kind in options.only:
        if kind in ("dense", "bare"):
            found = ox.load(dense(data, options, kind == "bare"))
            line = {name: round(found.summary[name], 4) for name in KEPT}
            line["total_steps"] = found.config.epochs * found.config.steps_per_epoch
            line["settings"] = found.config.settings
        else:
            limit = {} if options.largest_std is None else {"largest_std": options.largest_std}
            start = ox.Trained(dense(data, options, False), **limit) if kind == "trained" else None
            line = trained(data, options, start)
        names = {"kind": kind, "data": options.data, "network": options.network, "seeds": options.seeds}
        names |= {"test": options.test, "start": options.start_set}
        names |= {} if options.images is None else {"images": options.images}
        if kind not in ("dense", "bare"):
            names |= {"method": options.method, "changes": options.changes, "level": options.sparsity}
            names |= {} if options.largest_std is None or kind != "trained" else {"largest_std": options.largest_std}
        line = {**names, **line, "command": command(), **environment()}
        print(json.dumps({name: value for name, value in line.items() if name != "settings"}), flush=True)
        keep(line, options.out)


def table(lines: list[dict]) -> str:
    heads = ["data, network", "run", "measured on", "steps", *FIGURES]
    rows = [
        [
            place(line), how(line), "test" if line.get("test", True) else "validation",
            f"{line['total_steps']:,}", *(figure(line, name) for name in FIGURES),
        ]
        for line in lines
    ]  # fmt: skip
    return markdown(*with_bounds(heads, rows, lines))


def place(line: dict) -> str:
    """Data and network, and how many examples where not all."""
    few = f", {line['images']:,} images" if "images" in line else ""
    return f"{line['data']} {line['network']}{few}"


def how(line: dict) -> str:
    """The kind of run, and of what method where it is not `bmr` that decides by itself."""
    words = [line.get("method", "bmr"), *line.get("changes", [])]
    words += [f"largest_std={line['largest_std']:g}"] if "largest_std" in line else []
    asked, start = line.get("level"), "".join(f" `{word}`" for word in line.get("start", []))
    if start and line["kind"] != "scratch":
        return how({**line, "start": []}) + (start if line["kind"] in ("dense", "bare") else f", from{start}")
    if line["kind"] in ("dense", "bare") or (words == ["bmr"] and asked is None):
        return line["kind"]
    share = [] if asked is None else [f"{asked:.0%} asked for".replace("%", " %")]
    return ", ".join([line["kind"], " ".join(f"`{word}`" for word in words), *share])


if __name__ == "__main__":
    chosen = parser().parse_args()
    if chosen.table is not None:
        print(table(lines_of(chosen.table)))
    else:
        measure(chosen)
