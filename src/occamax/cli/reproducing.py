"""`occamax reproduce`: the paper's grid."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..errors import ArgumentError
from .options import Batch, Cache, DataDir, Epochs, Precision, Steps, stoppable


def reproduce(
    data: Annotated[list[str] | None, typer.Option("--data", help="Data sets; the paper's three unless given.")] = None,
    networks: Annotated[list[str] | None, typer.Option("--networks", help="Networks; all four unless given.")] = None,
    methods: Annotated[list[str] | None, typer.Option("--methods", help="Methods; the paper's unless given.")] = None,
    seeds: Annotated[int, typer.Option(help="Seeds 0 to N−1 of every cell, trained at once.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for runs, cells, figures and the page.")] = Path("runs/paper"),
    shard: Annotated[str, typer.Option(help="A part of the grid, such as 2/5: several machines share one folder.")] = (
        "1/1"
    ),
    workers: Annotated[int, typer.Option(help="Processes on this machine; one compiles while another trains.")] = 1,
    epochs: Epochs = 50,
    steps: Steps = 500,
    batch: Batch = 128,
    samples: Annotated[int, typer.Option(help="Draws of the weights in the last evaluation.")] = 100,
    curve_samples: Annotated[int, typer.Option(help="Draws in the evaluations before the last.")] = 10,
    precision: Precision = "float32",
    submit: Annotated[
        str | None, typer.Option(help="`slurm`: submit --workers jobs instead of running here. `local` tries it out.")
    ] = None,
    minutes: Annotated[int, typer.Option(help="Time of a submitted job.")] = 240,
    slurm: Annotated[
        list[str] | None, typer.Option("--slurm", help="Options of the submitted jobs, such as partition=gpu.")
    ] = None,
    data_dir: DataDir = None,
    cache: Cache = True,
) -> None:  # an option each
    """Run the paper's grid, draw its figures, compare with what was published. Finished cells are kept; an interrupted
    grid goes on where it stopped when the command is given again. List options take names separated by commas."""
    from ..experiment.config import Config
    from ..reproduction.command import reproduce as run_grid
    from ..reproduction.command import submit_jobs
    from ..reproduction.grid import DATA, METHODS, NETWORKS, Grid

    names = [_names(given, default) for given, default in ((data, DATA), (networks, NETWORKS), (methods, METHODS))]
    like = Config("fashion_mnist", "mlp", "map", epochs, steps, batch, 0, samples, curve_samples, precision)
    grid = Grid(names[0], names[1], names[2], seeds, like, _shard(shard))
    if workers < 1:
        raise ArgumentError(f"--workers: {workers} given; it must be a whole number from 1 up")
    if submit is not None:
        submit_jobs(grid, out, data_dir, workers, submit, minutes, _pairs(slurm or []), Console(highlight=False))
        return
    with stoppable():
        failed = run_grid(grid, out, data_dir, workers, cache, Console(highlight=False))
    sys.exit(1 if failed else 0)


def _names(given: list[str] | None, default: tuple[str, ...]) -> list[str]:
    return list(default) if given is None else [name for item in given for name in item.replace(",", " ").split()]


def _pairs(words: list[str]) -> dict[str, str]:
    for word in words:
        if not word.partition("=")[2]:
            raise ArgumentError(f"--slurm: {word!r} given; it must be like partition=gpu")
    return {word.partition("=")[0].replace("-", "_"): word.partition("=")[2] for word in words}


def _shard(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal()):
        raise ArgumentError(f"--shard: {text!r} given; it must be like 2/5")
    return int(part), int(parts)
