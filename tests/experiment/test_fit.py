"""`fit` and what comes back from it, for networks and data of all kinds; `load` and what it refuses."""

import json
import re
import shutil
from contextlib import contextmanager
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jaxtyping import TypeCheckError

import occamax as ox
from occamax.experiment import problem as problem_module
from occamax.experiment.folder import RunFolder
from occamax.experiment.program import Program
from occamax.fitting import Fit
from occamax.inference.calibration import held_out_of
from occamax.methods import METHODS, method_from

from ..toys import Tiny, tiny_data
from .small_runs import BUDGET, dataset, fit_normed, fit_small, fit_streamed, normed, numbered, pixels, small

QUICK = {**BUDGET, "epochs": 2}


class Recurrent(eqx.Module):
    """A GRU over a sequence, from a first state that is an array of its own."""

    start: jax.Array
    cell: eqx.nn.GRUCell
    output: eqx.nn.Linear

    def __init__(self, key):
        one, two = jax.random.split(key)
        self.start = jnp.zeros(4)
        self.cell = eqx.nn.GRUCell(2, 4, key=one)
        self.output = eqx.nn.Linear(4, 2, key=two)

    def __call__(self, sequence):
        last, _ = jax.lax.scan(lambda hidden, x: (self.cell(x, hidden), None), self.start, sequence)
        return self.output(last)


def recurrent():
    return numbered(eqx.filter_eval_shape(Recurrent, jax.random.key(0)))


def sequences(count=60):
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(count, 5, 2)).astype(np.float32)
    return inputs, (inputs[:, :, 0].sum(1) > 0).astype(np.int32)


def numbers(count=200):
    """Two real targets, far from zero and of different size."""
    x, _ = tiny_data(count)
    return x, np.stack([100 + 10 * x[:, 0], 0.01 * x[:, 1]], axis=1).astype(np.float32)


KINDS = {
    "own with state": (normed, lambda: (dataset().test.inputs, dataset().test.targets)),
    "recurrent": (recurrent, sequences),
    "regression": (lambda: Tiny(), numbers),
}


@pytest.fixture(scope="module")
def first_states():
    """The state of the first kind after each of its epochs."""
    return []


@pytest.fixture(scope="module")
def fits(tmp_path_factory, first_states):
    """One fit of each kind: with a folder and a data set, of arrays without either, of real targets."""
    path = tmp_path_factory.mktemp("fits") / "normed"

    def keep(epoch):
        first_states.append(jax.tree.map(lambda leaf: jnp.copy(leaf[0]), epoch.state))

    return {
        "own with state": fit_normed(path, on_epoch=keep),
        "recurrent": ox.fit(recurrent(), sequences(), ox.PaperBMR(), test=sequences(), **QUICK),
        "regression": ox.fit(
            Tiny(), numbers(), ox.BMR(), test=numbers(), epochs=2, steps_per_epoch=300, batch_size=32, num_samples=2
        ),
    }


@pytest.fixture(scope="module", params=list(KINDS))
def case(request, fits):
    make, data = KINDS[request.param]
    return fits[request.param], make, data()


def test_a_fit_predicts_and_is_measured(case):
    fitted, _, (inputs, targets) = case
    predicted = fitted.predict(inputs[:7], num_samples=3)
    whole = fitted.predictive(inputs[:7], num_samples=3)
    assert np.array_equal(predicted, whole.expectation)
    assert whole.expected_entropy.shape == (7,)
    last = fitted.history[-1]
    figures = fitted.evaluate()
    assert set(figures) <= set(last)
    assert all(np.isclose(figures[name], last[name], rtol=1e-4, atol=1e-6) for name in figures)
    given = fitted.evaluate((inputs, targets))
    assert all(np.isclose(given[name], figures[name], rtol=1e-6) for name in figures)
    more = fitted.evaluate(num_samples=5)
    assert more["nll"] != figures["nll"]
    with pytest.raises(ox.ArgumentError, match=r"inputs: shape \(2, 9\) given; one example has shape"):
        fitted.predict(np.zeros((2, 9), np.float32))
    with pytest.raises(ox.ArgumentError, match="num_samples: 0"):
        fitted.evaluate(num_samples=0)


