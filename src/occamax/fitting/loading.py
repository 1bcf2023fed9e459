"""`load`: a trained network from its run folder."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ArgumentError, RunError
from ..experiment.checkpoint import state_from
from ..experiment.config import Config
from ..experiment.folder import RunFolder
from ..experiment.problem import Facts, all_kinds
from ..experiment.program import Program, Task
from ..inference.calibration import held_out_of
from ..inference.likelihoods import Likelihood
from ..inference.model import Model
from ..inference.priors import TrainedPrior
from ..inference.training import Budget, State
from ..methods import Method
from ..networks import NetworkSource, network_from
from ..storage import load_arrays
from ..storage.structured import from_data
from ..structure.layout import Layout
from .ensembles import is_ensemble, open_ensemble
from .fitted import Fit


def load(  # what a run was made of may each be given again
    path: Path | str,
    network: Any = None,
    *,
    method: Method | None = None,
    likelihood: Likelihood | None = None,
    preprocess: Callable[[Any], Any] | None = None,
    checkpoint: str = "last",
) -> Any:
    """A run, or a saved fit, from its folder: a `Fit`. From that of an ensemble: an `Ensemble`, of whose members all
    that follows holds.

    **network** is needed where it was the user's own: it is checked by names and shapes; a list of them, in order,
    where an ensemble's members are of different ones. So are **method**,
    **likelihood** and **preprocess** where they held functions that cannot be stored. **checkpoint** `"last"`; or
    `"previous"`, of an epoch before, where the last is damaged; or `"best"`, where that was kept.

    **path** of the folder.

    Raises:
        RunError: no run, one of another network or version, or a checkpoint that is damaged or was not kept.

    Examples:
        >>> again = ox.load("runs/reference", network)
        >>> again.sparsity == fitted.sparsity
        True
    """
    if is_ensemble(Path(path)):
        given = {"method": method, "likelihood": likelihood, "preprocess": preprocess, "checkpoint": checkpoint}
        return open_ensemble(Path(path), lambda own, i, count: load(own, _of_member(network, i, count), **given))
    folder = RunFolder.open(Path(path))
    config = folder.config()
    with _undamaged(folder):
        kinds, stored = all_kinds(), config.settings
        chosen: Method = from_data(stored["method"], kinds, "method") if method is None else method
        chosen = chosen.begun("start" in stored)
        likelihood = from_data(stored["likelihood"], kinds, "likelihood") if likelihood is None else likelihood
        prepare = from_data(stored["preprocess"], kinds, "preprocess") if preprocess is None else preprocess
        facts, example, outputs = _facts(config, prepare), _example(config), _outputs(config)
        fixed, source = tuple(stored["fixed"]), config.origin["network"].items()
    module = _network(network, dict(source), chosen, outputs, config.origin["example"])
    convert = jnp.asarray if prepare is None else prepare

    def suited(layout: Layout) -> Method:
        found = chosen.suited_to(layout)
        made = isinstance(found.prior, TrainedPrior)  # of the weights that the run began with
        return replace(found, prior=from_data(stored["method"]["prior"], kinds, "prior")) if made else found

    dtype = jnp.dtype(config.compute_dtype)
    model = Model(module, example, lambda own: suited(own).prior, likelihood, fixed, convert, dtype)
    chosen = suited(model.layout)
    _refuse_other_layout(model, config, folder.path)
    state = _state(model, chosen, config, folder, checkpoint)
    is_finished = (folder.path / "summary.json").is_file()
    summary = folder.read_json("summary.json") if is_finished else {}
    return Fit(model, chosen, state, config, facts, folder.metrics(), summary, None, folder.path)


def _of_member(network: Any, number: int, count: int) -> Any:
    if not isinstance(network, list):
        return network
    if len(network) != count:
        raise ArgumentError(f"network: a list of {len(network)} given; the ensemble has {count} members")
    return network[number]


@contextmanager
def _undamaged(folder: RunFolder) -> Iterator[None]:
    """What cannot be made of a configuration is said of its file."""
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        where = folder.path / "config.json"
        raise RunError(f"{where}: is damaged, or of another version ({type(error).__name__}: {error})") from error


NAMES = ("class_names", "target_names", "feature_names")


def _facts(config: Config, preprocess: Any) -> Facts:
    known = config.origin["data"]
    names = {name: None if known[name] is None else tuple(known[name]) for name in NAMES}
    return Facts(config.data, **names, origin=known["from"], preprocess=preprocess)


def _example(config: Config) -> jax.ShapeDtypeStruct:
    known = config.origin["example"]
    return jax.ShapeDtypeStruct(tuple(known["shape"]), np.dtype(known["dtype"]))


def _outputs(config: Config) -> int:
    """How many a network of the run has."""
    known, last = config.origin["data"]["class_names"], config.layout[-1]
    return int(np.prod([last["weight_shape"][axis] for axis in last["output_axes"]])) if known is None else len(known)


def _network(given: Any, stored: dict[str, str], method: Method, outputs: int, example: dict[str, Any]) -> Any:
    """The network that was passed in, else the one that the run knows how to build."""
    source = network_from(stored) if given is None else given
    if source is None:
        kind = stored.get("class", "a network")
        raise RunError(
            f"network: this run is of a network of your own ({kind}); pass it: ox.load(path, network), or on the "
            "command line --network package.module:function"
        )
    if not isinstance(source, NetworkSource):
        return source
    build = source.template if "name" in source.as_data() else source.network
    return build(tuple(example["shape"]), outputs, method.dropout, example.get("words"))


def _refuse_other_layout(model: Model, config: Config, path: Path) -> None:
    here, there = replace(config, layout=model.layout.as_data()), config
    changed = there.differences(here)
    if changed:
        names = [block["name"] for block in config.layout]
        raise RunError(
            f"{path}: the network is another than the one that was trained ({'; '.join(changed)[:300]}). It was one of "
            f"{len(names)} layers: {', '.join(names[:8])}{' …' if len(names) > 8 else ''}"
        )


def _state(model: Model, method: Method, config: Config, folder: RunFolder, checkpoint: str) -> State:
    budget = Budget(config.epochs, config.steps_per_epoch, config.batch_size)
    like = Program(Task(model, method, budget, held_out_of(None, 1))).shape_of_one()
    path = folder.chosen_checkpoint(checkpoint)
    return state_from(load_arrays(path)[0], like, path)
