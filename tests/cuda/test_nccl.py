"""Collectives over NCCL: with a stand-in for CuPy, and (marked gpu) on a machine with two GPUs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import paddle
import pytest
from paddle import _cuda
from shim import have_compiler

SCRIPT = Path(__file__).with_name("nccl_job.py")


def launched(folder: Path, kind: str, **env: str) -> None:
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PADDLE_", "OAR_", "FLAGS_"))}
    environ |= {"OAR_TIMEOUT": "60", "OAR_INIT_TIMEOUT": "60", "FAKE_NCCL": str(folder), **env}
    command = [sys.executable, "-m", "paddle.distributed.launch", "--nproc_per_node=2", str(SCRIPT), kind]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=200)
    logs = "\n".join(p.read_text()[-3000:] for p in sorted((folder / "log").glob("workerlog.*")))
    assert done.returncode == 0, done.stderr + logs
    assert logs.count("every collective is right") == 2, logs


@pytest.mark.parametrize("how", ["environment", "group"])
def test_over_a_stand_in(how, tmp_path):
    if not have_compiler():
        pytest.skip("g++ is missing: CUDA kernels are not run as C++")
    launched(tmp_path, "fake", **({"OAR_BACKEND": "nccl"} if how == "environment" else {}))


@pytest.mark.gpu
@pytest.mark.parametrize("how", ["environment", "group"])
def test_on_gpus(how, tmp_path, gpu):
    if _cuda.device_count() < 2:
        pytest.skip("one GPU: NCCL needs one for each rank")
    launched(tmp_path, "gpu", **({"OAR_BACKEND": "nccl"} if how == "environment" else {}))


def test_without_a_device_it_says_what_is_missing(monkeypatch):
    if _cuda.runtime() is not None:
        pytest.skip("there is a GPU")
    with pytest.raises(RuntimeError, match="collectives over NCCL need a CUDA device: .*cupy"):
        paddle.distributed.new_group([0], backend="nccl")
    monkeypatch.setenv("OAR_BACKEND", "nccl")
    with pytest.raises(RuntimeError, match="collectives over NCCL need a CUDA device"):
        paddle.distributed.init_parallel_env()
