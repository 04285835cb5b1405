"""The strategies of fleet train on several ranks as one process does on the joined batches."""

from __future__ import annotations

import fleet_training as job
import numpy as np
import paddle
import pytest
from fleet_jobs import Alone, alone, launched

#: strategies with float16: their tolerance; that of the others is 1e-5
LOOSE = {"half": 2e-3, "amp": 5e-3, "pure": 2e-2, "half_shards": 5e-3}
SHARDS = ["shards", "small_shards", "clipped_shards", "again_shards"]
#: strategies whose ranks differ on purpose, or that need four ranks
OTHER = ["local3", "adaptive", "hybrid", "hybrid_adam"]
EXACT = [name for name in job.STRATEGIES if name not in (*LOOSE, *OTHER)]
NAMES = [name for name in job.STRATEGIES if not name.startswith("hybrid")]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """One job for all strategies."""
    return launched(tmp_path_factory.mktemp("fleet"), 2, *NAMES)


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
    """A reference of two optimizers whose parameters are averaged at the same steps."""
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
    # different parameters at some step, after a common start
    first = [np.float32(found["adaptive"]["parameters"]["w0"]) for found in trained]
    assert np.abs(first[0] - first[1]).max() < 0.1


@pytest.mark.parametrize("name", [*SHARDS, "half_shards"])
def test_a_rank_holds_its_part(trained, name):
    parts = [set(found[name]["parameters"]) for found in trained]
    assert parts[0] and parts[1] and not parts[0] & parts[1]
    assert parts[0] | parts[1] == set(alone(name)[1])
    whole = trained[0]["recompute" if job.STRATEGIES[name][0] == "adam" else "plain"]["bytes"]
    # together they hold the state of one process, and each its learning rate
    assert sum(found[name]["bytes"] for found in trained) < whole + 64


@pytest.mark.parametrize("name", job.PIPES)
def test_a_rank_runs_its_section(trained, name):
    assert [set(found[name]["parameters"]) for found in trained] == [{"w0", "b0"}, {"w1", "b1", "w2", "b2"}]
    assert set(trained[0][name]["losses"]) == {None}


def test_what_was_applied(trained):
    assert trained[0]["lars"]["meta"] == ["LarsOptimizer"]
    assert trained[0]["plain"]["meta"] == []
    assert trained[0]["local3"]["meta"] == ["LocalSGDOptimizer"]
