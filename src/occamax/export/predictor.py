"""A file that predicts: raw examples in, probabilities or a prediction out, whatever the format. Only draws from a
posterior need jax."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ExportError
from .card import Card

if TYPE_CHECKING:
    from .posterior_file import Draw

FORMATS = ("onnx", "safetensors")
HEADER = "h"  # a C header, which needs a compiler to be run
Predict = Callable[[np.ndarray], np.ndarray]


def open_export(path: Path, threads: int = 0) -> tuple[Predict, Card]:
    """What predicts, and what it is. An ONNX file runs on so many threads, 0 for one a core."""
    _refuse_strange(path)
    if path.suffix == f".{HEADER}":
        from .c_library import open_header

        return open_header(path)
    return _open_onnx(path, threads) if path.suffix == ".onnx" else _open_arrays(path)


def open_posterior(path: Path, num_samples: int) -> "tuple[Draw, Card]":
    """What draws networks and averages what they say, and what it is."""
    _refuse_strange(path)
    if num_samples < 1:
        raise ExportError(f"--samples: {num_samples} given; it must be a whole number from 1 up")
    if path.suffix != ".safetensors":
        raise ExportError(
            f"--samples: a {path.suffix} file holds no posterior. Export to safetensors with --posterior; or to onnx "
            "with --draws, and leave this out."
        )
    from .posterior_file import read_posterior

    sampler, card = read_posterior(path)
    return sampler.draws(num_samples), card


def _refuse_strange(path: Path) -> None:
    if not path.is_file():
        raise ExportError(f"FILE: {path} is not there. Name a file that `occamax export` wrote.")
    endings = [f".{form}" for form in (*FORMATS, HEADER)]
    if path.suffix not in endings:
        raise ExportError(f"FILE: {path} has none of the endings {', '.join(endings)}")


def _open_arrays(path: Path) -> tuple[Predict, Card]:
    from ..structure.interpreter import evaluate
    from .arrays_file import read

    graph, card = read(path)

    def predict(inputs: np.ndarray) -> np.ndarray:
        try:
            return evaluate(graph, [inputs])[0]
        except (KeyError, ValueError, TypeError, IndexError) as error:  # a program that numpy cannot follow
            raise ExportError(f"{path}: cannot be run ({error}); export it again") from error

    return predict, card


def _open_onnx(path: Path, threads: int = 0) -> tuple[Predict, Card]:
    from ..storage.digest import is_intact

    need("onnxruntime")
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
    return lambda inputs: session.run(None, {card.input_name: inputs})[0], card


def need(package: str) -> None:
    if find_spec(package) is None:
        raise ExportError(f"{package} is not installed; add it with: pip install 'occamax[onnx]'")
