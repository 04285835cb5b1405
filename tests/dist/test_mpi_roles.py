"""Role makers over MPI, if Open MPI and mpi4py are installed."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from launching import clean_environment

SCRIPT = Path(__file__).with_name("mpi_roles.py")


def test_servers_and_workers(tmp_path):
    if shutil.which("mpirun") is None:
        pytest.skip("there is no mpirun (Debian: openmpi-bin)")
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed (the extra `mpi`)")
    command = [
        "mpirun",
        "--allow-run-as-root",
        "--oversubscribe",
        "-n",
        "4",
        sys.executable,
        str(SCRIPT),
        str(tmp_path),
    ]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(4)]
    for rank, known in enumerate(found):
        assert (known["server"], known["worker"]) == (rank % 2 == 0, rank % 2 == 1)
        assert (known["workers"], known["servers"], known["index"]) == (2, 2, rank // 2)
        assert known["total"] == ([2.0, 1.0] if known["worker"] else [0.0, 0.0])
    assert [known["first"] for known in found] == [False, True, False, False]
