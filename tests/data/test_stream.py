"""A stream from files says what the same arrays say in memory, and takes only what it needs."""

import jax
import numpy as np
import pytest

import occamax as ox
from occamax.data import open_arrays
from occamax.errors import ArgumentError, DataError, RunError
from occamax.experiment import feeder
from occamax.experiment import program as program_module
from occamax.experiment.devices import Devices
from occamax.experiment.problem import read_data

from ..toys import Tiny, tiny_data


@pytest.fixture
def folder(tmp_path):
    """Three files of inputs, two of targets, of 200 examples in all."""
    x, y = tiny_data(200)
    for i, part in enumerate(np.split(x, [50, 51])):
        np.save(tmp_path / f"inputs-{i}.npy", part)
    for i, part in enumerate(np.split(y, [120])):
        np.save(tmp_path / f"targets-{i}.npy", part)
    return tmp_path, x, y


def test_examples_are_taken_by_number(folder):
    path, x, y = folder
    stream = open_arrays(path)
    rows = np.random.default_rng(0).permutation(200).reshape(40, 5)  # all, so the first and last of every file
    inputs, targets = stream.take(rows)
    assert np.array_equal(inputs, x[rows])
    assert np.array_equal(targets, y[rows])
    assert all(isinstance(part, np.memmap) for part in stream.inputs)


@pytest.mark.parametrize("longest", [100, 4])
def test_a_stream_trains_as_memory_does(folder, longest, monkeypatch):
    path, x, y = folder
    monkeypatch.setattr(program_module, "LONGEST_CHUNK", longest)
    how = {"epochs": 3, "steps_per_epoch": 10, "batch_size": 16, "num_samples": 2, "test": (x, y)}
    memory = ox.fit(Tiny(), (x, y), ox.BMR(), **how)
    streamed = ox.fit(Tiny(), open_arrays(path), ox.BMR(), **how)
    for ours, theirs in zip(jax.tree.leaves(streamed.state), jax.tree.leaves(memory.state), strict=True):
        if jax.numpy.issubdtype(theirs.dtype, jax.numpy.floating):
            assert np.allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    for name in ("accuracy", "sparsity"):
        assert [line[name] for line in streamed.history] == [line[name] for line in memory.history]


def test_what_is_no_folder_of_arrays_is_refused(tmp_path, folder):
    with pytest.raises(DataError, match=r"no inputs\.npy"):
        open_arrays(tmp_path / "nowhere")
    path, x, _ = folder
    np.save(path / "inputs-3.npy", x[:1])
    with pytest.raises(DataError, match="201 inputs, 200 targets"):
        open_arrays(path)
    np.save(path / "inputs-3.npy", np.zeros((0, 7), np.float32))
    with pytest.raises(DataError, match="another kind of example"):
        open_arrays(path)
    (path / "inputs-3.npy").write_bytes(b"nonsense")
    with pytest.raises(DataError, match="no array file"):
        open_arrays(path)
    np.save(path / "inputs-3.npy", np.array([{}, {}], object), allow_pickle=True)
    with pytest.raises(DataError, match="no array file"):
        open_arrays(path)


def test_a_stream_of_nonsense_is_refused_before_training(folder):
    path, _, _ = folder
    for i in range(2):
        (path / f"targets-{i}.npy").unlink()
    np.save(path / "targets.npy", np.full(200, 99))
    with pytest.raises(ArgumentError, match="99"):
        ox.fit(Tiny(), open_arrays(path), ox.BMR(), epochs=1, steps_per_epoch=1)


def test_an_example_that_is_no_number_is_named_when_it_is_read(folder):
    """Far behind those that are looked at first; also where it is read in the background."""
    path, x, _ = folder
    x[151, 2] = np.nan
    np.save(path / "inputs-2.npy", x[51:])
    with pytest.raises(DataError, match=r"example 151 \(counted from 0: inputs-2.npy, its row 100\) holds nan"):
        ox.fit(Tiny(), open_arrays(path), ox.BMR(calibration=None), epochs=1, steps_per_epoch=9, batch_size=128)


def test_targets_of_a_stream_are_all_looked_at_before_training(folder):
    path, _, y = folder
    y[199] = 7
    np.save(path / "targets-1.npy", y[120:])
    with pytest.raises(ArgumentError, match="class 7 found"):
        ox.fit(Tiny(), open_arrays(path), ox.BMR(), epochs=1, steps_per_epoch=1)


@pytest.mark.parametrize(
    ("name", "says"), [("inputs-1.npy", "shape"), ("inputs-2.npy", "digest"), ("targets-1.npy", "targets")]
)
def test_a_run_does_not_go_on_with_other_files(folder, tmp_path_factory, name, says):
    path, x, _ = folder
    how = {"steps_per_epoch": 1, "batch_size": 8, "num_samples": 2, "out": tmp_path_factory.mktemp("runs") / "run"}
    ox.fit(Tiny(), open_arrays(path), ox.PaperBMR(), epochs=1, **how)
    if name == "inputs-1.npy":  # one example moves from file to file
        np.save(path / "inputs-1.npy", x[50:52])
        np.save(path / "inputs-2.npy", x[52:])
    else:
        changed = np.load(path / name)
        changed[-1] += 1
        np.save(path / name, changed)
    with pytest.raises(RunError, match=rf"another run \(.*{name if name != 'targets-1.npy' else ''}.*{says}"):
        ox.fit(Tiny(), open_arrays(path), ox.PaperBMR(), epochs=1, resume=True, **how)


def test_a_stream_of_tokens_knows_how_many_words_there_are(tmp_path):
    tokens = np.random.default_rng(0).integers(0, 40, (60, 6)).astype(np.int32)
    tokens[33, 3] = 40
    np.save(tmp_path / "inputs.npy", tokens)
    np.save(tmp_path / "targets.npy", tokens[:, 0] % 2)
    assert read_data(open_arrays(tmp_path)).words == 41


def test_a_stream_tests_as_memory_does(folder, tmp_path_factory, monkeypatch):
    """Also where it comes in parts, the last of another length, in the run, of the fit and of a run that is loaded."""
    path, x, y = folder
    monkeypatch.setattr(feeder, "STREAMED_BYTES", 60 * x[0].nbytes)
    assert [count for _, count in feeder.in_parts(open_arrays(path), Devices())] == [60, 60, 60, 20]
    how = {"epochs": 1, "steps_per_epoch": 1, "batch_size": 16, "num_samples": 2}
    memory = ox.fit(Tiny(), (x, y), ox.PaperBMR(), test=(x, y), **how)
    streamed = ox.fit(
        Tiny(), (x, y), ox.PaperBMR(), test=open_arrays(path), out=tmp_path_factory.mktemp("runs") / "run", **how
    )
    names = [name for name in memory.history[-1] if name != "seconds"]
    assert [streamed.history[-1][name] for name in names] == pytest.approx([memory.history[-1][name] for name in names])
    assert streamed.evaluate() == pytest.approx(memory.evaluate())
    assert ox.load(streamed.path, Tiny()).evaluate(open_arrays(path)) == pytest.approx(memory.evaluate())
    assert (streamed.path / "examples.json").is_file()