def test_a_fit_knows_its_network_and_what_is_gone(case):
    fitted, make, (inputs, _) = case
    given, found = make(), fitted.network
    assert jax.tree.structure(given) == jax.tree.structure(found)
    assert all(np.shape(a) == np.shape(b) for a, b in zip(*map(jax.tree.leaves, (given, found)), strict=True))
    model = fitted.model
    inputs = jnp.asarray(inputs[:1])
    prepared = model.preprocess(inputs[0])
    stateful = isinstance(found, tuple)
    output = eqx.nn.inference_mode(found[0])(prepared, found[1])[0] if stateful else found(prepared)
    bound = model.bind(fitted.state.posterior.point, fitted.state.mask)
    assert np.allclose(output, model.outputs(bound, inputs, fitted.state.buffers)[0], atol=1e-5)
    masks = fitted.masks
    assert tuple(masks) == model.layout.names
    kept = [masks[name] for name in list(masks)[:-1]]
    assert fitted.sparsity == pytest.approx(1 - sum(m.sum() for m in kept) / sum(m.size for m in kept))
    assert masks[model.layout.names[-1]].all()
    assert [line["epoch"] for line in fitted.history] == list(range(1, fitted.config.epochs + 1))
    assert fitted.history[-1]["sparsity"] == pytest.approx(fitted.sparsity)


def same_arrays(one, two):
    return all(np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (one, two)), strict=True))


def test_a_fit_is_saved_and_loaded(case, tmp_path):
    fitted, make, (inputs, targets) = case
    with pytest.raises(ox.RunError, match=r"a network of your own \(\w+\); pass it: ox.load"):
        ox.load(fitted.save(tmp_path / "saved"))
    loaded = ox.load(tmp_path / "saved", make())
    assert same_arrays(fitted.state._replace(key=0), loaded.state._replace(key=0))
    assert np.array_equal(jax.random.key_data(fitted.state.key), jax.random.key_data(loaded.state.key))
    assert loaded.method == fitted.method
    assert loaded.model.likelihood == fitted.model.likelihood
    assert loaded.history == fitted.history
    assert np.array_equal(loaded.predict(inputs[:5], 3), fitted.predict(inputs[:5], 3))
    assert loaded.evaluate((inputs, targets)) == fitted.evaluate((inputs, targets))
    again = ox.load(loaded.save(tmp_path / "again"), make())
    assert same_arrays(again.state.posterior, loaded.state.posterior)
    assert (again.config, again.summary) == (loaded.config, loaded.summary)
    with pytest.raises(ox.RunError, match="exists"):
        fitted.save(tmp_path / "saved")
    with pytest.raises(ox.OccamaxError, match="pass the"):
        loaded.evaluate()


def test_a_fit_is_reported_on(case, tmp_path):
    fitted, *_ = case
    page = fitted.report(tmp_path / "report.html").read_text()
    assert fitted.config.network in page
    assert "By epoch" in page
    assert ("RMSE" in page) == ("rmse" in fitted.history[-1])


def test_it_learns(fits):
    x, y = numbers()
    error = fits["regression"].predict(x, 20) - y
    assert (error.std(0) < 0.6 * y.std(0)).all()  # each target in its own unit


def test_every_array_of_a_recurrent_network_is_random(fits):
    fitted = fits["recurrent"]
    assert {name.split(".")[0] for name in fitted.masks} == {"start", "cell", "output"}
    count = sum(leaf.size for leaf in jax.tree.leaves(recurrent()))
    assert fitted.model.layout.size == count


