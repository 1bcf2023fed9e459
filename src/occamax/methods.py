"""Methods: one row of a comparison each. A method is a prior, a posterior, a reduction and an optimiser, as one frozen
object; `BMR()`, `PaperBMR()`, `Flat()`, `Tiered()` and `MAP()` make one.

Every field is an option: `BMR(learning_rate=5e-3)`. The values of `MAP`, `Flat`, `Tiered` and `PaperBMR` are the
paper's.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, final

from .errors import ArgumentError
from .inference import batches as _batches
from .inference import calibration as _calibration
from .inference import estimators as _estimators
from .inference import initializers as _initializers
from .inference import likelihoods as _likelihoods
from .inference import optimizers as _optimizers
from .inference import posteriors as _posteriors
from .inference import priors as _priors
from .inference import schedules as _schedules
from .inference.batches import Batches, Passes, WithReplacement
from .inference.calibration import Calibration
from .inference.estimators import Estimator, SharedDraw
from .inference.initializers import Initializer, Uniform, VarianceScaled
from .inference.optimizers import AdaBelief, AdamW, NaturalGradient, Optax, as_optimizer
from .inference.posteriors import MeanField, PointMass, PosteriorFamily
from .inference.priors import FanInPrior, FlatPrior, HorseshoePrior, NormalPrior, Prior
from .inference.schedules import Affordable, Constant, Cosine, Geometric, Ramp, Scaled, Schedule, as_schedule
from .names import choose
from .reduction import costs as _costs
from .reduction import criteria as _criteria
from .reduction import horseshoe as _horseshoe
from .reduction import measuring as _measuring
from .reduction import reducing as _reducing
from .reduction import schedule as _schedule
from .reduction.costs import UnitCost
from .reduction.criteria import Evidence, Magnitude, Pattern, TargetSparsity, Told
from .reduction.horseshoe import HorseshoeCriterion
from .reduction.measuring import Measuring
from .reduction.reducing import Reduction
from .reduction.schedule import Between
from .storage.structured import from_data, known_kinds, to_data
from .structure.layout import Layout

# the kinds of objects that a field takes, and one to show a user
KINDS = {
    "prior": (Prior, "FlatPrior()"),
    "posterior": (PosteriorFamily, "MeanField()"),
    "init": (Initializer, "ox.init.VarianceScaled()"),
    "estimator": (Estimator, "Flipout()"),
    "batches": (Batches, "Passes()"),
}


@final
@dataclass(frozen=True)
class Suited:
    """What is different in a method for networks that normalise their activations. **prior**, **posterior**, **init**,
    **learning_rate**, **kl_weight**, **optimizer**, **batches** and **target_rate_factor** take the place of the
    method's own, **evidence** that of its reduction; what is None stays.

    Such a layer takes the scale out of the weights before it, so that they stand longer steps and more noise: natural
    gradients at a rate of .2 train a ResNet-20 far better than the first recipe, and lose two and three points on
    CIFAR-10's MLP and LeNet, even at .05; .2 ruins an MLP (`results/lab/README.md`).

    Examples:
        >>> method = ox.Method(normalised=ox.Suited(learning_rate=0.2))
        >>> method.suited_to(fitted.model.layout).learning_rate  # a network without normalisation
        Constant(value=0.005)
    """

    prior: Prior | None = None
    posterior: PosteriorFamily | None = None
    init: Initializer | None = None
    learning_rate: Any = None  # whatever is given, a Schedule once it is made; so are the next and the last
    kl_weight: Any = None
    optimizer: Any = None
    batches: Batches | None = None
    target_rate_factor: float | None = None
    evidence: Any = None

    def __post_init__(self):
        for name in ("learning_rate", "kl_weight", "evidence"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, as_schedule(name, getattr(self, name)))
        if self.optimizer is not None:
            object.__setattr__(self, "optimizer", as_optimizer(self.optimizer))
        for name, (kind, example) in KINDS.items():
            if getattr(self, name, None) is not None:
                _refuse_other(f"normalised: {name}", getattr(self, name), kind, example)

    def changes(self) -> dict[str, Any]:
        """The values of a method that it takes the place of, by name."""
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "evidence"}
        return {name: value for name, value in own.items() if value is not None}


@final
@dataclass(frozen=True)
class Method:
    """How a network is trained and pruned.

    **learning_rate** of the **optimizer**, and **kl_weight** (β: 1 is the evidence bound, less a tempered posterior): a
    number, a schedule over the run of `ox.schedules`, or an optax schedule in steps. The optimiser may be any optax
    gradient transformation; its own rate then counts. **init** are the first posterior means. **estimator** of the
    likelihood: one draw a batch, flipout, or local reparameterisation. **reduction** None prunes nothing. **dropout**
    is what the command line builds the paper's networks with; a network passed to `fit` keeps its own. **calibration**
    None trains on every example and leaves the outputs as they are. **target_rate_factor** times the learning rate is
    what it trains at when told how much to prune (`pruned_to`). **batches** are drawn from all examples each time, or
    pass after pass (`Passes`). **normalised** is what changes where the network normalises its activations (`Suited`);
    `fit` reads from the traced network whether it does, and keeps the method as it came to be.

    **name** is what tables call it. **prior** of the weights, **posterior** family: what is believed before and after
    the data. As an object it is equal to another with the same values, and `as_data` writes it down whole.

    Raises:
        ArgumentError: a value that cannot work, or values that cannot go together, such as a reduction by evidence of a
            point estimate.

    Examples:
        >>> method = ox.Method("mine", prior=ox.NormalPrior(0.2), reduction=ox.Reduction(ox.criteria.Evidence()))
        >>> half = method.pruned_to(0.5, epochs=20)  # half of the weights, whatever the evidence says
        >>> half.reduction.criterion.sparsity
        0.5
    """

    name: str = "custom"
    prior: Prior = field(default_factory=FlatPrior)
    posterior: PosteriorFamily = MeanField()
    init: Initializer = Uniform()
    learning_rate: Any = Constant(5e-3)  # whatever is given, a Schedule once the method is made; so is the next
    kl_weight: Any = Constant(1.0)
    optimizer: Any = AdaBelief()  # an Optimizer once the method is made
    estimator: Estimator = SharedDraw()
    reduction: Reduction | None = None
    dropout: float = 0.0
    calibration: Calibration | None = None
    target_rate_factor: float = 1.0
    batches: Batches = WithReplacement()
    normalised: Suited | None = None

    def __post_init__(self):
        for name in ("learning_rate", "kl_weight"):
            object.__setattr__(self, name, as_schedule(name, getattr(self, name)))
        if self.normalised is not None:
            _refuse_other("normalised", self.normalised, Suited, "Suited(learning_rate=0.2), or None")
        object.__setattr__(self, "optimizer", as_optimizer(self.optimizer))
        for name, (kind, example) in KINDS.items():
            _refuse_other(name, getattr(self, name), kind, example)
        if self.reduction is not None:
            _refuse_other("reduction", self.reduction, Reduction, "Reduction(Evidence()), or None")
        if self.calibration is not None:
            _refuse_other("calibration", self.calibration, Calibration, "Calibration(), or None")
        if not 0 <= self.dropout < 1:
            raise ArgumentError(f"dropout: {self.dropout!r} given; it must lie from 0 up to, not including, 1")
        if not self.target_rate_factor > 0:
            raise ArgumentError(f"target_rate_factor: {self.target_rate_factor!r} given; it must be positive")
        if not self.posterior.has_deviations:
            self._refuse_for_points()

    def _refuse_for_points(self) -> None:
        """What makes no sense where the posterior is a point."""
        if self.estimator.is_local:
            raise ArgumentError("estimator: a point estimate has no noise to spread; leave it at SharedDraw()")
        if self.optimizer.needs_deviations:
            raise ArgumentError("optimizer: natural gradients are of a Gaussian; for a point leave it at AdaBelief()")
        if self.reduction is not None:
            self.reduction.refuse_point()

    def suited_to(self, layout: Layout) -> "Method":
        """This method as it trains a network of that layout."""
        if self.normalised is None:
            return self
        if not layout.is_normalised:
            return replace(self, normalised=None)
        changes, reduction = self.normalised.changes(), self.reduction
        if reduction is not None and self.normalised.evidence is not None:
            reduction = replace(reduction, evidence=self.normalised.evidence)
        return replace(self, **changes, reduction=reduction, normalised=None)

    def pruned_to(self, sparsity: float, epochs: int) -> "Method":
        """This method with exactly that share of the reducible weights removed by the end of a run of `epochs`: the
        evidence decides which, no longer how many. Nothing is undone, since the share was asked for. It trains at
        `target_rate_factor` times its rate: where more must go than the evidence would let go, the survivors have
        further to move. For `BMR` twice the rate is a point of accuracy at 99 %, and no harm at 95 %
        (`docs/lab/notebook.md`). A point estimate, which has no evidence, is pruned by magnitudes."""
        return self._told(TargetSparsity(sparsity), epochs)

    def in_pattern(self, keep: int, of: int, epochs: int) -> "Method":
        """This method with `keep` of every `of` weights along a layer's inputs left by the end of a run of `epochs`, as
        `ox.criteria.Pattern` chooses them; otherwise as `pruned_to`."""
        return self._told(Pattern(keep, of), epochs)

    def _told(self, criterion: TargetSparsity | Pattern, epochs: int) -> "Method":
        """With a criterion that says how many go: approached along its ramp, and nothing undone."""
        if self.reduction is None and not self.posterior.has_deviations:  # gradual magnitude pruning
            by_magnitude = Reduction(TargetSparsity(0.0, Magnitude()), Between(0.1, 0.8))
            return replace(self, reduction=by_magnitude)._told(criterion, epochs)
        reduction = self._prunes("sparsity" if isinstance(criterion, TargetSparsity) else "pattern")
        due = [epoch for epoch in range(epochs) if reduction.schedule.due(epoch, epochs)]
        if not due:
            raise ArgumentError(f"epochs: {epochs} leaves no room for a reduction; ask for at least two")
        before = reduction.criterion
        score = before.score if isinstance(before, Told) else criterion.score
        criterion = replace(criterion, score=score, reach=min(0.75, due[-1] / epochs))
        measuring = replace(reduction.measuring, binding=False)
        reduction = replace(reduction, criterion=criterion, least_left=None, tolerance=None, measuring=measuring)
        told = replace(self, reduction=reduction, learning_rate=_scaled(self.learning_rate, self.target_rate_factor))
        own = self.normalised
        if own is None or (own.learning_rate is None and own.target_rate_factor is None):
            return told
        factor = self.target_rate_factor if own.target_rate_factor is None else own.target_rate_factor
        rate = self.learning_rate if own.learning_rate is None else own.learning_rate
        return replace(told, normalised=replace(own, learning_rate=_scaled(rate, factor)))

    def with_units(self, price: float, cost: UnitCost | None = None) -> "Method":
        """This method, which also removes whole units that earn less than `price` nats per weight, or for what `cost`
        says (see `Reduction`)."""
        reduction = self._prunes("unit_price")
        if isinstance(reduction.criterion, Told):
            raise ArgumentError("unit_price: it cannot be had with a fixed sparsity; leave one of the two out")
        measuring, cost = replace(reduction.measuring, binding=True), reduction.unit_cost if cost is None else cost
        return replace(self, reduction=replace(reduction, unit_price=price, unit_cost=cost, measuring=measuring))

    def at_rate(self, factor: float) -> "Method":
        """This method at so many times its learning rate."""
        if factor == 1.0:
            return self
        if isinstance(self.optimizer, Optax):
            raise ArgumentError("halvings: the rate of an optax transformation is its own; lower it there")
        slower = replace(self, learning_rate=_scaled(self.learning_rate, factor))
        if self.normalised is None or self.normalised.learning_rate is None:
            return slower
        own = replace(self.normalised, learning_rate=_scaled(self.normalised.learning_rate, factor))
        return replace(slower, normalised=own)

    def _prunes(self, argument: str) -> Reduction:
        if self.reduction is None:
            raise ArgumentError(f"{argument}: {self.name} prunes nothing; choose a method that does, such as BMR")
        return self.reduction

    def as_data(self) -> dict[str, Any]:
        """All of it as JSON-able data; `method_from` is the inverse."""
        return to_data(self)


def _scaled(rate: Schedule, factor: float) -> Schedule:
    return rate if factor == 1.0 else Scaled(rate, factor)


def _refuse_other(name: str, value: Any, kind: type, example: str) -> None:
    if not isinstance(value, kind):
        raise ArgumentError(f"{name}: {value!r} given; it must be an object such as {example}")


def kinds() -> dict[str, type]:
    """Every class that a part of a method may be, by name."""
    modules = (
        _batches, _calibration, _estimators, _initializers, _likelihoods, _optimizers, _posteriors, _priors, _schedules,
        _costs, _criteria, _horseshoe, _measuring, _reducing, _schedule,
    )  # fmt: skip
    return known_kinds(*modules) | {"Method": Method, "Suited": Suited}


def method_from(data: dict[str, Any]) -> Method:
    """The method whose data this is: equal to the one that `as_data` was asked of."""
    method = from_data(data, kinds())
    if not isinstance(method, Method):
        raise ArgumentError(f"method: the data of a {type(method).__name__} given; it must be a Method's")
    return method


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


def BMR(**changes: Any) -> Method:  # noqa: N802
    """Our best recipe so far (`docs/lab/notebook.md` says how it was found):

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

    Where the network normalises its activations it is trained by natural gradients instead of the first two, and ΔF is
    not reweighed, as with `NaturalBMR`: `Suited` says why. A change of one of the values that this would take the place
    of switches it off; change those of `NaturalBMR` there.

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
        own["normalised"] = replace(NATURAL, learning_rate=LONG_STEPS, target_rate_factor=factor, evidence=evidence)
    return _make("bmr", own, changes)


def NaturalBMR(**changes: Any) -> Method:  # noqa: N802
    """BMR by natural gradients, for any network: one gradient a step, three vectors of state.

    A wide prior of one fixed width (no scale is learnt for a layer), every datum counted four times (a KL weight of a
    quarter), deviations that come from the curvature of the data and forget their start by the end of the run
    (`NaturalGradient`). Weights go by their ΔF between a tenth and four fifths of the run. Networks with normalisation
    are trained at four times the rate; an MLP forgets all it learnt at that (`results/lab/README.md`).

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
    if not changes.keys() & {"learning_rate", "optimizer"}:
        own["normalised"] = Suited(learning_rate=LONG_STEPS)
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
