"""`fleet.HybridCommunicateGroup` on three processes: its groups, and collectives over them."""

from __future__ import annotations

import paddle
import paddle.distributed as dist
import pytest
from paddle.distributed import fleet


def facts(names, dims):
    group = fleet.HybridCommunicateGroup(fleet.CommunicateTopology(names, dims))
    total = paddle.to_tensor([float(dist.get_rank())])
    dist.all_reduce(total, group=group.get_data_parallel_group())
    stages = [group.next_rank, group.prev_rank] if group.get_pipe_parallel_world_size() > 1 else None
    return {
        "data": [group.get_data_parallel_rank(), group.get_data_parallel_world_size()],
        "ranks": group.get_data_parallel_group().ranks,
        "model": [group.get_model_parallel_rank(), group.get_model_parallel_group().ranks],
        "pipe": [group.get_stage_id(), group.get_pipe_parallel_group().ranks, stages],
        "ends": [group.is_first_stage, group.is_last_stage],
        "sum": total.tolist(),
        "mode": group.get_parallel_mode(),
        "check": [group.get_check_parallel_group().ranks, group.get_check_parallel_group(True).ranks],
        "source": [group.get_data_parallel_group_src_rank(), group.get_sharding_parallel_group_src_rank()],
        "fused": group.create_fuse_group(["data", "pipe"])[0],
        "stage": group.get_rank_from_stage(0),
    }


AXES = ["data", "pipe", "sharding", "model"]


def test_data_parallel(three):
    for rank, found in enumerate(three.run(facts, AXES, [3, 1, 1, 1])):
        assert found == {
            "data": [rank, 3],
            "ranks": [0, 1, 2],
            "model": [0, [rank]],
            "pipe": [0, [rank], None],
            "ends": [True, True],
            "sum": [3.0],
            "mode": dist.ParallelMode.DATA_PARALLEL,
            "check": [[rank], [0, 1, 2]],
            "source": [0, rank],
            "fused": [0, 1, 2],
            "stage": rank,
        }


def default_group():
    from paddle._later import topology

    topology._made.clear()
    group = fleet.get_hybrid_communicate_group()
    assert group is fleet.get_hybrid_communicate_group()
    return group.get_data_parallel_group().ranks, group.get_model_parallel_world_size()


def test_the_default_group(three):
    assert three.run(default_group) == [([0, 1, 2], 1)] * 3


def test_stages(three):
    for rank, found in enumerate(three.run(facts, AXES, [1, 3, 1, 1])):
        assert found["pipe"] == [rank, [0, 1, 2], [(rank + 1) % 3, (rank - 1) % 3]]
        assert found["ends"] == [rank == 0, rank == 2] and found["sum"] == [float(rank)] and found["stage"] == 0
        assert found["mode"] == dist.ParallelMode.PIPELINE_PARALLEL


@pytest.mark.parametrize(("axis", "mode"), [(2, "SHARDING"), (3, "TENSOR")])
def test_modes(three, axis, mode):
    dims = [1] * 4
    dims[axis] = 3
    for rank, found in enumerate(three.run(facts, AXES, dims)):
        assert found["mode"] == getattr(dist.ParallelMode, f"{mode}_PARALLEL") and found["ranks"] == [rank]


def test_a_single_process():
    group = fleet.HybridCommunicateGroup(fleet.CommunicateTopology())
    assert fleet.get_hybrid_communicate_group() is group
    assert group.get_parallel_mode() is None and group.get_sep_parallel_world_size() == 1
    wrong = [
        (lambda: group.get_sep_parallel_group(), ValueError, "no axis sep, or its size is 1"),
        (lambda: group.get_pp_mp_parallel_group(), ValueError, "no axis sep, or its size is 1"),
        (lambda: group.get_p2p_groups(), NotImplementedError, "pipelines of 2.6"),
        (lambda: group.create_fuse_group([]), ValueError, "must not be empty"),
        (lambda: group.topology().get_dim("rows"), ValueError, "no axis 'rows'; it has data, pipe"),
        (lambda: group.topology().get_rank(data=0), ValueError, "a number is needed for each of"),
        (lambda: group.topology().get_coord(1), ValueError, "rank must be from 0 to 0, got 1"),
        (lambda: fleet.CommunicateTopology(["data"], [0]), ValueError, r"got \[0\]"),
        (lambda: fleet.CommunicateTopology(["data"], [1, 2]), ValueError, r"got \[1, 2\]"),
        (
            lambda: fleet.HybridCommunicateGroup(fleet.CommunicateTopology(AXES, [2, 1, 1, 1])),
            ValueError,
            "the job has 1 ranks, the topology data 2, pipe 1",
        ),
        (
            lambda: fleet.HybridCommunicateGroup(fleet.CommunicateTopology(["data"], [1])),
            ValueError,
            r"must have the axes data, pipe, sharding, sep, model, got \['data'\]",
        ),
    ]
    for call, error, match in wrong:
        with pytest.raises(error, match=match):
            call()