def test_the_method_is_read_back_from_the_folder_as_an_equal_object(fits):
    stored = json.loads((fits["own with state"].path / "config.json").read_text())
    assert method_from(stored["settings"]["method"]) == ox.BMR(trained=None).suited_to(
        fits["own with state"].model.layout
    )
    for make in METHODS.values():
        assert method_from(json.loads(json.dumps(make().as_data()))) == make()


def test_a_method_that_is_handed_in_again_is_suited_to_the_network(fits):
    run = fits["own with state"]
    again = ox.load(run.path, normed(), method=ox.BMR())
    assert (again.method, again.model.prior) == (run.method, run.model.prior)


def test_load_refuses_another_network_by_names_and_shapes(fits, tmp_path):
    path = fits["own with state"].path
    with pytest.raises(ox.RunError, match=r"another than the one that was trained.*weight_shape"):
        ox.load(path, normed(width=4))
    with pytest.raises((ox.RunError, ox.ArgumentError)):
        ox.load(path, Tiny())
    with pytest.raises(ox.RunError, match=r"another than the one.*It was one of 3 layers: conv, norm, output"):
        ox.load(path, small())


def test_load_refuses_what_it_cannot_read(fits, tmp_path):
    """Runs of 0.1 by the version; foreign and damaged folders by what is wrong."""
    old = tmp_path / "old"
    old.mkdir()
    lines = {"data": "fashion_mini", "network": "mlp", "method": "bmr", "epochs": 50, "steps": 500, "batch": 128}
    (old / "config.json").write_text(json.dumps({**lines, "seed": 0, "samples": 100, "sparsity": None}))
    (old / "method.json").write_text(json.dumps({"prior": "FanInPrior(gain=1.0)"}))
    for call in (ox.load, lambda path: fit_small(path, resume=True)):
        with pytest.raises(ox.RunError, match=r"written by occamax 0\.1; this is 0\.2.*Use that version, or train"):
            call(old)
    with pytest.raises(ox.RunError, match="no run folder"):
        ox.load(tmp_path)
    (old / "config.json").write_text("[1, 2")
    with pytest.raises(ox.RunError, match="no JSON"):
        ox.load(old)
    stored = json.loads((fits["own with state"].path / "config.json").read_text())
    (old / "config.json").write_text(json.dumps({**stored, "flavour": "strawberry"}))
    with pytest.raises(ox.RunError, match="flavour"):
        ox.load(old)


def test_an_optax_schedule_is_honoured_and_said_where_it_cannot_be_stored(tmp_path):
    """The rate is zero from the ninth step on, in the second epoch: from then on nothing moves."""
    schedule = optax.piecewise_constant_schedule(1e-2, {8: 0.0})
    means = []
    fitted = fit_small(
        tmp_path / "run",
        ox.PaperBMR(learning_rate=schedule, reduction=None),
        on_epoch=lambda epoch: means.append(np.array(epoch.state.posterior.mean)),
    )
    assert not np.array_equal(means[0], means[1])
    assert np.array_equal(means[1], means[3])
    with pytest.raises(ox.ArgumentError, match=r"method\.learning_rate\.function: .*could not be stored"):
        ox.load(tmp_path / "run", small())
    again = ox.load(tmp_path / "run", small(), method=fitted.method)
    assert same_arrays(again.state.posterior, fitted.state.posterior)


def test_an_optax_optimiser_has_its_own_rate():
    method = ox.PaperBMR(optimizer=optax.sgd(optax.piecewise_constant_schedule(1e-4, {8: 0.0})), reduction=None)
    means = []
    fit_small(None, method, on_epoch=lambda epoch: means.append(np.array(epoch.state.posterior.mean)))
    assert not np.array_equal(means[0], means[1])
    assert np.array_equal(means[1], means[3])
    with pytest.raises(ox.ArgumentError, match="learning_rate: an optax transformation has a rate of its own"):
        ox.PaperBMR(optimizer=optax.adam(1e-3), learning_rate=1e-2)


