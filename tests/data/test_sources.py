"""Data files, intact and broken, in the layouts their authors publish. The server is on this machine."""

import gzip
import hashlib
import http.server
import io
import struct
import tarfile
import threading
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from occamax.data import SOURCES, find, load, load_data
from occamax.data._sorted import sort_images, unsort_images
from occamax.data._sources import CifarSource, Download, IdxSource
from occamax.errors import ArgumentError, DataError

SMALL = IdxSource("small", "small", ("a", "b", "c"), counts=(6, 4), side=5)
CIFAR = CifarSource("little", "little-bin", ("a", "b"), 2, ("one.bin", "two.bin"), "test.bin", records=2, side=4)


def idx_bytes(array):
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def idx_files(seed=0):
    rng = np.random.default_rng(seed)
    arrays = [array for n in SMALL.counts for array in (rng.integers(0, 256, (n, 5, 5)), rng.integers(0, 3, n))]
    return {name: gzip.compress(idx_bytes(array)) for name, array in zip(SMALL.files, arrays, strict=True)}, arrays


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def test_idx_files_are_read(tmp_path):
    files, (images, labels, test_images, test_labels) = idx_files()
    write(tmp_path / "small", files)
    dataset = load(SMALL, tmp_path)
    assert dataset.shape == (1, 5, 5)
    assert np.array_equal(dataset.train.inputs[:, 0], images)
    assert np.array_equal(dataset.train.targets, labels)
    assert np.array_equal(dataset.test.inputs[:, 0], test_images)
    assert np.array_equal(dataset.test.targets, test_labels)


def test_cifar_records_are_read(tmp_path):
    rng = np.random.default_rng(0)
    records = {name: rng.integers(0, 2, (n, 2 + 48)) for name, n in (("one.bin", 5), ("two.bin", 5), ("test.bin", 2))}
    write(tmp_path / "little-bin", {name: array.astype(np.uint8).tobytes() for name, array in records.items()})
    dataset = load(CIFAR, tmp_path)
    assert dataset.train.inputs.shape == (10, 3, 4, 4)
    assert np.array_equal(dataset.train.targets[5:], records["two.bin"][:, 1])  # the fine label
    assert np.array_equal(dataset.test.inputs[1].ravel(), records["test.bin"][1, 2:])


def break_it(files, how):
    name = SMALL.files[0]
    content = gzip.decompress(files[name])
    broken = {
        "truncated archive": lambda: files[name][:-20],
        "truncated content": lambda: gzip.compress(content[:-3]),
        "too long": lambda: gzip.compress(content + b"x"),
        "wrong magic": lambda: gzip.compress(b"\x01\x02\x03\x04" + content[4:]),
        "huge declared size": lambda: gzip.compress(content[:4] + struct.pack(">3I", 2**31, 5, 5) + content[16:]),
        "empty": lambda: b"",
        "no gzip": lambda: b"hello" * 100,
    }
    return {**files, name: broken[how]()}


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("truncated archive", "cannot be read"),
        ("truncated content", "holds 163 bytes, expected 166"),
        ("too long", "more than 166 bytes"),
        ("wrong magic", "starts with 01020304"),
        ("huge declared size", r"declares shape \(2147483648, 5, 5\), expected \(6, 5, 5\)"),
        ("empty", "train-images"),
        ("no gzip", "cannot be read"),
    ],
)
def test_a_broken_file_is_named_with_what_was_found(tmp_path, how, says):
    files, _ = idx_files()
    write(tmp_path / "small", break_it(files, how))
    with pytest.raises(DataError, match=says) as caught:
        load(SMALL, tmp_path)
    assert "train-images-idx3-ubyte.gz" in str(caught.value)
    assert "Delete it" in str(caught.value)


def test_a_label_out_of_range_is_named(tmp_path):
    files, _ = idx_files()
    files[SMALL.files[1]] = gzip.compress(idx_bytes(np.array([0, 1, 2, 7, 0, 0])))
    write(tmp_path / "small", files)
    with pytest.raises(DataError, match="label 7, but there are 3 classes"):
        load(SMALL, tmp_path)


def test_a_cifar_file_of_the_wrong_size_is_named(tmp_path):
    write(tmp_path / "little-bin", {"one.bin": bytes(250), "two.bin": bytes(249), "test.bin": bytes(100)})
    with pytest.raises(DataError, match=r"two.bin: holds 249 bytes, expected 250"):
        load(CIFAR, tmp_path)


@pytest.fixture
def server():
    """Files over HTTP on the loopback interface."""
    files = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            content = files.get(self.path)
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}", files
        running.shutdown()


def online(source, address, files):
    digests = {name: hashlib.md5(content).hexdigest() for name, content in files.items()}
    return replace(source, downloads=tuple(Download(f"{address}/{name}", digests[name]) for name in files))


