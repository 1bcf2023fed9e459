"""A method: one row of a comparison, as one frozen object; and what of it depends on the network."""

from dataclasses import dataclass, field, fields, replace
from typing import Any, final

from ..errors import ArgumentError
from ..inference import batches as _batches
from ..inference import calibration as _calibration
from ..inference import curvature as _curvature
from ..inference import estimators as _estimators
from ..inference import initializers as _initializers
from ..inference import likelihoods as _likelihoods
from ..inference import optimizers as _optimizers
from ..inference import posteriors as _posteriors
from ..inference import priors as _priors
from ..inference import schedules as _schedules
from ..inference.batches import Batches, WithReplacement
from ..inference.calibration import Calibration
from ..inference.estimators import Estimator, SharedDraw
from ..inference.initializers import Initializer, Uniform
from ..inference.optimizers import AdaBelief, Optax, as_optimizer
from ..inference.posteriors import MeanField, PosteriorFamily
from ..inference.priors import FlatPrior, Prior
from ..inference.schedules import Constant, Scaled, Schedule, as_schedule
from ..reduction import costs as _costs
from ..reduction import criteria as _criteria
from ..reduction import horseshoe as _horseshoe
from ..reduction import measuring as _measuring
from ..reduction import reducing as _reducing
from ..reduction import schedule as _schedule
from ..reduction.costs import UnitCost
from ..reduction.criteria import Magnitude, Pattern, TargetSparsity, Told
from ..reduction.reducing import Reduction
from ..reduction.schedule import Between
from ..storage.structured import from_data, known_kinds, to_data
from ..structure.layout import Layout

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
    """What is different in a method for networks that normalise their activations, or from trained weights. **prior**,
    **posterior**, **init**, **learning_rate**, **kl_weight**, **optimizer**, **batches** and **target_rate_factor**
    take the place of the method's own, **evidence** that of its reduction; what is None stays. **trained** is what is
    different again where such a run begins with trained weights.

    A normalising layer takes the scale out of the weights before it, so that they stand longer steps and more noise:
    natural gradients at a rate of .2 train a ResNet-20 far better than the first recipe, and lose two and three points
    on CIFAR-10's MLP and LeNet, even at .05; at .2 an MLP diverges (`docs/lab/resnet20.md`). From trained weights they
    are ahead on Fashion-MNIST's MLP and LeNet too (`docs/howto/trained.md`).

    Examples:
        >>> method = ox.Method(normalised=ox.Suited(learning_rate=0.2))
        >>> method.suited_to(fitted.model.layout).learning_rate  # a network without normalisation
        Constant(value=0.005)
    """

    prior: Prior | None = None
    posterior: PosteriorFamily | None = None
    init: Initializer | None = None
    learning_rate: Any = None  # whatever is given, a Schedule once it is made; so are the next and the evidence
    kl_weight: Any = None
    optimizer: Any = None
    batches: Batches | None = None
    target_rate_factor: float | None = None
    evidence: Any = None
    trained: "Suited | None" = None

    def __post_init__(self):
        for name in ("learning_rate", "kl_weight", "evidence"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, as_schedule(name, getattr(self, name)))
        if self.optimizer is not None:
            object.__setattr__(self, "optimizer", as_optimizer(self.optimizer))
        for name, (kind, example) in KINDS.items():
            if getattr(self, name, None) is not None:
                _refuse_other(f"Suited: {name}", getattr(self, name), kind, example)
        if self.trained is not None:
            _refuse_other("Suited: trained", self.trained, Suited, "Suited(learning_rate=0.02), or None")

    def changes(self) -> dict[str, Any]:
        """The values of a method that it takes the place of, by name."""
        others = ("evidence", "trained")
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in others}
        return {name: value for name, value in own.items() if value is not None}

    def at_rate(self, rate: Schedule, factor: float) -> "Suited":
        """With so many times that learning rate, and its own from trained weights."""
        trained = self.trained
        if trained is not None and trained.learning_rate is not None:
            trained = replace(trained, learning_rate=_scaled(trained.learning_rate, factor))
        return replace(self, learning_rate=_scaled(rate, factor), trained=trained)

    def begun(self) -> "Suited":
        """The same where a run begins with trained weights."""
        own = self.trained
        if own is None:
            return self
        evidence = self.evidence if own.evidence is None else own.evidence
        return replace(self, **own.changes(), evidence=evidence, trained=None)


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
    pass after pass (`Passes`). **normalised** is what changes where the network normalises its activations (`Suited`),
    which `fit` reads from the traced network; **trained** is what changes where it does not and the run begins with
    trained weights. `fit` keeps the method as it came to be.

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
    trained: Suited | None = None

    def __post_init__(self):
        for name in ("learning_rate", "kl_weight"):
            object.__setattr__(self, name, as_schedule(name, getattr(self, name)))
        for name in ("normalised", "trained"):
            if getattr(self, name) is not None:
                _refuse_other(name, getattr(self, name), Suited, "Suited(learning_rate=0.2), or None")
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
        return replace(self._with(self.normalised) if layout.is_normalised else self, normalised=None)

    def begun(self, is_trained: bool) -> "Method":
        """This method as it begins with trained weights, or with random ones."""
        if not is_trained:
            return replace(self, trained=None)
        begun = self if self.trained is None else self._with(self.trained)
        own = None if self.normalised is None else self.normalised.begun()
        return replace(begun, trained=None, normalised=own)

    def _with(self, own: Suited) -> "Method":
        reduction = self.reduction
        if reduction is not None and own.evidence is not None:
            reduction = replace(reduction, evidence=own.evidence)
        return replace(self, **own.changes(), reduction=reduction)

    def pruned_to(self, sparsity: float, epochs: int) -> "Method":
        """This method with exactly that share of the reducible weights removed by the end of a run of `epochs`: the
        evidence decides which, no longer how many. Nothing is undone, since the share was asked for. It trains at
        `target_rate_factor` times its rate: where more must go than the evidence would let go, the survivors have
        further to move. For `BMR` twice the rate is a point of accuracy at 99 %, and no harm at 95 %
        (`docs/lab/history.md`). A point estimate, which has no evidence, is pruned by magnitudes."""
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
        before, last = reduction.criterion, due[-1] / epochs
        way: dict[str, Any] = {"reach": min(0.75, last)}
        if isinstance(before, Told):  # its own order, and its own way there
            way = {"score": before.score, "begin": before.begin, "power": before.power}
            way["reach"] = min(before.reach or 0.75, last)
        criterion = replace(criterion, **way)
        measuring = replace(reduction.measuring, binding=False)
        reduction = replace(reduction, criterion=criterion, least_left=None, tolerance=None, measuring=measuring)
        told = replace(self, reduction=reduction, learning_rate=_scaled(self.learning_rate, self.target_rate_factor))
        own = self.normalised
        if own is None or (own.learning_rate is None and own.target_rate_factor is None):
            return told
        factor = self.target_rate_factor if own.target_rate_factor is None else own.target_rate_factor
        rate = self.learning_rate if own.learning_rate is None else own.learning_rate
        return replace(told, normalised=own.at_rate(rate, factor))

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
        own = self.normalised.at_rate(self.normalised.learning_rate, factor)
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
        _batches, _calibration, _curvature, _estimators, _initializers, _likelihoods, _optimizers, _posteriors, _priors,
        _schedules, _costs, _criteria, _horseshoe, _measuring, _reducing, _schedule,
    )  # fmt: skip
    return known_kinds(*modules) | {"Method": Method, "Suited": Suited}


def method_from(data: dict[str, Any]) -> Method:
    """The method whose data this is: equal to the one that `as_data` was asked of."""
    method = from_data(data, kinds())
    if not isinstance(method, Method):
        raise ArgumentError(f"method: the data of a {type(method).__name__} given; it must be a Method's")
    return method
