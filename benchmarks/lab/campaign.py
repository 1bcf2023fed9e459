"""What is still to be measured of real networks on a GPU, by priority; it can be cut off and called again.

    python benchmarks/lab/campaign.py --out FOLDER --data-dir DATA [--minutes 60] [--workers 6] [--only NAME …]
    python benchmarks/lab/campaign.py --list
    python benchmarks/lab/campaign.py --out FOLDER --try      # two steps of everything, on made-up data

Each job is a command of benchmarks/ that keeps a line for each run and does not repeat what is in its file; one that is
over its limit is stopped, and loses the run it was in. `campaign.jsonl` says how each ended. `film_snippets` must lie
in DATA where the machine has no index of packages, and so must what `pretrained_weights.py` writes (57 MiB). What is
chosen among candidates is chosen on validation data, here; only then do the jobs run that look at the test set.

Seen on an H200: XLA_FLAGS="--xla_gpu_enable_triton_gemm=false --xla_gpu_autotune_level=2", a compilation cache and
XLA_PYTHON_CLIENT_PREALLOCATE=false; with these flags LeNet-5-Caffe, and LeNet in bfloat16, have a product that cuBLAS
does not know. Under MPS (`nvidia-cuda-mps-control -d`) six ResNet-20s at once make 165 steps a second each, seventeen
runs of all kinds 41: **six workers**. 50 × 500 steps are then 150 s. Seven with two of other kinds beside them made 80
each, with a ViT and a Mixer among them 60 to 95. A process under MPS that is killed takes all others with it (an
illegal address in each); one that is sent SIGINT saves and ends by itself. What is long is a run folder, which goes on
on another machine when it is in `--out` again. What is timed runs alone, first.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from threading import Condition

import numpy as np
import pretrained_jobs

HERE = Path(__file__).parents[1]
HALF = ("--precision", "bfloat16")
FLIPS = ("--augment", "flip", "crop", "--steps", "390")
LARGE = [(data, network) for data in ("fashion_mnist", "cifar10", "cifar100") for network in ("mixer", "vit")]


@dataclass(frozen=True)
class Job:
    """One command; `minutes` it may take. `text`: its data are texts. `choice`: the choice whose
    best candidate it is run with."""

    name: str
    script: str
    words: tuple[str, ...]
    minutes: float = 20
    text: bool = False
    alone: bool = False  # it is timed
    choice: str | None = None
    after: str | None = None  # the job that must have ended before


def rate(value: float) -> str:
    return f"learning_rate=Cosine({value},warm_up=0.02)"


def colder(beta: float, std: float) -> tuple[str, ...]:
    """A KL weight and a prior with first deviations of a curvature of .1 for 47,500 examples."""
    first = round((beta / (47_500 * 0.1)) ** 0.5 / std, 4)
    return f"prior=NormalPrior({std})", f"kl_weight={beta}", f"posterior=MeanField({first})"


# How a ResNet is trained with flips and crops: of 20 settings the best on validation data (`docs/lab/resnet20.md`)
FLIPPED = (*colder(1 / 64, 0.085), "reduction=Reduction(TargetSparsity(0.9,begin=0.3,reach=0.9),Between(0.1,0.95))")
# Its opponent goes the same way there, and is tuned on it
PLAIN_WAY = "reduction=Reduction(TargetSparsity(0.9,Magnitude(),begin=0.3,reach=0.9),Between(0.1,0.95))"
# What is chosen on validation data, by the sum of the NLLs of a candidate's jobs: values of the method by candidate
CHOICES = {
    "plainflips": {
        f"{name}-{value}-{decay}": (PLAIN_WAY, f"optimizer={optimizer}{decay})", rate(value))
        for name, optimizer, pairs in (
            ("sgd", "Momentum(0.9,", ((0.05, 5e-4), (0.1, 5e-4), (0.1, 1e-3), (0.2, 5e-4), (0.2, 1e-3))),
            ("adamw", "AdamW(", ((3e-3, 0.1), (3e-3, 0.4), (1e-3, 0.4), (1e-3, 1.2))),
        )
        for value, decay in pairs
    },
} | {
    f"plain{network}": {
        f"{decay}-{dropout}": (f"optimizer=AdamW({decay})", rate(1e-3), f"dropout={dropout}")
        for decay, dropout in ((0.1, 0.2), (1.2, 0.2), (0.5, 0.0))
    }
    for network in ("vit", "mixer")
}
CHOICES |= pretrained_jobs.choices()
TUNED = ("optimizer=AdamW(1.2)", rate(1e-3))
# What `opponents.py` chose on validation data (`results/opponents/`)
BEST_PLAIN = {
    ("cifar10", "mlp"): (*TUNED, "dropout=0.2"),
    ("cifar10", "lenet"): ("optimizer=Momentum(0.9,0.002)", rate(0.05)),
    ("fashion_mnist", "mlp"): ("optimizer=AdamW(0.5)", rate(1e-3), "dropout=0.5"),
    ("fashion_mnist", "lenet"): ("optimizer=Momentum(0.9,0.002)", rate(0.05)),  # stopped early there
}


def chosen_among() -> list[Job]:
    """The candidates on validation data; a job's name begins with its choice and candidate."""
    found = []
    for name, changes in CHOICES["plainflips"].items():
        words = ("cifar10", "resnet20", "plain", "--set", *changes, "--levels", "0.9", "--epochs", "60")
        found.append(Job(f"plainflips-{name}", "levels.py", (*words, *FLIPS, *HALF)))
    for network in ("vit", "mixer"):
        for name, changes in CHOICES[f"plain{network}"].items():
            words = ("cifar10", network, "plain", "--set", *changes, "--levels", "0", *HALF)
            found.append(Job(f"plain{network}-{name}", "levels.py", words))
    return [*found, *(Job(**own) for own in pretrained_jobs.candidates())]


