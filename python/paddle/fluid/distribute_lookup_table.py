"""Finding the distributed lookup table of a Program (one at most)."""

from __future__ import annotations

from typing import Any

__all__ = [
    "LOOKUP_TABLE_TYPE",
    "find_distributed_lookup_table",
    "find_distributed_lookup_table_inputs",
    "find_distributed_lookup_table_outputs",
]

LOOKUP_TABLE_TYPE = "lookup_table"


def _variables(program: Any, table_name: str, args: Any) -> list[Any]:
    local = program.current_block().vars
    ops = (op for op in program.global_block().ops if op.type == LOOKUP_TABLE_TYPE and op.input("W")[0] == table_name)
    return [local[name] for op in ops for name in args(op)]


def find_distributed_lookup_table_inputs(program, table_name):
    """The Variables of ids that are looked up in the table."""
    return _variables(program, table_name, lambda op: op.input("Ids"))


def find_distributed_lookup_table_outputs(program, table_name):
    """The Variables that hold what was looked up in the table."""
    return _variables(program, table_name, lambda op: op.output("Out"))


def find_distributed_lookup_table(program):
    """The name of the parameter that is looked up with ``is_distributed=True``, or None.

    Raises:
        RuntimeError: if there are several, or one table is looked up both ways.
    """
    distributed: set[str] = set()
    local: set[str] = set()
    for op in program.global_block().ops:
        if op.type == LOOKUP_TABLE_TYPE:
            (distributed if op.attr("is_distributed") is True else local).add(op.input("W")[0])
    if len(distributed) > 1:
        raise RuntimeError(f"a Program can have one distributed lookup table, got {', '.join(sorted(distributed))}")
    if distributed & local:
        raise RuntimeError(f"the table {distributed.pop()} is looked up with is_distributed and without")
    return next(iter(distributed), None)
