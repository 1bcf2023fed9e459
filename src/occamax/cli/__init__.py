"""The command line: parse and call. jax is imported inside the commands, so that --help answers at once."""

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from ..errors import OccamaxError
from .files import export, predict
from .first import data, quickstart
from .reproducing import reproduce
from .runs import evaluate, prune, report
from .training import train


class Commands(TyperGroup):
    """What the system refuses, wherever it was, is an error of ours as well."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # whoever read us has seen enough
            raise
        except OSError as error:
            where = f"{str(error.filename)[:200]}: " if error.filename else ""
            raise OccamaxError(f"{where}{error.strerror or error}") from error


app = typer.Typer(
    cls=Commands, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich"
)


@app.callback()
def about() -> None:
    """Bayesian neural networks that prune themselves while they train."""


for command in (train, evaluate, prune, report, export, predict, reproduce, quickstart, data):
    app.command()(command)


def main() -> None:
    """Entry point: our own errors are one line for the user, not a traceback."""
    sys.path.append(os.getcwd())  # a user's own package.module:function; last, so that it hides nothing
    try:
        app()
    except OccamaxError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        _leave_other_hosts(2)
        sys.exit(2)
    except SystemExit as end:
        _leave_other_hosts(end.code if isinstance(end.code, int) else int(end.code is not None))
        raise


def _leave_other_hosts(code: int) -> None:
    """Where hosts are still joined, one of them is gone, and an orderly exit would wait minutes for it."""
    if "jax" in sys.modules and sys.modules["jax"].distributed.is_initialized():
        sys.stdout.flush()
        os._exit(code)