def on_the_test_set(method: str, level: str, seed: int, *changes: str) -> Job:
    """ResNet-20."""
    words = ("cifar10", "resnet20", method, *HALF, "--test", "--first-seed", str(seed), "--levels", level)
    return Job(f"resnet20-{method}-{level}-{seed}", "levels.py", (*words, *(("--set", *changes) if changes else ())))


def augmented(data: str, method: str, sparsity: float, epochs: int, seed: int, changes: tuple[str, ...]) -> Job:
    """ResNet-20 with flips and crops on the test set, as a run folder: what is cut off goes on where it was."""
    if not sparsity:
        changes = (*(change for change in changes if not change.startswith("reduction=")), "reduction=None")
    values = [word for change in changes for word in ("--set", change)]
    words = (
        f"{data} resnet20 {method} --epochs {epochs} --steps 390 --augment flip --augment crop --seed {seed}".split()
    )
    pruned_to = ("--sparsity", str(sparsity)) if sparsity else ()
    words = (*words, *pruned_to, "--curve-samples", "2", *HALF, *values)
    return Job(f"augmented-{data}-{method}-{sparsity:g}-{seed}", "train", words, 40)


def cells() -> list[Job]:
    """The paper's six large ones on the test set with their bound; `opponents/` has the small ones."""
    rest = [(data, network) for data, network in LARGE if data != "cifar10"]  # of that one there are run folders
    return [
        Job(f"cell-{data}-{network}", "levels.py", (data, network, "bmr", "--test", *HALF)) for data, network in rest
    ]


def orders() -> list[Job]:
    """What goes first, by three scores of the same posterior: a network with norms and two without."""
    found = []
    for data, network, *more in (("cifar10", "resnet20", *HALF), ("fashion_mnist", "mlp"), ("cifar10", "lenet")):
        for level in ("0.98", "0.95", "0.99"):
            for score in ("evidence", "signal-to-noise", "magnitude"):
                words = (data, network, "bmr", "--score", score, "--levels", level, *more)
                found.append(Job(f"order-{network}-{level}-{score}", "levels.py", words, 30))
    return found


