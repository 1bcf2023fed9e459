"""A graph as named arrays with a JSON description, in safetensors; numpy alone runs it. Arrays and words are one block,
entropy-coded (`packing.py`). Nothing is ever unpickled."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import ArgumentError, ExportError, RunError
from ..storage import load_arrays, save_arrays
from ..storage.npz import ERRORS
from ..structure.graph import Graph
from .card import Card
from .packing import pack, unpack

BLOCK = "packed"  # the only array of a packed file
LARGEST = 4 * 2**30  # bytes of arrays that a file may declare


class Packed(NamedTuple):
    """Arrays and a description, as they go into the file beside the network."""

    arrays: dict[str, np.ndarray]
    text: dict[str, str]


def describe(graph: Graph, prefix: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A graph as plain values, and its arrays by name."""
    arrays: dict[str, np.ndarray] = {}
    for key, array in graph.arrays().items():
        arrays[f"{prefix}{key}"] = np.ascontiguousarray(array).reshape(array.shape)
    places = {key: {"dense": f"{prefix}{key}"} for key in graph.arrays()}
    return {"graph": graph.as_dict(), "arrays": places}, arrays


def rebuild(structure: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Graph:
    """The inverse of `describe`."""
    return Graph.from_dict(
        structure["graph"], {key: _fetch(place, arrays) for key, place in structure["arrays"].items()}
    )


def _fetch(place: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """An array; a sparse one is of a file that an earlier version wrote."""
    if "dense" in place:
        return arrays[place["dense"]]
    name, shape = place["sparse"], tuple(map(int, place["shape"]))
    values, columns, pointers = (arrays[f"{name}.{part}"] for part in ("values", "columns", "pointers"))
    if min(shape) < 1 or math.prod(shape) * values.itemsize > LARGEST:
        raise ValueError(f"an array of shape {shape}")
    counts = np.diff(pointers.astype(np.int64))
    if len(counts) != shape[0] or (counts < 0).any() or counts.sum() != len(values) or len(columns) != len(values):
        raise ValueError("sparse arrays that do not fit together")
    flat = np.zeros((shape[0], math.prod(shape[1:])), values.dtype)
    flat[np.repeat(np.arange(shape[0]), counts), columns] = values
    return flat.reshape(shape)


def write(path: Path, graph: Graph, card: Card, packed: bool = True, posterior: Packed | None = None) -> None:
    """A .safetensors file: one block that `packing.py` reads, or, without `packed`, every array by its name."""
    structure, arrays = describe(graph, "a")
    text = {"occamax": card.as_json(), "structure": json.dumps(structure, separators=(",", ":"))}
    if posterior is not None:
        arrays, text = arrays | posterior.arrays, text | posterior.text
    if packed:
        save_arrays(path, {BLOCK: np.frombuffer(pack(arrays, text), np.uint8)}, {})
    else:
        save_arrays(path, arrays, text | {"words": _digest(text)})


def read(path: Path) -> tuple[Graph, Card]:
    """A graph and its card. Changed bytes are noticed."""
    with said(path):
        arrays, text = load(path)
        return rebuild(json.loads(text["structure"]), arrays), Card.from_json(text["occamax"], str(path))


def load(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays and the words of a file, both checked against their digests."""
    arrays, text = load_arrays(path)
    if list(arrays) == [BLOCK]:
        return unpack(arrays[BLOCK].tobytes())  # whose digest was right, words and all
    own = {name: text[name] for name in ("occamax", "structure", "posterior") if name in text}
    if "occamax" in own:
        Card.from_json(own["occamax"], str(path))  # a file of another format is named before its digest is missed
    if text.get("words") != _digest(own):
        raise ExportError(f"{path}: is no export of occamax, or damaged; its words do not match their digest")
    return arrays, own


def _digest(text: Mapping[str, str]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(text):
        digest.update(f"{name}\0{text[name]}\0".encode())
    return digest.hexdigest()


@contextmanager
def said(path: Path) -> Iterator[None]:
    """Whatever is wrong with a file is an error of ours that names it."""
    try:
        yield
    except (RunError, ArgumentError, TypeError, IndexError, AttributeError, *ERRORS) as error:
        raise ExportError(f"{path}: is no export of occamax, or damaged ({error})") from error
    except OSError as error:
        raise ExportError(f"{path}: cannot be read ({error.strerror or error})") from error
