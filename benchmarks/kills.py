"""Kills: short runs that are killed again and again, and must end as if nothing had happened.

    python benchmarks/kills.py [--kills 200] [--seed 0]

Each run (a small network with BatchNorm and dropout on augmented images, 40 epochs of 5 steps) gets ten SIGKILLs at
random moments, from its first second on, and is resumed after each. Its end is compared with that of a run that was
left alone: weights, buffers, metrics (their seconds apart) and reductions bit for bit, no line twice, none lost. Exits
with 1 if anything differs.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from occamax.experiment.folder import RunFolder
from occamax.storage import load_arrays

HERE = Path(__file__).parent
EPOCHS, EACH = 40, 10
WORDS = [
    *f"train fashion_mini kills:network bmr --epochs {EPOCHS} --steps 5 --batch 16 --samples 2".split(),
    *("--augment", "crop=2", "--augment", "flip"),
]


def network(shape: tuple[int, ...], outputs: int, *, key: Any) -> Any:
    """A convolution over blocks of pixels, BatchNorm, dropout, a linear layer; with its state."""
    import equinox as eqx
    import jax

    class Normed(eqx.Module):
        conv: eqx.nn.Conv2d
        norm: eqx.nn.BatchNorm
        dropout: eqx.nn.Dropout
        output: eqx.nn.Linear

        def __init__(self):
            one, two = jax.random.split(key)
            self.conv = eqx.nn.Conv2d(shape[0], 4, 7, stride=7, key=one)
            self.norm = eqx.nn.BatchNorm(4, axis_name="batch", mode="batch")
            self.dropout = eqx.nn.Dropout(0.1)
            self.output = eqx.nn.Linear(4 * (shape[1] // 7) * (shape[2] // 7), outputs, key=two)

        def __call__(self, x: Any, state: Any, *, key: Any = None) -> Any:
            x, state = self.norm(self.conv(x), state)
            return self.output(self.dropout(jax.nn.relu(x).ravel(), key=key)), state

    return eqx.nn.make_with_state(Normed)()


def begin(path: Path, *more: str, words: Sequence[str] = WORDS, where: Path = HERE) -> subprocess.Popen:
    command = [sys.executable, "-m", "occamax", *words, "--out", str(path.resolve()), *more]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=where)


def lines(path: Path) -> int:
    file = path / "metrics.jsonl"
    return file.read_text().count("\n") if file.exists() else 0


def killed(
    path: Path, kills: int, rng: random.Random, words: Sequence[str] = WORDS, where: Path = HERE
) -> tuple[str, ...]:
    """Trains through `kills` kills; how to go on. A resumption that fails by itself is an error."""
    resume: tuple[str, ...] = ()
    for _ in range(kills):
        process = begin(path, *resume, words=words, where=where)
        # some die before their first epoch, some soon after another one
        wanted = lines(path) + rng.choice([0, 1, 1, 2])
        moment = time.perf_counter() + rng.uniform(0.2, 6.0)
        while process.poll() is None and (lines(path) < wanted or time.perf_counter() < moment):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        _, said = process.communicate()
        if process.returncode not in (-signal.SIGKILL, 0):
            raise RuntimeError(said)
        resume = ("--resume",) if (path / "checkpoint.safetensors").exists() else ("--overwrite",)
    return resume


def killed_run(path: Path, kills: int, rng: random.Random) -> bool:
    """Trains to the end through `kills` kills; whether every resumption went well."""
    try:
        process = begin(path, *killed(path, kills, rng))
        _, said = process.communicate()
        if process.returncode:
            raise RuntimeError(said)
    except RuntimeError as error:
        print(error)
        return False
    return True


def timeless_metrics(path: Path) -> list[dict]:
    return [{name: value for name, value in line.items() if name != "seconds"} for line in RunFolder(path).metrics()]


def differences(path: Path, other: Path) -> list[str]:
    """What of two runs' ends is not the same bit for bit."""
    (ours, place), (theirs, other_place) = (load_arrays(p / "checkpoint.safetensors") for p in (path, other))
    found = [] if place == other_place and set(ours) == set(theirs) else ["place"]
    found += [name for name in theirs if name not in ours or not np.array_equal(ours[name], theirs[name])]
    found += ["metrics"] if timeless_metrics(path) != timeless_metrics(other) else []
    same = RunFolder(path).lines("reductions.jsonl") == RunFolder(other).lines("reductions.jsonl")
    return found + ([] if same else ["reductions"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    done = failed = different = 0
    with tempfile.TemporaryDirectory() as name:
        alone = Path(name) / "alone"
        begin(alone).communicate()
        while done < options.kills:
            path = Path(name) / f"run{done}"
            failed += not killed_run(path, min(EACH, options.kills - done), rng)
            wrong = differences(path, alone)
            different += bool(wrong)
            done += min(EACH, options.kills - done)
            print(f"{done} kills: {failed} runs not resumed, {different} with another end {wrong or ''}", flush=True)
    sys.exit(1 if failed or different else 0)


if __name__ == "__main__":
    main()
