"""`Fit`: a trained network. It can be asked, measured, saved, exported and reported on."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..data import Dataset, Stream, reopen
from ..errors import ArgumentError, RunError
from ..evaluation import Predictive, predict, score
from ..experiment.checkpoint import state_arrays
from ..experiment.config import Config
from ..experiment.devices import Devices
from ..experiment.environment import environment
from ..experiment.feeder import STREAMED_BYTES, told
from ..experiment.folder import Place, RunFolder
from ..experiment.problem import Arrays, Facts, check_examples, read_data
from ..experiment.program import believed
from ..experiment.run import save_weights
from ..experiment.sizes import counted, sizes_of, sparsity
from ..inference.model import Model
from ..inference.training import EVALUATION_STREAM, State
from ..methods import Method
from ..names import figures_as_text
from ..storage import load_arrays

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
    test: Arrays | Stream | None = None
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
        """Class probabilities (or the expected target) of each of the raw **inputs**, averaged over **num_samples**
        draws of the weights, which follow the **seed**."""
        return np.asarray(self.predictive(inputs, num_samples, seed).expectation)

    def predictive(self, inputs: Any, num_samples: int = 100, seed: int = 0) -> Predictive:
        """The whole posterior predictive of raw **inputs**, from **num_samples** draws that follow the **seed**: enough
        to tell doubt about the weights from noise in the data."""
        inputs = np.asarray(inputs)
        if inputs.shape[1:] != self.example.shape:
            raise ArgumentError(f"inputs: shape {inputs.shape} given; one example has shape {self.example.shape}")
        inputs = jnp.asarray(inputs.astype(self.example.dtype))
        return _predict(self.model, believed(self.state), jax.random.key(seed), inputs, None, num_samples)

    def evaluate(
        self, data: Any = None, num_samples: int | None = None, data_dir: Path | None = None
    ) -> dict[str, float]:
        """The figures on a test set, from **num_samples** draws of the weights, as many as the run had unless given:
        on that of the run, opened again in **data_dir** where it is not in memory, unless **data** (inputs and targets,
        a Dataset or a Stream) are given. A stream is read part by part."""
        test = self.test_set(data, data_dir)
        draws = checked_draws(self.config.num_samples if num_samples is None else num_samples)
        check_examples(self.model, test)
        put = test if isinstance(test, Stream) else jax.tree.map(jnp.asarray, test)
        ask = lambda x, y: evaluated(self.model, self.state, x, y, draws)  # noqa: E731
        found, targets = told(ask, put, Devices())
        return {**score(self.model, found, targets, with_floor=True), "sparsity": self.sparsity}

    def test_set(self, data: Any = None, data_dir: Path | None = None) -> Any:
        """The examples that the network is measured on: inputs and targets, or a Stream; those of **data** if given,
        else those of the run, opened again in **data_dir** if need be."""
        if data is not None:
            found = read_data(data, preprocess=self.facts.preprocess)
            return found.test if isinstance(data, Dataset) and found.test is not None else found.train
        if self.test is not None:
            return self.test
        if not self.facts.origin or self.facts.origin.get("kind") in ("arrays", "stream"):
            raise RunError("data: this run was trained on arrays, which are not kept; pass the test set as `data`")
        split = reopen(self.facts.origin, data_dir).test
        if split is None:
            raise RunError("data: the run's data have no test set; pass one as `data`")
        return split if isinstance(split, Stream) else (split.inputs, split.targets)

    def save(self, path: Path | str, overwrite: bool = False) -> Path:
        """Writes a run folder at **path** that `ox.load` brings back, and gives its path. A folder that is there is
        refused unless **overwrite**."""
        folder = RunFolder.create(Path(path), self.config, overwrite)
        folder.save_state(_arrays_of(self), Place(len(self.history)))
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
        """Writes the network at the posterior mean to **path**, a file that runs anywhere, by its ending: `.onnx`,
        `.safetensors` (**posterior** adds the deviations there) or `.h`, a C header. Gives the sizes, latencies and
        figures of the file, on the examples of **data**, else on those of the run (see `test_set` for **data_dir**).

        Weights are rounded as far as the evidence lets them be. **bits** fixes the size of every codebook instead, 32
        keeps the weights as they are; **max_loss** nats that rounding may cost over the data set; **max_bytes** of the
        file: weights are rounded and removed until it fits, and what is left is moved as for a latency. **draws** puts
        so many networks drawn from the posterior into the file, which answers with their average. **int8** multiplies
        by whole numbers, in ONNX: answers change a little, and it is timed beside float32 on this machine.
        **latency** milliseconds that a call on **batch** examples may take, on one core of this machine: units go, the
        fewest nats for a microsecond first, until it does, and what is left is moved so that it says what the network
        said about **training** examples, inputs and targets: the run's own unless given, where they can be opened
        again. Without any the file is worse. It does not train.

        One network is surer than the average over draws: where examples were held out, they also said by which
        temperature the outputs of the mean network are best divided, and so they are in the file."""
        from ..export.exporting import LatencyLimit, export_network
        from ..export.rounding import Rounding
        from ..export.training_examples import training_examples

        rounding = Rounding(bits, max_loss, max_bytes, int8)
        limit = None if latency is None else LatencyLimit(latency, batch)
        source = replace(self.exportable(), test=self.test_set_or_none(data, data_dir))
        if limit is not None or max_bytes is not None:
            examples = training_examples(self.facts, self.method.calibration, training, data_dir)
            source = replace(source, training=examples)
        form = Path(path).suffix.removeprefix(".")
        measured = export_network(source, Path(path), form, posterior, rounding, draws, limit)
        self._note_export(Path(path), measured)
        return measured

    def exportable(self) -> Any:
        """What an export of it is made of, without examples to compare on."""
        from ..export.card import Card
        from ..export.source import Exportable

        card, state = Card.of(self.config.as_dict(), self._last_figures()), self.state
        return Exportable(
            self.model, believed(state), self.example, card, temperature=card.mean_temperature,
            kl_weight=float(state.kl_weight),
        )  # fmt: skip

    def _note_export(self, path: Path, measured: Any) -> None:
        """For the report of the run: a folder that cannot be written spoils no export."""
        if self.path is not None:
            with suppress(RunError):
                line = {"file": path.name, **measured.as_data(), **environment()}
                RunFolder(self.path).append("exports.jsonl", line)

    def test_set_or_none(self, data: Any = None, data_dir: Path | None = None) -> Arrays | None:
        """As `test_set` with this **data** and **data_dir**, in memory: of a stream as many as may be there, evenly
        spaced. None where the run has no test set, or it was of arrays that are gone."""
        try:
            found = self.test_set(data, data_dir)
            return found.some(STREAMED_BYTES) if isinstance(found, Stream) else found
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
        """The PyTorch module that `ox.from_torch` was given, pruned (see `ox.to_torch`); with **masks** of
        `torch.nn.utils.prune`, so that zeros stay zero in further training."""
        from ..interop.pytorch import to_torch

        return to_torch(self, masks)

    def to_flax(self) -> Any:
        """The Flax NNX module that `ox.from_flax` was given, pruned."""
        from ..interop.flax_nnx import to_flax

        return to_flax(self)

    def to_haiku(self) -> Any:
        """The parameters (and the state, if there is one) that `ox.from_haiku` was given, pruned."""
        from ..interop.haiku_functions import to_haiku

        return to_haiku(self)

    def report(self, path: Path | str) -> Path:
        """Writes one HTML page about this run to **path**, and gives the path."""
        from ..report import read_groups, write_report

        if self.path is not None:
            write_report(read_groups([self.path]), Path(path))
        else:
            with TemporaryDirectory() as place:
                write_report(read_groups([self.save(Path(place) / "run")]), Path(path))
        return Path(path)


def checked_draws(num_samples: Any) -> int:
    """How many draws of the weights, if that is a number of them."""
    if isinstance(num_samples, bool) or not isinstance(num_samples, int) or num_samples < 1:
        raise ArgumentError(f"num_samples: {num_samples!r} given; it must be a whole number from 1 up")
    return num_samples


def is_kept(fitted: Fit) -> bool:
    """Whether `ox.load` of its folder brings this state back, not that of another checkpoint."""
    if fitted.path is None:
        return False
    own, kept = _arrays_of(fitted), {}
    with suppress(RunError):  # a checkpoint that is damaged
        kept = load_arrays(RunFolder(fitted.path).chosen_checkpoint())[0]
    return all(name in kept and np.array_equal(kept[name], array) for name, array in own.items())


def _arrays_of(fitted: Fit) -> dict[str, np.ndarray]:
    one = jax.tree.map(lambda leaf: leaf[None], fitted.state)
    return {name: np.asarray(array[0]) for name, array in state_arrays(one, fitted.model.fill).items()}


def evaluated(model: Model, state: State, inputs: Any, targets: Any, num_samples: int) -> Predictive:
    """As the loop evaluates: with the same random numbers."""
    return _evaluated(model, state, inputs, targets, jnp.int32(num_samples))


@eqx.filter_jit
def _evaluated(model: Model, state: State, inputs: Any, targets: Any, num_samples: Any) -> Predictive:
    key = jax.random.fold_in(state.key, EVALUATION_STREAM)
    return predict(model, believed(state), key, inputs, targets, num_samples)
