"""A file that predicts: pixels in, probabilities out, whatever the format."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, UInt8

from ..data import Standardise
from ..errors import ExportError
from ..storage import write_atomic
from ..storage.digest import is_intact
from . import arrays_file
from .card import Card
from .chain import Chain
from .posterior_file import Draw, Packed, sampler

FORMATS = ("onnx", "safetensors", "npz")
Predict = Callable[[UInt8[np.ndarray, "n channels height width"]], Float[np.ndarray, "n classes"]]


def write(path: Path, chain: Chain, card: Card, posterior: Packed | None = None, as_usual: bool = False) -> None:
    """A chain in the format that the path ends in. `as_usual` is for comparison: nothing left out, packed or joined, as
    any exporter would write it."""
    if path.suffix == ".onnx":
        _need("onnx")
        from .onnx_file import write_onnx

        write_atomic(path, write_onnx(chain, card, sparse=not as_usual, joined=not as_usual))
    else:
        arrays_file.write(path, chain, card, not as_usual, posterior)


def open_export(path: Path, threads: int = 0) -> tuple[Predict, Card]:
    """What predicts, and what it is. An ONNX file runs on so many threads, 0 for one a core."""
    _refuse_strange(path)
    if path.suffix == ".onnx":
        return onnx_predictor(path, threads)
    chain, card = arrays_file.read(path)
    return chain_predictor(chain, card), card


def open_posterior(path: Path, samples: int) -> tuple[Draw, Card]:
    """What draws networks and averages what they say, and what it is."""
    _refuse_strange(path)
    if samples < 1:
        raise ExportError(f"--samples: {samples} given; it must be a whole number from 1 up")
    if path.suffix == ".onnx":
        raise ExportError("--samples: an ONNX file holds one network. Export to safetensors or npz with --posterior.")
    model, posterior, mask, card = arrays_file.read_posterior(path)
    return sampler(model, posterior, mask, samples), card


def _refuse_strange(path: Path) -> None:
    if not path.is_file():
        raise ExportError(f"FILE: {path} is not there. Name a file that `occamax export` wrote.")
    if path.suffix not in {f".{form}" for form in FORMATS}:
        raise ExportError(f"FILE: {path} has none of the endings {', '.join(f'.{form}' for form in FORMATS)}")


def chain_predictor(chain: Chain, card: Card) -> Predict:
    prepare = Standardise(card.mean, card.std, card.pad)
    network = jax.tree.map(jax.numpy.asarray, chain)
    predict = jax.jit(lambda pixels: jax.vmap(lambda image: jax.nn.softmax(network(prepare(image))))(pixels))
    return lambda pixels: np.asarray(predict(pixels))


def onnx_predictor(path: Path, threads: int = 0) -> tuple[Predict, Card]:
    _need("onnxruntime")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    try:
        content = path.read_bytes()
        session: Any = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common base
        raise ExportError(f"{path}: onnxruntime cannot load it ({str(error).splitlines()[0]})") from error
    words = session.get_modelmeta().custom_metadata_map
    card = Card.from_json(words.get("occamax", ""), str(path))
    if not is_intact(content, words.get("digest", "")):
        raise ExportError(f"{path}: is damaged; its content does not match its digest")
    return lambda pixels: session.run(None, {"pixels": pixels})[0], card


def _need(package: str) -> None:
    if find_spec(package) is None:
        raise ExportError(f"{package} is not installed; add it with: pip install 'occamax[onnx]'")
