"""The methods that have a name. Every field is an option: `BMR(learning_rate=5e-3)`. The values of `MAP`, `Flat`,
`Tiered` and `PaperBMR` are the paper's."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from ..errors import ArgumentError
from ..inference.batches import Passes
from ..inference.calibration import Calibration
from ..inference.initializers import VarianceScaled
from ..inference.optimizers import AdaBelief, AdamW, NaturalGradient, Optax, as_optimizer
from ..inference.posteriors import MeanField, PointMass
from ..inference.priors import FanInPrior, HorseshoePrior, NormalPrior, TrainedPrior
from ..inference.schedules import Affordable, Constant, Cosine, Geometric, Ramp
from ..names import choose
from ..reduction.criteria import Evidence
from ..reduction.horseshoe import HorseshoeCriterion
from ..reduction.measuring import Measuring
from ..reduction.reducing import Reduction
from ..reduction.schedule import Between
from .method import Method, Suited


def _make(name: str, own: dict[str, Any], changes: dict[str, Any]) -> Method:
    """A named method with some of its values changed."""
    known = [field.name for field in fields(Method)]
    for change in changes:
        choose(name, change, known)
    if isinstance(as_optimizer(changes.get("optimizer", AdaBelief())), Optax) and "learning_rate" in changes:
        raise ArgumentError(
            "learning_rate: an optax transformation has a rate of its own; give it there, as in optax.adam(schedule)"
        )
    return Method(**{"name": name, **own, **changes})


def MAP(**changes: Any) -> Method:  # noqa: N802, makes an object as a class does
    """Flat-MAP: the most probable weights under the flat prior, with dropout.

    **changes** to any value of `Method`, by name; another name, or a value that cannot work, raises `ArgumentError`.

    Examples:
        >>> ox.MAP(learning_rate=2e-3).learning_rate
        Constant(value=0.002)
    """
    return _make("map", {"posterior": PointMass(), "learning_rate": Constant(1e-3), "dropout": 0.2}, changes)


def Plain(**changes: Any) -> Method:  # noqa: N802
    """What most people train with: AdamW with a cosine rate and decoupled weight decay, no prior; and a temperature
    from the same held-out examples that `BMR` has. Its rate, weight decay and dropout want tuning for each network.

    **changes** to any value of `Method`, by name; another name, or a value that cannot work, raises `ArgumentError`.

    Examples:
        >>> ox.Plain(optimizer=ox.AdamW(weight_decay=0.3)).optimizer
        AdamW(weight_decay=0.3)
    """
    own = {
        "prior": NormalPrior(1.0),  # the weights themselves, in the unit that the optimiser sees
        "posterior": PointMass(),
        "init": VarianceScaled(2.0),
        "learning_rate": Cosine(1e-3, warm_up=0.02),
        "kl_weight": Constant(0.0),
        "optimizer": AdamW(),
        "calibration": Calibration(),
        "batches": Passes(),
    }
    return _make("plain", own, changes)


def Flat(**changes: Any) -> Method:  # noqa: N802
    """Flat-FF: a fully factorised posterior under the flat prior.

    **changes** to any value of `Method`, by name; another name, or a value that cannot work, raises `ArgumentError`.

    Examples:
        >>> ox.Flat(prior=ox.FlatPrior(base_std=0.2)).reduction is None  # it prunes nothing
        True
    """
    return _make("flat", {}, changes)


def Tiered(**changes: Any) -> Method:  # noqa: N802
    """Tiered-FF: a fully factorised posterior under the regularised horseshoe.

    **changes** to any value of `Method`, by name; another name, or a value that cannot work, raises `ArgumentError`.

    Examples:
        >>> ox.Tiered(prior=ox.HorseshoePrior(global_scale=0.1)).prior.global_scale
        0.1
    """
    return _make("tiered", {"prior": HorseshoePrior()}, changes)


def PaperBMR(**changes: Any) -> Method:  # noqa: N802
    """BMR-S&S, the paper to the letter: Flat-FF, reduced before every epoch but the first by spike-and-slab.

    **changes** to any value of `Method`, by name; another name, or a value that cannot work, raises `ArgumentError`.

    Examples:
        >>> ox.PaperBMR().reduction.criterion
        SpikeAndSlab(alpha0=1.0, beta0=1.0, rounds=4)
    """
    return _make("bmr-paper", {"learning_rate": Constant(1e-2), "reduction": Reduction()}, changes)


def HorseshoeBMR(**changes: Any) -> Method:  # noqa: N802
    """BMR with the regularised horseshoe in place of spike-and-slab. One short trial so far.

    **changes** to any value of `Method`, by name; another name, or a value that cannot work, raises `ArgumentError`.

    Examples:
        >>> ox.HorseshoeBMR().reduction.criterion.steps
        200
    """
    own = {"learning_rate": Constant(1e-2), "reduction": Reduction(HorseshoeCriterion())}
    return _make("bmr-rhs", own, changes)


# The evidence alone decides, at a pace that the network can follow, measured, and with a guard
PACED = Reduction(
    criterion=Evidence(),
    schedule=Between(0.1, 0.8),
    least_left=Geometric(1.0, 0.005, 0.1, 0.7),
    tolerance=0.05,
    measuring=Measuring(binding=True),
)

# By natural gradients: a wide prior of one fixed width, every datum counted four times, deviations that come from the
# curvature of the data. A network without normalisation trains only at a quarter of the rate
NATURAL = Suited(
    prior=NormalPrior(0.17),
    posterior=MeanField(0.045),
    init=VarianceScaled(2.0),
    learning_rate=Cosine(0.05, warm_up=0.02),
    kl_weight=0.25,
    optimizer=NaturalGradient(),
    batches=Passes(),
)
LONG_STEPS = Cosine(0.2, warm_up=0.02)
# Of normalised layers only the direction counts, and trained ones may be tiny: under a prior of one width a ResNet-20
# forgets all it learnt, at any rate (`docs/howto/trained.md`)
OWN_SIZE = Suited(prior=TrainedPrior(3.0), learning_rate=Cosine(0.02, warm_up=0.02))


def BMR(**changes: Any) -> Method:  # noqa: N802
    """Our best recipe so far (`docs/lab/history.md` says how it was found):

    - variance-scaled first means, a cosine rate, priors by fan-in with gains centred on one;
    - a KL weight that the data can pay for: the divergence of a million weights outweighs some ten thousand images, and
      at full weight the network underfits. Up to four tenths of the run its weights, at a nat each, cost three quarters
      of what held-out examples still cost: little at first, more as the network gets smaller. From eight tenths on the
      KL weight is six tenths. This makes it a tempered posterior, and every report says so;
    - a weight goes when the evidence prefers it gone. ΔF is first that of the tempered posterior; by seven tenths of
      the run its data count once, reweighed weight by weight (`delta_f.retempered`); and the network is pruned no
      faster than it can follow, from a tenth to four fifths of the run. The rest is for the survivors;
    - a guard that undoes what the network does not recover from;
    - a temperature of the outputs, from at most one training example in twenty that is held out.

    Where the network normalises its activations, or the run begins with trained weights (`start`), it is trained by
    natural gradients instead of the first two, and ΔF is not reweighed, as with `NaturalBMR`: `Suited` says why. A
    change of one of the values that this would take the place of switches it off; change those of `NaturalBMR` there.

    **changes** to any value of `Method`, by name; another name, or a value that cannot work, raises `ArgumentError`.

    Examples:
        >>> method = ox.BMR(learning_rate=ox.schedules.Cosine(5e-3))
        >>> method == ox.BMR(learning_rate=ox.schedules.Cosine(5e-3))
        True
    """
    own: dict[str, Any] = {
        "prior": FanInPrior(),
        "init": VarianceScaled(),
        "learning_rate": Cosine(1e-2),
        "kl_weight": Affordable(0.6, 0.75),
        "reduction": replace(PACED, evidence=Ramp(0.0, 1.0, 0.1, 0.7)),
        "calibration": Calibration(),
        "target_rate_factor": 2.0,
    }
    if not changes.keys() & NATURAL.changes().keys():
        factor = None if "target_rate_factor" in changes else 1.0
        evidence = None if "reduction" in changes else 0.0
        own["trained"] = replace(NATURAL, target_rate_factor=factor, evidence=evidence)
        own["normalised"] = replace(own["trained"], learning_rate=LONG_STEPS, trained=OWN_SIZE)
    return _make("bmr", own, changes)


def NaturalBMR(**changes: Any) -> Method:  # noqa: N802
    """BMR by natural gradients, for any network: one gradient a step, three vectors of state.

    A wide prior of one fixed width (no scale is learnt for a layer), every datum counted four times (a KL weight of a
    quarter), deviations that come from the curvature of the data and forget their start by the end of the run
    (`NaturalGradient`). Weights go by their ΔF between a tenth and four fifths of the run. Networks with normalisation
    are trained at four times the rate; an MLP forgets all it learnt at that (`docs/lab/resnet20.md`).

    **changes** to any value of `Method`, by name; another name, or a value that cannot work, raises `ArgumentError`.

    Examples:
        >>> ox.NaturalBMR(kl_weight=0.5).kl_weight
        Constant(value=0.5)
    """
    own: dict[str, Any] = {
        **NATURAL.changes(),
        "reduction": PACED,
        "calibration": Calibration(),
    }
    has_rate, has_prior = bool(changes.keys() & {"learning_rate", "optimizer"}), "prior" in changes
    trained = replace(
        OWN_SIZE,
        prior=None if has_prior else OWN_SIZE.prior,
        learning_rate=None if has_rate else OWN_SIZE.learning_rate,
    )
    if not (has_rate and has_prior):
        own["normalised"] = Suited(learning_rate=None if has_rate else LONG_STEPS, trained=trained)
    return _make("bmr-natural", own, changes)


METHODS: dict[str, Callable[..., Method]] = {
    "plain": Plain,
    "map": MAP,
    "flat": Flat,
    "tiered": Tiered,
    "bmr-paper": PaperBMR,
    "bmr-rhs": HorseshoeBMR,
    "bmr": BMR,
    "bmr-natural": NaturalBMR,
}
