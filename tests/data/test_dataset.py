"""A user's arrays: checked, parted, standardised; what is refused is named by its row."""

import json
import subprocess
import sys

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from occamax.data import (
    AsIs,
    Dataset,
    Split,
    Standardise,
    StandardiseColumns,
    dataset_of,
    load_data,
    preprocess_from,
    reopen,
)
from occamax.errors import ArgumentError, DataError


def table(n=40, columns=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(5.0, 3.0, (n, columns)), rng.integers(0, 3, n)


def test_reading_data_does_not_load_jax():
    code = "import sys, occamax.data; print('jax' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_classes_and_regressions_say_what_the_network_must_put_out():
    x, y = table()
    classes = dataset_of((x, y))
    assert (classes.is_classification, classes.outputs, classes.classes) == (True, 3, 3)
    assert classes.class_names == ("0", "1", "2")
    assert (classes.train.inputs.dtype, classes.train.targets.dtype) == (np.float32, np.int32)
    for targets, outputs in ((x[:, 0], 1), (x[:, :2], 2)):
        numbers = dataset_of((x, targets))
        assert (numbers.is_classification, numbers.outputs, numbers.class_names) == (False, outputs, None)
        mean, std = numbers.target_statistics
        whole = numbers.train.targets.reshape(len(numbers.train), -1).astype(np.float64)
        assert np.allclose([mean, std], [whole.mean(0), whole.std(0)])
    with pytest.raises(ArgumentError, match="no classes"):
        _ = numbers.classes
    with pytest.raises(ArgumentError, match="no mean"):
        _ = classes.target_statistics


@settings(max_examples=30, deadline=None)
@given(
    counts=st.lists(st.integers(1, 12), min_size=2, max_size=4),
    share=st.floats(0.05, 0.95),
    seed=st.integers(0, 99),
)
def test_a_split_takes_its_share_of_every_class_and_loses_nothing(counts, share, seed):
    y = np.repeat(np.arange(len(counts)), counts)
    x = np.arange(len(y), dtype=np.float64)[:, None]
    if max(counts) == 1:
        with pytest.raises(ArgumentError, match="no class has two"):
            dataset_of((x, y), test_share=share, seed=seed)
        return
    made = dataset_of((x, y), test_share=share, seed=seed)
    assert sorted([*made.train.inputs[:, 0], *made.test.inputs[:, 0]]) == x[:, 0].tolist()
    for value, count in enumerate(counts):
        tested = int((made.test.targets == value).sum())
        assert tested == min(max(round(share * count), 1), count - 1)
    again = dataset_of((x, y), test_share=share, seed=seed)
    assert again.origin == made.origin


@settings(max_examples=30, deadline=None)
@given(
    row=st.integers(0, 9),
    column=st.integers(0, 2),
    value=st.sampled_from([np.nan, np.inf, -np.inf, 1e300]),
    where=st.sampled_from(["train inputs", "train targets", "test inputs", "test targets"]),
)
def test_what_is_not_finite_is_named_by_its_row(row, column, value, where):
    arrays = {f"{part} {what}": np.ones((10, 3)) for part in ("train", "test") for what in ("inputs", "targets")}
    arrays[where][row, column] = value
    pairs = [tuple(arrays[f"{part} {what}"] for what in ("inputs", "targets")) for part in ("train", "test")]
    with pytest.raises(ArgumentError, match=f"{where}: row {row} .*finite"):
        dataset_of(*pairs)


X, Y = table(10)
BYTES = np.zeros((10, 1, 4, 4), np.uint8)


@pytest.mark.parametrize(
    ("pairs", "options", "says"),
    [
        (((X, Y[:5]),), {}, "10 inputs, 5 targets"),
        (((X[:0], Y[:0]),), {}, "0 inputs"),
        ((X,), {}, "must be a pair"),
        (((X[:, 0], Y),), {}, r"inputs\[:, None\]"),
        (((X.astype(complex), Y),), {}, "complex128 given"),
        (((X, np.eye(10)[:, :, None]),), {}, r"\(n,\) or \(n, outputs\)"),
        (((X, np.eye(10, dtype=int)),), {}, "argmax"),
        (((X, Y - 1),), {}, "holds class -1"),
        (((X, Y),), {"class_names": ("a", "b")}, "holds class 2.*0 to 1"),
        (((X, Y),), {"class_names": "abc"}, "class_names: 'abc'"),
        (((X, Y * 500),), {}, "numbers up to 1000"),
        (((X, Y * 0),), {}, "all are class 0"),
        (((X, X[:, 0]),), {"class_names": ("a", "b")}, "targets are floats"),
        (((X, Y), (X[:, :2], Y)), {}, r"test inputs: examples of float32\[2\]"),
        (((X, Y), (X, X[:, 0])), {}, "targets: int64, float64"),
        (((X, np.array(list("aabbccaabb"))),), {"class_names": ("a", "b")}, "row 4 .*'c'"),
        (((BYTES.astype(np.int64), Y),), {}, "images are uint8"),
        (((np.full((10, 2), 2**40), Y),), {}, "row 0 .*beyond"),
        (((X, Y),), {"test_share": 0}, "test_share: 0"),
        (((X, Y),), {"seed": 1.5}, "seed: 1.5"),
        (((X, Y),), {"feature_names": ("a",)}, "1 names given for 3"),
        ((([[1], [1, 2]], [0, 1]),), {}, "is no array"),
    ],
)
def test_arrays_that_cannot_work_are_refused(pairs, options, says, unchecked):
    with pytest.raises(ArgumentError, match=says):
        dataset_of(*pairs, **options)


def test_texts_are_classes_by_their_sorted_names():
    names = np.array(["dog", "cat", "dog", "cat", "bird", "bird"])
    for targets in (names, names.astype(object), names[:, None]):
        made = dataset_of((np.ones((6, 2)), targets), (np.ones((6, 2)), targets))
        assert made.class_names == ("bird", "cat", "dog")
        assert made.train.targets.tolist() == [2, 1, 2, 1, 0, 0]


@settings(max_examples=20, deadline=None)
@given(shape=st.sampled_from([(3,), (5, 3), (3, 4, 5)]), seed=st.integers(0, 99))
def test_floats_are_standardised_by_column_feature_or_channel(shape, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(3.0, 10.0, (60, *shape))
    made = dataset_of((x, x[(slice(None), *[0] * len(shape))]))
    prepare = made.standardise()
    assert prepare == StandardiseColumns(*made.statistics, axis=0 if len(shape) == 3 else -1)
    found = np.asarray(jax.jit(jax.vmap(prepare))(made.train.inputs), np.float64)
    others = (0, 2, 3) if len(shape) == 3 else tuple(range(len(shape)))
    assert np.allclose(found.mean(others), 0.0, atol=1e-4)
    assert np.allclose(found.std(others), 1.0, atol=1e-4)


def test_a_constant_column_is_not_blown_up():
    x = np.stack([np.full(20, 1e6), np.zeros(20), np.arange(20.0)], 1)
    made = dataset_of((x, np.arange(20) % 2))
    assert made.statistics[1][:2] == (1.0, 1.0)
    assert np.array_equal(made.standardise()(made.train.inputs[0])[:2], [0, 0])


def test_tokens_are_taken_as_they_are_and_bytes_are_images():
    tokens = dataset_of((np.arange(60).reshape(10, 6), Y))
    assert tokens.standardise() == AsIs()
    assert np.array_equal(tokens.standardise()(tokens.train.inputs[0]), tokens.train.inputs[0])
    images = dataset_of((BYTES, Y))
    assert images.train.inputs.dtype == np.uint8
    assert isinstance(images.standardise(), Standardise)
    assert images.standardise(8).pad == 2
    for size, data in ((7, images), (2, images), (8, tokens)):
        with pytest.raises(ArgumentError, match=f"size: {size}"):
            data.standardise(size)
    for strange, says in ((BYTES[:, 0], "channel axis"), (np.moveaxis(np.repeat(BYTES, 3, 1), 1, -1), "moveaxis")):
        with pytest.raises(ArgumentError, match=says):
            dataset_of((strange, Y)).standardise()


@pytest.mark.parametrize(
    "prepare", [Standardise((0.5,), (0.1,), 2), StandardiseColumns((0.1, 3.0), (1.0, 2.0)), AsIs()]
)
def test_preprocessing_is_plain_values_and_back(prepare):
    again = preprocess_from(json.loads(json.dumps(prepare.as_dict())))
    assert again == prepare
    assert hash(again) == hash(prepare)
    assert type(again) is type(prepare)
    with pytest.raises(DataError, match="takes"):
        preprocess_from({**prepare.as_dict(), "colour": 3})
    with pytest.raises(ArgumentError, match="Standardise"):
        preprocess_from({"kind": "Standardize"})


def test_parts_of_a_named_set_are_made_again_from_their_origin():
    part = load_data("fashion_mini").hold_out(1000, seed=3).first(50)
    again = reopen(json.loads(json.dumps(part.origin)))
    assert np.array_equal(again.train.inputs, part.train.inputs)
    assert np.array_equal(again.test.targets, part.test.targets)
    assert again.origin == part.origin


def test_what_cannot_be_opened_again_says_so():
    made = dataset_of((X, Y))
    json.dumps(made.origin)
    other = dataset_of((X + 1e-3, Y))
    assert made.origin["digest"] != other.origin["digest"]
    with pytest.raises(DataError, match="pass the same arrays"):
        reopen(made.origin)
    by_hand = Dataset("mine", Split(X, Y), Split(X, Y), ("a", "b", "c"))
    with pytest.raises(ArgumentError, match="origin"):
        reopen(by_hand.first(3).origin)
    with pytest.raises(DataError, match="damaged"):
        reopen({"kind": "npz"})
