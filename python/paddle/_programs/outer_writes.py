"""Writes of a StaticRNN's step to variables outside of it. They have no versions: their gradients are refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import paddle._core as core

from .backward_path import _takes_gradient
from .operator import created_at

__all__: list[str] = []


def _ops_of(block: Any) -> Iterator[tuple[Any, Any]]:
    """(block, operator) of a block and of the blocks below it."""
    for op in block.ops:
        if op.has_attr("sub_block"):
            yield from _ops_of(block.program.block(op._block_attr_id("sub_block")))
        else:
            yield block, op


def _is_outside(name: str, block: Any, step: Any) -> bool:
    """Whether the variable that `block`, in `step` or below it, calls `name` is declared outside of `step`."""
    while True:
        if block.desc.find_var(name) is not None:
            return False
        if block.idx == step.idx:
            return True
        block = block.program.block(block.parent_idx)


def refuse_outer_writes(rnn: Any) -> None:
    """Raise EnforceNotMet if the step of the operator `recurrent` writes an outer variable that takes a gradient and
    that another operator reads.
    """
    program = rnn.block.program
    step = program.block(rnn._block_attr_id("sub_block"))
    for block, writer in _ops_of(step):
        for name in writer.desc.output_arg_names():
            if not _is_outside(name, block, step) or not _takes_gradient(block, name):
                continue
            if program.block(0)._find_var_recursive(name) is None and step._find_var_recursive(name) is None:
                continue  # no variable of the Program: an absent output
            for _, reader in _ops_of(program.global_block()):
                if name in reader.desc.input_arg_names():
                    raise core.EnforceNotMet(
                        f"(Unimplemented) append_backward: the step of a StaticRNN replaces variable '{name}' of the "
                        f"block around it (operator {writer.type}{created_at(writer)}), and operator {reader.type} "
                        f"reads it{created_at(reader)}: the gradient would be wrong. Pass the value from step to step "
                        f"with memory() and update_memory(), and out of the steps with step_output()"
                    )
