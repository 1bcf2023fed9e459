"""Bad input: thousands of damaged files and strange words, each of which must end in an error of ours.

    python benchmarks/fuzz.py [--count 5000] [--seed 0]

Takes a small run with its exports, toy data sets, a user's own table, arrays and class folders, and some images, and
damages one file at a time: flipped bits, cut ends, foreign content, edited headers, bombs. It counts what was refused,
what was still right, and what was read though it may have changed (pictures, a user's own data and a run's own figures
have no digest). Wrong answers, errors that are not ours and what
took over ten seconds are printed with the number to repeat them by; it exits with 1 if there were any.
"""

import argparse
import contextlib
import gzip
import io
import json
import random
import shutil
import struct
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from typer.testing import CliRunner

from occamax.cli import app
from occamax.data import Dataset, load_data
from occamax.data._sources import CifarSource, IdxSource
from occamax.errors import OccamaxError
from occamax.export.images import read_images
from occamax.export.predictor import open_export, open_posterior
from occamax.fitting import Fit, fit, load
from occamax.methods import PaperBMR
from occamax.networks import NETWORKS
from occamax.report import read_groups

SLOW = 10.0  # seconds
FINE = ("refused", "right", "read")
UNCHECKED = "read"  # what has no digest (pictures, a user's data, a run's own figures) may be changed and still be read


@dataclass
class Ground:
    """What is damaged: a folder of good files, and how each is read. A reader returns something comparable."""

    folder: Path
    readers: dict[str, tuple[Path, Callable[[Path], Any]]]  # kind → file, reader of the folder it is in
    right: dict[str, Any]


def prepare(folder: Path) -> Ground:
    rng = np.random.default_rng(0)
    run = folder / "run"
    trained = _trained(run)
    for form in ("onnx", "safetensors"):
        trained.export(run / f"x.{form}", posterior=form == "safetensors", bits=4)  # chosen bits take longer
    pixels = trained.test_set()[0][:2]
    card = open_export(run / "x.safetensors")[1]
    idx, cifar = _toy_sets(folder, rng)
    images = folder / "images"
    images.mkdir(exist_ok=True)
    for name in ("a.png", "a.jpg", "a.bmp"):
        Image.fromarray(pixels[0, 0]).save(images / name)
    np.savez_compressed(images / "a.npz", images=pixels)
    _own_data(folder, pixels, rng)

    def exported(name: str) -> Callable[[Path], Any]:
        return lambda place: open_export(place / name)[0](pixels).round(4).tolist()

    def drawn(name: str) -> Callable[[Path], Any]:
        return lambda place: open_posterior(place / name, 1)[1].as_json()

    def seen(name: str) -> Callable[[Path], Any]:
        # a picture has no digest: any picture of the right size is a right answer
        return lambda place: (
            [what if isinstance(what, str) else what.shape for _, what in read_images([place / name], card)] and None
        )

    def arrays(found: Dataset) -> Any:
        return [part.inputs.shape + part.targets.shape for part in (found.train, found.test)]

    def state(place: Path) -> Any:
        with contextlib.redirect_stderr(io.StringIO()):
            return np.asarray(load(place).state.posterior.point)[:5].tolist()

    def settings(place: Path) -> Any:
        return UNCHECKED if [group.curve("accuracy") for group in read_groups([place])] and load(place) else None

    def groups(place: Path) -> Any:
        return UNCHECKED if [group.curve("accuracy") for group in read_groups([place])] else None

    def opened(name: str, **options: Any) -> Callable[[Path], Any]:
        # nor has a user's own data: what is read is of the right kind
        return lambda place: UNCHECKED if arrays(load_data(place / name, **options)) else None

    readers: dict[str, tuple[Path, Callable[[Path], Any]]] = {
        "checkpoint": (run / "checkpoint.safetensors", state),
        "config": (run / "config.json", settings),
        "metrics": (run / "metrics.jsonl", groups),
        "summary": (run / "summary.json", groups),
        "onnx": (run / "x.onnx", exported("x.onnx")),
        "safetensors": (run / "x.safetensors", exported("x.safetensors")),
        "posterior": (run / "x.safetensors", drawn("x.safetensors")),
        "png": (images / "a.png", seen("a.png")),
        "jpg": (images / "a.jpg", seen("a.jpg")),
        "bmp": (images / "a.bmp", seen("a.bmp")),
        "images": (images / "a.npz", seen("a.npz")),
        "idx images": (folder / "idx" / idx.files[0], lambda place: arrays(idx.read(place))),
        "idx labels": (folder / "idx" / idx.files[1], lambda place: arrays(idx.read(place))),
        "cifar": (folder / "cifar" / cifar.files[0], lambda place: arrays(cifar.read(place))),
        "table": (folder / "table" / "t.csv", opened("t.csv", target="kind")),
        "arrays": (folder / "arrays" / "t.npz", opened("t.npz")),
        "image of a class": (folder / "classes" / "0-0.png", lambda place: _class_folder(place)),
    }
    return Ground(folder, readers, {kind: read(path.parent) for kind, (path, read) in readers.items()})


