"""Pruned in one shot, without training: what is lost, in which order, with and without the repair.

    python benchmarks/one_shot.py --data fashion_mnist --epochs 20 --steps 300 --out results/one_shot.jsonl
    python benchmarks/one_shot.py --table results/one_shot.jsonl

Dense networks are trained by `ox.Plain()` and kept in --keep, so that a second call finds them. Each line has the test
figures of one network at one sparsity in one order; `seconds` are those of the whole call of `ox.prune`, compilation
included, on a machine that may have had other work.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

from trials import command, keep, lines_of, markdown, short

import occamax as ox
from occamax.experiment.environment import environment

ORDERS = {
    "the better of two": None,
    "signal-to-noise": ox.criteria.SignalToNoise(),
    "magnitude": ox.criteria.Magnitude(),
    "delta-f": ox.criteria.KeepingEvidence(),
}
FIGURES = ("accuracy", "nll", "ece")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--data", default="fashion_mini")
    made.add_argument("--data-dir", type=Path)
    made.add_argument("--networks", default="mlp,lenet")
    made.add_argument("--epochs", type=int, default=12, help="of the dense network")
    made.add_argument("--steps", type=int, default=100)
    made.add_argument("--sparsities", default="0.5,0.7")
    made.add_argument("--orders", default=",".join(ORDERS))
    made.add_argument("--keep", type=Path, default=Path("runs/one_shot"), help="folder of the dense runs")
    made.add_argument("--out", type=Path)
    made.add_argument("--table", type=Path)
    return made


def dense(data: ox.Dataset, network: str, options: argparse.Namespace) -> ox.Fit:
    path = options.keep / f"dense-{options.data}-{network}"
    if not (path / "summary.json").is_file():
        budget = {"epochs": options.epochs, "steps_per_epoch": options.steps, "num_samples": 1}
        ox.fit(ox.network_named(network), data, ox.Plain(), out=path, overwrite=path.exists(), **budget)
    return ox.load(path)


def measure(options: argparse.Namespace) -> None:
    data = ox.load_data(options.data, options.data_dir)
    done = lines_of(options.out)
    for network in options.networks.split(","):
        trained = dense(data, network, options)
        before = {name: trained.summary[name] for name in FIGURES}
        base = {"data": options.data, "network": network, "weights": trained.model.layout.size}
        base |= {"dense_epochs": trained.config.epochs, "dense_steps": trained.config.steps_per_epoch, "dense": before}
        for share in map(float, options.sparsities.split(",")):
            for order in options.orders.split(","):
                for repair in (None, ox.Repair()):
                    names = {"data": options.data, "network": network, "sparsity": share, "order": order}
                    names["repair"] = repair is not None
                    if any(names.items() <= line.items() for line in done):
                        continue
                    line = base | names | one(trained, data, share, order, repair) | environment()
                    show({**line, "command": command()}, options.out)


def one(trained: ox.Fit, data: ox.Dataset, share: float, order: str, repair: ox.Repair | None) -> dict:
    began = time.perf_counter()
    given = {"likelihood": trained.model.likelihood, "preprocess": trained.facts.preprocess}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ΔF: that is what is shown
        found = ox.prune(trained.network, data, share, order=ORDERS[order], repair=repair, tolerance=None, **given)
    last = found.history[-1]
    return {name: round(last[name], 4) for name in (*FIGURES, "held_out_nll", "held_out_nll_dense", "temperature")} | {
        "seconds": round(time.perf_counter() - began, 1),
        "settings": found.config.settings,
        "layers": [1 - layer["remaining"] / layer["weights"] for layer in found.summary["sizes"]["layers"]],
    }


def show(line: dict, path: Path | None) -> None:
    told = {name: value for name, value in line.items() if name not in ("settings", "layers", "dense")}
    print(json.dumps(told), flush=True)
    keep(line, path)


def table(lines: list[dict]) -> str:
    heads = ["data, network", "gone", "order", "repair", "accuracy", "lost, points", "nll", "ece", "seconds"]
    rows = [
        [
            f"{line['data']} {line['network']}", f"{line['sparsity']:.0%}", line["order"],
            "yes" if line["repair"] else "no", short(line["accuracy"], 4),
            f"{100 * (line['dense']['accuracy'] - line['accuracy']):.2f}", short(line["nll"]), short(line["ece"]),
            f"{line['seconds']:.0f}",
        ]
        for line in lines
    ]  # fmt: skip
    return markdown(heads, rows)


if __name__ == "__main__":
    chosen = parser().parse_args()
    if chosen.table is not None:
        print(table(lines_of(chosen.table)))
    else:
        measure(chosen)
