"""Deep gradient compression on two ranks: 2.0.2's formulas in numpy, and the transferred bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import dgc_training as job
import numpy as np
import paddle
import pytest
from launching import clean_environment
from paddle import fluid

RANKS = 2


def trained(folder: Path, kind: str) -> list[dict[str, Any]]:
    command = [
        sys.executable,
        "-m",
        "paddle.distributed.launch",
        f"--nproc_per_node={RANKS}",
        job.__file__,
        str(folder / "out"),
        kind,
    ]
    done = subprocess.run(
        command, cwd=folder, env=clean_environment(OAR_TIMEOUT="60"), capture_output=True, text=True, timeout=200
    )
    logs = "\n".join(p.read_text()[-3000:] for p in sorted((folder / "log").glob("workerlog.*")))
    assert done.returncode == 0, done.stderr + logs
    return [json.loads((folder / f"out.{rank}").read_text()) for rank in range(RANKS)]


def formulas() -> tuple[list[float], np.ndarray]:
    """The mean loss of each step and the parameter at the end, by what dgc_op.h and dgc_momentum_op.h compute."""
    w = job.numbers(1, job.SIZE, job.SIZE)
    u = [np.zeros_like(w) for _ in range(RANKS)]
    v = [np.zeros_like(w) for _ in range(RANKS)]
    losses = []
    for step in range(job.STEPS):
        parts = {k: np.split(a, RANKS) for k, a in job.batch(step, RANKS).items()}
        wrong = [x @ w - y for x, y in zip(parts["x"], parts["y"], strict=True)]
        losses.append(float(np.mean([np.mean(e**2) for e in wrong])))
        grads = [x.T @ e * np.float32(2 / e.size) for x, e in zip(parts["x"], wrong, strict=True)]
        if step < job.BEGIN:
            # Every rank's velocity is the common one.
            common = np.float32(job.MOMENTUM) * u[0] + sum(grads) / RANKS
            u = [common.copy() for _ in range(RANKS)]
            w = w - np.float32(job.RATE) * common
            continue
        sparsity = job.SPARSITY[min(int((step - job.BEGIN) * len(job.SPARSITY) / 2), len(job.SPARSITY) - 1)]
        k, total = int(w.size * (1 - np.float64(np.float32(sparsity)))), np.zeros_like(w)
        for rank, g in enumerate(grads):
            u[rank] = np.float32(job.MOMENTUM) * u[rank] + g
            v[rank] = v[rank] + u[rank]
            chosen = np.unravel_index(np.argsort(-np.abs(v[rank]), axis=None, kind="stable")[:k], w.shape)
            total[chosen] += v[rank][chosen]
            u[rank][chosen] = v[rank][chosen] = 0
        w = w - np.float32(job.RATE) * total / RANKS
    return losses, w


@pytest.mark.operators("dgc_allreduce")
def test_compressed_gradients_are_those_of_the_formulas_and_sparse(tmp_path):
    found = trained(tmp_path, "dgc")
    losses, w = formulas()
    assert found[0]["meta"] == ["DGCOptimizer"]
    np.testing.assert_allclose(np.mean([one["losses"] for one in found], 0), losses, rtol=1e-5)
    for one in found:
        np.testing.assert_allclose(np.float32(one["w"]), w, rtol=1e-5, atol=1e-6)
    # the whole gradient, then a tenth and a hundredth of it as indices and values
    whole = 4 * job.SIZE**2
    for one in found:
        # the first step also broadcasts rank 0's variables
        for sent, part in zip(one["sent"][1:], [0.5, 0.1, 0.01, 0.01, 0.01], strict=True):
            want = 2 * part * whole
            assert 0.9 * want < sent < 1.1 * want + 1000, one["sent"]


def test_compression_over_the_places_of_a_process(monkeypatch):
    """Two places select elements as two ranks do; the sum needs no other process."""
    monkeypatch.setenv("CPU_NUM", "2")
    paddle.enable_static()
    try:
        main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
        with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(scope):
            loss = job.model()
            fluid.optimizer.DGCMomentumOptimizer(job.RATE, job.MOMENTUM, job.BEGIN, 2, job.SPARSITY).minimize(loss)
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(startup)
            both = fluid.CompiledProgram(main).with_data_parallel(loss.name)
            found = [exe.run(both, job.batch(step, RANKS), [loss])[0].mean() for step in range(job.STEPS)]
            got = np.array(scope.find_var("w").get_tensor())
    finally:
        paddle.disable_static()
    losses, w = formulas()
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    np.testing.assert_allclose(got, w, rtol=1e-5, atol=1e-6)