def test_targets_of_yes_and_no():
    x, y = tiny_data(n=200)
    bits = np.stack([y, 1 - y], axis=1)
    options = {"epochs": 2, "steps_per_epoch": 150, "batch_size": 32}
    fitted = ox.fit(Tiny(), (x, bits), ox.Flat(), likelihood=ox.Bernoulli(), **options)
    assert ((fitted.predict(x)[:, 0] > 0.5) == y).mean() > 0.8


def test_exactly_the_share_that_was_asked_for():
    fitted = fit_small(None, sparsity=0.95, epochs=3)
    count = fitted.model.layout.sizes[0]
    assert fitted.masks["first"].sum() == count - round(0.95 * count)
    assert fitted.sparsity == pytest.approx(0.95, abs=1 / count)
    weight = np.concatenate([fitted.network.first.weight, fitted.network.first.bias[:, None]], axis=1)
    assert np.array_equal(weight != 0, fitted.masks["first"])
    assert fitted.masks["output"].all()
    for options, says in (
        ({"method": ox.Flat(), "sparsity": 0.9}, "sparsity: flat prunes nothing"),
        ({"sparsity": 1.5}, r"sparsity: 1\.5"),
        ({"sparsity": 0.5, "epochs": 1}, "no room"),
        ({"method": ox.MAP(), "unit_price": 0.1}, "unit_price: map prunes nothing"),
        ({"sparsity": 0.5, "unit_price": 0.1}, "unit_price: it cannot be had"),
    ):
        with pytest.raises(ox.ArgumentError, match=says):
            fit_small(None, **options)


def test_what_is_fixed_stays_as_it_was():
    """By names and by a function, an array and a whole layer."""
    network = small()
    fitted = ox.fit(network, dataset(), ox.Flat(), fixed=["first.weight"], **QUICK)
    assert np.array_equal(fitted.network.first.weight, network.first.weight)
    assert not np.array_equal(fitted.network.first.bias, network.first.bias)
    assert not np.array_equal(fitted.network.output.weight, network.output.weight)
    example, prior = jax.ShapeDtypeStruct((1, 6, 6), np.float32), ox.FlatPrior()
    for fixed, names in (
        (["first.weight"], ("first.weight",)),
        (lambda net: net.first, ("first.weight", "first.bias")),
        (lambda net: (net.first.bias, net.output.bias), ("first.bias", "output.bias")),
    ):
        model = ox.Model(network, example, prior, fixed=fixed)
        assert set(model.layout.fixed) == set(names)
        bound = model.bind(jnp.full(model.latent_count, 0.3), jnp.ones(model.layout.size, bool))
        for name in ("first.weight", "first.bias", "output.weight", "output.bias"):
            layer, array = name.split(".")
            one, two = (getattr(getattr(net, layer), array) for net in (network, bound))
            assert np.array_equal(one, two) == (name in names)
    for wrong, says in (((lambda net: net.nothing), "fixed"), (["first.wieght"], r"first\.wieght")):
        with pytest.raises(ox.OccamaxError, match=says):
            ox.fit(network, dataset(), fixed=wrong, **QUICK)


class Odd(eqx.Module):
    """A layer, and an array that it uses in a way that has no name, or not at all."""

    layer: eqx.nn.Linear
    odd: jax.Array
    is_used: bool = eqx.field(static=True)

    def __call__(self, x):
        return self.layer(jnp.sort(x * jnp.sin(self.odd)) if self.is_used else x)


@pytest.mark.parametrize("is_used", [True, False])
def test_an_array_whose_role_cannot_be_told_is_refused_by_name(is_used):
    network = Odd(Tiny().first, jnp.ones(4), is_used)
    with pytest.raises(ox.LayoutError, match=r"odd.*fixed"):
        ox.fit(network, tiny_data(classes=3))
    assert ox.Model(network, tiny_data()[0][0], ox.FlatPrior(), fixed=["odd"]).layout.fixed == ("odd",)


