"""Held-out examples are never trained on, and give the outputs their temperature."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import occamax as ox
from occamax.data import Stream
from occamax.errors import ArgumentError
from occamax.evaluation import best_temperature, outputs_of_draws, with_outputs_divided
from occamax.experiment.loop import epochs
from occamax.experiment.program import Program
from occamax.inference.calibration import Calibration, count_trained, places_held_out, places_trained
from occamax.inference.likelihoods import Categorical, Gaussian
from occamax.inference.schedules import Affordable
from occamax.inference.training import draws
from occamax.methods import MAP, Flat

from ..tolerances import SINGLE
from ..toys import Tiny, tiny_data

METHOD = Flat(kl_weight=ox.Constant(0.05), calibration=Calibration(one_in=5, spread=2.0))


def run(method, data, seeds=(0,), count=3, steps=60, network=None, test=None):
    program = Program(ox.Model(network or Tiny(), method.prior), method, ox.Budget(count, steps, 16), seeds)
    return list(epochs(program, program.start(), tuple(map(jnp.asarray, data)), test, samples=50))[-1]


@pytest.mark.parametrize(("examples", "spacing"), [(20, 5), (23, 5), (24, 5), (7, 2), (100, 24), (9, 0)])
def test_held_out_and_trained_are_all_examples_once(examples, spacing):
    places = np.asarray(places_trained(jnp.arange(count_trained(examples, spacing)), spacing))
    assert sorted([*places, *places_held_out(examples, spacing)]) == list(range(examples))


def test_no_batch_holds_what_is_held_out():
    rows, _ = draws(jax.random.key(0), 0, 200, 16, 43, 5)
    assert set(np.unique(rows)) == set(range(43)) - set(places_held_out(43, 5))


def test_how_many_are_held_out():
    one = Calibration(one_in=20, most=2500)
    assert [one.spacing(n) for n in (39, 40, 50_000, 60_000, 1_000_000)] == [0, 20, 20, 24, 400]


def test_held_out_examples_set_the_temperature_and_nothing_else():
    x, y = tiny_data(50)
    other = y.copy()
    held = places_held_out(50, 5)
    other[held] = 1 - other[held]
    one, two = run(METHOD, (x, y)), run(METHOD, (x, other))
    # the first layer's 4 × 3 weights and 3 biases, the last layer's 3 × 2 and 2, the scales
    first, last = (np.split(np.asarray(e.state.posterior.mean), [15, 23]) for e in (one, two))
    assert np.array_equal(first[0], last[0])
    assert np.array_equal(first[2], last[2])
    assert two.metrics[0]["temperature"] > 2 * one.metrics[0]["temperature"]  # all wrong: be as unsure as allowed
    scaled = [part[1] * e.metrics[0]["temperature"] for part, e in ((first, one), (last, two))]
    assert np.allclose(*scaled, rtol=1e-4)


def test_draws_after_an_epoch_change_what_is_seen_and_not_what_is_learnt():
    x, y = tiny_data(50)
    found = []
    for count in (1, 40):
        method = replace(METHOD, calibration=replace(METHOD.calibration, draws_an_epoch=count))
        program = Program(ox.Model(Tiny(), method.prior), method, ox.Budget(2, 20, 16))
        found.append(next(epochs(program, program.start(), (jnp.asarray(x), jnp.asarray(y)), None)).metrics[0])
    one, many = found
    assert one["held_out_nll"] != many["held_out_nll"]
    assert one["neg_elbo"] == many["neg_elbo"]
    with pytest.raises(ArgumentError, match="draws_an_epoch"):
        Calibration(draws_an_epoch=0)


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_what_held_out_examples_cost_sets_the_next_epochs_divergence(seeds):
    """By the formula, written out; in the first epoch half a nat is taken. No schedule's end comes near."""
    x, y = tiny_data(50)
    method = replace(METHOD, kl_weight=ox.Affordable(0.9, 0.1, 0.99, 1.0))
    program = Program(ox.Model(Tiny(), method.prior), method, ox.Budget(4, 200, 16), seeds)
    lines = [e.metrics for e in epochs(program, program.start(), (jnp.asarray(x), jnp.asarray(y)), None)]
    most = Categorical().baseline(y)
    nats = [[0.5] * len(seeds), *([min(m["held_out_nll"], most) for m in line] for line in lines)]
    for before, line in list(zip(nats, lines, strict=False))[:3]:
        found = [m["kl_weight"] for m in line]
        assert found == pytest.approx([0.1 * 40 * n / program.model.layout.size for n in before], rel=1e-3)
    assert max(nats[2]) < 0.9 * most


def test_the_best_temperature_is_the_one_the_labels_were_drawn_with():
    """Logits are known; labels are drawn from them divided by 2.5."""
    key, label_key = jax.random.split(jax.random.key(3))
    logits = 5.0 * jax.random.normal(key, (1, 20_000, 4))
    labels = jax.random.categorical(label_key, logits[0] / 2.5)
    assert best_temperature(logits, labels, Categorical()) == pytest.approx(2.5, rel=0.03)


