"""Several networks that answer together: their average, one temperature for all, a folder, a file."""

import dataclasses
import shutil

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

import occamax as ox
from occamax.errors import ArgumentError, RunError
from occamax.evaluation import outputs_of_draws, outputs_of_mean
from occamax.evaluation.metrics import calibration_error
from occamax.experiment.program import believed
from occamax.export.predictor import open_export
from occamax.fitting.fitted import evaluated
from occamax.inference.training import EVALUATION_STREAM

from ..tolerances import SINGLE
from .small_runs import dataset, fit_normed, fit_small, normed, small

CALIBRATED = ox.PaperBMR(calibration=ox.Calibration(one_in=3, num_samples=6, log_noise_std=None))


@pytest.fixture(scope="module")
def fits(tmp_path_factory):
    """Three seeds of one network, with forty examples held out, in folders side by side."""
    return fit_small(tmp_path_factory.mktemp("three"), CALIBRATED, seeds=3)


@pytest.fixture(scope="module")
def three(fits):
    return ox.ensemble(fits, dataset())


def sharpened(fitted, factor):
    """A network whose outputs are so many times larger."""
    return dataclasses.replace(fitted, state=fitted.state._replace(posterior=_times(fitted, factor)))


def _times(fitted, factor):
    last = jnp.asarray(fitted.model.layout.flags(lambda block: block is fitted.model.layout.blocks[-1]))
    return fitted.state.posterior.divide(last, 1 / factor)


def test_the_answer_is_the_average(fits):
    """Of probabilities, of the likelihood (not of its logarithm) and of the entropy of each."""
    inputs, targets = dataset().test.inputs[:7], dataset().test.targets[:7]
    plain = ox.Ensemble(fits)
    each = [fitted.predictive(inputs, 4, seed=i) for i, fitted in enumerate(fits)]
    found = plain.predictive(inputs, 12)
    assert np.allclose(found.expectation, np.mean([one.expectation for one in each], 0), atol=SINGLE)
    assert np.allclose(found.expected_entropy, np.mean([one.expected_entropy for one in each], 0), atol=SINGLE)
    assert np.allclose(plain.predict(inputs, 10), found.expectation, atol=SINGLE)  # ten draws of three are four each
    figures = plain.evaluate((inputs, targets), num_samples=12)
    alone = [evaluated(one.model, one.state, jnp.asarray(inputs), jnp.asarray(targets), 4) for one in fits]
    likelihood = np.mean([np.exp(np.asarray(one.log_likelihood)) for one in alone], 0)
    assert figures["nll"] == pytest.approx(-np.log(likelihood).mean(), rel=1e-5)
    assert figures["nll"] < -np.mean([one.log_likelihood for one in alone])  # by Jensen's inequality
    assert figures["sparsity"] == pytest.approx(np.mean([fitted.sparsity for fitted in fits]))
    assert plain.weights == sum(int(fitted.state.mask.sum()) for fitted in fits)
    assert figures["share"] == plain.share == plain.weights / fits[0].model.layout.size


def held_out():
    images, targets = dataset().train.inputs[2::3], dataset().train.targets[2::3]
    return jnp.asarray(images), targets


def best(outputs, targets):
    """The temperature by another way: the cost written out in numpy, a bounded search."""

    def cost(log_temperature):
        log_prob = log_softmax(outputs / np.exp(log_temperature), axis=-1)[:, np.arange(len(targets)), targets]
        return 0.5 * (log_temperature / 0.2) ** 2 - np.log(np.exp(log_prob).mean(0)).sum()

    return np.exp(minimize_scalar(cost, bounds=(-3, 3), method="bounded", options={"xatol": 1e-8}).x)


@pytest.mark.parametrize("factor", [1.0, 0.2])
def test_one_temperature_makes_what_all_held_out_likeliest(fits, factor):
    """Also where all are less sure than they are right: every image is told rightly here."""
    members = [sharpened(fitted, factor) for fitted in fits]
    found = ox.ensemble(members, dataset())
    inputs, targets = held_out()
    keys = [jax.random.fold_in(one.state.key, EVALUATION_STREAM) for one in members]
    pairs = list(zip(members, keys, strict=True))
    draws = [np.asarray(outputs_of_draws(one.model, believed(one.state), key, inputs, 2)) for one, key in pairs]
    means = [np.asarray(outputs_of_mean(one.model, believed(one.state), inputs)) for one in members]
    assert found.temperature == pytest.approx(best(np.concatenate(draws), targets), rel=1e-3)
    assert found.mean_temperature == pytest.approx(best(np.concatenate(means), targets), rel=1e-3)
    assert found.temperature != found.mean_temperature
    assert (found.temperature < 0.8) == (factor < 1.0)
    hot = found.predict(inputs, 300)
    cost = -np.log(hot[np.arange(len(targets)), targets]).mean()
    raw = ox.Ensemble(members).predict(inputs, 300)
    assert factor == 1.0 or cost < -np.log(raw[np.arange(len(targets)), targets]).mean()


