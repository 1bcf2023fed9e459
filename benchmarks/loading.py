"""Images that memory does not hold: how much memory they take, how fast they are read, and whether training waits.

    python benchmarks/loading.py [--images 128000] [--side 96] [--batch 128] [--rounds 3] [--out FILE]
    python benchmarks/loading.py --table FILE

JPEG files are made in a temporary folder, and a quarter of them once more in another. Memory is the peak of a process
that trains a small network with `bmr` on the folder, as `ox.open_images` gives it, and on the quarter also as
`ox.load_data` does. Speed is of reading batches of the quarter alone, by our threads and by grain (`pip install grain`)
with threads and with processes, all by the same function: a second pass, after a first that is not timed, the median of
interleaved rounds in changing order. Waiting is the share of the steps' time in which the loop has asked for images and
does not have them, and how much longer the steps take than from memory; nothing is pruned there, so that only steps are
timed.
"""

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import equinox as eqx
import jax
import numpy as np
import trials
from PIL import Image

import occamax as ox
from occamax.data._image_stream import Images
from occamax.experiment.environment import environment
from occamax.experiment.feeder import Feeder

CLASSES, PARTS = 4, ("few", "many")
EPOCHS, STEPS = 4, 200  # so many steps that what is read while an epoch is measured counts for little
NETWORKS = {"small": (16,), "large": (1024, 1024)}  # hidden units


