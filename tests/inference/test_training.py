"""Steps and epochs: compiled once, the same whatever the order of work, and what the figures mean."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from occamax.data.held_out import HeldOut
from occamax.errors import ArgumentError
from occamax.experiment.devices import Devices
from occamax.experiment.program import Program, Task
from occamax.inference.estimators import LocalReparameterisation, SharedDraw
from occamax.inference.initializers import Uniform, VarianceScaled
from occamax.inference.optimizers import AdaBelief
from occamax.inference.posteriors import IndependentNormals
from occamax.inference.priors import FanInPrior, FlatPrior, HorseshoePrior
from occamax.inference.schedules import Affordable, Circumstances, Constant, kl_weight_of
from occamax.inference.training import Budget, Stepper, alone, draws, objective, start
from occamax.methods import BMR

from ..tolerances import SINGLE
from ..toys import everything, normal, tiny_data, tiny_model

SIZE = 64
looked_at = jax.jit(draws, static_argnums=(2, 3, 4))


@functools.cache
def setup():
    """Model, optimiser, data, and ten steps compiled once for all tests here."""
    model, optimizer = tiny_model(), AdaBelief()(Constant(5e-3), 600)
    data = tuple(map(jnp.asarray, tiny_data(n=SIZE)))
    stepper = Stepper(model, optimizer)
    return model, optimizer, data, stepper, jax.jit(stepper.epoch(10, 16, HeldOut(SIZE)))


def first(seed=0, kl_weight=1.0):
    model, optimizer, *_ = setup()
    posterior = IndependentNormals.around(normal(model.latent_count, seed=seed), 0.1)
    return start(model, posterior, optimizer, jax.random.key(seed))._replace(kl_weight=jnp.float32(kl_weight))


def same(one, two, tolerance=0.0):
    return all(np.allclose(a, b, atol=tolerance) for a, b in zip(*map(jax.tree.leaves, (one, two)), strict=True))


def posterior_after(state):
    *_, data, _, epoch = setup()
    return epoch(state, data)[0].posterior


def test_every_part_is_compiled_once():
    """Weak types or a changed structure would compile again; this counts. `conformance` looks at the types of every
    method's state instead."""
    method, (*_, data, _, _) = BMR(calibration=None), setup()
    program = Program(Task(tiny_model(method.prior), method, Budget(3, 4, 16), HeldOut(SIZE)))
    state = program.start()
    for epoch in range(3):
        state, _ = program.reduce(state, jnp.float32(epoch / 3), data)
        state = program.with_kl_weight(state)
        state, _ = program.train_chunk[4](state, data)
        program.evaluate(state, *data, num_samples=4 + epoch)
    assert program.train_chunk[4]._cache_size() == 1
    assert program._evaluate._cache_size() == program.reduce._cache_size() == program._kl_weight._cache_size() == 1


def test_training_lowers_the_objective():
    *_, data, _, epoch = setup()
    state, found = first(), []
    for _ in range(40):
        state, info = epoch(state, data)
        found.append(float(info.neg_elbo.mean()))
    assert np.mean(found[-5:]) < 0.8 * np.mean(found[:5])
    assert int(state.step) == 400


def test_one_seed_twice_is_identical_and_another_differs():
    one, again, other = (posterior_after(first(seed)) for seed in (0, 0, 1))
    assert same(one, again)
    assert not same(one, other, 1e-3)


def test_an_epoch_is_its_steps_one_by_one():
    """Compiled and mapped over in one, or each step by itself on the batch and the key that are its own."""
    _, _, data, stepper, epoch = setup()
    together, infos = epoch(first(), data)
    state, step = first(), jax.jit(lambda *arguments: stepper(*arguments, SIZE))
    rows, keys = looked_at(state.key, state.step, 10, 16, HeldOut(SIZE))
    for i, own in enumerate(np.asarray(rows)):
        batch = tuple(jnp.asarray(np.asarray(part)[own]) for part in data)
        state, info = step(state, batch, keys[i])
        assert np.isclose(info.neg_elbo, infos.neg_elbo[i], rtol=SINGLE)
    assert same(state.posterior, together.posterior, SINGLE)
    assert same(state.optimizer, together.optimizer, SINGLE)


