import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax.errors import ArgumentError
from occamax.experiment.program import Program
from occamax.inference.model import Model
from occamax.inference.schedules import Affordable, Constant, Cosine, Geometric, Ramp
from occamax.inference.training import Budget, make_epoch
from occamax.methods import BMR, MAP, Flat, Tiered, PaperBMR, VarianceScaled

from ..tolerances import SINGLE
from ..toys import Tiny, tiny_data

BUDGET = Budget(3, 10, 16)


def program_of(method, seeds=(0,), budget=BUDGET):
    return Program(Model(Tiny(), method.prior), method, budget, seeds)


def data():
    return tuple(map(jnp.asarray, tiny_data(n=64)))


def trained(program, epochs=2):
    state = program.start()
    for _ in range(epochs):
        state, info = program.train(state, data())
    return state, info


@pytest.mark.parametrize(
    "method", [MAP(), Flat(), Tiered(), PaperBMR(), BMR()], ids=lambda m: type(m).__name__
)
def test_every_part_is_compiled_once(method):
    """Weak types or a changed structure would compile again; this counts."""
    program = program_of(method)
    state = program.start()
    for epoch in range(3):
        if method.reduction is not None:
            state, _ = program.reduce(state, jnp.float32(epoch), len(data()[0]))
        state, _ = program.train(state, data())
        program.evaluate(state, *data(), samples=4 + epoch)
    assert program.train._cache_size() == 1
    assert program._evaluate._cache_size() == 1
    assert program.reduce._cache_size() == (method.reduction is not None)


def test_training_lowers_the_objective():
    program = program_of(Flat(), budget=Budget(1, 600, 64))
    _, info = program.train(program.start(), data())
    assert info.neg_elbo[-100:].mean() < 0.8 * info.neg_elbo[:100].mean()


def test_one_seed_twice_is_identical_and_another_differs():
    one, again, other = (trained(program_of(PaperBMR(), (seed,)))[0] for seed in (0, 0, 1))
    assert jnp.array_equal(one.posterior.mean, again.posterior.mean)
    assert not jnp.allclose(one.posterior.mean, other.posterior.mean)


def test_compiled_is_eager():
    program = program_of(Flat(), budget=Budget(1, 2, 8))
    compiled, _ = program.train(program.start(), data())
    with jax.disable_jit():
        eager, _ = make_epoch(program.model, program.optimizer, program.budget, program.method.kl_weight)(
            program.start(), data()
        )
    assert np.allclose(compiled.posterior.mean, eager.posterior.mean, atol=SINGLE)


def test_several_seeds_at_once_are_each_alone():
    together, _ = trained(program_of(PaperBMR(), (3, 5)))
    for i, seed in enumerate((3, 5)):
        alone, _ = trained(program_of(PaperBMR(), (seed,)))
        assert np.allclose(together.posterior.mean[i], alone.posterior.mean, atol=1e-4)


def test_the_reported_elbo_is_not_tempered():
    """neg_elbo is at divergence weight one, whatever is minimised."""
    full, half = (program_of(Flat(kl_weight=Constant(w)), budget=Budget(1, 1, 16)) for w in (1.0, 0.5))
    (_, one), (_, two) = (p.train(p.start(), data()) for p in (full, half))
    assert jnp.array_equal(one.neg_elbo, two.neg_elbo)
    assert np.isclose(one.neg_elbo[0], one.expected_nll[0] + one.divergence[0], rtol=SINGLE)


def test_variance_scaled_means_give_weights_of_that_variance(key):
    model = Model(Tiny(sizes=(400, 300, 10)), BMR().prior)
    latents = VarianceScaled()(model, key)
    network = model.bind(latents, jnp.ones(model.layout.size, bool))
    assert np.isclose(network.first.weight.std(), 1 / np.sqrt(400), rtol=0.02)
    assert np.isclose(network.second.weight.std(), 1 / np.sqrt(300), rtol=0.1)
    assert not network.first.bias.any()


def test_schedules():
    def at(schedule):
        return [float(schedule(p)) for p in (0.0, 0.25, 0.5, 1.0)]

    assert at(Constant(0.3)) == [0.3] * 4
    assert np.allclose(at(Ramp(0.1, 1.0, 0.25, 0.75)), [0.1, 0.1, 0.55, 1.0])
    assert np.allclose(at(Geometric(1.0, 0.01, 0.25, 0.75)), [1.0, 1.0, 0.1, 0.01])
    assert np.allclose(at(Cosine(2.0)), [2.0, 1 + np.cos(np.pi / 4), 1.0, 0.0])


@pytest.mark.parametrize("option", [{"epochs": 0}, {"steps": -1}, {"batch": 0}])
def test_a_bad_budget_is_refused_by_name(option):
    (name,) = option
    with pytest.raises(ArgumentError, match=name):
        Budget(**option)


def test_bad_options_of_a_method_are_refused_by_name():
    with pytest.raises(ArgumentError, match="first_std"):
        BMR(first_std=0.0)
    with pytest.raises(ArgumentError, match="dropout"):
        MAP(dropout=1.0)


def test_an_affordable_divergence_is_a_constant_while_nothing_is_pruned():
    affordable = 0.1 * len(data()[0]) / program_of(Flat()).model.layout.size
    assert affordable < 0.5
    schedules = (Affordable(0.9, 0.1 / 0.7, 0.9, 1.0, first_nats=0.7), Constant(affordable))
    one, two = (trained(program_of(Flat(kl_weight=schedule)))[0] for schedule in schedules)
    assert jnp.allclose(one.posterior.mean, two.posterior.mean, atol=1e-6)
    other, _ = trained(program_of(Flat(kl_weight=Constant(0.9))))
    assert not jnp.allclose(one.posterior.mean, other.posterior.mean, atol=1e-3)


def test_what_is_affordable():
    schedule = Affordable(0.3, 0.5)
    assert float(schedule.of_network(0.0, 100_000, 1_000, 1.0)) == pytest.approx(0.005)
    assert float(schedule.of_network(0.0, 100_000, 1_000, 0.2)) == pytest.approx(0.001)  # less is left to explain
    assert float(schedule.of_network(0.0, 10_000, 1_000, 1.0)) == pytest.approx(0.05)  # a pruned network affords more
    assert float(schedule.of_network(0.0, 100, 1_000, 1.0)) == pytest.approx(0.3)
    assert float(schedule.of_network(0.0, 0, 1_000, 1.0)) == pytest.approx(0.3)
    assert float(schedule.of_network(0.6, 10_000, 1_000, 1.0)) == pytest.approx((0.05 * 0.3) ** 0.5)
    assert float(schedule.of_network(0.9, 10_000, 1_000, 1.0)) == pytest.approx(0.3)
    with pytest.raises(ArgumentError, match="share: 0"):
        Affordable(0.3, 0)
