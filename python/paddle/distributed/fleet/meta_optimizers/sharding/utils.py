"""Utilities of sharded Programs: sizes, communication volume, clones for tests, saving."""

from __future__ import annotations

import math
import os
from collections import Counter
from typing import Any

from paddle._basics.dtypes import VarType
from paddle._programs.variable import Parameter, isinstance_of
from paddle.static.vars_io import save_persistables as save_all
from paddle.static.vars_io import save_vars

from ..common import OP_ROLE_KEY, OpRole

__all__: list[str] = []

_BYTES = {
    VarType.FP16: 2,
    VarType.FP32: 4,
    VarType.FP64: 8,
    VarType.INT16: 2,
    VarType.INT32: 4,
    VarType.INT64: 8,
    VarType.BOOL: 1,
    VarType.UINT8: 1,
}


def get_var_size(param: Any) -> float:
    """Megabytes of a variable."""
    assert -1 not in param.shape, f"sharding: the shape of {param.name} is not known: {list(param.shape)}"
    return math.prod(param.shape) * _BYTES[param.dtype] / 2**20


def comm_analyse(main_program: Any) -> None:
    """Prints the kilobytes that a Program broadcasts and sums, variable by variable, and how many of which size; the
    latter also to the file nccl_size.txt in the working directory."""
    block = main_program.global_block()
    sizes: Counter[int] = Counter()
    for kind in ("c_broadcast", "c_allreduce_sum"):
        for op in block.ops:
            if op.type == kind:
                name = op.input("X")[0]
                size = get_var_size(block.var(name)) * 1024
                print(f"{kind.removeprefix('c_').removesuffix('_sum')}: {name}: {size} KB")
                sizes[int(size)] += 1
    lines = [f"NCCL size {size}~{size + 1} KB: {count}\n" for size, count in sorted(sizes.items())]
    print("".join(lines), end="")
    with open("nccl_size.txt", "w") as f:
        f.writelines(lines)


def add_sync_comm(program: Any, dist_strategy: Any) -> None:
    """Appends to a clone for tests the synchronizations of broadcasts that were pruned with backward."""
    block = program.global_block()
    open_vars: dict[str, None] = {}
    for op in block.ops:
        if op.type in ("c_broadcast", "c_allreduce_sum"):
            open_vars.update(dict.fromkeys(op.input_arg_names))
        elif op.type == "c_sync_comm_stream":
            for name in op.input_arg_names:
                open_vars.pop(name, None)
    for ring in range(dist_strategy.nccl_comm_num if open_vars else 0):
        block.append_op(
            type="c_sync_comm_stream",
            inputs={"X": list(open_vars)},
            outputs={"Out": list(open_vars)},
            attrs={"ring_id": ring, OP_ROLE_KEY: OpRole.Forward},
        )


def save_persistables(exe: Any, dirname: str, main_program: Any, filename: str | None = None) -> None:
    """Saves what this rank holds: rank 0 all its variables, the others their parameters and states."""
    if int(os.environ.get("PADDLE_TRAINER_ID", 0)) == 0:
        save_all(exe, dirname, main_program=main_program, filename=None)
        return
    from_states = ("_moment1_0", "_moment2_0", "_beta1_pow_acc_0", "_beta2_pow_acc_0", "_velocity_0")

    def own(var: Any) -> bool:
        return (isinstance_of(var, Parameter) and var.trainable) or var.name.endswith(from_states)

    save_vars(exe, dirname, main_program=main_program, predicate=own, filename=None)