def few() -> list[Job]:
    """`bmr` and plain training with few examples, on validation data."""
    plain = [
        f"plain, rate {rate}, decay 0.5, dropout {dropout}"
        for rate in ("0.001", "0.003")
        for dropout in ["0", "0.2", "0.5"]
    ]
    words = ("--data", "fashion_mnist", "--epochs", "50", "--steps", "100", "--ways", "bmr", *plain)
    return [
        Job(f"few-{network}-{count}", "recipes.py", (*words, "--networks", network, "--images", str(count)))
        for network in ("mlp", "lenet")
        for count in (1000, 3000, 10_000)
    ]


def timed() -> list[Job]:
    words = ("--data", "fashion_mnist", "--epochs", "5", *HALF)  # 260 s, most of it to compile
    return [Job("large", "large.py", words, 6, alone=True)]


def runs() -> list[Job]:
    """A run folder to export at home; with a price for units, by weights: what time they take is another machine's
    affair."""
    words = ("cifar10", "vit", "bmr")
    return [
        Job("run-vit-units", "train", (*words, "--unit-price", "0.03", *HALF)),
        Job("run-vit", "train", (*words, *HALF)),
    ]


def from_trained() -> list[Job]:
    """A tenth of the steps from trained weights, beside a run from scratch: how cold, and at which rate, on validation
    data. The prior is of each layer's own size (`TrainedPrior`)."""
    shared = ("--data", "cifar10", "--network", "resnet20", "--epochs", "50", "--steps", "500", "--no-test", *HALF)
    shared += ("--start-epochs", "50", "--start-set", *TUNED)
    first = Job("trained-resnet20-dense", "from_trained.py", (*shared, "--only", "dense"))
    told = ("--sparsity", "0.9")
    found = [first, Job("trained-resnet20-scratch", "from_trained.py", (*shared, "--only", "scratch", *told))]
    ways = {f"{beta}": (f"kl_weight={beta}",) for beta in (0.25, 0.05, 1.0)} | {
        f"rate-{value}": (rate(value), "prior=TrainedPrior(3.0)") for value in (0.005, 0.05)
    }
    ways |= {f"width-{width}": (f"prior=TrainedPrior({width})",) for width in (1.0, 10.0)}
    for name, changes in ways.items():
        words = (*shared, "--only", "trained", "--method", "bmr-natural", *told, "--set", *changes)
        found.append(Job(f"trained-resnet20-{name}", "from_trained.py", words, after=first.name))
    plain = ("--only", "trained", "--method", "plain", *told, "--set", "optimizer=AdamW(1.2)")
    for value in (1e-3, 3e-3):
        words = (*shared, *plain, rate(value))
        found.append(Job(f"trained-resnet20-magnitude-{value}", "from_trained.py", words, after=first.name))
    return found


def small() -> list[Job]:
    """Networks without norms, on validation data. How cold natural gradients should be there from random weights (.5 on
    Fashion-MNIST, at least 1 and 2 on CIFAR-10: `study/how-cold-in-full-runs.jsonl`), and from those of tuned plain
    training, which has 22,000 steps, and what follows 2,500 (`docs/howto/trained.md`)."""
    found = []
    places = [(data, network) for data in ("cifar10", "fashion_mnist") for network in ("mlp", "lenet")]
    warmer = {("cifar10", "mlp"): ("2.0", "4.0"), ("cifar10", "lenet"): ("4.0",)}  # what a run before them left open
    for (data, network), betas in warmer.items():
        for beta in betas:
            words = (data, network, "bmr-natural", "--set", f"kl_weight={beta}", "--levels", "0.9")
            found.append(Job(f"cold-{data}-{network}-{beta}", "levels.py", words))
    for data, network in places:
        tuned = BEST_PLAIN[data, network]
        shared = ("--data", data, "--network", network, "--epochs", "25", "--steps", "1000", "--start-epochs", "22")
        shared += ("--start-set", *tuned, "--samples", "100", "--no-test")
        first = Job(f"begun-{data}-{network}-dense", "from_trained.py", (*shared, "--only", "dense"))
        found.append(first)
        for beta in ("0.25", "0.6", "1.0"):
            words = (*shared, "--only", "trained", "--method", "bmr-natural", "--sparsity", "0.9")
            words += ("--set", f"kl_weight={beta}")
            found.append(Job(f"begun-{data}-{network}-{beta}", "from_trained.py", words, after=first.name))
    return found


