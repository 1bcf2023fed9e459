"""A process finds the others of its job by what Slurm, Open MPI or Kubernetes tell it, in processes that are told so by
a made-up environment. Kubernetes tells how many there are by its API: a made-up client stands for it, and the address
of the first, which its name service would tell, is given as jax takes it from the environment."""

import os
import signal
import socket
import subprocess
import sys

import jax
import pytest

from occamax.errors import ArgumentError
from occamax.experiment.hosts import join_hosts

JOIN = """
import jax
from occamax.experiment.hosts import join_hosts
join_hosts(None, None, None)
print(jax.process_index(), jax.process_count(), len(jax.devices()))
"""
END = """
import os, signal, sys
import jax
from occamax.cli import _leave_other_hosts
from occamax.experiment import hosts

address, number, victim, moment = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
hosts.JOINING, hosts.PARTING = (1 if moment == "join" else 60), 1

def die():
    if number == victim:
        os.kill(os.getpid(), signal.SIGKILL)

if moment == "join":
    die()
hosts.join_hosts(address, 2, number)
with hosts.ending_together("go on"):
    told = jax._src.distributed.global_state.client
    if number == 0:  # it has still to save when the other has finished
        told.blocking_key_value_get("finished", 60_000)
    else:
        told.key_value_set("finished", "")
    if moment == "end":
        die()
    if number == victim:  # dies where all have heard that everything is saved
        jax.distributed.shutdown = die
_leave_other_hosts(0)
"""
FIRST_PORT = 2**16 - 2**12  # from which jax counts the ports that it makes of a job's number


def free_job():
    """The number of a job whose port is free."""
    for number in range(os.getpid() % 4096, 2 * 4096):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", FIRST_PORT + number % 4096)):
                return number
    raise AssertionError("no free port")


def slurm(number, job):
    return {
        "SLURM_JOB_ID": f"{job}", "SLURM_STEP_NODELIST": "127.0.0.1", "SLURM_NTASKS": "2", "SLURM_PROCID": f"{number}",
        "SLURM_LOCALID": "0",
    }  # fmt: skip


def open_mpi(number, job):
    return {
        "OMPI_MCA_orte_hnp_uri": f"{job * 4096}.0;tcp://127.0.0.1:1", "OMPI_COMM_WORLD_SIZE": "2",
        "OMPI_COMM_WORLD_RANK": f"{number}", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    }  # fmt: skip


CLIENT = """
import builtins, io
from types import SimpleNamespace as Thing

plain, NAMESPACE = builtins.open, "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
builtins.open = lambda path, *given, **named: io.StringIO("here") if path == NAMESPACE else plain(path, *given, **named)
owner = Thing(controller=True, kind="Job")
pod = Thing(metadata=Thing(labels={"job-name": "train"}, owner_references=[owner], name="train-0"))
job = Thing(metadata=Thing(name="train", labels={}), spec=Thing(parallelism=2))
config = Thing(load_incluster_config=lambda: None)
client = Thing(
    CoreV1Api=lambda: Thing(list_namespaced_pod=lambda **_: Thing(items=[pod])),
    BatchV1Api=lambda: Thing(read_namespaced_job=lambda **_: job),
    exceptions=Thing(ApiException=OSError),
)
"""


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory):
    """What a pod of an indexed job is told, with a client of its API that knows this one job."""
    place = tmp_path_factory.mktemp("client")
    (place / "kubernetes.py").write_text(CLIENT)

    def told(number, job):
        return {
            "KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": f"{number}", "HOSTNAME": "localhost",
            "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{FIRST_PORT + job % 4096}",
            "PYTHONPATH": os.pathsep.join([str(place), *filter(None, [os.environ.get("PYTHONPATH")])]),
        }  # fmt: skip

    return told


def test_processes_of_a_cluster_find_one_another(kubernetes):
    for told in (slurm, open_mpi, kubernetes):
        job = free_job()
        words = [sys.executable, "-c", JOIN]
        both = [
            subprocess.Popen(words, env=os.environ | told(i, job), stdout=subprocess.PIPE, text=True) for i in range(2)
        ]
        said = [process.communicate(timeout=120)[0].split() for process in both]
        assert said == [["0", "2", "2"], ["1", "2", "2"]]


@pytest.mark.parametrize(
    ("moment", "victim", "code", "says"),
    [
        ("join", 0, -signal.SIGABRT, "did not find one another"),
        ("end", 0, -signal.SIGABRT, "What the run had saved is there; go on with as many hosts as are left:\n  go on"),
        ("end", 1, 0, ""),
        ("parted", 0, -signal.SIGABRT, "everything is saved"),
    ],
)
def test_a_host_that_has_finished_ends_well_or_in_words(moment, victim, code, says):
    """Whatever becomes of the other. What the first host has not saved is not finished. When all is saved, a host that
    hears of the loss before jax ends it has ended well."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    words = [[sys.executable, "-c", END, address, str(number), str(victim), moment] for number in range(2)]
    both = [subprocess.Popen(each, stderr=subprocess.PIPE, text=True) for each in words]
    said = [process.communicate(timeout=120)[1] for process in both]
    assert both[victim].returncode == -signal.SIGKILL
    left = both[1 - victim].returncode
    if moment == "parted" and left == 0:
        return
    assert left == code, said[1 - victim]
    assert says in said[1 - victim]


@pytest.fixture
def asked(monkeypatch):
    """What jax is asked to join."""
    found = []
    monkeypatch.setattr(jax.distributed, "initialize", lambda *given, **_: found.append(given))
    return found


def test_one_process_is_left_alone(asked):
    alone = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}
    for environment in ({}, alone, {"SLURM_NTASKS": "4"}, {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0"}):
        join_hosts(None, None, None, environment)
    assert asked == []


def test_a_coordinator_is_enough_where_the_job_says_the_rest(asked):
    environment = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3"}  # as Open MPI 5 has it
    join_hosts("first:1234", None, None, environment)
    join_hosts("first:1234", 4, 2, {})
    join_hosts("first:1234", 4, None, {"JOB_COMPLETION_INDEX": "1"})  # Kubernetes without a client of its API
    assert asked == [("first:1234", 4, 3), ("first:1234", 4, 2), ("first:1234", 4, 1)]


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, r"Slurm, but SLURM_JOB_ID, .*start it with srun"),
        ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}, "Open MPI, but .*give --coordinator"),
        ({"JOB_COMPLETION_INDEX": "0"}, "Kubernetes, but KUBERNETES_SERVICE_HOST"),
    ],
)
def test_a_job_that_does_not_say_enough_is_explained(asked, environment, says):
    with pytest.raises(ArgumentError, match=says):
        join_hosts(None, None, None, environment)


def test_what_jax_cannot_find_is_explained(monkeypatch):
    def fails(**_):
        raise ValueError("coordinator_address should be defined.")

    monkeypatch.setattr(jax.distributed, "initialize", fails)
    environment = {"JOB_COMPLETION_INDEX": "0", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    with pytest.raises(ArgumentError, match=r"Kubernetes did not find .*\(coordinator_address .*--coordinator"):
        join_hosts(None, None, None, environment)
