"""Which recipe: from the paper to `bmr` one step at a time, then one change from `bmr` at a time, on validation data.

    python benchmarks/study.py [--networks mlp lenet] [--data fashion_mnist] [--variants NAME...] [--out study.jsonl]
    python benchmarks/study.py --table study.jsonl

Each line of the output is one variant on one network: figures on 10,000 held-out training examples, mean over seeds.
`--list` names the variants.
"""

from dataclasses import fields, replace

import trials

from occamax.inference.calibration import Calibration
from occamax.inference.estimators import Flipout, LocalReparameterisation
from occamax.inference.initializers import Uniform, VarianceScaled
from occamax.inference.optimizers import AdamW, NaturalGradient
from occamax.inference.posteriors import MeanField
from occamax.inference.priors import FanInPrior, FlatPrior
from occamax.inference.schedules import Affordable, Constant, Cosine, Geometric, Ramp
from occamax.methods import BMR, MAP, Flat, HorseshoeBMR, Method, PaperBMR, Plain, Tiered
from occamax.reduction import Between, Evidence, Measuring, Reduction, SpikeAndSlab

AFFORDABLE = Affordable(0.6, 0.75)
RISING, PACE = Ramp(0.0, 1.0, 0.1, 0.7), Geometric(1.0, 0.005, 0.1, 0.7)


def changed(method: Method, **changes) -> Method:
    """The method with other values; those that belong to its reduction go there."""
    ours = {field.name for field in fields(Reduction)}
    inside = {name: value for name, value in changes.items() if name in ours}
    outside = {name: value for name, value in changes.items() if name not in ours}
    assert method.reduction is not None
    return replace(method, **outside, reduction=replace(method.reduction, **inside))


def steps() -> dict[str, Method]:
    """From the paper to the recipe, each with all the changes before it."""
    method: Method = PaperBMR()
    found: dict[str, Method] = {"bmr-paper": method}
    for name, change in {
        "+ scaled means": {"init": VarianceScaled()},
        "+ cosine rate": {"learning_rate": Cosine(1e-2)},
        "+ gains centred on one": {"prior": FlatPrior(gain_center=1.0)},
        "+ affordable divergence": {"kl_weight": AFFORDABLE},
        "+ fan-in priors": {"prior": FanInPrior()},
        "+ the evidence alone": {"criterion": Evidence()},
        "+ the true evidence, rising": {"evidence": RISING, "schedule": Between(0.1, 0.8)},
        "+ a pace": {"least_left": PACE},
        "+ a guard": {"tolerance": 0.05},
        "+ a measured check": {"measuring": Measuring(binding=True)},
        "bmr": {"calibration": Calibration(), "name": "bmr", "target_rate_factor": 2.0},
    }.items():
        method = found[name] = changed(method, **change)
    assert all(
        getattr(method, field.name) == getattr(BMR(normalised=None, trained=None), field.name)
        for field in fields(Method)
    )
    return found