def test_the_test_set_never_changes_what_is_trained(fits):
    """Also where a guard and a calibration look at examples that were not trained on."""
    first = fits["own with state"]
    other = fit_normed(None, test=pixels(30, seed=7))
    assert other.history[-1]["nll"] != first.history[-1]["nll"]
    assert other.history[-1]["held_out_nll"] == first.history[-1]["held_out_nll"]
    assert same_arrays(first.state._replace(key=0), other.state._replace(key=0))


def test_augmentation_is_of_training_examples_only(fits, first_states):
    """What was written of the test and of the held-out examples is what those say as they are, to the last bit; of the
    training examples it is not."""
    after, line = replace(fits["own with state"], state=first_states[0]), fits["own with state"].history[0]
    draws = after.method.calibration.epoch_samples
    images, classes = dataset().train.inputs, dataset().train.targets
    held = held_out_of(after.method.calibration, len(images)).places
    assert len(held) == 6
    assert after.evaluate((images[held], classes[held]), draws)["nll"] == pytest.approx(line["held_out_nll"], rel=1e-6)
    assert after.evaluate(num_samples=BUDGET["num_samples"])["nll"] == pytest.approx(line["nll"], rel=1e-6)
    moved = np.asarray(jax.vmap(ox.RandomCrop(1))(jax.random.split(jax.random.key(0), 6), images[held]))
    assert after.evaluate((moved, classes[held]), draws)["nll"] != pytest.approx(line["held_out_nll"], rel=1e-4)


def blacken(key, example):
    return jnp.zeros_like(example)


def scaled(example):
    """Black is zero."""
    return example.astype(jnp.float32) / 255


def test_augmentation_is_of_every_training_example():
    """Where all are black, the images might be any: the weights come out the same."""
    images, classes = dataset().train.inputs, dataset().train.targets
    ends = [
        ox.fit(small(), (given, classes), ox.MAP(), augment=blacken, preprocess=scaled, **BUDGET)
        for given in (images, images[::-1].copy())
    ]
    assert same_arrays(ends[0].state.posterior, ends[1].state.posterior)


@pytest.fixture(scope="module")
def two_seeds(tmp_path_factory):
    path = tmp_path_factory.mktemp("seeds")
    return path, fit_normed(path, seeds=2)


def test_several_seeds_are_several_fits(two_seeds, fits):
    path, found = two_seeds
    assert [one.config.seed for one in found] == [0, 1]
    assert [one.path.name for one in found] == ["seed0", "seed1"]
    assert not same_arrays(found[0].state.posterior, found[1].state.posterior)
    first = fits["own with state"]
    assert np.allclose(first.state.posterior.mean, found[0].state.posterior.mean, atol=1e-3)
    assert np.allclose(first.state.buffers[1], found[0].state.buffers[1], atol=1e-3)
    loaded = ox.load(path / "seed1", normed())
    assert np.isclose(loaded.evaluate(dataset())["nll"], found[1].history[-1]["nll"], rtol=1e-3)


def test_a_stream_trains_as_memory_does(tmp_path, two_seeds):
    """Also with buffers, dropout and augmentation, and several seeds, each of which sees batches of its own."""
    found = fit_streamed(tmp_path, seeds=2)
    for ours, theirs in zip(found, two_seeds[1], strict=True):
        for one, two in zip(*(jax.tree.leaves(f.state._replace(key=0)) for f in (ours, theirs)), strict=True):
            assert np.allclose(one, two, rtol=1e-5, atol=1e-6)


def test_epochs_are_reported_as_they_come():
    seen = []
    fit_small(None, on_epoch=lambda epoch: seen.append(epoch.number))
    assert seen == [1, 2, 3, 4]


@contextmanager
def refused(says):
    """Our own words; or, where the types are checked before we are asked, those of the checker about this argument."""
    with pytest.raises((ox.OccamaxError, TypeCheckError)) as found:
        yield
    if isinstance(found.value, TypeCheckError):
        assert f"parameter '{says.partition(':')[0]}'" in str(found.value)
    else:
        assert re.search(says, str(found.value)), found.value


