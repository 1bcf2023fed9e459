"""`bmr` beside opponents that were tuned as a careful user would: one command a cell.

    python benchmarks/opponents.py DATA NETWORK [--epochs 50] [--steps 500] [--seeds 3] [--data-dir DIR] --out FILE
    python benchmarks/opponents.py --table FILE

First, on validation data and with one seed, plain training by AdamW and by SGD with momentum is tried over rates,
weight decays and dropouts, each with a temperature from held-out examples, at its last epoch and stopped early, and
with `--sparsity S …` also pruned by magnitude along the same schedule; the lowest NLL is chosen. Then, on the test set,
the chosen ones, five of the best as a deep ensemble, SWAG of the best, and `bmr` and `bmr-natural`, dense where they
prune nothing, at their own sparsity, and at each sparsity asked for: there by the evidence, by the signal-to-noise
ratio and by the magnitudes of the same posterior, with the same schedule, held-out examples and temperature. Last,
`bmr` that begins with the weights of the chosen plain training, which has nine tenths of the steps, `bmr` the rest; its
KL weight is the better of two on validation data.
What is in FILE already is not run again; `--minutes` stops between two runs.
"""

import argparse
import dataclasses
import inspect
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import rivals
import trials

import occamax as ox
from occamax.experiment.environment import environment
from occamax.experiment.problem import build_model, read_data
from occamax.inference.optimizers import AdamW, Momentum
from occamax.inference.schedules import Cosine
from occamax.methods import BMR, Method, NaturalBMR, Plain
from occamax.reduction import Magnitude, SignalToNoise

MEMBERS, SWAG_DRAWS = 5, 30
FIRST = 0.9  # of the epochs are of the dense network where `bmr` begins with its weights
BEGUN = (0.25, 0.6)  # KL weights that are tried from there
BRIEF = 25  # epochs into which the steps of the rest are cut: it is pruned before each
RATES = {"adamw": (1e-3, 3e-3), "sgd": (0.05, 0.2)}
DECAYS = {"adamw": (0.01, 0.1, 0.5, 1.2), "sgd": (5e-4, 1e-3, 2e-3)}
DROPOUTS = (0.0, 0.2, 0.5)
SHOWN = ("accuracy", "nll", "ece")
QUICK = {
    *(
        f"adamw rate 0.001 decay {decay:g} dropout {dropout:g}"
        for decay in (0.1, 0.5, 1.2)
        for dropout in (0.0, 0.2, 0.5)
    ),
    *(f"adamw rate 0.003 decay 0.5 dropout {dropout:g}" for dropout in (0.2, 0.5)),
    *(f"sgd rate 0.05 decay {decay:g} dropout 0" for decay in (5e-4, 2e-3)),
}


def grid(network: str, few: bool, quick: bool = False) -> dict[str, Method]:
    """Plain training in every way that is tried, by what tables call it; `quick` are some with moderate decays."""
    found, takes_dropout = {}, "dropout" in inspect.signature(ox.network_named(network).build).parameters
    for kind, rates in RATES.items():
        for rate in rates:
            for decay in DECAYS[kind]:
                for dropout in DROPOUTS if takes_dropout and kind == "adamw" else DROPOUTS[:1]:
                    how = AdamW(decay) if kind == "adamw" else Momentum(0.9, decay)
                    made = Plain(optimizer=how, learning_rate=Cosine(rate, warm_up=0.02), dropout=dropout)
                    found[f"{kind} rate {rate:g} decay {decay:g} dropout {dropout:g}"] = made
    if few:
        return dict(list(found.items())[:2])
    return {name: method for name, method in found.items() if not quick or name in QUICK}


def ours(epochs: int, sparsities: list[float], is_normalised: bool) -> dict[str, Method]:
    """`bmr`, and the recipe that it does not take for such a network; at a fixed sparsity, with three orders of the
    same posterior."""
    found = {}
    named = {"bmr": BMR(), "bmr-natural": NaturalBMR(), "bmr without the rule": BMR(normalised=None)}
    for name in ("bmr", "bmr without the rule" if is_normalised else "bmr-natural"):  # the other is the same as `bmr`
        method = named[name]
        found[f"{name}, dense"] = dataclasses.replace(method, reduction=None)
        found[name] = method
        for s in sparsities:
            pruned = method.pruned_to(s, epochs)
            found[f"{name} at {s:g}"] = pruned
            found[f"{name} at {s:g}, signal to noise"] = trials.by_score(pruned, SignalToNoise())
            found[f"{name} at {s:g}, magnitudes"] = trials.by_score(pruned, Magnitude())
    return found


class OutOfTimeError(Exception):
    """The minutes asked for are over."""


class Seen(NamedTuple):
    """One seed: its figures, those of its best epoch where it is plain, its probabilities on the test set, the fit, and
    the states that were averaged where it is not its last."""

    last: dict
    early: dict | None
    said: np.ndarray
    fitted: ox.Fit
    states: list