def jobs() -> list[Job]:
    """By priority; what takes long comes early enough to end."""
    found = small()
    found += [augmented("cifar10", "bmr-natural", 0.9, 200, seed, FLIPPED) for seed in (1, 2)]
    opponent = ("cifar10", "resnet20", "plain", "--levels", "0.9", "--epochs", "200", *FLIPS, *HALF, "--test")
    tried = chosen_among()
    found += [job for job in tried if job.name.startswith("plainflips")]
    found.append(Job("augmented-plain", "levels.py", opponent, 40, choice="plainflips"))
    found += [*runs(), *few(), *timed(), *from_trained()]
    text = ("film_snippets", "text", "--epochs", "20", "--steps", "200", "--sparsity", "0.9", "--seeds", "3")
    found.append(Job("text", "opponents.py", (*text, "--quick"), 40, text=True))
    found += [job for job in tried if job.script == "pretrained.py"]
    found += [Job(**own) for own in pretrained_jobs.tests()]
    found += [*orders(), *cells()]
    found += [job for job in tried if job not in found]
    for network in ("vit", "mixer"):
        words = ("cifar10", network, "plain", "--levels", "0", "--test", *HALF)
        found.append(Job(f"dense-{network}", "levels.py", words, choice=f"plain{network}"))
    found += [on_the_test_set("bmr", level, seed) for seed in (1, 2) for level in ("0.98", "0.8", "0.5")]
    found.append(on_the_test_set("plain", "0.98", 0, *TUNED))
    levels = ("0.9", "0", "0.95", "0.8", "0.98", "0.5")
    found += [on_the_test_set("plain", level, seed, *TUNED) for seed in (1, 2) for level in levels]
    for data, network in LARGE:
        words = (data, network, "--quick", "--seeds", "3", *HALF)
        found.append(Job(f"opponents-{data}-{network}", "opponents.py", words, 90))
    return found


def best(choice: str, folder: Path) -> tuple[str, ...]:
    """The values of the candidate with the lowest NLL, summed over its jobs; one that did not end is out."""
    found = {}
    for name, changes in CHOICES[choice].items():
        own = [job.name for job in chosen_among() if job.name.startswith(f"{choice}-{name}")]
        lines = [folder / f"{job}.jsonl" for job in own]
        if all(path.exists() and path.read_text() for path in lines):
            found[name] = sum(json.loads(path.read_text().splitlines()[-1])["nll"] for path in lines), changes
    print(f"{choice}: { ({name: round(nll, 4) for name, (nll, _) in found.items()}) }", flush=True)
    return min(found.values())[1]


def short(job: Job, folder: Path) -> Job:
    """The same on made-up data, two steps an epoch."""
    path = folder / f"{'tokens' if job.text else 'images'}.npz"
    if not path.exists():
        rng = np.random.default_rng(0)
        shape = (60, 8) if job.text else (60, 3, 32, 32)
        inputs = rng.integers(0, 50, shape, np.int32) if job.text else rng.integers(0, 256, shape, np.uint8)
        np.savez(path, x=inputs, y=np.arange(60) % 2)
    if job.alone:
        small = ("--data", str(path), "--width", "32", "--depth", "1", "--heads", "2", "--steps", "2")
        return replace(job, words=(*job.words, *small, "--batch-size", "8"))
    names = ("fashion_mnist", "cifar10", "cifar100", "film_snippets")
    words = tuple(str(path) if word in names else word for word in job.words)
    quick = ("--epochs", "4", "--steps", "10", "--samples", "2", *(() if job.script == "train" else ("--seeds", "1")))
    few = {"opponents.py": ("--few",), "pretrained.py": ("--random", "--batch", "8", "--side", "32")}
    return replace(job, words=(*words, *quick, *few.get(job.script, ())), minutes=10)


