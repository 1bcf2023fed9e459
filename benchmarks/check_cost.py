"""What the measured check of a reduction costs beside an epoch of 500 steps.

    python benchmarks/check_cost.py [--data fashion_mini] [--networks lenet-300-100 lenet mlp] [--rounds 5] [--out FILE]
    python benchmarks/check_cost.py --table FILE

In CPU seconds of this process, medians of interleaved calls: 100 steps; a reduction of `bmr` in which nothing is
measured; one that is measured and stands whole, which asks the network twice; and one that is bisected to the end,
which asks seven times. The last is of a proposal of all weights, at a KL weight at which the bound does not allow it:
after so few steps it would at `bmr`'s own, where each weight that goes saves about a nat.
"""

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import reductions
import trials

import occamax as ox
from occamax.experiment.environment import environment
from occamax.experiment.problem import read_data
from occamax.inference.training import Budget, State
from occamax.methods import BMR
from occamax.reduction import Evidence
from occamax.reduction.reducing import reduce

CHUNK, EPOCH = 100, 500
PROGRESS = 0.5
COLD = 1e-9  # a KL weight at which the data count so often that no bound lets all weights go


def timed(function: Callable[..., Any], state: State, *arguments: Any) -> tuple[float, Any]:
    """CPU seconds of a call that takes the state over, and what it gave."""
    own = jax.block_until_ready(jax.tree.map(jnp.copy, state))
    began = time.process_time()
    found = jax.block_until_ready(function(own, *arguments))
    return time.process_time() - began, found


def measure(data: str, network: str, rounds: int, data_dir: Path | None) -> dict[str, Any]:
    method, source = BMR(), ox.network_named(network)
    assert method.reduction is not None
    found = read_data(ox.load_data(data, data_dir), image_size=source.image_size)
    train = reductions.on_device(found.train)
    greedy = replace(method.reduction, criterion=Evidence(-math.inf), least_left=None)
    programs = [
        reductions.program_of(found, source, replace(method, reduction=how), Budget(50, EPOCH, reductions.BATCH), (0,))
        for how in (method.reduction, greedy)
    ]
    program = programs[0]
    unmeasured = reductions.unchecked(method).reduction
    assert unmeasured is not None
    bare = jax.jit(jax.vmap(lambda state: reduce(program.model, state, unmeasured, PROGRESS)), donate_argnums=0)
    count = method.reduction.measuring.count(EPOCH * reductions.BATCH, program.task.held_out.trained)
    examples = train[0][:count], train[1][:count]
    state = program.with_kl_weight(program.start())
    costs: dict[str, list[float]] = {"steps": [], "unmeasured": [], "whole": [], "bisected": []}
    for turn in range(rounds + 1):  # the first compiles
        seconds, (after, _) = timed(program.train_chunk[CHUNK], state, train)
        costs["steps"].append(seconds)
        state = after
        costs["unmeasured"].append(timed(bare, state)[0])
        for name, own in zip(("whole", "bisected"), programs, strict=True):
            given = state if name == "whole" else state._replace(kl_weight=jnp.full_like(state.kl_weight, COLD))
            seconds, (_, record) = timed(own.reduce, given, jnp.float32(PROGRESS), examples)
            costs[name].append(seconds)
            part = float(jnp.sum(record.removed) / record.proposed[0])
            assert turn == 0 or (part == 1.0) == (name == "whole"), (name, part)
    middle = {name: float(np.median(values[1:])) for name, values in costs.items()}
    epoch = middle.pop("steps") * EPOCH / CHUNK
    return {
        "data": data, "network": network, "examples": count, "rounds": rounds, "epoch_seconds": round(epoch, 3),
        **{name: round(value / epoch, 5) for name, value in middle.items()},
        "settings": method.as_data(), "command": trials.command(), **environment(),
    }  # fmt: skip


def table(lines: list[dict[str, Any]]) -> str:
    def share(value: float) -> str:
        return f"{value:.1%}".replace("%", " %")

    rows = [
        [
            f"{line['network']}, {line['data']}", str(line["examples"]), f"{line['epoch_seconds']:.1f}",
            share(line["unmeasured"]), *(share(line[name] - line["unmeasured"]) for name in ("whole", "bisected")),
        ]
        for line in lines
    ]  # fmt: skip
    heads = ["network", "examples asked", "CPU seconds of an epoch", "a reduction without the check"]
    return trials.markdown([*heads, "the check, all stands", "the check, bisected"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="fashion_mini")
    parser.add_argument("--networks", nargs="+", default=["lenet-300-100", "lenet", "mlp"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    lines = trials.lines_of(options.table)
    for network in [] if options.table else options.networks:
        lines.append(measure(options.data, network, options.rounds, options.data_dir))
        trials.keep(lines[-1], options.out)
    print(table(lines))


if __name__ == "__main__":
    main()
