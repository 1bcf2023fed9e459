"""Which scores are the lowest: what counting costs beside sorting, on one device.

    python benchmarks/ranking.py [--counts 1000000] [--rounds 20] [--out results/ranking.jsonl]

Milliseconds of a call, medians of interleaved calls, of scores that are all different, of which half were removed
before (and are the lowest, all alike), and that are rounded to whole numbers. Fails if the two differ anywhere.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import trials

from occamax.experiment.environment import environment
from occamax.reduction.ranking import lowest, ranks

SHARE = 0.9  # that goes


def scores_of(count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    plain = rng.normal(size=count).astype(np.float32)
    gone = np.where(rng.random(count) < 0.5, np.float32(-np.inf), plain)
    return {"different": plain, "half_gone": gone, "rounded": np.round(plain)}


def measure(count: int, rounds: int) -> dict[str, Any]:
    ways = {"sorting": jax.jit(lambda score, most: ranks(score) < most), "counting": jax.jit(lowest)}
    most, found = jnp.int32(SHARE * count), {}
    for kind, values in scores_of(count).items():
        score, times = jnp.asarray(values), {way: [] for way in ways}
        sorted_, counted = (np.asarray(way(score, most)) for way in ways.values())
        assert np.array_equal(sorted_, counted), kind
        for _ in range(rounds):
            for way, asked in ways.items():
                began = time.perf_counter()
                jax.block_until_ready(asked(score, most))
                times[way].append(1e3 * (time.perf_counter() - began))
        found[kind] = {way: round(float(np.median(own)), 3) for way, own in times.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    for count in options.counts:
        settings = f"the lowest {SHARE:.0%} of {count} scores, {options.rounds} calls each"
        line = {"scores": count, **measure(count, options.rounds), "settings": settings}
        print(line)
        trials.keep({**line, "command": trials.command(), **environment()}, options.out)


if __name__ == "__main__":
    main()
