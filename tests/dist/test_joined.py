"""Launched and spawned processes join: rendezvous, collectives, failures, reports."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import joining
import paddle.distributed as dist
import pytest
from launching import FOREIGN, clean_environment, pids
from paddle.distributed.launch.ports import free

SCRIPT = str(Path(joining.__file__))


def launched(flags, *script, cwd, env=None):
    return subprocess.Popen(
        [sys.executable, "-m", "paddle.distributed.launch", *flags, SCRIPT, *script],
        cwd=cwd,
        text=True,
        env=clean_environment(**(env or {})),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.fixture
def clean(monkeypatch):
    for name in list(os.environ):
        if name.startswith(FOREIGN):
            monkeypatch.delenv(name)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def test_launch(tmp_path):
    job = launched(["--nproc_per_node=3"], "total", cwd=tmp_path)
    out, err = job.communicate()
    assert job.returncode == 0 and out == "total 6.0\n", err


def test_two_nodes(tmp_path):
    """Two launchers on two addresses of this machine, with a common token."""
    jobs, port = [], free(1)[0]
    for ip in ("127.0.0.1", "127.0.0.2"):
        flags = [
            "--ips=127.0.0.1,127.0.0.2",
            f"--node_ip={ip}",
            "--nproc_per_node=2",
            f"--started_port={port}",
            f"--log_dir={ip}",
        ]
        jobs.append(launched(flags, "total", cwd=tmp_path, env={"OAR_JOB_TOKEN": "1234abcd"}))
    for job in jobs:
        out, err = job.communicate()
        assert job.returncode == 0 and out == "total 10.0\n", err


def test_open_mpi(tmp_path):
    """Two launchers as started by mpirun: they know only the address of the first."""
    jobs = []
    for rank in "01":
        env = {
            "OMPI_COMM_WORLD_SIZE": "2",
            "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            "OMPI_COMM_WORLD_RANK": rank,
            "OMPI_COMM_WORLD_LOCAL_RANK": rank,
            "PMIX_NAMESPACE": str(os.getpid()),
        }
        jobs.append(launched([f"--log_dir=log{rank}"], "total", cwd=tmp_path, env=env))
    for job in jobs:
        out, err = job.communicate()
        assert job.returncode == 0 and out == "total 3.0\n", err


def test_launchers_with_different_numbers_of_processes(tmp_path):
    jobs, port = [], str(free(1)[0])
    for rank in "01":
        env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "RANK": rank}
        jobs.append(
            launched([f"--nproc_per_node={int(rank) + 1}"], "total", cwd=tmp_path, env=env | {"OAR_INIT_TIMEOUT": "10"})
        )
    errors = [job.communicate()[1] for job in jobs]
    assert [job.returncode for job in jobs] == [2, 2]
    assert any("--nproc_per_node must be the same" in e for e in errors), errors


def test_a_port_that_is_taken(tmp_path):
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    held.listen()
    flags = ["--ips=127.0.0.1,127.0.0.2", "--node_ip=127.0.0.1", f"--started_port={held.getsockname()[1]}"]
    job = launched(flags, "total", cwd=tmp_path)
    _, err = job.communicate()
    held.close()
    assert job.returncode == 2 and "cannot host the rendezvous" in err and "Traceback" not in err


@pytest.mark.parametrize(("how", "status"), [("raise", 1), ("SIGKILL", 137)])
def test_a_failure_is_reported_to_the_others(tmp_path, how, status):
    job = launched(["--nproc_per_node=3"], "lose", how, cwd=tmp_path)
    out, err = job.communicate()
    assert job.returncode == status and "launch: rank 1 (pid" in err, err
    assert "rank 1" in out and "did not end by itself" not in err  # rank 0 on the terminal: it names the lost rank
    assert "rank 1" in (tmp_path / "log" / "workerlog.2").read_text()


def test_sigusr1_prints_waits(tmp_path):
    job = launched(["--nproc_per_node=2"], "wait", str(tmp_path), cwd=tmp_path)
    pids(tmp_path, 2, job)
    job.send_signal(signal.SIGUSR1)
    assert job.stdout is not None and job.stderr is not None
    seen = ""
    while "barrier" not in seen:
        line = job.stdout.readline()  # rank 0's report
        assert line, seen
        seen += line
    (tmp_path / "stop").touch()
    _, err = job.communicate()
    assert job.returncode == 0 and "is running for" in err


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_spawn(clean, method):
    context = dist.spawn(joining.total, nprocs=2, start_method=method)
    assert [q.get() for q in context.return_queues] == [3.0, 3.0]


@pytest.mark.parametrize(("how", "said"), [("raise", "ValueError: fails on purpose"), ("SIGKILL", "SIGKILL")])
def test_spawn_names_the_failed_rank(clean, how, said):
    with pytest.raises(Exception, match="Process 1") as caught:
        dist.spawn(joining.lose, args=(how,), nprocs=3)
    assert said in str(caught.value)
