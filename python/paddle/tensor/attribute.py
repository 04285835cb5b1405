"""Shape and rank as Tensors."""
from __future__ import annotations

from paddle import _core, _ops
from paddle.framework.checks import check_type, check_variable_and_dtype
from paddle.framework.variable import Variable

__all__ = ["shape", "rank"]


def shape(input):  # noqa: A002
    """The sizes of `input` as an int32 Tensor.

    Examples:
        >>> import paddle
        >>> paddle.shape(paddle.ones([2, 3])).numpy().tolist()
        [2, 3]
    """
    if _core.in_static_mode():
        check_variable_and_dtype(
            input, "input", ["bool", "float16", "float32", "float64", "int32", "int64"], "shape"
        )
    out = _ops.shape(input)
    out.stop_gradient = True
    return out


def rank(input):  # noqa: A002
    """The number of dimensions as an int32 Tensor of shape [1]."""
    check_type(input, "input", Variable, "input")
    return _ops.fill_constant(shape=[1], dtype=2, value=float(len(input.shape)))
