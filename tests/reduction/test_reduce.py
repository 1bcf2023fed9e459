"""One reduction: what goes is forgotten at once and for ever, and no more goes than may."""

import functools
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import occamax as ox
from occamax.data.held_out import HeldOut
from occamax.errors import ArgumentError
from occamax.inference.likelihoods import Gaussian
from occamax.inference.model import Model
from occamax.inference.optimizers import AdaBelief
from occamax.inference.posteriors import IndependentNormals, Point
from occamax.inference.priors import FlatPrior
from occamax.inference.schedules import Constant, Cosine, Ramp
from occamax.inference.training import Stepper, start
from occamax.methods import MAP, PaperBMR
from occamax.reduction import (
    Beliefs,
    Chance,
    Every,
    Evidence,
    Magnitude,
    Reduction,
    SpikeAndSlab,
    TargetSparsity,
    reduce,
)
from occamax.reduction.proposing import idle
from occamax.structure.units import Part, Units

from ..toys import filled, like, normal, tiny_data, tiny_model


@functools.cache
def prepared():
    """A tiny model after a few steps, so that the optimiser's moments are not zero."""
    model, optimizer = tiny_model(), AdaBelief()(Constant(1e-2), 10)
    posterior = IndependentNormals.around(0.5 * normal(model.latent_count), 0.3)
    epoch = jax.jit(Stepper(model, optimizer).epoch(5, 16, HeldOut(32)))
    data = tuple(map(jnp.asarray, tiny_data()))
    state, _ = epoch(start(model, posterior, optimizer, jax.random.key(0)), data)
    return model, optimizer, lambda state: epoch(state, data)[0], state


@functools.cache
def compiled(reduction, units=()):
    model, *_ = prepared()
    return jax.jit(lambda state, progress: reduce(model, state, reduction, progress, units))


def reduced(reduction, state=None, progress=0.0, units=()):
    return compiled(reduction, units)(prepared()[-1] if state is None else state, progress)


SOME = Reduction(Evidence(-1.0))
ALL = Reduction(Evidence(-1e9))


def test_removed_weights_are_forgotten_at_once():
    """Traps 1 and 4: posterior at the prior, moments at zero; what stays is untouched."""
    model, _, _, state = prepared()
    after, record = reduced(SOME)
    gone, weights = np.asarray(~after.mask), model.layout.size
    assert 0 < gone.sum() < gone.size
    assert np.allclose(np.asarray(after.posterior.mean)[:weights][gone], 0.0)
    assert np.allclose(np.asarray(after.posterior.std)[:weights][gone], 1.0, atol=1e-6)
    assert np.array_equal(
        np.asarray(after.posterior.mean)[:weights][~gone], np.asarray(state.posterior.mean)[:weights][~gone]
    )
    for before, now in zip(jax.tree.leaves(state.optimizer), jax.tree.leaves(after.optimizer), strict=True):
        if np.shape(now) == (model.latent_count,):
            assert not np.asarray(now)[:weights][gone].any()
            assert np.asarray(before)[:weights][gone].any()
            assert np.array_equal(np.asarray(now)[:weights][~gone], np.asarray(before)[:weights][~gone])
    assert int(record.removed.sum()) == gone.sum()
    assert record.remaining.tolist() == [
        int(part.sum()) for part in np.split(~gone, np.cumsum(model.layout.sizes)[:-1])
    ]


def test_removed_weights_stay_at_the_prior_while_the_rest_trains():
    _, _, epoch, _ = prepared()
    before, _ = reduced(SOME)
    later = epoch(before)
    gone = np.asarray(~before.mask)
    for now, then in (
        (later.posterior.mean, before.posterior.mean),
        (later.posterior.log_std, before.posterior.log_std),
    ):
        assert np.array_equal(np.asarray(now)[: gone.size][gone], np.asarray(then)[: gone.size][gone])
        assert not np.array_equal(np.asarray(now)[: gone.size][~gone], np.asarray(then)[: gone.size][~gone])
    again, record = reduced(SOME, later)
    assert np.abs(np.asarray(record.delta_f)[gone]).max() < 1e-6
    assert not np.asarray(again.mask)[gone].any()  # what is pruned stays pruned


def test_the_mask_takes_part_in_every_prediction():
    """Trap 2: whatever a removed weight's latent is, the outputs do not see it."""
    model, *_ = prepared()
    mask = np.arange(model.layout.size) % 3 != 0
    latents = np.asarray(normal(model.latent_count))
    disturbed = latents.copy()
    disturbed[: model.layout.size] += np.where(mask, 0.0, 100.0)
    x = jnp.asarray(tiny_data()[0])

    @jax.jit
    def outputs(latents):
        network = model.bind(latents, jnp.asarray(mask))
        return model.outputs(network, x), model.layout.pack(network)

    (one, weights), (two, _) = outputs(jnp.asarray(latents)), outputs(jnp.asarray(disturbed))
    assert np.array_equal(one, two)
    assert np.array_equal(np.asarray(weights) != 0, mask)


