"""For a first look: `occamax quickstart` and `data`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from .options import DataDir, stoppable
from .runs import report


def quickstart(
    out: Annotated[Path, typer.Option(help="Folder for the runs and the report.")] = Path("runs/quickstart"),
) -> None:
    """Train and prune a network on the embedded data set, beside plain training: a few minutes on two cores."""
    from dataclasses import replace

    from ..data import load_data
    from ..experiment.cache import keep_compiled_programs
    from ..fitting import fit
    from ..methods import BMR, Method, NaturalBMR, Plain
    from ..networks import network_named

    keep_compiled_programs()
    dataset, epochs, paths = load_data("fashion_mini"), 15, []

    def trained(method: Method) -> Any:
        paths.append(out / method.name)
        with stoppable():
            return fit(
                network_named("mlp"), dataset, method, epochs=epochs, steps_per_epoch=100, num_samples=20,
                curve_samples=4, out=paths[-1], overwrite=True, how_to_resume="occamax quickstart",
            )  # fmt: skip

    plain = Plain(dropout=0.2)
    trained(plain)
    ours = trained(BMR())
    trained(replace(plain, name="plain-pruned").pruned_to(ours.sparsity, epochs))  # as small as ours, by magnitude
    trained(NaturalBMR())
    report(paths, out / "report.html")


def data(data_dir: DataDir = None) -> None:
    """List the data sets: which are here, where, and how large."""
    from ..data import SOURCES, find

    table = Table("data set", "here", "size", "where", box=SIMPLE_HEAD)
    for source in SOURCES.values():
        folder = find(source, data_dir)
        size = "" if folder is None else f"{sum((folder / file).stat().st_size for file in source.files) / 1e6:.1f} MB"
        where = "downloaded when first used" if folder is None else str(folder)
        table.add_row(source.name, "no" if folder is None else "yes", size, where)
    Console(highlight=False).print(table)
