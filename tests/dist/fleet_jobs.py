"""Training with the strategies of fleet: a job of several ranks, and the reference of a single process."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import fleet_training as job
import numpy as np
import paddle
from launching import clean_environment
from paddle import fluid

SCRIPT = str(Path(__file__).with_name("fleet_training.py"))


def launched(folder: Path, ranks: int, *names: str) -> list[dict[str, Any]]:
    """The results of every rank."""
    command = [
        sys.executable,
        "-m",
        "paddle.distributed.launch",
        f"--nproc_per_node={ranks}",
        SCRIPT,
        str(folder / "out"),
        *names,
    ]
    done = subprocess.run(
        command, cwd=folder, env=clean_environment(OAR_TIMEOUT="60"), capture_output=True, text=True, timeout=300
    )
    logs = "\n".join(p.read_text()[-3000:] for p in sorted((folder / "log").glob("workerlog.*")))
    assert done.returncode == 0, done.stderr + logs
    return [json.loads((folder / f"out.{rank}").read_text()) for rank in range(ranks)]


def optimizer_of(name: str) -> Any:
    """The optimizer of a single process with the same results."""
    if name == "lars":
        return fluid.optimizer.LarsMomentum(0.05, 0.9, lars_coeff=0.5, lars_weight_decay=0.01)
    if name == "lamb":
        return fluid.optimizer.Lamb(0.01, lamb_weight_decay=0.01, epsilon=1e-8)
    plain = job.OPTIMIZERS[job.STRATEGIES[name][0]]()
    return fluid.optimizer.GradientMergeOptimizer(plain, 2) if name == "merge" else plain


class Alone:
    """A single training process, optionally on a part of the batches."""

    def __init__(self, name: str) -> None:
        self.main, startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        with fluid.program_guard(self.main, startup), fluid.unique_name.guard():
            self.loss = job.build(name)
            optimizer_of(name).minimize(self.loss, startup)
        self.exe = fluid.Executor(fluid.CPUPlace())
        with fluid.scope_guard(self.scope):
            self.exe.run(startup)

    def step(self, feed: dict[str, np.ndarray]) -> float:
        with fluid.scope_guard(self.scope):
            return float(np.asarray(self.exe.run(self.main, feed, [self.loss])[0]).mean())

    def parameters(self) -> dict[str, np.ndarray]:
        return {k: np.float32(v) for k, v in job.parameters(self.main, self.scope).items()}

    def set(self, values: dict[str, np.ndarray]) -> None:
        for name, value in values.items():
            self.scope.find_var(name).get_tensor().set(value, fluid.CPUPlace())


@cache
def alone(name: str) -> tuple[list[float], dict[str, np.ndarray]]:
    paddle.enable_static()
    try:
        one = Alone(name)
        return [one.step(job.batch(s)) for s in range(job.STEPS)], one.parameters()
    finally:
        paddle.disable_static()