def test_it_is_the_least_of_the_averaged_likelihood():
    """Of the average over draws, not of each draw, by a plain search; with a prior, nearer to one."""
    logits = 3.0 * jax.random.normal(jax.random.key(4), (6, 300, 3))
    labels = jax.random.categorical(jax.random.key(5), logits.mean(0))

    def nll(temperature):
        probabilities = np.asarray(jax.nn.softmax(logits / temperature)).mean(0)
        return -np.log(probabilities[np.arange(300), labels]).sum()

    grid = np.exp(np.linspace(-2.5, 2.5, 1001))
    best = grid[np.argmin([nll(t) for t in grid])]
    assert best_temperature(logits, labels, Categorical()) == pytest.approx(best, rel=0.01)
    with_prior = grid[np.argmin([nll(t) + 0.5 * (np.log(t) / 0.1) ** 2 for t in grid])]
    assert best_temperature(logits, labels, Categorical(), 0.1) == pytest.approx(with_prior, rel=0.01)
    assert abs(np.log(with_prior)) < 0.9 * abs(np.log(best))


@pytest.mark.parametrize("method", [METHOD, MAP(calibration=Calibration(one_in=5))], ids=["mean-field", "point"])
def test_dividing_the_last_layer_divides_the_outputs(method):
    program = Program(ox.Model(Tiny(), method.prior), method, ox.Budget(1, 5, 16))
    state, x, key = program.start(), jnp.asarray(tiny_data(12)[0]), jax.random.key(9)
    mask = state.mask.at[-1].set(False)  # a removed weight stays its prior
    posterior = with_outputs_divided(program.model, state.posterior, mask, jnp.float32(3.0))
    before, after = (outputs_of_draws(program.model, p, mask, key, x, 4) for p in (state.posterior, posterior))
    assert np.allclose(after, before / 3.0, atol=SINGLE)
    assert posterior.point[-1] == state.posterior.point[-1]


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_an_overconfident_network_becomes_less_sure(seeds):
    x, _ = tiny_data(400)
    noisy = ((x[:, 0] > 0) ^ (np.random.default_rng(1).random(400) < 0.3)).astype(np.int32)
    more = jnp.asarray(tiny_data(2000, seed=5)[0])
    truth = ((more[:, 0] > 0) ^ (np.random.default_rng(2).random(2000) < 0.3)).astype(np.int32)
    few = (x[:60], noisy[:60])
    cold = replace(METHOD, kl_weight=ox.Constant(1e-4), calibration=Calibration(one_in=2, spread=2.0))
    last = run(cold, few, seeds, 4, 400, test=(more, truth))
    plain = run(replace(cold, calibration=None), few, seeds, 4, 400, test=(more, truth))
    for calibrated, raw in zip(last.metrics, plain.metrics, strict=True):
        assert calibrated["temperature"] > 1.0
        assert calibrated["ece"] < raw["ece"]
        assert calibrated["nll"] < raw["nll"]


class Squashed(eqx.Module):
    """Its outputs are no linear function of its last layer."""

    inner: Tiny

    def __call__(self, x):
        return 3.0 * jnp.tanh(self.inner(x))


def test_where_the_last_layer_is_not_the_end_nothing_is_changed():
    x, y = tiny_data(50)
    with_it = run(METHOD, (x, y), network=Squashed(Tiny()))
    assert with_it.metrics[0]["temperature"] == 1.0


def test_without_logits_nothing_is_changed():
    x, _ = tiny_data(60)
    program = Program(ox.Model(Tiny(), METHOD.prior, Gaussian()), METHOD, ox.Budget(2, 5, 16))
    data = jnp.asarray(x), jnp.asarray(x[:, :2])
    last = list(epochs(program, program.start(), data, None))[-1]
    assert last.metrics[0]["temperature"] == 1.0
    assert last.state.nats == Affordable(1.0, 1.0).first_nats  # nats of a density depend on the unit


def test_a_stream_is_held_out_alike():
    x, y = tiny_data(60)
    arguments = {"method": METHOD, "epochs": 3, "steps": 5, "batch": 8}
    memory, streamed = (ox.fit(Tiny(), data, **arguments) for data in ((x, y), Stream((x,), y)))
    assert np.array_equal(memory.state.posterior.mean, streamed.state.posterior.mean)
    assert memory.history[-1]["temperature"] == streamed.history[-1]["temperature"] != 1.0


@pytest.mark.parametrize("wrong", [{"one_in": 1}, {"one_in": 2.5}, {"draws": 0}, {"most": 0}, {"spread": 0.0}])
def test_wrong_values_are_named(wrong):
    with pytest.raises(ArgumentError, match=f"{next(iter(wrong))}: .*must"):
        Calibration(**wrong)
