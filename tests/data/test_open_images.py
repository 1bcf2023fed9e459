"""Images that are decoded when a batch needs them are those that are read into memory."""

import numpy as np
import pytest
from PIL import Image

import occamax as ox
from occamax.data import _image_stream, reopen
from occamax.errors import DataError

KINDS = ("dark", "light")


@pytest.fixture
def folder(tmp_path):
    """Grey and colour, PNG and JPEG, of several sizes."""
    rng = np.random.default_rng(0)
    for kind in KINDS:
        (tmp_path / kind).mkdir()
        for i in range(30):
            shape = (8 + i % 3, 7, 3)[: 2 + i % 2]
            pixels = rng.integers(0, 128, shape) + 127 * (kind == "light")
            suffix = ("png", "jpg")[i % 2]
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / kind / f"{i:02}é.{suffix}")
    return tmp_path


def test_the_examples_are_those_of_memory_in_the_same_order(folder):
    memory, stream = ox.load_data(folder, size=(8, 6), seed=3), ox.open_images(folder, size=(8, 6), seed=3)
    rows = np.random.default_rng(1).integers(0, len(stream), (2, 3, 20))  # several times the same
    for part, own in ((memory.train, stream), (memory.test, stream.test)):
        assert len(part) == len(own)
        assert np.array_equal(part.targets, own.targets)
        assert np.array_equal(part.inputs, own.take(np.arange(len(own)))[0])
    assert np.array_equal(memory.train.inputs[rows], stream.take(rows)[0])
    assert stream.class_names == memory.class_names
    assert stream.standardise() == memory.standardise()
    for name in ("ignored", "unused", "resized", "colour", "transparency_dropped", "test", "options"):
        assert stream.origin[name] == memory.origin[name]


def test_a_test_folder_is_the_test_set(folder, tmp_path_factory):
    above = tmp_path_factory.mktemp("above")
    for part in ("train", "test"):
        (above / part).mkdir()
    (folder / "dark").rename(above / "train" / "dark")
    (folder / "light").rename(above / "train" / "light")
    (above / "test" / "light").mkdir()
    Image.new("L", (6, 8), 200).save(above / "test" / "light" / "0.png")
    memory, stream = ox.load_data(above, size=(8, 6)), ox.open_images(above, size=(8, 6))
    assert (len(stream), len(stream.test)) == (60, 1)
    assert np.array_equal(memory.test.inputs, stream.test.take(np.arange(1))[0])
    assert stream.test.targets.tolist() == [1]


def test_only_what_is_asked_for_is_decoded(folder):
    stream = ox.open_images(folder, size=8)
    images = stream.inputs[0]
    for row in range(10, len(stream)):
        (images.folders[int(images.classes[row])] / images.names[row].decode()).unlink()
    assert stream.take(np.arange(10))[0].shape == (10, 3, 8, 8)


def test_a_damaged_image_is_named(folder, monkeypatch):
    """By its header at once, else when it is read; and so is one that is gone or another by then."""
    monkeypatch.setattr(_image_stream, "SAMPLED", 2)
    path = folder / "light" / "07é.jpg"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - 40])  # the header is as it was
    stream = ox.open_images(folder, size=8, seed=1)
    everything = ((part, np.arange(len(part))) for part in (stream.test, stream))
    with pytest.raises(DataError, match=r"07é\.jpg: cannot be read as PNG or JPEG"):
        [part.take(rows) for part, rows in everything]
    path.unlink()
    with pytest.raises(DataError, match=r"07é\.jpg: cannot be read as PNG or JPEG"):
        [part.take(np.arange(len(part))) for part in (stream.test, stream)]
    path.write_bytes(b"nonsense")
    with pytest.raises(DataError, match=r"07é\.jpg: cannot be read as PNG or JPEG"):
        ox.open_images(folder, size=8)
    path.unlink()
    with pytest.raises(DataError, match=r"é\.(png|jpg): . × 7 pixels, but .* Give all one size"):
        ox.open_images(folder)


def test_an_image_that_became_another_is_named(tmp_path):
    for kind in KINDS:
        (tmp_path / kind).mkdir()
        for i in range(2):
            Image.new("L", (6, 8), 90).save(tmp_path / kind / f"{i}.png")
    stream = ox.open_images(tmp_path)
    for path in tmp_path.glob("*/*.png"):
        Image.new("L", (6, 9)).save(path)
    with pytest.raises(DataError, match=r"png: 9 × 6 pixels, grey; it was another image when"):
        stream.take(np.arange(2))


def test_it_is_opened_again_unless_a_file_changed(folder):
    stream = ox.open_images(folder, size=8)
    again = reopen(stream.origin)
    assert again.origin == stream.origin
    image = Image.open(folder / "dark" / "04é.png")
    image.putpixel((3, 3), 255)
    image.save(folder / "dark" / "04é.png")
    with pytest.raises(DataError, match="dark holds as much as before, but other contents"):
        reopen(stream.origin)
