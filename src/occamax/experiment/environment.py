"""Where a run was made: versions, device, commit."""

import os
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax


def environment() -> dict[str, Any]:
    """Versions and device, for the summary."""
    packages = ("occamax", "jax", "jaxlib", "equinox", "optax", "numpy")
    device = jax.devices()[0]
    return {
        "versions": {name: _version(name) for name in packages},
        "device": f"{device.platform}: {device.device_kind}",
        "commit": source_commit(),
    }


@cache
def source_commit() -> str | None:
    """The commit of the source tree this runs from: OCCAMAX_COMMIT where it is set, else what git says of it. Asked
    when training begins and remembered: the tree may have another when it ends."""
    if os.environ.get("OCCAMAX_COMMIT"):
        return os.environ["OCCAMAX_COMMIT"]
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():  # installed, or a copy without its history
        return None
    try:
        found = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


def _version(package: str) -> str:
    try:
        return version(package)
    except Exception:  # run from a source tree that was never installed
        return "not installed"
