"""Mode "nccl2": several trainers, each with one or more places, train as one process with the joined batches."""

from __future__ import annotations

import nccl2_training as training
import numpy as np
import paddle.fluid as fluid
import pytest
from paddle.distributed.launch.ports import free
from pool import Pool


def ends(count: int) -> list[str]:
    return [f"127.0.0.1:{port}" for port in free(count)]


def on_rank(*args):
    return training.here(training.nccl2, *args)


def on_rank_by_parallel_executor(*args):
    return training.here(training.by_parallel_executor, *args)


def check(found, want) -> None:
    for one in found:
        for name in want:
            if name != "loss":
                np.testing.assert_allclose(one[name], want[name], rtol=1e-5, atol=1e-6, err_msg=name)
    # trainer 0's parameters are broadcast before the first step
    losses = np.mean([np.mean(f["loss"], 1) for f in found], 0)
    np.testing.assert_allclose(losses, np.mean(want["loss"], 1), rtol=1e-5)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"optimizer": "clip", "comms": 2},
        {"places": 2},
        {"places": 3, "optimizer": "sgd"},
        {"optimizer": "layers"},
        {"optimizer": "layers", "places": 3},
    ],
    ids=lambda how: "+".join(f"{k}={v}" for k, v in how.items()) or "plain",
)
def test_two_trainers(two_apart, how):
    want = training.here(training.alone, how.get("optimizer", "momentum"))
    check(two_apart.run(on_rank, how, ends(2)), want)


def test_two_hosts_of_two():
    pool = Pool(4, join=False)
    try:
        found = pool.run(on_rank, {"inner": 2, "comms": 2}, ends(4))
    finally:
        pool.close()
    check(found, training.here(training.alone))


def test_parallel_executor(two_apart):
    want = training.here(training.alone)
    found = two_apart.run(on_rank_by_parallel_executor, ends(2))
    np.testing.assert_allclose(np.mean([f[:-1] for f in found], (0, 2)), np.mean(want["loss"], 1), rtol=1e-5)
    assert found[0][-1] == found[1][-1]


def compiled(trainers: int, trainer: int = 0):
    main, startup, loss = training.network(0)
    build = fluid.BuildStrategy()
    build.num_trainers, build.trainer_id = trainers, trainer
    program = fluid.CompiledProgram(main).with_data_parallel(loss.name, build, places=[fluid.CPUPlace()])
    return training.run(program, startup, loss, 0, 1)


@pytest.mark.parametrize(
    ("numbers", "kind", "said"),
    [((2,), RuntimeError, "has not joined: first run the startup Program"), ((2, 2), ValueError, r"in \[0, 2\)")],
)
def test_without_a_group(numbers, kind, said):
    with pytest.raises(kind, match=said):
        training.here(compiled, *numbers)


def test_other_numbers_than_those_it_has_joined_by(three):
    found = three.run(joined_by_another_number)
    assert all("num_trainers is 2 and trainer_id 0, but this process has joined as rank" in one for one in found)


def joined_by_another_number() -> str:
    with pytest.raises(ValueError) as raised:
        training.here(compiled, 2, 0)
    return str(raised.value)
