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
from occamax.schedules import Constant, Cosine, Ramp


def scaled(**changes) -> Method:
    """The paper's BMR from variance-scaled means with a cosine rate: what every row below changes one thing of."""
    return dataclasses.replace(
        PaperBMR(first_means=VarianceScaled(), learning_rate=Cosine(1e-2), prior=Flat(gain_center=1.0)), **changes
    )


def cold(weight=0.1, begin=0.1, end=0.8, evidence=None, **changes) -> Method:
    reduction = Reduction(schedule=Between(begin, end), evidence_weight=evidence)
    return scaled(**{"divergence_weight": Constant(weight), "reduction": reduction, **changes})


VARIANTS: dict[str, Method] = {
    "map": MAP(),
    "map, scaled": MAP(first_means=VarianceScaled(), learning_rate=Cosine(1e-3), prior=Flat(gain_center=1.0)),
    "map, scaled, no dropout": MAP(
        first_means=VarianceScaled(), learning_rate=Cosine(1e-3), prior=Flat(gain_center=1.0), dropout=0.0
    ),
    "paper": PaperBMR(),
    "scaled": scaled(),
    "cold .1": cold(),
    "cold .1, evidence 1": cold(evidence=1.0),
    "cold .1, evidence .5": cold(evidence=0.5),
    "cold .1, evidence .3": cold(evidence=0.3),
    "cold .3": cold(0.3),
    "cold .3, evidence 1": cold(0.3, evidence=1.0),
    "cold .1, fan-in": cold(prior=FanIn()),
    "cold .1, fan-in, evidence 1": cold(prior=FanIn(), evidence=1.0),
    "cold .1, fan-in, evidence .3": cold(prior=FanIn(), evidence=0.3),
    "cold .03, fan-in, evidence 1": cold(0.03, prior=FanIn(), evidence=1.0),
    "cold .3, fan-in, evidence 1": cold(0.3, prior=FanIn(), evidence=1.0),
    "cold 1, fan-in": cold(1.0, prior=FanIn()),
    "warming, fan-in, evidence 1": cold(prior=FanIn(), evidence=1.0, divergence_weight=Ramp(0.1, 1.0, 0.5, 0.8)),
    "warming to .3, fan-in, evidence 1": cold(prior=FanIn(), evidence=1.0, divergence_weight=Ramp(0.1, 0.3, 0.4, 0.8)),
    "cold .03, evidence 1": cold(0.03, evidence=1.0),
    "ramp .1 to 1": cold(divergence_weight=Ramp(0.1, 1.0, 0.5, 0.8)),
    "ramp .1 to 1, evidence 1": cold(divergence_weight=Ramp(0.1, 1.0, 0.5, 0.8), evidence=1.0),
    "ramp .1 to .3, evidence 1": cold(divergence_weight=Ramp(0.1, 0.3, 0.5, 0.8), evidence=1.0),
    "first at half": cold(begin=0.5, end=0.9, evidence=1.0),
    "rate 5e-3": cold(evidence=1.0, learning_rate=Cosine(5e-3)),
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
    last, curve = None, []
    for epoch in run_epochs(
        program, program.start(), on_device(dataset.train), on_device(dataset.test), curve_samples=2
    ):
        last = epoch
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
        "curve": curve[::every],
        "seconds": round(time.perf_counter() - began),
    }


if __name__ == "__main__":
    main()
