"""Several trained networks that answer together: the average of what each says, with one temperature for all."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..data import Stream
from ..errors import ArgumentError, RunError
from ..evaluation import Predictive, averaged, score
from ..experiment.devices import Devices
from ..experiment.feeder import told
from ..experiment.folder import ENSEMBLE, RunFolder
from ..experiment.problem import check_examples, read_data
from ..names import figures_as_text
from .fitted import Fit, checked_draws, evaluated, is_kept
from .together import common_temperatures, with_outputs_divided

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
        if not isinstance(self.members, Iterable):
            raise ArgumentError(f"members: {type(self.members).__name__} given; give a list of Fits, as ox.fit gives")
        members = tuple(self.members)
        object.__setattr__(self, "members", members)
        for member in members:
            if not isinstance(member, Fit):
                raise ArgumentError(f"members: {type(member).__name__} given; each must be a Fit, as ox.fit gives")
        if not members:
            raise ArgumentError("members: none given; an ensemble is made of at least one Fit")
        _refuse_other_questions(members)

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

        hot, each = None, [member.exportable() for member in self.members]
        if self.mean_temperature != 1.0:  # in place of those that each has of its own
            hot, each = self.mean_temperature, [replace(one, temperature=self.mean_temperature) for one in each]
        first, *others = each
        test = self.members[0].test_set_or_none(data, data_dir)
        card = replace(first.card, run_figures=self.figures, temperature=None, mean_temperature=hot)
        source = with_others(replace(first, card=card, test=test), others)
        form = Path(path).suffix.removeprefix(".")
        return export_network(source, Path(path), form, rounding=Rounding(bits, max_loss, max_bytes, int8))

    def save(self, path: Path | str, overwrite: bool = False) -> Path:
        """Writes a folder at **path** that `ox.load` brings back, and gives its path. Members whose run folders lie in
        it are named there, the others are saved into it, as are those that their folder has otherwise, such as one of
        an earlier checkpoint. An ensemble that is there is refused unless **overwrite**."""
        path = Path(path)
        if is_ensemble(path) and not overwrite:
            raise RunError(f"path: {path} holds an ensemble already; choose another, or replace it: overwrite=True")
        here, paths = path.resolve(), [one.path and one.path.resolve() for one in self.members]
        free = (place for i in count() if (place := here / f"member{i}") not in paths)
        found = [
            own if own and here in own.parents and is_kept(one) else one.save(next(free), overwrite)
            for one, own in zip(self.members, paths, strict=True)
        ]
        places = [str(place.relative_to(here)) for place in found]
        numbers = {name: getattr(self, name) for name in NUMBERS}
        RunFolder(path).write_json(ENSEMBLE, {"format": FORMAT, "members": places, **numbers, "figures": self.figures})
        return path

    def _draws_each(self, num_samples: int) -> int:
        return -(-checked_draws(num_samples) // len(self.members))

    def _as_they_answer(self) -> list[Fit]:
        """The members, with the outputs of each divided by the temperature of all."""
        if self.temperature == 1.0:
            return list(self.members)
        return [with_outputs_divided(member, self.temperature) for member in self.members]


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
    found = Ensemble(fits)
    members, first = found.members, found.members[0]
    if first.model.likelihood.takes_logits:
        of_draws, of_means = common_temperatures(members, data, data_dir)
        found = replace(found, temperature=of_draws, mean_temperature=of_means)
    test = _test_set(first, data, data_dir)
    if test is None:
        return found
    figures = found.evaluate(test)
    return replace(found, figures={name: figures[name] for name in KEPT if name in figures})


def _test_set(member: Fit, data: Any, data_dir: Path | None) -> Any:
    """The examples to measure on: the run's, or those that the training data come with. None where there are none."""
    if member.test is None and data is not None:
        return read_data(data, preprocess=member.facts.preprocess).test
    with suppress(RunError):
        return member.test_set(data_dir=data_dir)


def is_ensemble(path: Path) -> bool:
    return (path / ENSEMBLE).is_file()


def open_ensemble(path: Path, open_member: Callable[[Path, int, int], Fit]) -> Ensemble:
    """What `Ensemble.save` wrote. `open_member` is told the folder of a member, its number, and how many there are."""
    known, where = RunFolder(path).read_json(ENSEMBLE), path / ENSEMBLE
    try:
        if known["format"] != FORMAT:
            raise RunError(f"{where}: is of format {known['format']}; this version reads {FORMAT}")
        places, figures = [path / place for place in known["members"]], dict(known["figures"])
        numbers = float(known["temperature"]), float(known["mean_temperature"])
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{where}: is damaged ({type(error).__name__}: {error})") from error
    members = [open_member(place, i, len(places)) for i, place in enumerate(places)]
    return Ensemble(members, *numbers, figures, path)


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
