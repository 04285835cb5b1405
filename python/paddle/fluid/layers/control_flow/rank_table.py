"""Operators on LoD rank tables (sequences sorted by length), from which DynamicRNN is built."""

from __future__ import annotations

from paddle import _ops
from paddle._basics import unique_name
from paddle._basics.checks import check_type
from paddle._basics.dtypes import VarType
from paddle._dispatch.append import named
from paddle._programs import guards
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.layer_helper import LayerHelper

__all__ = ["reorder_lod_tensor_by_rank"]


def _check(value, name: str, where: str) -> None:
    check_type(value, name, (Variable, list), where)
    for i, one in enumerate(value if isinstance(value, list) else ()):
        check_type(one, f"input[{i}]", Variable, where)


def _make(key: str, **properties):
    block = guards.default_main_program().current_block()
    return block.create_var(name=unique_name.generate(key), **properties)


def lod_rank_table(x, level=0):
    """A LOD_RANK_TABLE: the sequences of a LoD level of `x`, sorted by descending length.

    Args:
        x (Variable): with a LoD.
        level (int): which level.
    """
    _check(x, "x", "lod_rank_table")
    helper = LayerHelper("lod_rank_table")
    table = helper.create_variable(type=VarType.LOD_RANK_TABLE, name=unique_name.generate("lod_rank_table"))
    helper.append_op(type="lod_rank_table", inputs={"X": x}, outputs={"Out": table}, attrs={"level": level})
    return table


def max_sequence_len(rank_table):
    """The length of the longest sequence of a rank table, int64 of shape [1]."""
    # The misspelled operator name is that of 1.x.
    out = LayerHelper("max_seqence_len").create_variable_for_type_inference(dtype="int64")
    return _ops.max_sequence_len(rank_table, Out=out)


def lod_tensor_to_array(x, table):
    """An array whose tensor t holds step t of all sequences of at least t + 1 steps, in the order of the rank table.

    Args:
        x (Variable): with a LoD.
        table (Variable): a result of `lod_rank_table`.
    """
    _check(x, "x", "lod_tensor_to_array")
    _check(table, "table", "lod_tensor_to_array")
    unique_name.generate("lod_tensor_to_array")  # reserves the layer's name, as in 1.x
    array = _make("lod_tensor_to_array", type=VarType.LOD_TENSOR_ARRAY, dtype=x.dtype)
    return _ops.lod_tensor_to_array(x, table, Out=array)


def array_to_lod_tensor(x, table):
    """The inverse of `lod_tensor_to_array`: the sequences in their original order.

    Args:
        x (Variable): an array.
        table (Variable): a result of `lod_rank_table`.
    """
    _check(x, "x", "array_to_lod_tensor")
    _check(table, "table", "array_to_lod_tensor")
    return _ops.array_to_lod_tensor(x, table)


def shrink_memory(x, i, table):
    """The first rows of `x`: those of the sequences in the rank table that have a step `i`.

    Args:
        x (Variable): one row per sequence, in the order of the table.
        i (Variable): int64 of shape [1].
        table (Variable): a result of `lod_rank_table`.
    """
    check_type(x, "x", Variable, "shrink_memory")
    check_type(i, "i", Variable, "shrink_memory")
    check_type(table, "table", Variable, "shrink_memory")
    return named(unique_name.generate("shrink_memory"), _ops.shrink_rnn_memory, x, table, i)


def reorder_lod_tensor_by_rank(x, rank_table):
    """The sequences of `x` (its rows, if it has no LoD) in the order of a rank table.

    Args:
        x (Variable): with as many sequences as the table.
        rank_table (Variable): a result of `lod_rank_table`, of `x` or of another tensor.

    Raises:
        TypeError: if `rank_table` is not a rank table.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> from paddle.fluid.layers.control_flow import lod_rank_table
        >>> paddle.enable_static()
        >>> words = fluid.data("words", [None, 1], lod_level=1)
        >>> rows = fluid.data("rows", [None, 4])
        >>> fluid.layers.reorder_lod_tensor_by_rank(rows, lod_rank_table(words)).shape
        (-1, 4)
    """
    check_type(x, "x", Variable, "reorder_lod_tensor_by_rank")
    check_type(rank_table, "rank_table", Variable, "reorder_lod_tensor_by_rank")
    if rank_table.type != VarType.LOD_RANK_TABLE:
        raise TypeError("The type of rank_table should be LOD_RANK_TABLE.")
    return _ops.reorder_lod_tensor_by_rank(x, rank_table)


# ------------------------------------------------------------------------------------------------ branches


def split_lod_tensor(input, mask, level=0):  # noqa: A002
    """(rows or sequences of `input` where `mask` is True, the others).

    Args:
        input (Variable): any tensor.
        mask (Variable): bool of shape [rows, 1].
        level (int): the LoD level whose sequences are split.
    """
    check_type(input, "input", (Variable, list, tuple, type(None)), "fluid.layers.split_lod_tensor")
    check_type(mask, "mask", (Variable, list), "fluid.layers.split_lod_tensor")
    check_type(level, "level", int, "fluid.layers.split_lod_tensor")
    return _ops.split_lod_tensor(input, mask, level=level)


def merge_lod_tensor(in_true, in_false, x, mask, level=0):
    """The inverse of `split_lod_tensor`: row i is the next row of `in_true` if `mask` is True, else of `in_false`."""
    where = "fluid.layers.merge_lod_tensor"
    for name, value in (("x", x), ("in_true", in_true), ("in_false", in_false)):
        check_type(value, name, (Variable, list, tuple, type(None)), where)
    check_type(mask, "mask", (Variable, list), where)
    return _ops.merge_lod_tensor(x, mask, in_true, in_false, level=level)


def select_output(input, outputs, mask):  # noqa: A002
    """Writes `input` to the variable of `outputs` with the index `mask` (int32, one element)."""
    check_type(input, "input", Variable, "select_output")
    check_variable_and_dtype(mask, "mask", ["int32"], "select_output")
    check_type(outputs, "outputs", (list, tuple), "select_output")
    _ops.select_output(input, mask, Out=list(outputs))
    return outputs


def select_input(inputs, mask):
    """The variable of `inputs` with the index `mask` (int32, one element)."""
    check_type(inputs, "inputs", (list, tuple), "select_input")
    check_variable_and_dtype(mask, "mask", ["int32"], "select_input")
    first = inputs[0]
    helper = LayerHelper("select_input")
    out = helper.create_variable(
        name=unique_name.generate(helper.name + ".tmp"), dtype=first.dtype, shape=first.shape, type=first.type
    )
    helper.append_op(type="select_input", inputs={"X": list(inputs), "Mask": mask}, outputs={"Out": out})
    return out
