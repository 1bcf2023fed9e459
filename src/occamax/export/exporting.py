"""A trained network as a file, checked and measured before it is written."""

import gzip
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np

from ..errors import ExportError
from ..evaluation.predictive import Believed
from ..evaluation.temperature import with_outputs_divided
from ..inference.likelihoods import Categorical
from ..inference.model import Model
from ..storage import write_atomic
from ..structure.compaction import Kept, compact, count, count_nonzero
from ..structure.graph import Graph
from ..structure.layout import float_leaves
from ..structure.reading import read_graph
from ..structure.unit_search import parameter_names
from . import arrays_file
from .arrays_file import Packed
from .card import Card
from .measuring import figures_of, in_parts, latencies, on_all_cores
from .posterior_file import pack
from .predictor import FORMATS, need, open_export

PARITY = 1e-4  # largest difference of a probability, float32 in another order of summation
COMPARED_SECONDS = 3.0  # how long the trained network is asked what the file should say
TESTED_SECONDS = 60.0  # how long a file that numpy runs is asked about the test set
EXAMPLES = 128  # made up where there are none to compare on


@dataclass(frozen=True)
class Exportable:
    """What an export is made of. **example** is the shape and type of one raw example. **test** raw inputs and targets.
    **inputs** raw examples to compare on where there is no test set; random ones unless given. **temperature** by which
    the outputs of the network at the posterior mean are divided in the file; those of draws are not."""

    model: Model
    believed: Believed
    example: Any
    card: Card
    test: tuple[np.ndarray, np.ndarray] | None = None
    inputs: np.ndarray | None = None
    temperature: float | None = None

    @property
    def mean(self) -> Any:
        """The latents of the network in the file: the posterior mean, at its temperature."""
        posterior, mask, *_ = self.believed
        if self.temperature is not None:
            posterior = with_outputs_divided(self.model, posterior, mask, jnp.float32(self.temperature))
        return posterior.point

    @property
    def is_classes(self) -> bool:
        return isinstance(self.model.likelihood, Categorical)


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

    def as_data(self) -> dict[str, Any]:
        """Sizes, latencies and figures as plain values, the dense network's before the file's."""
        names = "numbers", "nonzero", "bytes", "zipped", "zipped_masked", "difference", "compared", "figures", "tested"
        times = {str(size): list(pair) for size, pair in self.milliseconds.items()}
        return {**{name: getattr(self, name) for name in names}, "milliseconds": times}


def export_network(source: Exportable, out: Path, form: str, with_posterior: bool = False) -> Measured:
    """Compacts a network at its posterior mean and writes it, `with_posterior` also the means and deviations of what
    survived. A file that does not say what the network says, or cannot be read back, is not written."""
    _check_names(out, form, with_posterior)
    program = trace(source)
    source = replace(source, card=_named(source, program))
    posterior = pack(source.model, source.believed, program) if with_posterior else None
    dense = program.bind(arrays_of(source.model, source.mean, source.believed.mask))
    small, units = compact(dense, parameter_names(source.model.network))
    unpruned = program.bind(_as_if_unpruned(source))
    try:
        with TemporaryDirectory() as place:
            files = [Path(place) / f"{name}.{form}" for name in ("dense", "small", "unpruned")]
            write(files[0], dense, source.card, as_usual=True)
            write(files[1], small, source.card, posterior)
            write(files[2], unpruned, source.card, as_usual=True)
            found = _measured(source, files, program)
            write(files[1], small, replace(source.card, figures=found["figures"]), posterior)  # those of the file
            open_export(files[1], threads=1)  # what is kept can be read
            contents = [file.read_bytes() for file in files]
    except OSError as error:
        raise ExportError(f"the temporary folder cannot be written ({error.strerror or error}); free space") from error
    _save(out, contents[1])
    zipped = [len(gzip.compress(content, 6)) for content in contents]
    return Measured(
        numbers=(count(dense), count(small)),
        nonzero=(count_nonzero(dense), count_nonzero(small)),
        bytes=(len(contents[0]), len(contents[1])),
        zipped=(zipped[2], zipped[1]),
        zipped_masked=zipped[0],
        units=units,
        temperature=source.temperature,
        **found,
    )


def _check_names(out: Path, form: str, with_posterior: bool) -> None:
    if form not in FORMATS:
        raise ExportError(f"--format: {form!r} given; choose one of {', '.join(FORMATS)}")
    if out.suffix != f".{form}":
        raise ExportError(f"--out: {out} should end in .{form}, so that `occamax predict` knows what it is")
    if with_posterior and form == "onnx":
        raise ExportError("--posterior: an ONNX file holds one network. Choose --format safetensors.")


def _named(source: Exportable, program: Graph) -> Card:
    """The card, with numbers for the names of classes that have none."""
    card = source.card
    if not source.is_classes or card.class_names is not None:
        return card if source.is_classes else replace(card, class_names=None)
    return replace(card, class_names=tuple(map(str, range(program.shapes[program.outputs[0]][1]))))


