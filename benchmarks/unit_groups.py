"""The evidence of whole units of a trained network, three ways, beside what the bound comes to in the end.

    python benchmarks/unit_groups.py --out FILE [--network lenet] [--epochs 20] [--steps 100] [--each 6] [--after 300]
    python benchmarks/unit_groups.py --table FILE

A mean-field posterior is trained on the embedded images at β = 1, nothing pruned. Of every kind of unit some are drawn,
and each is removed by itself. *sum*: the ΔF of its weights, added up. *dense*: `delta_f.dense` with the covariance of
its weights from their block of the Gauss–Newton matrix, the rest of the network held. *measured*: how the bound changes
at once, as `Measuring` has it. *after*, which the others are compared with: by how much the bound with the unit gone is
higher than with it there, both trained on for as many steps on the same batches with the same noise.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import trials
from reductions import BATCH, on_device, program_of

import occamax as ox
from occamax.experiment.environment import environment
from occamax.experiment.problem import read_data
from occamax.experiment.program import Program
from occamax.inference.initializers import VarianceScaled
from occamax.inference.schedules import Constant, Cosine
from occamax.inference.training import Batch, State
from occamax.methods import Flat
from occamax.reduction import delta_f
from occamax.reduction.measuring import log_likelihoods
from occamax.reduction.reducing import remove
from occamax.structure.unit_search import find_units

DRAWS, EXAMPLES, CURVED = 64, 4096, 1000  # of a measurement; whose curvature is taken
AFTER_RATE = 1e-3
WAYS = ("sum", "dense", "measured")


def trained(program: Program, data: Batch, state: State, epochs: int) -> State:
    """The first seed's state after so many epochs."""
    for _ in range(epochs):
        state = program.with_kl_weight(state)
        for steps in program.chunks:
            state, _ = program.train_chunk[steps](state, data)
    return jax.tree.map(lambda leaf: leaf[0], state)


def bound_of(program: Program, examples: Batch) -> Any:
    """State → its bound at β = 1, in nats over the data set, as each draw of the weights has it."""
    model, size, key = program.model, program.task.held_out.trained, jax.random.key(1)

    @jax.jit
    def bound(state: State) -> jax.Array:
        each = log_likelihoods(model, state, state.mask, examples, key, DRAWS).reshape(DRAWS, -1).mean(1)
        return size * each - state.posterior.divergence(model.latent_prior, state.mask)

    return bound


