"""The MPI transport of collectives (OAR_BACKEND=mpi), if Open MPI and mpi4py are installed: the results of TCP."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from launching import clean_environment

HERE = Path(__file__).parent
STRATEGIES = ["plain", "merge", "shards", "pipe"]


def mpirun(ranks: int, *command: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("mpirun") is None:
        pytest.skip("there is no mpirun (Debian: openmpi-bin)")
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed (the extra `mpi`)")
    start = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), sys.executable]
    env = clean_environment(OAR_BACKEND="mpi", OAR_TIMEOUT="60", OMPI_MCA_mpi_yield_when_idle="1", **env)
    return subprocess.run([*start, *command], cwd=folder, env=env, capture_output=True, text=True, timeout=240)


def launched(ranks: int, *command: str, folder: Path) -> None:
    """The results over TCP."""
    start = [sys.executable, "-m", "paddle.distributed.launch", f"--nproc_per_node={ranks}", *command]
    env = clean_environment(OAR_TIMEOUT="60", OAR_SHARED_MEMORY="0")
    done = subprocess.run(start, cwd=folder, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr


def test_collectives(tmp_path):
    done = mpirun(4, str(HERE / "mpi_collectives.py"), "mpi", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    launched(4, str(HERE / "mpi_collectives.py"), "tcp", folder=tmp_path)
    for rank in range(4):
        found, want = (np.load(tmp_path / f"{way}.{rank}.npz") for way in ("mpi", "tcp"))
        assert (found["way"].item(), want["way"].item()) == ("mpi", "tcp")
        assert set(found) == set(want)
        for name in set(want) - {"way"}:
            np.testing.assert_array_equal(found[name], want[name], err_msg=name)


def test_strategies_of_fleet(tmp_path):
    done = mpirun(2, str(HERE / "fleet_training.py"), "mpi", *STRATEGIES, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    launched(2, str(HERE / "fleet_training.py"), "tcp", *STRATEGIES, folder=tmp_path)
    for rank in range(2):
        found, want = (json.loads((tmp_path / f"{way}.{rank}").read_text()) for way in ("mpi", "tcp"))
        for name in STRATEGIES:
            assert found[name] == want[name]


GONE = """
import os, signal, paddle, paddle.distributed as dist
dist.init_parallel_env()
x = paddle.ones([4])
dist.all_reduce(x, group=dist.new_group([0, 1, 2], backend="mpi"))
if dist.get_rank() == 1:
    raise ValueError("the data are gone")
dist.all_reduce(x)
"""


def test_an_exception_is_reported(tmp_path):
    done = mpirun(3, "-c", GONE, folder=tmp_path)
    assert done.returncode != 0
    assert "rank 1 on" in done.stderr and "the data are gone" in done.stderr, done.stderr


def test_other_numbers_than_mpis(tmp_path):
    done = mpirun(
        2, "-c", "import paddle; paddle.distributed.init_parallel_env()", folder=tmp_path, PADDLE_TRAINERS_NUM="3"
    )
    assert done.returncode != 0 and "PADDLE_TRAINERS_NUM is 3, but MPI has 2" in done.stderr, done.stderr


def test_without_mpi4py():
    text = "import sys; sys.modules['mpi4py'] = None; import paddle; paddle.distributed.init_parallel_env()"
    env = clean_environment(OAR_BACKEND="mpi")
    done = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "ImportError: collectives over MPI need the package mpi4py" in done.stderr, done.stderr
