"""`occamax export`: a run as a file, checked and measured before it is written."""

import gzip
import math
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import __version__
from ..errors import ExportError
from ..experiment import NETWORKS, Experiment, RunFolder, restore
from ..inference.model import Model
from ..storage import write_atomic
from .card import Card
from .compact import Kept, compact, count, count_nonzero
from .convert import to_chain
from .posterior_file import pack
from .predictor import FORMATS, Predict, open_export, write

PARITY = 1e-4  # largest difference of a probability, float32 in another order of summation
COMPARED_SECONDS = 3.0  # how long the trained network is asked what the file should say


@dataclass(frozen=True)
class Measured:
    """The dense network beside the exported one, in the same runtime."""

    numbers: tuple[int, int]
    nonzero: tuple[int, int]
    bytes: tuple[int, int]
    zipped: tuple[int, int]
    milliseconds: dict[int, tuple[float, float]]  # by batch
    difference: float  # the largest of a probability between the masked network and the file
    compared: int  # on so many images of the test set
    accuracy: tuple[float, float]  # on those, of the masked network and of the file
    test_accuracy: float  # of the file, on the whole test set
    units: list[Kept]


def export(run: Path, form: str, out: Path, data_dir: Path | None = None, with_posterior: bool = False) -> Measured:
    """Compacts a run's network at its posterior mean and writes it, `with_posterior` also the means and deviations of
    what survived. A file that does not say what the network says, or cannot be read back, is not written."""
    if form not in FORMATS:
        raise ExportError(f"--format: {form!r} given; choose one of {', '.join(FORMATS)}")
    if out.suffix != f".{form}":
        raise ExportError(f"--out: {out} should end in .{form}, so that `occamax predict` knows what it is")
    if with_posterior and form == "onnx":
        raise ExportError("--posterior: an ONNX file holds one network. Choose --format safetensors or npz.")
    folder = RunFolder.open(run)
    experiment, state = restore(folder, data_dir)
    posterior = pack(experiment.model, state) if with_posterior else None
    network = eqx.filter_jit(experiment.model.bind)(state.posterior.point, state.mask)
    dense = to_chain(network)
    small, units = compact(dense)
    card, test = describe_run(folder, experiment), experiment.dataset.test
    pixels, targets = test.inputs, test.targets
    with TemporaryDirectory() as place:
        files = [Path(place) / f"{name}.{form}" for name in ("dense", "small")]
        write(files[0], dense, card, as_usual=True)
        write(files[1], small, card, posterior=posterior)
        contents = [file.read_bytes() for file in files]
        before, after = (open_export(file, threads=1)[0] for file in files)  # what was read back is what is measured
        masked = _in_parts(_network_predictor(experiment.model, network), pixels, COMPARED_SECONDS)
        found = _on_all_cores(after, pixels) if form == "onnx" else _in_parts(after, pixels, size=500)
        milliseconds = {batch: latencies(before, after, pixels[:batch]) for batch in (1, 128)}
    difference = float(np.abs(found[: len(masked)] - masked).max())
    if not difference <= PARITY:
        raise ExportError(
            f"the file differs from the trained network by {difference:.2g} in a probability; nothing was written"
        )
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(out, contents[1])
    except OSError as error:
        raise ExportError(f"--out: {out} cannot be written ({error.strerror})") from error
    return Measured(
        (count(dense), count(small)),
        (count_nonzero(dense), count_nonzero(small)),
        (len(contents[0]), len(contents[1])),
        (len(gzip.compress(contents[0], 6)), len(gzip.compress(contents[1], 6))),
        milliseconds,
        difference,
        len(masked),
        (_accuracy(masked, targets), _accuracy(found[: len(masked)], targets)),
        _accuracy(found, targets),
        units,
    )


def describe_run(folder: RunFolder, experiment: Experiment) -> Card:
    """What the file will say of itself."""
    config, dataset = folder.config(), experiment.dataset
    prepare = dataset.standardise(NETWORKS[config.network].image_size)
    is_finished = (folder.path / "summary.json").is_file()
    summary = folder.read_json("summary.json") if is_finished else {}
    names = ("accuracy", "nll", "ece", "sparsity", "kl_weight")
    figures = {name: summary[name] for name in names if name in summary}
    return Card(
        dataset.class_names,
        dataset.shape,
        prepare.mean,
        prepare.std,
        prepare.pad,
        __version__,
        config.as_dict(),
        figures,
    )


def _network_predictor(model: Model, network: Any) -> Predict:
    """The trained network itself, in float32 whatever it was trained in, as the file is."""
    network = eqx.nn.inference_mode(network)
    predict = jax.jit(jax.vmap(lambda image: jax.nn.softmax(network(model.preprocess(image)))))
    return lambda pixels: np.asarray(predict(jnp.asarray(pixels)))


def _on_all_cores(predict: Predict, pixels: np.ndarray, size: int = 16) -> np.ndarray:
    """The answers about all images of what computes on one core; few at a time, which stay in a core's cache."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return np.concatenate(list(pool.map(predict, [pixels[i : i + size] for i in range(0, len(pixels), size)])))


def _in_parts(predict: Predict, pixels: np.ndarray, seconds: float = math.inf, size: int = 100) -> np.ndarray:
    """The answers about all images, or about the first that are answered within so many seconds."""
    began, found = time.perf_counter(), []
    for i in range(0, len(pixels), size):
        found.append(predict(pixels[i : i + size]))
        if time.perf_counter() - began > seconds:
            break
    return np.concatenate(found)


def _accuracy(probabilities: np.ndarray, targets: np.ndarray) -> float:
    return float(np.mean(probabilities.argmax(1) == targets[: len(probabilities)]))


def latencies(before: Predict, after: Predict, pixels: np.ndarray, seconds: float = 0.6) -> tuple[float, float]:
    """Milliseconds of one call of each, the median of interleaved calls."""
    laps: tuple[list[float], list[float]] = ([], [])
    for predict in (before, after):
        predict(pixels)
    began = time.perf_counter()
    while time.perf_counter() - began < seconds or len(laps[0]) < 3:
        for predict, own in zip((before, after), laps, strict=True):
            start = time.perf_counter()
            predict(pixels)
            own.append(time.perf_counter() - start)
    return 1e3 * float(np.median(laps[0])), 1e3 * float(np.median(laps[1]))
