"""What Bayesian training costs beside plain training, beside NumPyro, beside the authors' package.

    python benchmarks/speed.py [--networks mlp lenet] [--steps 40] [--rounds 5] [--seeds 8] [--out speed.json]

Prints one table a network: milliseconds per step in a compiled loop (the median of interleaved rounds), the ratio to
`map` in the same run, seconds to compile, seconds for an epoch of 500 steps with its evaluation, milliseconds for one
reduction, the program's memory, kernels a step launches, and the floor: the larger of bytes over copy bandwidth and
operations over matrix rate, both measured here, with how many times the floor the step takes.
"""

import argparse
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import contenders
import jax
import jax.numpy as jnp
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from trials import command

from occamax.data import load_data
from occamax.experiment.environment import environment
from occamax.experiment.program import of_seed
from occamax.inference.estimators import Flipout, LocalReparameterisation
from occamax.inference.posteriors import Point

EPOCH_STEPS = 500
PEERS = ("numpyro", "numpyro-plain", "authors")  # plain: with Equinox's own convolution


def main() -> None:
    options = parse()
    console = Console(highlight=False, width=150)
    dataset = load_data(options.data)
    ceilings = measure_ceilings()
    results: dict[str, Any] = {"command": command(), **environment(), "batch": contenders.BATCH}
    results |= {"ceilings": ceilings, "networks": {}}
    console.print(
        f"{results['device']}: copy {ceilings['copy_gb_s']:.0f} GB/s, products {ceilings['tflop_s']:.2f} TFLOP/s"
    )
    for network in options.networks:
        rows = time_network(dataset, network, options, ceilings)
        results["networks"][network] = rows
        console.print(table_of(network, rows))
        if options.out is not None:
            options.out.write_text(json.dumps(results, indent=2) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="fashion_mini")
    parser.add_argument("--networks", nargs="+", default=["mlp", "lenet"])
    parser.add_argument("--steps", type=int, default=40, help="steps in one timed loop")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=0, help="also time this many seeds at once")
    parser.add_argument("--methods", nargs="+", default=["map", "flat", "tiered", "bmr-paper"], help="map comes first")
    parser.add_argument("--estimators", action="store_true", help="also time flipout and local reparameterisation")
    parser.add_argument(
        "--details", action=argparse.BooleanOptionalAction, default=True, help="all but the step's time"
    )
    parser.add_argument(
        "--bfloat16", nargs="*", default=[], metavar="METHOD", help="also time these in mixed precision"
    )
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS, help="whom to time beside ours")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def measure_ceilings() -> dict[str, float]:
    """Bytes a second of a large copy (read and written), operations a second of a large product."""
    on_cpu = jax.default_backend() == "cpu"
    size = 2**24 if on_cpu else 2**29
    side = 1024 if on_cpu else 8192
    copy = jax.jit(lambda x: x + 1)
    product = jax.jit(lambda a: a @ a)
    vector, matrix = jnp.ones(size), jax.random.normal(jax.random.key(0), (side, side))
    return {
        "copy_gb_s": 8e-9 * size / best(lambda: copy(vector)),
        "tflop_s": 2e-12 * side**3 / best(lambda: product(matrix)),
    }


def best(call: Callable[[], Any], rounds: int = 5) -> float:
    jax.block_until_ready(call())
    return min(timed(call) for _ in range(rounds))


