"""Fleet scripts over parameter servers, started by the launcher."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import paddle
import ps_training as model
import pytest
from launching import clean_environment
from paddle import fluid

SCRIPT = str(Path(__file__).with_name("fleet_servers.py"))


def job(folder: Path, script: str, *arguments: str, servers: int = 2, **environment: str) -> None:
    """A job with two workers, to its end."""
    command = [
        sys.executable,
        "-m",
        "paddle.distributed.launch",
        f"--server_num={servers}",
        "--worker_num=2",
        script,
        str(folder),
    ]
    env = clean_environment(OAR_TIMEOUT="60", **environment)
    done = subprocess.run([*command, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    logs = "\n".join(p.read_text()[-3000:] for p in sorted((folder / "log").glob("*")))
    assert done.returncode == 0, done.stderr + logs


def launched(folder: Path, *script: str) -> list[list[float]]:
    """The losses of both workers of a job with two servers."""
    job(folder, SCRIPT, *script)
    return [json.loads((folder / f"losses.{i}").read_text()) for i in range(2)]


@pytest.fixture
def static():
    paddle.enable_static()
    with (
        fluid.scope_guard(fluid.Scope()),
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.unique_name.guard(),
    ):
        yield
    paddle.disable_static()


def joined(step: int) -> dict[str, np.ndarray]:
    parts = [model.batch(i, step) for i in range(2)]
    return {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}


def test_synchronous_workers_equal_one_process_and_resume(tmp_path, static):
    first = launched(tmp_path, "sync", "12")
    saved = {p.name: p for p in (tmp_path / "persistables").iterdir()}
    assert set(saved) == {"table", "w0", "b0", "w1", "b1"}

    loss = model.build({"sparse"})
    fluid.optimizer.SGD(0.05).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    found = [float(np.mean(exe.run(feed=joined(s), fetch_list=[loss])[0])) for s in range(12)]
    np.testing.assert_allclose(np.mean(first, axis=0), found, rtol=1e-5, atol=1e-6)
    alone = {name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in saved}
    with fluid.scope_guard(fluid.Scope()):
        fluid.io.load_vars(exe, str(tmp_path / "persistables"), vars=[p for p in loss.block.all_parameters()])
        for name, value in alone.items():
            loaded = np.array(fluid.global_scope().find_var(name).get_tensor())
            np.testing.assert_allclose(loaded, value, rtol=1e-5, atol=1e-6)
    with fluid.scope_guard(fluid.Scope()):
        program, names, targets = fluid.io.load_inference_model(str(tmp_path / "inference"), exe)
        feed = {k: v for k, v in joined(3).items() if k in names}
        assert exe.run(program, feed, targets)[0].shape == (2 * model.BATCH, 1)

    again = launched(tmp_path, "sync", "3", str(tmp_path / "persistables"))
    found = [float(np.mean(exe.run(feed=joined(s), fetch_list=[loss])[0])) for s in range(3)]
    np.testing.assert_allclose(np.mean(again, axis=0), found, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["async", "geo"])
def test_asynchronous_workers(tmp_path, mode):
    losses = launched(tmp_path, mode, "20")
    # the first of the two starts from untrained parameters
    assert np.mean([found[-5:] for found in losses]) < 0.7 * max(found[0] for found in losses)


def test_workers_meet_at_a_barrier(tmp_path):
    script = str(Path(__file__).with_name("fleet_barriers.py"))
    job(tmp_path, script, servers=1, PADDLE_WITH_GLOO="1")
    assert all((tmp_path / f"done.{i}").exists() for i in range(2))