class WorkError(Exception):
    pass


@pytest.fixture
def no_work(monkeypatch):
    """Whatever starts training is an error."""

    def work(*_):
        raise WorkError

    monkeypatch.setattr(Program, "start", work)


FOUR = np.zeros((5, 4), np.float32)
MATRIX = eqx.nn.Lambda(lambda x: jnp.outer(x, x))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ((FOUR, np.zeros(4, int)), "5 inputs, 4 targets"),
        ((FOUR[:0], np.zeros(0, int)), "at least one"),
        ((FOUR + np.nan, np.zeros(5, int)), "NaN"),
        ((np.zeros((5, 7), np.float32), np.zeros(5, int)), r"shape \(7,\)"),
        ((FOUR, np.full(5, 2)), "class 2 found, but the network has 2 outputs"),
        ((FOUR, np.full(5, -1)), "class -1 found"),
        ((FOUR, np.zeros((5, 3))), "targets"),
        ("fashion_mini", "data: .*open it first: ox.load_data"),
        (7, "data: int given"),
    ],
)
def test_bad_data_is_refused_before_any_work(data, says, no_work):
    with refused(says):
        ox.fit(Tiny(), data)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"method": "bmr"}, "method: 'bmr'"),
        ({"epochs": 0}, "epochs: 0"),
        ({"steps_per_epoch": 2.5}, "steps_per_epoch: 2.5"),
        ({"batch_size": True}, "batch_size: True"),
        ({"num_samples": 0}, "num_samples: 0"),
        ({"curve_samples": 0}, "curve_samples: 0"),
        ({"seed": -1}, "seed: -1"),
        ({"seed": 2**32}, "seed: 4294967296"),
        ({"seeds": 0}, "seeds: 0"),
        ({"seeds": [1, 1]}, r"seeds: \[1, 1\]"),
        ({"compute_dtype": "float16"}, "compute_dtype: 'float16'"),
        ({"compute_dtype": "float99"}, "compute_dtype: 'float99'"),
        ({"halvings": -1}, "halvings: -1"),
        ({"resume": True}, "out: resume"),
        ({"keep_best": True}, "out: .*keep_best"),
        ({"likelihood": "gauss"}, "likelihood: 'gauss'"),
        ({"augment": "flip"}, "augment: 'flip'"),
        ({"augment": lambda key, x: x[:2]}, "must keep shape and type"),
        ({"devices": 99}, "devices: 99"),
        ({"test": (FOUR, np.full(5, 9))}, "class 9 found"),
    ],
)
def test_wrong_options_are_refused_before_any_work(options, says, no_work):
    with refused(says):
        ox.fit(Tiny(), tiny_data(), **options)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ox.MAP(reduction=ox.Reduction()), "reduction: "),
        (lambda: ox.BMR(learning_rate=optax.adam(1e-3)), "learning_rate: "),
        (lambda: ox.BMR(optimizer=optax.adam), "optimizer: .*call it"),
        (lambda: ox.BMR(optimizer=1e-3), "optimizer: "),
        (lambda: ox.BMR(prior="flat"), "prior: "),
        (lambda: ox.BMR(kl_weight=lambda step: "much"), "kl_weight: "),
        (lambda: ox.BMR(reduction=ox.criteria.Evidence()), "reduction: "),
        (lambda: ox.BMR(calibration=True), "calibration: "),
        (lambda: ox.BMR(dropout=1.0), "dropout: 1.0"),
        (lambda: ox.BMR(lerning_rate=1.0), "Did you mean learning_rate"),
        (lambda: ox.BMR(target_rate_factor=0.0), "target_rate_factor: 0"),
        (lambda: ox.MAP(estimator=ox.Flipout()), "estimator: "),
        (lambda: ox.MAP(optimizer=ox.NaturalGradient()), "optimizer: "),
    ],
)
def test_a_method_of_the_wrong_kind_cannot_be_made(make, says):
    with refused(says):
        make()


