import equinox as eqx
import jax
import numpy as np
import pytest

import occamax as ox

from ..toys import Tiny, tiny_data


def small(method=None, **options):
    x, y = tiny_data(n=400)
    return ox.fit(Tiny(), (x, y), method, epochs=3, steps=60, batch=32, **options), x, y


def test_fit_takes_any_module_and_learns():
    fitted, x, y = small(test=tiny_data(n=100, seed=1))
    assert len(fitted.history) == 3
    probabilities = fitted.predict(x, samples=20)
    assert np.allclose(probabilities.sum(1), 1.0, atol=1e-5)
    assert (probabilities.argmax(1) == y).mean() > 0.8
    assert fitted.history[-1]["accuracy"] > 0.75
    assert isinstance(fitted.network, Tiny)


def test_the_fitted_network_is_masked():
    method = ox.BMR(reduction=ox.Reduction(ox.TargetSparsity(0.5)))
    fitted, *_ = small(method)
    assert np.isclose(1 - fitted.masks["first"].mean(), 0.5, atol=0.04)
    weight = np.concatenate([fitted.network.first.weight, fitted.network.first.bias[:, None]], axis=1)
    assert np.array_equal(weight != 0, fitted.masks["first"])
    assert fitted.masks["second"].all()
    assert 0 < fitted.sparsity < 0.5


def test_epochs_are_reported_as_they_come():
    seen = []
    small(on_epoch=lambda epoch: seen.append(epoch.number))
    assert seen == [1, 2, 3]


def test_regression_and_yes_or_no_targets():
    x, y = tiny_data(n=200)
    numbers = np.stack([x[:, 0], x[:, 1] * 0.5], axis=1)
    fitted = ox.fit(Tiny(), (x, numbers), likelihood=ox.Gaussian(), test=(x, numbers), epochs=2, steps=300)
    assert fitted.history[-1]["rmse"] < 0.5
    bits = np.stack([y, 1 - y], axis=1)
    fitted = ox.fit(Tiny(), (x, bits), likelihood=ox.Bernoulli(), epochs=2, steps=200)
    assert ((fitted.predict(x)[:, 0] > 0.5) == y).mean() > 0.8


def test_only_what_is_selected_is_trained():
    fitted, *_ = small(select=lambda network: network.second)
    assert eqx.tree_equal(fitted.network.first, Tiny().first)
    assert not eqx.tree_equal(fitted.network.second, Tiny().second)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ((np.zeros((5, 4), np.float32), np.zeros(4, int)), "5 inputs, 4 targets"),
        ((np.zeros((0, 4), np.float32), np.zeros(0, int)), "at least one"),
        ((np.full((5, 4), np.nan, np.float32), np.zeros(5, int)), "NaN"),
        ((np.zeros((5, 7), np.float32), np.zeros(5, int)), r"shape \(7,\)"),
        ((np.zeros((5, 4), np.float32), np.full(5, 2)), "class 2 found, but the network has 2 outputs"),
        ((np.zeros((5, 4), np.float32), np.full(5, -1)), "class -1 found"),
        ((np.zeros((5, 4), np.float32), np.zeros(5)), "class numbers"),
    ],
)
def test_bad_data_is_refused_before_any_work(data, says):
    with pytest.raises(ox.ArgumentError, match=says):
        ox.fit(Tiny(), data)


def test_a_string_is_no_method():
    with pytest.raises((ox.ArgumentError, TypeError), match="method"):
        ox.fit(Tiny(), tiny_data(), method="bmr")  # pyright: ignore


def test_a_network_with_the_wrong_output_is_refused():
    class Matrix(eqx.Module):
        layer: eqx.nn.Linear

        def __call__(self, x):
            return self.layer(x)[:, None]

    with pytest.raises(ox.ArgumentError, match="one axis of outputs"):
        ox.fit(Matrix(eqx.nn.Linear(4, 2, key=jax.random.key(0))), tiny_data())
