"""Arrays on disk that survive being killed while written: safetensors, written beside, synced, renamed."""

import hashlib
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ..errors import RunError
from ..reduction import Record
from ..schedules import Schedule
from ..training import Info, State
from .loop import Pause

FORMAT = "occamax-1"
ADDED_LATER = {"nats": np.float32(Schedule.first_nats)}  # what the first checkpoints do not have


def write_atomic(path: Path, content: bytes) -> None:
    """The file is either the old one or the new one, whole, whatever happens."""
    beside = path.with_name(path.name + ".part")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(beside, 0o644)
        os.replace(beside, path)
    except OSError:
        with suppress(OSError):
            beside.unlink(missing_ok=True)  # half a file on a full disk helps nobody
        raise


def copy_atomic(path: Path, target: Path) -> None:
    """`target` becomes `path`'s content; where the file system can, they share it."""
    beside = target.with_name(target.name + ".part")
    beside.unlink(missing_ok=True)
    try:
        os.link(path, beside)
    except OSError:
        shutil.copyfile(path, beside)
    os.replace(beside, target)


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


def state_arrays(state: State, fill: int = 0) -> dict[str, np.ndarray]:
    """Every leaf of a state by its path, on the host. What fills vectors of latents up is left out: a checkpoint does
    not depend on the number of devices."""
    plain = state._replace(key=jax.random.key_data(state.key))
    found = {_name(path): np.asarray(leaf) for path, leaf in jtu.tree_flatten_with_path(jax.device_get(plain))[0]}
    length = state.posterior.point.shape[-1]
    used = {name: a[..., : length - fill] for name, a in found.items() if a.ndim and a.shape[-1] == length}
    return found | used


def pause_arrays(pause: Pause, fill: int = 0) -> dict[str, np.ndarray]:
    """A state and what is known of the epoch it is in the middle of."""
    parts = {"info": pause.info._asdict(), "record": {} if pause.record is None else pause.record._asdict()}
    parts["mask"] = {} if pause.mask is None else {"before": pause.mask}
    if pause.before is not None:
        parts["before"] = state_arrays(pause.before, fill)
    return state_arrays(pause.state, fill) | {
        f"pause.{part}.{name}": np.asarray(jax.device_get(array))
        for part, arrays in parts.items()
        for name, array in arrays.items()
    }


def pause_from(arrays: Mapping[str, np.ndarray], like: State, path: Path, fill: int = 0) -> Pause | None:
    """The pause whose arrays these are; None where they are of a whole epoch."""
    parts: dict[str, dict[str, np.ndarray]] = {"info": {}, "record": {}, "before": {}, "mask": {}}
    for name, array in arrays.items():
        if name.startswith("pause."):
            _, part, rest = name.split(".", 2)
            parts[part][rest] = array
    if not parts["info"]:
        return None
    arrays_of = {part: {name: jnp.asarray(array) for name, array in found.items()} for part, found in parts.items()}
    record = Record(**arrays_of["record"]) if parts["record"] else None
    before = state_from(parts["before"], like, path, fill) if parts["before"] else None
    return Pause(
        state_from(arrays, like, path, fill), Info(**arrays_of["info"]), record, before, arrays_of["mask"].get("before")
    )


def state_from(arrays: Mapping[str, np.ndarray], like: State, path: Path, fill: int = 0) -> State:
    """The state whose leaves are in `arrays`; `like`, a state or the shapes of one, gives its structure, with vectors
    of latents that are `fill` longer than those of a checkpoint."""
    template = jax.eval_shape(lambda state: state._replace(key=jax.random.key_data(state.key)), like)
    leaves, tree = jtu.tree_flatten_with_path(template)

    def leaf_of(name: str, expected: Any) -> jax.Array:
        found = arrays.get(name, ADDED_LATER.get(name))
        if found is not None and fill and expected.shape == like.posterior.point.shape:
            found = np.pad(found, (0, fill))
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
