"""Shard: the partition of parameters and optimizer states over ranks."""

from __future__ import annotations

from typing import Any

from paddle._basics.dtypes import VarType

from ..common import is_optimizer_op
from .utils import get_var_size

__all__: list[str] = []

#: suffixes that optimizers append to a parameter's name for their states
_STATES = ("_moment1_0", "_moment2_0", "_beta1_pow_acc_0", "_beta2_pow_acc_0", "_velocity_0")
#: the rank of a variable that every rank has
ALL_RANKS = -1


def is_fp16_cast_op(block: Any, op: Any, params: Any) -> bool:
    """Whether an operator of forward or backward casts one of `params` to float16."""
    if op.type != "cast" or is_optimizer_op(op) or op.input("X")[0] not in params:
        return False
    return block.var(op.input("X")[0]).dtype == VarType.FP32 and block.var(op.output("Out")[0]).dtype == VarType.FP16


class Shard:
    """Assigns consecutive parameters to each rank, about the same number of bytes to each."""

    def __init__(self) -> None:
        self.global_params: set[str] = set()
        self.worker_idx = self.worker_num = -1
        #: parameter, in either type -> rank
        self.global_param2device: dict[str, int] = {}

    def setup(self, params_grads: list[tuple[Any, Any]], worker_idx: int, worker_num: int) -> None:
        """Assigns the parameters of the pairs."""
        sizes = {param.name: get_var_size(param) for param, _ in params_grads}
        self.global_params = set(sizes)
        self.worker_idx, self.worker_num = worker_idx, worker_num
        whole, before, rank = sum(sizes.values()), 0.0, 0
        for name, size in sizes.items():
            if before > whole * (rank + 1) / worker_num:
                rank += 1
            self.global_param2device[name] = rank
            before += size

    def device(self, name: str) -> int:
        """The rank that holds a variable, ALL_RANKS for a variable that is neither a parameter nor a state."""
        found = self.global_param2device.get(name)
        if found is not None:
            return found
        for state in _STATES:
            if name.endswith(state) and name.removesuffix(state) in self.global_param2device:
                return self.global_param2device[name.removesuffix(state)]
        return ALL_RANKS

    def has_param(self, name: str) -> bool:
        """Whether this rank holds the parameter."""
        return self.global_param2device.get(name) == self.worker_idx

    def has_opt_var(self, name: str) -> bool:
        """Whether this rank alone holds the variable."""
        return self.device(name) == self.worker_idx

    def has_var(self, name: str) -> bool:
        """Whether this rank has the variable."""
        return self.device(name) in (ALL_RANKS, self.worker_idx)

    def is_param(self, name: str) -> bool:
        """Whether this is a partitioned parameter."""
        return name in self.global_params

    def is_opti_var(self, name: str) -> bool:
        """Whether this is a partitioned parameter or a state of one."""
        return name in self.global_params or (self.device(name) != ALL_RANKS and any(map(name.endswith, _STATES)))

    def filter_grads(self, grads: list[str]) -> list[str]:
        """The gradients of parameters that this rank holds."""
        return [g for g in grads if self.has_param(g.split("@")[0])]

    def find_broadcast_params(self, block: Any) -> set[str]:
        """The variables that ranks need from each other for backward: parameters, or their float16 casts."""
        uses = dict.fromkeys(self.global_params, 0)
        for op in block.ops:
            if not is_optimizer_op(op):
                for name in op.input_arg_names:
                    if name in uses:
                        uses[name] += 1
        needed = set()
        for op in block.ops:
            if is_fp16_cast_op(block, op, self.global_params):
                source, half = op.input("X")[0], op.output("Out")[0]
                needed.add(half)
                uses[source] -= 1
                self.global_param2device[half] = self.global_param2device[source]
        return needed | {name for name, count in uses.items() if count > 0}
