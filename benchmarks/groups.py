"""The evidence of a whole group of weights, three ways, beside the exact one of a conjugate regression.

    python benchmarks/groups.py [--groups 200] [--seed 0]

y = Xw + noise, all of deviation one, 48 inputs of which any two have the same correlation, 400 examples; a random group
of 4 to 32 weights is removed. Weights are drawn so small that either sign of ΔF is common. *sum*: the ΔF of each weight
by itself, from the best mean-field posterior, added up. *measured*: the change of the mean-field bound when the group
goes and the rest stays as it is, as `Measuring` has it, here in closed form. *dense*: `delta_f.dense` with the group's
covariance from the curvature. Prints how often the sign is right, and the median error as a share of the exact ΔF.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np

from occamax.reduction import delta_f

INPUTS, EXAMPLES = 48, 400


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
    mean, std = np.linalg.solve(precision, x.T @ y), np.diag(precision) ** -0.5
    before, after = y - x @ mean, y - x[:, rest] @ mean[rest]
    noise = (np.diag(precision) - 1) * std**2
    nll = 0.5 * (after @ after - before @ before - noise[group].sum())
    paid = (0.5 * (mean**2 + std**2 - 1) - np.log(std))[group].sum()
    covariance = np.linalg.inv(precision)[np.ix_(group, group)]
    return {
        "exact": evidence(x[:, rest], y) - evidence(x, y),
        "sum": float(delta_f.removal(jnp.asarray(mean[group]), jnp.asarray(std[group] ** 2)).sum()),
        "measured": float(paid - nll),
        "dense": float(delta_f.dense(jnp.asarray(mean[group]), jnp.asarray(covariance)).delta_f),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(
        "| correlation | ΔF > 0 | way | sign right | where it says ΔF > 0 | median error |\n|---|---|---|---|---|---|"
    )
    with jax.enable_x64(True):
        for correlation in (0.0, 0.3, 0.8):
            rng = np.random.default_rng(options.seed)
            found = [trial(rng, correlation) for _ in range(options.groups)]
            exact = np.array([one["exact"] for one in found])
            for way in ("sum", "measured", "dense"):
                ours = np.array([one[way] for one in found])
                right, yes = np.mean((ours > 0) == (exact > 0)), ours > 0
                when = f"{np.mean(exact[yes] > 0):.1%}" if yes.any() else "–"
                error = np.median(np.abs(ours - exact) / np.abs(exact))
                print(f"| {correlation} | {np.mean(exact > 0):.0%} | {way} | {right:.1%} | {when} | {error:.2g} |")


if __name__ == "__main__":
    main()
