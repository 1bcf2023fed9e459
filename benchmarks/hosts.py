"""Some processes with a core each against one with one core: steps a second of the MLP at a global batch of 4096.

    python benchmarks/hosts.py [--steps 8] [--epochs 4] [--batch 4096] [--hosts 2] [--shard-weights]

Prints both rates, their ratio, and the largest difference between the weights at the end.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from occamax.storage import load_arrays


def begin(out: Path, options: argparse.Namespace, core: int, *more: str) -> subprocess.Popen:
    words = (
        f"train fashion_mini mlp bmr-paper --epochs {options.epochs} --steps {options.steps} --batch {options.batch}"
    )
    command = [sys.executable, "-m", "occamax", *words.split(), "--samples", "1", "--out", str(out), *more]
    pinned = {core % (os.cpu_count() or 1)}
    return subprocess.Popen(command, preexec_fn=lambda: os.sched_setaffinity(0, pinned), stdout=subprocess.DEVNULL)


def rate(out: Path) -> float:
    return json.loads((out / "summary.json").read_text())["steps_per_second"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--shard-weights", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        one, two = Path(name) / "one", Path(name) / "two"
        assert begin(one, options, 0).wait() == 0
        where = ["--devices", "all", "--coordinator", f"127.0.0.1:{port}", "--num-processes", str(options.hosts)]
        where += ["--shard-weights"] if options.shard_weights else []
        both = [begin(two, options, core, *where, "--process-id", str(core)) for core in range(options.hosts)]
        assert [process.wait() for process in both] == [0] * options.hosts
        ends = [load_arrays(path / "checkpoint.safetensors")[0] for path in (one, two)]
        difference = max(float(np.abs(ends[0][k] - ends[1][k]).max()) for k in ("posterior.mean", "posterior.log_std"))
        print(
            f"one process: {rate(one):.2f} steps/s; {options.hosts}: {rate(two):.2f}; ratio {rate(two) / rate(one):.2f}"
        )
        print(f"largest difference of the posterior: {difference:.1e}")


if __name__ == "__main__":
    main()
