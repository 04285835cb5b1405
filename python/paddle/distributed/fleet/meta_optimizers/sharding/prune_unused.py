"""Pruning of the update of a sharded Program: operators of other ranks' parameters are removed."""

from __future__ import annotations

from typing import Any

from paddle._basics.dtypes import VarType
from paddle._basics.names import OP_NAMESCOPE, strip_grad_suffix

from ..common import OP_ROLE_KEY, OP_ROLE_VAR_KEY, OpRole, is_optimizer_op
from .shard import Shard

__all__: list[str] = []

_SCALING = ("check_finite_and_unscale", "update_loss_scaling")


def _under(op: Any, scope: str) -> bool:
    return op.has_attr(OP_NAMESCOPE) and op.attr(OP_NAMESCOPE).startswith(scope)


class UnusedPruner:
    """Prunes a block to the update of this rank's parameters.

    Args:
        block (Block): with backward, collectives and update. shard (Shard): the partition of parameters.
        ring (int): of the ranks that share the parameters. reduced (dict): summed gradients, to their parameters.
    """

    def __init__(self, block: Any, shard: Shard, ring: int, reduced: dict[str, str]) -> None:
        self.block, self.shard, self.ring, self.reduced = block, shard, ring, reduced

    def prune(self) -> None:
        """Removes decay, casts, checks, clipping and updates of other ranks' parameters."""
        self._decay()
        self._casts()
        self._scaling()
        self._clipping()
        self._updates()
        self.block._sync_with_cpp()

    def _remove(self, at: int) -> None:
        self.block._remove_op(at, sync=False)

    def _backwards(self) -> list[tuple[int, Any]]:
        return list(reversed(list(enumerate(self.block.ops))))

    def _foreign_grad(self, name: str) -> bool:
        """Whether this is the gradient of another rank's parameter."""
        param = strip_grad_suffix(name)
        return name != param and self.shard.is_param(param) and not self.shard.has_param(param)

    def _decay(self) -> None:
        for at, op in self._backwards():
            if _under(op, "/regularization") and not self.shard.has_param(op.attr(OP_ROLE_VAR_KEY)[0]):
                self._remove(at)

    def _casts(self) -> None:
        for at, op in self._backwards():
            if op.type != "cast" or not is_optimizer_op(op):
                continue
            made = op.output("Out")[0]
            if self.block.var(made).dtype == VarType.FP32 and made not in self.reduced and self._foreign_grad(made):
                self._remove(at)
                self.block._remove_var(made, sync=False)

    def _scaling(self) -> None:
        """Each rank checks its own gradients; the flag of non-finite values is shared by all ranks."""
        for at, op in self._backwards():
            if op.type not in _SCALING:
                continue
            kept = [name for name in op.input("X") if not self._foreign_grad(name)]
            op.desc.set_input("X", kept)
            op.desc.set_output("Out", kept)
            if op.type == "update_loss_scaling":
                self._share_flag(at, op)

    def _share_flag(self, at: int, op: Any) -> None:
        block, name = self.block, op.input("FoundInfinite")[0]
        flag = block.var(name)
        number = block.create_var(name=name + "@cast_int32", shape=flag.shape, dtype=VarType.INT32)
        joint = block.create_var(name=name + "@sharding", shape=flag.shape, dtype=flag.dtype)
        op._rename_input(name, joint.name)
        steps = [
            ("cast", flag, number, {"in_dtype": flag.dtype, "out_dtype": number.dtype}),
            ("c_sync_calc_stream", number, number, {}),
            ("c_allreduce_max", number, number, {"ring_id": self.ring}),
            ("c_sync_comm_stream", number, number, {"ring_id": self.ring}),
            ("cast", number, joint, {"in_dtype": number.dtype, "out_dtype": joint.dtype}),
        ]
        self._insert(at, steps)

    def _insert(self, at: int, steps: list[tuple[str, Any, Any, dict[str, Any]]]) -> None:
        for kind, x, out, attrs in reversed(steps):
            attrs = {**attrs, OP_ROLE_KEY: OpRole.Optimize}
            self.block._insert_op_without_sync(at, type=kind, inputs={"X": x}, outputs={"Out": out}, attrs=attrs)

    def _clipping(self) -> None:
        """Each rank sums the squares of its own gradients; an all-reduce completes the norm."""
        gone: set[str] = set()
        dropped = []
        for at, op in enumerate(self.block.ops):
            if not _under(op, "/gradient_clip") or op.type == "sum":
                continue
            if any(name in gone or self._foreign_grad(name) for name in op.input_arg_names):
                dropped.append(at)
                gone.update(op.output_arg_names)
        if not gone:
            return
        for at, op in self._backwards():
            if at in dropped:
                self._remove(at)
            elif op.type == "sum" and _under(op, "/gradient_clip"):
                op.desc.set_input("X", [name for name in op.input("X") if name not in gone])
                total = op.output("Out")[0]
                self._insert(
                    at + 1,
                    [
                        ("c_sync_calc_stream", total, total, {}),
                        ("c_allreduce_sum", total, total, {"ring_id": self.ring}),
                        ("c_sync_comm_stream", total, total, {"ring_id": self.ring}),
                    ],
                )
        for name in gone:
            if name in self.block.vars:
                self.block._remove_var(name, sync=False)

    def _updates(self) -> None:
        """Removes the updates of other ranks' parameters, and operators whose results only they read."""
        block, shard = self.block, self.shard
        foreign = {n for n in block.vars if shard.is_opti_var(n) and not shard.has_opt_var(n)}
        uses: dict[str, int] = {}
        for op in block.ops:
            for name in set(op.input_arg_names):
                uses[name] = uses.get(name, 0) + 1
        for at, op in self._backwards():
            if not is_optimizer_op(op) or op.type.startswith("c_"):
                continue
            made = set(op.output_arg_names)
            if not all(n in foreign or (not uses.get(n) and not block.var(n).persistable) for n in made):
                continue
            for name in set(op.input_arg_names):
                uses[name] -= 1
            self._remove(at)
        read = {n for op in block.ops for n in (*op.input_arg_names, *op.output_arg_names)}
        for name in foreign - read:
            block._remove_var(name, sync=False)


def prune_startup(block: Any, shard: Shard) -> None:
    """Removes from a startup block the initialization of other ranks' parameters and states."""
    for at, op in reversed(list(enumerate(block.ops))):
        if any(not shard.has_var(name) for name in op.output_arg_names):
            block._remove_op(at, sync=False)
    for name in [n for n in block.vars if not shard.has_var(n)]:
        block._remove_var(name, sync=False)
    block._sync_with_cpp()
