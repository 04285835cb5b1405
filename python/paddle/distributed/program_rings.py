"""Operators that create the rings of a Program and broadcast rank 0's parameters, and predicates on operators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import paddle._core as _core
from paddle._basics import unique_name
from paddle._basics.names import OP_ROLE, OpRole

from . import mpi, nccl
from .checkport import wait_server_ready
from .parallel import watch_the_end

__all__: list[str] = []


def is_update(op: Any) -> bool:
    """Whether an operator updates a parameter by its gradient."""
    return all(slot in op.input_names for slot in ("Param", "Grad", "LearningRate"))


def is_loss_grad(op: Any) -> bool:
    """Whether an operator creates the gradient of the loss, where backward starts."""
    return op._has_role(OpRole.Backward) and op._has_role(OpRole.Loss)


def _prepare_process() -> None:
    """Selects the transport and installs exit handlers, before the first ring."""
    mpi.begin()
    nccl.begin()
    watch_the_end()


def append_ring(
    program: Any,
    endpoint: str,
    endpoints: list[str],
    rank: int,
    ring: int,
    wait_port: bool,
    role: OpRole = OpRole.Forward,
) -> None:
    """Appends the creation of the ring `ring`, in which this process is `rank` of `endpoints`.

    With `wait_port` rank 0 returns once the others listen.
    """
    _prepare_process()
    others = [e for e in endpoints if e != endpoint]
    if rank == 0 and wait_port:
        wait_server_ready(others)
    block = program.global_block()
    made = block.create_var(name=unique_name.generate("nccl_id"), persistable=True, type=_core.VarDesc.VarType.RAW)
    block.append_op(
        type="c_gen_nccl_id",
        inputs={},
        outputs={"Out": made},
        attrs={"rank": rank, "endpoint": endpoint, "other_endpoints": others, OP_ROLE: role},
    )
    block.append_op(
        type="c_comm_init",
        inputs={"X": made},
        outputs={},
        attrs={"nranks": len(endpoints), "rank": rank, "ring_id": ring, OP_ROLE: role},
    )


def append_world(program: Any, endpoints: list[str], rank: int, how: Any) -> Any:
    """Appends the creation of the rings of all `endpoints`, in which this process is `rank`.

    `how`, a BuildStrategy or a DistributeTranspilerConfig, has their number. Returns the variable of the first ring.
    """
    _prepare_process()
    names = ["NCCLID", *(f"NCCLID_{i}" for i in range(1, how.nccl_comm_num))]
    if how.use_hierarchical_allreduce:
        names += [f"Hierarchical_{side}_NCCLID_{i}" for i in range(how.nccl_comm_num) for side in ("inter", "exter")]
    block = program.global_block()
    made = [block.create_var(name=name, persistable=True, type=_core.VarDesc.VarType.RAW) for name in names]
    block.append_op(
        type="gen_nccl_id",
        inputs={},
        outputs={"NCCLID": made[0]},
        attrs={
            "trainers": endpoints,
            "trainer_id": rank,
            "nccl_comm_num": how.nccl_comm_num,
            "use_hierarchical_allreduce": how.use_hierarchical_allreduce,
            "hierarchical_allreduce_inter_nranks": how.hierarchical_allreduce_inter_nranks,
        },
    )
    return made[0]


def append_broadcasts(block: Any, parameters: Iterable[Any], rings: int, role: OpRole = OpRole.Forward) -> None:
    """Appends broadcasts of rank 0's parameters, except distributed ones, over the rings round robin."""
    last = None
    for number, last in enumerate(p for p in parameters if not p.is_distributed):
        block.append_op(
            type="c_broadcast",
            inputs={"X": last},
            outputs={"Out": last},
            attrs={"ring_id": number % rings, "root": 0, OP_ROLE: role},
        )
    if last is not None:
        append_syncs(block, last, rings, role)


def append_syncs(block: Any, var: Any, rings: int, role: OpRole, at: int | None = None) -> None:
    """Appends, or inserts from index `at` on, synchronizations of all rings."""
    for ring in range(rings):
        how: dict[str, Any] = {
            "type": "c_sync_comm_stream",
            "inputs": {"X": var},
            "outputs": {"Out": var},
            "attrs": {"ring_id": ring, OP_ROLE: role},
        }
        if at is None:
            block.append_op(**how)
        else:
            block._insert_op(at + ring, **how)
