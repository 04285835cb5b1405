"""A dry run of tools/gpu_day.sh on the stand-in: the kit has no mistakes of its own when a GPU is at hand."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from shim import have_compiler

ROOT = Path(__file__).resolve().parents[2]


def dry_run(command: str, out: Path) -> str:
    if not have_compiler():
        pytest.skip("g++ is missing: CUDA kernels are not run as C++")
    environ = os.environ | {"OAR_KIT_DEVICE": "shim", "OUT": str(out), "PYTHON": sys.executable}
    done = subprocess.run(
        ["bash", str(ROOT / "tools" / "gpu_day.sh"), command], env=environ, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    return done.stdout


@pytest.mark.slow
def test_check(tmp_path):
    said = dry_run("check", tmp_path)
    assert "CUDA: 1 devices" in said and "calls of 12 cases ran" in said
    for name in ("facts.txt", "tests.log", "tests.xml", "memcheck.txt", "racecheck.txt"):
        assert (tmp_path / name).stat().st_size, name


def test_speed(tmp_path):
    dry_run("speed", tmp_path)
    found = json.loads((tmp_path / "speed.json").read_text())
    assert {"add 64 paddle", "layer_norm 8 paddle", "ctr step paddle"} <= set(found)


@pytest.mark.slow
def test_profile(tmp_path):
    dry_run("profile", tmp_path)
    assert (tmp_path / "host.prof").stat().st_size and (tmp_path / "ncu.csv").stat().st_size
