"""What a user sees while a run trains: one live view on a terminal, one plain line an epoch elsewhere."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..names import figures_as_text, label
from .config import Config
from .devices import is_first_host
from .loop import Epoch
from .program import Program

SHOWN = ("accuracy", "nll", "ece", "rmse")
WIDTHS = {"−ELBO": 9, "KL weight": 6}  # so that what follows stands in one column


class Progress:
    """Shows epochs as they come, if it is to `show` them. The time left is estimated from the epochs after the first,
    which compiles."""

    def __init__(self, config: Config, program: Program, first: int, show: bool = True, console: Console | None = None):
        self.config, self.program = config, program
        self.console = console or Console(highlight=False, quiet=not (show and is_first_host()))
        self.first, self.began, self.first_took = first, time.perf_counter(), 0.0
        self.view = View(self.title, config.epochs, first) if self.console.is_terminal else None
        self.live = None if self.view is None else Live(self.view, console=self.console, refresh_per_second=2)

    @property
    def title(self) -> str:
        config, seeds = self.config, list(self.program.seeds)
        words = f"{config.data} · {config.network} · {label(config.method)}"
        words += " by natural gradients" if self.program.method.optimizer.needs_deviations else ""
        return words + (f" · {len(seeds)} seeds" if len(seeds) > 1 else f" · seed {seeds[0]}")

    def __enter__(self) -> "Progress":
        if self.live is None:
            words = f"{self.title}: {self.config.epochs} epochs of {self.config.steps_per_epoch} steps"
            self.console.print(words, soft_wrap=True)
        else:
            self.live.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self.live is not None:
            self.live.stop()

    def show(self, epoch: Epoch) -> None:
        elapsed, done = time.perf_counter() - self.began, epoch.number - self.first
        if done == 1:
            self.first_took = elapsed
        per_epoch = elapsed if done == 1 else (elapsed - self.first_took) / (done - 1)
        left = per_epoch * (self.config.epochs - epoch.number)
        steps = self.config.steps_per_epoch * len(self.program.seeds) / epoch.train_seconds
        means = {name: float(np.mean([line[name] for line in epoch.metrics])) for name in epoch.metrics[0]}
        undone = ""
        if any(epoch.undone):
            undone = f"the reduction before epoch {epoch.number} was undone{_which(epoch.undone)}: no recovery"
        if self.view is not None and self.live is not None:
            layers = {} if self.program.method.reduction is None else layer_sparsity(self.program, epoch)
            bound = {} if self._is_point else bound_as_text(means)
            self.view.take(epoch.number, steps, left, means, layers, undone, bound)
            self.live.refresh()
            return
        words = f"{self._figures(epoch, means)}  {steps:5.0f} steps/s  left {clock(left)}"
        line = f"epoch {epoch.number:>3}/{self.config.epochs}  {words}"
        self.console.print(line + (f"  {undone}" if undone else ""), soft_wrap=True)

    @property
    def _is_point(self) -> bool:
        return not self.program.method.posterior.has_deviations

    def _figures(self, epoch: Epoch, means: dict[str, float]) -> str:
        parts = [f"{name} {means[name]:.3f}" for name in SHOWN if name in means]
        if self.program.method.reduction is not None:
            shares = [f"{100 * share:2.0f}" for share in layer_sparsity(self.program, epoch).values()]
            shares = shares if len(shares) <= 8 else [*shares[:4], "…", *shares[-3:]]
            parts.append(f"sparsity {means['sparsity']:.3f} [{' '.join(shares)} %]")
        bound = {} if self._is_point else bound_as_text(means)
        parts += [f"{name} {text:>{WIDTHS.get(name, 0)}}" for name, text in bound.items()]
        return "  ".join(parts)


class View:
    """The live view of a run: how far it is, its figures with their past, what is gone of each layer."""

    def __init__(self, title: str, epochs: int, done: int):
        self.title, self.epochs, self.done = title, epochs, done
        self.began, self.words, self.undone = time.perf_counter(), "compiling …", ""
        self.past: dict[str, list[float]] = {}
        self.bound: dict[str, str] = {}
        self.layers: dict[str, float] = {}

    def take(
        self,
        epoch: int,
        steps: float,
        left: float,
        means: dict[str, float],
        layers: dict[str, float],
        undone: str,
        bound: dict[str, str],
    ) -> None:
        """An epoch is over."""
        self.done, self.words = epoch, f"{steps:,.0f} steps/s · left {clock(left)}"
        for name in (*SHOWN, *(("sparsity",) if layers else ())):
            if name in means:
                self.past.setdefault(name, []).append(means[name])
        self.bound, self.layers, self.undone = bound, layers, undone or self.undone

    def __rich_console__(self, console: Console, options: Any) -> Iterator[Any]:
        elapsed = clock(time.perf_counter() - self.began)
        yield Text(self.title, "bold", no_wrap=True, overflow="ellipsis")
        share = self.done / max(1, self.epochs)
        yield Text(f"{bar(share, 30)} epoch {self.done}/{self.epochs} · {self.words} · {elapsed} so far", no_wrap=True)
        if self.past:
            figures = Table.grid(padding=(0, 2))
            figures.add_column()
            figures.add_column(justify="right")
            for name, values in self.past.items():
                figures.add_row(name, f"{values[-1]:.3f}", Text(sparkline(values), "cyan"))
            for name, text in self.bound.items():
                figures.add_row(Text(name, "dim"), Text(text, "dim"))
            yield figures
        if self.layers:
            yield Text("pruned of each layer", "dim")
            yield self._layers(max(4, console.height - 14))
        if self.undone:
            yield Text(self.undone, "yellow")

    def _layers(self, room: int) -> Table:
        """The pruned share of each layer; of very many, the first ones that there is room for."""
        table = Table.grid(padding=(0, 2))
        for name, share in list(self.layers.items())[:room]:
            table.add_row(name, Text(bar(share, 20), "magenta"), f"{share:4.0%}")
        if len(self.layers) > room:
            table.add_row(f"… and {len(self.layers) - room} more layers", "", "")
        return table


def bar(share: float, width: int) -> str:
    """A bar of eighths of a character."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(width, "·")


