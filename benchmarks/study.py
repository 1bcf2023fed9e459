"""Which recipe: variants of BMR, one change at a time, measured on validation data split from the training set.

    python benchmarks/study.py [--networks mlp lenet] [--data fashion_mnist] [--variants NAME...] [--out study.jsonl]
    python benchmarks/study.py --table study.jsonl

Each line of the output is one variant on one network: figures on 10,000 held-out training examples, mean over seeds.
The test set is not touched. `--list` names the variants.
"""

import argparse
import dataclasses
import json
import time
from pathlib import Path

import numpy as np

import occamax as ox
from occamax.estimators import Flipout, LocalReparameterisation
from occamax.experiment.config import METHODS, NETWORKS, PRECISIONS
from occamax.experiment.loop import epochs as run_epochs
from occamax.experiment.program import Program, on_device
from occamax.methods import MAP, Method, PaperBMR, VarianceScaled
from occamax.priors import FanIn, Flat
from occamax.reduction import Between, Reduction
from occamax.schedules import Constant, Cosine, Ramp, Schedule


def map_best(rate: float, **changes) -> Method:
    """Plain training with the options of the recipe that apply to it."""
    return MAP(**{"first_means": VarianceScaled(), "learning_rate": Cosine(rate), "prior": FanIn(), **changes})


def scaled(**changes) -> Method:
    """The paper's BMR from variance-scaled means with a cosine rate and gains centred on one."""
    return dataclasses.replace(
        PaperBMR(first_means=VarianceScaled(), learning_rate=Cosine(1e-2), prior=Flat(gain_center=1.0)), **changes
    )


def cold(weight: Schedule | float = 0.1, evidence: Schedule | None = None, **changes) -> Method:
    """`scaled` with a tempered posterior; `evidence`: the weight that ΔF is taken at."""
    weights = weight if isinstance(weight, Schedule) else Constant(weight)
    reduction = Reduction(schedule=Between(0.1, 0.8), evidence_weight=evidence)
    return scaled(**{"divergence_weight": weights, "reduction": reduction, **changes})


def eased(weight: Schedule | float = 0.1, last: float = 1.0, **changes) -> Method:
    """`cold` with fan-in priors, the evidence eased in from the divergence's weight to `last`, and few weights gone at
    a time, under guard. Keywords that `Reduction` knows go there."""
    weights = weight if isinstance(weight, Schedule) else Constant(weight)
    known = {field.name for field in dataclasses.fields(Reduction)}
    reduction = Reduction(
        **{
            "schedule": Between(0.1, 0.8),
            "evidence_weight": Ramp(float(weights(0.0)), last, 0.1, 0.7),
            "limit": 0.3,
            "tolerance": 0.05,
            **{name: value for name, value in changes.items() if name in known},
        }
    )
    others = {name: value for name, value in changes.items() if name not in known}
    return scaled(**{"divergence_weight": weights, "reduction": reduction, "prior": FanIn(), **others})


FLAT = Flat(gain_center=1.0)

