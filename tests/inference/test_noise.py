"""The cheap generator behaves as a standard normal should."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special, stats

from occamax.inference.noise import inverse_erf, mix, random_bits, standard_normal

from ..tolerances import STANDARD_ERRORS

COUNT = 200_000
draw = jax.jit(standard_normal, static_argnums=1)


def test_draws_are_standard_normal():
    draws = np.asarray(draw(jax.random.key(0), COUNT), np.float64)
    for power, expected, variance in ((1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)):
        error = np.sqrt(variance / COUNT)
        assert abs(np.mean(draws**power) - expected) < STANDARD_ERRORS * error
    assert stats.kstest(draws, "norm").pvalue > 1e-6
    assert np.isfinite(draws).all()


def test_the_inverse_error_function_is_scipys():
    x = np.linspace(-1, 1, 100_001)[1:-1]
    found, middle = np.asarray(jax.jit(inverse_erf)(jnp.asarray(x, jnp.float32))), np.abs(x) < 0.999
    assert np.allclose(found, special.erfinv(x), rtol=2e-3, atol=1e-6)
    assert np.allclose(found[middle], special.erfinv(x[middle]), rtol=3e-5, atol=1e-6)


def test_draws_do_not_remember_each_other():
    draws = np.asarray(draw(jax.random.key(1), COUNT))
    for lag in (1, 2, 3, 64, 400, 784):
        assert abs(np.corrcoef(draws[:-lag], draws[lag:])[0, 1]) < STANDARD_ERRORS / np.sqrt(COUNT)


def test_neighbouring_keys_and_steps_are_unrelated():
    keys = [jax.random.key(0), jax.random.key(1), *(jax.random.fold_in(jax.random.key(0), i) for i in range(3))]
    draws = np.stack([draw(key, COUNT) for key in keys])
    others = np.corrcoef(draws)[~np.eye(len(keys), dtype=bool)]
    assert np.abs(others).max() < STANDARD_ERRORS / np.sqrt(COUNT)


def test_every_bit_is_fair_and_the_mixing_loses_nothing():
    bits = np.asarray(jax.jit(random_bits, static_argnums=1)(jax.random.key(2), COUNT))
    ones = ((bits[:, None] >> np.arange(32, dtype=np.uint32)) & 1).mean(0)
    assert np.abs(ones - 0.5).max() < STANDARD_ERRORS * 0.5 / np.sqrt(COUNT)
    assert len(np.unique(mix(jnp.arange(COUNT, dtype=jnp.uint32)))) == COUNT


def test_a_batch_of_keys_draws_what_each_draws_alone():
    keys = jax.random.split(jax.random.key(3), 4)
    together = np.asarray(jax.jit(jax.vmap(lambda key: standard_normal(key, 1001)))(keys))
    assert all(np.array_equal(together[i], draw(keys[i], 1001)) for i in range(4))
