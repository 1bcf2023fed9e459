"""`--latency`: units go by what they lose and what they cost, until a file is fast enough. Times are made up here: a
network takes as long as it has numbers."""

import time
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax.errors import ArgumentError, ExportError
from occamax.export import exporting, hastening, moving
from occamax.export.exporting import export_network
from occamax.export.hastening import Hastened, LatencyLimit, hastened
from occamax.export.predictor import open_export
from occamax.export.rounding import Rounding
from occamax.export.show import _cost_of_latency, print_measured
from occamax.export.source import Training, leaves_at, trace
from occamax.export.unit_costs import measured
from occamax.export.unit_order import UnitOrder
from occamax.export.unit_times import Clock, microseconds_each
from occamax.names import milliseconds
from occamax.reduction.costs import Latency
from occamax.reduction.repairing import Repair
from occamax.structure.compaction import compact, count
from occamax.structure.unit_search import find_units

from .samples import exportable, inputs_for

REAL = Clock.milliseconds


@pytest.fixture(autouse=True)
def by_numbers(monkeypatch):
    """A microsecond a number, in place of a clock."""

    def took(self, networks):
        arrays = [leaves_at(self.model, weights) for weights in networks]
        return [count(compact(self.program.bind(own))[0]) / 1e3 for own in arrays]

    monkeypatch.setattr(Clock, "milliseconds", took)
    monkeypatch.setattr(hastening, "MARGIN", 1.0)
    monkeypatch.setattr(moving, "REPAIR", Repair(2, 5, 20, 10))
    monkeypatch.setattr(moving, "JUDGED", 20)


def dense(name, training=False):
    """A network of which nothing is gone."""
    source = exportable(name)
    inputs = inputs_for(name, 40, seed=2)
    source = replace(source, believed=source.believed._replace(mask=jnp.ones_like(source.believed.mask)))
    targets = np.random.default_rng(3).integers(0, 3, 40).astype(np.int32)
    return replace(source, training=Training(inputs, targets, 400)) if training else source


def units_of(source):
    model = source.model
    return find_units(model.network, model.buffers, model.calling, model.layout, source.example, model.preprocess)


def clock_of(source):
    return Clock(source.model, trace(source), source.card, inputs_for("mlp", 2))


def test_what_a_unit_costs_is_how_much_faster_the_network_is_without_it():
    """Of an MLP of 72, 9, 8 and 4 units: one of the first layer has 72 + 1 + 8 numbers, one of the second 9 + 1 + 4."""
    source = dense("mlp")
    kinds, weights = units_of(source), np.ones(source.model.layout.size, np.float32)
    living = [np.ones(kind.count, bool) for kind in kinds]
    assert microseconds_each(clock_of(source), kinds, weights, living) == pytest.approx([81, 14])
    found = measured(Latency(4), source.model, kinds, source.example)
    assert found == Latency(4, (("layers.0", 81.0), ("layers.1", 14.0)))
    assert not found.is_open
    assert Latency(4).is_open


def test_the_clock_runs():
    source = dense("mlp")
    weights = np.ones(source.model.layout.size, np.float32)
    assert all(0 < each < 1e3 for each in REAL(clock_of(source), [weights, weights / 2]))


def test_the_order_is_that_of_nats_for_a_microsecond_with_what_others_left():
    """Losses of one for each weight, but of one unit that goes first and one that stays to the end."""
    source = dense("mlp")
    first, second = kinds = units_of(source)
    size = source.model.layout.size
    losses = np.ones(size, np.float32)
    cheap, dear = np.arange(9) == 3, np.arange(8) == 5
    losses[second.flagged(size, dear)] = 1e3
    losses[first.flagged(size, cheap)] = 1e-3
    order = UnitOrder(kinds, np.ones(size, np.float32), losses, clock_of(source))
    assert order.per_number == pytest.approx([1.0, 1.0])
    items = order.sequence()
    assert items[0] == (0, 3)
    assert len(items) == 8 + 7  # one of each stays
    assert (1, 5) not in items
    assert order.loss(order.marked([(0, 3)])) == pytest.approx(81e-3)
    assert order.counted(items) == {"layers.0": 8, "layers.1": 7}
    assert np.count_nonzero(order.network([(0, 3)])) == size - 81


def test_of_two_units_that_lose_as_much_the_slower_goes_first():
    """Every unit of either layer loses 14 nats by weights that no other has; those of the first take 81, not 14."""
    source = dense("mlp")
    kinds, size = units_of(source), source.model.layout.size
    marks = [kind.flagged(size, np.ones(kind.count, bool)) for kind in kinds]
    losses = np.zeros(size, np.float32)
    losses[marks[0] & ~marks[1]] = 14 / 73  # 72 weights and a bias each
    losses[marks[1] & ~marks[0]] = 14 / 5  # a bias and 4 weights each
    items = UnitOrder(kinds, np.ones(size, np.float32), losses, clock_of(source)).sequence()
    assert {kind for kind, _ in items[:3]} == {0}