def test_a_removed_gain_takes_its_centre():
    network = eqx.nn.Sequential([eqx.nn.LayerNorm(4), filled(eqx.nn.Linear, 4, 2)])
    model = Model(network, like(4), FlatPrior(gain_center=1.0))
    bound = model.bind(normal(model.latent_count), jnp.zeros(model.layout.size, bool))
    assert np.array_equal(bound[0].weight, np.ones(4))
    assert not np.asarray(bound[0].bias).any()


@settings(max_examples=10)
@given(st.floats(0.0, 1.0))
def test_no_more_goes_than_may(progress):
    """So far into the run so many of the hidden weights must be left; the criterion would take all."""
    model, *_ = prepared()
    after, record = reduced(replace(ALL, least_left=Ramp(1.0, 0.0, 0.2, 0.7)), progress=progress)
    hidden = slice(0, model.layout.bounds[-1][0])
    kept, gained = np.asarray(after.mask)[hidden], np.asarray(record.delta_f)[hidden]
    least = float(Ramp(1.0, 0.0, 0.2, 0.7)(progress)) * kept.size
    assert kept.sum() in (np.ceil(least - 1e-4), np.ceil(least + 1e-4))
    assert gained[~kept].min(initial=np.inf) >= gained[kept].max(initial=-np.inf)  # the data prefer those that went
    assert np.asarray(after.mask)[hidden.stop :].all()


def test_the_output_layer_is_spared_unless_asked():
    output = prepared()[0].layout.bounds[-1][0]
    spared, _ = reduced(ALL)
    assert np.asarray(spared.mask)[output:].all()
    assert not np.asarray(spared.mask)[:output].any()
    taken, _ = reduced(replace(ALL, keep_output=False))
    assert not np.asarray(taken.mask).any()


def test_reduction_is_the_same_compiled_and_not():
    model, _, _, state = prepared()
    eager, record = reduce(model, state, Reduction())
    compiled_state, compiled_record = reduced(Reduction())
    assert np.array_equal(eager.mask, compiled_state.mask)
    assert np.allclose(record.delta_f, compiled_record.delta_f, rtol=1e-5)


@settings(max_examples=10)
@given(st.floats(0.0, 1.0), st.floats(0.01, 1.0))
def test_evidence_goes_back_on_the_temper(share, beta):
    """A posterior trained at a KL weight β: as it is (0), with every datum counted once (1), and between the two by
    equal factors. The formula again, in double precision."""
    model, _, _, state = prepared()
    state = state._replace(kl_weight=jnp.float32(beta))
    _, record = reduced(Reduction(evidence=Ramp(0.0, 1.0)), state, share)
    mean, std = (np.asarray(v, np.float64)[: model.layout.size] for v in (state.posterior.mean, state.posterior.std))
    weight = beta**share
    precision = 1 + weight * (std**-2 - 1)
    expected = 0.5 * np.log(precision) - 0.5 * (weight * mean / std**2) ** 2 / precision
    assert np.allclose(record.delta_f, expected, rtol=1e-4, atol=1e-4)


def test_chance_is_another_at_every_reduction():
    state, chance = prepared()[-1], Reduction(TargetSparsity(0.5, Chance()))
    one, again, other = (reduced(chance, each)[0].mask for each in (state, state, state._replace(step=state.step + 6)))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def point_state(value):
    model, optimizer, *_ = prepared()
    return start(model, Point(value), optimizer, jax.random.key(0))


@pytest.mark.parametrize("reduction", [Reduction(), Reduction(TargetSparsity(0.5)), Reduction(unit_price=0.0)])
def test_a_point_estimate_has_no_evidence(reduction):
    """Refused when the method is made; and if one goes by hand, when it reduces."""
    model, *_ = prepared()
    with pytest.raises(ArgumentError, match=r"reduction: .*mean-field"):
        MAP(reduction=reduction)
    with pytest.raises(ArgumentError, match="mean-field"):
        reduce(model, point_state(jnp.zeros(model.latent_count)), reduction)


def test_a_point_estimate_is_pruned_by_magnitude():
    model, *_ = prepared()
    value = normal(model.latent_count)
    state = point_state(value)
    after, _ = reduced(Reduction(TargetSparsity(0.6, Magnitude())), state)
    hidden = slice(0, model.layout.bounds[-1][0])
    sizes, kept = np.abs(model.weights(value, state.mask))[hidden], np.asarray(after.mask)[hidden]
    assert (~kept).sum() == round(0.6 * kept.size)
    assert sizes[kept].min() > sizes[~kept].max()


HIDDEN = Units("first", 3, (Part(0, 1, 4), Part(12, 1, 1), Part(15, 2, 1)))  # rows, biases, columns of the next layer


def believed(delta_f, mask, reducible):
    nothing = jnp.zeros_like(delta_f)
    return Beliefs(delta_f, nothing, nothing, nothing, mask, reducible, jnp.float32(0.5), jax.random.key(0))


