"""Which recipe: variants of BMR, one change at a time, measured on validation data split from the training set.

    python benchmarks/study.py [--networks mlp lenet] [--data fashion_mnist] [--variants NAME...] [--out study.jsonl]

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
from occamax.experiment.config import METHODS, NETWORKS, PRECISIONS
from occamax.experiment.loop import epochs as run_epochs
from occamax.experiment.program import Program, on_device
from occamax.methods import MAP, Method, PaperBMR, VarianceScaled
from occamax.priors import FanIn, Flat
from occamax.reduction import Between, Reduction
from occamax.schedules import Constant, Cosine, Ramp, Schedule


def scaled(**changes) -> Method:
    """The paper's BMR from variance-scaled means with a cosine rate: what every row below changes one thing of."""
    return dataclasses.replace(
        PaperBMR(first_means=VarianceScaled(), learning_rate=Cosine(1e-2), prior=Flat(gain_center=1.0)), **changes
    )


def cold(
    weight: Schedule | float = 0.1,
    begin: float = 0.1,
    end: float = 0.8,
    evidence: Schedule | float | None = None,
    limit: float | None = None,
    tolerance: float | None = None,
    **changes,
) -> Method:
    """A tempered posterior. `evidence`: the weight that ΔF is taken at, a number or a schedule."""
    kept = evidence if evidence is None or isinstance(evidence, Schedule) else Constant(evidence)
    reduction = Reduction(schedule=Between(begin, end), evidence_weight=kept, limit=limit, tolerance=tolerance)
    weights = weight if isinstance(weight, Schedule) else Constant(weight)
    return scaled(**{"divergence_weight": weights, "reduction": reduction, **changes})


def eased(
    weight: Schedule | float = 0.1,
    first: float = 0.1,
    last: float = 1.0,
    limit: float | None = 0.3,
    tolerance: float | None = 0.05,
    **changes,
) -> Method:
    """`cold`, with the evidence asked for eased in, few weights at a time, and the guard."""
    return cold(weight, evidence=Ramp(first, last, 0.1, 0.7), limit=limit, tolerance=tolerance, **changes)


VARIANTS: dict[str, Method] = {
    "map": MAP(),
    "map, scaled": MAP(first_means=VarianceScaled(), learning_rate=Cosine(1e-3), prior=Flat(gain_center=1.0)),
    "map, scaled, no dropout": MAP(
        first_means=VarianceScaled(), learning_rate=Cosine(1e-3), prior=Flat(gain_center=1.0), dropout=0.0
    ),
    "map, scaled, faster": MAP(first_means=VarianceScaled(), learning_rate=Cosine(5e-3), prior=Flat(gain_center=1.0)),
    "paper": PaperBMR(),
    "scaled": scaled(),
    "cold .1": cold(),
    "cold .3": cold(0.3),
    "cold .03": cold(0.03),
    "cold .1, fan-in": cold(prior=FanIn()),
    "cold .1, evidence 1": cold(evidence=1.0),
    "cold .1, evidence .3": cold(evidence=0.3),
    "cold .1, fan-in, evidence 1": cold(prior=FanIn(), evidence=1.0),
    "cold .1, fan-in, evidence .3": cold(prior=FanIn(), evidence=0.3),
    "cold .1, eased": eased(),
    "cold .1, fan-in, eased": eased(prior=FanIn()),
    "cold .03, eased": eased(0.03, first=0.03),
    "cold .03, fan-in, eased": eased(0.03, first=0.03, prior=FanIn()),
    "cold .3, eased": eased(0.3, first=0.3),
    "cold .3, fan-in, eased": eased(0.3, first=0.3, prior=FanIn()),
    "cold .1, eased to 3": eased(last=3.0),
    "cold .1, fan-in, eased to 3": eased(last=3.0, prior=FanIn()),
    "warming to .3, eased": eased(Ramp(0.1, 0.3, 0.4, 0.8)),
    "warming to .3, fan-in, eased": eased(Ramp(0.1, 0.3, 0.4, 0.8), prior=FanIn()),
    "warming to 1, eased": eased(Ramp(0.1, 1.0, 0.4, 0.8)),
    "warming to 1, fan-in, eased": eased(Ramp(0.1, 1.0, 0.4, 0.8), prior=FanIn()),
    "cold .1, wide fan-in, eased": eased(prior=FanIn(gain=4.0)),
    "cold .1, eased, rate 5e-3": eased(learning_rate=Cosine(5e-3)),
    "cold .1, eased, rate 2e-2": eased(learning_rate=Cosine(2e-2)),
    "cold .1, eased, no guard": eased(tolerance=None),
    "cold .1, eased, no limit": eased(limit=None),
    "first at half": cold(begin=0.5, end=0.9, evidence=1.0),
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
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
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
        k: round(float(np.mean([m[k] for m in last.metrics])), 4) for k in ("accuracy", "nll", "ece", "sparsity")
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
