"""Held-out examples are never trained on, say what an example costs, and give the outputs their temperature."""

import functools
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax

from occamax.data import Stream
from occamax.data.held_out import HeldOut
from occamax.errors import ArgumentError
from occamax.evaluation import best_noise, best_temperature
from occamax.evaluation.temperature import NOISE_STEP
from occamax.experiment.feeder import Feeder
from occamax.experiment.loop import Evaluation, Loop
from occamax.experiment.program import Program, Task, stack
from occamax.inference.calibration import Calibration, held_out_of
from occamax.inference.likelihoods import Categorical, Gaussian
from occamax.inference.model import Model
from occamax.inference.posteriors import IndependentNormals
from occamax.inference.schedules import Affordable, Constant
from occamax.inference.training import Budget, draws
from occamax.methods import Flat

from ..toys import Tiny, like, tiny_data, tiny_model

METHOD = Flat(kl_weight=0.05, calibration=Calibration(one_in=2, log_temperature_std=2.0, num_samples=8))
SEEDS = (0, 1)
EXAMPLES, STEPS = 60, 60
DATA = tuple(map(jnp.asarray, tiny_data(EXAMPLES)))
HELD_OUT = HeldOut(EXAMPLES, 2)
COMPILED = ("train_chunk", "_evaluate", "outputs", "mean_outputs", "_divided", "_quietened")


@functools.cache
def program_of(method=METHOD, count=3):
    """All share the compiled parts of the first: what differs is the KL weight, which the state carries."""
    held_out = held_out_of(method.calibration, EXAMPLES)
    assert held_out == HELD_OUT
    program = Program(Task(tiny_model(), method, Budget(count, STEPS, 16), held_out, SEEDS))
    for name in COMPILED if method != METHOD else ():
        setattr(program, name, getattr(program_of(), name))
    return program


def epochs_of(program, data=DATA, test=None):
    return list(Loop(program, data, Evaluation(test, 50)).epochs(program.start()))


@given(st.integers(1, 300), st.integers(0, 60))
def test_held_out_and_trained_are_all_examples_once(examples, spacing):
    held_out = HeldOut(examples, spacing if spacing != 1 else 0)
    places = held_out.places_trained(np.arange(held_out.trained))
    assert sorted([*places, *held_out.places]) == list(range(examples))
    assert len(held_out.places) == held_out.count


