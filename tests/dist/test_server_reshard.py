"""python -m paddle.distributed.reshard: snapshots of servers for another number of servers."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from killing import Kills, check_same

STEPS, HALF = 24, 12


def reshard(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "paddle.distributed.reshard", *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=120)


@pytest.mark.operators("listen_and_serv")
@pytest.mark.parametrize("name", ["adam+sparse+slice", "momentum+exponential+slice"])
def test_another_number_of_servers_resumes_with_the_same_bits(tmp_path, name) -> None:
    undisturbed = Kills(tmp_path / "whole", name, STEPS, FLAGS_ps_state_folder="").end()
    Kills(tmp_path / "first", name, STEPS, TO=str(HALF)).end()
    done = reshard(str(tmp_path / "first" / "state"), str(tmp_path / "second" / "state"))
    assert done.returncode == 0 and done.stdout.count(f": {HALF} steps") == 2, done
    second = Kills(tmp_path / "second", name, STEPS, servers=3, FROM=str(HALF))
    found = second.end()
    assert "starts with its part of the resharded state" in second.job.log("server2")
    check_same(found, undisturbed)
    assert all(np.abs(v).sum() > 0 for v in found[0].values())


def test_errors(tmp_path) -> None:
    done = reshard(str(tmp_path), str(tmp_path / "new"))
    assert done.returncode == 1 and "holds no server's snapshot" in done.stderr
    done = reshard(str(tmp_path / "nowhere"), str(tmp_path / "new"))
    assert done.returncode == 1 and "nowhere" in done.stderr
    Kills(tmp_path / "first", "sgd+slice", 4).end()
    state = tmp_path / "first" / "state"
    next(state.glob("server-*")).rename(tmp_path / "moved")
    done = reshard(str(state), str(tmp_path / "new"))
    assert done.returncode == 1 and "found 1 of 2 servers" in done.stderr and not (tmp_path / "new").exists()
