"""`bmr` beside opponents that were tuned as a careful user would: one command a cell.

    python benchmarks/opponents.py DATA NETWORK [--epochs 50] [--steps 500] [--seeds 3] [--data-dir DIR] --out FILE
    python benchmarks/opponents.py --table FILE

First, on validation data and with one seed, plain training by AdamW and by SGD with momentum is tried over rates,
weight decays and dropouts, each with a temperature from held-out examples, and with `--sparsity S …` also pruned by
magnitude along the same schedule; the lowest NLL is chosen. Then, on the test set, the chosen ones, five of the best as
a deep ensemble, and `bmr` and `bmr-natural`, dense where they prune nothing, at their own sparsity, and at each
sparsity asked for. What is in FILE already is not run again.
"""

import argparse
import dataclasses
import inspect
import json
import time
from pathlib import Path

import numpy as np
import trials

import occamax as ox
from occamax.evaluation.metrics import accuracy, calibration_error
from occamax.experiment.environment import environment
from occamax.inference.optimizers import AdamW, Momentum
from occamax.inference.schedules import Cosine
from occamax.methods import BMR, Method, NaturalBMR, Plain

MEMBERS = 5
RATES = {"adamw": (1e-3, 3e-3), "sgd": (0.05, 0.2)}
DECAYS = {"adamw": (0.01, 0.1, 0.5, 1.2), "sgd": (5e-4, 1e-3, 2e-3)}
DROPOUTS = (0.0, 0.2, 0.5)


def grid(network: str, few: bool) -> dict[str, Method]:
    """Plain training in every way that is tried, by what tables call it."""
    found, takes_dropout = {}, "dropout" in inspect.signature(ox.network_named(network).build).parameters
    for kind, rates in RATES.items():
        for rate in rates:
            for decay in DECAYS[kind]:
                for dropout in DROPOUTS if takes_dropout and kind == "adamw" else DROPOUTS[:1]:
                    how = AdamW(decay) if kind == "adamw" else Momentum(0.9, decay)
                    made = Plain(optimizer=how, learning_rate=Cosine(rate, warm_up=0.02), dropout=dropout)
                    found[f"{kind} rate {rate:g} decay {decay:g} dropout {dropout:g}"] = made
    return dict(list(found.items())[:2]) if few else found


def ours(epochs: int, sparsities: list[float]) -> dict[str, Method]:
    found = {}
    for name, method in {"bmr": BMR(), "bmr-natural": NaturalBMR()}.items():
        found[f"{name}, dense"] = dataclasses.replace(method, reduction=None)
        found[name] = method
        found |= {f"{name} at {s:g}": method.pruned_to(s, epochs) for s in sparsities}
    return found


class Study:
    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.lines = trials.lines_of(options.out)

    def keep(self, line: dict) -> dict:
        self.lines.append(line)
        print(
            line["stage"], line["name"], *(f"{k} {line[k]}" for k in ("accuracy", "nll", "ece", "sparsity")), flush=True
        )
        with open(self.options.out, "a") as file:
            file.write(json.dumps(line) + "\n")
        return line

    def run(self, stage: str, name: str, method: Method, seeds: int, test: bool) -> dict:
        """One line: the figures of every seed, and of their ensemble."""
        o = self.options
        key = {"stage": stage, "name": name, "data": o.data, "network": o.network, "epochs": o.epochs, "steps": o.steps}
        for line in self.lines:
            if key.items() <= line.items():
                return line
        dataset = ox.load_data(o.data, o.data_dir)
        dataset = dataset if test else dataset.hold_out(min(10_000, len(dataset.train) // 5))
        began, each, said = time.perf_counter(), [], []
        for seed in range(seeds):  # one at a time: several convolutions at once are slow on a GPU
            fitted = ox.fit(
                ox.network_named(o.network), dataset, method, epochs=o.epochs, steps_per_epoch=o.steps, seed=seed,
                num_samples=o.samples, curve_samples=1, compute_dtype=o.precision, progress=False,
            )  # fmt: skip
            each.append({k: round(fitted.history[-1][k], 5) for k in (*trials.FIGURES, "neg_elbo")})
            said.append(np.asarray(fitted.predict(dataset.test.inputs, o.samples), np.float64))
        together, labels = np.mean(said, axis=0), np.asarray(dataset.test.targets)
        figures = {k: round(float(np.mean([one[k] for one in each])), 4) for k in each[0]}
        return self.keep({
            **key, **figures, "each": {k: [one[k] for one in each] for k in each[0]}, "seeds": seeds,
            "ensemble": {
                "accuracy": round(accuracy(together, labels), 4),
                "nll": round(float(-np.log(together[np.arange(len(labels)), labels] + 1e-12).mean()), 4),
                "ece": round(calibration_error(together, labels), 4),
            },
            "seconds": round(time.perf_counter() - began), "method": method.as_data(),
            "command": trials.command(), **environment(),
        })  # fmt: skip

    def tuned(self, methods: dict[str, Method], stage: str) -> str:
        """The name of the best on validation data."""
        found = [self.run(stage, name, method, 1, test=False) for name, method in methods.items()]
        return min(found, key=lambda line: line["nll"])["name"]

    def all(self) -> None:
        o, methods = self.options, grid(self.options.network, self.options.few)
        best = self.tuned(methods, "tune")
        self.run("test", f"tuned: {best}", methods[best], MEMBERS, test=True)
        for s in o.sparsity:
            pruned = {name: method.pruned_to(s, o.epochs) for name, method in methods.items()}
            best = self.tuned(pruned, f"tune at {s:g}")
            self.run("test", f"tuned at {s:g}, magnitudes: {best}", pruned[best], o.seeds, test=True)
        for name, method in ours(o.epochs, o.sparsity).items():
            self.run("test", name, method, o.seeds, test=True)


def table(path: Path) -> str:
    """The lines of the test set as a Markdown table."""
    rows = []
    for line in trials.lines_of(path):
        if line["stage"] == "test":
            cells = [trials.figure(line, name) for name in ("accuracy", "nll", "ece", "sparsity")]
            rows.append([line["data"], line["network"], line["name"], *cells, str(line["seeds"])])
            if line["seeds"] == MEMBERS:
                cells = [trials.short(line["ensemble"][name]) for name in ("accuracy", "nll", "ece")]
                rows.append([line["data"], line["network"], f"{MEMBERS} of those, averaged", *cells, "0", "1"])
    return trials.markdown(["data", "network", "method", "accuracy", "NLL", "ECE", "pruned", "seeds"], rows)


def main() -> None:
    parser = trials.parser(__doc__)
    parser.add_argument("data", nargs="?")
    parser.add_argument("network", nargs="?")
    parser.add_argument("--sparsity", type=float, nargs="*", default=[], help="also pruned to these")
    parser.add_argument("--few", action="store_true", help="two ways of plain training only, to try the command")
    options = parser.parse_args()
    if options.table:
        print(table(options.table))
    elif options.data is None or options.network is None or options.out is None:
        parser.error("DATA, NETWORK and --out are needed")
    else:
        Study(options).all()
        print(table(options.out))


if __name__ == "__main__":
    main()
