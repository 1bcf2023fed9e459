"""A stream from files says what the same arrays say in memory, and takes only what it needs."""

import jax
import numpy as np
import pytest

import occamax as ox
from occamax.data import open_arrays
from occamax.errors import ArgumentError, DataError
from occamax.experiment import program as program_module

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