def _trained(run: Path) -> Fit:
    """A small run. Its network is one of ours, so that it can be loaded from its folder alone."""
    dataset = load_data("fashion_mini").first(200)
    dataset = replace(dataset, test=dataset.test.rows(slice(50)))
    options: dict[str, Any] = {"epochs": 2, "steps_per_epoch": 2, "batch_size": 8, "num_samples": 1}
    network = NETWORKS["lenet-300-100"]
    return fit(network, dataset, PaperBMR(), out=run, overwrite=run.exists(), progress=False, **options)


def _own_data(folder: Path, pixels: np.ndarray, rng: np.random.Generator) -> None:
    """A table, an archive of arrays, and images in class folders, as a user may have them."""
    for name in ("table", "arrays", "classes"):
        (folder / name).mkdir(exist_ok=True)
    lines = [f"{a:.3f},{b:.3f},{'xy'[int(a > b)]}" for a, b in rng.normal(size=(30, 2))]
    (folder / "table" / "t.csv").write_text("\n".join(["first,second,kind", *lines, ""]))
    x = rng.integers(0, 256, (20, 1, 6, 6)).astype(np.uint8)
    np.savez_compressed(folder / "arrays" / "t.npz", x=x, y=np.arange(20) % 2)
    for number in range(8):
        Image.fromarray(x[number, 0]).save(folder / "classes" / f"{number % 2}-{number // 2}.png")


def _class_folder(place: Path) -> Any:
    """Flat here, so that one file is damaged as the others are; class folders while it is read."""
    with tempfile.TemporaryDirectory() as name:
        for file in place.iterdir():
            (Path(name) / file.name[0]).mkdir(exist_ok=True)
            shutil.copy(file, Path(name) / file.name[0] / file.name)
        found = load_data(name, test_share=0.25)
        return UNCHECKED if found.train.inputs.size else None


def _toy_sets(folder: Path, rng: np.random.Generator) -> tuple[IdxSource, CifarSource]:
    idx = IdxSource("toy", "idx", ("a", "b", "c"), counts=(20, 10), side=4)
    (folder / "idx").mkdir(exist_ok=True)
    for i, count in enumerate(idx.counts):
        for name, shape, most in ((idx.files[2 * i], (count, 4, 4), 256), (idx.files[2 * i + 1], (count,), 3)):
            header = struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape)
            content = header + rng.integers(0, most, shape).astype(np.uint8).tobytes()
            (folder / "idx" / name).write_bytes(gzip.compress(content))
    cifar = CifarSource("toy", "cifar", ("a", "b", "c"), 1, ("one.bin",), "test.bin", records=4, side=2)
    (folder / "cifar").mkdir(exist_ok=True)
    for name, count in (("one.bin", 20), ("test.bin", 4)):
        records = rng.integers(0, 3, (count, 13)).astype(np.uint8)
        (folder / "cifar" / name).write_bytes(records.tobytes())
    return idx, cifar


