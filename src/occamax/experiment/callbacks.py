"""Where epochs may go besides the terminal and the run folder: what `fit(…, on_epoch=…)` takes.

Each is called with an `Epoch` after every epoch; `metrics` of it has one line of figures a seed.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..errors import ArgumentError
from .loop import Epoch

__all__ = ["JsonLines", "TensorBoard", "WandB", "several"]

OnEpoch = Callable[[Epoch], None]


def several(*callbacks: OnEpoch) -> OnEpoch:
    """One callback that calls these **callbacks**, in order.

    Examples:
        >>> figures = []
        >>> with open("figures.jsonl", "w") as file:
        ...     both = ox.callbacks.several(ox.callbacks.JsonLines(file), figures.append)
        ...     fitted = ox.fit(network, (x, y), on_epoch=both, **short)
        >>> len(figures)  # one an epoch
        4
    """

    def call(epoch: Epoch) -> None:
        for callback in callbacks:
            callback(epoch)

    return call


class JsonLines:
    """Writes one JSON object a line for each epoch and seed, to **stream**: standard output unless given.

    Examples:
        >>> fitted = ox.fit(network, (x, y), on_epoch=ox.callbacks.JsonLines(), **short)
        {"epoch": 1, "neg_elbo": ...
        ...
    """

    def __init__(self, stream: Any = None):
        self.stream = stream

    def __call__(self, epoch: Epoch) -> None:
        for i, line in enumerate(epoch.metrics):
            which = {"run": i} if len(epoch.metrics) > 1 else {}
            print(json.dumps({**which, **line}), file=self.stream or sys.stdout, flush=True)


class TensorBoard:
    """Writes the figures of every epoch for TensorBoard into **folder** (`pip install 'occamax[tensorboard]'`).

    Raises:
        ArgumentError: tensorboardX is not installed.

    Examples:
        >>> fitted = ox.fit(network, (x, y), on_epoch=ox.callbacks.TensorBoard("runs/board"), **short)
    """

    def __init__(self, folder: Path | str):
        try:
            from tensorboardX import SummaryWriter  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise _not_installed("tensorboard", error) from error
        self.writer = SummaryWriter(str(folder))

    def __call__(self, epoch: Epoch) -> None:
        for name, value in _scalars(epoch):
            self.writer.add_scalar(name, value, epoch.number)
        self.writer.flush()


class WandB:
    """Sends the figures of every epoch to a Weights & Biases run (`pip install 'occamax[wandb]'`): to **run**, or to a
    new one made of **options**, which are those of `wandb.init`.

    Raises:
        ArgumentError: wandb is not installed.

    Examples:
        >>> fitted = ox.fit(network, (x, y), on_epoch=ox.callbacks.WandB(project="mine"), **short)
    """

    def __init__(self, run: Any = None, **options: Any):
        if run is None:
            try:
                import wandb  # pyright: ignore[reportMissingImports]
            except ImportError as error:
                raise _not_installed("wandb", error) from error
            run = wandb.init(**options)
        self.run = run

    def __call__(self, epoch: Epoch) -> None:
        self.run.log(dict(_scalars(epoch)), step=epoch.number)


def _scalars(epoch: Epoch) -> Iterator[tuple[str, float]]:
    """The numbers of an epoch by name; those of several seeds in a folder each."""
    for i, line in enumerate(epoch.metrics):
        where = f"run{i}/" if len(epoch.metrics) > 1 else ""
        for name, value in line.items():
            if name != "epoch" and isinstance(value, int | float):
                yield f"{where}{name}", float(value)


def _not_installed(extra: str, error: ImportError) -> ArgumentError:
    return ArgumentError(f"on_epoch: {error.name} is not installed; install it with: pip install 'occamax[{extra}]'")
