"""A run folder: config.json, metrics.jsonl, summary.json, reductions.jsonl with reductions/, weights.safetensors,
examples.json (what it says of single test examples), exports.jsonl (the files that were made of it), and checkpoints:
checkpoint.safetensors, the one before it, and, where asked for, the one of the best objective; parts/ holds what
several hosts wrote of them.

Plain arrays and data in and out: whoever reads a folder does not wait for jax.
"""

import errno
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import RunError
from ..names import choose
from ..storage import RunLock, check_arrays, copy_atomic, load_arrays, load_metadata, save_arrays, write_atomic
from ..storage.parts import Parts, forget_parts
from .config import Config

NATS = "predicted", "expected_nll", "divergence", "data_count", "allowed"  # of a reduction, see `Record`
HISTOGRAM_EDGES = np.concatenate([-np.logspace(4, -1, 26), np.linspace(-0.1, 0.1, 3)[1:-1], np.logspace(-1, 1, 11)])


class Place(NamedTuple):
    """Where a checkpoint stands: whole epochs, steps into the next, and by what the learning rate is multiplied."""

    epoch: int
    steps: int = 0
    rate_factor: float = 1.0

    def as_text(self) -> dict[str, str]:
        return {name: str(value) for name, value in self._asdict().items()}

    @staticmethod
    def from_text(text: dict[str, str], path: Path) -> "Place":
        try:
            return Place(int(text["epoch"]), int(text.get("steps", 0)), float(text.get("rate_factor", 1.0)))
        except (KeyError, ValueError) as error:
            raise RunError(f"{path}: is no checkpoint of a run ({error})") from error


ENSEMBLE = "ensemble.json"  # beside run folders: what they are together
CHECKPOINTS = ("last", "previous", "best")


