"""Every prior, posterior, criterion, optimiser and estimator, and which of them go together, on one tiny network."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from occamax.inference.estimators import Flipout, LocalReparameterisation, SharedDraw
from occamax.inference.optimizers import AdaBelief, AdamW, Momentum, NaturalGradient, Optax
from occamax.inference.posteriors import MeanField, PointMass
from occamax.inference.priors import FanInPrior, FlatPrior, HorseshoePrior, NormalPrior
from occamax.inference.training import Stepper, start
from occamax.methods import Method
from occamax.reduction import (
    Chance,
    Evidence,
    HorseshoeCriterion,
    KeepingEvidence,
    Magnitude,
    Pattern,
    Reduction,
    SignalToNoise,
    SpikeAndSlab,
    TargetSparsity,
    reduce,
)

from ..toys import normal, tiny_data, tiny_model

PRIORS = (FlatPrior(base_std=0.5), FanInPrior(), HorseshoePrior(global_scale=0.5), NormalPrior(0.5))
POSTERIORS = (MeanField(0.3), PointMass())
OPTIMIZERS = (AdaBelief(), NaturalGradient(log_std_rate=0.05), Optax(optax.adam(1e-2)), AdamW(), Momentum())
OURS = 3  # of them that are more than a transformation of optax by another name
ESTIMATORS = (SharedDraw(), Flipout(), LocalReparameterisation())
CRITERIA = (
    SpikeAndSlab(),
    Evidence(-1.0),
    HorseshoeCriterion(steps=3, draws=2),
    TargetSparsity(0.4, KeepingEvidence()),
    TargetSparsity(0.4, SignalToNoise(), per_layer=True),
    TargetSparsity(0.4, Magnitude()),
    TargetSparsity(0.4, Chance()),
    Pattern(1, 2, SignalToNoise()),
    Pattern(1, 2, Magnitude()),
)
BATCH = tuple(map(jnp.asarray, tiny_data()))
SIZE = 32


def name(part):
    """A part's class, and its score's if it has one."""
    score = getattr(part, "score", None)
    return type(part).__name__ if score is None else f"{type(part).__name__}-{type(score).__name__}"


def refused_part(posterior, optimizer, estimator, criterion=None):
    """The field by which a combination is refused; None for one that is allowed. Written out here once more: a point
    has no deviations for an estimator to spread, for natural gradients or for evidence."""
    if posterior.has_deviations:
        return None
    if not isinstance(estimator, SharedDraw):
        return "estimator"
    if isinstance(optimizer, NaturalGradient):
        return "optimizer"
    points = (Magnitude, Chance)
    told = isinstance(criterion, TargetSparsity | Pattern)
    is_fine = criterion is None or (told and isinstance(criterion.score, points))
    return None if is_fine else "reduction"


def make(prior, posterior, optimizer, estimator, criterion=None):
    reduction = None if criterion is None else Reduction(criterion)
    return Method(
        prior=prior,
        posterior=posterior,
        optimizer=optimizer,
        estimator=estimator,
        reduction=reduction,
        learning_rate=0.05,
    )


def squares():
    """Combinations that make a step of their own: every two parts meet in one, as in a Latin square; and every prior
    and optimiser meets a point."""
    for i, prior in enumerate(PRIORS):
        for j, optimizer in enumerate(OPTIMIZERS[:OURS]):
            yield make(prior, POSTERIORS[0], optimizer, ESTIMATORS[(i + j) % 3])
        yield make(prior, POSTERIORS[1], OPTIMIZERS[2 * (i % 2)], ESTIMATORS[0])
    for optimizer in OPTIMIZERS[OURS:]:
        yield make(PRIORS[-1], POSTERIORS[1], optimizer, ESTIMATORS[0])


def pairs():
    """These, and optax's transformations by another name with a distribution too."""
    yield from squares()
    for optimizer in OPTIMIZERS[OURS:]:
        yield make(PRIORS[-1], POSTERIORS[0], optimizer, ESTIMATORS[0])


def decisions():
    """Combinations of what a reduction sees and changes: every criterion with every prior and with every optimiser,
    and with a point where it may."""
    for (i, prior), (j, criterion) in itertools.product(enumerate(PRIORS), enumerate(CRITERIA)):
        yield make(prior, POSTERIORS[0], OPTIMIZERS[(i + j) % 3], ESTIMATORS[0], criterion)
        if refused_part(POSTERIORS[1], OPTIMIZERS[0], ESTIMATORS[0], criterion) is None:
            yield make(prior, POSTERIORS[1], OPTIMIZERS[2 * (i % 2)], ESTIMATORS[0], criterion)


def title(method):
    parts = [method.prior, method.posterior, method.optimizer, method.estimator]
    return "-".join(map(name, parts if method.reduction is None else [*parts[:3], method.reduction.criterion]))


@functools.cache
def model_of(prior):
    return tiny_model(prior)


@functools.cache
def transformation_of(optimizer):
    """The optimiser's gradient transformation for a run of twenty steps."""
    return optimizer(make(PRIORS[0], POSTERIORS[0], optimizer, ESTIMATORS[0]).learning_rate, 20)


def first_state(method, seed=0):
    model = model_of(method.prior)
    posterior = method.posterior.start(0.7 * normal(model.latent_count, seed=seed))
    return start(model, posterior, transformation_of(method.optimizer), jax.random.key(seed))


def used_state(method, seed=0):
    """A state in the middle of training: posterior and the optimiser's moments are some numbers."""
    state = first_state(method, seed)
    count = model_of(method.prior).latent_count

    def some(leaf, seed):
        return 0.1 + 0.1 * abs(normal(count, seed=seed)) if leaf.shape == (count,) else leaf

    leaves, tree = jax.tree.flatten(state.optimizer)
    optimizer = jax.tree.unflatten(tree, [some(leaf, 10 + i) for i, leaf in enumerate(leaves)])
    posterior = state.posterior
    if method.posterior.has_deviations:
        posterior = type(posterior)(posterior.mean, posterior.log_std + 0.3 * normal(count, seed=seed + 5))
    return state._replace(optimizer=optimizer, posterior=posterior)


def stepper(method):
    """One step as a function of the state alone."""
    one = Stepper(model_of(method.prior), transformation_of(method.optimizer), method.estimator)
    return lambda state: one(state, BATCH, jax.random.fold_in(state.key, state.step), SIZE)


@functools.cache
def compiled_step(method):
    """One step of two seeds, compiled once for all tests."""
    return jax.jit(jax.vmap(stepper(method)))


def both(one, two):
    """Two states as one."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), one, two)


def of_seed(tree, seed):
    return jax.tree.map(lambda leaf: leaf[seed], tree)


@functools.cache
def reducer(method):
    """A reduction as a function of the state; compiled where it is a loop."""
    model = model_of(method.prior)
    one = lambda state: reduce(model, state, method.reduction, jnp.float32(0.5))  # noqa: E731
    return jax.jit(one) if isinstance(method.reduction.criterion, HorseshoeCriterion) else one


def kinds_of(tree):
    """Shape and type, weak or not, of every leaf: two states of one kind run through one compiled program."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, [(leaf.shape, leaf.dtype, leaf.weak_type) for leaf in leaves]


def close(one, two, tolerance):
    """Whether two trees hold the same numbers."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True)
    return all(np.allclose(*map(_plain, pair), rtol=tolerance, atol=tolerance) for pair in pairs)


def _plain(leaf):
    return np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)
