"""The grid as jobs of a cluster, a shard each, through submitit."""

from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from ..errors import ArgumentError, RunError

CLUSTERS = ("slurm", "local")


def submit(
    commands: list[list[str]], out: Path, cluster: str, minutes: int, options: dict[str, str], console: Console
) -> None:
    """Submits one job a command. On Slurm it returns at once: a job that is preempted or out of time is queued again,
    and what it had begun goes on. `local` runs them here, and waits: to try things out, and for tests."""
    if cluster not in CLUSTERS:
        raise ArgumentError(f"--submit: {cluster!r} given; choose one of {', '.join(CLUSTERS)}")
    if find_spec("submitit") is None:
        raise ArgumentError("--submit: submitit is not installed; add it with: pip install 'occamax[slurm]'")
    import submitit

    executor = submitit.AutoExecutor(folder=out / "jobs" / "%j", cluster=cluster)
    if cluster == "slurm":
        extra = {f"slurm_{name}": value for name, value in options.items()}
        executor.update_parameters(timeout_min=minutes, slurm_signal_delay_s=60, name="occamax", **extra)
    else:
        executor.update_parameters(timeout_min=minutes)
    with executor.batch():
        jobs = [executor.submit(submitit.helpers.CommandFunction(command, verbose=False)) for command in commands]
    for job, command in zip(jobs, commands, strict=True):
        console.print(f"job {job.job_id}: {' '.join(command[3:])}", soft_wrap=True, markup=False)
    if cluster == "slurm":
        words = "When they are done, the same command without --submit writes the page."
        console.print(f"logs: {out / 'jobs'}. {words}")
        return
    failed = [job for job in jobs if job.exception() is not None]
    if failed:
        raise RunError(f"{len(failed)} of {len(jobs)} jobs failed; their logs: {out / 'jobs'}")
