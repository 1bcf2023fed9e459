"""Reductions: what ΔF foretold of each, what was measured, and what measuring costs.

    python benchmarks/reductions.py --networks lenet-300-100 lenet --seeds 3 --epochs 15 --steps 100 --out FILE
    python benchmarks/reductions.py --table FILE          # every reduction of the file, counted
    python benchmarks/reductions.py --figures FILE        # what the networks came to, and the cost

Trains `bmr` and `bmr --unit-price P`, each with the measured check (`Measuring(binding=True)`, as they are) and
without it, and keeps what was recorded of every reduction. It is *judged by* the bound that the check goes by: each
datum counts `data_count` times, and units may cost their price. *The objective* is the one that was being minimised,
in which each datum counts 1/β times. The check sees some hundred examples and eight draws, and chooses by them; so
each reduction is also measured **afresh**, on other training examples with 32 other draws, with the standard error
over these. The cost is in CPU seconds of this process, those of a reduction over those of the steps of its epoch,
call by call in one run: other work on the machine does not count.
"""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import trials

import occamax as ox
from occamax.experiment.devices import Devices
from occamax.experiment.environment import environment
from occamax.experiment.folder import NATS
from occamax.experiment.loop import Evaluation, Loop
from occamax.experiment.problem import Data, build_model, read_data
from occamax.experiment.program import Program, Task, find_task_units
from occamax.inference.calibration import held_out_of
from occamax.inference.training import Batch, State
from occamax.methods import BMR, Method
from occamax.reduction.measuring import Change, Judge, log_likelihoods
from occamax.reduction.reducing import Record

DRAWS, EXAMPLES = 32, 4096  # of the measurement afresh
BATCH = 128
COUNTS = ("seed", "epoch", "proposed", "removed", "undone")
PRICES = {"lenet": 0.5}  # nats per weight; others have one in twenty


def ways(network: str) -> dict[str, Method]:
    price = PRICES.get(network, 0.05)
    checked = {"bmr": BMR(), f"bmr --unit-price {price:g}": BMR().with_units(price)}
    return checked | {f"{name}, unchecked": unchecked(method) for name, method in checked.items()}


def unchecked(method: Method) -> Method:
    assert method.reduction is not None
    measuring = replace(method.reduction.measuring, binding=False)
    return replace(method, reduction=replace(method.reduction, measuring=measuring))


class Watch:
    """Stands before a program's reductions and steps: measures each reduction afresh, and counts CPU seconds."""

    def __init__(self, program: Program, train: Batch):
        self.program, self.train = program, train
        self.afresh: list[np.ndarray] = []  # of each reduction: seeds × (gain, its standard error)
        self.costs: dict[str, list[float]] = {"reduction": [], "steps": []}
        self._measure = jax.jit(jax.vmap(self._change_afresh, in_axes=(0, 0, 0, None, None)))
        reduce, chunks = self._timed("reduction", program.reduce), dict(program.train_chunk)

        def watched(state: State, progress: jax.Array, examples: Batch | None) -> tuple[State, Record]:
            before = jax.tree.map(jnp.copy, state)
            after, record = reduce(state, progress, examples)
            self._add_afresh(before, record)
            return after, record

        program.reduce = program.reduce_untold = watched
        program.train_chunk = {steps: self._timed("steps", chunk) for steps, chunk in chunks.items()}

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            jax.block_until_ready(arguments)
            began = time.process_time()
            found = jax.block_until_ready(function(*arguments))
            self.costs[name].append(time.process_time() - began)
            return found

        return timed

    def _add_afresh(self, before: State, record: Record) -> None:
        held_out = self.program.task.held_out
        rng = np.random.default_rng([len(self.afresh), 1])
        count = min(EXAMPLES, held_out.trained) // DRAWS * DRAWS
        places = held_out.places_trained(rng.choice(held_out.trained, count, replace=False))
        examples = self.train[0][places], self.train[1][places]
        key = jax.random.key(len(self.afresh))
        self.afresh.append(np.stack(self._measure(before, record.mask, record.data_count, examples, key), 1))

    def _change_afresh(self, before: State, mask, data_count, examples: Batch, key) -> tuple[jax.Array, jax.Array]:
        """Nats that the bound gains on these examples with these draws, and their standard error over the draws."""
        model, size = self.program.model, self.program.task.held_out.trained
        old, new = (log_likelihoods(model, before, m, examples, key, DRAWS) for m in (before.mask, mask))
        grown = -size * (new - old).reshape(DRAWS, -1).mean(1)
        gone, none = before.mask & ~mask, jnp.zeros_like(mask)
        paid = [before.posterior.divergence(model.latent_prior, which) for which in (gone, none)]
        judge = Judge(data_count, examples, size)
        gain = judge.gain(Change(grown.mean(), paid[1] - paid[0]))
        return gain, data_count * grown.std(ddof=1) / np.sqrt(DRAWS)

    def share(self) -> float:
        """The cost of a reduction over that of the steps of an epoch, the middle one; the first of each compiles."""
        chunks = len(self.program.chunks)
        epochs = [sum(self.costs["steps"][i : i + chunks]) for i in range(0, len(self.costs["steps"]), chunks)]
        return float(np.median(self.costs["reduction"][1:]) / np.median(epochs[1:]))


