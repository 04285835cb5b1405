"""Launchers of several nodes end together; Ctrl-Z stops a launcher's processes, too."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from launching import alive, begin, gone, pids
from paddle.distributed.launch.ports import free


def two(tmp_path: Path, *script: str, order=(0, 1), each: int = 1, **env: str) -> list[subprocess.Popen[str]]:
    """Two launchers on two addresses of this machine, started in this order; the first is node 0's."""
    port, jobs = free(1)[0], {}
    for i in order:
        ip = f"127.0.0.{i + 1}"
        flags = [
            "--ips=127.0.0.1,127.0.0.2",
            f"--node_ip={ip}",
            f"--started_port={port}",
            f"--log_dir={ip}",
            f"--nproc_per_node={each}",
        ]
        jobs[i] = begin(flags, *script, cwd=tmp_path, env={"OAR_JOB_TOKEN": "1234abcd", **env})
    return [jobs[0], jobs[1]]


def ends(jobs) -> list[tuple[int, str, str]]:
    found = []
    for job in jobs:
        out, err = job.communicate(timeout=100)
        found.append((job.returncode, out, err))
    return found


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_launcher_that_ends_early_waits_for_the_others(tmp_path, order):
    jobs = two(tmp_path, "await_file", str(tmp_path), "1", order=order)
    early, late = pids(tmp_path, 2)
    assert not gone([early], 60)
    time.sleep(1)
    assert alive(late) and all(job.poll() is None for job in jobs)
    (tmp_path / "stop").touch()
    assert [code for code, _, _ in ends(jobs)] == [0, 0]


def test_the_store_stays(tmp_path):
    """Node 1's rank joins long after node 0's."""
    jobs = two(tmp_path, "late_total", str(tmp_path))
    time.sleep(1.5)
    (tmp_path / "stop").touch()
    for code, out, err in ends(jobs):
        assert code == 0 and out == "total 3.0\n", err


@pytest.mark.parametrize("node", ["0", "1"])
@pytest.mark.parametrize("how", ["7", "SIGKILL"])
def test_a_failing_node_ends_the_others(tmp_path, node, how):
    found = ends(two(tmp_path, "fail", how, node))
    other = found[1 - int(node)]
    assert found[int(node)][0] == (7 if how == "7" else 137) and other[0] == 1, found
    said = "exited with code 7" if how == "7" else "was ended by SIGKILL"
    assert f"launch: the job has failed: node {node}: rank {node} {said}" in other[2], other[2]


@pytest.mark.parametrize("node", [0, 1])
def test_a_failing_node_ends_finished_nodes(tmp_path, node):
    jobs = two(tmp_path, "await_file", str(tmp_path), str(node))
    numbers = pids(tmp_path, 2)
    assert not gone([numbers[1 - node]], 60)
    os.kill(numbers[node], signal.SIGSEGV)
    found = ends(jobs)
    assert found[node][0] == 139 and found[1 - node][0] == 1, found
    assert f"node {node}: rank {node} was ended by SIGSEGV" in found[1 - node][2]


@pytest.mark.parametrize("node", [0, 1])
def test_ctrl_c_on_one_node_ends_all(tmp_path, node):
    jobs = two(tmp_path, "polite", str(tmp_path))
    pids(tmp_path, 2)
    jobs[node].send_signal(signal.SIGINT)
    found = ends(jobs)
    assert found[node][0] == 130 and found[1 - node][0] == 1, found
    assert f"node {node}: its launcher was ended by SIGINT" in found[1 - node][2], found


@pytest.mark.slow
@pytest.mark.parametrize("node", [0, 1])
def test_a_killed_launcher_ends_the_other_node(tmp_path, node):
    jobs = two(tmp_path, "polite", str(tmp_path), OAR_INIT_TIMEOUT="10")
    numbers = pids(tmp_path, 2)
    jobs[node].kill()
    found = ends(jobs)
    said = "the first launcher, at 127.0.0.1:" if node == 0 else "node 1: its launcher"  # lost, or not joined yet
    assert found[1 - node][0] == 1 and said in found[1 - node][2], found
    assert not gone(numbers, 5)


def test_a_node_that_never_comes(tmp_path):
    flags = ["--ips=127.0.0.1,127.0.0.2", "--node_ip=127.0.0.1", f"--started_port={free(1)[0]}"]
    job = begin(flags, "nothing", cwd=tmp_path, env={"OAR_JOB_TOKEN": "12", "OAR_INIT_TIMEOUT": "2"})
    ((code, _, err),) = ends([job])
    assert code == 1 and "node 1: its launcher did not come" in err


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def comes(pid: int, wanted: str) -> bool:
    limit = time.monotonic() + 30
    while time.monotonic() < limit:
        if state(pid) in wanted:
            return True
        time.sleep(0.02)
    return False


def test_ctrl_z_stops_all_and_fg_goes_on(tmp_path):
    job = begin(["--nproc_per_node=2"], "count", str(tmp_path), cwd=tmp_path)
    numbers = pids(tmp_path, 2, job)
    for _ in range(2):
        job.send_signal(signal.SIGTSTP)
        assert all(comes(p, "T") for p in (job.pid, *numbers))
        before = [(tmp_path / f"count.{r}").read_text() for r in range(2)]
        time.sleep(0.2)
        assert before == [(tmp_path / f"count.{r}").read_text() for r in range(2)]
        job.send_signal(signal.SIGCONT)
        assert all(comes(p, "RS") for p in (job.pid, *numbers))
    (tmp_path / "stop").touch()
    ((code, _, err),) = ends([job])
    assert code == 0, err


def test_a_stopped_launcher_can_be_ended(tmp_path):
    job = begin(["--nproc_per_node=2"], "polite", str(tmp_path), cwd=tmp_path)
    numbers = pids(tmp_path, 2, job)
    job.send_signal(signal.SIGTSTP)
    assert all(comes(p, "T") for p in (job.pid, *numbers))
    job.send_signal(signal.SIGTERM)
    job.send_signal(signal.SIGCONT)  # as a shell's kill does
    ((code, _, _),) = ends([job])
    assert code == 143 and not gone(numbers, 5)
    assert (tmp_path / "cleaned.0").read_text() == "SIGTERM"
