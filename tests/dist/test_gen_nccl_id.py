"""gen_nccl_id: rings of all trainers, and of the trainers of a host and the first ones of all hosts."""

from __future__ import annotations

import nccl2_training as training
import numpy as np
import paddle
import pytest
from paddle import static
from paddle.distributed.launch.ports import free
from pool import Pool


def run(trainers: list[str], rank: int, **attrs) -> None:
    program = static.Program()
    block = program.global_block()
    made = block.create_var(name="NCCLID", persistable=True, type=paddle.fluid.core.VarDesc.VarType.RAW)
    block.append_op(
        type="gen_nccl_id", outputs={"NCCLID": made}, attrs={"trainers": trainers, "trainer_id": rank, **attrs}
    )
    static.Executor(paddle.CPUPlace()).run(program)


def total(ring: int, value: float) -> float:
    program = static.Program()
    with static.program_guard(program):
        x = static.data("x", [1], "float32")
        program.global_block().append_op(
            type="c_allreduce_sum", inputs={"X": x}, outputs={"Out": x}, attrs={"ring_id": ring}
        )
    feed = {"x": np.full([1], value, "float32")}
    return static.Executor(paddle.CPUPlace()).run(program, feed=feed, fetch_list=["x"])[0].item()


def totals(trainers: list[str]) -> list[float]:
    rank = training.my_rank()
    run(trainers, rank, nccl_comm_num=2, use_hierarchical_allreduce=True, hierarchical_allreduce_inter_nranks=2)
    rings = [0, 1, 2, 4] + ([3, 5] if rank % 2 == 0 else [])
    return [total(ring, 10.0**rank) for ring in rings]


def in_static_mode(trainers: list[str]) -> list[float]:
    return training.here(totals, trainers)


@pytest.mark.operators("gen_nccl_id")
def test_rings_of_hosts():
    pool = Pool(4, join=False)
    try:
        found = pool.run(in_static_mode, [f"127.0.0.1:{p}" for p in free(4)])
    finally:
        pool.close()
    for rank, sums in enumerate(found):
        inner = 11.0 if rank < 2 else 1100.0
        assert sums == [1111.0, 1111.0, inner, inner] + ([101.0, 101.0] if rank % 2 == 0 else [])


@pytest.mark.parametrize(
    ("attrs", "said"),
    [
        ({"trainer_id": 2}, r"trainer_id must be in \[0, 2\), got 2"),
        ({"trainer_id": -1}, "trainer_id must be in"),
        ({"nccl_comm_num": 0}, "nccl_comm_num must be in"),
        ({"use_hierarchical_allreduce": True}, "2 trainers cannot be divided into groups of .* = -1"),
        (
            {"use_hierarchical_allreduce": True, "hierarchical_allreduce_inter_nranks": 3},
            "2 trainers cannot be divided into groups of .* = 3",
        ),
        ({"trainers": ["nowhere", "127.0.0.1:1"]}, "an endpoint must be ip:port"),
    ],
)
def test_refused(attrs, said):
    with pytest.raises((ValueError, RuntimeError), match=f"operator gen_nccl_id: {said}"):
        training.here(lambda: run(**{"trainers": ["127.0.0.1:1", "127.0.0.1:2"], "rank": 0} | renamed(attrs)))


def renamed(attrs: dict) -> dict:
    return {("rank" if k == "trainer_id" else k): v for k, v in attrs.items()}
