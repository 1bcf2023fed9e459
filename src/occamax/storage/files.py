"""Files that are whole or not there: written beside, synced, renamed."""

import os
import shutil
from contextlib import suppress
from pathlib import Path


def write_atomic(path: Path, content: bytes) -> None:
    """The file is either the old one or the new one, whole, whatever happens."""
    beside = path.with_name(path.name + ".part")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(beside, 0o644)
        os.replace(beside, path)
    except OSError:
        with suppress(OSError):
            beside.unlink(missing_ok=True)  # half a file on a full disk helps nobody
        raise


def copy_atomic(path: Path, target: Path) -> None:
    """`target` becomes `path`'s content; where the file system can, they share it."""
    beside = target.with_name(target.name + ".part")
    beside.unlink(missing_ok=True)
    try:
        os.link(path, beside)
    except OSError:
        shutil.copyfile(path, beside)
    os.replace(beside, target)
