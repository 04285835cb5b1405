"""Products and transposes."""
from __future__ import annotations

import paddle._core as _core
from paddle import _ops
from paddle._basics.checks import check_type
from paddle._basics.shapes import check_permutation
from paddle._core import Tensor
from paddle._dispatch.append import named
from paddle._programs.variable_checks import check_variable_and_dtype

_static = _core.in_static_mode

__all__ = ["matmul", "mm", "t", "transpose"]


def matmul(x, y, transpose_x=False, transpose_y=False, name=None) -> Tensor:
    """The matrix product; leading dimensions are broadcast, a vector counts as a row (left) or column (right).

    Args:
        x, y (Tensor): float32 or float64, at least one dimension.
        transpose_x, transpose_y (bool): swap the last two dimensions first.

    Raises:
        ValueError: for sizes that do not fit.

    Examples:
        >>> import paddle
        >>> paddle.matmul(paddle.ones([2, 3]), paddle.ones([3, 4])).shape
        [2, 4]
    """
    if _static():
        for v, what in ((x, "x"), (y, "y")):
            check_variable_and_dtype(v, what, ["float16", "float32", "float64"], "matmul")
        return named(name, _ops.matmul_v2, x, y, trans_x=transpose_x, trans_y=transpose_y)
    if transpose_x or transpose_y:
        return _ops.matmul_v2(x, y, trans_x=transpose_x, trans_y=transpose_y)
    return _ops.matmul_v2(x, y)


def mm(input, mat2, name=None) -> Tensor:  # noqa: A002
    """The matrix product without options; see `matmul`."""
    if _static():
        for v, what in ((input, "input"), (mat2, "mat2")):
            check_variable_and_dtype(v, what, ["float16", "float32", "float64"], "mm")
        a, b = list(input.shape), list(mat2.shape)
        if len(a) > 1 and len(b) > 1 and a[-1] != b[-2] and a[-1] != -1 and b[-2] != -1:
            raise ValueError(
                f"matmul: the inner sizes of x and y differ (after transpose_x and transpose_y), got shapes {a} and {b}"
            )
    return named(name, _ops.matmul_v2, input, mat2)


def transpose(x, perm, name=None) -> Tensor:
    """`x` with its dimensions in the order `perm`.

    Examples:
        >>> import paddle
        >>> paddle.transpose(paddle.ones([2, 3, 4]), [1, 0, 2]).shape
        [3, 2, 4]
    """
    if not _static():
        return _ops.transpose2(x, axis=perm)
    check_variable_and_dtype(x, "x", ["float16", "float32", "float64", "int32", "int64", "bool"], "transpose")
    check_type(perm, "perm", (list, tuple), "transpose")
    check_permutation(perm, len(x.shape))
    return named(name, _ops.transpose2, x, axis=list(perm))


def t(input, name=None) -> Tensor:  # noqa: A002
    """The transpose of a matrix; a vector or number comes back as it is.

    Raises:
        ValueError: for more than two dimensions.
    """
    if len(input.shape) > 2:
        raise ValueError(
            f"t: input must have at most 2 dimensions, got {len(input.shape)}; paddle.transpose takes more"
        )
    if _static():
        check_variable_and_dtype(input, "input", ["float16", "float32", "float64", "int32", "int64"], "transpose")
    return input if len(input.shape) <= 1 else _ops.transpose2(input, axis=[1, 0])