VARIANTS: dict[str, Method] = {
    "map": MAP(),
    "flat": Flat(),
    "tiered": Tiered(),
    "AdamW": Plain(),  # the lines "plain" of older files are of an opponent without weight decay or temperature
    "AdamW, rate 3e-3": Plain(learning_rate=Cosine(3e-3, warm_up=0.02)),
    "AdamW, decay .5": Plain(optimizer=AdamW(0.5)),
    "AdamW, dropout .2": Plain(dropout=0.2),
    "AdamW, dropout .2, decay .5": Plain(dropout=0.2, optimizer=AdamW(0.5)),
    "bmr-paper, rate 5e-3": PaperBMR(learning_rate=Constant(5e-3)),
    "bmr-rhs": HorseshoeBMR(),
    **steps(),
    **{
        f"bmr, {name}": changed(BMR(normalised=None, trained=None), **change)
        for name, change in {
            "uniform means": {"init": Uniform()},
            "flat prior": {"prior": FlatPrior(gain_center=1.0)},
            "wider prior": {"prior": FanInPrior(gain=4.0)},
            "divergence up to 1": {"kl_weight": Affordable(1.0, 0.75)},
            "divergence up to .3": {"kl_weight": Affordable(0.3, 0.75)},
            "a quarter of the nats": {"kl_weight": Affordable(0.6, 0.25)},
            "half the nats": {"kl_weight": Affordable(0.6, 0.5)},
            "all the nats": {"kl_weight": Affordable(0.6, 1.0)},
            "twice the nats": {"kl_weight": Affordable(0.6, 2.0)},
            "warming from a fifth": {"kl_weight": Affordable(0.6, 0.75, 0.2, 0.6)},
            "no calibration": {"calibration": None},
            "divergence .1": {"kl_weight": Constant(0.1)},
            "divergence .3": {"kl_weight": Constant(0.3)},
            "divergence .1 to .6": {"kl_weight": Geometric(0.1, 0.6, 0.4, 0.8)},
            "divergence .03 to .3": {"kl_weight": Ramp(0.03, 0.3, 0.4, 0.8)},
            "divergence 1 to .3": {"kl_weight": Ramp(1.0, 0.3, 0.4, 0.6)},
            "spike and slab": {"criterion": SpikeAndSlab()},
            "a nat to spare": {"criterion": Evidence(1.0)},
            "half a nat to spare": {"criterion": Evidence(0.5)},
            "half a nat a weight": {"criterion": Evidence(-0.5)},
            "a nat a weight": {"criterion": Evidence(-1.0)},
            "true evidence at once": {"evidence": Constant(1.0)},
            "tempered evidence": {"evidence": None},
            "from a third": {"schedule": Between(0.3, 0.8)},
            "survivors from three fifths": {"schedule": Between(0.1, 0.6)},
            "no pace": {"least_left": None},
            "units at .01": {"unit_price": 0.01},
            "units at .03": {"unit_price": 0.03},
            "units at .1": {"unit_price": 0.1},
            "rate 5e-3": {"learning_rate": Cosine(5e-3)},
            "rate 2e-2": {"learning_rate": Cosine(2e-2)},
            "constant rate": {"learning_rate": Constant(1e-2)},
            "first std .01": {"posterior": MeanField(init_std=0.01)},
            "natural gradients, rate 3e-2": {"optimizer": NaturalGradient(), "learning_rate": Cosine(0.03)},
            "natural gradients, rate 1e-1": {"optimizer": NaturalGradient(), "learning_rate": Cosine(0.1)},
            "flipout": {"estimator": Flipout()},
            "local reparameterisation": {"estimator": LocalReparameterisation()},
        }.items()
    },
}


def main() -> None:
    parser = trials.parser(__doc__)
    parser.add_argument("--data", default="fashion_mnist")
    parser.add_argument("--networks", nargs="+", default=["mlp", "lenet"])
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS), metavar="NAME")
    parser.add_argument("--images", type=int, help="train on that many images only")
    parser.add_argument("--sparsity", type=float, help="with the dial at this share; for variants that prune")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(VARIANTS))
    elif options.table:
        print(table(trials.lines_of(options.table)))
    else:
        methods, labels = {name: VARIANTS[name] for name in options.variants}, {}
        if options.sparsity is not None:
            methods = {name: method.pruned_to(options.sparsity, options.epochs) for name, method in methods.items()}
            labels = {"level": options.sparsity}
        wanted = [
            trials.Trial(options.data, network, method, {"variant": name, **labels}, options.images)
            for network in options.networks
            for name, method in methods.items()
        ]
        trials.run(wanted, options)


def table(lines: list[dict]) -> str:
    """Variants by networks: accuracy / NLL / ECE / pruned, the mean over the seeds, ± where there are several."""
    where = ("network", "data", "epochs", "steps", "level")
    lines = trials.merged(lines, "variant", *where, "images", "test")
    names = list(dict.fromkeys(line["variant"] for line in lines))
    places = list(dict.fromkeys(tuple(line.get(name) for name in where) for line in lines))
    found = {(line["variant"], *(line.get(name) for name in where)): line for line in lines}
    heads = [
        f"{network}, {data}, {epochs} × {steps}" + (f", {level:.1%}" if level else "")
        for network, data, epochs, steps, level in places
    ]
    rows = ([name, *(_entry(found.get((name, *place))) for place in places)] for name in names)
    return trials.markdown(["variant", *heads], rows)


def _entry(line: dict | None) -> str:
    if line is None:
        return ""
    return " / ".join(
        [*(trials.figure(line, name) for name in ("accuracy", "nll", "ece")), trials.short(line["sparsity"], 2)]
    )


if __name__ == "__main__":
    main()
