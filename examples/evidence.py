"""ΔF is the change of log evidence: linear regression, where the evidence is known exactly.

Removes each weight, and some groups of weights, from a conjugate regression; prints ΔF from the posterior alone beside
the exact difference of log evidence. They agree to the last digit printed.

    python examples/evidence.py
"""

import jax
import jax.numpy as jnp
import numpy as np

import occamax as ox


def main() -> None:
    rng = np.random.default_rng(0)
    noise_std, prior_std = 0.5, 1.5
    x = rng.normal(size=(60, 6)) @ (np.eye(6) + 0.4 * rng.normal(size=(6, 6)))  # correlated inputs
    w = np.array([1.0, 0.0, -0.7, 0.0, 0.2, 0.0])
    y = x @ w + noise_std * rng.normal(size=60)
    prior_vars = np.full(6, prior_std**2)

    precision = x.T @ x / noise_std**2 + np.diag(1 / prior_vars)
    covariance = np.linalg.inv(precision)
    mean = covariance @ x.T @ y / noise_std**2
    before = log_evidence(x, y, noise_std, prior_vars)

    print("removed     true weights    ΔF, nats   exact, nats   the data say")
    for gone in ([0], [1], [2], [3], [4], [5], [1, 3, 5], [0, 2]):
        reduced = np.where(np.isin(np.arange(6), gone), 0.0, prior_vars)
        found = ox.delta_f.dense(*(jnp.asarray(value) for value in (mean, covariance, reduced, prior_vars)))
        exact = log_evidence(x, y, noise_std, reduced) - before
        verdict = "remove" if found.delta_f > 0 else "keep"
        print(f"{gone!s:<12}{w[gone]!s:<15}{float(found.delta_f):>9.4f}{exact:>14.4f}   {verdict}")


def log_evidence(x: np.ndarray, y: np.ndarray, noise_std: float, prior_vars: np.ndarray) -> float:
    """ln p(y), a Gaussian with covariance noise² + X V Xᵀ."""
    covariance = noise_std**2 * np.eye(len(y)) + x @ np.diag(prior_vars) @ x.T
    return float(-0.5 * (np.linalg.slogdet(2 * np.pi * covariance)[1] + y @ np.linalg.solve(covariance, y)))


if __name__ == "__main__":
    with jax.enable_x64(True):
        main()
