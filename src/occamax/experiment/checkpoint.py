"""A state as named arrays, and back."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np

from ..errors import RunError
from ..inference.training import Info, State
from ..reduction.reducing import Record
from ..storage.arrays import load_own
from ..storage.parts import Parts, next_name, save_parts, written_by
from .devices import Devices
from .folder import Place
from .loop import Pause


class Loaded(NamedTuple):
    state: State
    place: Place
    pause: Pause | None  # where the checkpoint is of the middle of an epoch


def load_state(path: Path, like: State, place: Place, devices: Devices = Devices(), fill: int = 0) -> Loaded:
    """One seed's state at a place where training can go on; `fill` as in `state_from`. Where vectors are spread over
    hosts, and hosts wrote them in parts, each reads its own."""
    arrays, metadata = load_own(path)
    parts = Parts.from_text(metadata, path)
    if parts is not None and devices.spreads_over_hosts:
        found = parts.spread(path.parent, parts.used + fill, devices.vectors)
        is_used = jnp.arange(parts.used + fill) < parts.used  # what filled them up before is not what does now
        every = {**arrays, **{name: jnp.where(is_used, array[0], 0) for name, array in found.items()}}
    else:
        every = arrays if parts is None else arrays | parts.whole(path.parent)
    return Loaded(state_from(every, like, path, fill), place, pause_from(every, like, path, fill))


def state_leaves(state: State) -> dict[str, Any]:
    """Every leaf of a state by its path, wherever it is."""
    plain = state._replace(key=jax.random.key_data(state.key))
    return {_name(path): leaf for path, leaf in jtu.tree_flatten_with_path(plain)[0]}


def pause_leaves(pause: Pause) -> dict[str, Any]:
    """Those of a state and of what is known of the epoch it is in the middle of."""
    parts = {"info": pause.info._asdict(), "record": {} if pause.record is None else pause.record._asdict()}
    parts["mask"] = {} if pause.mask is None else {"before": pause.mask}
    if pause.before is not None:
        parts["before"] = state_leaves(pause.before)
    return state_leaves(pause.state) | {
        f"pause.{part}.{name}": array for part, arrays in parts.items() for name, array in arrays.items()
    }


def on_host(leaves: Mapping[str, Any], length: int, fill: int = 0) -> dict[str, np.ndarray]:
    """Leaves as arrays of the host. What fills vectors of latents up, of `length` with it, is left out: a checkpoint
    does not depend on the number of devices."""
    found = dict(zip(leaves, map(np.asarray, jax.device_get(list(leaves.values()))), strict=True))
    if not fill:
        return found
    used = {name: a[..., : length - fill] for name, a in found.items() if a.ndim and a.shape[-1] == length}
    return found | used


def state_arrays(state: State, fill: int = 0) -> dict[str, np.ndarray]:
    """Every leaf of a state by its path, on the host, without what fills vectors of latents up."""
    return on_host(state_leaves(state), state.posterior.point.shape[-1], fill)


def pause_arrays(pause: Pause, fill: int = 0) -> dict[str, np.ndarray]:
    """A state and what is known of the epoch it is in the middle of."""
    return on_host(pause_leaves(pause), pause.state.posterior.point.shape[-1], fill)


def save_spread(folder: Path, leaves: Mapping[str, jax.Array], used: int, devices: Devices) -> Parts:
    """What hosts have of vectors [1, length], each written by itself; all take part. What is to be said of it."""
    name = devices.told_by_all(next_name(folder))[0]
    save_parts(folder, name, leaves)
    own = written_by(folder, name, jax.process_index())
    files = {file: digest for text in devices.told_by_all(json.dumps(own)) for file, digest in json.loads(text).items()}
    return Parts(name, {name: str(leaf.dtype) for name, leaf in leaves.items()}, used, files)


def pause_from(arrays: Mapping[str, Any], like: State, path: Path, fill: int = 0) -> Pause | None:
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


def state_from(arrays: Mapping[str, Any], like: State, path: Path, fill: int = 0) -> State:
    """The state whose leaves are in `arrays`; `like`, a state or the shapes of one, gives its structure, with vectors
    of latents that are `fill` longer than those of a checkpoint."""
    template = jax.eval_shape(lambda state: state._replace(key=jax.random.key_data(state.key)), like)
    leaves, tree = jtu.tree_flatten_with_path(template)

    def leaf_of(name: str, expected: Any) -> jax.Array:
        found = arrays.get(name)
        is_vector = expected.shape == like.posterior.point.shape
        if isinstance(found, np.ndarray) and fill and is_vector:
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