def on_device(batch: Any) -> Batch:
    inputs, targets = batch
    return jnp.asarray(inputs), jnp.asarray(targets)


def program_of(data: Data, network: Any, method: Method, budget: ox.Budget, seeds: tuple[int, ...]) -> Program:
    """The compiled parts that `fit` would train with."""
    model = build_model(network, data, method, None, None, "float32", Devices())
    method = method.suited_to(model.layout)
    units = find_task_units(model, method, data.example)
    return Program(Task(model, method, budget, held_out_of(method.calibration, len(data)), seeds, units=units))


def measure(data: str, network: str, method: Method, options: Any) -> dict[str, Any]:
    """One method on one network: each seed's last figures, every reduction, the cost."""
    dataset = ox.load_data(data, options.data_dir)
    dataset = dataset if options.test else dataset.hold_out(min(10_000, len(dataset.train) // 5))
    source = ox.network_named(network)
    found = read_data(dataset, image_size=source.image_size)
    seeds = tuple(range(options.first_seed, options.first_seed + options.seeds))
    program = program_of(found, source, method, ox.Budget(options.epochs, options.steps, BATCH), seeds)
    train = on_device(found.train)
    watch = Watch(program, train)
    test = None if found.test is None else on_device(found.test)
    loop, lines, last = Loop(program, train, Evaluation(test, options.samples, 1)), [], []
    for epoch in loop.epochs(program.start()):
        last = epoch.metrics
        if epoch.record is not None:
            lines += list(recorded(epoch.number, epoch.record, epoch.undone, watch.afresh[-1], seeds))
    each = {name: [round(line[name], 4) for line in last] for name in (*trials.FIGURES, "neg_elbo")}
    return {
        **{name: round(float(np.mean(values)), 4) for name, values in each.items()},
        "each": each,
        "reductions": lines,
        "cost": round(watch.share(), 5),
        "settings": method.as_data(),
        "command": trials.command(),
        **environment(),
    }


def recorded(epoch: int, record: Record, undone: list[bool], afresh: np.ndarray, seeds: Iterable[int]):
    """A line for every seed's reduction that removed something, as a run's `reductions.jsonl` has it, and afresh."""
    for i, seed in enumerate(seeds):
        removed = int(np.sum(record.removed[i]))
        if removed:
            nats = {name: float(f"{float(getattr(record, name)[i]):.7g}") for name in NATS}
            gain, error = (float(f"{value:.5g}") for value in afresh[i])
            counts = {"proposed": int(record.proposed[i]), "removed": removed, "undone": undone[i]}
            yield {"seed": seed, "epoch": epoch, **counts, **nats, "afresh": gain, "afresh_error": error}


def judged(line: dict[str, Any]) -> float:
    """Nats by which the bound that a reduction is judged by rose."""
    return line["allowed"] - (line["data_count"] * line["expected_nll"] + line["divergence"])


def objective(line: dict[str, Any], run: dict[str, Any]) -> float | None:
    """Nats that the objective which was being minimised gained, −(expected NLL / β + divergence). β is not recorded,
    but a datum counts β^(s − 1) times by the schedule of the evidence; None once s is 1."""
    ramp, progress = run["settings"]["reduction"]["evidence"], (line["epoch"] - 1) / run["epochs"]
    s = min(1.0, (progress - ramp["begin"]) / (ramp["end"] - ramp["begin"]))
    if s > 0.99:
        return None
    return -(line["data_count"] ** (1.0 / (1.0 - s)) * line["expected_nll"] + line["divergence"])


def distinct(lines: list[dict[str, Any]]) -> list[tuple[list[str], dict[str, Any]]]:
    """Each run once, with the names of the ways that came to it: a price that takes no unit leaves a run as it is, so
    two ways with the check, or two without, are one where every reduction of theirs removed the same counts."""
    found: dict[tuple, tuple[list[str], dict[str, Any]]] = {}
    for line in lines:
        taken = tuple(tuple(one[name] for name in COUNTS) for one in line["reductions"])
        names, _ = found.setdefault((_name(line), line["test"], _is_checked(line), taken), ([], line))
        names.append(line["variant"])
    return list(found.values())


def _is_checked(line: dict[str, Any]) -> bool:
    return line["settings"]["reduction"]["measuring"]["binding"]


def counted(lines: list[dict[str, Any]]) -> str:
    """Every reduction of a file, by network and way, each run once; and all that had the check, all that had not."""
    runs = distinct(lines)
    rows = [[_name(line), "; ".join(names), *_counts([line])] for names, line in runs]
    for words, is_checked in (("with the check", True), ("unchecked", False)):
        rows.append(["all", words, *_counts([line for _, line in runs if _is_checked(line) == is_checked])])
    heads = ["network", "method", "reductions", "sign right", "ΔF predicted, nats", "measured", "predicted ÷ measured"]
    heads += ["of the proposal", "worse", "worse afresh, by two errors", "the objective worse"]
    return trials.markdown(heads, rows)


def _counts(lines: list[dict[str, Any]]) -> list[str]:
    """What is counted of the reductions of these lines."""
    found = [one for line in lines for one in line["reductions"]]
    gains = np.array([judged(one) for one in found])
    measured = gains - [one["allowed"] for one in found]
    predicted = np.array([one["predicted"] for one in found])
    fresh = np.array([[one["afresh"] + one["allowed"], one["afresh_error"]] for one in found])
    ratio = np.median(predicted[measured > 0] / measured[measured > 0])
    taken = np.sum([one["removed"] for one in found]) / np.sum([one["proposed"] for one in found])
    own = [gain for line in lines for one in line["reductions"] if (gain := objective(one, line)) is not None]
    return [
        str(len(found)), str(np.sum((predicted >= 0) == (measured >= 0))),
        f"{predicted.sum():+,.0f}", f"{measured.sum():+,.0f}", f"{ratio:.2f}", f"{taken:.0%}".replace("%", " %"),
        str(np.sum(gains < 0)), str(np.sum(fresh[:, 0] < -2 * fresh[:, 1])),
        f"{np.sum(np.array(own) < 0)} of {len(own)}",
    ]  # fmt: skip


def figures(lines: list[dict[str, Any]]) -> str:
    """What the networks came to with the check and without, and what a reduction costs."""
    rows = []
    for line in lines:
        values = [trials.figure(line, name) for name in ("accuracy", "nll", "ece", "sparsity")]
        cost = f"{line['cost']:.1%}".replace("%", " %")
        rows.append([_name(line), line["variant"], *values, trials.bound(line), cost])
    heads = ["network", "method", "accuracy", "NLL", "ECE", "pruned", trials.BOUND, "a reduction ÷ its epoch's steps"]
    return trials.markdown(heads, rows)


def _name(line: dict[str, Any]) -> str:
    return f"{line['network']}, {line['data']}, {line['epochs']} × {line['steps']}"


def main() -> None:
    parser = trials.parser(__doc__)
    parser.add_argument("--data", default="fashion_mini")
    parser.add_argument("--networks", nargs="+", default=["lenet-300-100", "lenet", "mlp"])
    parser.add_argument("--only", nargs="+", metavar="WAY", help="these ways only, by name")
    parser.add_argument("--figures", type=Path, help="print a file's other table, and stop")
    options = parser.parse_args()
    if options.table or options.figures:
        print(counted(trials.lines_of(options.table)) if options.table else figures(trials.lines_of(options.figures)))
        return
    budget = {name: vars(options)[name] for name in ("epochs", "steps", "seeds", "first_seed", "test")}
    for network in options.networks:
        for variant, method in ways(network).items():
            names = {"data": options.data, "network": network, "variant": variant, **budget}
            if (options.only and variant not in options.only) or any(
                names.items() <= line.items() for line in trials.lines_of(options.out)
            ):
                continue
            line = names | measure(options.data, network, method, options)
            print(json.dumps({name: value for name, value in line.items() if name != "reductions"}), flush=True)
            trials.keep(line, options.out)


if __name__ == "__main__":
    main()
