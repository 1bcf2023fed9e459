"""Several hosts as one: what Slurm, Open MPI and Kubernetes say of a process, and what a user says elsewhere."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import jax

from ..errors import ArgumentError, OccamaxError, RunError

SILENCE = 30  # seconds after which a host that nothing is heard of is lost; jax waits 100


@dataclass(frozen=True)
class Cluster:
    """What starts processes, and the variables by which it tells each what it is. **needed** are those by which jax
    finds the first host. **missing** says what to do where they are not all there. The variable that tells how many
    processes there are is absent where only the coordinator knows."""

    name: str
    process_id: str
    process_count: str | None
    needed: tuple[str, ...]
    missing: str

    def has(self, environment: Mapping[str, str]) -> bool:
        """Whether this process is one of several of a job."""
        if self.process_id not in environment:
            return False
        return self.process_count is None or int(environment.get(self.process_count) or 1) > 1

    def lacks(self, environment: Mapping[str, str]) -> list[str]:
        return [name for name in self.needed if name not in environment]


CLUSTERS = (
    Cluster(
        "Slurm", "SLURM_PROCID", "SLURM_NTASKS", ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_LOCALID"),
        "start it with srun, which tells each task what it is, or ask for one task (--ntasks=1)",
    ),
    Cluster(
        "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
        ("OMPI_MCA_orte_hnp_uri", "OMPI_COMM_WORLD_LOCAL_RANK"),
        "give --coordinator HOST:PORT of the first (Open MPI 5 does not name it)",
    ),
    Cluster(
        "Kubernetes", "JOB_COMPLETION_INDEX", None, ("KUBERNETES_SERVICE_HOST",),
        "run it as an indexed Job, or give --coordinator and --num-processes",
    ),
)  # fmt: skip


def join_hosts(
    coordinator: str | None,
    hosts: int | None,
    number: int | None,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Makes the devices of all hosts one set. A job of Slurm, Open MPI or Kubernetes says itself how many hosts there
    are and which this is; elsewhere say it, and where the first one is."""
    found = next((cluster for cluster in CLUSTERS if cluster.has(environment)), None)
    if coordinator is None and hosts is None and number is None:
        if found is not None:
            _join_cluster(found, environment)
        return
    if found is not None:
        number = int(environment[found.process_id]) if number is None else number
        if found.process_count is not None and hosts is None:
            hosts = int(environment[found.process_count])
    if coordinator is None or hosts is None or number is None:
        raise ArgumentError("--coordinator, --num-processes and --process-id belong together; give all three")
    if not 0 <= number < hosts:
        raise ArgumentError(f"--process-id: {number} given; it must lie from 0 to {hosts - 1}")
    jax.distributed.initialize(coordinator, hosts, number, heartbeat_timeout_seconds=SILENCE)


def _join_cluster(cluster: Cluster, environment: Mapping[str, str]) -> None:
    absent = cluster.lacks(environment)
    if absent:
        raise ArgumentError(
            f"--devices: this is one of several processes of {cluster.name}, but {', '.join(absent)} is not set, by "
            f"which they find the first: {cluster.missing}"
        )
    try:
        jax.distributed.initialize(heartbeat_timeout_seconds=SILENCE)
    except (RuntimeError, ValueError) as error:
        said = (str(error) or repr(error)).splitlines()[0]
        raise ArgumentError(
            f"--devices: the processes of {cluster.name} did not find one another ({said}). Give --coordinator "
            "HOST:PORT, --num-processes and --process-id"
        ) from error


@contextmanager
def losses_explained(how_to_resume: str) -> Iterator[None]:
    """Where hosts work together: what one of them sees of another's end, in words, also where jax ends the process
    itself. That is what a child is for, which speaks when this process ends without a word."""
    if jax.process_count() == 1:
        yield
        return
    saved = f"What the run had saved is there; go on with as many hosts as are left:\n  {how_to_resume}"
    with _heir(f"this host of the run was ended: another is gone or cannot be reached, or memory ran out. {saved}"):
        try:
            yield
        except OccamaxError:
            raise
        except (RuntimeError, ValueError, OSError) as error:  # what jax and orbax raise of a lost host is one of them
            said = (str(error) or repr(error)).splitlines()[0][:200]
            raise RunError(f"another host of this run is gone, or this one failed ({said}). {saved}") from error


@contextmanager
def _heir(words: str) -> Iterator[None]:
    """A child that says `words` if this process dies inside."""
    shell = shutil.which("sh")
    if shell is None:
        yield
        return
    command = [shell, "-c", 'read -r line || printf "%s\\n" "$0" >&2', words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True) as heir:
        assert heir.stdin is not None
        try:
            yield
        finally:
            heir.stdin.write("well\n")
            heir.stdin.flush()
