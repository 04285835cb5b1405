"""Utilities that find and remove operators of a block."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["delete_ops", "find_op_by_input_arg", "find_op_by_output_arg"]


def delete_ops(block: Any, ops: Iterable[Any]) -> None:
    """Removes these operators; operators that are not in the block are ignored."""
    for op in ops:
        for index, there in enumerate(block.ops):
            if there is op:
                block._remove_op(index)
                break


def find_op_by_input_arg(block: Any, arg_name: str) -> int:
    """The index of the first operator that reads `arg_name`, or -1."""
    return next((i for i, op in enumerate(block.ops) if arg_name in op.input_arg_names), -1)


def find_op_by_output_arg(block: Any, arg_name: str, reverse: bool = False) -> int:
    """The index of the first operator (the last with `reverse`) that writes `arg_name`, or -1."""
    found = [i for i, op in enumerate(block.ops) if arg_name in op.output_arg_names]
    return found[-1 if reverse else 0] if found else -1