@given(st.integers(1, 2_000_000), st.integers(2, 50), st.integers(1, 5000))
def test_how_many_are_held_out(examples, one_in, most):
    """One in so many, at most so many, and none where it would be fewer than two."""
    held_out = Calibration(one_in=one_in, most=most).held_out(examples)
    assert held_out.count <= min(most, examples // one_in)
    if held_out.spacing:
        assert held_out.count >= 2
    else:
        assert examples < 2 * max(one_in, -(-examples // most))
    assert held_out_of(None, examples) == HeldOut(examples)


def test_how_many_are_held_out_by_hand():
    one = Calibration(one_in=20, most=2500)
    assert [one.held_out(n).spacing for n in (39, 40, 50_000, 60_000, 1_000_000)] == [0, 20, 20, 24, 400]


@functools.cache
def calibrated(wrong_labels=False):
    """Two seeds after three epochs; with the labels of what is held out as they are, or all of them wrong."""
    x, y = DATA
    return epochs_of(program_of(), (x, y.at[HELD_OUT.places].set(1 - y[HELD_OUT.places]) if wrong_labels else y))


def test_held_out_examples_set_the_temperature_and_nothing_else():
    one, two = calibrated()[-1], calibrated(True)[-1]
    for seed in range(len(SEEDS)):
        # the first layer's 4 × 3 weights and 3 biases, the last layer's 3 × 2 and 2, the scales
        first, last = (np.split(np.asarray(e.state.posterior.mean[seed]), [15, 23]) for e in (one, two))
        assert np.array_equal(first[0], last[0])
        assert np.array_equal(first[2], last[2])
        temperatures = [e.metrics[seed]["temperature"] for e in (one, two)]
        assert temperatures[1] > 1.5 * temperatures[0]  # all wrong: be as unsure as allowed
        assert np.allclose(first[1] * temperatures[0], last[1] * temperatures[1], rtol=1e-4)


def test_the_mean_network_has_a_temperature_of_its_own():
    """The best for the outputs of the posterior mean on what is held out, by a plain search, with the prior."""
    last, model = calibrated()[-1], program_of().model
    inputs, targets = DATA[0][HELD_OUT.places], np.asarray(DATA[1])[HELD_OUT.places]
    grid = np.exp(np.linspace(-3, 3, 6001))
    for seed in range(len(SEEDS)):
        network = model.bind(last.state.posterior.mean[seed], last.state.mask[seed])
        logits = np.asarray(model.outputs(network, inputs), np.float64)
        costs = []
        for temperature in grid:
            log_prob = log_softmax(logits / temperature, axis=1)[np.arange(len(targets)), targets]
            costs.append(-log_prob.sum() + 0.5 * (np.log(temperature) / 2.0) ** 2)
        found = last.metrics[seed]["mean_temperature"]
        assert found == pytest.approx(grid[np.argmin(costs)], rel=2e-3)
        assert "mean_temperature" not in calibrated()[0].metrics[seed]
        assert abs(np.log(found)) > 0.01  # not that of averaged draws, which is in the posterior already


def test_no_temperature_depends_on_the_test_set():
    x, y = map(jnp.asarray, tiny_data(40, seed=7))
    one, two = (epochs_of(program_of(), test=(x, labels))[-1] for labels in (y, 1 - y))
    for mine, theirs in zip(one.metrics, two.metrics, strict=True):
        assert mine["accuracy"] != theirs["accuracy"]
        assert mine["ece_floor"] == theirs["ece_floor"]
        for name in ("temperature", "mean_temperature"):
            assert mine[name] == theirs[name]
    assert np.array_equal(one.state.posterior.mean, two.state.posterior.mean)


def test_the_test_set_sets_no_temperature():
    """All its labels are wrong: a temperature that was found on it would be as high as it gets."""
    x, y = DATA[0][:30], 1 - DATA[1][:30]
    one, two = calibrated()[-1], epochs_of(program_of(), test=(x, y))[-1]
    assert [e["temperature"] for e in one.metrics] == [e["temperature"] for e in two.metrics]
    for ours, theirs in zip(*(jax.tree.leaves(e.state._replace(key=0)) for e in (one, two)), strict=True):
        assert np.array_equal(ours, theirs)
    found = best_of(two.state, (x, y))
    assert all(best > 2 * line["temperature"] for best, line in zip(found, two.metrics, strict=True))


def best_of(state, data):
    """The temperature of each seed that these examples would have asked for."""
    program = program_of()
    return [best_temperature(outputs, data[1], Categorical(), 2.0) for outputs in program.outputs(state, data[0])]


def test_the_last_evaluation_is_the_careful_one():
    """Of the state as it was calibrated, with all the draws; those on the way with few."""
    program, test = program_of(), (DATA[0][:30], DATA[1][:30])
    loop = Loop(program, DATA, Evaluation(test, 50, 3))
    for epoch in loop.epochs(program.start()):
        few, many = (loop._scores(epoch.state, test, draws) for draws in (3, 50))
        for seed in range(len(SEEDS)):
            assert few[seed]["nll"] != many[seed]["nll"]
            assert epoch.metrics[seed]["nll"] == (many if epoch.number == 3 else few)[seed]["nll"]


def test_the_figures_say_what_held_out_examples_cost():
    costs = [[line["held_out_nll"] for line in epoch.metrics] for epoch in calibrated()]
    wrong = [[line["held_out_nll"] for line in epoch.metrics] for epoch in calibrated(True)]
    assert np.shape(costs) == (3, len(SEEDS))
    assert np.all(np.array(costs)[-1] < np.array(wrong)[-1])


def test_draws_after_an_epoch_change_what_is_seen_and_not_what_is_learnt():
    other = replace(METHOD, calibration=replace(METHOD.calibration, epoch_samples=40))
    one, two = calibrated()[0].metrics, epochs_of(program_of(other))[0].metrics
    assert [line["held_out_nll"] for line in one] != [line["held_out_nll"] for line in two]
    assert [line["neg_elbo"] for line in one] == [line["neg_elbo"] for line in two]


def test_what_held_out_examples_cost_sets_the_next_epochs_divergence():
    """By the formula, written out; in the first epoch half a nat is taken. No schedule's end comes near."""
    program = program_of(replace(METHOD, kl_weight=Affordable(0.9, 0.1, 0.99, 1.0)), 6)
    lines = [epoch.metrics for epoch in epochs_of(program)]
    most = Categorical().baseline(np.asarray(DATA[1]))
    nats = [[0.5] * len(SEEDS), *([min(m["held_out_nll"], most) for m in line] for line in lines)]
    for before, line in list(zip(nats, lines, strict=False))[:5]:
        found = [m["kl_weight"] for m in line]
        assert found == pytest.approx([0.1 * 30 * n / program.model.layout.size for n in before], rel=1e-3)
    assert max(nats[5]) < 0.9 * most


def test_no_example_costs_more_than_a_network_that_learnt_nothing():
    """With every held-out label wrong they cost more; the next KL weight goes by what nothing would cost."""
    x, y = DATA
    wrong = y.at[HELD_OUT.places].set(1 - y[HELD_OUT.places])
    program = program_of(replace(METHOD, kl_weight=Affordable(0.9, 0.1, 0.99, 1.0)), 3)
    lines = [epoch.metrics for epoch in epochs_of(program, (x, wrong))]
    most = Categorical().baseline(np.asarray(wrong))
    for seed in range(len(SEEDS)):
        assert lines[1][seed]["held_out_nll"] > 1.1 * most
        assert lines[2][seed]["kl_weight"] == pytest.approx(0.1 * 30 * most / program.model.layout.size, rel=1e-3)


def test_an_overconfident_network_becomes_less_sure():
    """Three labels in ten are wrong; the network learns them by heart."""
    x = DATA[0]
    noisy = jnp.asarray((np.asarray(x[:, 0] > 0) ^ (np.random.default_rng(1).random(EXAMPLES) < 0.3)).astype(np.int32))
    more = jnp.asarray(tiny_data(2000, seed=5)[0])
    truth = jnp.asarray((np.asarray(more[:, 0] > 0) ^ (np.random.default_rng(2).random(2000) < 0.3)).astype(np.int32))
    program = program_of(replace(METHOD, kl_weight=Constant(1e-4)), 27)
    before = {}

    def calibrate(state, *data):
        before["state"] = jax.tree.map(jnp.copy, state)
        return Program.calibrate(program, state, *data)

    program.calibrate = calibrate
    loop = Loop(program, (x, noisy))
    last = list(loop.epochs(program.start()))[-1]
    raw, better = (loop._scores(state, (more, truth), 50) for state in (before["state"], last.state))
    for line, one, two in zip(last.metrics, raw, better, strict=True):
        assert line["temperature"] > 1.0
        assert two["ece"] < one["ece"]
        assert two["nll"] < one["nll"]


def test_the_best_noise_is_that_of_the_least_cost():
    """A parabola for each seed, whose least is known; the prior pulls to one where little is to gain."""
    where, sharpness = np.log([0.6, 1.0, 1.5]), np.array([1e3, 1e3, 1e3])

    def cost(noise):
        return 0.5 * sharpness * (np.log(noise) - where) ** 2

    assert np.abs(np.log(best_noise(cost, 3, 0.3)) - where).max() <= 0.5 * abs(np.log(NOISE_STEP)) + 1e-9
    sharpness[:] = 1.0  # against 1/.1² of the prior
    assert best_noise(cost, 3, 0.1).tolist() == [1.0, 1.0, 1.0]


def test_draws_that_differ_too_much_are_quietened():
    """Labels are drawn from the average over draws with half the noise. The factor is on all deviations, the KL weight
    goes with its square, and the means are divided by the temperature in the last layer only."""
    program = program_of(replace(METHOD, calibration=replace(METHOD.calibration, num_samples=30)))
    for name in COMPILED:
        setattr(program, name, getattr(Program(program.task), name))
    start = program.start()
    means = 2.0 * jax.random.normal(jax.random.key(5), start.posterior.mean.shape)
    state = start._replace(posterior=stack([IndependentNormals.around(own, 0.9) for own in means]))
    x = jnp.asarray(tiny_data(3000, seed=7)[0])
    quiet = program.quietened(state, np.full(len(SEEDS), 0.5))
    truth = np.asarray(program.evaluate(quiet, x, jnp.zeros(3000, jnp.int32), 200).expectation, np.float64)
    for seed in range(len(SEEDS)):
        labels = (np.random.default_rng(3).random(3000) < truth[seed, :, 1]).astype(np.int32)
        after, found = program.calibrate(state, x[:1500], jnp.asarray(labels[:1500]))
        noise, temperature = found[seed]["noise"], found[seed]["temperature"]
        assert 0.3 < noise < 0.8
        last = int(program.model.layout.blocks[-1].size)
        size = program.model.layout.size
        ratio = np.exp(np.asarray(after.posterior.log_std[seed] - state.posterior.log_std[seed]))[:size]
        assert ratio[:-last] == pytest.approx(noise, rel=1e-4)
        assert ratio[-last:] == pytest.approx(noise / temperature, rel=1e-4)
        assert np.array_equal(after.posterior.mean[seed, : size - last], state.posterior.mean[seed, : size - last])
        assert np.array_equal(after.posterior.log_std[seed, size:], state.posterior.log_std[seed, size:])  # the scales
        assert float(after.kl_weight[seed]) == pytest.approx(float(state.kl_weight[seed]) * noise**2, rel=1e-5)
        rest = x[1500:], jnp.asarray(labels[1500:])
        costs = [program.evaluate(own, *rest, 100).log_likelihood[seed].mean() for own in (state, after)]
        assert costs[1] > costs[0]
    fixed = replace(METHOD, calibration=replace(METHOD.calibration, log_noise_std=None))
    assert program_of(fixed).calibrate(state, x[:30], jnp.asarray(labels[:30]))[1][0].keys() == {"temperature"}


class Squashed(eqx.Module):
    """Its outputs are no linear function of its last layer."""

    inner: Tiny

    def __call__(self, x):
        return 3.0 * jnp.tanh(self.inner(x))


def test_where_the_last_layer_is_not_the_end_nothing_is_changed():
    program = Program(Task(Model(Squashed(Tiny()), like(4), METHOD.prior), METHOD, Budget(1, 1, 16), HELD_OUT))
    state = program.start()
    after, found = program.calibrate(state, DATA[0][:30], DATA[1][:30])
    assert found == [{"temperature": 1.0}]
    assert after is state
    assert program.mean_temperatures(state, DATA[0][:30], DATA[1][:30]) == [None]


def test_without_logits_nothing_is_changed():
    model = tiny_model(likelihood=Gaussian())
    program = Program(Task(model, METHOD, Budget(1, 1, 16), HELD_OUT))
    state = program.start()
    after, found = program.calibrate(state, DATA[0], DATA[0][:, :2])
    assert found == [{"temperature": 1.0}]
    assert after is state
    assert program.mean_temperatures(state, DATA[0], DATA[0][:, :2]) == [None]
    loop = Loop(program, (DATA[0], DATA[0][:, :2]))  # nats of a density depend on the unit
    assert loop._with_nats(state, [{"fit": 0.1}], np.array([False])).nats == Affordable(1.0, 1.0).first_nats


def test_a_stream_is_held_out_alike():
    """The same examples are held out of what is read batch by batch, and the same are read for each step, as of what
    lies in memory. `data/test_stream.py` has both trained."""
    stream = Stream((np.asarray(DATA[0]),), np.asarray(DATA[1]))
    program = Program(Task(tiny_model(), METHOD, Budget(1, 20, 16), HELD_OUT))
    for ours, theirs in zip(Loop(program, DATA).held, Loop(program, stream).held, strict=True):
        assert np.array_equal(ours, theirs)
    key = jax.random.key(3)
    rows, _ = draws(key, 0, 20, 16, HELD_OUT)
    inputs, targets = Feeder(program, stream, key[None])._read(0)
    assert np.array_equal(inputs[0], DATA[0][rows])
    assert np.array_equal(targets[0], DATA[1][rows])
    assert not np.isin(rows, HELD_OUT.places).any()


WRONG = [
    ("one_in", 1),
    ("one_in", 2.5),
    ("num_samples", 0),
    ("most", 0),
    ("log_temperature_std", 0.0),
    ("epoch_samples", 0),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_wrong_values_are_named(unchecked, name, value):
    with pytest.raises(ArgumentError, match=f"{name}: .*must"):
        Calibration(**{name: value})
