"""A rank is killed, under each strategy: all others end with an error that names it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from launching import clean_environment
from paddle.distributed.launch.ports import free

SCRIPT = str(Path(__file__).with_name("fleet_faults.py"))
#: far above the two seconds on an idle machine
PATIENCE = 30.0


def begin(folder: Path, ranks: int, name: str) -> list[subprocess.Popen[str]]:
    """Starts the ranks without a launcher."""
    ends = [f"127.0.0.1:{port}" for port in free(ranks)]
    return [
        subprocess.Popen(
            [sys.executable, SCRIPT, str(folder), name],
            env=clean_environment(
                PADDLE_TRAINER_ID=str(rank),
                PADDLE_TRAINERS_NUM=str(ranks),
                OAR_INIT_TIMEOUT="60",
                PADDLE_CURRENT_ENDPOINT=ends[rank],
                PADDLE_TRAINER_ENDPOINTS=",".join(ends),
            ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]


def wait_until_all_train(folder: Path, processes: list[subprocess.Popen[str]]) -> None:
    limit = time.monotonic() + 120
    while not all((folder / f"trains.{rank}").exists() for rank in range(len(processes))):
        assert time.monotonic() < limit, "the ranks do not train"
        ended = [p.communicate()[1] for p in processes if p.poll() is not None]
        assert not ended, ended
        time.sleep(0.02)


JOBS = [
    ("plain", 3, 1),
    ("merge", 3, 1),
    ("local1", 3, 1),
    ("shards", 3, 1),
    ("pipe", 2, 0),
    ("pipe", 4, 1),
    ("hybrid", 4, 0),
]


def seconds(name: str, ranks: int, killed: int, folder: Path) -> float:
    """Seconds until all have ended after one is killed; each must name the lost rank."""
    processes = begin(folder, ranks, name)
    try:
        wait_until_all_train(folder, processes)
        processes[killed].send_signal(signal.SIGKILL)
        start = time.monotonic()
        others = [p for rank, p in enumerate(processes) if rank != killed]
        said = [p.communicate(timeout=PATIENCE)[1] for p in others]
        took = time.monotonic() - start
        print(f"{name} on {ranks} ranks: all ended {took:.2f} s after rank {killed}")
        assert all(p.returncode for p in others)
        for text in said:
            assert f"(trainer {killed})" in text or f"rank {killed} on {os.uname().nodename} " in text, text[-2000:]
            assert "died" in text, text[-2000:]
        return took
    finally:
        for p in processes:
            p.kill()
            p.communicate()


@pytest.mark.parametrize(("name", "ranks", "killed"), JOBS, ids=str)
def test_a_killed_rank_ends_all(name, ranks, killed, tmp_path):
    seconds(name, ranks, killed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "ranks", "killed"), JOBS, ids=str)
def test_all_end_within_two_seconds(name, ranks, killed, tmp_path):
    assert seconds(name, ranks, killed, tmp_path) < 2
