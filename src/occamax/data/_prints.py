"""Fingerprints of files: whether what is opened again is what was opened before, and what changed."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError

SOME = 16  # rows of an array, evenly spaced, that stand for all of it

Prints = dict[str, dict[str, Any]]  # of each file or folder: how much it holds, and a digest


def file_print(path: Path) -> dict[str, Any]:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"bytes": file.tell(), "digest": digest}


def folder_print(files: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Of a folder's images, from their names and digests, in any order."""
    found = sorted(files)
    digest = hashlib.sha256("\n".join(f"{name}\0{digest}" for name, digest in found).encode())
    return {"images": len(found), "digest": digest.hexdigest()}


def array_print(array: Any, rows: int = SOME) -> dict[str, Any]:
    """Of so many rows of an array, the first and the last among them: a file need not be read for it. What changes
    between those rows and leaves the size as it is goes unnoticed."""
    places = np.unique(np.linspace(0, len(array) - 1, min(rows, len(array))).astype(int))
    digest = hashlib.blake2b(np.ascontiguousarray(array[places]).tobytes(), digest_size=16).hexdigest()
    return {"shape": list(array.shape), "dtype": str(array.dtype), "digest": digest}


def check_unchanged(source: str, then: Prints, now: Prints) -> None:
    """An error that says what changed, if anything did."""
    changes = [f"{name} is gone" for name in sorted(then.keys() - now.keys())]
    changes += [f"{name} is new" for name in sorted(now.keys() - then.keys())]
    changes += [
        _change(name, then[name], now[name]) for name in sorted(then.keys() & now.keys()) if then[name] != now[name]
    ]
    if changes:
        more = f" and {len(changes) - 5} more" if len(changes) > 5 else ""
        raise DataError(
            f"{source}: changed since it was opened first: {'; '.join(changes[:5])}{more}. Restore it, or start anew "
            "with the data as they are now."
        )


def _change(name: str, then: dict[str, Any], now: dict[str, Any]) -> str:
    for unit in ("images", "bytes", "shape"):
        if then.get(unit) != now.get(unit):
            return f"{name} held {then.get(unit)} {unit}, now {now.get(unit)}"
    return f"{name} holds as much as before, but other contents or names"
