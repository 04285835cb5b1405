"""memory_usage: an estimate of the memory of a Program's variables."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paddle._basics.dtypes import VarType, convert_dtype
from paddle._programs.program import Program

__all__ = ["memory_usage"]


def memory_usage(program: Any, batch_size: int) -> tuple[float, float, str]:
    """An estimate of the memory of the variables in a Program's first block (Paddle 2.0:
    paddle.fluid.contrib.memory_usage).

    Args:
        program (Program): the Program.
        batch_size (int): replaces the unknown size of each variable.

    Returns:
        tuple: lower bound, upper bound, and their unit: B, KB or MB.

    Raises:
        TypeError: if `program` is not a Program. ValueError: for a batch size below 1, or two unknown sizes.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> main = fluid.Program()
        >>> with fluid.program_guard(main, fluid.Program()):
        ...     y = fluid.layers.relu(fluid.data("x", [None, 100]))
        >>> low, high, unit = fluid.contrib.memory_usage(main, batch_size=10)
        >>> f"{low:.3f} to {high:.3f} {unit}"
        '4.102 to 4.297 KB'
    """
    if not isinstance(program, Program):
        raise TypeError(f"memory_usage needs a Program, got {type(program)}")
    if batch_size <= 0:
        raise ValueError(f"memory_usage: batch_size must be positive, got {batch_size}")
    block, total = program.global_block(), 0.0
    names = {name for op in block.ops for name in op.output_arg_names} - {"@EMPTY@"}
    for name in names:
        var = block.vars[name]
        if var.type != VarType.LOD_TENSOR:
            continue
        unknown = [n for n in var.shape if n < 0]
        if len(unknown) > 1:
            raise ValueError(f"memory_usage: variable {name} has more than one unknown size, shape {var.shape}")
        count = math.prod(n if n >= 0 else -n * batch_size for n in var.shape)
        total += count * np.dtype(convert_dtype(var.dtype)).itemsize
    unit = "B"
    for larger in ("KB", "MB"):
        if total > 1024:
            total, unit = total / 1024, larger
    # Additional memory is estimated as 5 to 10 percent.
    return total * 1.05, total * 1.1, unit
