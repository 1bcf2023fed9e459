import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax.errors import ArgumentError
from occamax.experiment import fit
from occamax.inference.likelihoods import Gaussian
from occamax.inference.model import Model
from occamax.inference.optimizers import AdaBelief
from occamax.inference.posteriors import IndependentNormals, Point
from occamax.inference.priors import FlatPrior
from occamax.inference.schedules import Constant, Cosine, Ramp
from occamax.inference.training import Budget, make_epoch, start
from occamax.methods import PaperBMR
from occamax.reduction import Every, Evidence, Magnitude, Reduction, TargetSparsity, reduce

from ..toys import Tiny, tiny_data


def prepared(key, steps=5):
    """A tiny model after a few steps, so that the optimiser's moments are not zero."""
    model = Model(Tiny(), FlatPrior())
    budget = Budget(2, steps, 16)
    optimizer = AdaBelief()(Constant(1e-2), budget.total_steps)
    posterior = IndependentNormals.around(0.5 * jax.random.normal(key, (model.latent_count,)), 0.3)
    epoch = jax.jit(make_epoch(model, optimizer, budget, Constant(1.0)))
    data = tuple(map(jnp.asarray, tiny_data()))
    state, _ = epoch(start(posterior, model.layout.size, optimizer, key), data)
    return model, optimizer, epoch, data, state


def test_removed_weights_are_forgotten_at_once(key):
    """Traps 1 and 4: posterior at the prior, moments at zero; what stays is untouched."""
    model, optimizer, _, _, state = prepared(key)
    after, record = reduce(model, state, Reduction(Evidence(-1.0)), optimizer)
    gone = np.asarray(~after.mask)
    assert 0 < gone.sum() < gone.size
    weights = model.layout.size
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
    assert record.remaining.tolist() == model.layout.totals(after.mask.astype(jnp.int32)).tolist()


def test_removed_weights_stay_at_the_prior_while_the_rest_trains(key):
    model, optimizer, epoch, data, state = prepared(key)
    reduced, _ = reduce(model, state, Reduction(Evidence(-1.0)), optimizer)
    later, _ = epoch(reduced, data)
    gone = np.asarray(~reduced.mask)
    for now, then in (
        (later.posterior.mean, reduced.posterior.mean),
        (later.posterior.log_std, reduced.posterior.log_std),
    ):
        assert np.array_equal(np.asarray(now)[: gone.size][gone], np.asarray(then)[: gone.size][gone])
        assert not np.array_equal(np.asarray(now)[: gone.size][~gone], np.asarray(then)[: gone.size][~gone])
    again, record = reduce(model, later, Reduction(Evidence(-1.0)), optimizer)
    assert np.abs(np.asarray(record.delta_f)[gone]).max() < 1e-6
    assert not np.asarray(again.mask)[gone].any()  # what is pruned stays pruned


def test_the_mask_takes_part_in_every_prediction(key):
    """Trap 2: whatever a removed weight's latent is, the outputs do not see it."""
    model = Model(Tiny(), FlatPrior())
    mask = jnp.arange(model.layout.size) % 3 != 0
    latents = jax.random.normal(key, (model.latent_count,))
    disturbed = latents.at[: model.layout.size].add(jnp.where(mask, 0.0, 100.0))
    x, _ = tiny_data()
    one, two = (model.outputs(model.bind(v, mask), jnp.asarray(x)) for v in (latents, disturbed))
    assert jnp.array_equal(one, two)
    assert jnp.array_equal(model.layout.pack(model.bind(latents, mask)) != 0, mask)


def test_a_removed_gain_takes_its_centre(key):
    import equinox as eqx

    network = [eqx.nn.LayerNorm(4), eqx.nn.Linear(4, 2, key=key)]
    model = Model(network, FlatPrior(gain_center=1.0))
    latents = jax.random.normal(key, (model.latent_count,))
    bound = model.bind(latents, jnp.zeros(model.layout.size, bool))
    assert jnp.array_equal(bound[0].weight, jnp.ones(4))
    assert not bound[0].bias.any()