def command(job: Job, options: argparse.Namespace) -> list[str]:
    if job.script == "train":
        data = [] if options.data_dir is None else ["--data-dir", str(options.data_dir)]
        again = ["--resume"] if (options.out / job.name).exists() else []
        folder = ["--out", str(options.out / job.name)]
        return [sys.executable, "-m", "occamax", "train", *job.words, *data, *folder, *again]
    words = [sys.executable, str(HERE / job.script), *job.words]
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
    parser.add_argument("--only", nargs="+", help="names of jobs, or patterns of them")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--try", action="store_true", dest="trial", help="two steps of each, on made-up data")
    options = parser.parse_args()
    patterns = options.only or ["*"]
    wanted = [job for job in jobs() if any(fnmatch(job.name, pattern) for pattern in patterns)]
    if options.list:
        print("\n".join(f"{job.name:32} {job.minutes:4g} min  {job.script} {shlex.join(job.words)}" for job in wanted))
        return
    if options.out is None:
        parser.error("--out is needed")
    options.out.mkdir(parents=True, exist_ok=True)
    campaign = Campaign(wanted, options)
    campaign.work(lambda job: job.alone)
    with ThreadPoolExecutor(options.workers) as pool:
        for worker in [pool.submit(campaign.work) for _ in range(options.workers)]:
            worker.result()


class Campaign:
    """Jobs in order of priority, shared by several workers. One that takes a choice waits for all its candidates."""

    def __init__(self, wanted: list[Job], options: argparse.Namespace):
        self.options, self.changed = options, Condition()
        self.end, self.kept = time.perf_counter() + 60 * options.minutes, options.out / "campaign.jsonl"
        finished = {line["name"] for line in self.lines() if line["ended"] == "done"}
        needed = {name for job in wanted for name in self.before(job)}
        first = [job for job in jobs() if job.name in needed and job not in wanted]
        self.pending = [job for job in [*first, *wanted] if job.name not in finished]

    def lines(self) -> list[dict]:
        return [json.loads(line) for line in self.kept.read_text().splitlines()] if self.kept.exists() else []

    @staticmethod
    def before(job: Job) -> set[str]:
        """The jobs that must be over first."""
        candidates = [other.name for other in chosen_among() if other.name.startswith(f"{job.choice}-")]
        return {*candidates, *([job.after] if job.after else [])}

    def is_ready(self, job: Job) -> bool:
        return self.before(job) <= {line["name"] for line in self.lines()}

    def work(self, kind: Callable[[Job], bool] = lambda job: True) -> None:
        """Jobs of a kind, one after the other, until none is left."""
        while (job := self.take(kind)) is not None:
            self.do(job)

    def take(self, kind: Callable[[Job], bool]) -> Job | None:
        with self.changed:
            while time.perf_counter() < self.end:
                left = [job for job in self.pending if kind(job)]
                job = next((job for job in left if self.is_ready(job)), None)
                if job is not None:
                    self.pending.remove(job)
                    return job
                if not left:
                    return None
                self.changed.wait(5)
            return None

    def do(self, job: Job) -> None:
        began, left = time.perf_counter(), (self.end - time.perf_counter()) / 60
        ended = {line["name"]: line["ended"] for line in self.lines()}
        if self.before(job) and not any(ended[name] == "done" for name in self.before(job)):
            how = "skipped: what it needs failed"
        else:
            if job.choice is not None:
                job = replace(job, words=(*job.words, "--set", *best(job.choice, self.options.out)))
            how = run(short(job, self.options.out) if self.options.trial else job, self.options, min(job.minutes, left))
        line = {"name": job.name, "ended": how, "seconds": round(time.perf_counter() - began)}
        print(f"  {job.name}: {how} after {line['seconds']} s", flush=True)
        with self.changed:
            with open(self.kept, "a") as file:
                file.write(json.dumps(line) + "\n")
            self.changed.notify_all()


if __name__ == "__main__":
    main()
