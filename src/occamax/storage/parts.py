"""Arrays of which each host writes its own part, through orbax: a folder of files, and what is said of it elsewhere.

A folder is only read by what a small file beside it says: which arrays it holds, how long they are, and a digest of
each of its files. A save that is cut short leaves a folder that nothing speaks of.
"""

import hashlib
import importlib.util
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError, RunError

FOLDER = "parts"


@dataclass(frozen=True)
class Parts:
    """What is said of a folder. **name** it has under `parts/`; **arrays** the type of each by its name; **used** of
    the entries of each, the rest fills the vector up for the devices that wrote it; **files** their digests."""

    name: str
    arrays: dict[str, str]
    used: int
    files: dict[str, str]

    def as_text(self) -> dict[str, str]:
        return {"parts": json.dumps(asdict(self))}

    @staticmethod
    def from_text(text: Mapping[str, str], path: Path) -> "Parts | None":
        """What a file's metadata say; None where the file holds everything itself."""
        if "parts" not in text:
            return None
        try:
            found = Parts(**json.loads(text["parts"]))
            if not found.name.isdecimal() or any(".." in Path(name).parts for name in found.files):
                raise ValueError("a name that leads elsewhere")
        except (TypeError, ValueError, AttributeError) as error:
            raise RunError(f"{path}: is damaged; what it says of its parts cannot be read ({error})") from error
        return found

    def check(self, beside: Path, number: int = 0, count: int = 1) -> None:
        """Every `count`-th file from `number` on against its digest: hosts may share the work."""
        folder = beside / FOLDER / self.name
        for name in sorted(self.files)[number::count]:
            try:
                found = _digest(folder / name)
            except OSError as error:
                raise RunError(f"{folder / name}: cannot be read ({error.strerror})") from error
            if found != self.files[name]:
                raise RunError(f"{folder / name}: is damaged; its content does not match its digest")

    def whole(self, beside: Path) -> dict[str, np.ndarray]:
        """The arrays on this host alone, without what filled them up; nobody else need take part."""
        import jax

        folder = beside / FOLDER / self.name
        checkpoint, number = _orbax(f"{folder}: was written by several hosts; to read it"), jax.process_index()
        alone = checkpoint.options.MultiprocessingOptions(number, {number}, f"alone{number}")
        own = alone if jax.process_count() > 1 else checkpoint.options.MultiprocessingOptions()
        handler = checkpoint.PyTreeCheckpointHandler(multiprocessing_options=own)
        as_numpy = {name: checkpoint.RestoreArgs(restore_type=np.ndarray) for name in self.arrays}
        with _explained(folder), checkpoint.Checkpointer(handler, multiprocessing_options=own) as reader:
            found = reader.restore(folder.resolve(), args=checkpoint.args.PyTreeRestore(restore_args=as_numpy))
        return {name: found[name][0, : self.used] for name in self.arrays}

    def spread(self, beside: Path, length: int, sharding: Any) -> dict[str, Any]:
        """The arrays over all hosts' devices, [1, length] each: a host reads its own part only. All take part."""
        import jax

        checkpoint = _orbax("--shard-weights: on several hosts")
        like = {
            name: jax.ShapeDtypeStruct((1, length), np.dtype(dtype), sharding=sharding)
            for name, dtype in self.arrays.items()
        }
        with _explained(beside / FOLDER / self.name), checkpoint.StandardCheckpointer() as c:
            return c.restore((beside / FOLDER / self.name).resolve(), like, strict=False)  # another length: filled up


def save_parts(beside: Path, name: str, arrays: Mapping[str, Any]) -> None:
    """Writes a new folder, each host its part of arrays [1, length]. All take part; when it returns, it is whole."""
    with _orbax("--shard-weights: on several hosts").StandardCheckpointer() as c:
        c.save((beside / FOLDER / name).resolve(), dict(arrays), force=True)
        c.wait_until_finished()


def written_by(beside: Path, name: str, host: int) -> dict[str, str]:
    """The digests of the files that a host wrote; those of nobody in particular are the first one's."""
    folder = beside / FOLDER / name
    files = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    own = f"ocdbt.process_{host}"
    mine = [file for file in files if file.parts[0] == own or (host == 0 and not file.parts[0].startswith("ocdbt."))]
    return {file.as_posix(): _digest(folder / file) for file in mine}


def next_name(beside: Path) -> str:
    """That no folder has yet, whole or half."""
    there = (beside / FOLDER).glob("*") if (beside / FOLDER).is_dir() else ()
    numbers = [int(path.name.split(".")[0]) for path in there if path.name.split(".")[0].isdecimal()]
    return f"{max(numbers, default=0) + 1:06d}"


def forget_parts(beside: Path, kept: Iterable[str]) -> None:
    """Removes the folders, whole or half, that nothing speaks of any more."""
    kept = set(kept)
    for path in (beside / FOLDER).glob("*") if (beside / FOLDER).is_dir() else ():
        if path.name not in kept:
            shutil.rmtree(path, ignore_errors=True)


def require_orbax() -> None:
    """Before any work is done that could not be kept."""
    _orbax("--shard-weights: on several hosts")


def _orbax(what: str) -> Any:
    if importlib.util.find_spec("orbax") is None:
        raise ArgumentError(f"{what} orbax is needed, which is not installed; pip install 'occamax[orbax]'")
    import orbax.checkpoint as checkpoint  # pyright: ignore[reportMissingImports]

    return checkpoint


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """What orbax says of a folder that it cannot read, in a line."""
    if not folder.is_dir():
        raise RunError(f"{folder}: is not there; a checkpoint speaks of it")
    try:
        yield
    except (ValueError, KeyError, OSError) as error:
        said = (str(error) or repr(error)).splitlines()[0][:200]
        raise RunError(f"{folder}: cannot be read ({said})") from error


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
