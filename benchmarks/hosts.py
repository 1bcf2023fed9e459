"""Some processes with a core each against one with one core: steps a second at a global batch of 4096.

    python benchmarks/hosts.py [--steps 8] [--epochs 4] [--batch 4096] [--hosts 2] [--shard-weights] [--out hosts.jsonl]
    python benchmarks/hosts.py --network resnet20 --steps 1 --micro-batches 16
    python benchmarks/hosts.py --table hosts.jsonl

Prints both rates, their ratio, and the largest difference between the weights at the end. A rate is of epochs after the
first, which compiles.
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
import trials

from occamax.experiment.environment import environment
from occamax.storage import load_arrays


def begin(out: Path, options: argparse.Namespace, core: int, *more: str) -> subprocess.Popen:
    words = f"train fashion_mini {options.network} bmr-paper --epochs {options.epochs} --steps {options.steps}"
    words += f" --batch {options.batch} --micro-batches {options.micro_batches}"
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
    parser.add_argument("--network", default="mlp")
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--shard-weights", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.table:
        print(table(trials.lines_of(options.table)))
        return
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
        rates = rate(one), rate(two)
        settings = json.loads((one / "config.json").read_text())["settings"]
    asked = {name: getattr(options, name) for name in ("network", "batch", "micro_batches", "hosts", "shard_weights")}
    asked |= {"steps": options.steps, "epochs": options.epochs}
    line = {**asked, "alone": rates[0], "together": rates[1], "difference": difference, "settings": settings}
    trials.keep({**line, "command": trials.command(), **environment()}, options.out)
    print(table([line]))


def table(lines: list[dict]) -> str:
    rows = []
    for line in lines:
        what = f"{line['network']}, batch {line['batch']:,}" + (", weights shared out" if line["shard_weights"] else "")
        what += f", {line['epochs']} × {line['steps']} steps"
        what += f", {line['micro_batches']} micro-batches" if line["micro_batches"] > 1 else ""
        times = f"{line['together'] / line['alone']:.2f} ×"
        rates = [f"{line[name]:.3g}" for name in ("alone", "together")]
        rows.append([what, str(line["hosts"]), *rates, times, f"{line['difference']:.0e}"])
    return trials.markdown(
        ["what", "hosts", "steps/s of one", "of all", "ratio", "largest difference of the posterior"], rows
    )


if __name__ == "__main__":
    main()
