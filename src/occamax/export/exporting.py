"""A trained network as a file, checked and measured before it is written."""

import gzip
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ..errors import ExportError
from ..storage import write_atomic
from ..structure.compaction import Kept, count, count_nonzero
from ..structure.graph import Graph
from .hastening import Hastened, LatencyLimit, hastened
from .instead import Instead, quantised, sizes_of
from .measuring import Seconds, figures_of, in_parts, interleaved, on_all_cores
from .posterior_file import pack
from .predictor import FORMATS, HEADER, Predict, open_export
from .rounding import Rounding
from .sized import bytes_of, of_rounding, refuse_ruin, rounded_source
from .source import (
    Exportable,
    arrays_of,
    as_if_unpruned,
    examples_of,
    named,
    smaller,
    trace,
    trained,
    with_draws,
)
from .writing import write

PARITY = 1e-4  # largest difference of a probability, float32 in another order of summation
PARITY_INT8 = 0.005  # mean difference of a probability, where whole numbers are multiplied
COMPARED_SECONDS = 3.0  # how long the trained network is asked what the file should say
TESTED_SECONDS = 60.0  # how long a file that numpy runs is asked about the test set
RIVAL_SECONDS = 3.0  # how long the dense network in int8 is asked about the test set
TIMED_SECONDS = 0.6  # of calls in turn, for each batch size
BATCHES = (1, 128)  # examples in a call that is timed

Figures = Callable[[np.ndarray], dict[str, float]]  # of answers about the first test examples


@dataclass(frozen=True)
class Measured:
    """The dense network beside the exported one, in the same runtime."""

    numbers: tuple[int, int]
    nonzero: tuple[int, int]
    bytes: tuple[int, int]
    zipped: tuple[int, int]  # of the dense network as if nothing had been removed, and of the file
    zipped_masked: int  # of the dense network with zeros for what was removed
    milliseconds: dict[int, tuple[float, float]]  # by batch size
    difference: float  # the largest between the trained network and the file
    difference_of: str
    compared: int  # on so many examples
    figures: dict[str, float]  # of the file, on the test set
    tested: int  # on so many examples of it
    units: list[Kept]
    temperature: float | None = None  # by which the file divides the outputs of the network at the posterior mean
    loss: float | None = None  # nats that rounding costs, over the data set
    loss_examples: int = 0  # training examples that it was measured on; without any the posterior predicts it
    levels: tuple[int, ...] = ()  # values of each layer's codebook
    removed: int = 0  # weights that became zero when they were rounded
    figures_before: dict[str, float] | None = None  # of the network as it was
    tested_before: int = 0  # on so many examples of the test set, as long as they took
    is_thread_time: bool = False  # milliseconds of the computing thread: other work on the machine does not count
    milliseconds_float: dict[int, tuple[float, float]] | None = None  # of the same in float32, and of the file in int8
    hastened: Hastened | None = None  # what a latency cost
    instead: Instead | None = None  # onnxruntime's own int8 of the dense network
    no_instead: str = ""  # why there is none
    tempered: float | None = None  # the KL weight of a posterior that was not trained at one
    drawn: int = 0  # networks in the file, where they were drawn from the posterior
    averaged: int = 1  # networks in the file, each at its posterior mean

    def as_data(self) -> dict[str, Any]:
        """Sizes, latencies and figures as plain values, the dense network's before the file's."""
        names = "numbers", "nonzero", "bytes", "zipped", "zipped_masked", "difference", "compared", "figures", "tested"
        found = {**{name: getattr(self, name) for name in names}, "milliseconds": _by_name(self.milliseconds)}
        if self.instead is None:
            return found | {"no_int8_by_onnxruntime": self.no_instead}
        beside = {**self.instead._asdict(), "milliseconds": _by_name(self.instead.milliseconds)}
        return found | {"int8_by_onnxruntime": beside}


def _by_name(milliseconds: dict[int, Any]) -> dict[str, Any]:
    return {str(size): value for size, value in milliseconds.items()}