def together(dataset: ox.Dataset, seen: list[Seen]) -> dict[str, float]:
    """The figures of all seeds as one, with one temperature for all from what they held out."""
    states = [state for one in seen for state in one.states]
    if states:
        return rivals.figures(rivals.together(seen[0].fitted, dataset, states), np.asarray(dataset.test.targets))
    found = ox.ensemble([one.fitted for one in seen], dataset).figures
    return {name: round(found[name], 5) for name in SHOWN}


class Study:
    def __init__(self, options: argparse.Namespace):
        self.options, self.began = options, time.perf_counter()
        self.lines = trials.lines_of(options.out)

    def keep(self, line: dict) -> dict:
        self.lines.append(line)
        print(line["stage"], line["name"], *(f"{k} {line[k]}" for k in (*SHOWN, "sparsity")), flush=True)
        trials.keep(line, self.options.out)
        return line

    def run(
        self, stage: str, name: str, method: Method, seeds: int, how: str = "last", first: Method | None = None
    ) -> dict:
        """One line: the figures of every seed, and of their ensemble. `how`: at the last epoch, stopped `early`, or as
        `swag`. `first` trains the weights that it begins with. Only the stage `test` looks at the test set."""
        o = self.options
        key = {"stage": stage, "name": name, "data": o.data, "network": o.network, "epochs": o.epochs, "steps": o.steps}
        for line in self.lines:
            if key.items() <= line.items():
                return line
        if o.minutes is not None and time.perf_counter() - self.began > 60 * o.minutes:
            raise OutOfTimeError
        dataset = ox.load_data(o.data, o.data_dir)
        dataset = dataset if stage == "test" else dataset.hold_out(min(10_000, len(dataset.train) // 5))
        began = time.perf_counter()
        # one at a time: several convolutions at once are slow on a GPU
        seen = [self.trained(dataset, method, seed, how, first) for seed in range(seeds)]
        each, said = [one.last for one in seen], np.mean([one.said for one in seen], axis=0)
        mean = {k: round(float(np.mean([one[k] for one in each])), 4) for k in each[0]}
        return self.keep({
            **key, **mean, "each": {k: [one[k] for one in each] for k in each[0]}, "seeds": seeds, "how": how,
            "early": seen[0].early, "ensemble": rivals.figures(said, np.asarray(dataset.test.targets)),
            **({"together": together(dataset, seen)} if seeds > 1 else {}),
            "seconds": round(time.perf_counter() - began), "settings": seen[0].fitted.method.as_data(),
            **({} if first is None else {"first": {"epochs": self.first_epochs, "settings": first.as_data()}}),
            "command": trials.command(), **environment(),
        })  # fmt: skip

    @property
    def first_epochs(self) -> int:
        """Of the dense network that `bmr` begins with; at least one is left for that."""
        return min(max(1, round(FIRST * self.options.epochs)), self.options.epochs - 1)

    def fit(self, dataset: ox.Dataset, method: Method, seed: int, epochs: int, steps: int, **more: Any) -> ox.Fit:
        o = self.options
        return ox.fit(
            ox.network_named(o.network), dataset, method, epochs=epochs, steps_per_epoch=steps, seed=seed,
            num_samples=o.samples, curve_samples=1, compute_dtype=o.precision, progress=False, **more,
        )  # fmt: skip

    def from_first(self, dataset: ox.Dataset, method: Method, seed: int, first: Method) -> ox.Fit:
        """The method from the weights of another's run, which together take the steps of one."""
        o = self.options
        left = (o.epochs - self.first_epochs) * o.steps
        with tempfile.TemporaryDirectory() as folder:
            dense = self.fit(dataset, first, seed, self.first_epochs, o.steps, out=Path(folder) / "first")
            return self.fit(dataset, method, seed, BRIEF, max(1, left // BRIEF), start=ox.Trained(dense.path))

    def trained(self, dataset: ox.Dataset, method: Method, seed: int, how: str, first: Method | None) -> Seen:
        o, labels = self.options, np.asarray(dataset.test.targets)
        is_plain = not method.posterior.has_deviations
        seen = rivals.Snapshots(o.epochs)
        if first is None:
            fitted = self.fit(dataset, method, seed, o.epochs, o.steps, on_epoch=seen if is_plain else None)
        else:
            fitted = self.from_first(dataset, method, seed, first)
        last = {k: round(fitted.history[-1][k], 5) for k in (*trials.FIGURES, "neg_elbo")}
        if not is_plain or seen.best is None:
            return Seen(last, None, np.asarray(fitted.predict(dataset.test.inputs, o.samples), np.float64), fitted, [])
        stopped = rivals.together(fitted, dataset, [seen.best[2]])
        early = rivals.figures(stopped, labels)
        if how == "early":
            return Seen({**last, **early}, early, stopped, fitted, [seen.best[2]])
        if how == "swag" and seen.late:
            draws = rivals.swag_draws(seen.late, SWAG_DRAWS, seed)
            said = rivals.together(fitted, dataset, draws)
            return Seen({**last, **rivals.figures(said, labels)}, early, said, fitted, draws)
        return Seen(last, early, np.asarray(fitted.predict(dataset.test.inputs, 1), np.float64), fitted, [])

    def is_normalised(self) -> bool:
        """Whether the network normalises its activations."""
        source, o = ox.network_named(self.options.network), self.options
        data = read_data(ox.load_data(o.data, o.data_dir), image_size=source.image_size)
        return build_model(source, data, BMR(), None, None, "float32", ox.Devices()).layout.is_normalised

    def tuned(self, methods: dict[str, Method], stage: str) -> tuple[str, str]:
        """The name of the best on validation data, and whether it is stopped `early` or taken at its `last` epoch."""
        found = [self.run(stage, name, method, 1) for name, method in methods.items()]
        ways = [(line["nll"], line["name"], "last") for line in found]
        ways += [(line["early"]["nll"], line["name"], "early") for line in found if line["early"]]
        return min(ways)[1:]

    def all(self) -> None:
        o, methods = self.options, grid(self.options.network, self.options.few, self.options.quick)
        best, how = self.tuned(methods, "tune")
        dense = methods[best]
        self.run("test", f"tuned: {best}{_stopped(how)}", dense, MEMBERS, how)
        if not ox.network_named(o.network).name.endswith("-bn"):  # snapshots of weights do not fit its averages
            self.run("test", f"SWAG of {best}", rivals.swag_of(methods[best]), o.seeds, "swag")
        for s in o.sparsity:
            pruned = {name: method.pruned_to(s, o.epochs) for name, method in methods.items()}
            best, how = self.tuned(pruned, f"tune at {s:g}")
            self.run("test", f"tuned at {s:g}, magnitudes: {best}{_stopped(how)}", pruned[best], o.seeds, how)
        for name, method in ours(o.epochs, o.sparsity, self.is_normalised()).items():
            if not o.quick or not name.endswith("dense"):
                self.run("test", name, method, o.seeds)
        for level in (None, *o.sparsity):
            self.begun(dense, level)

    def begun(self, dense: Method, level: float | None) -> None:
        """From the weights of the tuned plain training, at a share or as the evidence decides."""
        at = "" if level is None else f" at {level:g}"
        ways = {f"from the tuned{at}, KL weight {beta:g}": NaturalBMR(kl_weight=beta) for beta in BEGUN}
        if level is not None:
            ways = {name: way.pruned_to(level, BRIEF) for name, way in ways.items()}
        best = min(ways, key=lambda name: self.run("tune begun", name, ways[name], 1, first=dense)["nll"])
        self.run("test", best, ways[best], self.options.seeds, first=dense)


def _stopped(how: str) -> str:
    return ", stopped early" if how == "early" else ""


def table(path: Path) -> str:
    """The lines of the test set as a Markdown table."""
    rows = []
    for line in trials.lines_of(path):
        if line["stage"] == "test":
            cells = [trials.figure(line, name) for name in (*SHOWN, "sparsity")]
            rows.append([line["data"], line["network"], line["name"], *cells, str(line["seeds"])])
            if line["seeds"] == MEMBERS:
                for name, how in (("ensemble", "averaged"), ("together", "averaged, with one temperature")):
                    if name in line:
                        cells = [trials.short(line[name][figure]) for figure in SHOWN]
                        rows.append([line["data"], line["network"], f"{MEMBERS} of those, {how}", *cells, "0", "1"])
    return trials.markdown(["data", "network", "method", "accuracy", "NLL", "ECE", "pruned", "seeds"], rows)


def main(say: Callable[[str], None] = print) -> None:
    parser = trials.parser(__doc__)
    parser.add_argument("data", nargs="?")
    parser.add_argument("network", nargs="?")
    parser.add_argument("--sparsity", type=float, nargs="*", default=[], help="also pruned to these")
    parser.add_argument("--few", action="store_true", help="two ways of plain training only, to try the command")
    parser.add_argument("--quick", action="store_true", help="13 of 30 ways only, and no dense ones of ours")
    parser.add_argument("--minutes", type=float, help="begin no run after so many")
    options = parser.parse_args()
    if options.table:
        say(table(options.table))
    elif options.data is None or options.network is None or options.out is None:
        parser.error("DATA, NETWORK and --out are needed")
    else:
        try:
            Study(options).all()
        except OutOfTimeError:
            say(f"{options.minutes:g} minutes are over; the same command goes on from here")
        say(table(options.out))


if __name__ == "__main__":
    main()
