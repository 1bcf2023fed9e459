"""A chain as named arrays with a JSON description, in safetensors or npz. A matrix is stored sparse (CSR, the smallest
index type) where that takes fewer bytes. Nothing is ever unpickled."""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np

from ..errors import ExportError, RunError
from ..inference.model import Model
from ..inference.posteriors import Posterior
from ..storage import load_arrays, save_arrays, write_atomic
from ..storage.npz import ERRORS, read_npz
from . import chain as c
from .card import Card
from .posterior_file import Packed, unpack

LARGEST = 4 * 2**30  # bytes of arrays that a file may declare


def describe(chain: c.Chain, sparse: bool = True) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The structure of a chain as plain values, and its arrays by name."""
    arrays: dict[str, np.ndarray] = {}
    return _describe(chain, arrays, sparse), arrays


def _describe(stage: Any, arrays: dict[str, np.ndarray], sparse: bool) -> dict[str, Any]:
    line: dict[str, Any] = {"stage": type(stage).__name__}
    for name, value in vars(stage).items():
        if isinstance(value, c.Chain):
            line[name] = _describe(value, arrays, sparse)
        elif isinstance(value, tuple):
            line[name] = [_describe(inner, arrays, sparse) for inner in value]
        elif eqx.is_array_like(value) and not isinstance(value, int | float | str):
            line[name] = _store(np.asarray(value), arrays, sparse)
        else:
            line[name] = value
    return line


def _store(value: np.ndarray, arrays: dict[str, np.ndarray], sparse: bool = True) -> dict[str, Any]:
    """Puts an array among the others, dense, or sparse where that is smaller; what the structure says of it."""
    name = f"a{len(arrays):03d}"
    flat = value.reshape(len(value), -1) if value.ndim > 1 else None
    if sparse and flat is not None and np.issubdtype(value.dtype, np.floating):
        columns = np.nonzero(flat)[1].astype(smallest_type(flat.shape[1]))
        pointers = np.concatenate([[0], np.cumsum((flat != 0).sum(1))]).astype(smallest_type(len(columns)))
        if columns.nbytes + pointers.nbytes + value.itemsize * len(columns) < value.nbytes:
            arrays[f"{name}.values"] = flat[flat != 0]
            arrays[f"{name}.columns"], arrays[f"{name}.pointers"] = columns, pointers
            return {"sparse": name, "shape": list(value.shape)}
    arrays[name] = np.ascontiguousarray(value)
    return {"dense": name}


def smallest_type(most: int) -> type[np.unsignedinteger]:
    for kind in (np.uint8, np.uint16, np.uint32):
        if most <= np.iinfo(kind).max:
            return kind
    return np.uint64


def rebuild(line: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """The inverse of `describe`."""
    kind = c.STAGES[line["stage"]]
    values = {}
    for name, value in line.items():
        if name == "stage":
            continue
        if isinstance(value, dict):
            values[name] = rebuild(value, arrays) if "stage" in value else _fetch(value, arrays)
        elif isinstance(value, list):
            values[name] = tuple(rebuild(inner, arrays) for inner in value)
        else:
            values[name] = value
    return kind(**values)


def _fetch(place: dict[str, Any], arrays: dict[str, np.ndarray]) -> np.ndarray:
    if "dense" in place:
        return arrays[place["dense"]]
    name, shape = place["sparse"], tuple(map(int, place["shape"]))
    values, columns, pointers = (arrays[f"{name}.{part}"] for part in ("values", "columns", "pointers"))
    if int(np.prod(shape)) * values.itemsize > LARGEST or min(shape) < 1:
        raise ValueError(f"an array of shape {shape}")
    counts = np.diff(pointers.astype(np.int64))
    if len(counts) != shape[0] or (counts < 0).any() or counts.sum() != len(values) or len(columns) != len(values):
        raise ValueError("sparse arrays that do not fit together")
    flat = np.zeros((shape[0], int(np.prod(shape[1:]))), values.dtype)
    flat[np.repeat(np.arange(shape[0]), counts), columns] = values
    return flat.reshape(shape)


def write(path: Path, chain: c.Chain, card: Card, sparse: bool = True, posterior: Packed | None = None) -> None:
    """A .safetensors or .npz file. Without `sparse` nothing is left out or compressed."""
    structure, arrays = describe(chain, sparse)
    text = {"occamax": card.as_json(), "structure": json.dumps(structure)}
    if posterior is not None:
        arrays, text = arrays | posterior.arrays, text | posterior.text
    if path.suffix == ".safetensors":
        save_arrays(path, arrays, text)
        return
    words = {name: np.frombuffer(value.encode(), np.uint8) for name, value in text.items()}
    buffer = io.BytesIO()
    (np.savez_compressed if sparse else np.savez)(buffer, allow_pickle=False, **arrays, **words)
    write_atomic(path, buffer.getvalue())


def read(path: Path) -> tuple[c.Chain, Card]:
    """A chain and its card from a .safetensors or .npz file. Both formats notice changed bytes."""
    with _said(path):
        arrays, text = _arrays(path)
        card = Card.from_json(text["occamax"], str(path))
        return rebuild(json.loads(text["structure"]), arrays), card


def read_posterior(path: Path) -> tuple[Model, Posterior, np.ndarray, Card]:
    """The model, posterior and mask that were exported with `--posterior`."""
    with _said(path):
        arrays, text = _arrays(path)
        card = Card.from_json(text["occamax"], str(path))
        return *unpack(arrays, text, card), card


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """Whatever is wrong with a file is an error of ours that names it."""
    try:
        yield
    except (RunError, TypeError, IndexError, AttributeError, *ERRORS) as error:
        raise ExportError(f"{path}: is no export of occamax, or damaged ({error})") from error
    except OSError as error:
        raise ExportError(f"{path}: cannot be read ({error.strerror or error})") from error


def _arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    return load_arrays(path) if path.suffix == ".safetensors" else _read_npz(path)


def _read_npz(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    arrays = read_npz(path, LARGEST)
    names = [name for name in ("occamax", "structure", "posterior") if name in arrays]
    return arrays, {name: arrays.pop(name).tobytes().decode() for name in names}
