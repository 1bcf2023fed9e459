"""What is still to be measured of real networks on a GPU, by priority; it can be cut off and called again.

    python benchmarks/lab/campaign.py --out FOLDER --data-dir DATA [--minutes 60] [--workers 5] [--only NAME …]
    python benchmarks/lab/campaign.py --list
    python benchmarks/lab/campaign.py --out FOLDER --try      # two steps of everything, on made-up data

Each job is a command of benchmarks/ that keeps a line for each run and does not repeat what is in its file; one that is
over its limit is stopped, and loses the run it was in. `campaign.jsonl` says how each ended. `film_snippets` must lie
in DATA where the machine has no index of packages.

Seen on an H200: XLA_FLAGS="--xla_gpu_enable_triton_gemm=false --xla_gpu_autotune_level=2", a compilation cache and
XLA_PYTHON_CLIENT_PREALLOCATE=false; one ResNet-20 alone takes 1.8 ms a step, eight under MPS (`nvidia-cuda-mps-control
-d`) some 800 steps a second in all. What is timed runs alone, first.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).parents[1]
LEVELS = ("0", "0.5", "0.8", "0.9", "0.95", "0.98")
RATES = (0.05, 0.1, 0.2)
PAPER = [(data, network) for data in ("fashion_mnist", "cifar10", "cifar100") for network in
         ("mlp", "lenet", "mixer", "vit")]  # fmt: skip
# Where it is told how much goes: the rate kept up while weights go, a KL weight that is heavier then, lighter for the
# survivors. On MNIST it was no more than a seed's spread (`docs/lab/notebook.md`, *A target by natural gradients*)
COOLING = ("learning_rate=Ramp(0.1,0.0,0.6,1.0)", "kl_weight=Ramp(0.5,0.1,0.6,1.0)")
# Every datum counted more often, where augmentation makes more of it; the first deviations are of a curvature of .1
COLDER = ("prior=NormalPrior({std})", "kl_weight={beta}", "posterior=MeanField({first})")


@dataclass(frozen=True)
class Job:
    """One command; `minutes` it may take. `text` its data are texts."""

    name: str
    script: str
    words: tuple[str, ...]
    minutes: float
    text: bool = False
    alone: bool = False  # it is timed


def jobs() -> list[Job]:
    """First what decides most: the rate, on validation data; then the test set; then the opponents."""
    speed = ("--networks", "mlp", "lenet", "resnet20", "--methods", "map", "bmr-natural", "--no-details", "--peers")
    found = [Job("times", "speed.py", (*speed, "--steps", "300"), 8, alone=True)]
    half = ("--precision", "bfloat16")
    for rate in RATES:
        change = ("--set", f"learning_rate=Cosine({rate},warm_up=0.02)")
        for level in ("0", "0.95"):
            words = ("cifar10", "resnet20", "bmr-natural", *change, "--levels", level, *half)
            found.append(Job(f"rate-{rate:g}-resnet20-{level}", "levels.py", words, 10))
        for network in ("vit", "mixer"):
            words = ("cifar10", network, "bmr-natural", *change, *half)
            found.append(Job(f"rate-{rate:g}-{network}", "levels.py", words, 10))
    for seed in range(3):
        for level in LEVELS:
            words = ("cifar10", "resnet20", "bmr-natural", "--levels", level, "--first-seed", str(seed), "--test")
            words += half
            found.append(Job(f"resnet20-{level}-{seed}", "levels.py", words, 10))
    words = ("cifar10", "resnet20", "bmr-natural", "--set", *COOLING, "--levels", "0.9", "0.95", "0.98", *half)
    found.append(Job("cooling-resnet20", "levels.py", words, 20))
    for beta, std in ((1 / 16, 0.17), (1 / 32, 0.17), (1 / 32, 0.25)):
        first = round((beta / (47_500 * 0.1)) ** 0.5 / std, 4)
        changes = [change.format(beta=beta, std=std, first=first) for change in COLDER]
        words = ("cifar10", "resnet20", "bmr-natural", "--set", *changes, "--augment", "flip", "crop", "--levels",
                 "0.9", "--epochs", "200", "--steps", "390", *half)  # fmt: skip
        found.append(Job(f"augmented-{beta:g}-{std:g}", "levels.py", words, 20))  # on validation data: to choose by
    text = ("film_snippets", "text", "--epochs", "20", "--steps", "200", "--sparsity", "0.9")
    found.append(Job("text", "opponents.py", text, 40, text=True))
    pruned = ("cifar10", "resnet20", "--sparsity", "0.9", "0.95", "0.98")
    found.append(Job("opponents-resnet20", "opponents.py", pruned, 120))
    for data, network in PAPER:
        precision = half if network in ("mixer", "vit") else ()
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
    if job.alone:
        return Job(job.name, job.script, (*job.words[:-1], "2", "--rounds", "1"), job.minutes, alone=True)
    words = tuple(str(path) if i == 0 else word for i, word in enumerate(job.words))
    quick = ("--epochs", "4", "--steps", "2", "--samples", "2", "--seeds", "1")
    return Job(job.name, job.script, (*words, *quick, *(("--few",) if job.script == "opponents.py" else ())), 10)


def command(job: Job, options: argparse.Namespace) -> list[str]:
    words = [sys.executable, str(HERE / job.script), *job.words]
    if job.alone:
        return [*words, "--out", str(options.out / f"{job.name}.json")]
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
    parser.add_argument("--workers", type=int, default=1, help="jobs at once")
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

    def do(job: Job) -> None:
        left = (end - time.perf_counter()) / 60
        if job.name in finished or left <= 0:
            return
        began = time.perf_counter()
        how = run(short(job, options.out) if options.trial else job, options, min(job.minutes, left))
        line = {"name": job.name, "ended": how, "seconds": round(time.perf_counter() - began)}
        print(f"  {job.name}: {how} after {line['seconds']} s", flush=True)
        with open(kept, "a") as file:
            file.write(json.dumps(line) + "\n")

    for job in wanted:
        if job.alone:
            do(job)
    with ThreadPoolExecutor(options.workers) as pool:
        list(pool.map(do, [job for job in wanted if not job.alone]))


if __name__ == "__main__":
    main()
