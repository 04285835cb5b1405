"""The functions of paddle.distributed in static mode: operators of a Program over the same groups."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.distributed as dist
import pytest
from paddle import static
from paddle._basics import unique_name

X = np.arange(6, dtype="float32").reshape(2, 3)


def in_a_program(build, feed):
    """The values of the variables returned by `build`, after a run."""
    paddle.enable_static()
    try:
        main, startup = static.Program(), static.Program()
        with static.program_guard(main, startup), static.scope_guard(static.Scope()), unique_name.guard():
            variables = build()
            exe = static.Executor(paddle.CPUPlace())
            exe.run(startup)
            return exe.run(main, feed=feed, fetch_list=variables), [op.type for op in main.global_block().ops]
    finally:
        paddle.disable_static()


def collectives():
    me, n = dist.get_rank(), dist.get_world_size()

    def build():
        data = [static.data(f"x{i}", [2, 3], "float32") for i in range(5)]
        dist.all_reduce(data[0])
        dist.all_reduce(data[1], dist.ReduceOp.MAX)
        dist.broadcast(data[2], 1)
        dist.reduce(data[3], 2)
        gathered: list = []
        dist.all_gather(gathered, data[4])
        part = paddle.zeros([2, 3])
        dist.scatter(part, [data[4] * float(i) for i in range(n)] if me == 0 else None, 0)
        dist.barrier()
        return [*data[:4], *gathered, part]

    return in_a_program(build, {f"x{i}": X + me for i in range(5)})


def test_collectives_in_a_program(three):
    for rank, (found, types) in enumerate(three.run(collectives)):
        total = 3 * X + 3
        want = [total, X + 2, X + 1, total if rank == 2 else X + rank, X, X + 1, X + 2, X * rank]
        for got, expected in zip(found, want, strict=True):
            np.testing.assert_array_equal(got, expected)
        for name in ("c_allreduce_sum", "c_allreduce_max", "c_broadcast", "c_reduce_sum", "c_allgather", "c_scatter"):
            assert name in types
        assert "barrier" in types


def gradients():
    me = dist.get_rank()

    def build():
        x = static.data("x", [2, 3], "float32")
        x.stop_gradient = False
        y = x * 2.0
        dist.all_reduce(y)
        loss = paddle.sum(y * float(me + 1))
        return static.gradients([loss], [x])

    return in_a_program(build, {"x": X})[0][0]


@pytest.mark.operators("c_allreduce_sum")
def test_gradient_of_a_sum_in_a_program(three):
    for found in three.run(gradients):
        np.testing.assert_array_equal(found, np.full([2, 3], 12.0, "float32"))


def test_a_program_that_is_built_before_joining(monkeypatch):
    """As in 2.0.2's tests: the number of ranks is read from the environment."""
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "3")
    monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
    paddle.enable_static()
    try:
        main = static.Program()
        with static.program_guard(main, static.Program()):
            x, gathered = static.data("x", [6, 2], "float32"), []
            dist.all_gather(gathered, x)
            dist.scatter(x, [x] * 3, src=1)
            dist.scatter(x, src=0)
    finally:
        paddle.disable_static()
    assert len(gathered) == 3
    ops = [op for op in main.global_block().ops if op.type in ("c_allgather", "c_scatter")]
    assert [op.attr("nranks") for op in ops] == [3, 3, 3]
