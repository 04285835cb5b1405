"""fleet.utils.DistributedInfer: inference with the servers' tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dist_infer
import numpy as np
import paddle
import ps_training as model
import pytest
from launching import clean_environment
from paddle import fluid
from paddle.distributed.fleet.utils import DistributedInfer


@pytest.fixture(autouse=True)
def static():
    paddle.enable_static()
    with (
        fluid.scope_guard(fluid.Scope()),
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.unique_name.guard(),
    ):
        yield
    paddle.disable_static()


def launched(folder: Path, kind: str) -> list[np.ndarray]:
    command = [
        sys.executable,
        "-m",
        "paddle.distributed.launch",
        "--server_num=2",
        "--worker_num=2",
        dist_infer.__file__,
        str(folder),
        kind,
    ]
    done = subprocess.run(
        command, cwd=folder, env=clean_environment(OAR_TIMEOUT="60"), capture_output=True, text=True, timeout=200
    )
    logs = "\n".join(p.read_text()[-3000:] for p in sorted((folder / "log").glob("*")))
    assert done.returncode == 0, done.stderr + logs
    return [np.load(folder / f"{kind}.{i}.npy") for i in range(2)]


def test_training_and_inference(tmp_path):
    trained, inferred = launched(tmp_path, "train"), launched(tmp_path, "infer")
    loss = model.build({"sparse"})
    exe = fluid.Executor(fluid.CPUPlace())
    fluid.io.load_vars(exe, str(tmp_path / "persistables"), vars=loss.block.all_parameters())
    (alone,) = exe.run(feed=model.batch(7, 3), fetch_list=[loss])
    for found in (*trained, *inferred):
        np.testing.assert_allclose(found, alone, rtol=1e-6)


def test_outside_of_a_job():
    model.build({"sparse"})
    with pytest.raises(ValueError, match="is not in a job"):
        DistributedInfer().get_dist_infer_program()
