"""`fit`: any network, any data; what comes back can be asked, saved, loaded, exported and reported on.

The command line, the benchmarks and the reproduction are callers of this file.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .data import Dataset, Stream, reopen
from .errors import ArgumentError, RunError
from .evaluation import Predictive, predict, score
from .experiment import starting
from .experiment.checkpoint import state_arrays, state_from
from .experiment.config import DTYPES, Config
from .experiment.devices import Devices
from .experiment.environment import environment
from .experiment.folder import Place, RunFolder
from .experiment.loop import Epoch
from .experiment.problem import (
    Data,
    Facts,
    all_kinds,
    build_model,
    checked_augmentation,
    describe,
    network_name,
    read_data,
)
from .experiment.program import Program, Task, believed, find_task_units
from .experiment.run import Experiment, Keeping, Trained, save_weights
from .experiment.seeds import train_seeds
from .experiment.sizes import counted, sizes_of, sparsity
from .inference.calibration import held_out_of
from .inference.likelihoods import Likelihood
from .inference.model import Model
from .inference.training import Budget, State
from .methods import BMR, Method
from .names import figures_as_text
from .networks import NetworkSource, network_from
from .reduction.costs import UnitCost
from .storage.structured import from_data
from .structure.layout import Fixed

_predict = eqx.filter_jit(predict)


@dataclass(frozen=True)
class Fit:
    """A trained network: what is believed of it, and what happened on the way.

    **model**, **method**, **state** and **config** of the run; **facts** of its data; **history** one item of figures
    an epoch, **summary** the last; **test** the examples it was measured on; **path** its run folder, if it has one.

    Raises:
        ArgumentError: inputs of another shape, or a number that cannot work.
        RunError: no test set to measure on, or a folder that cannot be written.
        ExportError: from `export`, a network that cannot be written in this form.

    Examples:
        >>> fitted.predict(x[:3]).shape  # probabilities, averaged over draws of the weights
        (3, 2)
        >>> fitted.masks["layers.0"].shape  # what was kept: 16 units, 8 inputs and a bias each
        (16, 9)
        >>> figures = fitted.evaluate((x, y), num_samples=10)
        >>> sorted(figures)[:3]
        ['accuracy', 'brier', 'confidence']
    """

    model: Model
    method: Method
    state: State
    config: Config
    facts: Facts
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    test: tuple[np.ndarray, np.ndarray] | None = None
    path: Path | None = None

    def __repr__(self) -> str:
        names = [name for name in ("accuracy", "nll", "ece", "rmse") if name in self._last_figures()]
        figures = figures_as_text({name: self._last_figures()[name] for name in names}, ".3f")
        parts = [f"{self.sparsity:.1%} pruned", *(f"{name} {text}" for name, text in figures.items())]
        place = "" if self.path is None else f", {str(self.path)!r}"
        return f"<Fit {self.config.data} · {self.config.network} · {self.method.name}: {', '.join(parts)}{place}>"

    @property
    def network(self) -> Any:
        """The network at the posterior mean, pruned: an ordinary module, of the kind that was passed in (the pair of a
        module and its state, where it has one). It takes preprocessed inputs. What `export` writes is this network with
        its outputs divided by a temperature of their own, where one was found."""
        module = self.model.bind(self.state.posterior.point, self.state.mask)
        if not self.model.calling.has_state:
            return module
        return module, jax.tree.unflatten(self.model.calling.state_tree, self.state.buffers)

    @property
    def masks(self) -> dict[str, np.ndarray]:
        """What was kept, by layer: True keeps. Outputs by inputs, the bias as the last column."""
        layout = self.model.layout
        pairs = zip(layout.names, layout.matrices(self.state.mask), strict=True)
        return {name: np.asarray(mask) for name, mask in pairs}

    @property
    def sparsity(self) -> float:
        """Removed / all weights of the layers that may be reduced: all but the output layer."""
        return sparsity(np.asarray(self.state.mask), counted(self.model.layout, self.method))

    @property
    def example(self) -> jax.ShapeDtypeStruct:
        """The shape and type of one raw example."""
        known = self.config.origin["example"]
        return jax.ShapeDtypeStruct(tuple(known["shape"]), np.dtype(known["dtype"]))

    def predict(self, inputs: Any, num_samples: int = 100, seed: int = 0) -> Float[np.ndarray, "n out"]:
        """Class probabilities (or the expected target) of each raw input, averaged over draws of the weights."""
        return np.asarray(self.predictive(inputs, num_samples, seed).expectation)

    def predictive(self, inputs: Any, num_samples: int = 100, seed: int = 0) -> Predictive:
        """The whole posterior predictive, enough to tell doubt about the weights from noise in the data."""
        inputs = np.asarray(inputs)
        if inputs.shape[1:] != self.example.shape:
            raise ArgumentError(f"inputs: shape {inputs.shape} given; one example has shape {self.example.shape}")
        inputs = jnp.asarray(inputs.astype(self.example.dtype))
        return _predict(self.model, believed(self.state), jax.random.key(seed), inputs, None, num_samples)

    def evaluate(
        self, data: Any = None, num_samples: int | None = None, data_dir: Path | None = None
    ) -> dict[str, float]:
        """The figures on a test set: that of the run unless `data` (inputs and targets, or a Dataset) is given."""
        inputs, targets = self.test_set(data, data_dir)
        draws = self.config.num_samples if num_samples is None else num_samples
        if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
            raise ArgumentError(f"num_samples: {draws!r} given; it must be a whole number from 1 up")
        self.model.check_data(inputs, targets)
        arguments = jnp.asarray(inputs), jnp.asarray(targets), jnp.int32(draws)
        found = jax.device_get(_evaluate(self.model, self.state, *arguments))
        return {**score(self.model, found, targets, with_floor=True), "sparsity": self.sparsity}

    def test_set(self, data: Any = None, data_dir: Path | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The examples that the network is measured on."""
        if data is not None:
            found = read_data(data, preprocess=self.facts.preprocess)
            return found.test if isinstance(data, Dataset) and found.test is not None else found.train  # type: ignore[return-value]
        if self.test is not None:
            return self.test
        if not self.facts.origin or self.facts.origin.get("kind") in ("arrays", "stream"):
            raise RunError("data: this run was trained on arrays, which are not kept; pass the test set as `data`")
        split = reopen(self.facts.origin, data_dir).test
        return split.inputs, split.targets

    def save(self, path: Path | str, overwrite: bool = False) -> Path:
        """Writes a run folder that `ox.load` brings back."""
        folder = RunFolder.create(Path(path), self.config, overwrite)
        one = jax.tree.map(lambda leaf: leaf[None], self.state)
        arrays = {name: np.asarray(array[0]) for name, array in state_arrays(one, self.model.fill).items()}
        folder.save_state(arrays, Place(len(self.history)))
        for line in self.history:
            folder.append("metrics.jsonl", line)
        save_weights(folder, self.model, self.state)
        sizes = sizes_of(self.model.layout, self.method, np.asarray(self.state.mask))
        last = self.history[-1] if self.history else {}
        folder.write_json("summary.json", self.summary or {**last, "sizes": sizes, **environment()})
        return folder.path

    def export(  # an option each
        self,
        path: Path | str,
        posterior: bool = False,
        data: Any = None,
        data_dir: Path | None = None,
        *,
        bits: int | None = None,
        max_loss: float | None = None,
        max_bytes: int | None = None,
        draws: int | None = None,
        int8: bool = False,
        latency: float | None = None,
        batch: int = 1,
        training: tuple[Any, Any] | None = None,
    ) -> Any:
        """Writes the network at the posterior mean as a file that runs anywhere, by its ending: `.onnx`, `.safetensors`
        (`posterior` adds the deviations there) or `.h`, a C header. Gives the sizes, latencies and figures of the file.

        Weights are rounded as far as the evidence lets them be. **bits** fixes the size of every codebook instead, 32
        keeps the weights as they are; **max_loss** nats that rounding may cost over the data set; **max_bytes** of the
        file: weights are rounded and removed until it fits. **draws** puts so many networks drawn from the posterior
        into the file, which answers with their average. **int8** multiplies by whole numbers, in ONNX: answers change a
        little, and it is timed beside float32 on this machine.
        **latency** milliseconds that a call on **batch** examples may take, on one core of this machine: units go, the
        fewest nats for a microsecond first, until it does, and what is left is moved so that it says what the network
        said about **training** examples, inputs and targets: the run's own unless given, where they can be opened
        again. Without any the file is worse. It does not train.

        One network is surer than the average over draws: where examples were held out, they also said by which
        temperature the outputs of the mean network are best divided, and so they are in the file."""
        from .export.card import Card
        from .export.exporting import Exportable, LatencyLimit, export_network
        from .export.rounding import Rounding
        from .export.training_examples import training_examples

        rounding = Rounding(bits, max_loss, max_bytes, int8)
        limit = None if latency is None else LatencyLimit(latency, batch)
        test = self._test_set_or_none(data, data_dir)
        card = Card.of(self.config.as_dict(), self._last_figures())
        state = believed(self.state)
        source = Exportable(
            self.model, state, self.example, card, test, temperature=card.mean_temperature,
            kl_weight=float(self.state.kl_weight),
            training=limit and training_examples(self.facts, self.method.calibration, training, data_dir),
        )  # fmt: skip
        form = Path(path).suffix.removeprefix(".")
        measured = export_network(source, Path(path), form, posterior, rounding, draws, limit)
        self._note_export(Path(path), measured)
        return measured

    def _note_export(self, path: Path, measured: Any) -> None:
        """For the report of the run: a folder that cannot be written spoils no export."""
        if self.path is not None:
            with suppress(RunError):
                line = {"file": path.name, **measured.as_data(), **environment()}
                RunFolder(self.path).append("exports.jsonl", line)

    def _test_set_or_none(self, data: Any, data_dir: Path | None) -> tuple[np.ndarray, np.ndarray] | None:
        try:
            return self.test_set(data, data_dir)
        except RunError:
            if data is not None:
                raise
            return None

    def _last_figures(self) -> dict[str, Any]:
        """Those of the last epoch; none where the state is of another, as that of an earlier checkpoint is."""
        last = self.summary or (self.history[-1] if self.history else {})
        is_own = last.get("epoch", 0) * self.config.steps_per_epoch == int(self.state.step)
        return last if is_own else {}

    def to_torch(self, masks: bool = False) -> Any:
        """The PyTorch module that `ox.from_torch` was given, pruned (see `ox.to_torch`)."""
        from .interop.pytorch import to_torch

        return to_torch(self, masks)

    def to_flax(self) -> Any:
        """The Flax NNX module that `ox.from_flax` was given, pruned."""
        from .interop.flax_nnx import to_flax

        return to_flax(self)

    def to_haiku(self) -> Any:
        """The parameters (and the state, if there is one) that `ox.from_haiku` was given, pruned."""
        from .interop.haiku_functions import to_haiku

        return to_haiku(self)

    def report(self, path: Path | str) -> Path:
        """Writes one HTML page about this run."""
        from .report import read_groups, write_report

        if self.path is not None:
            write_report(read_groups([self.path]), Path(path))
        else:
            with TemporaryDirectory() as place:
                write_report(read_groups([self.save(Path(place) / "run")]), Path(path))
        return Path(path)