def test_the_divided_outputs_are_what_is_averaged(three):
    """Each member's, not the average's."""
    inputs = dataset().test.inputs[:5]
    each = [
        sharpened(fitted, 1 / three.temperature).predict(inputs, 4, seed=i) for i, fitted in enumerate(three.members)
    ]
    assert np.allclose(three.predict(inputs, 12), np.mean(each, 0), atol=SINGLE)


def test_its_figures_are_of_the_test_set(three):
    found = three.evaluate()
    assert three.figures == {name: found[name] for name in three.figures}
    assert {"accuracy", "nll", "ece", "ece_floor"} <= set(three.figures)
    draws = three.members[0].config.num_samples  # fewer than members: one each
    said = three.evaluate((dataset().test.inputs, dataset().test.targets), draws)
    assert said == found
    assert found["ece"] == pytest.approx(calibration_error(_probabilities(three), dataset().test.targets))


def _probabilities(three):
    test = jnp.asarray(dataset().test.inputs), jnp.asarray(dataset().test.targets)
    hot = [sharpened(one, 1 / three.temperature) for one in three.members]
    return np.mean([np.asarray(evaluated(one.model, one.state, *test, 1).expectation) for one in hot], 0)


def test_a_folder_brings_it_back(three, tmp_path):
    """Members that lie in the folder are named in it, and others saved into it; it can be moved."""
    above = three.members[0].path.parent
    three.save(above)
    assert sorted(path.name for path in above.iterdir()) == ["ensemble.json", "seed0", "seed1", "seed2"]
    with pytest.raises(RunError, match=r"holds an ensemble already.*overwrite=True"):
        three.save(above)
    shutil.copytree(above, tmp_path / "moved")
    found = ox.load(tmp_path / "moved", small())
    assert found.evaluate((dataset().test.inputs, dataset().test.targets)) == three.evaluate()
    assert (found.temperature, found.mean_temperature, found.figures) == (
        three.temperature,
        three.mean_temperature,
        three.figures,
    )
    assert found.path == tmp_path / "moved"
    elsewhere = ox.load(three.save(tmp_path / "elsewhere"), small())
    assert [member.path.name for member in elsewhere.members] == ["member0", "member1", "member2"]
    assert np.array_equal(elsewhere.predict(dataset().test.inputs), three.predict(dataset().test.inputs))


def saved_and_loaded(members, path, network=None):
    """What a folder answers that these are saved to, and what they answer themselves."""
    made, inputs = ox.Ensemble(members), dataset().test.inputs
    again = ox.load(made.save(path, overwrite=True), small() if network is None else network)
    return again.predict(inputs), made.predict(inputs)


def test_a_folder_holds_the_members_that_were_saved(fits, tmp_path):
    """Not one of their folders in place of another, nor the last checkpoint in place of the one before it."""
    first = ox.load(ox.Ensemble(fits[:2]).save(tmp_path / "x"), small())
    found, wanted = saved_and_loaded([fits[2], first.members[0]], tmp_path / "x")
    assert np.array_equal(found, wanted)
    earlier = ox.load(tmp_path / "x" / "member1", small())
    earlier = sharpened(earlier, 3.0)  # as an earlier checkpoint is: not what its folder has
    found, wanted = saved_and_loaded([earlier, first.members[0]], tmp_path / "x")
    assert np.array_equal(found, wanted)
    fit_small(tmp_path / "x" / "member0", CALIBRATED, seed=7, overwrite=True)
    assert not (tmp_path / "x" / "ensemble.json").exists()  # its temperature was of what is gone


def test_networks_of_ones_own_are_given_in_a_list(fits, tmp_path):
    other = fit_normed(method=CALIBRATED, augment=None)
    found, wanted = saved_and_loaded([fits[0], other], tmp_path / "x", [small(), normed()])
    assert np.array_equal(found, wanted)
    with pytest.raises(ArgumentError, match="network: a list of 1 given; the ensemble has 2 members"):
        ox.load(tmp_path / "x", [small()])
    with pytest.raises(ArgumentError, match="network: str given"):  # and not that ensemble.json is damaged
        ox.load(tmp_path / "x", ["small", "normed"])


def test_a_damaged_folder_is_named(three, tmp_path):
    three.save(tmp_path / "x")
    text = (tmp_path / "x" / "ensemble.json").read_text()
    for words, damaged in (
        ("is damaged", text.replace('"temperature"', '"temper"')),
        ("is of format 9", text.replace('"format": 1', '"format": 9')),
        ("no run folder", text.replace("member1", "nowhere")),
    ):
        (tmp_path / "x" / "ensemble.json").write_text(damaged)
        with pytest.raises(RunError, match=words):
            ox.load(tmp_path / "x", small())


@pytest.mark.parametrize("form", ["onnx", "safetensors"])
def test_one_file_answers_with_the_average_of_the_mean_networks(three, tmp_path, form):
    """Each mean network's outputs are divided by the temperature that is the means' own."""
    found = three.export(tmp_path / f"x.{form}", bits=32)
    inputs = dataset().test.inputs
    hot = [sharpened(fitted, 1 / three.mean_temperature) for fitted in three.members]
    prepare = jax.vmap(three.members[0].facts.preprocess)
    means = [jax.nn.softmax(jax.vmap(fitted.network)(prepare(jnp.asarray(inputs)))) for fitted in hot]
    answered, card = open_export(tmp_path / f"x.{form}")
    assert np.allclose(answered(inputs), np.mean(means, 0), atol=SINGLE)
    assert not np.allclose(answered(inputs), means[0], atol=1e-3)
    assert found.averaged == 3
    assert found.difference < SINGLE
    assert card.class_names == ("a", "b", "c")
    assert card.run_figures == three.figures


