"""What several commands share: their options, how a run is loaded, and what a stop by signal says."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import StoppedError

DataDir = Annotated[Path | None, typer.Option(help="Folder with data sets; else $OCCAMAX_DATA, else the user's cache.")]
Checkpoint = Annotated[str, typer.Option(help="last; or previous, of an epoch before, or best, where that was kept.")]
OwnNetwork = Annotated[
    str | None, typer.Option("--network", help="package.module:function of a network that was passed to fit by hand.")
]
Epochs = Annotated[int, typer.Option(help="How many epochs.")]
Steps = Annotated[int, typer.Option(help="Steps in an epoch.")]
Batch = Annotated[int, typer.Option(help="Examples in a step.")]
Precision = Annotated[str, typer.Option(help="float32, or bfloat16 for mixed precision.")]
Cache = Annotated[bool, typer.Option(help="Keep compiled programs, so that the next run starts at once.")]


def load_run(run: Path, network: str | None, checkpoint: str) -> Any:
    """The `Fit` in a run folder, its network by name where it was passed by hand."""
    from ..fitting import load
    from ..networks import network_named

    return load(run, None if network is None else network_named(network), checkpoint=checkpoint)


@contextmanager
def stoppable() -> Iterator[None]:
    """A stop by signal is no error: what to type next, and the exit code that shells expect."""
    try:
        yield
    except StoppedError as stopped:
        print(stopped, file=sys.stderr)
        raise typer.Exit(128 + stopped.signum) from None
    except KeyboardInterrupt:
        print("stopped at once; --resume continues from the last checkpoint, if there is one", file=sys.stderr)
        raise typer.Exit(130) from None
