"""What is done with runs: `occamax evaluate`, `prune` and `report`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ..errors import ArgumentError
from ..names import figures_as_text
from .options import Checkpoint, DataDir, OwnNetwork, load_run


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    samples: Annotated[int | None, typer.Option(help="Draws of the weights; as in training unless given.")] = None,
    checkpoint: Checkpoint = "last",
    network: OwnNetwork = None,
    data_dir: DataDir = None,
) -> None:
    """Measure a run's last checkpoint on its test set."""
    if samples is not None and samples < 1:
        raise ArgumentError(f"--samples: {samples} given; it must be a whole number from 1 up")
    figures = load_run(run, network, checkpoint).evaluate(num_samples=samples, data_dir=data_dir)
    table = Table("figure", "value", box=SIMPLE_HEAD)
    for name, text in figures_as_text(figures).items():
        table.add_row("weights, of one dense network's" if name == "share" else name, text)
    console = Console(highlight=False)
    console.print(str(run), soft_wrap=True)
    console.print(table)


def prune(
    run: Annotated[Path, typer.Argument(help="A run folder: the network that is pruned.")],
    sparsity: Annotated[
        float | None, typer.Option(help="The share of the weights to remove; as many as nobody notices unless given.")
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(
            help="Which go first: signal-to-noise, magnitude, or delta-f, which is warned of. Unless given, the better of "
            "the first two."
        ),
    ] = None,
    repair: Annotated[bool, typer.Option(help="Move what is left so that the network says what it said.")] = True,
    tolerance: Annotated[
        float, typer.Option(help="How much of what was gained may be lost; 0 lets every sparsity stand.")
    ] = 0.05,
    out: Annotated[Path | None, typer.Option(help="Folder of the pruned network; RUN-pruned unless given.")] = None,
    checkpoint: Checkpoint = "last",
    network: OwnNetwork = None,
    data_dir: DataDir = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a folder that exists.")] = False,
) -> None:  # an option each
    """Prune a trained network in one shot, without training it. Seconds for a million weights."""
    from ..command_words import order_named
    from ..experiment.folder import RunFolder
    from ..experiment.progress import print_summary
    from ..fitting import Ensemble
    from ..pruning import prune_run
    from ..reduction import Repair

    place = run.parent / f"{run.name}-pruned" if out is None else out
    if not overwrite:
        RunFolder.refuse_existing(place)
    trained = load_run(run, network, checkpoint)
    if isinstance(trained, Ensemble):
        raise ArgumentError(f"run: {run} holds an ensemble; prune its members one by one, such as {run}/seed0")
    moved = Repair() if repair else None
    found = prune_run(trained, data_dir, sparsity, order=order_named(order), repair=moved, tolerance=tolerance or None)
    print_summary(found.save(place, overwrite), found.summary, is_point=True)


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders of run folders.")],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
) -> None:
    """Compare runs: a table here, and one self-contained HTML page."""
    from ..report import print_comparison, write_report

    groups = _groups(runs)
    write_report(groups, out)
    print_comparison(groups)
    Console(highlight=False).print(f"report: {out}", soft_wrap=True)


def _groups(paths: list[Path]) -> list:
    """Runs to compare, from run folders and from results of `reproduce`."""
    from ..report import in_order, read_groups
    from ..reproduction.cells import read_cells

    kept = [path for path in paths if (path / "cells").is_dir()]
    found = [result.group for path in kept for result in read_cells(path)]
    return in_order(found + read_groups(path for path in paths if path not in kept))