def timed(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - began


def time_network(
    dataset, network: str, options: argparse.Namespace, ceilings: dict[str, float]
) -> list[dict[str, Any]]:
    steps = options.steps
    field = [contenders.ours(dataset, network, method, steps) for method in options.methods]
    if options.seeds:
        field.append(contenders.ours(dataset, network, "bmr-paper", steps, options.seeds))
    field += [contenders.ours(dataset, network, m, steps, compute_dtype=jnp.bfloat16) for m in options.bfloat16]
    if options.estimators:
        field += [
            contenders.ours(dataset, network, "flat", steps, estimator=e)
            for e in (Flipout(), LocalReparameterisation())
        ]
    if "numpyro" in options.peers:
        field.append(contenders.numpyro_svi(dataset, network, steps, plain=False))
    if "numpyro-plain" in options.peers and network == "lenet":
        field.append(contenders.numpyro_svi(dataset, network, steps, plain=True))
    if "authors" in options.peers:
        field += filter(None, [contenders.authors_svi(dataset, network, steps)])
    rows = {c.name: describe(c, dataset, ceilings, options.details) for c in field}
    times: dict[str, list[float]] = {c.name: [] for c in field}
    for _ in range(options.rounds):  # interleaved, so that a busy machine slows all alike
        for contender in field:
            began = time.perf_counter()
            contender.carry = jax.block_until_ready(contender.loop(contender.carry))
            times[contender.name].append((time.perf_counter() - began) / contender.steps / contender.seeds)
    base = np.median(times["map"])
    for contender in field:
        row, pace = rows[contender.name], float(np.median(times[contender.name]))
        row.update(ms_per_step=1e3 * pace, ratio_to_map=pace / base, spread=float(np.ptp(times[contender.name]) / pace))
        if contender.program is not None and options.details:
            extra = 1e-3 * (row["reduction_ms"] or 0.0) + row["evaluation_s"]
            row["epoch_s"] = EPOCH_STEPS * pace + extra / contender.seeds
            row["times_floor"] = 1e3 * pace / row["floor_ms"]
    if "authors" in options.peers and options.details:
        add_authors_epoch(dataset, network, rows, options)
    return list(rows.values())


def add_authors_epoch(dataset, network: str, rows: dict[str, Any], options: argparse.Namespace) -> None:
    """As it is really run: compiled again each epoch. The steps over what was timed are added at the loop's pace."""
    epoch = contenders.authors_epoch(dataset, network, options.steps)
    if epoch is not None:
        epoch()
        row = rows["authors' BMR"]
        row["epoch_s"] = timed(epoch) + (EPOCH_STEPS - options.steps) * 1e-3 * row["ms_per_step"]


def describe(contender: contenders.Contender, dataset, ceilings: dict[str, float], details: bool) -> dict[str, Any]:
    """Compiles; what does not need many rounds."""
    began = time.perf_counter()
    contender.carry = jax.block_until_ready(contender.loop(contender.carry))
    row: dict[str, Any] = {"name": contender.name, "compile_s": time.perf_counter() - began}
    program = contender.program
    if program is None or not details:
        return row
    state, data = contender.carry, contenders.on_device(dataset.train)
    test = contenders.on_device(dataset.test)
    compiled: Any = program.train_chunk[program.chunks[0]]
    compiled = compiled.lower(state, data).compile()
    memory = compiled.memory_analysis()
    row["memory_mb"] = 1e-6 * (memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes)
    row["kernels"] = kernels_per_step(compiled.as_text())
    row["evaluation_s"] = best(lambda: program.evaluate(state, *test), 1)
    row["reduction_ms"] = None
    if program.method.reduction is not None:
        copies = iter([jax.tree.map(jnp.copy, state) for _ in range(4)])  # each call takes its state over
        looked_at = program.budget.steps_per_epoch * program.budget.batch_size
        count = program.method.reduction.measuring.count(looked_at, len(data[0]))
        some = data[0][:count], data[1][:count]
        row["reduction_ms"] = 1e3 * best(lambda: program.reduce(next(copies), jnp.float32(0.5), some), 3)
    row["floor_ms"] = floor_ms(contender, data, ceilings)
    return row


def kernels_per_step(text: str) -> int | None:
    """Instructions that launch work, in the body of the loop over steps of the compiled program."""
    bodies = re.findall(r"while\(.*body=%?([\w.\-]+)", text)
    counts = []
    for body in bodies:
        match = re.search(rf"^%?{re.escape(body)} .*?\{{\n(.*?)^\}}", text, re.S | re.M)
        launches = r"= \S+ (fusion|dot|custom-call|convolution|reduce|concatenate|copy|sort|scatter|gather|while)\("
        counts.append(len(re.findall(launches, match.group(1))) if match else 0)
    return max(counts) if counts else None


def floor_ms(contender: contenders.Contender, data, ceilings: dict[str, float]) -> float:
    """Bytes that must move: posterior and both moments of the optimiser, read and written once, and the batch.
    Operations that must be done: three times those of the network's forward pass."""
    program = contender.program
    assert program is not None
    model = program.model
    state = of_seed(contender.carry, 0)
    vectors = 1 if isinstance(state.posterior, Point) else 2
    moved = 4 * 2 * 3 * vectors * model.latent_count + contenders.BATCH * data[0][0].nbytes
    forward = jax.jit(lambda s, x: model.outputs(model.bind(s.posterior.point, s.mask), x))
    cost: Any = forward.lower(state, data[0][: contenders.BATCH]).compile().cost_analysis()
    operations = 3 * cost["flops"]
    return 1e3 * max(1e-9 * moved / ceilings["copy_gb_s"], 1e-12 * operations / ceilings["tflop_s"])


def table_of(network: str, rows: list[dict[str, Any]]) -> Table:
    columns = {
        "ms_per_step": ("ms/step", 3),
        "ratio_to_map": ("÷ map", 2),
        "compile_s": ("compile s", 1),
        "epoch_s": ("epoch s", 2),
        "evaluation_s": ("evaluation s", 2),
        "reduction_ms": ("reduction ms", 1),
        "memory_mb": ("memory MB", 0),
        "kernels": ("kernels", 0),
        "floor_ms": ("floor ms", 4),
        "times_floor": ("× floor", 1),
    }
    table = Table("", *(title for title, _ in columns.values()), title=network, title_justify="left", box=SIMPLE_HEAD)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        entries = (row.get(name) for name in columns)
        texts = ("" if e is None else f"{e:.{d}f}" for e, (_, d) in zip(entries, columns.values(), strict=True))
        table.add_row(row["name"], *texts)
    return table


if __name__ == "__main__":
    main()
