"""fluid.one_hot and fluid.embedding, for ids of any shape."""

from __future__ import annotations

from paddle import _ops
from paddle._basics import mode
from paddle._basics.checks import check_type
from paddle._basics.element_types import INDICES
from paddle._basics.mode import in_static_mode
from paddle._dispatch.arguments import number
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.static.nn.common import embedding
from paddle.utils.deprecated import deprecated

__all__ = ["one_hot", "embedding"]


@deprecated(update_to="paddle.nn.functional.one_hot", since="2.0.0")
def one_hot(input, depth, allow_out_of_range=False):  # noqa: A002
    """One-hot encoding: a float32 row for each id, one at its position and zeros elsewhere.

    Args:
        input (Variable): int32 or int64 ids of any shape.
        depth (int|Variable): the length of a row; an int32 tensor of shape [1] is accepted.
        allow_out_of_range (bool): ids not below `depth` give rows of zeros instead of an error.

    Returns:
        Variable: input.shape + [depth].
    """
    return one_hot_rows("one_hot_v2", input, depth, allow_out_of_range)


def one_hot_rows(op_type, ids, depth, allow_out_of_range):
    """One-hot rows, by the operator `op_type` (one_hot or one_hot_v2)."""
    check_variable_and_dtype(ids, "input", INDICES, op_type)
    check_type(depth, "depth", (int, Variable), op_type)
    op = getattr(_ops, op_type)
    if isinstance(depth, Variable) and in_static_mode():
        depth.stop_gradient = True
        out = op(ids, depth, allow_out_of_range=allow_out_of_range)
    else:
        out = op(ids, depth=int(number(depth)), allow_out_of_range=allow_out_of_range)
    out.stop_gradient = True
    return out
