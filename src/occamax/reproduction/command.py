"""`occamax reproduce`: the grid, in one process or several, with its progress, and the results page at the end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from ..experiment.cache import keep_compiled_programs
from ..experiment.progress import clock
from ..report import in_order, write_report
from .cells import budget_options
from .claims import checks, measured_timings
from .grid import Grid, Outcome, run
from .page import MARKS, write_results
from .submit import submit


def reproduce(
    grid: Grid, out: Path, data_dir: Path | None, workers: int, cache: bool, console: Console
) -> list[Outcome]:
    """Runs the grid, writes the results; returns the cells that failed."""
    if workers > 1:
        run_workers(grid, out, data_dir, workers, cache, console)
    if cache:
        keep_compiled_programs()
    outcomes = []
    for outcome in run(grid, out, data_dir, lambda line: console.print(line, soft_wrap=True)):
        outcomes.append(outcome)
        if outcome.error is not None:
            console.print(f"failed: {outcome.cell.label}: {outcome.error}", soft_wrap=True, markup=False)
        elif not outcome.skipped:
            console.print(f"finished {outcome.cell.label} in {clock(outcome.seconds)}", soft_wrap=True)
    finish(out, console)
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if failed:
        console.print(f"\n{len(failed)} of {len(outcomes)} cells failed; the same command tries them again:")
        for outcome in failed:
            console.print(f"  {outcome.cell.label}: {outcome.error}", soft_wrap=True, markup=False)
    return failed


def shard_commands(grid: Grid, out: Path, data_dir: Path | None, count: int, cache: bool) -> list[list[str]]:
    """The command that runs each of `count` parts of this grid."""
    part, parts = grid.shard
    found = []
    for number in range(count):
        options = {
            "data": ",".join(grid.data), "networks": ",".join(grid.networks), "methods": ",".join(grid.methods),
            "seeds": grid.seeds, "out": out, "shard": f"{part + parts * number}/{parts * count}",
            **budget_options(grid.like), **({"data-dir": data_dir} if data_dir else {}),
        }  # fmt: skip
        words = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        begin = [sys.executable, "-m", "occamax", "reproduce"]
        found.append([*begin, *words, "--cache" if cache else "--no-cache"])
    return found


def run_workers(grid: Grid, out: Path, data_dir: Path | None, workers: int, cache: bool, console: Console) -> None:
    """The shard, cut once more, a process each; the caller then finds the cells finished, or tries what failed."""
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # one device is shared
    running = []
    for number, command in enumerate(shard_commands(grid, out, data_dir, workers, cache), start=1):
        console.print(f"worker {number}: shard {command[command.index('--shard') + 1]}", soft_wrap=True)
        running.append(subprocess.Popen(command, env=environment))
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that workers end with us
    try:
        for process in running:
            process.wait()
    finally:
        for process in running:
            process.terminate()
        signal.signal(signal.SIGTERM, before)


def submit_jobs(
    grid: Grid, out: Path, data_dir: Path | None, jobs: int, cluster: str, minutes: int, options: dict[str, str],
    console: Console,
) -> None:  # fmt: skip
    """The shard, cut once more, a job of a cluster each."""
    commands = shard_commands(grid, out.resolve(), data_dir, jobs, cache=True)
    submit(commands, out.resolve(), cluster, minutes, options, console)


def finish(out: Path, console: Console) -> None:
    """Figures, table, page and report of whatever is finished in the folder."""
    results = write_results(out)
    if not results:
        console.print("no cell is finished yet")
        return
    write_report(in_order(result.group for result in results), out / "report.html")
    for check in checks(results, measured_timings(out / "speed")):
        console.print(f"{MARKS[check.holds]:>18}: {check.sentence} [{check.numbers}]", soft_wrap=True, markup=False)
    console.print(
        f"{len(results)} cells: {out / 'README.md'}, {out / 'table.md'}, {out / 'report.html'}", soft_wrap=True
    )
