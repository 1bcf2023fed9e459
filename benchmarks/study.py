"""Which recipe: variants of BMR, one change at a time, measured on validation data split from the training set.

    python benchmarks/study.py [--networks mlp lenet] [--data fashion_mnist] [--variants NAME...] [--out study.jsonl]
    python benchmarks/study.py --table study.jsonl

Each line of the output is one variant on one network: figures on 10,000 held-out training examples, mean over seeds.
`--list` names the variants.
"""

import dataclasses

import trials

from occamax.estimators import Flipout, LocalReparameterisation
from occamax.experiment.config import METHODS
from occamax.methods import MAP, Method, PaperBMR, VarianceScaled
from occamax.priors import FanIn, Flat
from occamax.reduction import Between, Reduction
from occamax.schedules import Constant, Cosine, Geometric, Ramp, Schedule


def scaled(**changes) -> Method:
    """The paper's BMR from variance-scaled means with a cosine rate and gains centred on one."""
    return dataclasses.replace(
        PaperBMR(first_means=VarianceScaled(), learning_rate=Cosine(1e-2), prior=Flat(gain_center=1.0)), **changes
    )


def cold(weight: Schedule | float = 0.1, evidence: Schedule | None = None, **changes) -> Method:
    """`scaled` with a tempered posterior; `evidence`: the weight that ΔF is taken at."""
    weights = weight if isinstance(weight, Schedule) else Constant(weight)
    reduction = Reduction(schedule=Between(0.1, 0.8), evidence=evidence)
    return scaled(**{"divergence_weight": weights, "reduction": reduction, **changes})


def eased(weight: Schedule | float = 0.1, last: float = 1.0, **changes) -> Method:
    """`cold` with fan-in priors, the evidence eased in from the divergence's weight to `last`, and few weights gone at
    a time, under guard. Keywords that `Reduction` knows go there."""
    weights = weight if isinstance(weight, Schedule) else Constant(weight)
    known = {field.name for field in dataclasses.fields(Reduction)}
    reduction = Reduction(
        **{
            "schedule": Between(0.1, 0.8),
            "evidence": Ramp(0.0, last, 0.1, 0.7),
            "least_left": Geometric(1.0, 0.005, 0.1, 0.7),
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
    "map, scaled": trials.plain(1e-3, prior=FLAT),
    "map, scaled, faster": trials.plain(5e-3, prior=FLAT),
    "map, fan-in": trials.plain(5e-3),
    "map, fan-in, faster": trials.plain(1e-2),
    "map, fan-in, no dropout": trials.plain(5e-3, dropout=0.0),
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
    "eased, no limit": eased(least_left=None),
}


def main() -> None:
    parser = trials.parser(__doc__)
    parser.add_argument("--data", default="fashion_mnist")
    parser.add_argument("--networks", nargs="+", default=["mlp", "lenet"])
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), help="their names, or those of methods")
    parser.add_argument("--images", type=int, help="train on that many images only")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(VARIANTS))
    elif options.table:
        print(table(trials.lines_of(options.table)))
    else:
        methods = {name: VARIANTS[name] if name in VARIANTS else METHODS[name]() for name in options.variants}
        wanted = [
            trials.Trial(options.data, network, method, {"variant": name}, options.images)
            for network in options.networks
            for name, method in methods.items()
        ]
        trials.run(wanted, options)


def table(lines: list[dict]) -> str:
    """Variants by networks: accuracy / NLL / ECE / pruned."""
    names = list(dict.fromkeys(line["variant"] for line in lines))
    places = list(dict.fromkeys((line["data"], line["network"], line["epochs"], line["steps"]) for line in lines))
    found = {(line["variant"], line["data"], line["network"], line["epochs"], line["steps"]): line for line in lines}
    heads = [f"{network}, {data}, {epochs} × {steps}" for data, network, epochs, steps in places]
    rows = ([name, *(_entry(found.get((name, *place))) for place in places)] for name in names)
    return trials.markdown(["variant", *heads], rows)


def _entry(line: dict | None) -> str:
    if line is None:
        return ""
    numbers = [trials.short(line[name]) for name in ("accuracy", "nll", "ece")]
    return " / ".join([*numbers, trials.short(line["sparsity"], 2)])


if __name__ == "__main__":
    main()