def sparkline(values: Sequence[float], width: int = 30) -> str:
    """The last values as small columns between the lowest and the highest."""
    shown = [value for value in values[-width:] if np.isfinite(value)]
    if not shown:
        return ""
    low, span = min(shown), (max(shown) - min(shown)) or 1.0
    return "".join("▁▂▃▄▅▆▇█"[min(7, int(8 * (value - low) / span))] for value in shown)


def bound_as_text(means: dict[str, float]) -> dict[str, str]:
    """The evidence bound, at a KL weight of one, and that which is minimised where it is another."""
    bound, weight = means["neg_elbo"], means["kl_weight"]
    found = {"−ELBO": f"{bound:,.0f}" if abs(bound) >= 100 else f"{bound:.4g}"}
    return found if weight in (0.0, 1.0) else found | {"KL weight": f"{weight:.2g}"}


def layer_sparsity(program: Program, epoch: Epoch) -> dict[str, float]:
    """The removed share of each layer, in order, of the first seed."""
    mask, layout = np.asarray(epoch.state.mask[0]), program.model.layout
    pairs = zip(layout.names, layout.bounds, strict=True)
    return {name: 1.0 - float(mask[start:stop].mean()) for name, (start, stop) in pairs}


def _which(undone: list[bool]) -> str:
    """Of which seeds, where there are several."""
    return "" if len(undone) == 1 else f" for {sum(undone)} of {len(undone)} seeds"


def clock(seconds: float) -> str:
    """Minutes and seconds, with hours where there are any."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def print_summary(path: Path, summary: dict[str, Any], is_point: bool = False) -> None:
    """What is left of each layer, the last figures, and whether the posterior is tempered, which a point is not."""
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
    if summary.get("kl_weight", 1.0) != 1.0 and not is_point:
        console.print(f"a tempered posterior: KL weight {summary['kl_weight']:.3g}", soft_wrap=True)
