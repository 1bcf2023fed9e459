"""Recomputed activations: the same step, in less memory, and cuts where little is kept."""

from itertools import combinations, pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from occamax.experiment.devices import Devices
from occamax.inference.estimators import LocalReparameterisation, SharedDraw
from occamax.inference.model import Model
from occamax.inference.posteriors import IndependentNormals
from occamax.inference.priors import FlatPrior
from occamax.inference.recomputing import Value, best_cuts, compiler_options, recomputing, values_of
from occamax.inference.training import Stepper, alone, start
from occamax.networks import MLP, ResNet, ViT
from occamax.networks.resnet import batch_norm

from ..toys import everything, filled, like, normal, tiny_model

CLOSE = 1e-6  # of the largest: the same operations, fused in another way


def close(one, two):
    pairs = list(zip(*map(jax.tree.leaves, (one, two)), strict=True))
    return all(np.max(np.abs(a - b)) <= CLOSE * max(1.0, np.max(np.abs(a))) for a, b in pairs)


def deep(dropout=0.0):
    return filled(MLP, (16,), 3, (16,) * 8, dropout), like(16)


def residual():
    network = eqx.nn.make_with_state(ResNet)((1, 8, 8), 3, (4, 8), 1, batch_norm, key=jax.random.key(0))
    return network, like(1, 8, 8)


def transformer():
    return filled(ViT, (1, 8, 8), 3, depth=2, heads=2, width=8, hidden=16, dropout=0.1), like(1, 8, 8)


def stepped(given, estimator, share, micro_batches, recompute, size=256):
    """Plain descent by 1, which takes the gradient off the posterior: state, figures and bytes of one step."""
    network, example = given
    model = Model(network, example, FlatPrior(), recompute_activations=recompute)
    descent = optax.with_extra_args_support(optax.sgd(1.0))
    posterior = IndependentNormals.around(0.2 * normal(model.latent_count), 0.1)
    state = start(model, posterior, descent, jax.random.key(0))
    stepper = Stepper(model, descent, estimator, share=share, micro_batches=micro_batches)
    batch = normal(size, *example.shape, seed=1), jnp.arange(size) % 3
    step = jax.jit(lambda *given: stepper(*given, size), compiler_options=compiler_options())
    compiled = step.lower(state, batch, jax.random.key(1)).compile()
    after, info = compiled(state, batch, jax.random.key(1))
    gradient = jax.tree.map(jnp.subtract, posterior, after.posterior)
    return gradient, after.buffers, info, compiled.memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize(
    ("network", "options", "share_of_memory"),
    [
        (lambda: deep(0.1), {"micro_batches": 2}, 0.75),
        (deep, {"estimator": LocalReparameterisation()}, 0.9),  # the noise of each example is kept
        (residual, {"share": Devices.of(1).share}, 0.7),
        (transformer, {}, 0.6),
    ],
)
def test_a_step_is_the_same_in_less_memory(network, options, share_of_memory):
    how = {"estimator": SharedDraw(), "share": alone, "micro_batches": 1, **options}
    gradient, buffers, info, bytes_kept = stepped(network(), **how, recompute=False)
    again, buffers_again, info_again, bytes_again = stepped(network(), **how, recompute=True)
    assert max(np.max(np.abs(leaf)) for leaf in jax.tree.leaves(gradient)) > 1e-2
    assert close(gradient, again)
    assert close(buffers, buffers_again)
    assert np.allclose(info, info_again, rtol=CLOSE)
    assert bytes_again < share_of_memory * bytes_kept


def layer(weight, x):
    return x + jnp.tanh(jnp.sin(x @ weight) @ weight)


def in_turn(weights, x):
    for weight in weights:
        x = layer(weight, x)
    return jnp.sum(x**2)


@jax.jit
def in_a_loop(weights, x):
    x, means = jax.lax.scan(lambda x, weight: (layer(weight, x), jnp.mean(x)), jnp.sin(x), weights)
    return jnp.sum(x**2) + jnp.sum(means)