def damage(content: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """One of many ways to spoil a file."""
    size = len(content)
    start = rng.randrange(max(size, 1))
    length = rng.choice([1, 4, 16, rng.randrange(1, max(size, 2))])
    noise = rng.randbytes(min(length, 4096))
    tail = content[start + length :]
    ways: list[Callable[[], bytes]] = [
        lambda: bytes([*content[:start], content[start] ^ (1 << rng.randrange(8)), *content[start + 1 :]]),
        lambda: content[:start],
        lambda: content[start:],
        lambda: content + noise,
        lambda: content[:start] + noise + tail,
        lambda: content[:start] + bytes(length) + tail,
        lambda: content[:start] + b"\xff" * length + tail,
        lambda: content[:start] + content[start : start + length] + content[start:],
        lambda: rng.choice(others),
        lambda: b"",
        lambda: noise,
    ]
    return rng.choice(ways)() if size else noise


def damage_text(content: bytes, rng: random.Random) -> bytes:
    """JSON that is still JSON, with something else in it."""
    strange = [None, -1, 0, 10**30, 1e308, float("nan"), "", "x" * 1000, [], {}, True, [[1]], "../../etc/passwd"]
    lines = content.decode().splitlines()
    at = rng.randrange(len(lines)) if lines and lines[0].endswith("}") else None
    try:
        values = json.loads(lines[at] if at is not None else content)
    except ValueError:
        return content[: rng.randrange(len(content) + 1)]
    key = rng.choice(sorted(values)) if values else "x"
    way = rng.randrange(3)
    if way == 0:
        values[key] = rng.choice(strange)
    elif way == 1:
        values.pop(key, None)
    else:
        values[rng.choice(["extra", "seed ", "Data"])] = rng.choice(strange)
    text = json.dumps(values)
    return "\n".join([*lines[:at], text, *lines[at + 1 :], ""]).encode() if at is not None else text.encode()


def damage_safetensors(content: bytes, rng: random.Random) -> bytes:
    """A header that says something else."""
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + size])
    name = rng.choice(sorted(header))
    entry = header[name]
    if name == "__metadata__":
        entry[rng.choice(sorted(entry))] = rng.choice(["", "{}", "[]", "nonsense", '{"stage": "os.system"}'])
    else:
        field = rng.choice(["dtype", "shape", "data_offsets"])
        entry[field] = rng.choice([[0], [2**62], [-1, 4], [], ["a"], [0, 2**60], [10**12, 10**12], "F64", "I8"])
    text = json.dumps(header).encode()
    length = rng.choice([len(text), len(text), 2**62, 0, len(text) + 10**9])
    return struct.pack("<Q", length) + text + content[8 + size :]


