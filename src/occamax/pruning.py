"""`prune`: a trained network, pruned in one shot and without training.

The trained weights θ and the curvature h of the data in each of them make a Laplace posterior, Normal(θ, 1/P) with
P = h + 1/prior². Weights go in the order of their signal-to-noise ratio |θ|√P, which is the root of θ²P: what the loss
rises by when one goes alone, twice over (optimal brain damage, LeCun et al. 1990; with the prior's part, SpaM's OPD);
or in that of |θ|, where held-out examples notice less of it. Which it will be is not known before what is left is
repaired.

ΔF of the same posterior, ½ [ln(P · prior²) − θ²P], is not that order. A Laplace posterior was never traded off against
its divergence: where the data hold a weight well, the logarithm says that a value of exactly zero would have been a
great surprise, for every weight of such a layer at once, and what they carry together is lost. See
`docs/howto/trained.md`.
"""

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float

from .data import Stream, reopen
from .data.held_out import HeldOut
from .errors import ArgumentError, RunError
from .evaluation.predictive import CHUNK
from .experiment.config import Config
from .experiment.devices import Devices
from .experiment.environment import environment
from .experiment.problem import Data, build_model, describe, network_name, read_data
from .experiment.program import Program, Task, of_seed, stack
from .experiment.sizes import counted, sizes_of
from .experiment.starting import Moments, Trained, examples_at, prepare_start
from .fitting import Fit
from .inference.beginning import Beginning, first_posterior
from .inference.calibration import Calibration, held_out_of
from .inference.curvature import Curvature, GaussNewton
from .inference.likelihoods import Likelihood
from .inference.model import Model
from .inference.posteriors import MeanField, PointMass
from .inference.priors import NormalPrior, Prior
from .inference.training import Budget, State, start
from .methods import Method
from .reduction.criteria import Evidence, KeepingEvidence, Magnitude, Score, SignalToNoise
from .reduction.ranking import ranks
from .reduction.reducing import Reduction, believe
from .reduction.repairing import Examples, Repair, batched, outputs_of_all, repaired
from .storage.structured import to_data
from .structure.layout import Fixed

ROUNDS = 6  # of bisection
REPAIR = Repair()
ORDERS = SignalToNoise(), Magnitude()  # tried in turn unless one is asked for
TEMPERATURES = np.exp(np.linspace(-2.0, 1.0, 25)).astype(np.float32)
WHY_NOT = (
    "order: ΔF of a Laplace posterior prunes badly. Its term ln(P · prior²) is large for every weight of a layer that "
    "the data determine well, so that much of such a layer may go at once, whatever its weights do together "
    "(docs/howto/trained.md). The held-out examples still guard it. Leave `order` as it is, or train from here: "
    "ox.fit(network, data, start=ox.Trained())."
)


