"""paddle.fluid.distribute_lookup_table."""

from paddle.distributed.ps.lookup_tables import (
    LOOKUP_TABLE_TYPE,
    find_distributed_lookup_table,
    find_distributed_lookup_table_inputs,
    find_distributed_lookup_table_outputs,
)

__all__ = [
    "LOOKUP_TABLE_TYPE",
    "find_distributed_lookup_table",
    "find_distributed_lookup_table_inputs",
    "find_distributed_lookup_table_outputs",
]