def slopes(program: Program, state: State, inputs: jax.Array) -> tuple[np.ndarray, np.ndarray]:
    """∂ outputs / ∂ ŵ at the posterior mean (examples, outputs, weights), and the chances of the classes there
    (examples, outputs)."""
    model = program.model
    unit, log_scales, _ = model.split(state.posterior.point)

    def outputs(unit: jax.Array, x: jax.Array) -> jax.Array:
        weights = model.prior.weights(model.layout, unit, log_scales)
        return model.outputs(model.layout.bind(model.network, weights), x[None], state.buffers)[0]

    @jax.jit
    def some(inputs: jax.Array) -> tuple[jax.Array, jax.Array]:
        jacobian, found = (jax.vmap(function, (None, 0))(unit, inputs) for function in (jax.jacrev(outputs), outputs))
        return jacobian, jax.nn.softmax(found)

    found = [some(part) for part in jnp.split(inputs, len(inputs) // 20)]
    return np.concatenate([one[0] for one in found]), np.concatenate([one[1] for one in found])


def dense(mean: np.ndarray, jacobian: np.ndarray, chances: np.ndarray, size: int) -> float:
    """ΔF of a group whose covariance is that of its own block of the curvature, under a standard normal prior."""
    centred = jacobian - np.einsum("no,now->nw", chances, jacobian)[:, None]  # R Rᵀ = diag p − p pᵀ
    rooted = (np.sqrt(chances)[:, :, None] * centred).reshape(-1, len(mean)).astype(np.float64)
    precision = rooted.T @ rooted * (size / len(jacobian)) + np.eye(len(mean))
    with jax.enable_x64(True):
        covariance = jnp.asarray(np.linalg.inv(precision))
        return float(delta_f.dense(jnp.asarray(mean, jnp.float64), covariance).delta_f)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    found = read_data(ox.load_data("fashion_mini"), image_size=ox.network_named(options.network).image_size)
    source, budget = ox.network_named(options.network), ox.Budget(options.epochs, options.steps, BATCH)
    method = Flat(init=VarianceScaled(), learning_rate=Cosine(1e-2))
    program, data = program_of(found, source, method, budget, (0,)), on_device(found.train)
    state = trained(program, data, program.start(), options.epochs)
    model, rng = program.model, np.random.default_rng(0)
    kinds = find_units(model.network, model.buffers, model.calling, model.layout, found.example, model.preprocess)
    places = rng.choice(len(data[0]), EXAMPLES, replace=False)
    bound = bound_of(program, (data[0][places], data[1][places]))
    jacobian, chances = slopes(program, state, data[0][places[:CURVED]])
    mean, var = np.asarray(state.posterior.point), np.asarray(state.posterior.std) ** 2

    slower, longer = Flat(learning_rate=Constant(AFTER_RATE)), ox.Budget(1, options.after, BATCH)
    later = program_of(found, source, slower, longer, (0,))

    def go_on(state: State) -> State:
        return trained(later, data, jax.tree.map(lambda leaf: leaf[None].copy(), state), 1)

    before, unchanged = bound(state), bound(go_on(state))
    lines = []
    for kind in kinds:
        for unit in rng.choice(kind.count, min(options.each, kind.count), replace=False):
            gone = kind.mark(jnp.zeros(model.layout.size, bool), jnp.arange(kind.count) == unit)
            without, own = remove(state, gone), np.flatnonzero(gone)
            at_once, after = (bound(one) - reference for one, reference in
                              ((without, before), (go_on(without), unchanged)))  # fmt: skip
            lines.append({
                "kind": kind.name, "unit": int(unit), "weights": len(own),
                "sum": float(delta_f.removal(jnp.asarray(mean[own]), jnp.asarray(var[own])).sum()),
                "dense": dense(mean[own], jacobian[:, :, own], chances, program.task.held_out.trained),
                "measured": float(at_once.mean()), "after": float(after.mean()),
                "after_error": float(after.std(ddof=1) / np.sqrt(DRAWS)),
            })  # fmt: skip
            print(json.dumps(lines[-1]), flush=True)
    settings = {"settings": method.as_data(), "command": trials.command(), **environment()}
    budget = {name: vars(options)[name] for name in ("epochs", "steps", "after")}
    return {"data": "fashion_mini", "network": options.network, **budget, "units": lines, **settings}


def table(lines: list[dict[str, Any]]) -> str:
    """By network and way: how often the sign is that of the bound after training on, and the error in nats."""
    rows = []
    for line in lines:
        after = np.array([unit["after"] for unit in line["units"]])
        for way in WAYS:
            ours = np.array([unit[way] for unit in line["units"]])
            right, yes = np.sum((ours > 0) == (after > 0)), ours > 0
            rows.append([
                f"{line['network']}, {line['epochs']} × {line['steps']}", way, f"{right} of {len(after)}",
                f"{np.sum(after[yes] > 0)} of {np.sum(yes)}", f"{np.median(np.abs(ours - after)):,.0f}",
                f"{np.corrcoef(np.argsort(np.argsort(ours)), np.argsort(np.argsort(after)))[0, 1]:.2f}",
            ])  # fmt: skip
    heads = ["network", "way", "sign right", "where it says that the unit may go", "median error, nats"]
    return trials.markdown([*heads, "rank correlation"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="lenet")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--each", type=int, default=6, help="units of each kind")
    parser.add_argument("--after", type=int, default=300, help="steps that are trained on")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, help="print what --out wrote as a Markdown table, and stop")
    options = parser.parse_args()
    if options.table:
        print(table(trials.lines_of(options.table)))
        return
    line = measure(options)
    print(table([line]))
    trials.keep(line, options.out)


if __name__ == "__main__":
    main()