def test_networks_that_cannot_be_trained_are_refused(no_work):
    module, _ = normed()
    images = dataset()
    for network, data, says in (
        (module, images, "no state was given"),
        ("mlp", tiny_data(), "network: str given"),
        (MATRIX, tiny_data(), "no floating-point array"),
        (eqx.nn.Sequential([Tiny().first, MATRIX]), tiny_data(), "one axis of outputs"),
        (lambda x: x, tiny_data(), "no floating-point array"),
    ):
        with pytest.raises(ox.OccamaxError, match=says):
            ox.fit(network, data)
    with pytest.raises(ox.ArgumentError, match="estimator: a network with a state"):
        ox.fit(normed(), images, ox.Flat(estimator=ox.Flipout()))


def test_targets_choose_the_likelihood():
    data = problem_module.read_data(numbers())
    found = problem_module.default_likelihood(data)
    assert found == ox.Gaussian(center=found.center, scale=found.scale)
    assert found.center == pytest.approx(data.targets.mean(0), rel=1e-4)
    assert found.scale == pytest.approx(data.targets.std(0), rel=1e-4)
    assert problem_module.default_likelihood(problem_module.read_data(tiny_data())) == ox.Categorical()
    constant = problem_module.read_data((FOUR, np.full(5, 2.0)))
    assert problem_module.default_likelihood(constant) == ox.Gaussian(center=(2.0,), scale=(1.0,))


def test_a_run_goes_on_only_as_what_it_was(fits, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(fits["own with state"].path, path)
    for options, says in (
        ({"steps_per_epoch": 5}, "steps_per_epoch: 6 there, 5 here"),
        ({"augment": ox.RandomCrop(2)}, "augment"),
        ({"augment": None}, "augment"),
        ({"method": replace(ox.BMR(), dropout=0.5)}, "dropout: 0.0 there, 0.5 here"),
        ({"fixed": ["conv.bias"]}, "fixed"),
        ({"compute_dtype": "bfloat16"}, "compute_dtype"),
        ({"seed": 3}, "seed: 0 there, 3 here"),
    ):
        with pytest.raises(ox.RunError, match=f"another run .*{says}"):
            fit_normed(path, resume=True, **options)
    with pytest.raises(ox.RunError, match="another run"):
        ox.fit(small(), dataset(), ox.BMR(), out=path, resume=True, **BUDGET)


def test_a_run_on_arrays_goes_on_only_with_the_same_arrays(tmp_path):
    x, y = tiny_data()
    options = {**QUICK, "out": tmp_path / "run", "progress": False}
    first = ox.fit(Tiny(), (x, y), ox.Flat(), **options)
    again = ox.fit(Tiny(), (x, y), ox.Flat(), resume=True, **options)
    assert isinstance(again, Fit)
    assert same_arrays(first.state.posterior, again.state.posterior)
    with pytest.raises(ox.RunError, match=r"another run .*digest"):
        ox.fit(Tiny(), (x + 1, y), ox.Flat(), resume=True, **options)


def test_a_finished_run_that_is_resumed_keeps_its_summary(fits, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(fits["own with state"].path, path)
    before = RunFolder(path).read_json("summary.json")
    fit_normed(path, resume=True)
    assert RunFolder(path).read_json("summary.json") == before


def test_the_recipe_is_that_for_the_network():
    """`BMR` takes natural gradients where activations are normalised; what is kept is the method as it came to be."""
    plain, with_norms = fit_small(method=ox.BMR()), fit_normed()
    assert (plain.method.optimizer, plain.model.prior) == (ox.AdaBelief(), ox.FanInPrior())
    assert (with_norms.method.optimizer, with_norms.model.prior) == (ox.NaturalGradient(), ox.NormalPrior(0.17))
    for fitted in (plain, with_norms):
        assert fitted.method.normalised is None
        assert method_from(fitted.config.settings["method"]) == fitted.method
