"""The evidence of a whole group of weights, four ways, beside the exact one of a conjugate regression.

    python benchmarks/groups.py [--groups 200] [--seed 0] [--out results/groups.jsonl]
    python benchmarks/groups.py --table FILE

y = Xw + noise, all of deviation one, 48 inputs of which any two have the same correlation, 400 examples; a random group
of 4 to 32 weights is removed. Weights are drawn so small that either sign of ΔF is common. *sum*: the ΔF of each weight
by itself, from the best mean-field posterior, added up. *measured*: the change of the mean-field bound when the group
goes and the rest stays as it is, as `Measuring` has it, here in closed form. *settled*: the same, once the rest has
found its best again. *dense*: `delta_f.dense` with the group's covariance from the curvature. Prints how often the sign
is right, how many groups it would let go and how many of these may go, and the median error as a share of the exact ΔF.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import trials

from occamax.experiment.environment import environment
from occamax.reduction import delta_f

INPUTS, EXAMPLES = 48, 400
CORRELATIONS = 0.0, 0.3, 0.8
WAYS = "sum", "measured", "settled", "dense"


def evidence(x: np.ndarray, y: np.ndarray) -> float:
    """ln p(y) under standard normal weights and noise."""
    cover = np.eye(len(y)) + x @ x.T
    return float(-0.5 * (np.linalg.slogdet(cover)[1] + y @ np.linalg.solve(cover, y) + len(y) * np.log(2 * np.pi)))


def trial(rng: np.random.Generator, correlation: float) -> dict[str, float]:
    common, own = rng.normal(size=(EXAMPLES, 1)), rng.normal(size=(EXAMPLES, INPUTS))
    x = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own
    y = x @ (np.exp(rng.uniform(np.log(0.02), np.log(0.3))) * rng.normal(size=INPUTS)) + rng.normal(size=EXAMPLES)
    group = rng.choice(INPUTS, rng.integers(4, 33), replace=False)
    rest = np.setdiff1d(np.arange(INPUTS), group)
    precision = x.T @ x + np.eye(INPUTS)
    mean = np.linalg.solve(precision, x.T @ y)
    var = np.diag(precision) ** -1.0

    def bound(kept: np.ndarray, mean: np.ndarray) -> float:
        """On the data, of independent weights with these means, but for a constant."""
        misfit, own = y - x[:, kept] @ mean, var[kept]
        return -0.5 * float(misfit @ misfit + (1 - own).sum() + (mean**2 + own - 1 - np.log(own)).sum())

    settled = np.linalg.solve(precision[np.ix_(rest, rest)], x[:, rest].T @ y)
    before, covariance = bound(np.arange(INPUTS), mean), np.linalg.inv(precision)[np.ix_(group, group)]
    return {
        "exact": evidence(x[:, rest], y) - evidence(x, y),
        "sum": float(delta_f.removal(jnp.asarray(mean[group]), jnp.asarray(var[group])).sum()),
        "measured": bound(rest, mean[rest]) - before,
        "settled": bound(rest, settled) - before,
        "dense": float(delta_f.dense(jnp.asarray(mean[group]), jnp.asarray(covariance)).delta_f),
    }


def measure(count: int, seed: int, correlations: Sequence[float] = CORRELATIONS) -> dict[str, Any]:
    """A line: every group's ΔF by correlation and way, in nats."""
    groups = {}
    with jax.enable_x64(True):
        for correlation in correlations:
            rng = np.random.default_rng(seed)
            found = [trial(rng, correlation) for _ in range(count)]
            groups[str(correlation)] = {way: [one[way] for one in found] for way in ("exact", *WAYS)}
    return {"groups": count, "seed": seed, "delta_f": groups, "command": trials.command(), **environment()}


def table(lines: list[dict[str, Any]]) -> str:
    """By correlation and way: how often the sign is right, of how many it says that they may go, how often that is so,
    and the error as a share of the exact ΔF."""
    rows = []
    for line in lines:
        for correlation, ways in line["delta_f"].items():
            exact = np.array(ways["exact"])
            for way in WAYS:
                ours = np.array(ways[way])
                yes = ours > 0
                right, error = np.mean(yes == (exact > 0)), np.median(np.abs(ours - exact) / np.abs(exact))
                rows.append([
                    correlation, f"{np.sum(exact > 0)} of {len(exact)}", way, percent(right),
                    f"{np.sum(yes)}", f"{np.sum(exact[yes] > 0)} of {np.sum(yes)}", f"{error:.2g}",
                ])  # fmt: skip
    heads = ["correlation", "ΔF > 0", "way", "sign right", "lets go", "of these may go", "median error, relative"]
    return trials.markdown(heads, rows)


def percent(share: float) -> str:
    return f"{100 * share:.1f}".removesuffix(".0") + " %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, help="print what --out wrote as a Markdown table, and stop")
    options = parser.parse_args()
    if options.table:
        print(table(trials.lines_of(options.table)))
        return
    line = measure(options.groups, options.seed)
    print(table([line]))
    trials.keep(line, options.out)


if __name__ == "__main__":
    main()
