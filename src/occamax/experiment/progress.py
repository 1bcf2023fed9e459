"""What a user sees while a run trains: one live line on a terminal, one plain line an epoch elsewhere."""

import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from ..names import figures_as_text, label
from .config import Config
from .devices import is_first_host
from .loop import Epoch
from .program import Program


class Progress:
    """Shows epochs as they come, if it is to `show` them. The time left is estimated from the epochs after the first,
    which compiles."""

    def __init__(self, config: Config, program: Program, first: int, show: bool = True, console: Console | None = None):
        self.config, self.program = config, program
        self.console = console or Console(highlight=False, quiet=not (show and is_first_host()))
        self.first, self.began, self.first_took = first, time.perf_counter(), 0.0
        self.bar: Bar | None = None
        if self.console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(None), MofNCompleteColumn(), TimeRemainingColumn())
            self.bar = Bar(*columns, TextColumn("{task.fields[figures]}"), console=self.console)

    def __enter__(self) -> "Progress":
        config, seeds = self.config, list(self.program.seeds)
        title = f"{config.data} · {config.network} · {label(config.method)}"
        title += f" · {len(seeds)} seeds" if len(seeds) > 1 else f" · seed {seeds[0]}"
        if self.bar is None:
            words = f"{title}: {config.epochs} epochs of {config.steps_per_epoch} steps"
            self.console.print(words, soft_wrap=True)
        else:
            self.task = self.bar.add_task(title, total=config.epochs, completed=self.first, figures="compiling …")
            self.bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self.bar is not None:
            self.bar.stop()

    def show(self, epoch: Epoch) -> None:
        elapsed, done = time.perf_counter() - self.began, epoch.number - self.first
        if done == 1:
            self.first_took = elapsed
        per_epoch = elapsed if done == 1 else (elapsed - self.first_took) / (done - 1)
        figures = self._figures(epoch)
        if any(epoch.undone):
            figures += f"  the reduction before it was undone{_which(epoch.undone)}: the fit did not recover"
        if self.bar is not None:
            self.bar.update(self.task, completed=epoch.number, figures=figures)
            return
        left = per_epoch * (self.config.epochs - epoch.number)
        self.console.print(
            f"epoch {epoch.number:>3}/{self.config.epochs}  {figures}  left {clock(left)}", soft_wrap=True
        )

    def _figures(self, epoch: Epoch) -> str:
        mean = {name: float(np.mean([line[name] for line in epoch.metrics])) for name in epoch.metrics[0]}
        steps = self.config.steps_per_epoch * len(self.program.seeds)
        parts = [f"{steps / epoch.train_seconds:5.0f} steps/s", self._bound(mean["neg_elbo"], mean["kl_weight"])]
        parts += [f"{name} {mean[name]:.3f}" for name in ("accuracy", "nll", "ece", "rmse") if name in mean]
        if self.program.method.reduction is not None:
            parts.append(f"sparsity {mean['sparsity']:.3f} [{layer_sparsity(self.program, epoch)}]")
        return "  ".join(parts)

    @staticmethod
    def _bound(neg_elbo: float, weight: float) -> str:
        """The evidence bound; it says so where something else is minimised."""
        return f"neg_elbo {neg_elbo:.4g}" + ("" if weight == 1.0 else f" (tempered ×{weight:.2g})")


def layer_sparsity(program: Program, epoch: Epoch) -> str:
    """Removed per cent of each layer, in order, of the first seed; long networks are cut short."""
    mask = np.asarray(epoch.state.mask[0])
    shares = [f"{100 * (1 - mask[start:stop].mean()):.0f}" for start, stop in program.model.layout.bounds]
    return " ".join(shares if len(shares) <= 8 else [*shares[:4], "…", *shares[-3:]]) + " %"


def _which(undone: list[bool]) -> str:
    """Of which seeds, where there are several."""
    return "" if len(undone) == 1 else f" for {sum(undone)} of {len(undone)} seeds"


def clock(seconds: float) -> str:
    """Minutes and seconds, with hours where there are any."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def print_summary(path: Path, summary: dict[str, Any]) -> None:
    """What is left of each layer, and the last figures."""
    console = Console(highlight=False)
    sizes = summary["sizes"]
    table = Table("layer", "weights", "kept", "pruned", title=str(path), title_justify="left", box=SIMPLE_HEAD)
    for column in table.columns[1:]:
        column.justify = "right"
    for layer in sizes["layers"]:
        share = 1 - layer["remaining"] / layer["weights"]
        table.add_row(layer["name"], f"{layer['weights']:,}", f"{layer['remaining']:,}", f"{share:.1%}")
    table.add_row("all", f"{sizes['weights']:,}", f"{sizes['remaining']:,}", f"{sizes['sparsity_of_all']:.1%}")
    console.print(table)
    names = ("accuracy", "nll", "ece", "ece_floor", "brier", "rmse", "sparsity")
    shown = figures_as_text({name: summary[name] for name in names if name in summary})
    console.print("  ".join(f"{name} {text}" for name, text in shown.items()), soft_wrap=True)
