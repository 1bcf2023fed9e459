"""Which recipe for which network: plain training, `bmr` and `bmr-natural` on validation data, and `bmr-natural` with
one value changed at a time, to find values that hold for any network.

    python benchmarks/recipes.py --networks mlp lenet [--ways NAME …] [--dense] [--epochs 15] [--steps 100] --out FILE
    python benchmarks/recipes.py --table FILE
    python benchmarks/recipes.py --list

The embedded images unless --data says otherwise: a fifth of the training examples is set aside to compare by.
"""

import dataclasses

import study
import trials

from occamax.experiment.cache import keep_compiled_programs
from occamax.inference.optimizers import AdamW, NaturalGradient
from occamax.inference.posteriors import MeanField
from occamax.inference.priors import FanInPrior, NormalPrior
from occamax.inference.schedules import Affordable, Constant, Cosine, Geometric, PerRun
from occamax.methods import BMR, Method, NaturalBMR, Plain


def natural(**changes) -> Method:
    return study.changed(NaturalBMR(normalised=None), **changes)


def rate(value: float) -> Cosine:
    return Cosine(value, warm_up=0.02)


def plain(value: float, decay: float, dropout: float = 0.0) -> Method:
    return Plain(learning_rate=rate(value), optimizer=AdamW(decay), dropout=dropout)


WAYS: dict[str, Method] = {
    "bmr": BMR(),
    "natural": NaturalBMR(),
    **{
        f"plain, rate {value:g}, decay {decay:g}, dropout {dropout:g}": plain(value, decay, dropout)
        for value in (1e-3, 3e-3)
        for decay in (0.1, 0.5)
        for dropout in (0.0, 0.2, 0.5)
    },
    **{
        f"natural, {name}": natural(**changes)
        for name, changes in {
            "rate .1": {"learning_rate": rate(0.1)},
            "rate .5": {"learning_rate": rate(0.5)},
            "rate 1": {"learning_rate": rate(1.0)},
            "kl 1": {"kl_weight": Constant(1.0)},
            "kl 1/16": {"kl_weight": Constant(1 / 16)},
            "kl 1/64": {"kl_weight": Constant(1 / 64)},
            "first std .1": {"posterior": MeanField(0.1)},
            "first std .2": {"posterior": MeanField(0.2)},
            "prior .34": {"prior": NormalPrior(0.34)},
            "prior fan-in 1": {"prior": FanInPrior(1.0)},
            "prior fan-in 4": {"prior": FanInPrior(4.0)},
            "forgets 3": {"optimizer": NaturalGradient(log_std_rate=PerRun(3.0))},
            "forgets 10": {"optimizer": NaturalGradient(log_std_rate=PerRun(10.0))},
            "step 1": {"optimizer": NaturalGradient(largest_step=1.0)},
            "affordable": {"kl_weight": Affordable(0.6, 0.75)},
            "affordable, std .1": {"kl_weight": Affordable(0.6, 0.75), "posterior": MeanField(0.1)},
            "kl 1/16 to 1/4": {"kl_weight": Geometric(1 / 16, 1 / 4, 0.4, 0.8)},
            "momentum .5": {"optimizer": NaturalGradient(momentum=0.5)},
            "first std .1, rate .5": {"posterior": MeanField(0.1), "learning_rate": rate(0.5)},
            "first std .1, kl 1/16": {"posterior": MeanField(0.1), "kl_weight": Constant(1 / 16)},
            "first std .1, prior .34": {"posterior": MeanField(0.1), "prior": NormalPrior(0.34)},
        }.items()
    },
}


def main() -> None:
    parser = trials.parser(__doc__)
    parser.add_argument("--data", default="fashion_mini")
    parser.add_argument("--networks", nargs="+", default=["lenet-300-100"])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS), metavar="NAME")
    parser.add_argument("--images", type=int, help="train on that many examples only")
    parser.add_argument("--dense", action="store_true", help="without reductions")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(WAYS))
    elif options.table:
        print(study.table(trials.lines_of(options.table)))
    else:
        keep_compiled_programs()
        suffix = ", dense" if options.dense else ""
        wanted = {
            way + suffix: dataclasses.replace(WAYS[way], reduction=None) if options.dense else WAYS[way]
            for way in options.ways
        }
        trials.run(
            [
                trials.Trial(options.data, network, method, {"variant": way}, options.images)
                for network in options.networks
                for way, method in wanted.items()
            ],
            options,
        )


if __name__ == "__main__":
    main()
