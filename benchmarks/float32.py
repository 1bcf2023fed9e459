"""Is bfloat16 behind the deviations of the Mixer and the ViT from the paper? One float32 seed of each of their cells.

    python benchmarks/float32.py [--data fashion_mnist …] [--methods map flat tiered bmr-paper] [--workers 4]
    python benchmarks/float32.py --table                       # the table again, from what is there

Trains the cells as `occamax reproduce` does and keeps them in `results/float32/cells`, each with its device, commit,
versions and configuration; the runs themselves go to `runs/float32`. What is finished is skipped. Then prints float32
beside the same cells of `results/cells`, which are in mixed precision, and the published figures. The whole of it is 24
runs of 25,000 steps and wants a GPU. On a CPU, to try it out:

    python benchmarks/float32.py --data fashion_mini --methods bmr-paper --epochs 2 --steps 2 --samples 2 --out runs/try
"""

import argparse
import shutil
import sys
from pathlib import Path

import trials
from rich.console import Console

from occamax.experiment.cache import keep_compiled_programs
from occamax.experiment.config import Config
from occamax.reproduction.cells import read_cells
from occamax.reproduction.command import run_workers
from occamax.reproduction.comparison import Row, compare
from occamax.reproduction.grid import DATA, METHODS, Grid, run
from occamax.reproduction.published import COLUMNS, published, short

ROOT = Path(__file__).parents[1]
NETWORKS = ("mixer", "vit")


def table(ours: Path, mixed: Path) -> str:
    """float32 beside mixed precision and the published figures: accuracy / NLL / ECE / pruned, and the bounds."""
    others = {row.key: row for row in compare(read_cells(mixed))}
    rows = []
    for row in compare(read_cells(ours)):
        other, theirs = others.get(row.key), published().get(row.key, {})
        rows.append([
            *row.key, " / ".join(short(row.ours[name]) for name in COLUMNS), _bound(row),
            "" if other is None else " / ".join(_with_deviation(other, name) for name in COLUMNS),
            "" if other is None else _bound(other),
            " / ".join(str(theirs[name]) if name in theirs else "–" for name in COLUMNS),
        ])  # fmt: skip
    heads = ["data", "network", "method", "float32, one seed", f"its {trials.BOUND}"]
    heads += ["bfloat16 ± a seed's deviation", f"its {trials.BOUND}", "published"]
    return trials.markdown(*trials.without_constants(heads, rows, {"data": "", "method": ""}))


def _bound(row: Row) -> str:
    deviation = (row.deviation or {}).get("neg_elbo")
    return (
        "–"
        if row.neg_elbo is None
        else f"{row.neg_elbo:,.0f}" + (f" ± {deviation:,.0f}" if deviation is not None else "")
    )


def _with_deviation(row: Row, name: str) -> str:
    deviation = (row.deviation or {}).get(name)
    return short(row.ours[name]) + (f" ± {short(deviation)}" if deviation is not None else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(DATA))
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    for name, value in (("epochs", 50), ("steps", 500), ("samples", 100), ("workers", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "float32")
    parser.add_argument("--table", action="store_true", help="train nothing")
    options = parser.parse_args()
    failed = [] if options.table else train(options)
    print(table(options.out, ROOT / "results"))
    sys.exit(bool(failed))


def train(options: argparse.Namespace) -> list[str]:
    """What is missing; the cells that failed."""
    like = Config(
        "fashion_mnist", "mixer", "map", options.epochs, options.steps,
        num_samples=options.samples, curve_samples=3, compute_dtype="float32",
    )  # fmt: skip
    grid = Grid(options.data, options.networks, options.methods, like=like)
    runs = ROOT / "runs" / "float32" if options.out.is_relative_to(ROOT) else options.out
    if (options.out / "cells").is_dir() and runs != options.out:
        shutil.copytree(options.out / "cells", runs / "cells", dirs_exist_ok=True)
    if options.workers > 1:
        run_workers(grid, runs, options.data_dir, options.workers, True, Console())
    keep_compiled_programs()
    failed = []
    for outcome in run(grid, runs, options.data_dir, print):
        if outcome.error is not None:
            failed.append(f"{outcome.cell.label}: {outcome.error}")
            print(f"failed: {failed[-1]}", flush=True)
    if runs != options.out:
        shutil.copytree(runs / "cells", options.out / "cells", dirs_exist_ok=True)
    return failed


if __name__ == "__main__":
    main()
