"""Descriptions of servers' tables as text, under their path of 2.0.2.

The servers of this package do not read them: their tables are described by Programs (`fluid.DistributeTranspiler`).
"""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Table"]


class _Part(Protocol):
    def to_string(self, indent: int) -> str: ...


class Table:
    """A table: its id, class, number of shards, type, and optional sub-messages.

    Examples:
        >>> from paddle.distributed.fleet.runtime.the_one_ps import Table
        >>> table = Table()
        >>> table.id, table.table_class, table.shard_num, table.type = 3, "MemorySparseTable", 2, "PS_SPARSE_TABLE"
        >>> print(table.to_string(0))
          downpour_table_param {table_id: 3 table_class: "MemorySparseTable" shard_num: 2 type: PS_SPARSE_TABLE
        <BLANKLINE>
          }
    """

    def __init__(self) -> None:
        self.id = self.shard_num = -1
        self.table_class: str | None = None
        self.type: Any = None
        #: sub-messages; None is omitted
        self.accessor: _Part | None = None
        self.tensor: _Part | None = None
        self.common: _Part | None = None

    def to_string(self, indent: int) -> str:
        """The text of a protobuf message `downpour_table_param`, indented by `indent` + 2."""
        margin = " " * (indent + 2)
        fields = f'table_id: {self.id} table_class: "{self.table_class}" shard_num: {self.shard_num} type: {self.type}'
        parts = [part for part in (self.accessor, self.tensor, self.common) if part is not None]
        inside = "".join(f"{part.to_string(indent + 2)}\n" for part in parts)
        return f"{margin}downpour_table_param {{{fields}\n{inside}\n{margin}}}"
