"""fluid.layers.sequence_lod: operators on sequences (tensors with a LoD)."""

from __future__ import annotations

from collections.abc import Iterable

from paddle import _ops
from paddle._basics import unique_name
from paddle._basics.checks import check_type
from paddle._basics.dtypes import convert_np_dtype_to_dtype_
from paddle._basics.element_types import NUMERIC
from paddle._dispatch.append import named
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.static.nn import sequence
from paddle.static.nn.sequence import *  # noqa: F403

__all__ = [*sequence.__all__, "sequence_mask", "lod_reset", "lod_append"]


def sequence_mask(x, maxlen=None, dtype="int64", name=None):
    """A mask: 1 for the first ``x[i]`` of `maxlen` elements, then 0.

    Args:
        x (Variable): lengths, int32 or int64, of any shape.
        maxlen (int|Variable, optional): the last size of the result; default: the largest length.
        dtype (VarType|numpy type|str): the type of the result.
        name (str, optional): a name for the output.

    Returns:
        Variable: of shape x.shape + [maxlen], without a gradient.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> fluid.layers.sequence_mask(paddle.to_tensor([1, 3])).numpy().tolist()
        [[1, 0, 0], [1, 1, 1]]
    """
    out_dtype = convert_np_dtype_to_dtype_(dtype)
    if isinstance(maxlen, Variable):
        out = named(name, _ops.sequence_mask, x, maxlen, out_dtype=out_dtype)
    else:
        out = named(name, _ops.sequence_mask, x, maxlen=-1 if maxlen is None else maxlen, out_dtype=out_dtype)
    out.stop_gradient = True
    return out


def lod_reset(x, y=None, target_lod=None):
    """`x` with another LoD.

    Args:
        x (Variable): float32, float64, int32 or int64.
        y (Variable, optional): its LoD is used; without a LoD its elements (int32) are the offsets of one level.
        target_lod (list|tuple, optional): the offsets of one level, if `y` is None.

    Raises:
        ValueError: if both are None, or the offsets do not end at the first size of `x`.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x = fluid.data("x", [None, 1], lod_level=1)
        >>> fluid.layers.lod_reset(x, target_lod=[0, 4, 6]).lod_level
        1
    """
    check_variable_and_dtype(x, "x", NUMERIC, "lod_reset")
    if y is not None:
        check_type(y, "y", Variable, "lod_reset")
        return _ops.lod_reset(x, y)
    if target_lod is None:
        raise ValueError("lod_reset: y or target_lod must be given")
    return _ops.lod_reset(x, target_lod=list(target_lod))


def lod_append(x, level):
    """`x` with an additional, innermost LoD level.

    Args:
        x (Variable): float32, float64, int32 or int64.
        level (list|tuple|Variable): the offsets of the level; for a Variable its LoD, else its elements (int32).

    Raises:
        ValueError: for a missing argument.
    """
    if x is None:
        raise ValueError("lod_append: x can't be None")
    if not isinstance(level, (Iterable, Variable)):
        raise ValueError("lod_append: level must be a list, a tuple or a Variable")
    check_variable_and_dtype(x, "x", NUMERIC, "lod_append")
    helper_name = unique_name.generate("lod_append")
    if isinstance(level, Variable):
        return named(helper_name, _ops.lod_reset, x, level, append=True)
    return named(helper_name, _ops.lod_reset, x, target_lod=list(level), append=True)
