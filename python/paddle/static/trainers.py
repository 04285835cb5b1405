"""Data parallelism of a CompiledProgram over several processes (trainers): all-reduces of gradients over rings."""

from __future__ import annotations

from typing import Any

import paddle._core as core
from paddle._basics.dtypes import VarType
from paddle._basics.names import OP_ROLE, OpRole
from paddle._programs.program import Program

__all__: list[str] = []

#: with `BuildStrategy.sync_batch_norm`: operators, and those with statistics over all places and trainers
BATCH_NORM = {
    "batch_norm": "sync_batch_norm",
    "sync_batch_norm": "sync_batch_norm",
    "batch_norm_grad": "sync_batch_norm_grad",
    "sync_batch_norm_grad": "sync_batch_norm_grad",
}


def append(block, kind: str, inputs: dict[str, list[str]], outputs: dict[str, list[str]], **attrs: Any) -> Any:
    """Appends an operator to a BlockDesc."""
    op = block.append_op()
    op.set_type(kind)
    for slot, names in inputs.items():
        op.set_input(slot, names)
    for slot, names in outputs.items():
        op.set_output(slot, names)
    for name, value in {OP_ROLE: int(OpRole.Backward), **attrs}.items():
        op._set_attr(name, value)
    return op


def append_decoded(block, op, grad: str, encoded: list[str], ring: int) -> None:
    """Appends the sum of the gradients encoded by the operator `dgc` (`op`) on all ranks of a ring (-1: this one)."""
    inputs = {"X": [grad], "Encoded": encoded, "current_step": op.input("current_step")}
    begin = op.attr("rampup_begin_step")
    append(block, "dgc_allreduce", inputs, {"Out": [grad]}, ring_id=ring, rampup_begin_step=begin)


class Trainers:
    """The trainers of a BuildStrategy; the rings are those of `gen_nccl_id` (see its kernel).

    Args:
        strategy (BuildStrategy): `num_trainers`, `trainer_id`, and the number of rings.

    Raises:
        RuntimeError: before this process has joined the trainers.
        ValueError: for another rank or number than that of its group.
    """

    def __init__(self, strategy: Any) -> None:
        self.count, self.rank = strategy.num_trainers, strategy.trainer_id
        self._comms, self._turn = max(1, strategy.nccl_comm_num), 0
        self._inner = strategy.hierarchical_allreduce_inter_nranks if strategy.use_hierarchical_allreduce else 0
        if not 0 <= self.rank < self.count:
            raise ValueError(f"trainer_id must be in [0, {self.count}), got {self.rank}")
        try:
            world = core.dist.get_group(0)
        except ValueError as e:
            raise self._not_joined() from e
        if world.nranks == 1:
            raise self._not_joined()
        if (world.nranks, world.rank) != (self.count, self.rank):
            raise ValueError(
                f"num_trainers is {self.count} and trainer_id {self.rank}, but this process has joined as rank "
                f"{world.rank} of {world.nranks}"
            )
        if self._comms > 1 or self._inner:
            self._find_rings()

    def _not_joined(self) -> RuntimeError:
        return RuntimeError(
            f"num_trainers is {self.count}, but this process has not joined: first run the startup Program that "
            "DistributeTranspiler has rewritten (mode 'nccl2'), or call paddle.distributed.init_parallel_env"
        )

    def _find_rings(self) -> None:
        """Uses the rings of `gen_nccl_id`; without it a single ring."""
        try:
            for ring in range(self._comms):
                core.dist.get_group(ring)
            if self._inner:
                core.dist.get_group(self._comms)
        except ValueError:
            self._comms, self._inner = 1, 0

    def append_sum(self, block, name: str) -> None:
        """Appends the in-place sum of a gradient over the trainers; rings are used round robin."""
        comm = self.next_ring()
        slots = {"X": [name]}, {"Out": [name]}
        var = block.find_var_recursive(name)
        # SelectedRows are gathered: a hierarchy would not reduce the data.
        if not self._inner or (var is not None and var.type() == VarType.SELECTED_ROWS):
            append(block, "c_allreduce_sum", *slots, ring_id=comm, use_calc_stream=True)
            return
        within, across = self._comms + 2 * comm, self._comms + 2 * comm + 1
        append(block, "c_reduce_sum", *slots, ring_id=within, root_id=0, use_calc_stream=True)
        if self.rank % self._inner == 0:
            append(block, "c_allreduce_sum", *slots, ring_id=across, use_calc_stream=True)
        append(block, "c_broadcast", *slots, ring_id=within, root=0, use_calc_stream=True)

    def next_ring(self) -> int:
        """The ring of the next exchange."""
        self._turn += 1
        return (self._turn - 1) % self._comms

    def share(self, executor: Any, program: Program, scope: Any) -> None:
        """Broadcasts trainer 0's values of the Program's initialized persistable tensors."""
        shared = Program()
        block = shared.desc.block(0)
        for var in sorted(program.list_vars(), key=lambda v: v.name):
            if not var.persistable or var.type != VarType.LOD_TENSOR:
                continue
            found = scope.find_var(var.name)
            if found is None or not found.get_tensor()._is_initialized():
                continue
            declared = block.var(var.name)
            declared.set_type(VarType.LOD_TENSOR)
            declared.set_persistable(True)
            slots = {"X": [var.name]}, {"Out": [var.name]}
            append(block, "c_broadcast", *slots, ring_id=0, root=0, use_calc_stream=True)
        shared.desc.flush()
        executor.run(shared.desc, scope, [], [], [], None)
