"""A run that begins at trained weights: what it begins with, that it goes on bit for bit, and what is refused."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file

import occamax as ox
from occamax.data.held_out import HeldOut
from occamax.experiment import starting
from occamax.experiment.problem import build_model, read_data
from occamax.experiment.program import Program, Task, of_seed
from occamax.inference.training import Budget
from occamax.structure.layout import named_leaves

from ..toys import Tiny, tiny_data
from .small_runs import BUDGET, dataset, normed, small

QUICK = ox.GaussNewton(draws=1, batch_size=16)


def first_state(start, method, network=None, data=None):
    """The state that a run of Tiny begins with, and its model."""
    network, found = Tiny() if network is None else network, read_data(tiny_data(64) if data is None else data)
    model = build_model(network, found, method, None, None, "float32", ox.Devices())
    held_out = HeldOut(64, 16)
    begin = starting.prepare_start(start, network, model, found, held_out)
    return of_seed(Program(Task(model, method, Budget(2, 2, 4), held_out, start=begin)).start(), 0), model


@pytest.mark.parametrize("method", [ox.Plain(), ox.BMR(), ox.NaturalBMR()], ids=lambda method: method.name)
def test_every_posterior_begins_at_the_weights(method):
    state, model = first_state(ox.Trained(curvature=QUICK, largest_std=0.9), method)
    weights = model.weights(state.posterior.point, state.mask)
    assert np.allclose(weights, model.layout.pack(Tiny()), atol=1e-6)
    if method.posterior.has_deviations:
        stds = np.asarray(state.posterior.std[: model.layout.size])
        assert stds.max() <= 0.9 + 1e-6
        assert stds.min() < 0.7 * stds.max()  # they are a curvature
    assert bool(state.mask.all())


def test_a_point_begins_without_a_curvature(monkeypatch):
    monkeypatch.setattr(starting, "diagonal", lambda *_: pytest.fail("a point has no use for it"))
    first_state(ox.Trained(), ox.Plain())


def test_no_deviation_begins_larger_than_from_random_weights():
    """Moments say nothing here, so each deviation is the largest that may be."""
    for method, largest in ((ox.BMR(), 0.1), (ox.NaturalBMR(), 0.045), (ox.BMR(posterior=ox.MeanField(0.02)), 0.02)):
        wide = np.full(build_size(method), 10.0, np.float32)
        with pytest.warns(UserWarning, match="hardly differ"):
            state, model = first_state(ox.Trained(curvature=ox.Moments(std=wide)), method)
        assert np.allclose(state.posterior.std[: model.layout.size], largest, rtol=1e-5)


def build_size(method):
    return build_model(Tiny(), read_data(tiny_data(64)), method, None, None, "float32", ox.Devices()).layout.size


def test_moments_of_another_program_are_taken_as_they_are():
    network = Tiny()
    rng = np.random.default_rng(0)
    std = jax.tree.map(lambda leaf: jnp.asarray(rng.uniform(0.001, 0.1, leaf.shape), leaf.dtype), network)
    mean = {name: leaf + 1.0 for leaf, name in zip(*named_leaves(network), strict=True)}
    method = ox.NaturalBMR()  # its prior has a deviation of .17
    state, model = first_state(ox.Trained(curvature=ox.Moments(mean, std), largest_std=1.0), method)
    assert np.allclose(model.weights(state.posterior.point, state.mask), model.layout.pack(network) + 1.0, atol=1e-5)
    found = 0.17 * state.posterior.std[: model.layout.size]
    assert np.allclose(found, model.layout.pack(std), rtol=1e-4)
    precision = np.asarray(model.layout.pack(std)) ** -2
    again, _ = first_state(ox.Trained(curvature=ox.Moments(mean, precision=precision), largest_std=1.0), method)
    assert np.allclose(again.posterior.std, state.posterior.std, rtol=1e-4)
    with pytest.warns(UserWarning, match="hardly differ.*no curvature"):
        first_state(ox.Trained(curvature=ox.Moments(std=np.full(model.layout.size, 0.01, np.float32))), method)
    with pytest.raises(ox.ArgumentError, match="either std or precision"):
        ox.Moments()
    with warnings.catch_warnings(), pytest.raises(ox.ArgumentError, match="precision: some of it is zero"):
        first_state(ox.Trained(curvature=ox.Moments(precision=np.zeros(model.layout.size, np.float32))), method)


def test_zeros_of_a_pruned_network_may_stay_gone():
    network = eqx.tree_at(lambda net: net.first.weight, Tiny(), replace_fn=lambda w: w.at[0].set(0.0))
    free, model = first_state(ox.Trained(curvature=QUICK), ox.BMR(), network)
    kept, _ = first_state(ox.Trained(curvature=QUICK, keep_zeros=True), ox.BMR(), network)
    assert bool(free.mask.all())
    gone = ~np.asarray(kept.mask)
    assert gone.sum() == 4
    assert np.array_equal(gone, np.asarray(model.layout.pack(network)) == 0)
    assert np.allclose(kept.posterior.std[: gone.size][gone], 1.0)  # their prior


class EnoughError(Exception):
    pass


def test_a_run_from_trained_weights_resumes_bit_for_bit(tmp_path, monkeypatch):
    """Two seeds; its curvature is not asked for a second time."""
    options = {"epochs": 2, "steps_per_epoch": 2, "batch_size": 16, "seeds": 2, "progress": False}
    options |= {"start": ox.Trained(curvature=QUICK)}
    data = dataset().train.inputs.astype(np.float32) / 255, dataset().train.targets
    whole = ox.fit(small(), data, ox.Flat(), out=tmp_path / "whole", **options)

    def stop(epoch):
        raise EnoughError

    with pytest.raises(EnoughError):
        ox.fit(small(), data, ox.Flat(), out=tmp_path / "parts", on_epoch=stop, **options)
    monkeypatch.setattr(starting, "diagonal", None)
    parts = ox.fit(small(), data, ox.Flat(), out=tmp_path / "parts", resume=True, **options)
    for one, other in zip(whole, parts, strict=True):
        assert np.array_equal(one.state.posterior.mean, other.state.posterior.mean)
    assert not np.array_equal(whole[0].state.posterior.mean, whole[1].state.posterior.mean)
    start = whole[0].config.settings["start"]
    assert start["curvature"] == {"kind": "GaussNewton", "draws": 1, "examples": 10000, "batch_size": 16}
    assert whole[0].config.origin["start"] == {"from": "network", "class": "Small"}
    other = eqx.tree_at(lambda net: net.first.bias, small(), replace_fn=lambda bias: bias + 1)
    with pytest.raises(ox.RunError, match=r"resume: .*start\.weights"):
        ox.fit(other, data, ox.Flat(), out=tmp_path / "parts", resume=True, **options)


def test_the_recipe_is_that_for_trained_weights(tmp_path):
    """In what was trained, in its folder, and where the method is handed in again."""
    budget = {"epochs": 2, "steps_per_epoch": 2, "num_samples": 2, "batch_size": 16, "progress": False}
    expected = ox.BMR(normalised=None).pruned_to(0.5, 2).begun(is_trained=True)
    started = ox.Trained(curvature=QUICK)
    fitted = ox.fit(Tiny(), tiny_data(64), sparsity=0.5, start=started, out=tmp_path / "run", **budget)
    assert fitted.method == expected
    assert isinstance(fitted.method.optimizer, ox.NaturalGradient)
    for method in (None, ox.BMR().pruned_to(0.5, 2)):
        again = ox.load(tmp_path / "run", Tiny(), method=method)
        assert (again.method, again.model.prior) == (expected, fitted.model.prior)


def test_units_go_from_trained_weights_too():
    """One of five does nothing: nothing comes in, nothing goes out. It goes whole, the others stay."""
    dead = eqx.tree_at(lambda net: net.first.weight, small(), replace_fn=lambda weight: weight.at[2].set(0.0))
    dead = eqx.tree_at(lambda net: net.first.bias, dead, replace_fn=lambda bias: bias.at[2].set(0.0))
    dead = eqx.tree_at(lambda net: net.output.weight, dead, replace_fn=lambda weight: weight.at[:, 2].set(0.0))
    data = dataset().train.inputs.astype(np.float32) / 255, dataset().train.targets
    budget = {"epochs": 3, "steps_per_epoch": 2, "batch_size": 16, "num_samples": 2, "progress": False}
    method = ox.BMR(reduction=ox.Reduction(ox.criteria.Evidence(np.inf)))  # which no single weight meets
    fitted = ox.fit(dead, data, method, start=ox.Trained(curvature=QUICK), unit_price=0.1, **budget)
    left = fitted.masks["first"].any(1)
    assert left.tolist() == [True, True, False, True, True]
    assert not fitted.masks["first"][2].any()


def test_a_run_and_a_file_are_read_by_names_and_shapes(tmp_path):
    data = dataset().train.inputs.astype(np.float32) / 255, dataset().train.targets
    budget = {"epochs": 1, "steps_per_epoch": 2, "batch_size": 16, "progress": False}
    run = ox.fit(normed(), data, ox.MAP(), out=tmp_path / "run", **budget)
    module, _ = run.network
    arrays = {
        name: np.asarray(leaf) for leaf, name in zip(*named_leaves(module), strict=True) if hasattr(leaf, "shape")
    }
    buffers = {f"buffers.{i}": np.asarray(leaf) for i, leaf in enumerate(run.state.buffers)}
    save_file(arrays | buffers, tmp_path / "weights.safetensors")
    model = run.model
    for path in (tmp_path / "run", tmp_path / "weights.safetensors"):
        weights, found, source = starting.read_weights(path, normed(), model)
        assert np.allclose(weights, model.layout.pack(module), atol=1e-6)
        assert all(np.array_equal(one, other) for one, other in zip(found, run.state.buffers, strict=True))
        assert source["name"] == path.name
    save_file(arrays, tmp_path / "bare.safetensors")
    with pytest.raises(ox.RunError, match=r"has a state.*buffers\.0 should have shape"):
        starting.read_weights(tmp_path / "bare.safetensors", normed(), model)
    renamed = {name.replace("conv", "kernel"): array for name, array in arrays.items()}
    save_file(renamed, tmp_path / "other.safetensors")
    with pytest.raises(ox.ArgumentError, match=r"conv\.weight is missing.*kernel\.weight is no part of the network"):
        starting.read_weights(tmp_path / "other.safetensors", normed(), model)
    wider = build_model(normed(4), read_data(data), ox.MAP(), None, None, "float32", ox.Devices())
    with pytest.raises(ox.ArgumentError, match=r"of another network: conv has shape .* the network's has"):
        starting.read_weights(tmp_path / "run", normed(4), wider)


@pytest.mark.parametrize("shape", [(10,), (3, 3)], ids=["of the last layer", "a matrix"])
def test_a_vector_of_another_size_is_refused(shape):
    """Such as the posterior of the last layer, or a covariance."""
    start = ox.Trained(curvature=ox.Moments(std=np.ones(shape, np.float32)))
    with pytest.raises(ox.ArgumentError, match=r"start: std has shape \(.*\); one vector must hold .* be diagonal"):
        first_state(start, ox.BMR())


@pytest.mark.parametrize(
    ("network", "start", "says"),
    [
        (ox.network_named("mlp"), ox.Trained(), "start: the network 'mlp' is made by its name"),
        (jax.tree.map(lambda leaf: leaf * 0, small()), ox.Trained(), "every weight of the network is zero"),
        (jax.tree.map(lambda leaf: leaf * jnp.nan, small()), ox.Trained(), "start: first holds NaN"),
        (small(), ox.Trained("nowhere"), "start: nowhere is neither a run folder nor"),
    ],
)
def test_what_cannot_be_a_start_is_refused(network, start, says):
    with pytest.raises(ox.OccamaxError, match=says):
        ox.fit(network, dataset(), start=start, **BUDGET)


@pytest.mark.parametrize(
    ("options", "says"), [({"largest_std": 0.0}, "largest_std"), ({"rate_factor": -1.0}, "rate_factor: -1")]
)
def test_bad_values_are_refused(options, says):
    with pytest.raises(ox.ArgumentError, match=says):
        ox.Trained(**options)
    with pytest.raises(ox.ArgumentError, match="start: 'runs/one' given; it must be an object"):
        starting.started(ox.BMR(), "runs/one")


class Directed(eqx.Module):
    """A layer whose outputs are normalised, so that it works the same at any size, and one after it."""

    first: eqx.nn.Linear
    norm: eqx.nn.LayerNorm
    last: eqx.nn.Linear

    def __init__(self, size: float):
        one, two = jax.random.split(jax.random.key(0))
        first = eqx.nn.Linear(4, 6, key=one)
        self.first = jax.tree.map(lambda leaf: size * leaf, first)
        self.norm = eqx.nn.LayerNorm(6, eps=1e-12, use_weight=False, use_bias=False)
        self.last = eqx.nn.Linear(6, 3, key=two)

    def __call__(self, x):
        return self.last(jax.nn.relu(self.norm(self.first(x))))


def test_a_normalised_layer_trains_the_same_at_any_size(tmp_path):
    """Its prior, first noise and steps are in its own size: a small one neither drowns nor jumps."""
    options = {"epochs": 3, "steps_per_epoch": 10, "batch_size": 16, "num_samples": 4, "progress": False}
    options |= {"start": ox.Trained(curvature=QUICK), "sparsity": 0.5}
    fits = [ox.fit(Directed(size), tiny_data(64), out=tmp_path / f"of {size}", **options) for size in (1.0, 2.0**-6)]
    large, small = ([line["neg_elbo"] for line in fitted.history] for fitted in fits)
    assert np.allclose(large, small, rtol=5e-3)
    stds = [fitted.method.prior.std for fitted in fits]
    assert np.allclose(stds[0], (64 * stds[1][0], *stds[1][1:]), rtol=1e-3)
    again = ox.load(tmp_path / "of 1.0", Directed(1.0), method=ox.BMR().pruned_to(0.5, 3))
    assert (again.method, again.model.prior) == (fits[0].method, fits[0].method.prior)
