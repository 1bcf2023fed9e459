"""Several hosts as one: what Slurm, Open MPI and Kubernetes say of a process, and what a user says elsewhere."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
from jax._src import distributed  # what hosts tell one another by; jax has no public name for it

from ..errors import ArgumentError, OccamaxError, RunError, StoppedError

JOINING = 300  # seconds in which all hosts must have come
SILENCE = 30  # seconds after which a host that nothing is heard of is lost; jax waits 100
PARTING = 10  # seconds that the first host, when all is saved, gives the others to go
DAYS = 10**9  # milliseconds: as long as it takes
PARTED = "This run is over and everything is saved; another of its hosts was lost while they parted."
_heirs: list[Callable[[str], None]] = []  # tells the child that speaks for this process what to say, see `_heir`


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
    _initialise(coordinator, hosts, number)


def _initialise(*where: Any) -> None:
    """jax ends a process whose others do not come."""
    with _heir(
        f"The hosts of this run did not find one another within {JOINING} s. Start all of them, with the address of "
        "the first, which all must be able to reach."
    ):
        jax.distributed.initialize(*where, initialization_timeout=JOINING, heartbeat_timeout_seconds=SILENCE)


def _join_cluster(cluster: Cluster, environment: Mapping[str, str]) -> None:
    absent = cluster.lacks(environment)
    if absent:
        raise ArgumentError(
            f"--devices: this is one of several processes of {cluster.name}, but {', '.join(absent)} is not set, by "
            f"which they find the first: {cluster.missing}"
        )
    try:
        _initialise()
    except (RuntimeError, ValueError) as error:
        said = (str(error) or repr(error)).splitlines()[0]
        raise ArgumentError(
            f"--devices: the processes of {cluster.name} did not find one another ({said}). Give --coordinator "
            "HOST:PORT, --num-processes and --process-id"
        ) from error


@contextmanager
def losses_explained(how_to_resume: str) -> Iterator[None]:
    """Where hosts work together: what one of them sees of another's end, in words, also where jax ends the process
    itself. That is what a child is for, which speaks when this process ends without a word. Does nothing inside
    another."""
    if distributed.global_state.num_processes == 1 or _heirs:
        yield
        return
    saved = f"What the run had saved is there; go on with as many hosts as are left:\n  {how_to_resume}"
    words = f"this host of the run was ended: another is gone or cannot be reached, or memory ran out. {saved}"
    with _heir(words) as tell:
        _heirs.append(tell)
        try:
            yield
        except OccamaxError:
            raise
        except (RuntimeError, ValueError, OSError) as error:  # what jax and orbax raise of a lost host is one of them
            said = (str(error) or repr(error)).splitlines()[0][:200]
            raise RunError(f"another host of this run is gone, or this one failed ({said}). {saved}") from error
        finally:
            _heirs.clear()


@contextmanager
def ending_together(how_to_resume: str) -> Iterator[None]:
    """Around all that a command does on several hosts: losses in words to the very end, which no host comes to before
    the first has saved everything. A host that is still joined to others then has lost one; jax would wait for it."""
    stopped = None
    with losses_explained(how_to_resume):
        try:
            yield
        except StoppedError as error:
            stopped = error
        if distributed.global_state.num_processes > 1:
            _part(distributed.global_state.client, _heirs[-1])
    if stopped is not None:
        raise stopped


def _part(client: Any, tell: Callable[[str], None]) -> None:
    """The others stay until the first has saved everything. It waits until they have heard of that, but not for one
    that is lost: whoever is lost from then on is no loss of this run."""
    is_first, hosts = distributed.global_state.process_id == 0, distributed.global_state.num_processes
    if is_first:
        client.key_value_set("occamax/saved", "")
    else:
        client.blocking_key_value_get("occamax/saved", DAYS)
    tell(PARTED)
    try:
        if not is_first:
            client.key_value_set(f"occamax/going/{distributed.global_state.process_id}", "")
        for number in range(1, hosts) if is_first else ():
            client.blocking_key_value_get(f"occamax/going/{number}", PARTING * 1000)
        jax.distributed.shutdown()
    except RuntimeError:
        return


@contextmanager
def _heir(words: str) -> Iterator[Callable[[str], None]]:
    """A child that says `words`, or the line that it was told last, if this process dies inside."""
    shell = shutil.which("sh")
    if shell is None:
        yield lambda _: None
        return
    script = 'while read -r line; do set -- "$line"; done; said=${1-$0}; [ -z "$said" ] || printf "%s\\n" "$said" >&2'
    command = [shell, "-c", script, words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True) as heir:
        pipe = heir.stdin
        assert pipe is not None

        def tell(line: str) -> None:
            pipe.write(f"{line}\n")
            pipe.flush()

        try:
            yield tell
        finally:
            tell("")
