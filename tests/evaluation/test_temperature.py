"""The best temperature by a plain search, and a posterior that has it built in."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax.evaluation import Believed, best_temperature, outputs_of_draws, with_outputs_divided
from occamax.inference.likelihoods import Categorical
from occamax.inference.posteriors import IndependentNormals, Point

from ..tolerances import SINGLE
from ..toys import everything, normal, tiny_data, tiny_model


def drawn(logits, seed):
    """A label for each row of logits."""
    noise = np.random.default_rng(seed).gumbel(size=logits.shape)
    return jnp.asarray(np.argmax(np.asarray(logits) + noise, axis=-1))


def test_the_best_temperature_is_the_one_the_labels_were_drawn_with():
    """Logits are known; labels are drawn from them divided by 2.5."""
    logits = 5.0 * normal(1, 20_000, 4)
    assert best_temperature(logits, drawn(logits[0] / 2.5, 3), Categorical()) == pytest.approx(2.5, rel=0.03)


def test_it_is_the_least_of_the_averaged_likelihood():
    """Of the average over draws, not of each draw, by a plain search; with a prior, nearer to one."""
    logits = 3.0 * normal(6, 300, 3)
    labels, plain = drawn(logits.mean(0), 5), np.asarray(logits, np.float64)

    def nll(temperature):
        exponentials = np.exp(plain / temperature)
        probabilities = (exponentials / exponentials.sum(-1, keepdims=True)).mean(0)
        return -np.log(probabilities[np.arange(300), labels]).sum()

    grid = np.exp(np.linspace(-2.5, 2.5, 1001))
    costs = np.array([nll(t) for t in grid])
    best, with_prior = grid[costs.argmin()], grid[(costs + 0.5 * (np.log(grid) / 0.1) ** 2).argmin()]
    assert best_temperature(logits, labels, Categorical()) == pytest.approx(best, rel=0.01)
    assert best_temperature(logits, labels, Categorical(), 0.1) == pytest.approx(with_prior, rel=0.01)
    assert abs(np.log(with_prior)) < 0.9 * abs(np.log(best))


@pytest.mark.parametrize("kind", [IndependentNormals, Point])
def test_dividing_the_last_layer_divides_the_outputs(kind, key):
    model = tiny_model()
    means = normal(model.latent_count)
    before = Point(means) if kind is Point else IndependentNormals.around(means, 0.1)
    mask = everything(model).at[-1].set(False)  # a removed weight stays its prior
    x = jnp.asarray(tiny_data(12)[0])

    @jax.jit
    def both(posterior):
        after = with_outputs_divided(model, posterior, mask, jnp.float32(3.0))
        return after, [outputs_of_draws(model, Believed(p, mask), key, x, 4) for p in (posterior, after)]

    after, (plain, divided) = both(before)
    assert np.allclose(divided, plain / 3.0, atol=SINGLE)
    assert after.point[model.layout.size - 1] == before.point[model.layout.size - 1]
    assert plain.shape == (4, 12, 2)