@eqx.filter_jit
def _evaluate(model: Model, state: State, inputs: Any, targets: Any, num_samples: Any) -> Predictive:
    """As the loop evaluates: with the same random numbers."""
    from .inference.training import EVALUATION_STREAM

    key = jax.random.fold_in(state.key, EVALUATION_STREAM)
    return predict(model, believed(state), key, inputs, targets, num_samples)


def fit(  # the one door: everything that a run can be told
    network: Any,
    data: Dataset | Stream | tuple[Any, Any],
    method: Method | None = None,
    *,
    start: starting.Trained | None = None,
    test: tuple[Any, Any] | None = None,
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
    tested too; or a `Stream` (`ox.open_arrays`), of which only the batches are read. **test** inputs and targets.
    **method** `ox.BMR()` unless given. **start** `ox.Trained()` begins at the network's present weights, or at those of
    a run or a file, in place of random ones. **likelihood** classes for whole-numbered targets, else a Gaussian.
    **seeds** trains several at once, or one after the other where memory is short: how many, or which.
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
    method = method if start is None else starting.started(method, start)
    numbers = _seeds(seed, seeds)
    paths = _paths(out, numbers, seeds is not None)
    words = how_to_resume or "the same call of fit with resume=True"
    keeping = Keeping(paths, resume, overwrite, keep_best, halvings, words, on_epoch, progress)
    where = devices if isinstance(devices, Devices) else Devices() if devices is None else Devices.of(devices)
    image_size = network.image_size if isinstance(network, NetworkSource) else None
    dtype = _dtype(compute_dtype)
    found = read_data(data, test, preprocess, image_size)
    model = build_model(network, found, method, likelihood, fixed, dtype, where, recompute_activations)
    change = checked_augmentation(augment, found)
    held_out = held_out_of(method.calibration, len(found))
    begin = starting.prepare_start(start, network, model, found, held_out)
    units = find_task_units(model, method, found.example)
    if method.reduction is not None and method.reduction.must_measure:
        from .export.unit_costs import with_measured_costs

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


def load(  # what a run was made of may each be given again
    path: Path | str,
    network: Any = None,
    *,
    method: Method | None = None,
    likelihood: Likelihood | None = None,
    preprocess: Callable[[Any], Any] | None = None,
    checkpoint: str = "last",
) -> Fit:
    """A run, or a saved fit, from its folder.

    **network** is needed where it was the user's own: it is checked by names and shapes. So are **method**,
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
    folder = RunFolder.open(Path(path))
    config = folder.config()
    with _undamaged(folder):
        kinds, stored = all_kinds(), config.settings
        chosen: Method = from_data(stored["method"], kinds, "method") if method is None else method
        likelihood = from_data(stored["likelihood"], kinds, "likelihood") if likelihood is None else likelihood
        prepare = from_data(stored["preprocess"], kinds, "preprocess") if preprocess is None else preprocess
        facts, example, outputs = _facts(config, prepare), _example(config), _outputs(config)
        fixed, source = tuple(stored["fixed"]), config.origin["network"].items()
    module = _network(network, dict(source), chosen, outputs, config.origin["example"])
    convert = jnp.asarray if prepare is None else prepare
    model = Model(module, example, chosen.prior, likelihood, fixed, convert, jnp.dtype(config.compute_dtype))
    _refuse_other_layout(model, config, folder.path)
    state = _state(model, chosen, config, folder, checkpoint)
    is_finished = (folder.path / "summary.json").is_file()
    summary = folder.read_json("summary.json") if is_finished else {}
    return Fit(model, chosen, state, config, facts, folder.metrics(), summary, None, folder.path)


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
        raise RunError(f"network: this run is of a network of your own ({kind}); pass it: ox.load(path, network)")
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
    from .storage import load_arrays

    budget = Budget(config.epochs, config.steps_per_epoch, config.batch_size)
    like = Program(Task(model, method, budget, held_out_of(None, 1))).shape_of_one()
    path = folder.chosen_checkpoint(checkpoint)
    return state_from(load_arrays(path)[0], like, path)
