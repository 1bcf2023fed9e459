"""Several trained networks that answer together: the average of what each says, with one temperature for all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..data import Stream, reopen
from ..errors import ArgumentError, RunError
from ..evaluation import (
    Predictive,
    averaged,
    best_temperature,
    is_as_wanted,
    outputs_of_draws,
    outputs_of_mean,
    score,
    with_outputs_divided,
)
from ..experiment.devices import Devices
from ..experiment.feeder import told
from ..experiment.folder import ENSEMBLE, RunFolder
from ..experiment.problem import check_examples, read_data
from ..experiment.program import believed
from ..experiment.starting import examples_at
from ..inference.calibration import Calibration
from ..inference.model import Model
from ..inference.training import EVALUATION_STREAM, State
from ..names import figures_as_text
from .fitted import Fit, checked_draws, evaluated

FORMAT = 1
NUMBERS = "temperature", "mean_temperature", "weights", "share", "sparsity"
QUESTIONS: dict[str, Callable[[Fit], Any]] = {
    "takes examples of shape": lambda one: tuple(one.example.shape),
    "takes examples of type": lambda one: str(one.example.dtype),
    "knows the classes": lambda one: one.facts.class_names,
    "has the likelihood": lambda one: one.model.likelihood,
}
KEPT = "accuracy", "nll", "ece", "ece_floor", "ece_floor_std", "brier", "rmse"


@dataclass(frozen=True)
class Ensemble:
    """Trained networks whose answers are averaged: another way to know what one network does not, and each of them may
    be small. `ox.ensemble` makes one that is calibrated.

    **members** the networks. **temperature** by which the outputs of all are divided, on top of the temperature that
    each has; **mean_temperature** by which those of the networks at the posterior means are, which an export holds.
    **figures** that were measured when it was made, **path** the folder that it is kept in, if any.

    Raises:
        ArgumentError: no members, or members that answer different questions.
        RunError: no test set to measure on, or a folder that cannot be written.
        ExportError: from `export`, a network that cannot be written in this form.

    Examples:
        >>> fits = ox.fit(network, (x, y), seeds=2, epochs=4, steps_per_epoch=20, num_samples=10, progress=False)
        >>> both = ox.ensemble(fits, (x, y))
        >>> both.predict(x[:3]).shape
        (3, 2)
        >>> both.share < 2.0  # its weights, over those of one dense network
        True
    """

    members: Any  # any sequence of Fits; a tuple once it is made
    temperature: float = 1.0
    mean_temperature: float = 1.0
    figures: dict[str, float] = field(default_factory=dict)
    path: Path | None = None

    def __post_init__(self):
        object.__setattr__(self, "members", tuple(self.members))
        for member in self.members:
            if not isinstance(member, Fit):
                raise ArgumentError(f"members: {type(member).__name__} given; each must be a Fit, as ox.fit gives")
        if not self.members:
            raise ArgumentError("members: none given; an ensemble is made of at least one Fit")
        _refuse_other_questions(self.members)

    def __repr__(self) -> str:
        known = {name: value for name, value in self.figures.items() if name in ("accuracy", "nll", "ece")}
        said = "".join(f", {name} {text}" for name, text in figures_as_text(known, ".3f").items())
        return f"<Ensemble of {len(self.members)}: {self.share:.1%} of one dense network's weights{said}>"

    @property
    def sparsity(self) -> float:
        """Removed / all weights of the layers that may be reduced, over all members."""
        return float(np.mean([member.sparsity for member in self.members]))

    @property
    def weights(self) -> int:
        """How many weights all members have left together."""
        return sum(int(np.sum(member.state.mask)) for member in self.members)

    @property
    def share(self) -> float:
        """`weights`, over those of one dense network: of the largest member."""
        return self.weights / max(member.model.layout.size for member in self.members)

    def predict(self, inputs: Any, num_samples: int = 100, seed: int = 0) -> Float[np.ndarray, "n out"]:
        """Class probabilities (or the expected target) of each of the raw **inputs**, averaged over the members and
        over **num_samples** draws of the weights in all, which follow the **seed**."""
        return np.asarray(self.predictive(inputs, num_samples, seed).expectation)

    def predictive(self, inputs: Any, num_samples: int = 100, seed: int = 0) -> Predictive:
        """The whole posterior predictive of raw **inputs**, from **num_samples** draws in all that follow the
        **seed**."""
        draws = self._draws_each(num_samples)
        return averaged([one.predictive(inputs, draws, seed + i) for i, one in enumerate(self._as_they_answer())])

    def evaluate(
        self, data: Any = None, num_samples: int | None = None, data_dir: Path | None = None
    ) -> dict[str, float]:
        """The figures on a test set, from **num_samples** draws in all, as many as one member's run had unless given:
        on that of the members' runs, opened again in **data_dir** where it is not in memory, unless **data** (inputs
        and targets, a Dataset or a Stream) are given. `sparsity` is the members', `share` that of all together."""
        first = self.members[0]
        test = first.test_set(data, data_dir)
        draws = self._draws_each(first.config.num_samples if num_samples is None else num_samples)
        for member in self.members:
            check_examples(member.model, test)
        answering = self._as_they_answer()
        put = test if isinstance(test, Stream) else jax.tree.map(jnp.asarray, test)
        ask = lambda x, y: averaged([evaluated(one.model, one.state, x, y, draws) for one in answering])  # noqa: E731
        found, targets = told(ask, put, Devices())
        figures = score(first.model, found, targets, with_floor=True)
        return {**figures, "sparsity": self.sparsity, "share": self.share}

    def export(
        self,
        path: Path | str,
        data: Any = None,
        data_dir: Path | None = None,
        *,
        bits: int | None = None,
        max_loss: float | None = None,
        max_bytes: int | None = None,
        int8: bool = False,
    ) -> Any:
        """Writes all members, each at its posterior mean, to **path**: one file that answers with their average, by its
        ending `.onnx`, `.safetensors` or `.h`. The options are those of `Fit.export`; **max_bytes** are of the file,
        in which each member has an equal part."""
        from ..export.exporting import export_network
        from ..export.rounding import Rounding
        from ..export.source import with_others

        hot = None if self.mean_temperature == 1.0 else self.mean_temperature
        first, *others = [replace(member.exportable(), temperature=hot) for member in self.members]
        test = self.members[0].test_set_or_none(data, data_dir)
        card = replace(first.card, run_figures=self.figures, temperature=None, mean_temperature=hot)
        source = with_others(replace(first, card=card, test=test), others)
        form = Path(path).suffix.removeprefix(".")
        return export_network(source, Path(path), form, rounding=Rounding(bits, max_loss, max_bytes, int8))

    def save(self, path: Path | str, overwrite: bool = False) -> Path:
        """Writes a folder at **path** that `ox.load` brings back, and gives its path. Members whose run folders lie in
        it are named there, the others are saved into it. An ensemble that is there is refused unless **overwrite**."""
        path = Path(path)
        if is_ensemble(path) and not overwrite:
            raise RunError(f"path: {path} holds an ensemble already; choose another, or replace it: overwrite=True")
        places = []
        for i, member in enumerate(self.members):
            own = member.path
            if own is None or path.resolve() not in own.resolve().parents:
                own = member.save(path / f"member{i}", overwrite)
            places.append(str(own.resolve().relative_to(path.resolve())))
        numbers = {name: getattr(self, name) for name in NUMBERS}
        RunFolder(path).write_json(ENSEMBLE, {"format": FORMAT, "members": places, **numbers, "figures": self.figures})
        return path

    def _draws_each(self, num_samples: int) -> int:
        return -(-checked_draws(num_samples) // len(self.members))

    def _as_they_answer(self) -> list[Fit]:
        """The members, with the outputs of each divided by the temperature of all."""
        if self.temperature == 1.0:
            return list(self.members)
        return [_with_outputs_divided(member, self.temperature) for member in self.members]


def ensemble(fits: Sequence[Fit], data: Any = None, data_dir: Path | None = None) -> Ensemble:
    """Trained networks as one that answers with the average of what they say, calibrated together.

    **fits** as `ox.fit(…, seeds=3)` gives them, or any that answer the same question, also of different networks and
    methods. An average is less sure of itself than its members, each of which was calibrated alone. So the examples
    that they all held out say by which one temperature the outputs of all are divided. **data** the training data that
    `fit` was given, which have these examples; opened again in **data_dir** unless given, where they have a name or a
    path. Where the members hold out none, nothing is divided. `ox.Ensemble(fits)` averages them as they are.

    Raises:
        ArgumentError: fits that answer different questions or held out different examples; data that are missing, or
            not those that the networks were trained on.

    Examples:
        >>> fits = ox.fit(network, (x, y), seeds=2, epochs=4, steps_per_epoch=20, num_samples=10, progress=False)
        >>> figures = ox.ensemble(fits, (x, y)).evaluate((x, y))
        >>> 0.0 <= figures["accuracy"] <= 1.0
        True
    """
    found = Ensemble(tuple(fits))
    members, first = found.members, found.members[0]
    known = {member.method.calibration for member in members}
    if len(known) > 1:
        raise ArgumentError(
            "fits: they held out different examples, so none can say how sure all are together; train them with the "
            "same calibration, or average them as they are: ox.Ensemble(fits)"
        )
    calibration = known.pop()
    if calibration is not None and first.model.likelihood.takes_logits:
        inputs, targets = _held_out(first, calibration, data, data_dir)
        draws = -(-calibration.num_samples // len(members))
        of_draws = lambda one: _outputs_of_draws(one.model, one.state, inputs, draws)  # noqa: E731
        of_means = lambda one: _outputs_of_mean(one.model, one.state, inputs)  # noqa: E731
        best = [_best_for_all(members, ask, targets, calibration.log_temperature_std) for ask in (of_draws, of_means)]
        found = replace(found, temperature=best[0], mean_temperature=best[1])
    if first.test_set_or_none(None, data_dir) is None:
        return found
    figures = found.evaluate(data_dir=data_dir)
    return replace(found, figures={name: figures[name] for name in KEPT if name in figures})


def is_ensemble(path: Path) -> bool:
    return (path / ENSEMBLE).is_file()


def open_ensemble(path: Path, open_member: Callable[[Path], Fit]) -> Ensemble:
    """What `Ensemble.save` wrote."""
    known, where = RunFolder(path).read_json(ENSEMBLE), path / ENSEMBLE
    try:
        if known["format"] != FORMAT:
            raise RunError(f"{where}: is of format {known['format']}; this version reads {FORMAT}")
        places = [path / place for place in known["members"]]
        numbers = float(known["temperature"]), float(known["mean_temperature"])
        return Ensemble(tuple(map(open_member, places)), *numbers, dict(known["figures"]), path)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{where}: is damaged ({type(error).__name__}: {error})") from error


def _held_out(member: Fit, calibration: Calibration, data: Any, data_dir: Path | None) -> tuple[Array, Array]:
    """The examples that a run held out of its training data."""
    origin = member.facts.origin or {}
    if data is None and origin.get("kind") in (None, "arrays", "stream"):
        raise ArgumentError(
            "data: none given, and the networks were trained on arrays, which are not kept; pass the training data "
            "that `fit` was given: the examples held out of them say how sure all are together. Without: "
            "ox.Ensemble(fits)"
        )
    found = read_data(reopen(origin, data_dir) if data is None else data, preprocess=member.facts.preprocess)
    if origin.get("kind") == "arrays" and origin != found.facts.origin:
        raise ArgumentError("data: not what the networks were trained on; pass the training data that `fit` was given")
    places = calibration.held_out(len(found)).places
    inputs, targets = examples_at(found, places)
    return jnp.asarray(inputs), jnp.asarray(targets)


def _best_for_all(members: Sequence[Fit], ask: Callable[[Fit], Array], targets: Array, log_std: float) -> float:
    """The temperature under which targets are likeliest if what the members put out are draws of one network; 1 where
    the outputs of one of them are not divided by dividing its last layer, or nothing is held out."""
    if not len(targets):
        return 1.0
    outputs = [ask(member) for member in members]
    best = best_temperature(jnp.concatenate(outputs), targets, members[0].model.likelihood, log_std)
    pairs = zip(members, outputs, strict=True)
    is_built_in = all(is_as_wanted(ask(_with_outputs_divided(one, best)), before / best) for one, before in pairs)
    return best if is_built_in else 1.0


@eqx.filter_jit
def _outputs_of_draws(model: Model, state: State, inputs: Array, draws: int) -> Float[Array, "draws n out"]:
    key = jax.random.fold_in(state.key, EVALUATION_STREAM)
    return outputs_of_draws(model, believed(state), key, inputs, draws)


@eqx.filter_jit
def _outputs_of_mean(model: Model, state: State, inputs: Array) -> Float[Array, "1 n out"]:
    return outputs_of_mean(model, believed(state), inputs)


def _with_outputs_divided(member: Fit, temperature: float) -> Fit:
    state, divisor = member.state, jnp.float32(temperature)
    posterior = with_outputs_divided(member.model, state.posterior, state.mask, divisor)
    return replace(member, state=state._replace(posterior=posterior))


def _refuse_other_questions(members: Sequence[Fit]) -> None:
    """Refuses members whose answers cannot be averaged."""
    first = members[0]
    for i, member in enumerate(members[1:], start=1):
        for what, ask in QUESTIONS.items():
            own, other = ask(first), ask(member)
            if own != other:
                raise ArgumentError(
                    f"members: number 0 {what} {own}, number {i} {other}; the average of their answers means nothing"
                )