@dataclass(frozen=True)
class RunFolder:
    """One run on disk, at **path**: reads and writes its files, each whole or not at all.

    Raises:
        RunError: a folder that is none, exists already, or cannot be written; a file in it that is damaged.

    Examples:
        >>> folder = ox.RunFolder.open(fitted.path)
        >>> [line["epoch"] for line in folder.metrics()]
        [1, 2, 3, 4]
    """

    path: Path

    @staticmethod
    def create(path: Path, config: Config, overwrite: bool = False) -> "RunFolder":
        """A new folder. One that exists and is not empty is refused."""
        if not overwrite:
            RunFolder.refuse_existing(path)
        elif _is_taken(path):
            if path.is_dir() and not (path / "config.json").is_file():
                raise RunError(f"out: {path} is no run folder; `overwrite` will not delete it. Choose another.")
            if path.is_dir():
                with RunLock(path):
                    shutil.rmtree(path)
                (path.parent / ENSEMBLE).unlink(missing_ok=True)  # it was of the run that is gone
            else:
                path.unlink()
        try:
            (path / "reductions").mkdir(parents=True)
        except OSError as error:
            raise RunError(f"out: {path} cannot be made ({error.strerror}). Choose another folder.") from error
        folder = RunFolder(path)
        folder.write_json("config.json", config.as_dict())
        return folder

    @staticmethod
    def refuse_existing(path: Path) -> None:
        """Refuses a place where there is something already."""
        if _is_taken(path):
            raise RunError(f"out: {path} exists. Continue it with `resume`, or replace it with `overwrite`.")

    @staticmethod
    def open(path: Path) -> "RunFolder":
        """A folder that is there; another is refused."""
        if not (path / "config.json").is_file():
            raise RunError(
                f"{path}: is no run folder (it has no config.json). Name a folder that `fit(out=…)` or `occamax train` "
                "wrote."
            )
        return RunFolder(path)

    @property
    def checkpoint(self) -> Path:
        """The file of the newest checkpoint."""
        return self.path / "checkpoint.safetensors"

    @property
    def previous(self) -> Path:
        """The file of the checkpoint before it."""
        return self.path / "checkpoint.previous.safetensors"

    @property
    def best(self) -> Path:
        """The file of the checkpoint of the best objective."""
        return self.path / "checkpoint.best.safetensors"

    def config(self) -> Config:
        """What the run is."""
        return Config.from_dict(self.read_json("config.json"), self.path / "config.json")

    def read_json(self, name: str) -> dict[str, Any]:
        """The values of a .json file in it."""
        return _parse(_text(self.path / name), self.path / name)

    def write_json(self, name: str, values: dict[str, Any]) -> None:
        """Writes values as a .json file in it."""
        with explained(self.path):
            write_atomic(self.path / name, (json.dumps(values, indent=2) + "\n").encode())

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The complete lines of a .jsonl file; a last line cut short by a kill is left out."""
        path = self.path / name
        text = _text(path) if path.exists() else ""
        return [_parse(line, path) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def append(self, name: str, values: dict[str, Any]) -> None:
        """Writes one more line of a .jsonl file in it."""
        with explained(self.path), open(self.path / name, "a") as file:
            file.write(json.dumps(values) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        """The figures of each epoch, in order."""
        return self.lines("metrics.jsonl")

    def rewind(self, epoch: int) -> None:
        """Forgets everything after `epoch`: what the checkpoint does not know of did not happen."""
        for name in ("metrics.jsonl", "reductions.jsonl"):
            kept = [line for line in self.lines(name) if line["epoch"] <= epoch]
            with explained(self.path):
                write_atomic(self.path / name, "".join(json.dumps(line) + "\n" for line in kept).encode())

    def save_state(
        self,
        arrays: Mapping[str, np.ndarray],
        place: Place,
        neg_elbo: float | None = None,
        keep_best: bool = False,
        parts: Parts | None = None,
    ) -> None:
        """A new checkpoint; the one there becomes the one before it. `neg_elbo` of the whole epoch that led here: with
        `keep_best` the lowest so far is also kept as the best. `parts`: what several hosts have written of it."""
        with explained(self.path):
            if self.checkpoint.exists():
                copy_atomic(self.checkpoint, self.previous)
            words = {"neg_elbo": str(neg_elbo)} if neg_elbo is not None else {}
            words |= {} if parts is None else parts.as_text()
            save_arrays(self.checkpoint, arrays, {**place.as_text(), **words})
            if keep_best and neg_elbo is not None and neg_elbo < self._best_so_far():
                copy_atomic(self.checkpoint, self.best)
            forget_parts(self.path, self._parts_kept())

    def _parts_kept(self) -> Iterator[str]:
        """The folders that the checkpoints speak of."""
        for path in (self.checkpoint, self.previous, self.best):
            with suppress(RunError):  # none, or damaged
                parts = Parts.from_text(load_metadata(path), path)
                if parts is not None:
                    yield parts.name

    def _best_so_far(self) -> float:
        try:
            return float(load_metadata(self.best)["neg_elbo"])
        except (RunError, KeyError, ValueError):  # none yet, or damaged: the next one is the best
            return float("inf")

    def checkpoints(
        self, number: int = 0, count: int = 1, any_host: Callable[[bool], bool] = bool
    ) -> dict[Place, Path]:
        """The checkpoints that training can go on from, the newest first. One that is damaged is named on standard
        error; none at all is an error, never a silent start from nothing. Where `count` hosts look at them together,
        this is host `number`, and `any_host` tells whether one of them found damage."""
        found, problems = {}, []
        for path in (self.checkpoint, self.previous):
            problem, place = None, Place(0)
            try:
                place = Place.from_text(check_arrays(path, number, count), path)
            except RunError as error:
                problem = str(error)
            if any_host(problem is not None):
                problems.append(problem or f"{path}: is damaged, as another host found")
            else:
                found.setdefault(place, path)
        if not found:
            raise RunError(f"{self.path}: no checkpoint can be used. {' '.join(problems)}")
        if problems and self.checkpoint not in found.values():
            print(f"{problems[0]}. Going on from {self.previous}.", file=sys.stderr)
        return found

    def chosen_checkpoint(self, which: str = "last") -> Path:
        """The file of the checkpoint that a user chose: figures of another would be of another epoch, so none is put in
        its place."""
        choose("checkpoint", which, CHECKPOINTS)
        path = {"last": self.checkpoint, "previous": self.previous, "best": self.best}[which]
        if not path.is_file() and which == "best":
            raise RunError(f"{path}: was not kept; train with `keep_best` to have it")
        try:
            check_arrays(path)
        except RunError as error:
            other = " The one before it, of another epoch, is checkpoint `previous`." if which == "last" else ""
            raise RunError(f"{error}.{other}") from error
        return path

    def save_weights(self, layers: Mapping[str, np.ndarray], has_bias: Sequence[bool]) -> None:
        """The weights at the posterior mean, pruned, layer by layer as matrices with the bias as the last column: what
        figures are drawn from, without the model or the data."""
        arrays = {f"{i:03d} {name}": matrix for i, (name, matrix) in enumerate(layers.items())}
        with explained(self.path):
            save_arrays(self.path / "weights.safetensors", arrays, {"biases": json.dumps(list(has_bias))})

    def weights(self) -> dict[str, np.ndarray]:
        """Each layer's weights at the posterior mean, without biases, in order."""
        arrays, metadata = load_arrays(self.path / "weights.safetensors")
        has_bias = json.loads(metadata["biases"])
        pairs = zip(sorted(arrays), has_bias, strict=True)
        return {name.split(" ", 1)[1]: arrays[name][:, : arrays[name].shape[1] - bias] for name, bias in pairs}

    def save_reduction(self, layout: Any, before: np.ndarray, record: Any, epoch: int, undone: bool = False) -> None:
        """One line of counts, thresholds and histograms, and a file with the mask and the ΔF (in half precision, for
        its size) of the weights that were still there. `before` is the mask before the reduction, `epoch` the epoch
        that follows it, counted from 1; `undone` where the network did not recover from it and it was taken back."""
        mask = np.asarray(record.mask)
        delta_f = np.asarray(record.delta_f)[: mask.size]  # that of spread vectors is filled up
        layers = []
        for i, (start, stop) in enumerate(layout.bounds):
            alive, kept = before[start:stop], mask[start:stop]
            layers.append(
                {
                    "name": layout.names[i],
                    "size": layout.sizes[i],
                    "threshold": float(record.threshold[i]),
                    "removed": int((alive & ~kept).sum()),
                    "remaining": int(kept.sum()),
                    "delta_f_before": _histogram(delta_f[start:stop][alive]),
                    "delta_f_after": _histogram(delta_f[start:stop][kept]),
                }
            )
        found = {name: float(getattr(record, name)) for name in NATS}
        nats = {name: value if np.isfinite(value) else None for name, value in found.items()}  # JSON has no infinity
        proposed = {"proposed": int(record.proposed), "removed": int((before & ~mask).sum())}
        self.append("reductions.jsonl", {"epoch": epoch, "undone": undone, **proposed, **nats, "layers": layers})
        arrays = {
            "mask": np.packbits(mask),
            "delta_f": delta_f[before].clip(-6e4, 6e4).astype(np.float16),
            "before": np.packbits(before),
        }
        path = self.path / "reductions" / f"epoch-{epoch:04d}.safetensors"
        with explained(self.path):
            save_arrays(path, arrays, {"weights": str(mask.size)})


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """What the system refuses is said in words, with what is left."""
    try:
        yield
    except OSError as error:
        causes = {
            errno.ENOSPC: "the disk is full",
            errno.EDQUOT: "the quota is used up",
            errno.EROFS: "it is read-only",
        }
        cause = causes.get(error.errno or 0, error.strerror or str(error))
        if error.errno == errno.ENOENT:
            raise RunError(f"{path}: was removed, or a part of it, while it was being written") from error
        raise RunError(
            f"{path}: cannot be written ({cause}). The last checkpoint in it is untouched; continue with `resume`."
        ) from error


def _is_taken(path: Path) -> bool:
    return path.exists() and (not path.is_dir() or any(path.iterdir()))


def _histogram(values: np.ndarray) -> list[int]:
    """Counts between HISTOGRAM_EDGES; what lies outside falls into the first or last bin."""
    clipped = np.clip(values, HISTOGRAM_EDGES[0], HISTOGRAM_EDGES[-1])
    return np.histogram(clipped, HISTOGRAM_EDGES)[0].tolist()


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{path}: cannot be read ({error})") from error


def _parse(text: str, path: Path) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise RunError(f"{path}: is damaged, it is no JSON ({error})") from error
    if not isinstance(values, dict):
        raise RunError(f"{path}: is damaged, it holds {type(values).__name__} where an object was expected")
    return values
