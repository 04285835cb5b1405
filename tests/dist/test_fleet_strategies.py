"""The strategies of fleet train on several ranks as one process does on the joined batches."""
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
import pytest
from launching import clean_environment
from paddle import fluid

SCRIPT = str(Path(__file__).with_name("fleet_training.py"))
#: what rounds to float16 on its way; the others follow one process to 1e-5
LOOSE = {"half": 2e-3, "amp": 5e-3, "pure": 2e-2, "half_shards": 5e-3}
SHARDS = ["shards", "small_shards", "clipped_shards", "again_shards"]
EXACT = [*job.PIPES, "plain", "decayed", "clipped", "batch_norm", "recompute", "lars", "lamb", "merge", "local1", *SHARDS]
NAMES = [*EXACT, *LOOSE, "local3", "adaptive"]


def launched(folder: Path, ranks: int, *names: str) -> list[dict[str, Any]]:
    """What every rank found."""
    command = [sys.executable, "-m", "paddle.distributed.launch", f"--nproc_per_node={ranks}", SCRIPT, str(folder / "out"), *names]
    done = subprocess.run(command, cwd=folder, env=clean_environment(OAR_TIMEOUT="60"), capture_output=True, text=True, timeout=300)
    logs = "\n".join(p.read_text()[-3000:] for p in sorted((folder / "log").glob("workerlog.*")))
    assert done.returncode == 0, done.stderr + logs
    return [json.loads((folder / f"out.{rank}").read_text()) for rank in range(ranks)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """One job for all strategies."""
    return launched(tmp_path_factory.mktemp("fleet"), 2, *NAMES)


def optimizer_of(name: str) -> Any:
    """What one process trains with for the same numbers."""
    if name == "lars":
        return fluid.optimizer.LarsMomentum(0.05, 0.9, lars_coeff=0.5, lars_weight_decay=0.01)
    if name == "lamb":
        return fluid.optimizer.Lamb(0.01, lamb_weight_decay=0.01, epsilon=1e-8)
    plain = job.OPTIMIZERS[job.STRATEGIES[name][0]]()
    return fluid.optimizer.GradientMergeOptimizer(plain, 2) if name == "merge" else plain


class Alone:
    """One process that trains, on a part of the batches if need be."""

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


@pytest.mark.parametrize("name", [*EXACT, *LOOSE])
def test_two_ranks_train_as_one_process(trained, name):
    near = LOOSE.get(name, 1e-5)
    losses, parameters = alone(name)
    # The first section of a pipeline has no loss.
    mean = np.mean([found[name]["losses"] for found in trained if None not in found[name]["losses"]], axis=0)
    np.testing.assert_allclose(mean, losses, rtol=near, atol=near)
    for found in trained:
        mine = found[name]["parameters"]
        assert mine.keys() == parameters.keys() or "shards" in name or name in job.PIPES
        for key, value in parameters.items():
            if key not in mine:
                continue
            np.testing.assert_allclose(np.float32(mine[key]), value, rtol=near, atol=near, err_msg=key)


def part(step: int, rank: int) -> dict[str, np.ndarray]:
    return {k: np.array_split(v, 2)[rank] for k, v in job.batch(step).items()}


def test_ranks_that_meet_every_third_step(trained):
    """Two processes of our own, whose parameters are averaged at the same steps."""
    paddle.enable_static()
    try:
        both, last = [Alone("local3"), Alone("local3")], 4
        for step in range(job.STEPS):
            for rank, one in enumerate(both):
                found = one.step(part(step, rank))
                np.testing.assert_allclose(trained[rank]["local3"]["losses"][step], found, rtol=1e-5, atol=1e-5)
            count = step + 1
            if count <= 4 or count - last == 3:
                last = count
                values = [one.parameters() for one in both]
                mean = {k: (values[0][k] + values[1][k]) / 2 for k in values[0]}
                [one.set(mean) for one in both]
    finally:
        paddle.disable_static()


def test_ranks_that_meet_less_and_less(trained):
    losses = np.mean([found["adaptive"]["losses"] for found in trained], axis=0)
    assert losses[-1] < 0.5 * losses[0]
    # They went apart at some step, after a common start.
    first = [np.float32(found["adaptive"]["parameters"]["w0"]) for found in trained]
    assert np.abs(first[0] - first[1]).max() < 0.1


@pytest.mark.parametrize("name", [*SHARDS, "half_shards"])
def test_a_rank_holds_its_part(trained, name):
    parts = [set(found[name]["parameters"]) for found in trained]
    assert parts[0] and parts[1] and not parts[0] & parts[1]
    assert parts[0] | parts[1] == set(alone(name)[1])
    whole = trained[0]["recompute" if job.STRATEGIES[name][0] == "adam" else "plain"]["bytes"]
    # Together they keep what one keeps, and each its own learning rate.
    assert sum(found[name]["bytes"] for found in trained) < whole + 64


@pytest.mark.parametrize("name", job.PIPES)
def test_a_rank_runs_its_section(trained, name):
    assert [set(found[name]["parameters"]) for found in trained] == [{"w0", "b0"}, {"w1", "b1", "w2", "b2"}]
    assert set(trained[0][name]["losses"]) == {None}


def test_what_was_applied(trained):
    assert trained[0]["lars"]["meta"] == ["LarsOptimizer"]
    assert trained[0]["plain"]["meta"] == []
    assert trained[0]["local3"]["meta"] == ["LocalSGDOptimizer"]