VARIANTS: dict[str, Method] = {
    # plain training
    "map": MAP(),
    "map, scaled": map_best(1e-3, prior=FLAT),
    "map, scaled, faster": map_best(5e-3, prior=FLAT),
    "map, fan-in": map_best(5e-3),
    "map, fan-in, faster": map_best(1e-2),
    "map, fan-in, no dropout": map_best(5e-3, dropout=0.0),
    # from the paper to the recipe, one change a step
    "paper": PaperBMR(),
    "scaled": scaled(),
    "cold .1": cold(),
    "cold .1, fan-in": cold(prior=FanIn()),
    "cold .1, fan-in, evidence 1": cold(prior=FanIn(), evidence=Constant(1.0)),
    "eased": eased(),
    # one change from "eased" at a time
    "eased, flat": eased(prior=FLAT),
    "eased, wide fan-in": eased(prior=FanIn(gain=4.0)),
    "eased, cold .03": eased(0.03),
    "eased, cold .3": eased(0.3),
    "eased to 3": eased(last=3.0),
    "eased to .3": eased(last=0.3),
    "eased, warming .1 to .3": eased(Ramp(0.1, 0.3, 0.4, 0.8)),
    "eased, warming .1 to 1": eased(Ramp(0.1, 1.0, 0.4, 0.8)),
    "eased, warming .03 to .1": eased(Ramp(0.03, 0.1, 0.4, 0.8)),
    "eased, warming .03 to .3": eased(Ramp(0.03, 0.3, 0.4, 0.8)),
    "eased to 3, warming .03 to .3": eased(Ramp(0.03, 0.3, 0.4, 0.8), last=3.0),
    "eased to 3, warming .03 to .3, rate 2e-2": eased(Ramp(0.03, 0.3, 0.4, 0.8), 3.0, learning_rate=Cosine(2e-2)),
    "eased, warming .03 to .3, rate 2e-2": eased(Ramp(0.03, 0.3, 0.4, 0.8), learning_rate=Cosine(2e-2)),
    "eased, warming .01 to .3": eased(Ramp(0.01, 0.3, 0.4, 0.8)),
    "eased, flat, cold .03": eased(0.03, prior=FLAT),
    "eased, flat, cold .3": eased(0.3, prior=FLAT),
    "eased, flat, warming .1 to .3": eased(Ramp(0.1, 0.3, 0.4, 0.8), prior=FLAT),
    "eased, flat, warming .1 to 1": eased(Ramp(0.1, 1.0, 0.4, 0.8), prior=FLAT),
    "eased, rate 5e-3": eased(learning_rate=Cosine(5e-3)),
    "eased, rate 2e-2": eased(learning_rate=Cosine(2e-2)),
    "eased, first std .01": eased(first_std=0.01),
    "eased, flipout": eased(estimator=Flipout()),
    "eased, local": eased(estimator=LocalReparameterisation()),
    "eased, from a third": eased(schedule=Between(0.3, 0.8)),
    "eased, to two thirds": eased(schedule=Between(0.1, 0.6)),
    "eased, no guard": eased(tolerance=None),
    "eased, no limit": eased(limit=None),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="fashion_mnist")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--networks", nargs="+", default=["mlp", "lenet"])
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--images", type=int, help="train on that many images only")
    parser.add_argument("--samples", type=int, default=100, help="draws in the last evaluation")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--table", type=Path, help="print a file that --out wrote as a Markdown table, and stop")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.table:
        print(table([json.loads(line) for line in options.table.read_text().splitlines()]))
        return
    if options.list:
        print("\n".join(VARIANTS))
        return
    dataset = ox.load_data(options.data, options.data_dir)
    dataset = dataset.hold_out(min(10_000, len(dataset.train) // 5))
    if options.images:
        dataset = dataset.first(options.images)
    for network in options.networks:
        for name in options.variants:
            line = {
                "data": options.data,
                "network": network,
                "variant": name,
                **measure(dataset, network, name, options),
            }
            print(json.dumps(line), flush=True)
            if options.out is not None:
                with open(options.out, "a") as file:
                    file.write(json.dumps(line) + "\n")


def table(lines: list[dict]) -> str:
    """Variants by networks: accuracy / NLL / ECE / pruned."""
    names = list(dict.fromkeys(line["variant"] for line in lines))
    places = list(dict.fromkeys((line["data"], line["network"], line["epochs"], line["steps"]) for line in lines))
    found = {(line["variant"], line["data"], line["network"], line["epochs"], line["steps"]): line for line in lines}
    heads = [f"{network}, {data}, {epochs} × {steps}" for data, network, epochs, steps in places]
    rows = [f"| variant | {' | '.join(heads)} |", "|---|" + "---|" * len(places)]
    for name in names:
        rows.append(f"| {name} | {' | '.join(_entry(found.get((name, *place))) for place in places)} |")
    return "\n".join(rows)


def _entry(line: dict | None) -> str:
    if line is None:
        return ""
    numbers = [f"{line[name]:.3f}".removeprefix("0") for name in ("accuracy", "nll", "ece")]
    return " / ".join([*numbers, f"{line['sparsity']:.2f}".removeprefix("0") if line["sparsity"] else "0"])


def measure(dataset: ox.Dataset, network: str, name: str, options: argparse.Namespace) -> dict:
    method = VARIANTS[name] if name in VARIANTS else METHODS[name]()
    model = NETWORKS[network].model(dataset, method, PRECISIONS[options.precision])
    program = Program(model, method, ox.Budget(options.epochs, options.steps, 128), tuple(range(options.seeds)))
    began = time.perf_counter()
    last, curve, undone = None, [], []
    for epoch in run_epochs(
        program, program.start(), on_device(dataset.train), on_device(dataset.test), 0, options.samples, 2
    ):
        last = epoch
        undone.append(sum(epoch.undone))
        curve.append([round(float(np.mean([m[k] for m in epoch.metrics])), 4) for k in ("accuracy", "sparsity")])
    assert last is not None
    figures = {
        k: round(float(np.mean([m[k] for m in last.metrics])), 4)
        for k in ("accuracy", "nll", "ece", "confidence", "sparsity")
    }
    every = max(1, len(curve) // 5)
    return {
        **figures,
        "epochs": options.epochs,
        "steps": options.steps,
        "seeds": options.seeds,
        "undone": sum(undone),
        "curve": curve[::every],
        "seconds": round(time.perf_counter() - began),
    }


if __name__ == "__main__":
    main()
