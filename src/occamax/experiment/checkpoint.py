"""A state as named arrays, and back."""

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
from ..storage import load_arrays
from .folder import Place, RunFolder
from .loop import Pause


class Loaded(NamedTuple):
    state: State
    place: Place
    pause: Pause | None  # where the checkpoint is of the middle of an epoch


def load_state(folder: RunFolder, like: State, place: Place, fill: int = 0) -> Loaded:
    """One seed's state at a place where training can go on; `fill` as in `state_from`."""
    path = folder.checkpoints()[place]
    arrays, _ = load_arrays(path)
    return Loaded(state_from(arrays, like, path, fill), place, pause_from(arrays, like, path, fill))


def state_arrays(state: State, fill: int = 0) -> dict[str, np.ndarray]:
    """Every leaf of a state by its path, on the host. What fills vectors of latents up is left out: a checkpoint does
    not depend on the number of devices."""
    plain = state._replace(key=jax.random.key_data(state.key))
    found = {_name(path): np.asarray(leaf) for path, leaf in jtu.tree_flatten_with_path(jax.device_get(plain))[0]}
    length = state.posterior.point.shape[-1] if fill else -1
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
        found = arrays.get(name)
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
