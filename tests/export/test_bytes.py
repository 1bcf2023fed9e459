"""`--bytes`: what is removed for a size is made up for by what is left, and what would ruin a network is refused."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from occamax.errors import ExportError
from occamax.export import moving
from occamax.export.exporting import export_network
from occamax.export.moving import Repairing
from occamax.export.predictor import open_export
from occamax.export.rounding import Rounding
from occamax.export.source import Training, trained, with_others
from occamax.reduction.repairing import Repair

from ..tolerances import SINGLE
from .samples import exportable, inputs_for


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(moving, "REPAIR", Repair(2, 10, 200, 50))
    monkeypatch.setattr(moving, "JUDGED", 200)


def whole(name):
    """A network of which nothing is gone, and training examples that it tells rightly."""
    made, inputs = exportable(name), inputs_for(name, 400, seed=2)
    made = replace(made, believed=made.believed._replace(mask=jnp.ones_like(made.believed.mask)))
    targets = trained(made)(inputs).argmax(1).astype(np.int32)
    return replace(made, training=Training(inputs, targets, 400))


@pytest.fixture
def source():
    return whole("mlp")


def size_of(source, path):
    return export_network(source, path, "safetensors", rounding=Rounding()).bytes[1]


def test_what_is_left_says_more_of_what_the_network_said(tmp_path):
    """Than what is left without being moved, in a file of the same size; on examples that it was not moved by."""
    source = whole("lenet")
    limit = size_of(source, tmp_path / "whole.safetensors") - 300
    plain, moved = tmp_path / "plain.safetensors", tmp_path / "moved.safetensors"
    without = export_network(replace(source, training=None), plain, "safetensors", rounding=Rounding(max_bytes=limit))
    found = export_network(source, moved, "safetensors", rounding=Rounding(max_bytes=limit, max_loss=1e4))
    assert max(without.bytes[1], found.bytes[1]) <= limit
    assert min(without.removed, found.removed) > 0
    assert (without.loss_examples, found.loss_examples) == (0, 200)
    fresh = inputs_for("lenet", 300, seed=5)
    said = trained(source)(fresh)
    away = [np.abs(open_export(path)[0](fresh) - said).mean() for path in (plain, moved)]
    assert away[1] < 0.7 * away[0]


def test_the_loss_is_that_of_the_rounded_network_on_other_examples(source, tmp_path):
    limit = size_of(source, tmp_path / "x.safetensors") - 120
    found = export_network(source, tmp_path / "x.safetensors", "safetensors", rounding=Rounding(None, 1e4, limit))
    judged = Repairing.of(source).judged
    inputs, targets = (np.asarray(part).reshape(-1, *np.shape(part)[2:]) for part in judged[:2])
    probabilities = (open_export(tmp_path / "x.safetensors")[0](inputs), trained(source)(inputs))
    after, before = (-np.log(p[np.arange(len(targets)), targets]).mean() for p in probabilities)
    assert found.loss == pytest.approx(400 * (after - before), rel=1e-2, abs=400 * SINGLE)


def test_what_would_ruin_it_is_refused(source, tmp_path):
    """With the loss and what may be lost; unless it was said what may be."""
    path = tmp_path / "x.safetensors"
    limit = size_of(source, path) - 250
    before = path.read_bytes()
    with pytest.raises(
        ExportError, match=r"--bytes: [\d,]+ would cost [\d,]+ nats, more than \d+, 0.1 of what the net"
    ):
        export_network(source, path, "safetensors", rounding=Rounding(max_bytes=limit))
    with pytest.raises(ExportError, match=r"more than 0, those of --max-loss: \d+ weights would go. Train it"):
        export_network(source, path, "safetensors", rounding=Rounding(max_bytes=limit, max_loss=0.01))
    assert path.read_bytes() == before
    export_network(source, path, "safetensors", rounding=Rounding(max_bytes=limit, max_loss=1e6))


def test_without_training_examples_the_test_set_tells(source, tmp_path):
    """Nothing is moved by it; and what to do is said."""
    path = tmp_path / "x.safetensors"
    alone = replace(source, test=source.training[:2], training=None)
    limit = size_of(alone, path) - 300
    with pytest.raises(ExportError, match=r"--bytes: [\d,]+ would cost [\d.]+ nats a test example.*`training="):
        export_network(alone, path, "safetensors", rounding=Rounding(max_bytes=limit))
    export_network(alone, path, "safetensors", rounding=Rounding(max_bytes=limit, max_loss=1e6))


def test_the_test_set_tells_of_several_networks(source, tmp_path):
    """Draws, which training examples do not move either, and an ensemble; moving what is left is no remedy for them."""
    source, path = replace(source, test=source.training[:2]), tmp_path / "x.h"
    alone = replace(source, training=None)
    for several, draws, each in ((source, 2, 950), (with_others(alone, [alone]), None, 750)):
        rounding = Rounding(max_bytes=2 * each)
        with pytest.raises(ExportError, match=r"nats a test example.* Ask for more bytes, train with --sparsity"):
            export_network(several, path, "h", rounding=rounding, draws=draws)
        assert not path.exists()
        export_network(several, path, "h", rounding=replace(rounding, max_loss=1e6), draws=draws)
        path.unlink()


def test_a_way_to_a_size_has_stages():
    found = moving._stages(moving.Rounded(np.zeros(1), 0.0, 8 * 1000.0, (), 0), 300)
    assert found == [750, 562, 421]
    assert moving._stages(None, 300) == []