@pytest.mark.parametrize("share", [alone, Devices.of(1).share])
@pytest.mark.parametrize("estimator", [SharedDraw(), LocalReparameterisation()])
def test_a_step_in_micro_batches_is_the_same_step(estimator, share):
    """Plain descent by 1: what is taken off the posterior is the gradient. In less memory, on devices too."""
    model, _, data, *_ = setup()
    jitter = lambda key, x: x + 0.5 * jax.random.normal(key, x.shape)  # noqa: E731
    descent = optax.with_extra_args_support(optax.sgd(1.0))
    posterior, found, memory = first().posterior, [], []
    large = tuple(jnp.concatenate([part] * 16) for part in data)
    for count in (1, 4):
        stepper = Stepper(model, descent, estimator, jitter, share, micro_batches=count)
        state = start(model, posterior, descent, jax.random.key(0))
        given = state, large, jax.random.key(1)
        step = jax.jit(lambda *given, stepper=stepper: stepper(*given, SIZE)).lower(*given).compile()
        found.append(step(*given))
        memory.append(step.memory_analysis().temp_size_in_bytes)
    (one, told), (four, told_in_parts) = found
    assert not same(one.posterior, posterior, 1e-2)
    assert same(one.posterior, four.posterior, SINGLE)
    assert np.allclose(told, told_in_parts, rtol=1e-5)
    assert memory[1] < 0.6 * memory[0]


@given(first_step=st.integers(0, 1000), cut=st.integers(1, 9))
def test_what_a_step_looks_at_is_a_function_of_its_number_alone(first_step, cut):
    key, held_out = jax.random.key(3), HeldOut(43, 5)
    whole, keys = looked_at(key, first_step, 10, 4, held_out)
    late, late_keys = looked_at(key, first_step + cut, 10, 4, held_out)
    assert np.array_equal(whole[cut:], late[: 10 - cut])
    assert np.array_equal(jax.random.key_data(keys)[cut:], jax.random.key_data(late_keys)[: 10 - cut])
    assert not np.isin(whole, held_out.places).any()
    assert (np.asarray(whole) < 43).all()


def test_no_batch_holds_what_is_held_out_and_every_other_example_is_seen():
    held_out = HeldOut(43, 5)
    rows, _ = looked_at(jax.random.key(0), 0, 200, 16, held_out)
    assert set(np.unique(rows)) == set(range(43)) - set(held_out.places.tolist())


def test_the_reported_elbo_is_not_tempered():
    """neg_elbo is at a KL weight of one, whatever is minimised."""
    *_, data, _, epoch = setup()
    (full, one), (half, two) = (epoch(first(kl_weight=weight), data) for weight in (1.0, 0.5))
    assert one.neg_elbo[0] == two.neg_elbo[0]
    for info in (one, two):
        assert np.allclose(info.neg_elbo, info.expected_nll + info.divergence, rtol=SINGLE)
    assert not same(full.posterior, half.posterior, 1e-3)


def test_the_gradient_is_weighed_by_beta():
    """From one state and batch: F / N at β is the expected cost plus β times the divergence."""
    model, _, data, *_ = setup()
    posterior = first().posterior
    arguments = posterior, model, everything(model), data, jax.random.key(5), SIZE
    losses, (info, _) = jax.jit(jax.vmap(lambda beta: objective(*arguments, beta)))(jnp.array([0.0, 0.3, 1.0]))
    parts = info.expected_nll[0] / SIZE, info.divergence[0] / SIZE
    assert np.allclose(losses, [parts[0], parts[0] + 0.3 * parts[1], parts[0] + parts[1]], rtol=SINGLE)


@pytest.mark.parametrize("prior", [FanInPrior(), FlatPrior(), HorseshoePrior()], ids=lambda p: type(p).__name__)
def test_variance_scaled_means_give_weights_of_that_variance(prior, key):
    model = tiny_model(prior, sizes=(400, 300, 10))
    network = jax.jit(lambda key: model.bind(VarianceScaled()(model, key), everything(model)))(key)
    assert np.isclose(network.first.weight.std(), 1 / np.sqrt(400), rtol=0.02)
    assert np.isclose(network.second.weight.std(), 1 / np.sqrt(300), rtol=0.1)
    assert not network.first.bias.any()


def test_uniform_means_lie_within_their_radius(key):
    model = tiny_model(multiple=8)
    means = Uniform(0.5)(model, key)
    assert means.shape == (model.latent_count,)
    assert 0.3 < np.abs(means).max() <= 0.5


@pytest.mark.parametrize("name", ["epochs", "steps_per_epoch", "batch_size"])
@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "2"])
def test_a_bad_budget_is_refused_by_name(unchecked, name, wrong):
    with pytest.raises(ArgumentError, match=f"{name}: .*whole number"):
        Budget(**{name: wrong})


def test_an_affordable_divergence_is_a_constant_while_nothing_is_pruned():
    model = setup()[0]
    schedule = Affordable(0.9, 0.1 / 0.7, 0.9, 1.0, first_nats=0.7)
    affordable = kl_weight_of(schedule, Circumstances(0, 600, model.layout.size, SIZE, 0.7))
    assert float(affordable) == pytest.approx(0.1 * SIZE / model.layout.size)
    assert affordable < 0.5
