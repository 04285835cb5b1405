"""memory_usage: about how much memory a Program's variables need."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paddle._basics.dtypes import VarType, convert_dtype
from paddle._programs.program import Program

__all__ = ["memory_usage"]


def memory_usage(program: Any, batch_size: int) -> tuple[float, float, str]:
    """About how much memory the variables take that a Program's first block makes (Paddle 2.0:
    paddle.fluid.contrib.memory_usage).

    Args:
        program (Program): what is counted.
        batch_size (int): stands for the size that is not known of each variable.

    Returns:
        tuple: the least and the most, and their unit, B, KB or MB.

    Raises:
        TypeError: for what is no Program. ValueError: for a batch size below 1, or variables with two unknown sizes.

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
    # What is needed besides is 5 to 10 percent.
    return total * 1.05, total * 1.1, unit
