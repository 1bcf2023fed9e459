"""A user's .npz files."""

import json
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from occamax.data import load_data, reopen
from occamax.errors import ArgumentError, DataError

X = np.random.default_rng(0).normal(size=(20, 3))
Y = np.arange(20) % 3
WHOLE = [("x", "y"), ("X", "y"), ("inputs", "targets"), ("images", "labels")]
PARTS = [("{0}_{2}", "{1}_{2}"), ("{2}_{0}", "{2}_{1}")]


@settings(max_examples=25, deadline=None)
@given(names=st.sampled_from(WHOLE), forms=st.sampled_from(PARTS), test=st.sampled_from(["test", "val", "", None]))
def test_the_usual_names_are_known(tmp_path_factory, names, forms, test):
    """`test` is the name of the test part; "": there is none; None: the data is whole."""
    path = tmp_path_factory.mktemp("npz") / "data.npz"
    parts = [("train", slice(12)), (test, slice(12, None))] if test else [("train", slice(None))]
    arrays = {form.format(*names, part): a[rows] for part, rows in parts for form, a in zip(forms, (X, Y), strict=True)}
    np.savez(path, **(dict(zip(names, (X, Y), strict=True)) if test is None else arrays))
    data = load_data(path)
    assert data.name == "data"
    assert len(data.train) + len(data.test) == 20
    if test:
        assert np.array_equal(data.train.inputs, X[:12].astype(np.float32))
        assert np.array_equal(data.test.targets, Y[12:])
    assert data.origin["unused"] == []


@pytest.mark.parametrize(
    ("shape", "kind", "found", "axes"),
    [
        ((6, 5, 4, 3), np.uint8, (3, 5, 4), "channels moved"),
        ((6, 5, 4, 1), np.uint8, (1, 5, 4), "channels moved"),
        ((6, 5, 4, 3), np.float32, (3, 5, 4), "channels moved"),
        ((6, 3, 4, 3), np.uint8, (3, 4, 3), "as they are"),
        ((6, 3, 5, 4), np.uint8, (3, 5, 4), "as they are"),
        ((6, 5, 4), np.uint8, (1, 5, 4), "channel axis added"),
        ((6, 5, 4), np.float32, (5, 4), "as they are"),
    ],
)
def test_channels_come_second(tmp_path, shape, kind, found, axes):
    x = np.random.default_rng(0).integers(0, 255, shape).astype(kind)
    np.savez(tmp_path / "a.npz", x_train=x, y_train=[[0], [1]] * 3, x_test=x, y_test=[[0], [1]] * 3)
    data = load_data(tmp_path / "a.npz")
    assert data.shape == found
    assert axes in data.origin["axes"]
    data.standardise()(data.train.inputs[0])
    if axes == "channels moved":
        assert np.array_equal(data.train.inputs[2, 0], x[2, :, :, 0])


def test_tasks_and_names(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=X, y=Y, class_names=np.array(["a", "b", "c"]), more=X)
    assert load_data(path).class_names == ("a", "b", "c")
    assert load_data(path).origin["unused"] == ["more"]
    np.savez(path, x=X, y=Y)
    assert not load_data(path, task="regression").is_classification
    np.savez(path, x=X, y=Y.astype(float))
    assert not load_data(path).is_classification
    assert load_data(path, task="classification").class_names == ("0", "1", "2")
    np.savez(path, x=X, y=Y + 0.5)
    with pytest.raises(DataError, match=r"a\.npz: targets: row 0 .*0.5; classes are whole"):
        load_data(path, task="classification")
    for options in ({"target": "y"}, {"size": 4}):
        with pytest.raises(ArgumentError, match=f"{next(iter(options))}: .*npz"):
            load_data(path, **options)


def test_faults_are_named(tmp_path):
    path = tmp_path / "a.npz"

    def fails(says):
        with pytest.raises(DataError, match=says) as caught:
            load_data(path)
        assert str(path) in str(caught.value)

    np.savez(path, a=X, b=Y)
    fails("holds a, b; it must hold x and y")
    np.savez(path, x=X, y=Y[:3])
    fails("20 inputs, 3 targets")
    np.savez(path, x=np.where(np.arange(20)[:, None] == 7, np.nan, X), y=Y)
    fails("row 7 .*nan")
    np.savez(path, x=X, y=np.array([{}] * 20, object))
    fails("Python objects")
    path.write_bytes(path.read_bytes()[:50])
    fails("cannot be read")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "x")
    fails("holds no arrays")


def test_it_is_opened_again_and_changes_are_said(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=X, y=X[:, :2])
    data = load_data(path, seed=3, test_share=0.5).first(4)
    origin = json.loads(json.dumps(data.origin))
    again = reopen(origin)
    assert np.array_equal(again.train.inputs, data.train.inputs)
    assert np.array_equal(again.test.targets, data.test.targets)
    assert (again.outputs, again.origin) == (2, origin)
    np.savez(path, x=X + 1, y=X[:, :2])
    with pytest.raises(DataError, match=r"a\.npz holds as much as before, but other"):
        reopen(origin)
    np.savez(path, x=X[:10], y=X[:10, :2])
    with pytest.raises(DataError, match=r"a\.npz held \d+ bytes, now \d+"):
        reopen(origin)