def test_a_set_is_downloaded_checked_and_kept(tmp_path, server, capsys):
    address, served = server
    files, (images, *_) = idx_files()
    served.update({f"/{name}": content for name, content in files.items()})
    source = online(SMALL, address, files)
    assert find(source, tmp_path) is None
    assert np.array_equal(load(source, tmp_path).train.inputs[:, 0], images)
    assert find(source, tmp_path) == tmp_path / "small"
    served.clear()  # a second time nothing is asked for
    load(source, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["small"]


def test_an_archive_is_unpacked_by_name(tmp_path, server, capsys):
    address, served = server
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, size in (("x/one.bin", 250), ("x/two.bin", 250), ("x/test.bin", 100), ("../../evil.txt", 3)):
            member = tarfile.TarInfo(name)
            member.size = size
            archive.addfile(member, io.BytesIO(bytes(size)))
    files = {"little.tar.gz": buffer.getvalue()}
    served["/little.tar.gz"] = files["little.tar.gz"]
    data_dir = tmp_path / "a" / "b"
    data_dir.mkdir(parents=True)
    dataset = load(online(CIFAR, address, files), data_dir)
    assert len(dataset.train) == 10
    assert {p.name for p in tmp_path.rglob("*") if p.is_file()} == {"one.bin", "two.bin", "test.bin"}


def test_a_wrong_checksum_leaves_nothing(tmp_path, server, capsys):
    address, served = server
    files, _ = idx_files()
    source = online(SMALL, address, files)
    served.update({f"/{name}": content + b"!" for name, content in files.items()})
    with pytest.raises(DataError, match="not the published file"):
        load(source, tmp_path)
    assert not list(tmp_path.iterdir())


def test_offline_says_where_to_put_the_files(tmp_path, capsys):
    files, _ = idx_files()
    source = online(SMALL, "http://127.0.0.1:9", files)  # the discard port: nobody listens
    with pytest.raises(DataError, match=r"cannot be reached.*small/.*--data-dir") as caught:
        load(source, tmp_path)
    assert SMALL.files[0] in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_the_environment_names_a_folder(tmp_path, monkeypatch):
    files, _ = idx_files()
    write(tmp_path / "small", files)
    monkeypatch.setenv("OCCAMAX_DATA", str(tmp_path))
    assert find(SMALL) == tmp_path / "small"


def test_a_data_dir_that_is_none_is_refused(tmp_path):
    with pytest.raises(DataError, match="no folder"):
        load(SMALL, tmp_path / "nowhere")


def test_an_unknown_name_lists_the_known_and_the_nearest():
    with pytest.raises(ArgumentError, match=r"fashion_mini, fashion_mnist.*Did you mean cifar10"):
        load_data("cifar")


def test_the_embedded_set():
    dataset = load_data("fashion_mini")
    assert dataset.train.inputs.shape == (10000, 1, 28, 28)
    assert dataset.test.inputs.shape == (2000, 1, 28, 28)
    assert np.array_equal(np.unique(dataset.train.targets), np.arange(10))
    digests = [hashlib.sha256(split.inputs.tobytes()).hexdigest() for split in (dataset.train, dataset.test)]
    assert digests == [  # of the first images as they were published
        "2929ae1c7b89e0ee6587bbe4911fd5f0a5dafe21ae6ed9b737173cbfe20c12c9",
        "09bbac78738f0229a68f7ca74e62665d7fb34f45ea7a3509ab5c4a202c1370de",
    ]
    size = sum((SOURCES["fashion_mini"].system_folder / f).stat().st_size for f in SOURCES["fashion_mini"].files)
    assert size < 4.2e6


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 3, 4), (40, 6, 5)])
def test_sorted_images_come_back(shape):
    """Noise, and few values, of which many are equal."""
    random = np.random.default_rng(0)
    for values in (256, 3):
        images = (255 * random.integers(0, values, shape) // (values - 1)).astype(np.uint8)
        pixels = sort_images(images)
        assert np.array_equal(np.sort(pixels, axis=None), np.sort(images, axis=None))
        assert np.array_equal(unsort_images(pixels), images)
    assert not np.array_equal(sort_images(images), images) or images.size == 1


def test_standardised_inputs_have_mean_zero_and_deviation_one():
    dataset = load_data("fashion_mini")
    pixels = dataset.train.inputs[:500] / 255.0
    whole = dataset.train.inputs / 255.0
    found = np.stack([dataset.standardise()(jnp.asarray(image)) for image in dataset.train.inputs[:500]])
    assert np.allclose(found, (pixels - whole.mean()) / whole.std(), atol=1e-4)


def test_padding_adds_black_before_standardising():
    dataset = load_data("fashion_mini")
    image = jnp.asarray(dataset.train.inputs[0])
    padded, plain = dataset.standardise(32)(image), dataset.standardise()(image)
    assert padded.shape == (1, 32, 32)
    assert jnp.array_equal(padded[:, 2:-2, 2:-2], plain)
    (mean,), (std,) = dataset.statistics
    assert np.allclose(padded[:, :2], -mean / std)


def test_cifar100_has_a_hundred_names():
    assert len(set(SOURCES["cifar100"].class_names)) == 100


def test_held_out_examples_are_training_examples_and_no_others():
    whole = load_data("fashion_mini")
    split = whole.hold_out(1000, seed=3)
    assert (len(split.train), len(split.test)) == (len(whole.train) - 1000, 1000)
    train, test, both = ({image.tobytes() for image in part.inputs} for part in (split.train, split.test, whole.train))
    assert not train & test
    assert train | test == both
    assert np.array_equal(whole.hold_out(1000, seed=3).test.targets, split.test.targets)
    few = whole.first(10)
    assert np.array_equal(few.train.inputs, whole.train.inputs[:10])
    assert few.test is whole.test
    for bad in (0, len(whole.train) + 1):
        with pytest.raises(ArgumentError, match="count"):
            whole.first(bad)
        with pytest.raises(ArgumentError, match="count"):
            whole.hold_out(bad)