@pytest.mark.parametrize("function", [in_turn, in_a_loop])
def test_layers_one_by_one_or_in_a_loop(function):
    given = normal(16, 8, 8) / 4, normal(512, 8, seed=1)
    found, memory = [], []
    for own in (function, recomputing(function)):
        gradient = jax.jit(jax.value_and_grad(own), compiler_options=compiler_options()).lower(*given).compile()
        found.append(gradient(*given))
        memory.append(gradient.memory_analysis().temp_size_in_bytes)
    assert close(*found)
    assert memory[1] < 0.5 * memory[0]


def test_it_is_a_function_like_any_other():
    """Mapped over, differentiated twice, without arrays, with nothing to do."""
    weights, x = normal(3, 4, 4), normal(2, 4, seed=1)
    several = jnp.stack([weights, 2 * weights])
    again, second = (jax.vmap(jax.grad(own), (0, None))(several, x) for own in (recomputing(in_turn), in_turn))
    assert close(again, second)
    slopes = (jax.jvp(jax.grad(own), (weights, x), (weights, x))[1] for own in (recomputing(in_turn), in_turn))
    assert close(*slopes)
    assert recomputing(lambda x, name: {name: x})(x, "same")["same"] is x


def cost(count, values, cuts):
    """Bytes that cross a cut, each value once, and those of the largest segment."""
    kept = sum(v.bytes for v in values if any(v.made < cut <= v.read and cut < count for cut in cuts))
    parts = pairwise([0, *cuts, count])
    return kept + max(sum(v.bytes for v in values if first <= v.made < last) for first, last in parts)


@pytest.mark.parametrize("seed", range(5))
def test_no_way_to_cut_is_much_better(seed):
    """Against every way to cut programs of twelve equations, some of whose values are read much later."""
    rng, count = np.random.default_rng(seed), 12
    reads = [min(i + int(rng.choice([1, 1, 1, 2, 6])), count) for i in range(count)]
    values = [Value(i, read, float(rng.integers(1, 50))) for i, read in enumerate(reads)]
    every = [cuts for size in range(count) for cuts in combinations(range(1, count), size)]
    best = min(cost(count, values, cuts) for cuts in every)
    found = cost(count, values, best_cuts(count, values))
    assert best <= found <= 1.07 * best  # the sizes that are tried differ by so much


def test_equal_layers_are_cut_by_the_root_of_their_number():
    assert best_cuts(16, [Value(i, i + 1, 1.0) for i in range(16)]) == [4, 8, 12]
    assert best_cuts(1, [Value(0, 1, 1.0)]) == []
    assert best_cuts(0, []) == []


def test_a_long_program_is_cut_in_places():
    cuts = best_cuts(5000, [Value(i, i + 1, 1.0) for i in range(5000)])
    assert 50 <= len(cuts) <= 90
    assert max(last - first for first, last in pairwise([0, *cuts, 5000])) <= 110


def test_residual_blocks_are_not_cut_where_it_keeps_more():
    """Each cut keeps one value of the stream, as one between two blocks does: also before the sum of every second
    block, whose other part is kept already. Inside of a block it would be two."""
    x = normal(64, 4)
    program = jax.make_jaxpr(in_turn)(normal(9, 4, 4), x).jaxpr
    count, values = len(program.eqns), values_of(program)
    cuts = best_cuts(count, values)
    kept = [v for v in values if v.bytes == x.nbytes and any(v.made < cut <= v.read for cut in cuts)]
    assert len(kept) == len(cuts) > 0
    between = [i + 1 for i, equation in enumerate(program.eqns) if equation.primitive.name == "add"][:-1]
    assert cost(count, values, cuts) <= cost(count, values, between)


def test_predictions_are_not_cut():
    model = tiny_model(recompute_activations=True)
    ask = lambda x: model.outputs(model.bind(normal(model.latent_count), everything(model)), x)  # noqa: E731
    assert "checkpoint" not in str(jax.make_jaxpr(jax.grad(lambda x: ask(x).sum()))(normal(4, 4)))
