"""Arrays on disk that survive being killed while written: safetensors with a digest."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ..errors import RunError
from .files import write_atomic
from .parts import Parts

FORMAT = "occamax-1"


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    # safetensors writes arrays that are not C-contiguous wrongly, without a word
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    write_atomic(path, save(whole, {"format": FORMAT, "digest": _digest(whole), **metadata}))


def load_metadata(path: Path) -> dict[str, str]:
    """What a file says of itself, unchecked and without its arrays."""
    try:
        with safe_open(path, framework="numpy") as file:
            return file.metadata() or {}
    except (SafetensorError, OSError, ValueError) as error:
        raise RunError(f"{path}: is damaged or no checkpoint ({error})") from error


def load_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Arrays and metadata, checked against their digest; also those that several hosts wrote in parts."""
    arrays, metadata = load_own(path)
    parts = Parts.from_text(metadata, path)
    if parts is not None:
        parts.check(path.parent)
        arrays |= parts.whole(path.parent)
        del metadata["parts"]
    return arrays, metadata


def check_arrays(path: Path, number: int = 0, count: int = 1) -> dict[str, str]:
    """The metadata of a file that is as it was written. Where it has parts, `count` hosts share the reading of them:
    this is host `number`."""
    _, metadata = load_own(path)
    parts = Parts.from_text(metadata, path)
    if parts is not None:
        parts.check(path.parent, number, count)
    return metadata


def load_own(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays that are in the file itself, and its metadata."""
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, no dict
    except FileNotFoundError as error:
        raise RunError(f"{path}: does not exist. Was this run ever started? Train it first.") from error
    except (SafetensorError, OSError, ValueError) as error:
        raise RunError(f"{path}: is damaged or no checkpoint ({error})") from error
    if metadata.get("format") != FORMAT:
        raise RunError(f"{path}: has format {metadata.get('format')!r}; this version of occamax reads {FORMAT!r}")
    if metadata.get("digest") != _digest(arrays):
        raise RunError(f"{path}: is damaged; its content does not match its digest")
    return arrays, metadata


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        digest.update(f"{name}{arrays[name].dtype}{arrays[name].shape}".encode())
        digest.update(np.asarray(arrays[name], order="C").tobytes())
    return digest.hexdigest()
