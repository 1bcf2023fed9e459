"""`fit`: any network, any data. The command line, the benchmarks and the reproduction are callers of this file."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp

from ..data import Dataset, Stream
from ..errors import ArgumentError
from ..experiment import starting
from ..experiment.config import DTYPES, Config
from ..experiment.devices import Devices
from ..experiment.loop import Epoch
from ..experiment.problem import Data, build_model, checked_augmentation, describe, network_name, read_data
from ..experiment.program import Task, find_task_units
from ..experiment.run import Experiment, Keeping, Trained
from ..experiment.seeds import train_seeds
from ..inference.calibration import held_out_of
from ..inference.likelihoods import Likelihood
from ..inference.training import Budget
from ..methods import BMR, Method
from ..networks import NetworkSource
from ..reduction.costs import UnitCost
from ..structure.layout import Fixed
from .fitted import Fit


def fit(  # the one door: everything that a run can be told
    network: Any,
    data: Dataset | Stream | tuple[Any, Any],
    method: Method | None = None,
    *,
    start: starting.Trained | None = None,
    test: Stream | tuple[Any, Any] | None = None,
    epochs: int = 20,
    steps_per_epoch: int = 500,
    batch_size: int = 128,
    micro_batches: int = 1,
    recompute_activations: bool = False,
    seed: int = 0,
    seeds: int | Sequence[int] | None = None,
    sparsity: float | None = None,
    unit_price: float | None = None,
    unit_cost: UnitCost | None = None,
    augment: Any = None,
    likelihood: Likelihood | None = None,
    preprocess: Callable[[Any], Any] | None = None,
    fixed: Fixed = None,
    compute_dtype: Any = "float32",
    num_samples: int = 100,
    curve_samples: int | None = None,
    devices: Devices | int | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    keep_best: bool = False,
    halvings: int = 0,
    on_epoch: Callable[[Epoch], None] | None = None,
    progress: bool = True,
    how_to_resume: str | None = None,
) -> Any:
    """Trains a network and prunes it while it trains. Gives a `Fit`; with `seeds`, a list of them.

    **network** a module that maps one example to a vector of outputs (Equinox, or any callable pytree), the pair of a
    module and its state that `equinox.nn.make_with_state` makes, or an `ox.NetworkSource`. Every floating-point array
    of it is random; its present values are not used, except by **start** and where **fixed** names it: `lambda net:
    (net.table,)`.
    **data** inputs and targets, the first axis the examples; or a `Dataset` (`ox.load_data`), which is standardised and
    tested too; or a `Stream` (`ox.open_images`, `ox.open_texts`, `ox.open_arrays`), of which only the batches are read.
    **test** inputs and targets, or a `Stream`, which is read part by part in every evaluation.
    **method** `ox.BMR()` unless given. **start** `ox.Trained()` begins at the network's present weights, or at those of
    a run or a file, in place of random ones. **likelihood** classes for whole-numbered targets, else a Gaussian.
    **seeds** trains several at once, or one after the other where memory is short: how many, or which. `ox.ensemble`
    makes them one.
    **sparsity** removes exactly that share of the weights; the evidence decides how many unless given. **unit_price**
    also removes whole units that earn fewer nats per weight, or for what **unit_cost** says: `ox.costs.Latency()` is
    measured on this machine before training begins.
    **augment** `(key, example) → example`, or several, on raw training examples: `ox.RandomCrop()`.
    **preprocess** one raw example → what the network takes. **compute_dtype** `"bfloat16"` for mixed precision.
    **num_samples** draws of the weights in the last evaluation, **curve_samples** in those before.
    **devices** shares the batch out over so many, or as an `ox.Devices` says. **micro_batches** is in how many parts,
    one after the other, a device looks at its batch: the same steps in less memory (but BatchNorm sees parts).
    **recompute_activations** in the backward pass in place of keeping them (activation checkpointing): less memory too.
    **out** keeps the run in a folder (one a seed inside it, with `seeds`): a killed or stopped run goes on with
    **resume**, **overwrite** replaces it, **keep_best** also keeps the checkpoint of the best objective, **halvings**
    goes back and halves the rate that often when the objective diverges.
    **on_epoch** is called after every epoch: any function, or one of `ox.callbacks`. **progress** False shows nothing;
    else there is a live view on a terminal and a line an epoch elsewhere.

    **epochs** of **steps_per_epoch** steps on **batch_size** examples, from **seed**. **how_to_resume** is what a
    stopped run says; the command line says its own words.

    Raises:
        ArgumentError: a value, a network or data that cannot work, before anything is compiled.
        LayoutError: a network whose arrays cannot be told apart.
        RunError: a folder that is taken, of another run, or cannot be written.
        DivergedError: the objective became NaN, or the network forgot what it had learnt.

    Examples:
        >>> fitted = ox.fit(network, (x, y), epochs=4, steps_per_epoch=20, num_samples=10, progress=False)
        >>> 0.0 <= fitted.sparsity <= 1.0
        True
    """
    method = BMR() if method is None else method
    if not isinstance(method, Method):
        raise ArgumentError(f"method: {method!r} given; it must be a Method, such as ox.BMR()")
    budget = Budget(epochs, steps_per_epoch, batch_size, micro_batches)
    method = method if sparsity is None else method.pruned_to(sparsity, epochs)
    if unit_price is None and unit_cost is not None:
        raise ArgumentError("unit_cost: no unit has a price; give unit_price too")
    method = method if unit_price is None else method.with_units(unit_price, unit_cost)
    method = method.begun(is_trained=False) if start is None else starting.started(method, start)
    numbers = _seeds(seed, seeds)
    paths = _paths(out, numbers, seeds is not None)
    words = how_to_resume or "the same call of fit with resume=True"
    keeping = Keeping(paths, resume, overwrite, keep_best, halvings, words, on_epoch, progress)
    where = devices if isinstance(devices, Devices) else Devices() if devices is None else Devices.of(devices)
    image_size = network.image_size if isinstance(network, NetworkSource) else None
    dtype = _dtype(compute_dtype)
    found = read_data(data, test, preprocess, image_size)
    model = build_model(network, found, method, likelihood, fixed, dtype, where, recompute_activations)
    method = method.suited_to(model.layout)
    change = checked_augmentation(augment, found)
    held_out = held_out_of(method.calibration, len(found))
    begin = starting.prepare_start(start, network, model, found, held_out)
    if begin is not None:  # its prior may be made of the weights
        model, method = begin.model, replace(method, prior=begin.model.prior)
    units = find_task_units(model, method, found.example)
    if method.reduction is not None and method.reduction.must_measure:
        from ..export.unit_costs import with_measured_costs

        method = with_measured_costs(method, model, units, found.example, paths[0] if resume and paths else None)
    config = Config(
        found.facts.name, network_name(network, model), method.name, epochs, steps_per_epoch, batch_size, numbers[0],
        num_samples, curve_samples, dtype, **describe(model, method, found, network, change, begin),
    )  # fmt: skip
    task = Task(model, method, budget, held_out, numbers, change, units, begin)
    runs = train_seeds(Experiment(task, found.train, found.test, config, where), keeping)
    fits = [_fitted(task, config, found, run, i, paths) for i, run in enumerate(runs)]
    return fits if seeds is not None else (fits[0] if fits else None)


def _fitted(task: Task, config: Config, data: Data, run: Trained, index: int, paths: Sequence[Path]) -> Fit:
    own = replace(config, seed=task.seeds[index])
    path = paths[index] if paths else None
    return Fit(task.model, task.method, run.state, own, data.facts, run.history, run.summary, data.test, path)


def _dtype(given: Any) -> str:
    try:
        return str(jnp.dtype(given))
    except TypeError as error:
        raise ArgumentError(f"compute_dtype: {given!r} given; it must be one of {', '.join(DTYPES)}") from error


def _seeds(seed: int, seeds: int | Sequence[int] | None) -> tuple[int, ...]:
    if seeds is None:
        return (seed,)
    numbers = tuple(range(seeds)) if isinstance(seeds, int) and not isinstance(seeds, bool) else tuple(seeds)  # type: ignore[arg-type]
    if not numbers or len(set(numbers)) < len(numbers):
        raise ArgumentError(f"seeds: {seeds!r} given; it must be how many, from 1 up, or a list of different numbers")
    return numbers


def _paths(out: Path | str | None, seeds: tuple[int, ...], several: bool) -> list[Path]:
    if out is None:
        return []
    return [Path(out) / f"seed{seed}" for seed in seeds] if several else [Path(out)]