def test_no_more_goes_than_may(key):
    """At half of the run 40 % of the hidden weights must be left; the criterion would take all."""
    model, optimizer, _, _, state = prepared(key)
    reduction = Reduction(Evidence(-1e9), least_left=Ramp(1.0, 0.0, 0.2, 0.7))
    after, record = reduce(model, state, reduction, optimizer, 0.5)
    hidden = slice(0, model.layout.bounds[-1][0])
    kept, gained = np.asarray(after.mask)[hidden], np.asarray(record.delta_f)[hidden]
    assert kept.sum() == np.ceil(0.4 * kept.size)
    assert gained[~kept].min() > gained[kept].max()  # the data prefer those that went
    untouched, _ = reduce(model, state, reduction, optimizer, 0.1)
    assert untouched.mask.all()


def test_the_output_layer_is_spared_unless_asked(key):
    model, optimizer, _, _, state = prepared(key)
    output = slice(*model.layout.bounds[-1])
    spared, _ = reduce(model, state, Reduction(Evidence(-1e9)), optimizer)
    assert spared.mask[output].all()
    assert not spared.mask[: output.start].any()
    taken, _ = reduce(model, state, Reduction(Evidence(-1e9), keep_output=False), optimizer)
    assert not taken.mask.any()


def test_reduction_is_the_same_compiled_and_not(key):
    model, optimizer, _, _, state = prepared(key)
    eager, record = reduce(model, state, Reduction(), optimizer)
    compiled, record_compiled = jax.jit(lambda s: reduce(model, s, Reduction(), optimizer))(state)
    assert jnp.array_equal(eager.mask, compiled.mask)
    assert np.allclose(record.delta_f, record_compiled.delta_f, rtol=1e-5)


@pytest.mark.parametrize(("share", "weight"), [(0.0, 1.0), (0.5, 0.2), (1.0, 0.04)])
def test_evidence_goes_back_on_the_temper(key, share, weight):
    """A posterior trained at a divergence weight of .04: as it is, halfway in logarithms, and with every datum counted
    once."""
    model, optimizer, _, _, state = prepared(key)
    _, record = reduce(model, state, Reduction(evidence=Constant(share)), optimizer, 0.0, 0.04)
    mean, std = (
        np.asarray(part, np.float64)[: model.layout.size] for part in (state.posterior.mean, state.posterior.std)
    )
    precision = 1 + weight * (std**-2 - 1)
    expected = 0.5 * np.log(precision) - 0.5 * (weight * mean / std**2) ** 2 / precision
    assert np.allclose(record.delta_f, expected, atol=1e-4)


def test_a_point_estimate_has_no_evidence(key):
    model = Model(Tiny(), FlatPrior())
    optimizer = AdaBelief()(Constant(1e-3), 100)
    state = start(Point(jnp.zeros(model.latent_count)), model.layout.size, optimizer, key)
    with pytest.raises(ArgumentError, match="mean-field"):
        reduce(model, state, Reduction(), optimizer)


def test_a_point_estimate_is_pruned_by_magnitude(key):
    model = Model(Tiny(), FlatPrior())
    optimizer = AdaBelief()(Constant(1e-3), 100)
    value = jax.random.normal(key, (model.latent_count,))
    state = start(Point(value), model.layout.size, optimizer, key)
    after, _ = reduce(model, state, Reduction(TargetSparsity(0.6, Magnitude())), optimizer)
    hidden = slice(0, model.layout.bounds[-1][0])
    sizes, kept = np.abs(model.weights(value, state.mask))[hidden], np.asarray(after.mask)[hidden]
    assert (~kept).sum() == round(0.6 * kept.size)
    assert sizes[kept].min() > sizes[~kept].max()
    with pytest.raises(ArgumentError, match="mean-field"):
        reduce(model, state, Reduction(TargetSparsity(0.5)), optimizer)


def test_planted_dead_inputs_are_lost_and_no_others():
    """Half of the inputs say nothing about the target. Exactly their weights go."""
    import equinox as eqx

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
    network = Line(eqx.nn.Linear(20, 1, key=jax.random.key(0)))
    fitted = fit(network, (x, y), method, likelihood=Gaussian(), epochs=8, steps=200, batch=256)
    (mask,) = fitted.masks.values()
    assert mask[0].tolist() == [True] * 10 + [False] * 10 + [True]  # the bias is the last column
    assert np.allclose(fitted.network.layer.weight[0], w, atol=0.05)
