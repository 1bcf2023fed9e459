"""The file is one network, surer than an average over draws: what was held out gives it a temperature of its own."""

import json
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import occamax as ox
from occamax.errors import ExportError
from occamax.evaluation.predictive import Believed
from occamax.export.card import Card
from occamax.export.exporting import Exportable, export_network
from occamax.export.predictor import open_export, open_posterior
from occamax.export.show import print_measured
from occamax.inference.calibration import Calibration, held_out_of
from occamax.inference.model import Model
from occamax.inference.posteriors import IndependentNormals
from occamax.inference.priors import FanInPrior

from ..experiment.small_runs import BUDGET, dataset, small
from ..toys import like, normal
from .samples import layers, linear


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that held every second example out."""
    method = replace(ox.BMR(), calibration=Calibration(one_in=2, num_samples=4, log_temperature_std=2.0))
    out = tmp_path_factory.mktemp("run") / "run"
    return ox.fit(small(), dataset(), method, out=out, progress=False, **{**BUDGET, "keep_best": True})


def nll(path, fitted):
    """Of the file, on what was held out."""
    train, held = dataset().train, held_out_of(fitted.method.calibration, 120).places
    found = open_export(path)[0](train.inputs[held]).astype(np.float64)
    return -np.log(found[np.arange(len(held)), train.targets[held]]).mean()


def test_the_file_is_at_its_own_temperature(run, tmp_path, capsys):
    """That of `fit.export` and of a run that was loaded again, as `occamax export` does; one without it exports as
    before."""
    plain = replace(run, summary={name: value for name, value in run.summary.items() if name != "mean_temperature"})
    loaded = ox.load(run.path, small())
    paths = [tmp_path / name for name in ("own.onnx", "loaded.onnx", "plain.onnx")]
    pairs = zip((run, loaded, plain), paths, strict=True)
    found = [one.export(path, data=dataset(), bits=32) for one, path in pairs]  # rounding changes more than it does
    own = run.summary["mean_temperature"]
    assert json.loads((run.path / "metrics.jsonl").read_text().splitlines()[-1])["mean_temperature"] == own
    assert [one.temperature for one in found] == [own, own, None]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert nll(paths[0], run) < nll(paths[2], run)
    card = open_export(paths[0])[1]
    assert (card.mean_temperature, card.temperature) == (own, run.summary["temperature"])
    assert card.figures == found[0].figures != found[2].figures  # of the file
    assert card.run_figures["nll"] == run.summary["nll"]  # of draws
    print_measured(found[0], paths[0])
    said = capsys.readouterr().out.replace("\n", " ")
    assert f"the file is the mean network, with a temperature of its own: {own:.3g}" in said
    assert f"of a tempered posterior: KL weight {run.summary['kl_weight']:.3g}" in said
    print_measured(found[2], paths[2])
    assert "temperature" not in capsys.readouterr().out


def test_draws_keep_the_temperature_of_draws(run, tmp_path):
    run.export(tmp_path / "x.safetensors", posterior=True, bits=32)
    inputs = dataset().test.inputs
    found = open_posterior(tmp_path / "x.safetensors", 6)[0](inputs).expectation
    assert np.allclose(found, run.predict(inputs, 6), atol=1e-5)


def test_another_checkpoint_has_no_temperature_of_the_last(run, tmp_path):
    """What was found for the last epoch's network says nothing of an earlier one's."""
    earlier = ox.load(run.path, small(), checkpoint="previous")
    assert earlier.export(tmp_path / "x.onnx").temperature is None
    assert open_export(tmp_path / "x.onnx")[1].run_figures == {}


def test_a_network_that_does_not_end_in_its_last_layer_is_refused(tmp_path):
    """The file is compared with outputs that are divided where they are put out."""
    model = Model(layers(linear(4, 3), jnp.tanh), like(4), FanInPrior())
    posterior = IndependentNormals.around(normal(model.latent_count), 0.1)
    card = Card(("a", "b", "c"), (4,), "float32", "0.2")
    believed = Believed(posterior, jnp.ones(model.layout.size, bool), ())
    source = Exportable(model, believed, like(4), card)
    export_network(source, tmp_path / "x.onnx", "onnx")
    with pytest.raises(ExportError, match="differs from the trained network"):
        export_network(replace(source, temperature=3.0), tmp_path / "y.onnx", "onnx")
