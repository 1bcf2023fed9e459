"""A process finds the others of its job by what Slurm, Open MPI or Kubernetes tell it; the first two in processes that
are told so by a made-up environment."""

import os
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


def test_processes_of_a_cluster_find_one_another():
    for told in (slurm, open_mpi):
        job = free_job()
        words = [sys.executable, "-c", JOIN]
        both = [
            subprocess.Popen(words, env=os.environ | told(i, job), stdout=subprocess.PIPE, text=True) for i in range(2)
        ]
        said = [process.communicate(timeout=120)[0].split() for process in both]
        assert said == [["0", "2", "2"], ["1", "2", "2"]]


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
    assert asked == [("first:1234", 4, 3), ("first:1234", 4, 2)]


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