def bomb(rng: random.Random) -> bytes:
    """A small archive that says it is, or is, a large one; or whose names lead elsewhere."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        way = rng.randrange(3)
        if way == 0:
            archive.writestr("images.npy", _npy((2**40,), b""))
        elif way == 1:
            archive.writestr("../../evil.npy", _npy((4,), bytes(4)))
        else:
            archive.writestr("images.npy", _npy((2**27,), bytes(2**20)))
    return buffer.getvalue()


def _npy(shape: tuple[int, ...], content: bytes) -> bytes:
    header = repr({"descr": "|u1", "fortran_order": False, "shape": shape}).encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


def words(rng: random.Random) -> list[str]:
    """A command line that cannot be meant."""
    strange = ["", "-1", "0", "nan", "1e9", "☃", "x" * 300, "--", "/", "..", "fashion_mini ", "None", "1/0", "5/2"]

    usual = ["train", "fashion_mini", "mlp", "bmr"]

    def s() -> str:
        return rng.choice(strange)

    return rng.choice(
        [
            ["train", s(), "mlp", "bmr"],
            ["train", "fashion_mini", s(), "bmr"],
            ["train", "fashion_mini", "mlp", s()],
            ["train", "fashion_mini", "mlp", "flat", "--sparsity", s()],
            ["train", "fashion_mini", "mlp", "bmr", "--epochs", rng.choice(["0", "-3", "x", ""])],
            ["train", "fashion_mini", "mlp", "bmr", "--sparsity", rng.choice(["-1", "2", "nan", "x"])],
            ["train", "fashion_mini", "mlp", "bmr", "--unit-price", rng.choice(["-1", "nan", "x"])],
            [*usual, "--set", rng.choice(["", "=", "a=1", "prior=", "prior.gain=x", s()])],
            [*usual, "--augment", rng.choice(["crop=-1", "crop=0", "blur", ":", "a:b", s()])],
            [*usual, "--precision", rng.choice(["float99", "int8", "", s()])],
            ["train", "fashion_mini", rng.choice([":", "os:", ":x", "os:sep", "json:dumps", "a.b:c"]), "bmr"],
            ["train", rng.choice(["a.csv", "a.npz", "./fashion_mini", ".", "/dev/null"]), "mlp", "bmr"],
            ["train", "mnist", "mlp", "bmr", "--data-dir", "/nowhere/at/all"],
            ["evaluate", s()],
            ["report", s(), s()],
            ["export", s(), "--format", s()],
            ["predict", s(), s()],
            ["reproduce", "--data", "nothing", "--networks", s()],
            ["reproduce", "--shard", rng.choice(["", "0/1", "3/2", "a/b", "1", "-1/2"])],
            ["reproduce", "--seeds", rng.choice(["0", "-1", "x"])],
            [s(), s()],
        ]
    )


def one_case(ground: Ground, number: int, place: Path) -> tuple[str, str]:
    """Kind of input and what became of it: refused, right, or something that must not be."""
    rng = random.Random(number)
    kinds = [*ground.readers, "words", "bomb"]
    kind = kinds[number % len(kinds)]
    if kind == "words":
        shutil.rmtree(place / "a", ignore_errors=True)
        (place / "a" / "b").mkdir(parents=True)
        with contextlib.chdir(place / "a" / "b"):  # nothing here, nothing above: no word can be meant
            result = CliRunner().invoke(app, words(rng))
        error = result.exception
        return kind, "refused" if isinstance(error, OccamaxError | SystemExit) else _strange(error, "it was accepted")
    if kind == "bomb":
        target = rng.choice(["images", "arrays"])
        path, read = ground.readers[target]
        content = bomb(rng)
    else:
        target = kind
        path, read = ground.readers[kind]
        content = path.read_bytes()
        others = [other.read_bytes() for other, _ in ground.readers.values()]
        if path.suffix in (".json", ".jsonl") and rng.random() < 0.7:
            content = damage_text(content, rng)
        elif path.suffix == ".safetensors" and rng.random() < 0.4:
            content = damage_safetensors(content, rng)
        else:
            content = damage(content, rng, others)
    spoiled = place / path.parent.name
    shutil.rmtree(spoiled, ignore_errors=True)
    shutil.copytree(path.parent, spoiled)
    if kind == "checkpoint":
        (spoiled / "checkpoint.previous.safetensors").unlink(missing_ok=True)
    (spoiled / path.name).write_bytes(content)
    before = {file.relative_to(place) for file in place.rglob("*")}
    try:
        found = read(spoiled)
    except OccamaxError:
        return kind, "refused"
    except Exception as error:  # exactly what must not happen
        return kind, _strange(error, "")
    if {file.relative_to(place) for file in place.rglob("*")} != before:
        return kind, "WRONG: files appeared"
    if found == UNCHECKED:
        return kind, UNCHECKED
    return kind, "right" if found == ground.right[target] else "WRONG: another answer"


def _strange(error: BaseException | None, otherwise: str) -> str:
    if error is None:
        return f"WRONG: {otherwise}"
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"TRACEBACK: {type(error).__name__}: {str(error)[:80]} ({Path(where.filename).name}:{where.lineno})"


def fuzz(ground: Ground, numbers: range, say: Callable[[str], None] = print) -> Counter[str]:
    """Runs the cases; counts outcomes and says what must not be."""
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        for number in numbers:
            began = time.perf_counter()
            kind, outcome = one_case(ground, number, Path(name))
            if time.perf_counter() - began > SLOW:
                outcome = f"SLOW: {time.perf_counter() - began:.0f} s"
            outcomes[outcome.split(":")[0]] += 1
            if outcome not in FINE:
                say(f"case {number}, {kind}: {outcome}")
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0, help="the number of the first case")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        outcomes = fuzz(prepare(Path(name)), range(options.seed, options.seed + options.count))
    print(f"{options.count} inputs: " + ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items())))
    sys.exit(1 if set(outcomes) - set(FINE) else 0)


if __name__ == "__main__":
    main()
