"""fluid.layers.control_flow: loops, branches, recurrent blocks, tensor arrays and comparisons."""

from paddle.static.conditional import ConditionalBlock, Switch, case, cond, switch_case
from paddle.static.loops import (
    BlockGuard,
    While,
    assign_skip_lod_tensor_array,
    get_inputs_outputs_in_block,
    while_loop,
)
from paddle.static.pyfunc import Print
from paddle.tensor.array import array_length, array_read, array_write

from .common import (
    Assert,
    create_array,
    equal,
    greater_equal,
    greater_than,
    increment,
    is_empty,
    less_equal,
    less_than,
    not_equal,
)
from .if_else import IfElse
from .rank_table import (
    array_to_lod_tensor,
    lod_rank_table,
    lod_tensor_to_array,
    max_sequence_len,
    merge_lod_tensor,
    reorder_lod_tensor_by_rank,
    select_input,
    select_output,
    shrink_memory,
    split_lod_tensor,
)
from .recurrent import BlockGuardWithCompletion, DynamicRNN, StaticRNN, StaticRNNMemoryLink

__all__ = [
    "While",
    "Switch",
    "IfElse",
    "increment",
    "array_write",
    "create_array",
    "less_than",
    "less_equal",
    "greater_than",
    "greater_equal",
    "equal",
    "not_equal",
    "is_empty",
    "array_read",
    "array_length",
    "cond",
    "case",
    "switch_case",
    "while_loop",
    "Print",
    "Assert",
    "StaticRNN",
    "DynamicRNN",
    "reorder_lod_tensor_by_rank",
]