@settings(max_examples=15)
@given(st.integers(0, 1000), st.floats(0.0, 3.0), st.sampled_from([None, 0.0, 0.5, 1.0]))
def test_units_go_that_earn_less_than_their_price(seed, price, limit):
    """By hand: a unit's own row, bias and column of the next layer; the worst first, one always stays."""
    rng = np.random.default_rng(seed)
    delta_f, mask = rng.normal(size=23).astype(np.float32), rng.random(23) < 0.8
    found = idle(HIDDEN, believed(jnp.asarray(delta_f), jnp.asarray(mask), jnp.ones(23, bool)), price, limit)
    own = [[*range(4 * i, 4 * i + 4), 12 + i, 15 + i, 18 + i] for i in range(3)]
    gain = np.array([delta_f[places][mask[places]].sum() + 7 * price for places in own])
    alive = np.array([mask[places].any() for places in own])
    chosen = alive & (gain > 0)
    most = max(alive.sum() - 1, 0) if limit is None else min(max(alive.sum() - 1, 0), np.ceil(limit * alive.sum()))
    order = [i for i in np.argsort(-gain) if chosen[i]][: int(most)]
    assert sorted(np.flatnonzero(found)) == sorted(order)


def test_a_unit_is_priced_by_all_the_weights_it_once_had():
    """One of its seven lives and earns two nats: at half a nat each it goes, since seven are saved; not at a fifth."""
    mask = (np.arange(23) >= 4) & ~np.isin(np.arange(23), [12, 15])  # of the first unit its second column alone
    delta_f = jnp.asarray(np.where(np.arange(23) == 18, -2.0, -100.0), jnp.float32)
    for price, goes in ((0.5, True), (0.2, False)):
        found = idle(HIDDEN, believed(delta_f, jnp.asarray(mask), jnp.ones(23, bool)), price)
        assert found.tolist() == [goes, False, False]


def test_a_unit_goes_with_all_its_weights():
    """The price is far beyond what any unit earns: all but one go, and the output layer's weights stay."""
    after, _ = reduced(Reduction(Evidence(float("inf")), unit_price=1e6), units=(HIDDEN,))
    mask = np.asarray(after.mask)
    rows = mask[:12].reshape(3, 4)
    assert sorted(rows.all(1)) == [False, False, True]
    assert np.array_equal(rows.any(1), rows.all(1))
    assert np.array_equal(mask[12:15], rows.all(1))
    assert mask[15:].all()  # it may not be reduced


@pytest.mark.parametrize("gone", range(3))
def test_a_unit_of_which_only_output_weights_are_left_is_gone(gone):
    """It is not removed again, is not paid for again, and is not the one that stays."""
    place = np.arange(23)
    reducible = jnp.asarray(place < 15)
    own = np.isin(place, [*range(4 * gone, 4 * gone + 4), 12 + gone])
    found = idle(HIDDEN, believed(jnp.arange(23.0), jnp.asarray(~own), reducible), 1e6)
    assert not found[gone]
    assert found.sum() == 1


BAD = [
    ("criterion", 0.5),
    ("criterion", Evidence),
    ("schedule", Cosine(1.0)),
    ("unit_price", -1.0),
    ("tolerance", 0.0),
    ("evidence", 1.0),
    ("evidence", optax.constant_schedule(1.0)),
    ("least_left", optax.linear_schedule(1.0, 0.0, 10)),
]


@pytest.mark.parametrize(("name", "wrong"), BAD)
def test_bad_options_are_refused_by_name(unchecked, name, wrong):
    with pytest.raises(ArgumentError, match=f"{name}: "):
        Reduction(**{"criterion": SpikeAndSlab(), name: wrong})


def test_planted_dead_inputs_are_lost_and_no_others():
    """Half of the inputs say nothing about the target. Exactly their weights go."""

    class Line(eqx.Module):
        layer: eqx.nn.Linear

        def __call__(self, x):
            return self.layer(x)

    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 20)).astype(np.float32)
    w = np.where(np.arange(20) < 10, np.sign(rng.normal(size=20)) * (0.5 + rng.random(20)), 0.0)
    y = (x @ w + 0.7 + 0.3 * rng.normal(size=1000)).astype(np.float32)
    method = PaperBMR(
        prior=FlatPrior(base_std=1.0),
        learning_rate=Cosine(2e-2),
        reduction=Reduction(schedule=Every(first=4), keep_output=False),
    )
    data, likelihood = (x, y), Gaussian()
    fitted = ox.fit(
        Line(filled(eqx.nn.Linear, 20, 1)), data, method, likelihood=likelihood, epochs=8, steps_per_epoch=200,
        batch_size=256,
    )  # fmt: skip
    (mask,) = fitted.masks.values()
    assert mask[0].tolist() == [True] * 10 + [False] * 10 + [True]  # the bias is the last column
    assert np.allclose(fitted.network.layer.weight[0], w, atol=0.05)