@pytest.mark.parametrize("name", ["mlp", "residual"])
def test_as_few_units_go_as_it_takes(name):
    source = dense(name)
    program = trace(source)
    weights = np.asarray(source.model.weights(source.believed.posterior.point, source.believed.mask))
    clock = Clock(source.model, program, source.card, inputs_for(name, 2))
    (whole,) = clock.milliseconds([weights])
    found, cost = hastened(source, program, LatencyLimit(0.6 * whole, 4), "onnx", Rounding(32))
    assert cost.milliseconds[0] == pytest.approx(whole)
    assert cost.milliseconds[1] <= 0.6 * whole
    mask = np.asarray(found.believed.mask)
    assert clock.milliseconds([np.where(mask, weights, 0).astype(np.float32)]) == pytest.approx([cost.milliseconds[1]])
    scales = source.model.split(source.believed.posterior.point)[1]
    stds = np.exp(-1.5) * np.asarray(source.model.prior.weight_stds(source.model.layout, scales))
    assert cost.loss == pytest.approx(0.5 * np.sum((weights / stds)[~mask] ** 2), rel=1e-4)
    assert cost.measured is None
    same, none = hastened(source, program, LatencyLimit(2 * whole), "onnx", Rounding(32))
    assert none.gone == {}
    assert np.asarray(same.believed.mask).all()


def test_what_is_left_is_moved_so_that_it_says_what_it_said():
    source = dense("mlp", training=True)
    program = trace(source)
    found, cost = hastened(source, program, LatencyLimit(0.5), "onnx", Rounding(32))
    plain, _ = hastened(replace(source, training=None), program, LatencyLimit(0.5), "onnx", Rounding(32))
    assert cost.measured is not None
    assert cost.examples == 20
    assert cost.milliseconds[1] <= 0.5

    def answers(own):
        network = own.model.bind(own.believed.posterior.point, own.believed.mask)
        return jax.nn.softmax(own.model.outputs(network, jnp.asarray(source.training.inputs[:20])))

    off = [float(jnp.mean(jnp.abs(answers(own) - answers(source)))) for own in (found, plain)]
    assert off[0] < 0.7 * off[1]
    mask = np.asarray(found.believed.mask)
    assert not np.asarray(found.believed.posterior.point)[: len(mask)][~mask].any()


def test_a_latency_that_cannot_be_had_is_refused_in_words():
    source = dense("mlp")
    program = trace(source)
    with pytest.raises(ExportError, match=r"--latency: 0.001 ms cannot be had at batch 1 .* without all 15 units"):
        hastened(source, program, LatencyLimit(1e-3), "onnx", Rounding(32))
    with pytest.raises(ExportError, match=r"--latency: 0.5 ms would cost .* more than the 1 of --max-loss"):
        hastened(source, program, LatencyLimit(0.5), "onnx", Rounding(max_loss=1.0))
    for limit in ({"milliseconds": 0.0}, {"milliseconds": 1.0, "batch": 0}):
        with pytest.raises(ExportError, match=r"--(latency|batch): 0"):
            LatencyLimit(**limit)
    with pytest.raises(ExportError, match="--latency: who reads"):
        export_network(source, Path("x.safetensors"), "safetensors", limit=LatencyLimit(1.0))
    with pytest.raises(ExportError, match="--latency: it is one network's"):
        export_network(source, Path("x.onnx"), "onnx", draws=2, limit=LatencyLimit(1.0))


def test_a_latency_that_ruins_the_network_is_refused_with_the_fastest_that_does_not(monkeypatch):
    """What it has learnt is far from nothing here; with --max-loss the user says what may go."""
    source = dense("mlp", training=True)
    model, believed = source.model, source.believed
    outputs = model.outputs(model.bind(believed.posterior.point, believed.mask), jnp.asarray(source.training.inputs))
    known = np.asarray(jnp.argmax(outputs, axis=-1), np.int32)
    source = replace(source, training=source.training._replace(targets=known))
    program = trace(source)
    monkeypatch.setattr(hastening, "MOST_LOST", 1e-6)
    with pytest.raises(
        ExportError, match=r"--latency: 0.3 ms at batch 1 would cost more than .* ms is the fastest that did not"
    ):
        hastened(source, program, LatencyLimit(0.3), "onnx", Rounding(32))
    assert hastened(source, program, LatencyLimit(0.3), "onnx", Rounding(max_loss=1e9))[1].milliseconds[1] <= 0.3


def test_a_file_with_a_latency_is_checked_as_any_other(tmp_path, monkeypatch, capsys):
    source, clocks, briefly = dense("mlp", training=True), [], exporting.interleaved
    monkeypatch.setattr(exporting, "interleaved", lambda *given: clocks.append(given[3]) or briefly(*given))
    monkeypatch.setattr("occamax.export.exporting.BATCHES", (1,))
    found = export_network(source, tmp_path / "x.onnx", "onnx", rounding=Rounding(), limit=LatencyLimit(0.5, 3))
    assert set(found.milliseconds) == {1, 3}
    assert set(clocks) == {time.thread_time}  # as the limit
    print_measured(found, Path("x.onnx"))
    assert "thread ms at batch 3" in capsys.readouterr().out
    assert found.numbers[1] <= 500 < found.numbers[0]
    assert found.figures_before is not None
    predict, _ = open_export(tmp_path / "x.onnx")
    assert predict(source.test[0]).shape == (40, 4)


def test_words():
    assert [milliseconds("--latency", text) for text in ("2ms", "500us", "0.1 s", ".5ms", None)] == [
        2,
        0.5,
        100,
        0.5,
        None,
    ]
    with pytest.raises(ArgumentError, match="--latency: '2' given; it must be a time with its unit"):
        milliseconds("--latency", "2")
    cost = Hastened((2.0, 1.0), {"layers.0": 3}, 70.0, 12.0, 20, 128)
    assert "2 → 1 ms" in _cost_of_latency(cost)
    assert "12 nats lost over the data set, measured on 20 training examples" in _cost_of_latency(cost)
    assert "70 nats lost" in _cost_of_latency(cost._replace(measured=None))
    assert "no unit had to go" in _cost_of_latency(cost._replace(gone={}))