def prune(  # what is pruned, by how much, in which order, and what `fit` is told of data
    network: Any,
    data: Any,
    sparsity: float | None = None,
    *,
    order: Score | Evidence | None = None,
    curvature: Curvature | Moments | None = None,
    prior: Prior | None = None,
    repair: Repair | None = REPAIR,
    tolerance: float | None = 0.05,
    held_out: tuple[Any, Any] | None = None,
    test: Stream | tuple[Any, Any] | None = None,
    weights: Path | str | None = None,
    likelihood: Likelihood | None = None,
    preprocess: Callable[[Any], Any] | None = None,
    fixed: Fixed = None,
) -> Fit:
    """Removes weights of a trained network without training it: seconds for a million weights. Gives a `Fit`, of a
    point: no draws, and the outputs divided by a temperature of the held-out examples.

    **network**, **data**, **test**, **likelihood**, **preprocess**, **fixed** as in `fit`; the network's present
    arrays are its weights, or those of **weights**, a run folder or a file. A `Fit` stands for its network, with
    its likelihood, what it fixed, how it takes its examples, and which it held out. **sparsity** removes exactly
    that share of the weights that may go, all but the output layer's; None as many as held-out examples hardly
    notice. **order** which go first, `SignalToNoise()`, `Magnitude()` …; unless one is given both are tried, and
    that is kept which held-out examples notice least. ΔF (`KeepingEvidence()`, or `Evidence()` for those that the
    evidence would rather not have) is warned of. **curvature** and **prior** of the Laplace posterior:
    `GaussNewton()` and `NormalPrior(1.0)` unless given. **repair** moves what is left to the mean of the reduced
    posterior, so that the network says again what it said (`reduction/repairing.py`); None leaves it where it was.
    **held_out** examples
    that it was not trained on; one in twenty of `data`, as `ox.Calibration` holds them out, unless given.
    **tolerance** is how much of what the network had gained over one that learnt nothing a held-out example may
    lose; a sparsity that costs more is refused. None refuses nothing. Weights that are zero already count as
    removed.

    Raises:
        ArgumentError: a value that cannot work, or a sparsity that costs more than the tolerance.

    Examples:
        >>> trained = fitted.network
        >>> smaller = ox.prune(trained, (x, y), sparsity=0.5, repair=None, tolerance=None)
        >>> round(smaller.sparsity, 1)
        0.5
    """
    began = time.perf_counter()
    calibration = Calibration()
    if isinstance(network, Fit):
        calibration = network.method.calibration or calibration
        likelihood = network.model.likelihood if likelihood is None else likelihood
        preprocess = network.facts.preprocess if preprocess is None else preprocess
        fixed = network.model.layout.fixed if fixed is None else fixed
        network = network.network
    jobs = [_Job(sparsity, one, tolerance) for one in (ORDERS if order is None else (order,))]
    own = Method(
        "one-shot", NormalPrior(1.0) if prior is None else prior, PointMass(), kl_weight=0.0, calibration=calibration
    )
    found = read_data(data, test, preprocess, getattr(network, "image_size", None))
    model = build_model(network, found, own, likelihood, fixed, "float32", Devices())
    apart = held_out_of(own.calibration if held_out is None else None, len(found))
    how = Trained(weights, GaussNewton() if curvature is None else curvature, 1.0, keep_zeros=True)
    begin = prepare_start(how, network, model, found, apart)
    assert begin is not None
    model, own = begin.model, replace(own, prior=begin.model.prior)  # it may be made of the weights
    judged = _judged(held_out, found, model, apart)
    beginning = begin.beginning()
    asking = _Asking(model, beginning, judged, repair, None if repair is None else _repaired_on(repair, found, apart))
    job, beginning, told = _best(jobs, model, beginning, own, asking)
    parts = describe(model, own, found, network, None, begin)
    parts["settings"]["prune"] = {
        "sparsity": sparsity,
        "order": to_data(job.order),
        "tolerance": tolerance,
        "repair": to_data(repair),
    }
    config = Config(found.facts.name, network_name(network, model), own.name, 1, 1, 1, 0, 1, **parts)
    task = Task(model, own, Budget(1, 1, 1), apart)
    state, temperature = _calibrated(Program(task), _state(task, beginning), judged)
    fitted = Fit(model, own, state, config, found.facts, test=found.test)
    told |= {"temperature": temperature, "seconds": time.perf_counter() - began}
    return _told(fitted, told)


def prune_run(trained: Fit, data_dir: Path | None = None, sparsity: float | None = None, **options: Any) -> Fit:
    """`prune` for the network of a run, on the data that it was trained on."""
    origin = trained.facts.origin
    if not origin or origin.get("kind") in ("arrays", "stream"):
        raise RunError("data: this run was trained on arrays, which are not kept; call ox.prune(fit.network, data)")
    found = prune(trained, reopen(origin, data_dir), sparsity, **options)
    # it is still what it was made of: an evaluation or export can build it again
    own = {**found.config.origin, "network": trained.config.origin["network"]}
    return replace(found, config=replace(found.config, network=trained.config.network, origin=own))


def _judged(given: Any, data: Data, model: Model, apart: HeldOut) -> tuple[Array, Array]:
    """The examples that say what a pruned network costs."""
    if given is not None:
        pair = read_data(given).train
        assert isinstance(pair, tuple)
        model.check_data(*pair)
        return jnp.asarray(pair[0]), jnp.asarray(pair[1])
    if not apart.count:
        raise ArgumentError(
            f"held_out: {apart.examples} examples are too few to hold any out, or none should be; pass some that the "
            "network was not trained on: held_out=(inputs, targets)"
        )
    inputs, targets = examples_at(data, apart.places)
    return jnp.asarray(inputs), jnp.asarray(targets)


