"""Jobs over hosts that are network namespaces: each kind of placement, a disconnected host, a bad network."""

from __future__ import annotations

import os
import re

import joining
import launching
import pytest
from launching import pids
from namespaces import Hosts

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _script(monkeypatch):
    monkeypatch.setattr(launching, "SCRIPT", os.path.abspath(joining.__file__))


@pytest.fixture
def hosts(tmp_path):
    with Hosts(3, tmp_path) as made:
        yield made


def ends(jobs) -> list[tuple[int, str, str]]:
    found = []
    for job in jobs:
        out, err = job.communicate(timeout=200)
        found.append((job.returncode, out, err))
    return found


def flags(hosts, i):
    return ["--ips=" + ",".join(hosts.ips)], {}


def flags_of_old(hosts, i):
    return [f"--cluster_node_ips={','.join(hosts.ips)}", f"--node_ip={hosts.ips[i]}", "--started_port=6200"], {}


def paddle_cloud(hosts, i):
    return [], {
        "PADDLE_TRAINERS": ",".join(hosts.ips),
        "POD_IP": hosts.ips[i],
        "PADDLE_TRAINER_ID": str(i),
        "TRAINER_PORTS_NUM": "2",
        "PADDLE_TRAINERS_NUM": "3",
        "PADDLE_PORT": "6300",
    }


def paddle_job(hosts, i):
    return [], {"PADDLE_MASTER": "node0:36543", "PADDLE_NNODES": "3", "PADDLE_NODE_RANK": str(i)}


def pods(hosts, i):
    return [], {"MASTER_ADDR": "node0", "MASTER_PORT": "29500", "WORLD_SIZE": "3", "RANK": str(i)}


def slurm(hosts, i):
    """srun with one task on each node."""
    return [], {
        "SLURM_STEP_ID": "0",
        "SLURM_JOB_ID": "417",
        "SLURM_STEP_NUM_TASKS": "3",
        "SLURM_PROCID": str(i),
        "SLURM_STEP_NODELIST": "node[0-2]",
        "SLURM_NODEID": str(i),
        "SLURM_LOCALID": "0",
        "SLURM_STEP_TASKS_PER_NODE": "1(x3)",
    }


def open_mpi(hosts, i):
    return [], {
        "OMPI_COMM_WORLD_SIZE": "3",
        "OMPI_COMM_WORLD_RANK": str(i),
        "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
        "OMPI_COMM_WORLD_LOCAL_RANK": "0",
        "MASTER_ADDR": hosts.ips[0],
        "MASTER_PORT": "29501",
    }


@pytest.mark.parametrize("way", [flags, flags_of_old, paddle_cloud, paddle_job, pods, slurm, open_mpi])
def test_three_hosts(hosts, way):
    jobs = []
    for i in range(3):
        said, env = way(hosts, i)
        jobs.append(hosts.launch(i, ["--nproc_per_node=2", *said], "across", **env))
    for i, (code, out, err) in enumerate(ends(jobs)):
        assert code == 0 and out.endswith("total sums of 6 ranks on 3 hosts\n"), (i, code, out, err)


def test_a_task_a_core(hosts):
    """mpirun with two ranks on either of two hosts."""
    jobs = []
    for rank in range(4):
        _, env = open_mpi(hosts, rank)
        env |= {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
        env |= {"OMPI_COMM_WORLD_LOCAL_RANK": str(rank % 2)}
        jobs.append(hosts.launch(rank // 2, [f"--log_dir=log{rank}"], "across", **env))
    for i, (code, out, err) in enumerate(ends(jobs)):
        assert code == 0 and out.endswith("total sums of 4 ranks on 2 hosts\n"), (i, code, out, err)


@pytest.mark.parametrize("host", [0, 2])
def test_a_host_is_disconnected(hosts, tmp_path, host):
    """All ranks report the lost ranks and the operation, and end."""
    (tmp_path / "pids").mkdir()
    jobs = [
        hosts.launch(i, ["--nproc_per_node=2", *flags(hosts, i)[0]], "on_and_on", str(tmp_path / "pids"))
        for i in range(3)
    ]
    numbers = pids(tmp_path / "pids", 6)
    hosts.cut(host)
    found = ends(jobs)
    assert all(code not in (0, None) for code, _, _ in found), found
    said = {r: (tmp_path / "pids" / f"error.{r}").read_text() for r in range(6)}
    for rank, text in said.items():
        here = rank // 2
        others = [r for r in range(6) if (r // 2 == host) != (here == host)]
        named = re.search(r"rank (\d) on (node\d) has been silent for [\d.]+ s", text)
        assert named and int(named[1]) in others and named[2] == f"node{int(named[1]) // 2}", (rank, text)
        assert "this rank was in all_reduce(float32[100000], sum)" in text, (rank, text)
    assert not launching.gone(numbers, 5)


def test_a_slow_network_that_loses_packets(hosts):
    """20 Mbit/s and a queue of 10 packets: slow, but correct."""
    for i in range(3):
        hosts.worsen(i, "20mbit", 16000)
    jobs = [hosts.launch(i, ["--nproc_per_node=2", *flags(hosts, i)[0]], "across", "20000") for i in range(3)]
    for i, (code, out, err) in enumerate(ends(jobs)):
        assert code == 0 and out.endswith("total sums of 6 ranks on 3 hosts\n"), (i, code, out, err)
    assert sum(hosts.lost(i) for i in range(3)) > 0