def export_network(
    source: Exportable,
    out: Path,
    form: str,
    with_posterior: bool = False,
    rounding: Rounding | None = None,
    draws: int | None = None,
    limit: LatencyLimit | None = None,
) -> Measured:
    """Compacts a network at its posterior mean and writes it, `with_posterior` also the means and deviations of what
    survived; as exactly as `rounding` says, as they are unless it is given; without as many units as a `limit` on its
    latency takes; or so many `draws` from the posterior. A file that does not say what the network says, or cannot be
    read back, is not written."""
    rounding = rounding or Rounding(bits=32)  # as they are
    _check_names(out, form, with_posterior, draws, rounding.int8, limit is not None)
    program = trace(source)
    exact = replace(source, card=named(source, program))
    exact = exact if draws is None else with_draws(exact, draws)
    faster, cost = (exact, None) if limit is None else hastened(exact, program, limit, form, rounding)
    if limit is not None and rounding.max_bytes is None:
        rounding = replace(rounding, max_loss=None)  # what may be lost was for the units
    source, losses = rounded_source(faster, program, rounding, form, with_posterior)
    posterior = pack(source.model, source.believed, program, source.rounded) if with_posterior else None
    dense = program.bind(arrays_of(exact.model, exact.mean, exact.believed.mask))
    small, units = smaller(source, program)
    with _temporary(form) as files:
        for file, graph in ((files[0], dense), (files[2], program.bind(as_if_unpruned(exact)))):
            write(file, graph, source.card, as_usual=True)
        write(files[1], small, source.card, posterior, int8=rounding.int8)
        if rounding.int8:
            write(files[3], small, source.card)
        found = _measured(source, files, program, dense, limit, rounding.int8)
        found |= of_rounding(losses) | _before(exact, program, changed=cost is not None or bool(losses))
        refuse_ruin(exact, found, rounding)
        card = replace(source.card, figures=found["figures"])  # those of the file
        write(files[1], small, card, posterior, int8=rounding.int8)
        open_export(files[1], threads=1)  # what is kept can be read
        contents = [file.read_bytes() for file in files[:3]]
    _save(out, contents[1])
    found |= _sizes(form, contents, dense, small) | _said_of(source)
    return Measured(units=units, hastened=cost, **found)


def _said_of(source: Exportable) -> dict[str, Any]:
    """What networks the file holds. A temperature is told that all have."""
    counts = {"drawn": len(source.drawn), "averaged": 1 + len(source.others)}
    own = {source.temperature, *(other.temperature for other, _ in source.others)}
    return {"temperature": own.pop() if len(own) == 1 else None, "tempered": source.tempered, **counts}


def _sizes(form: str, contents: list[bytes], dense: Graph, small: Graph) -> dict[str, Any]:
    """Of the dense file, the small one and the one as if nothing had been pruned; and of what the first two hold."""
    zipped = [len(gzip.compress(content, 6)) for content in contents]
    sizes = bytes_of(form, contents[0]), bytes_of(form, contents[1])
    counts = {"numbers": (count(dense), count(small)), "nonzero": (count_nonzero(dense), count_nonzero(small))}
    return {"bytes": sizes, "zipped": (zipped[2], zipped[1]), "zipped_masked": zipped[0], **counts}


@contextmanager
def _temporary(form: str) -> Iterator[list[Path]]:
    """Names of the dense file, the small one, one as if nothing had been pruned, the small one in float32; and of the
    dense one in ONNX, and that in int8."""
    try:
        with TemporaryDirectory() as place:
            own = [f"{name}.{form}" for name in ("dense", "small", "unpruned", "floats")]
            yield [Path(place) / name for name in (*own, "dense.onnx", "int8.onnx")]
    except OSError as error:
        raise ExportError(f"the temporary folder cannot be written ({error.strerror or error}); free space") from error


def _before(source: Exportable, program: Graph, changed: bool) -> dict[str, Any]:
    """The figures of the network before it was changed for the file, if it was."""
    if not changed or source.test is None:
        return {}
    answers = in_parts(trained(source), examples_of(source, program), COMPARED_SECONDS)
    figures = figures_of(answers, np.asarray(source.test[1]), source.is_classes)
    return {"figures_before": figures, "tested_before": len(answers)}


def _check_names(out: Path, form: str, with_posterior: bool, draws: int | None, int8: bool, has_limit: bool) -> None:
    if form not in (*FORMATS, HEADER):
        raise ExportError(f"--format: {form!r} given; choose one of {', '.join((*FORMATS, HEADER))}")
    if out.suffix != f".{form}":
        raise ExportError(f"--out: {out} should end in .{form}, so that `occamax predict` knows what it is")
    if with_posterior and form != "safetensors":
        raise ExportError(f"--posterior: a .{form} file holds networks only. Choose --format safetensors, or --draws.")
    if draws is not None and form == "safetensors":
        raise ExportError("--draws: safetensors holds the whole posterior; give --posterior, or choose --format onnx")
    if int8 and form != "onnx":
        raise ExportError(f"--int8: a .{form} file holds weights, not how they are multiplied; choose --format onnx")
    if has_limit and form == "safetensors":
        raise ExportError("--latency: who reads a .safetensors file decides how fast it is; choose --format onnx or c")
    if has_limit and draws is not None:
        raise ExportError("--latency: it is one network's, not that of draws; leave --draws out")