def _repaired_on(repair: Repair, data: Data, apart: HeldOut) -> Examples:
    """Training examples, none of those held out."""
    numbers = np.random.default_rng(0).permutation(apart.trained)[: repair.examples]
    inputs, targets = examples_at(data, apart.places_trained(numbers))
    size = min(repair.batch_size, len(numbers))
    return batched(jnp.asarray(inputs), jnp.asarray(targets), size, apart.trained)


@eqx.filter_jit
def _cost(
    model: Model, weights: Array, buffers: Any, log_scales: Array, judged: tuple[Array, Array]
) -> Float[Array, ""]:
    """Nats that an example costs, at the temperature that is best where there is one."""
    inputs, targets = judged
    network = model.layout.bind(model.network, weights)
    ask = lambda x: model.outputs(network, x[None], buffers)[0]  # noqa: E731
    outputs = jax.lax.map(ask, inputs, batch_size=min(CHUNK, len(inputs)))
    at = lambda one: -jnp.mean(model.likelihood.log_prob(outputs / one, targets, log_scales))  # noqa: E731
    temperatures = jnp.asarray(TEMPERATURES if model.likelihood.takes_logits else TEMPERATURES[:1] ** 0)
    return jnp.min(jax.lax.map(at, temperatures))


@dataclass(frozen=True)
class _Asking:
    """What a network costs a held-out example when weights are gone, and what is left of it then."""

    model: Model
    beginning: Beginning
    judged: tuple[Array, Array]
    repair: Repair | None
    examples: Examples | None

    def cost(self, weights: Float[Array, "weights"]) -> float:
        own = self.beginning
        return float(_cost(self.model, weights, own.buffers, own.log_scales, self.judged))

    def without(self, keep: Bool[Array, "weights"]) -> tuple[float, Float[Array, "weights"]]:
        """The cost with these weights only, and the weights, repaired if asked for."""
        model, own = self.model, self.beginning
        weights = jnp.where(keep, own.weights, model.prior.centers(model.layout))
        if self.repair is not None and self.examples is not None and not bool(keep.all()):
            wanted = outputs_of_all(model, own.weights, own.buffers, self.examples)
            prior = model.prior.weight_stds(model.layout, model.prior.fitted_scales(model.layout, own.weights)) ** -2
            for _ in range(self.repair.rounds):
                weights = repaired(
                    model, weights, keep, own.buffers, wanted, own.log_scales, self.examples, prior, self.repair.steps
                )
        return self.cost(weights), weights


