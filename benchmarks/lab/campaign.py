"""What issue 19 wants measured on a GPU, by priority, in one call that can be cut off and called again.

    python benchmarks/lab/campaign.py --out FOLDER --data-dir DATA [--minutes 60] [--only NAME …]
    python benchmarks/lab/campaign.py --list
    python benchmarks/lab/campaign.py --out FOLDER --try      # two steps of everything, on made-up data

Each job is a command of benchmarks/ that keeps a line for each run and does not repeat what is in its file; one that is
over its limit is stopped, and loses the run it was in. `campaign.jsonl` says how each ended. `film_snippets` must lie
in DATA where the machine has no index of packages. On an H200 the prototype ran with
XLA_FLAGS="--xla_gpu_enable_triton_gemm=false --xla_gpu_autotune_level=2".
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).parents[1]
LEVELS = ("0", "0.5", "0.8", "0.9", "0.95", "0.98")
PAPER = [(data, network) for data in ("fashion_mnist", "cifar10", "cifar100") for network in
         ("mlp", "lenet", "mixer", "vit")]  # fmt: skip
# Every datum counted sixteen times under a wider prior; the first deviations are those of a curvature of .1, as without
COLDER = ("prior=NormalPrior({std})", "kl_weight=0.0625", "posterior=MeanField({first})")


@dataclass(frozen=True)
class Job:
    """One command; `minutes` it may take. `text` its data are texts."""

    name: str
    script: str
    words: tuple[str, ...]
    minutes: float
    text: bool = False


def jobs() -> list[Job]:
    """First what decides most."""
    found = [
        Job("times", "lab/step_time.py", ("new", "mlp,lenet,resnet20", "5", "200", "plain,bmr,bmr-natural"), 8),
        Job("natural-resnet20", "levels.py", ("cifar10", "resnet20", "bmr-natural", "--levels", *LEVELS, "--seeds", "3",
            "--test"), 60),
        Job("opponents-resnet20", "opponents.py", ("cifar10", "resnet20", "--sparsity", "0.9", "0.95", "0.98"), 120),
        Job("text", "opponents.py", ("film_snippets", "text", "--epochs", "20", "--steps", "200", "--sparsity", "0.9"),
            40, text=True),
    ]  # fmt: skip
    for std in (0.25, 0.3, 0.35):
        first = (0.0625 / (47_500 * 0.1)) ** 0.5 / std
        changes = [change.format(std=std, first=round(first, 4)) for change in COLDER]
        words = ("cifar10", "resnet20", "bmr-natural", "--set", *changes, "--augment", "flip", "crop", "--levels", "0",
                 "0.9", "--epochs", "100", "--steps", "390")  # fmt: skip
        found.append(Job(f"augmented-{std:g}", "levels.py", words, 60))  # on validation data: to choose by
    for data, network in PAPER:
        precision = ("--precision", "bfloat16") if network in ("mixer", "vit") else ()
        found.append(Job(f"opponents-{data}-{network}", "opponents.py", (data, network, *precision), 90))
    return found


def short(job: Job, folder: Path) -> Job:
    """The same on made-up data, two steps an epoch."""
    path = folder / f"{'tokens' if job.text else 'images'}.npz"
    if not path.exists():
        rng = np.random.default_rng(0)
        shape = (60, 8) if job.text else (60, 3, 32, 32)
        inputs = rng.integers(0, 50, shape, np.int32) if job.text else rng.integers(0, 256, shape, np.uint8)
        np.savez(path, x=inputs, y=np.arange(60) % 2)
    if job.script.endswith("step_time.py"):
        return Job(job.name, job.script, (*job.words[:2], "1", "2", *job.words[4:]), job.minutes)
    words = tuple(str(path) if i == 0 else word for i, word in enumerate(job.words))
    quick = ("--epochs", "4", "--steps", "2", "--samples", "2", "--seeds", "1")
    return Job(job.name, job.script, (*words, *quick, *(("--few",) if job.script == "opponents.py" else ())), 10)


def command(job: Job, options: argparse.Namespace) -> list[str]:
    words = [sys.executable, str(HERE / job.script), *job.words]
    if job.script.endswith("step_time.py"):
        data = "fashion_mini" if options.trial else "fashion_mnist"
        return [*words, str(options.data_dir or "."), data]
    words += [] if options.data_dir is None else ["--data-dir", str(options.data_dir)]
    return [*words, "--out", str(options.out / f"{job.name}.jsonl")]


def run(job: Job, options: argparse.Namespace, minutes: float) -> str:
    """How it ended; what it printed is in a file beside its lines."""
    words = command(job, options)
    print(f"{job.name}: {shlex.join(words[1:])}", flush=True)
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    where = {**os.environ, "PYTHONPATH": path}
    with open(options.out / f"{job.name}.log", "a") as log:
        try:
            done = subprocess.run(
                words,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=60 * minutes,
                env=where,
            )
        except subprocess.TimeoutExpired:
            return "stopped"
    return "done" if done.returncode == 0 else f"failed with {done.returncode}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a folder for the lines")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="for all of it")
    parser.add_argument("--only", nargs="+", help="names of jobs")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--try", action="store_true", dest="trial", help="two steps of each, on made-up data")
    options = parser.parse_args()
    wanted = [job for job in jobs() if not options.only or job.name in options.only]
    if options.list:
        print("\n".join(f"{job.name:32} {job.minutes:4g} min  {job.script} {shlex.join(job.words)}" for job in wanted))
        return
    if options.out is None:
        parser.error("--out is needed")
    options.out.mkdir(parents=True, exist_ok=True)
    end, kept = time.perf_counter() + 60 * options.minutes, options.out / "campaign.jsonl"
    ended = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    finished = {line["name"] for line in ended if line["ended"] == "done"}
    for job in wanted:
        left = (end - time.perf_counter()) / 60
        if job.name in finished or left <= 0:
            continue
        began = time.perf_counter()
        how = run(short(job, options.out) if options.trial else job, options, min(job.minutes, left))
        line = {"name": job.name, "ended": how, "seconds": round(time.perf_counter() - began)}
        print(f"  {how} after {line['seconds']} s", flush=True)
        with open(kept, "a") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
