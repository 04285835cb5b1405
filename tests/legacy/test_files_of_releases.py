"""Files of parameters, written here and read by real Paddle, and the reverse.

OAR_PADDLE_18 and OAR_PADDLE_26 name Pythons that have PaddlePaddle 1.8.5 and 2.6.2; without them these tests are
skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
CHILD = Path(__file__).with_name("files_child.py")
VALUES = {"w": [[0.0, 0.25, 0.5], [0.75, 1.0, 1.25]], "b": [-1.0, 0.5, 2.0]}
RIGHT = {
    **dict.fromkeys(
        ["save", "save_dygraph", "load_of_dygraph", "static.save", "program_state", "save_params", "save_params_one"],
        VALUES,
    ),
    "trained": [[[2, 3], [3]], [[2, 3], [3]]],
    "inference_model": [["x"], [[-0.25, 1.75, 3.75]]],
}
#: release -> the kinds that a reader has
READS = {
    "OAR_PADDLE_18": set(RIGHT) - {"save", "load_of_dygraph"},
    "OAR_PADDLE_26": {"save", "load_of_dygraph", "static.save", "program_state"},
}


def run(python: str, how: str, folder: Path) -> dict:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHONPATH", "FLAGS_"))}
    if python == sys.executable:
        environment["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
    line = [python, str(CHILD), how, str(folder)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, env=environment, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(params=READS)
def oracle(request):
    python = os.environ.get(request.param)
    if not python:
        pytest.skip(f"{request.param} names no Python with this release of Paddle")
    return request.param, os.path.expanduser(python)


def test_files_of_this_package_are_read_by_paddle(oracle, tmp_path):
    release, python = oracle
    assert run(sys.executable, "write", tmp_path) == {}
    found = run(python, "read", tmp_path)
    assert found == {kind: RIGHT[kind] for kind in READS[release]}


def test_files_of_paddle_are_read_by_this_package(oracle, tmp_path):
    release, python = oracle
    assert run(python, "write", tmp_path) == {}
    found = run(sys.executable, "read", tmp_path)
    written = READS[release] | ({"load_of_dygraph"} if release == "OAR_PADDLE_18" else set())
    if release == "OAR_PADDLE_26":
        written -= {"load_of_dygraph"}
    assert {kind: found[kind] for kind in written} == {kind: RIGHT[kind] for kind in written}


def test_files_of_this_package(tmp_path):
    assert run(sys.executable, "write", tmp_path) == {}
    assert run(sys.executable, "read", tmp_path) == RIGHT