@dataclass(frozen=True)
class _Job:
    """How much goes, in which order, and what it may cost."""

    sparsity: float | None
    order: Score | Evidence
    tolerance: float | None

    def __post_init__(self):
        if self.sparsity is not None and not 0.0 <= self.sparsity < 1.0:
            raise ArgumentError(f"sparsity: {self.sparsity!r} given; it must lie from 0 up to, not including, 1")
        if self.tolerance is not None and not self.tolerance > 0:
            raise ArgumentError(f"tolerance: {self.tolerance!r} given; it must be positive, or None")
        if self.tolerance is None and self.sparsity is None:
            raise ArgumentError("tolerance: without one nothing says how much may go; give a sparsity")
        if not isinstance(self.order, Score | Evidence):
            raise ArgumentError(
                f"order: {self.order!r} given; it must be an object such as ox.criteria.SignalToNoise()"
            )
        if isinstance(self.order, Evidence) and self.sparsity is not None:
            raise ArgumentError("order: Evidence() says itself how much goes; leave `sparsity` out, or give a score")
        if isinstance(self.order, Evidence | KeepingEvidence):
            warnings.warn(WHY_NOT, stacklevel=3)

    def weights(
        self, model: Model, beginning: Beginning, method: Method, asking: "_Asking"
    ) -> tuple[Beginning, dict, float]:
        """What stays, where it is then, what is told of it, and what it costs when all goes that was asked for."""
        place, most = self._places(model, beginning)
        count = counted(model.layout, method)
        asked = most if self.sparsity is None else round(self.sparsity * count)
        without = lambda k: asking.without(jnp.asarray(place >= k))  # noqa: E731
        dense, baseline = asking.cost(beginning.weights), model.likelihood.baseline(np.asarray(asking.judged[1]))
        limit = math.inf if self.tolerance is None else dense + self.tolerance * max(baseline - dense, 0.0)
        gone, (now, weights) = asked, without(asked)
        worst = now
        if not now <= limit:
            gone, now, weights = _largest(without, asked, (dense, beginning.weights), limit)
        told = {"held_out_nll_dense": dense, "held_out_nll": now, "removed": gone, "proposed": asked}
        return beginning._replace(weights=weights, keep=jnp.asarray(place >= gone)), told, worst

    def _places(self, model: Model, beginning: Beginning) -> tuple[np.ndarray, int]:
        """The place of each weight in the order in which they go, those already gone first, those that may not go last;
        and how many may."""
        posterior = first_posterior(model, MeanField(), beginning)
        state = start(model, posterior, optax.identity(), jax.random.key(0))._replace(mask=beginning.keep)
        beliefs = believe(model, state, Reduction(), 0.0)
        score = KeepingEvidence() if isinstance(self.order, Evidence) else self.order
        values = jnp.where(beginning.keep, score(beliefs), -jnp.inf)
        place = np.asarray(ranks(jnp.where(beliefs.reducible, values, jnp.inf)))
        may_go = np.asarray(beliefs.reducible)
        if isinstance(self.order, Evidence):
            may_go = may_go & np.asarray((beliefs.delta_f > self.order.threshold) | ~beginning.keep)
        return place, int(may_go.sum())

    def refuse_less(self, told: dict, worst: float, count: int) -> None:
        """Refuses a sparsity of which not all may go."""
        if self.sparsity is None or told["removed"] == told["proposed"]:
            return
        dense, largest = told["held_out_nll_dense"], told["removed"] / count
        raise RunError(
            f"sparsity: {self.sparsity} without training costs a held-out example {worst - dense:.3f} nats more than "
            f"the {dense:.3f} of the network as it is: more than {self.tolerance:g} of what it had gained, the "
            "tolerance. "
            f"{largest:.2f} would pass. Ask for less, train it from here (ox.fit(network, data, start=ox.Trained(), "
            f"sparsity={self.sparsity})), or set tolerance=None (--tolerance 0) to have it anyway."
        )


def _best(
    jobs: list[_Job], model: Model, beginning: Beginning, method: Method, asking: _Asking
) -> tuple[_Job, Beginning, dict]:
    """The job whose order held-out examples notice least: the one by which most goes, then that which costs them least;
    with what `_Job.weights` gives."""
    found = [(job, *job.weights(model, beginning, method, asking)) for job in jobs]
    job, beginning, told, worst = min(found, key=lambda one: (-one[2]["removed"], one[2]["held_out_nll"]))
    job.refuse_less(told, worst, counted(model.layout, method))
    return job, beginning, told


def _state(task: Task, beginning: Beginning) -> State:
    """The state of a run that is over: a point, pruned."""
    method = task.method
    posterior = first_posterior(task.model, method.posterior, beginning)
    optimizer = method.optimizer(method.learning_rate, task.budget.total_steps)
    state = start(task.model, posterior, optimizer, jax.random.key(0))
    return state._replace(mask=beginning.keep, buffers=beginning.buffers)


def _calibrated(program: Program, state: State, judged: tuple[Array, Array]) -> tuple[State, float]:
    """The state whose outputs are divided by the best temperature on the examples held out, and that."""
    after, found = program.calibrate(stack([state]), *judged)
    return of_seed(after, 0), found[0]["temperature"]


def _told(fitted: Fit, told: dict[str, Any]) -> Fit:
    """The fit that knows its figures, on the test set too where there is one."""
    figures = {} if fitted.test is None else fitted.evaluate()
    line = {"epoch": 0, **told, **figures, "sparsity": fitted.sparsity}
    sizes = sizes_of(fitted.model.layout, fitted.method, np.asarray(fitted.state.mask))
    return replace(fitted, history=[line], summary={**line, "sizes": sizes, **environment()})


def _largest(
    without: Callable[[int], tuple[float, Array]], asked: int, dense: tuple[float, Array], limit: float
) -> tuple[int, float, Array]:
    """How many may go at most, by bisection, what that costs, and the weights then."""
    low, high, found = 0, asked, dense
    for _ in range(ROUNDS):
        middle = (low + high) // 2
        now = without(middle)
        low, high, found = (middle, high, now) if now[0] <= limit else (low, middle, found)
    return low, *found
