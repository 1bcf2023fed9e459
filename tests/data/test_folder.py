"""Folders of images, as people have them."""

import io
import json
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from occamax.data import load_data, reopen
from occamax.data._images import parts_of
from occamax.errors import ArgumentError, DataError


def write_image(path, value=0, size=(4, 6), mode="RGB", seed=0):
    """Random pixels, the first of them `value`; size is (height, width)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = size if mode == "L" else (*size, len(mode))
    pixels = np.random.default_rng((value, seed)).integers(0, 256, shape).astype(np.uint8)
    pixels.reshape(-1)[0] = value
    Image.fromarray(pixels).save(path)
    return pixels


@pytest.fixture
def root(tmp_path):
    """Ten cats and five dogs, numbered in their first pixel."""
    for i in range(10):
        write_image(tmp_path / "pets" / "cat" / f"{i}.png", i)
    for i in range(10, 15):
        write_image(tmp_path / "pets" / "dog" / f"{i}.PNG", i)
    return tmp_path / "pets"


def numbers(split):
    return split.inputs[:, 0, 0, 0].tolist()


def test_class_folders_are_classes(root):
    (root / "cat" / ".DS_Store").write_bytes(b"x")
    (root / "cat" / "notes.txt").write_text("x")
    (root / "readme.md").write_text("x")
    data = load_data(root)
    assert data.class_names == ("cat", "dog")
    assert data.name == "pets"
    assert (data.shape, data.train.inputs.dtype) == ((3, 4, 6), np.uint8)
    assert np.bincount(data.test.targets).tolist() == [2, 1]
    assert sorted(numbers(data.train) + numbers(data.test)) == list(range(15))
    for split in (data.train, data.test):
        assert [int(number >= 10) for number in numbers(split)] == split.targets.tolist()
    assert data.origin["ignored"] == 3
    assert len(np.unique(data.first(8).train.targets)) == 2  # shuffled


def test_pixels_arrive_as_they_were(tmp_path):
    pixels = write_image(tmp_path / "a" / "1.png", 7)
    write_image(tmp_path / "b" / "1.png", 9)
    write_image(tmp_path / "b" / "2.png", 8)
    data = load_data(tmp_path)
    found = data.train.inputs[data.train.inputs[:, 0, 0, 0] == 7][0]
    assert np.array_equal(np.moveaxis(found, 0, -1), pixels)


def test_a_split_depends_on_the_names_and_the_seed_alone(root, tmp_path):
    whole = load_data(root, seed=1)
    other = tmp_path / "copy"
    for name in ("dog", "cat"):  # written in another order
        for path in sorted((root / name).iterdir(), reverse=True):
            (other / name).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, other / name)
    again = load_data(other, seed=1)
    assert np.array_equal(again.train.inputs, whole.train.inputs)
    assert np.array_equal(again.test.inputs, whole.test.inputs)
    assert again.origin["files"] == whole.origin["files"]
    assert numbers(load_data(root, seed=2).train) != numbers(whole.train)


@pytest.mark.parametrize("test", ["test", "val", "validation", "valid"])
def test_train_and_test_folders_are_kept_apart(tmp_path, test):
    for i in range(4):
        write_image(tmp_path / "train" / "ab"[i % 2] / f"{i}.png", i)
    write_image(tmp_path / test / "b" / "4.png", 4)
    data = load_data(tmp_path)
    assert sorted(numbers(data.train)) == [0, 1, 2, 3]
    assert (numbers(data.test), data.test.targets.tolist()) == ([4], [1])
    assert data.origin["test"] == test
    write_image(tmp_path / test / "strange" / "5.png", 5)
    with pytest.raises(DataError, match="class strange"):
        load_data(tmp_path)


def test_a_class_may_be_called_train(tmp_path):
    for name in ("bus", "train"):
        for i in range(2):
            write_image(tmp_path / name / f"{i}.png", i)
    assert load_data(tmp_path).class_names == ("bus", "train")
    assert parts_of(tmp_path)[0] == {"train": tmp_path}


def test_both_validation_and_test_are_there(tmp_path):
    for part in ("train", "val", "test"):
        for i, name in enumerate("ab"):
            write_image(tmp_path / part / name / "1.png", i)
    data = load_data(tmp_path)
    assert (data.origin["test"], data.origin["unused"]) == ("test", ["val"])


def test_grey_stays_grey_and_mixed_becomes_colour(tmp_path):
    for name in "ab":
        for i in range(3):
            write_image(tmp_path / name / f"{i}.png", i, mode="L")
    data = load_data(tmp_path)
    assert (data.shape, data.origin["colour"]) == ((1, 4, 6), "grey")
    write_image(tmp_path / "a" / "colour.png", 99, mode="RGBA")
    mixed = load_data(tmp_path)
    assert mixed.shape == (3, 4, 6)
    assert mixed.origin["colour"] == "mixed, all made colour: 6 grey, 1 colour"
    assert mixed.origin["transparency_dropped"] == 1
    grey = mixed.train.inputs[mixed.train.inputs[:, 0, 0, 0] != 99]
    assert np.array_equal(grey[:, 0], grey[:, 2])


def test_sizes_must_agree_or_be_given(root, unchecked):
    write_image(root / "cat" / "large.jpg", size=(8, 12))
    with pytest.raises(DataError, match=r"large.jpg: 8 × 12 pixels, but .*0.png has 4 × 6.*size=\(4, 6\)"):
        load_data(root)
    data = load_data(root, size=(4, 6))
    assert (data.shape, data.origin["resized"]) == ((3, 4, 6), 1)
    assert load_data(root, size=5).shape == (3, 5, 5)
    for bad in (0, (3,), "big", (2.5, 3), True):
        with pytest.raises(ArgumentError, match="size"):
            load_data(root, size=bad)


def test_a_photograph_is_turned_as_its_camera_says(tmp_path):
    for name in "ab":
        for i in range(2):
            write_image(tmp_path / name / f"{i}.png", i, size=(6, 4))
    image = Image.fromarray(np.zeros((4, 6, 3), np.uint8))
    exif = image.getexif()
    exif[0x0112] = 6  # a quarter turn
    image.save(tmp_path / "a" / "turned.jpg", exif=exif)
    assert load_data(tmp_path).shape == (3, 6, 4)


def png(mode="RGB"):
    buffer = io.BytesIO()
    Image.fromarray(np.zeros((4, 6, 3), np.uint8)).convert(mode).save(buffer, "PNG")
    return buffer.getvalue()


@settings(max_examples=40, deadline=None)
@given(cut=st.integers(0, 60), place=st.integers(0, 70), byte=st.integers(0, 255))
def test_a_broken_image_is_named_or_is_no_loss(tmp_path_factory, cut, place, byte):
    root = tmp_path_factory.mktemp("broken")
    for name in "ab":
        for i in range(2):
            write_image(root / name / f"{i}.png", i)
    content = bytearray(png()[: len(png()) - cut])
    content[min(place, len(content) - 1)] = byte
    (root / "b" / "bad.png").write_bytes(content)
    said = ""
    try:
        data = load_data(root)
    except DataError as error:
        said = str(error)
    assert "bad.png" in said if said else len(data.train) + len(data.test) == 5
    shutil.rmtree(root)


def test_other_faults_of_a_folder_are_named(root, tmp_path):
    def fails(says):
        with pytest.raises(DataError, match=says):
            load_data(root)

    (root / "cat" / "bad.png").write_bytes(b"")
    fails("bad.png: is empty. Replace it")
    (root / "cat" / "bad.png").write_bytes(b"GIF89a" + bytes(50))
    fails("bad.png: cannot be read as PNG or JPEG")
    Image.fromarray(np.zeros((4, 6), np.uint16)).save(root / "cat" / "bad.png")
    fails("bad.png: .*mode I;16.*8 bits")
    (root / "cat" / "bad.png").unlink()
    (root / "empty").mkdir()
    fails("empty: a class folder without")
    (root / "empty" / "inner").mkdir()
    fails("inner: a folder inside a class folder")
    shutil.rmtree(root / "empty")
    shutil.rmtree(root / "dog")
    fails("one class folder, cat")
    shutil.rmtree(root / "cat")
    fails("holds no folders.*one folder of PNG or JPEG images per class")
    np.save(root / "inputs.npy", np.zeros(3))
    fails("open_arrays")


def test_options_that_mean_nothing_are_refused(root):
    for options in ({"target": "cat"}, {"task": "regression"}, {"task": "sorting"}, {"test_share": 1.0}, {"seed": -1}):
        with pytest.raises(ArgumentError, match=next(iter(options))):
            load_data(root, **options)
    with pytest.raises(ArgumentError, match=r"size: .* named data set"):
        load_data("fashion_mini", size=32)


def test_a_folder_is_opened_again_and_changes_are_said(root, tmp_path):
    data = load_data(root, size=3, seed=4, test_share=0.4).hold_out(3)
    origin = json.loads(json.dumps(data.origin))
    assert origin == data.origin
    again = reopen(origin)
    for ours, theirs in ((again.train, data.train), (again.test, data.test)):
        assert np.array_equal(ours.inputs, theirs.inputs)
        assert np.array_equal(ours.targets, theirs.targets)
    assert again.origin == origin
    moved = tmp_path / "elsewhere" / "pets"
    moved.parent.mkdir()
    root.rename(moved)
    with pytest.raises(DataError, match="no such file or folder"):
        reopen(origin)
    assert np.array_equal(reopen(origin, moved.parent).train.inputs, data.train.inputs)
    write_image(moved / "cat" / "0.png", 0, seed=5)
    with pytest.raises(DataError, match="cat holds as much as before, but other"):
        reopen(origin, moved.parent)
    (moved / "dog" / "10.PNG").unlink()
    with pytest.raises(DataError, match="dog held 5 images, now 4"):
        reopen(origin, moved.parent)
    write_image(moved / "fox" / "1.png")
    with pytest.raises(DataError, match="fox is new"):
        reopen(origin, moved.parent)


def test_paths_that_lead_nowhere_are_said(tmp_path, unchecked):
    with pytest.raises(DataError, match=r"no\.csv: no such file"):
        load_data("no.csv")
    with pytest.raises(DataError, match="no such file"):
        load_data(tmp_path / "mnist")
    with pytest.raises(ArgumentError, match="path"):
        load_data(3)
    (tmp_path / "data.xlsx").write_bytes(b"x")
    with pytest.raises(DataError, match=r"\.xlsx; a folder of images"):
        load_data(tmp_path / "data.xlsx")