def _save(out: Path, content: bytes) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(out, content)
    except OSError as error:
        raise ExportError(f"--out: {out} cannot be written ({error.strerror or error})") from error


def _measured(
    source: Exportable, files: list[Path], program: Graph, dense: Graph, limit: LatencyLimit | None, int8: bool
) -> dict[str, Any]:
    """What was read back is what is measured, and compared with the trained network. What computes in one thread is
    timed in its own time: on a busy machine a long call waits for others more often than a short one."""
    before, after = (open_export(file, threads=1)[0] for file in files[:2])
    inputs = examples_of(source, program)
    expected = in_parts(trained(source), inputs, COMPARED_SECONDS)
    is_onnx = files[1].suffix == ".onnx"
    found = on_all_cores(after, inputs) if is_onnx else in_parts(after, inputs, TESTED_SECONDS, 500)
    compared = min(len(found), len(expected))
    differences = _differences(source, expected[:compared], found[:compared])
    what = "of a probability" if source.is_classes else "as a share of the targets' deviation"
    _check_parity(differences, what, int8)
    sizes = BATCHES if limit is None else (*BATCHES, limit.batch)
    is_thread_time = files[1].suffix != ".safetensors"  # numpy takes several
    clock = time.thread_time if is_thread_time else time.perf_counter
    asks = {"dense": before, "file": after}
    if int8:
        asks["floats"] = open_export(files[3], threads=1)[0]
    rival = quantised(dense, source.card, files[4], files[5], inputs[:1])
    if not isinstance(rival, str):
        asks["instead"] = rival
    times = _timed(asks, inputs, sorted(set(sizes)), clock)

    def beside(first: str) -> dict[int, tuple[float, float]]:
        return {size: (laps[first], laps["file"]) for size, laps in times.items()}

    def figures(answers: np.ndarray) -> dict[str, float]:
        return {} if source.test is None else figures_of(answers, np.asarray(source.test[1]), source.is_classes)

    return {
        "milliseconds": beside("dense"),
        "milliseconds_float": beside("floats") if int8 else None,
        "difference": float(differences.max()),
        "difference_of": what,
        "compared": compared,
        "figures": figures(found),
        "tested": 0 if source.test is None else len(found),
        "is_thread_time": is_thread_time,
    } | _instead(rival, files[5], inputs, times, figures)


def _instead(
    rival: Predict | str, file: Path, inputs: np.ndarray, times: dict[int, dict[str, float]], figures: Figures
) -> dict[str, Any]:
    """What the dense network is in int8, or why there is none."""
    if isinstance(rival, str):
        return {"no_instead": rival}
    answers, laps = on_all_cores(rival, inputs, RIVAL_SECONDS), {size: own["instead"] for size, own in times.items()}
    return {"instead": Instead(*sizes_of(file), laps, figures(answers), len(answers))}


def _check_parity(differences: np.ndarray, what: str, int8: bool) -> None:
    """Refuses a file that does not say what the network says."""
    difference = float(differences.max())
    if int8:
        if not differences.mean() <= PARITY_INT8:
            raise ExportError(
                f"--int8: the file differs from the trained network by {differences.mean():.2g} {what} on average; "
                "nothing was written. Leave --int8 out."
            )
    elif not difference <= PARITY:
        raise ExportError(f"the file differs from the trained network by {difference:.2g} {what}; nothing was written")


def _timed(
    asks: dict[str, Predict], inputs: np.ndarray, sizes: list[int], clock: Seconds
) -> dict[int, dict[str, float]]:
    """Milliseconds of a call of each, by batch size; all in turn, so that other work meets them all."""
    batches = {size: np.resize(inputs, (size, *inputs.shape[1:])) for size in sizes}
    laps = {size: interleaved(list(asks.values()), some, TIMED_SECONDS, clock) for size, some in batches.items()}
    return {size: dict(zip(asks, found, strict=True)) for size, found in laps.items()}


def _differences(source: Exportable, expected: np.ndarray, found: np.ndarray) -> np.ndarray:
    if found.shape != expected.shape:
        raise ExportError(f"the file answers with shape {found.shape}, the network with {expected.shape}")
    scale: Any = 1.0
    if not source.is_classes:
        scale = np.asarray(getattr(source.model.likelihood, "scale", 1.0))
        if source.test is not None:
            deviation = source.test[1].reshape(-1, expected.shape[1]).astype(np.float64).std(0)
            scale = np.where(deviation > 0, deviation, scale)
    return np.abs(found.astype(np.float64) - expected) / scale
