"""What every step and every reduction does, whatever it is made of. One file, so that compiled steps are shared."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax.inference.posteriors import Point
from occamax.inference.priors import HorseshoePrior
from occamax.reduction import Chance, HorseshoeCriterion, Pattern, TargetSparsity
from occamax.reduction.reducing import remove

from ..tolerances import SINGLE
from .parts import (
    both,
    close,
    compiled_step,
    decisions,
    first_state,
    kinds_of,
    model_of,
    of_seed,
    pairs,
    reducer,
    squares,
    stepper,
    title,
    used_state,
)

OUTPUT = 15  # the first of the output layer's weights, which stay


@pytest.mark.parametrize("method", [*pairs()], ids=title)
def test_a_step_keeps_the_kind_of_the_state(method):
    """Shapes, types and structure: the next step runs through the same compiled program."""
    state = first_state(method)
    after, info = jax.eval_shape(stepper(method), state)
    assert kinds_of(after) == kinds_of(jax.eval_shape(lambda: state))
    assert all(leaf.shape == () for leaf in info)


@pytest.mark.parametrize("method", [*decisions()], ids=title)
def test_a_reduction_keeps_the_kind_of_the_state(method):
    state, model = first_state(method), model_of(method.prior)
    after, record = jax.eval_shape(reducer(method), state)
    assert kinds_of(after) == kinds_of(jax.eval_shape(lambda: state))
    assert [leaf.shape for leaf in record] == [(model.layout.size,)] * 2 + [(2,)] * 3 + [()] * 6


@pytest.mark.parametrize("method", [*squares()], ids=title)
def test_a_step_is_the_same_compiled_and_not_for_one_seed_and_for_several(method):
    """Two seeds at once, compiled; one of them alone, operation by operation."""
    states = [first_state(method, seed) for seed in (0, 1)]
    after, info = compiled_step(method)(both(*states))
    assert np.isfinite(np.asarray(info.neg_elbo)).all()
    alone, own = stepper(method)(states[1])
    found = of_seed((after, info), 1)
    assert close((found[0].posterior, found[1]), (alone.posterior, own), 10 * SINGLE)
    assert int(alone.step) == int(found[0].step) == 1
    assert not np.allclose(alone.posterior.point, states[1].posterior.point)
    if method.posterior.has_deviations:
        assert not np.allclose(alone.posterior.std, states[1].posterior.std)


def moments(state, count):
    """The optimiser's numbers that belong to latents."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(state.optimizer) if np.shape(leaf) == (count,)]


@pytest.mark.parametrize("method", [*decisions()], ids=title)
def test_what_goes_is_forgotten_and_stays_gone(method):
    model, state = model_of(method.prior), used_state(method)
    after, record = reducer(method)(state)
    gone, size = np.asarray(~after.mask), model.layout.size
    assert np.array_equal(record.mask, after.mask)
    assert after.mask[OUTPUT:].all()
    assert int(record.removed.sum()) == gone.sum() == size - int(record.remaining.sum())
    if isinstance(method.reduction.criterion, TargetSparsity):
        assert gone.sum() == 6
    posterior, kept = after.posterior, np.concatenate([~gone, np.ones(model.latent_count - size, bool)])
    assert not np.asarray(posterior.point)[~kept].any()
    assert np.array_equal(np.asarray(posterior.point)[kept], np.asarray(state.posterior.point)[kept])
    assert (np.asarray(posterior.std)[~kept] == (0.0 if isinstance(posterior, Point) else 1.0)).all()
    for own in moments(after, model.latent_count):
        assert not own[~kept].any()
    again, record = reducer(method)(after)
    assert not np.asarray(again.mask)[gone].any()
    if isinstance(method.reduction.criterion, TargetSparsity):
        assert np.array_equal(again.mask, after.mask)  # the share was met


@pytest.mark.parametrize("method", [*squares()], ids=title)
def test_what_is_gone_costs_nothing_and_does_not_move(method):
    """A third of the weights taken by hand: the divergence does not see them, at their prior they cost nothing at all,
    and a step leaves them there."""
    model, state = model_of(method.prior), used_state(method)
    size = model.layout.size
    gone = np.arange(size) % 3 == 0
    after = remove(state, jnp.asarray(gone))
    divergence = lambda posterior, mask: float(posterior.divergence(model.latent_prior, mask))  # noqa: E731
    assert divergence(state.posterior, after.mask) == pytest.approx(divergence(after.posterior, after.mask), rel=1e-5)
    if not isinstance(after.posterior, Point):
        assert divergence(after.posterior, state.mask) == pytest.approx(
            divergence(after.posterior, after.mask), rel=1e-6
        )
    later = of_seed(compiled_step(method)(both(state, after))[0], 1)
    for now, then in ((later.posterior.point, after.posterior.point), (later.posterior.std, after.posterior.std)):
        now, then = np.asarray(now)[:size], np.asarray(then)[:size]
        assert np.array_equal(now[gone], then[gone])
    assert not np.allclose(
        np.asarray(later.posterior.point)[:size][~gone], np.asarray(after.posterior.point)[:size][~gone]
    )
    assert np.array_equal(later.mask, after.mask)


def by_place(criterion):
    """Chance goes by a weight's place, a pattern by its neighbours."""
    return isinstance(criterion, Pattern) or isinstance(getattr(criterion, "score", None), Chance)


PERMUTED = [m for m in decisions() if not by_place(m.reduction.criterion)]


@pytest.mark.parametrize("method", PERMUTED, ids=title)
def test_permuting_a_layer_permutes_its_mask(method):
    """The first layer's inputs in another order, and its outputs, unless rows have scales of their own."""
    by_row = isinstance(method.reduction.criterion, HorseshoeCriterion) or isinstance(method.prior, HorseshoePrior)
    rows = [0, 1, 2] if by_row else [2, 0, 1]
    order = np.arange(12).reshape(3, 4)[np.ix_(rows, [2, 0, 3, 1])].ravel()
    state = used_state(method)
    moved = jax.tree.map(lambda leaf: jnp.concatenate([leaf[order], leaf[12:]]), state.posterior)
    straight = np.asarray(reducer(method)(state)[0].mask)
    permuted = np.asarray(reducer(method)(state._replace(posterior=moved))[0].mask)
    assert np.array_equal(straight[order], permuted[:12])
    assert np.array_equal(straight[12:], permuted[12:])
