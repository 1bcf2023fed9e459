"""One process a run folder: the second is refused, not mixed in."""

import os
import socket
from pathlib import Path
from typing import Any

from ..errors import RunError

try:
    import fcntl
except ImportError:  # Windows has no such locks; there the folder is trusted
    fcntl = None


class RunLock:
    """Held while a run is written. The system lets go of it when the process ends, however it ends."""

    def __init__(self, folder: Path):
        self.path = folder / ".lock"
        self.file: Any = None

    def __enter__(self) -> "RunLock":
        if fcntl is None:
            return self
        try:
            self.file = open(self.path, "a+")
        except OSError as error:
            raise RunError(f"{self.path.parent}: cannot be written ({error.strerror})") from error
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.file.seek(0)
            holder = self.file.read().strip() or "another process"
            self.file.close()
            raise RunError(
                f"{self.path.parent}: is being written by {holder}. Wait for it, stop it, or choose another --out."
            ) from error
        self.file.truncate(0)
        self.file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        self.file.flush()
        return self

    def __exit__(self, *_: Any) -> None:
        if self.file is not None:
            self.file.close()
