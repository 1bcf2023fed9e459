"""A state as arrays and back, and the files under it, without a run around them."""

import errno
import functools
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from occamax.data.held_out import HeldOut
from occamax.errors import RunError
from occamax.experiment.checkpoint import pause_arrays, pause_from, state_arrays, state_from
from occamax.experiment.folder import RunFolder
from occamax.experiment.loop import Pause
from occamax.inference.optimizers import AdaBelief
from occamax.inference.posteriors import IndependentNormals
from occamax.inference.schedules import Constant
from occamax.inference.training import Stepper, start
from occamax.reduction import Evidence, Reduction, reduce
from occamax.storage import RunLock, load_arrays, save_arrays, write_atomic
from occamax.storage import files as files_module

from ..toys import normal, tiny_data, tiny_model


@functools.cache
def pause():
    """After a reduction and some steps; all that a pause may hold is there."""
    model, optimizer = tiny_model(), AdaBelief()(Constant(1e-2), 10)
    before = start(model, IndependentNormals.around(normal(model.latent_count), 0.5), optimizer, jax.random.key(0))

    @jax.jit
    def made(before):
        after, record = reduce(model, before, Reduction(Evidence()))
        epoch = Stepper(model, optimizer).epoch(2, 16, HeldOut(32))
        return *epoch(after, tuple(map(jnp.asarray, tiny_data()))), record

    state, info, record = made(before)
    assert not record.mask.all()
    return Pause(state, info, record, before, before.mask)


def plain(tree):
    """Leaves that numpy can compare."""
    leaves = jax.tree.leaves(tree)
    is_key = lambda leaf: jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)  # noqa: E731
    return [np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf) for leaf in leaves]


def test_a_pause_comes_back_whole(tmp_path):
    one = pause()
    back = pause_from(pause_arrays(one), one.state, tmp_path)
    assert back is not None
    assert jax.tree.structure(back) == jax.tree.structure(one)
    pairs = zip(plain(back), plain(one), strict=True)
    assert all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)  # nothing was measured here
    assert pause_from(state_arrays(one.state), one.state, tmp_path) is None  # of a whole epoch


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        (lambda array: array[:-1], r"float32\[24\]"),
        (lambda array: array.astype(np.float64), r"float64\[25\]"),
        (lambda array: None, "nothing"),
    ],
)
def test_a_state_of_another_kind_is_refused(changed, found, tmp_path):
    state = pause().state
    arrays = state_arrays(state)
    arrays["posterior.mean"] = changed(arrays["posterior.mean"])
    with pytest.raises(RunError, match=rf"posterior\.mean should be float32\[25\], found {found}"):
        state_from({name: array for name, array in arrays.items() if array is not None}, state, tmp_path)


def test_every_number_counts(tmp_path):
    """One bit of one number, which no other check would miss."""
    path = tmp_path / "arrays.safetensors"
    save_arrays(path, {"a": np.arange(5, dtype=np.float32)}, {})
    assert np.array_equal(load_arrays(path)[0]["a"], np.arange(5))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(RunError, match="its content does not match its digest"):
        load_arrays(path)


def test_a_line_cut_short_is_left_out(tmp_path):
    folder = RunFolder(tmp_path)
    for epoch in (1, 2):
        folder.append("metrics.jsonl", {"epoch": epoch})
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"epoch": 3')
    assert folder.metrics() == [{"epoch": 1}, {"epoch": 2}]


def test_a_full_disk_leaves_the_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomic(path, b"the old one")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files_module.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomic(path, b"half of the new one")
    assert path.read_bytes() == b"the old one"
    assert os.listdir(tmp_path) == ["file"]


def test_a_lock_is_held_by_one(tmp_path):
    with RunLock(tmp_path), pytest.raises(RunError, match=f"is being written by process {os.getpid()}"):
        RunLock(tmp_path).__enter__()
    with RunLock(tmp_path):
        pass