def test_a_file_of_members_as_they_are_keeps_the_temperature_of_each(fits, tmp_path):
    found = ox.Ensemble(fits[:2]).export(tmp_path / "both.onnx", bits=32)
    assert found.temperature is None  # there is not one
    inputs, each = dataset().test.inputs, [tmp_path / "0.onnx", tmp_path / "1.onnx"]
    alone = [fitted.export(path, bits=32).temperature for fitted, path in zip(fits, each, strict=False)]
    assert alone[0] != alone[1]
    answers = [open_export(path)[0](inputs) for path in each]
    assert np.allclose(open_export(tmp_path / "both.onnx")[0](inputs), np.mean(answers, 0), atol=SINGLE)


def test_networks_of_other_kinds_may_be_members(three, tmp_path):
    """One with BatchNorm's statistics, of another method; each has its own program in the file, and its own bytes."""
    other = fit_normed(method=ox.BMR(calibration=CALIBRATED.calibration), augment=None)
    mixed = ox.ensemble([three.members[0], other], dataset())
    inputs = dataset().test.inputs
    raw = ox.Ensemble([three.members[0], other])
    each = [fitted.predict(inputs, 3, seed=i) for i, fitted in enumerate(raw.members)]
    assert np.allclose(raw.predict(inputs, 6), np.mean(each, 0), atol=SINGLE)
    found = mixed.export(tmp_path / "x.onnx", max_bytes=60_000)
    assert found.difference < 1e-4
    assert (tmp_path / "x.onnx").stat().st_size < 60_000
    assert mixed.share == mixed.weights / max(fitted.model.layout.size for fitted in mixed.members)


def test_numbers_are_averaged_too():
    """There is no temperature of a regression."""
    x = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    y = x[:, :1] + 0.1
    network = eqx.nn.MLP(4, 1, 5, 1, key=jax.random.key(0))
    fits = ox.fit(network, (x, y), ox.BMR(), seeds=2, epochs=2, steps_per_epoch=4, batch_size=8, progress=False)
    both = ox.ensemble(fits, (x, y))
    assert (both.temperature, both.mean_temperature, both.figures) == (1.0, 1.0, {})
    each = [fitted.predict(x, 3, seed=i) for i, fitted in enumerate(fits)]
    assert np.allclose(both.predict(x, 6), np.mean(each, 0), atol=SINGLE)
    assert set(both.evaluate((x, y))) == {"nll", "rmse", "sparsity", "share"}


def test_what_cannot_work_is_said_first(three, fits):
    images, classes = dataset().train.inputs, dataset().train.targets
    alone = fit_small(epochs=1, method=CALIBRATED)
    of_arrays = ox.fit(small(), (images, classes), CALIBRATED, epochs=1, steps_per_epoch=2, progress=False)
    named = {"kind": "npz", "path": "/here/x.npz", "files": {"x.npz": "1"}, "options": {"size": (6, 6)}}
    of_file = dataclasses.replace(fits[0], facts=dataclasses.replace(fits[0].facts, origin=named))
    moved = dataclasses.replace(fits[1], facts=dataclasses.replace(fits[1].facts, origin={**named, "path": "/there"}))
    other = dataclasses.replace(fits[0], facts=dataclasses.replace(fits[0].facts, class_names=("x", "y", "z")))
    sparser = dataclasses.replace(fits[0], method=ox.PaperBMR())
    for words, ask in (
        ("members: none given", lambda: ox.Ensemble([])),
        ("members: str given", lambda: ox.Ensemble(["runs/three"])),
        (r"number 0 knows the classes \('a', 'b', 'c'\), number 1", lambda: ox.ensemble([fits[0], other], dataset())),
        ("they held out different examples", lambda: ox.ensemble([fits[0], sparser], dataset())),
        (
            "fits: number 0 was trained on other examples than number 1",
            lambda: ox.ensemble([fits[0], of_file], dataset()),
        ),
        ("data: not what the networks were trained on", lambda: ox.ensemble([of_file, moved], (images, classes))),
        ("members: Fit given; give a list of Fits", lambda: ox.Ensemble(alone)),
        ("data: none given.*pass the training data", lambda: ox.ensemble([of_arrays])),
        ("data: not what the networks were trained on", lambda: ox.ensemble([of_arrays], (images[:60], classes[:60]))),
        ("num_samples: 0 given", lambda: three.predict(images[:2], 0)),
        ("num_samples: True given", lambda: three.evaluate(num_samples=True)),
    ):
        with pytest.raises(ArgumentError, match=words):
            ask()
    assert ox.ensemble([alone], dataset()).members == (alone,)  # one is an ensemble too
