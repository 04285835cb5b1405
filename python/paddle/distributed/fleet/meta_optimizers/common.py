"""Helpers of the strategies: roles of operators, the scale of the loss gradient, rings in a startup Program."""

from __future__ import annotations

from typing import Any

from paddle._basics.names import OP_ROLE as OP_ROLE_KEY
from paddle._basics.names import OP_ROLE_VAR as OP_ROLE_VAR_KEY
from paddle._basics.names import OpRole
from paddle._programs.guards import default_startup_program
from paddle.distributed.program_rings import append_broadcasts, append_ring
from paddle.distributed.program_rings import is_loss_grad as is_loss_grad_op
from paddle.distributed.program_rings import is_update as is_update_op

__all__ = ["OP_ROLE_KEY", "OP_ROLE_VAR_KEY", "CollectiveHelper", "OpRole", "is_update_op"]


def _role(op: Any) -> int:
    return int(op.attr(OP_ROLE_KEY)) if op.has_attr(OP_ROLE_KEY) else 0


def is_backward_op(op: Any) -> bool:
    """Whether an operator is part of backward."""
    return bool(_role(op) & OpRole.Backward)


def is_optimizer_op(op: Any) -> bool:
    """Whether an operator is part of the update."""
    return bool(_role(op) & OpRole.Optimize)


def role_vars(op: Any) -> list[tuple[str, str]]:
    """The pairs (parameter, gradient) in the role attribute of a backward operator."""
    if not is_backward_op(op) or not op.has_attr(OP_ROLE_VAR_KEY):
        return []
    names = op.attr(OP_ROLE_VAR_KEY)
    return list(zip(names[::2], names[1::2], strict=True))


def scale_loss_grad(block: Any, scale: float, insert: Any = None, **attrs: Any) -> None:
    """Scales the loss gradient, so that a sum of gradients over workers is their mean."""
    insert = insert or block._insert_op
    for at, op in reversed(list(enumerate(block.ops))):
        if is_loss_grad_op(op):
            grad = block.vars[op.output_arg_names[0]]
            attrs = {"scale": scale, OP_ROLE_KEY: OpRole.Backward, **attrs}
            insert(at + 1, type="scale", inputs={"X": grad}, outputs={"Out": grad}, attrs=attrs)


class CollectiveHelper:
    """The rings of all workers in a startup program.

    Args:
        role_maker (RoleMakerBase): the workers. nrings (int): how many rings. wait_port: not read, kept for callers of
            2.0.2; the operators wait for the other workers.
    """

    def __init__(self, role_maker: Any, nrings: int = 1, wait_port: Any = "6174") -> None:
        self.nrings = nrings
        self.wait_port = wait_port
        self.role_maker = role_maker

    def update_startup_program(self, startup_program: Any = None) -> None:
        """Appends the rings, and broadcasts of the first worker's parameters."""
        self.startup_program = startup_program or default_startup_program()
        endpoints, rank = self.role_maker._get_trainer_endpoints(), self.role_maker._worker_index()
        for ring_id in range(self.nrings):
            append_ring(self.startup_program, endpoints[rank], endpoints, rank, ring_id, False)
        block = self.startup_program.global_block()
        append_broadcasts(block, block.all_parameters(), self.nrings)
