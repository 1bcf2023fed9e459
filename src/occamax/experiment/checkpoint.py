"""Arrays on disk that survive being killed while written: safetensors, written beside, synced, renamed."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ..errors import RunError
from ..training import State

FORMAT = "occamax-1"


def write_atomic(path: Path, content: bytes) -> None:
    """The file is either the old one or the new one, whole, whatever happens."""
    beside = path.with_name(path.name + ".part")
    with open(beside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(beside, 0o644)
    os.replace(beside, path)


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    # safetensors writes arrays that are not C-contiguous wrongly, without a word
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    write_atomic(path, save(whole, {"format": FORMAT, "digest": _digest(whole), **metadata}))


def load_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Arrays and metadata, checked against their digest."""
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


def state_arrays(state: State) -> dict[str, np.ndarray]:
    """Every leaf of a state by its path, on the host."""
    plain = state._replace(key=jax.random.key_data(state.key))
    return {_name(path): np.asarray(leaf) for path, leaf in jtu.tree_flatten_with_path(jax.device_get(plain))[0]}


def state_from(arrays: Mapping[str, np.ndarray], like: State, path: Path) -> State:
    """The state whose leaves are in `arrays`; `like` gives its structure."""
    template = like._replace(key=jax.random.key_data(like.key))
    leaves, tree = jtu.tree_flatten_with_path(template)

    def leaf_of(name: str, expected: Any) -> jax.Array:
        found = arrays.get(name)
        if found is None or found.shape != expected.shape or found.dtype != expected.dtype:
            was = "nothing" if found is None else f"{found.dtype}{list(found.shape)}"
            raise RunError(
                f"{path}: {name} should be {expected.dtype}{list(expected.shape)}, found {was}. It is another run's"
            )
        return jnp.asarray(found)

    state = jtu.tree_unflatten(tree, [leaf_of(_name(path), leaf) for path, leaf in leaves])
    return state._replace(key=jax.random.wrap_key_data(state.key))


def _name(path: tuple) -> str:
    return jtu.keystr(path, simple=True, separator=".")
