"""op_freq_statistic: frequencies of operators, and of pairs of them, in a Program."""

from __future__ import annotations

from collections import Counter
from typing import Any

from paddle._programs.program import Program

__all__ = ["op_freq_statistic"]


def op_freq_statistic(program: Any) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """The number of occurrences of each operator in a Program's first block, and of each pair of an operator and one
    that reads its result (Paddle 2.0: paddle.fluid.contrib.op_freq_statistic).

    Args:
        program (Program): the Program.

    Returns:
        tuple: lists of (operator, count) and ("producer->consumer", count), the most frequent first.

    Raises:
        TypeError: if `program` is not a Program.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> main = fluid.Program()
        >>> with fluid.program_guard(main, fluid.Program()):
        ...     y = fluid.layers.relu(fluid.layers.relu(fluid.data("x", [None, 100])))
        >>> fluid.contrib.op_freq_statistic(main)
        ([('relu', 2)], [('relu->relu', 1)])
    """
    if not isinstance(program, Program):
        raise TypeError(f"op_freq_statistic needs a Program, got {type(program)}")
    parameters = {p.name for p in program.global_block().all_parameters()}
    single: Counter[str] = Counter()
    pairs: Counter[str] = Counter()
    made_by: dict[str, str] = {}
    for op in program.global_block().ops:
        if set(op.output_arg_names) - parameters:
            single[op.type] += 1
        for name in op.input_arg_names:
            if name not in parameters and name in made_by:
                pairs[f"{made_by[name]}->{op.type}"] += 1
        made_by |= dict.fromkeys(op.output_arg_names, op.type)
    return single.most_common(), pairs.most_common()