def make(folder: Path, images: int, side: int) -> None:
    """So many in `many`, and every fourth of them in `few` as well."""
    rng = np.random.default_rng(0)
    for i in range(images):
        kind = str(i // 4 % CLASSES)
        small = rng.integers(0, 200, (8, 8, 3)) + 14 * int(kind)
        for part in PARTS[i % 4 > 0 :]:
            (folder / part / kind).mkdir(parents=True, exist_ok=True)
        path = folder / "many" / kind / f"{i}.jpg"
        Image.fromarray(small.astype(np.uint8)).resize((side, side), Image.Resampling.BICUBIC).save(path, quality=90)
        if i % 4 == 0:
            os.link(path, folder / "few" / kind / path.name)


class Pooled(eqx.Module):
    """Means of 8 × 8 pixels, and an MLP on them: no step could be much cheaper than the small one's."""

    mlp: ox.MLP

    def __init__(self, shape: tuple[int, ...], hidden: tuple[int, ...]):
        channels, height, width = shape
        self.mlp = ox.MLP((channels * (height // 8) * (width // 8),), CLASSES, hidden, key=jax.random.key(0))

    def __call__(self, x: jax.Array) -> jax.Array:
        channels, height, width = x.shape
        return self.mlp(x.reshape(channels, height // 8, 8, width // 8, 8).mean((2, 4)).ravel())


def fit(data: Any, batch: int, method: ox.Method, network: str = "small", **options: Any) -> Any:
    return ox.fit(
        Pooled(data.shape, NETWORKS[network]), data, method, steps_per_epoch=STEPS, batch_size=batch, num_samples=2,
        progress=False, **options,
    )  # fmt: skip


def alone(folder: Path, how: str, batch: int) -> dict[str, Any]:
    """What a process of its own says that does nothing else."""
    words = [sys.executable, __file__, "--alone", how, "--folder", str(folder), "--batch", str(batch)]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def say_peak(folder: Path, how: str, batch: int) -> None:
    began = time.process_time()
    data = ox.open_images(folder) if how == "stream" else ox.load_data(folder)
    opened = time.process_time() - began
    fit(data, batch, ox.BMR(), epochs=2)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"peak_mb": round(1e-6 * peak), "open_cpu_seconds": round(opened, 2)}))


class Decoding:
    """What grain maps: the number of an example to its pixels and its class."""

    def __init__(self, images: Images):
        self.images = images

    def __call__(self, row: int) -> tuple[np.ndarray, np.int32]:
        return self.images.one(int(row)), self.images.classes[int(row)]


def ours(stream: ox.Stream, batch: int) -> Iterator[int]:
    rng, size = np.random.default_rng(0), 16 * batch
    order = np.concatenate([rng.permutation(len(stream)) for _ in range(2)])
    for first in range(0, len(order), size):
        yield len(stream.take(order[first : first + size])[1])


def grain(stream: ox.Stream, batch: int, cores: int, processes: int = 0) -> Iterator[int]:
    import grain  # type: ignore[reportMissingImports]
    from absl import flags

    flags.FLAGS(sys.argv[:1])  # which grain's processes ask

    found = grain.MapDataset.range(len(stream)).shuffle(seed=0).repeat(2).map(Decoding(stream.inputs[0])).batch(batch)
    ahead = grain.ReadOptions(num_threads=cores, prefetch_buffer_size=16 if processes else 16 * cores)
    found = found.to_iter_dataset(ahead)
    if processes:
        found = found.mp_prefetch(grain.MultiprocessingOptions(num_workers=processes, per_worker_buffer_size=16))
    for _, classes in found:
        yield len(classes)


def rate(batches: Iterator[int], first_pass: int) -> float:
    """Examples a second, of the second pass."""
    began, seen, count = 0.0, 0, 0
    for length in batches:
        seen, count = seen + length, count + (length if began else 0)
        if not began and seen >= first_pass:
            began = time.perf_counter()
    return count / (time.perf_counter() - began)


def speeds(stream: ox.Stream, batch: int, rounds: int) -> dict[str, list[int]]:
    """Of every round, by loader."""
    cores = os.cpu_count() or 1
    loaders: dict[str, Callable[[], Iterator[int]]] = {"ours": lambda: ours(stream, batch)}
    if find_spec("grain") is not None:
        loaders["grain, threads"] = lambda: grain(stream, batch, cores)
        loaders["grain, processes"] = lambda: grain(stream, batch, 1, cores)
    found: dict[str, list[int]] = {name: [] for name in loaders}
    for turn in range(rounds):
        for name in np.roll(list(loaders), turn).tolist():
            found[name].append(round(rate(loaders[name](), len(stream))))
    return found


def waiting(folder: Path, batch: int, network: str) -> dict[str, float]:
    """The share of waiting, and the time of a step from a stream over that from memory. The first epoch compiles."""
    real, waits, seconds, epochs, share = Feeder.wait_for, [0.0], {}, [], 0.0
    method = replace(ox.BMR(), reduction=None)

    def timed(self: Feeder, first: int) -> Any:
        began = time.perf_counter()
        found = real(self, first)
        waits[-1] += time.perf_counter() - began
        return found

    def on_epoch(epoch: Any) -> None:
        epochs.append(epoch.train_seconds)
        waits.append(0.0)

    with patch.object(Feeder, "wait_for", timed):
        for how, data in {"stream": ox.open_images(folder), "memory": ox.load_data(folder)}.items():
            epochs.clear()
            fit(data, batch, method, network, epochs=EPOCHS, on_epoch=on_epoch, curve_samples=1)
            seconds[how] = float(np.median(epochs[1:]))
            if how == "stream":
                share = float(np.median(np.array(waits[1:EPOCHS]) / epochs[1:]))
    return {
        "steps_per_second": round(STEPS / seconds["memory"], 2),
        "waiting": round(share, 4),
        "over_memory": round(seconds["stream"] / seconds["memory"], 3),
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with TemporaryDirectory() as place:
        folder = Path(place)
        make(folder, options.images, options.side)
        counts = [options.images // 4, options.images]
        line: dict[str, Any] = {"images": counts, "side": options.side, "batch": options.batch, "cores": os.cpu_count()}
        line["decoded_mb"] = [round(3e-6 * options.side**2 * count) for count in counts]
        # first: the peak of a child may begin at that of its parent
        for how, parts in {"stream": PARTS, "memory": PARTS[:1]}.items():
            found = [alone(folder / part, how, options.batch) for part in parts]
            line |= {f"{how}_{name}": [own[name] for own in found] for name in found[0]}
        line["examples_per_second"] = speeds(ox.open_images(folder / "few"), options.batch, options.rounds)
        line["training"] = {name: waiting(folder / "few", options.batch, name) for name in NETWORKS}
    line |= {"rounds": options.rounds, "grain": version("grain") if find_spec("grain") else None}
    return {**line, "settings": ox.BMR().as_data(), "command": trials.command(), **environment()}


def table(lines: list[dict[str, Any]]) -> str:
    rows = [
        [
            f"{count:,}", f"{line['decoded_mb'][i]:,}", f"{line['stream_peak_mb'][i]:,}",
            f"{line['memory_peak_mb'][i]:,}" if i < len(line["memory_peak_mb"]) else "–",
        ]
        for line in lines
        for i, count in enumerate(line["images"])
    ]  # fmt: skip
    return trials.markdown(["images", "MB, decoded", "peak MB, `open_images`", "peak MB, `load_data`"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=128_000)
    parser.add_argument("--side", type=int, default=96)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--alone", choices=("stream", "memory"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        say_peak(options.folder, options.alone, options.batch)
        return
    lines = trials.lines_of(options.table)
    if not options.table:
        lines.append(measure(options))
        print(json.dumps({name: value for name, value in lines[-1].items() if name != "settings"}, indent=1))
        trials.keep(lines[-1], options.out)
    print(table(lines))


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