def trace(source: Exportable) -> Graph:
    """The program from raw examples to what is expected of the target: probabilities, or a mean in the target's unit.
    Every array of the network is a parameter."""
    model = source.model
    return read_graph(
        model.network,
        source.believed.buffers or model.buffers,
        model.calling,
        source.example,
        model.preprocess,
        model.likelihood.expectation,
    )


def arrays_of(model: Model, latents: Any, mask: Any) -> dict[int, np.ndarray]:
    """The network's arrays for these latents, by the number of their parameter."""
    network = eqx.filter_jit(model.bind)(latents, mask)
    leaves = jtu.tree_leaves(network)
    return {place: np.asarray(leaves[leaf]) for place, leaf in enumerate(float_leaves(network))}


def _as_if_unpruned(source: Exportable) -> dict[int, np.ndarray]:
    """The network with draws from the prior for what was removed: how much a file shrinks that has no zeros."""
    model, mask, point = source.model, source.believed.mask, np.array(source.mean)
    gone = np.flatnonzero(~np.asarray(mask))
    point[gone] = np.random.default_rng(0).normal(size=len(gone)).astype(point.dtype)
    return arrays_of(model, jnp.asarray(point), jnp.ones_like(mask))


def write(path: Path, graph: Graph, card: Card, posterior: Packed | None = None, as_usual: bool = False) -> None:
    """A graph in the format that the path ends in. `as_usual` is for comparison: nothing left out, packed or joined, as
    any exporter would write it."""
    if path.suffix == ".onnx":
        need("onnx")
        from .onnx_file import write_onnx

        write_atomic(path, write_onnx(graph, card, as_usual))
    else:
        arrays_file.write(path, graph, card, not as_usual, posterior)


def _save(out: Path, content: bytes) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(out, content)
    except OSError as error:
        raise ExportError(f"--out: {out} cannot be written ({error.strerror or error})") from error


def _measured(source: Exportable, files: list[Path], program: Graph) -> dict[str, Any]:
    """What was read back is what is measured, and compared with the trained network."""
    before, after = (open_export(file, threads=1)[0] for file in files[:2])
    inputs = _inputs(source, program)
    expected = in_parts(_network(source), inputs, COMPARED_SECONDS)
    is_onnx = files[1].suffix == ".onnx"
    found = on_all_cores(after, inputs) if is_onnx else in_parts(after, inputs, TESTED_SECONDS, 500)
    compared = min(len(found), len(expected))
    difference = _difference(source, expected[:compared], found[:compared])
    what = "of a probability" if source.is_classes else "as a share of the targets' deviation"
    if not difference <= PARITY:
        raise ExportError(f"the file differs from the trained network by {difference:.2g} {what}; nothing was written")
    return {
        "milliseconds": {
            size: latencies(before, after, np.resize(inputs, (size, *inputs.shape[1:]))) for size in (1, 128)
        },
        "difference": difference,
        "difference_of": what,
        "compared": compared,
        "figures": {} if source.test is None else figures_of(found, np.asarray(source.test[1]), source.is_classes),
        "tested": 0 if source.test is None else len(found),
    }


def _difference(source: Exportable, expected: np.ndarray, found: np.ndarray) -> float:
    if found.shape != expected.shape:
        raise ExportError(f"the file answers with shape {found.shape}, the network with {expected.shape}")
    scale: Any = 1.0
    if not source.is_classes:
        scale = np.asarray(getattr(source.model.likelihood, "scale", 1.0))
        if source.test is not None:
            deviation = source.test[1].reshape(-1, expected.shape[1]).astype(np.float64).std(0)
            scale = np.where(deviation > 0, deviation, scale)
    return float((np.abs(found.astype(np.float64) - expected) / scale).max())


def _network(source: Exportable) -> Callable[[np.ndarray], np.ndarray]:
    """The trained network itself, in float32 whatever it was trained in, as the file is. Its outputs are divided where
    they are put out: that the file divides its last layer instead is compared too."""
    model, believed = source.model, source.believed
    network = model.bind(believed.posterior.point, believed.mask)
    buffers = believed.buffers or model.buffers

    @jax.jit
    def ask(inputs: Any) -> Any:
        outputs, _ = model.calling.apply(network, buffers, jax.vmap(model.preprocess)(inputs), None)
        return model.likelihood.expectation(outputs if source.temperature is None else outputs / source.temperature)

    return lambda inputs: np.asarray(ask(jnp.asarray(inputs)))


def _inputs(source: Exportable, program: Graph) -> np.ndarray:
    """Raw examples: of the test set, given ones, or random ones of the type that the network takes."""
    if source.test is not None:
        return np.asarray(source.test[0])
    if source.inputs is not None:
        return np.asarray(source.inputs)
    rng, shape = np.random.default_rng(0), (EXAMPLES, *source.example.shape)
    dtype = np.dtype(source.example.dtype)
    if dtype.kind == "f":
        return rng.normal(size=shape).astype(dtype)
    tables = [program.shapes[node.inputs[0]][node.attributes["axis"]] for node in program.nodes if node.op == "take"]
    highest = 255 if dtype == np.uint8 else min([size for size in tables if size > 0], default=2) - 1
    return rng.integers(0, highest, shape, endpoint=True).astype(dtype)
