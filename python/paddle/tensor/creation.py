"""Functions that create Tensors."""

from __future__ import annotations

import paddle._core as _core
from paddle import _ops
from paddle._basics import numpy as np
from paddle._basics.default_dtype import get_default_dtype
from paddle._basics.dtypes import VarType, convert_dtype, convert_np_dtype_to_dtype_
from paddle._basics.mode import in_static_mode
from paddle._core import Tensor
from paddle._dispatch.append import checked, named
from paddle._dispatch.argument_checks import check_arguments
from paddle._dispatch.arguments import shape_arguments
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_shape

__all__ = [
    "zeros",
    "zeros_like",
    "ones",
    "ones_like",
    "full",
    "full_like",
    "arange",
    "assign",
    "linspace",
    "eye",
    "diag",
    "tril",
    "triu",
    "meshgrid",
    "empty",
    "empty_like",
]


def _dtype(dtype, default=None):
    if dtype is None:
        dtype = default or get_default_dtype()
    return dtype if isinstance(dtype, VarType) else convert_np_dtype_to_dtype_(dtype)


def full(shape, fill_value, dtype=None, name=None) -> Tensor:
    """A Tensor of the given shape filled with `fill_value`.

    Args:
        shape (list|tuple|Tensor): sizes.
        fill_value (bool|int|float|Tensor): the number.
        dtype (str, optional): `get_default_dtype()` by default.

    Examples:
        >>> import paddle
        >>> paddle.full([2, 1], 3, "int64").numpy().tolist()
        [[3], [3]]
    """
    dtype = _dtype(dtype)
    if in_static_mode():
        check_shape(shape, "fill_constant")
        check_arguments("fill_constant", dtype, shape)
    return fill(shape, fill_value, dtype, name)


def as_text(value, dtype) -> str:
    """The attribute `str_value` of fill_constant: exact where the float32 attribute `value` rounds."""
    return str(int(value)) if convert_dtype(dtype) in ("int64", "int32") else str(float(value))


def fill(shape, value, dtype, name=None, **keywords):
    """`full` without its checks; `keywords` are further attributes of fill_constant that 1.x's functions expose."""
    keywords.update(shape_arguments(shape))
    if isinstance(value, Variable):
        if in_static_mode():
            keywords["ValueTensor"] = value if value.dtype == dtype else value.astype(dtype)
            value = 0.0
        else:
            value = value.item()
    text = as_text(value, dtype)
    out = named(name, _ops.fill_constant, dtype=dtype, value=float(value), str_value=text, **keywords)
    out.stop_gradient = True
    return out


def zeros(shape, dtype=None, name=None) -> Tensor:
    """A Tensor of zeros; see `full`.

    Examples:
        >>> import paddle
        >>> paddle.zeros([2, 2]).numpy().tolist()
        [[0.0, 0.0], [0.0, 0.0]]
    """
    return full(shape, 0.0, dtype, name)


def ones(shape, dtype=None, name=None) -> Tensor:
    """A Tensor of ones; see `full`."""
    return full(shape, 1.0, dtype, name)


def full_like(x, fill_value, dtype=None, name=None) -> Tensor:
    """A Tensor of the shape (and type) of `x` filled with `fill_value`.

    Examples:
        >>> import paddle
        >>> paddle.full_like(paddle.ones([2]), 2.0).numpy().tolist()
        [2.0, 2.0]
    """
    dtype = x.dtype if dtype is None else _dtype(dtype)
    check_arguments("full_like", x, dtype)
    out = named(name, _ops.fill_any_like, x, value=float(fill_value), dtype=dtype)
    out.stop_gradient = True
    return out


def zeros_like(x, dtype=None, name=None) -> Tensor:
    """Zeros of the shape of `x`."""
    return full_like(x, 0.0, dtype, name)


def ones_like(x, dtype=None, name=None) -> Tensor:
    """Ones of the shape of `x`."""
    return full_like(x, 1.0, dtype, name)


def arange(start=0, end=None, step=1, dtype=None, name=None) -> Tensor:
    """Numbers from `start` to before `end`, `step` apart.

    Args:
        start, end, step (int|float|Tensor): a single argument is the end.
        dtype (str, optional): int64 for ints, else `get_default_dtype()`.

    Examples:
        >>> import paddle
        >>> paddle.arange(1, 7, 2).numpy().tolist()
        [1, 3, 5]
    """
    if dtype is None:
        integral = all(not isinstance(v, float) for v in (start, end, step))
        dtype = "int64" if integral else get_default_dtype()
    if end is None:
        start, end = 0, start
    dtype = _dtype(dtype)
    check_arguments("range/arange", dtype)

    def bound(v):
        if isinstance(v, Variable):
            return v if v.dtype == dtype else v.astype(dtype)
        return full([1], v, dtype)

    out = named(name, _ops.range, bound(start), bound(end), bound(step))
    out.stop_gradient = True
    return out


def written(output):
    """`output`, written by an operator, for which it is an ordinary output and not one that is changed in place."""
    if not in_static_mode():
        output._bump_inplace_version()
    return output


#: element type -> (attribute of assign_value, conversion of one element)
_VALUES = {
    VarType.BOOL: ("bool_values", bool),
    VarType.FP32: ("fp32_values", float),
    VarType.INT32: ("int32_values", int),
    VarType.INT64: ("int64_values", int),
}


def assign_array(array: np.ndarray, output=None):
    """An assign_value operator that holds `array` in an attribute: Programs have no other form of a constant array."""
    dtype = convert_np_dtype_to_dtype_(array.dtype)
    if dtype not in _VALUES:
        raise TypeError(f"assign: the dtype of the ndarray must be bool, float32, int32 or int64, got {array.dtype}")
    if array.size > 1024 * 1024:
        raise ValueError(
            "assign: an array of more than 1024 * 1024 elements cannot be an attribute of an operator; save it "
            "and read it with load"
        )
    attr, kind = _VALUES[dtype]
    values = {attr: [kind(v) for v in array.flat]}
    out = _ops.assign_value(dtype=dtype, shape=list(array.shape), Out=output, **values)
    return out if output is None else written(out)


def assign(x, output=None) -> Tensor:
    """A copy of `x`.

    Args:
        x (Tensor|numpy.ndarray|list|number): the values.
        output (Tensor, optional): receives the values.

    Examples:
        >>> import paddle
        >>> paddle.assign([1.0, 2.0]).numpy().tolist()
        [1.0, 2.0]
    """
    check_arguments("assign", x)
    if isinstance(x, Variable):
        return _ops.assign(x) if output is None else written(_ops.assign(x, Out=output))
    if in_static_mode():
        return assign_array(np.array(x), output)
    array = np.array(x)
    if array.dtype == np.float64:
        array = array.astype("float32")
    tensor = _core.tensor_from_array(array, True)
    return tensor if output is None else written(_ops.assign(tensor, Out=output))


def linspace(start, stop, num, dtype=None, name=None) -> Tensor:
    """`num` evenly spaced numbers from `start` to `stop`, both included.

    Args:
        start, stop (int|float|Tensor): the ends; a Tensor has shape [1].
        num (int|Tensor): number of elements; a Tensor is int32 of shape [1].
        dtype (str, optional): float32 (the default), float64, int32 or int64.

    Raises:
        ValueError: for a `num` that is not positive, or in static mode a dtype narrower than that of the ends.

    Examples:
        >>> import paddle
        >>> paddle.linspace(0, 10, 5).numpy().tolist()
        [0.0, 2.5, 5.0, 7.5, 10.0]
    """
    dtype = _dtype(dtype, "float32")
    check_arguments("linspace", start, stop, num, dtype)
    ends = [v if isinstance(v, Variable) else full([1], v, dtype) for v in (start, stop)]
    out = convert_dtype(dtype)
    for end in ends if in_static_mode() else ():
        have = convert_dtype(end.dtype)
        if (have == "float64" and out in ("float32", "int32")) or (have == "int64" and out == "int32"):
            raise ValueError(f"linspace: dtype={out} is narrower than the {have} of start or stop and may overflow")
    count = num if isinstance(num, Variable) else full([1], num, "int32")
    line = named(name, _ops.linspace, *ends, count, dtype=dtype)
    if in_static_mode() and not isinstance(num, Variable):
        line.desc.set_shape((num,))
    return line


def eye(num_rows, num_columns=None, dtype=None, name=None) -> Tensor:
    """A matrix with ones on the main diagonal and zeros elsewhere.

    Args:
        num_rows (int): number of rows.
        num_columns (int, optional): number of columns; `num_rows` by default.
        dtype (str, optional): float32 by default.

    Raises:
        TypeError: unless the sizes are non-negative ints.

    Examples:
        >>> import paddle
        >>> paddle.eye(2, 3, dtype="int32").numpy().tolist()
        [[1, 0, 0], [0, 1, 0]]
    """
    dtype = _dtype(dtype, "float32")
    columns = num_rows if num_columns is None else num_columns
    check_arguments("eye", dtype)
    for size, what in ((num_rows, "num_rows"), (columns, "num_columns")):
        if not isinstance(size, int) or size < 0:
            raise TypeError(f"eye: {what} must be a non-negative int, got {size!s:.200}")
    out = named(name, _ops.eye, num_rows=num_rows, num_columns=columns, dtype=dtype)
    out.stop_gradient = True
    return out


def diag(x, offset=0, padding_value=0, name=None) -> Tensor:
    """A vector as the diagonal of a square matrix, or the diagonal of a matrix as a vector.

    Args:
        x (Tensor): one or two dimensions, float32, float64, int32 or int64.
        offset (int): the diagonal: above the main one if positive, below if negative.
        padding_value (int|float): the elements off the diagonal where the result is a matrix.

    Raises:
        ValueError: for another number of dimensions.

    Examples:
        >>> import paddle
        >>> paddle.diag(paddle.to_tensor([1, 2])).numpy().tolist()
        [[1, 0], [0, 2]]
    """
    if in_static_mode():
        check_arguments("diag_v2", x, offset, padding_value)
        if len(x.shape) not in (1, 2):
            raise ValueError(f"diag: x must have 1 or 2 dimensions, got {len(x.shape)}")
    out = named(name, _ops.diag_v2, x, offset=offset, padding_value=padding_value)
    if in_static_mode():
        out.stop_gradient = True
    return out


def _triangle(where: str, x, diagonal, name) -> Tensor:
    if in_static_mode():
        check_arguments(where, x)
        if len(x.shape) < 2:
            raise ValueError(f"x shape in {where} must be at least 2-D, got {len(x.shape)}")
        if not isinstance(diagonal, int):
            raise TypeError(f"diagonal in {where} must be a python Int, got {type(diagonal)}")
    return named(name, _ops.tril_triu, x, diagonal=diagonal, lower=where == "tril")


def tril(x, diagonal=0, name=None) -> Tensor:
    """The lower triangle of matrices: elements above the diagonal become zero.

    Args:
        x (Tensor): at least two dimensions; the last two are the matrices.
        diagonal (int): the last diagonal that is kept: above the main one if positive.

    Examples:
        >>> import paddle
        >>> paddle.tril(paddle.to_tensor([[1, 2], [3, 4]])).numpy().tolist()
        [[1, 0], [3, 4]]
    """
    return _triangle("tril", x, diagonal, name)


def triu(x, diagonal=0, name=None) -> Tensor:
    """The upper triangle of matrices: elements below the diagonal become zero; see `tril`.

    Examples:
        >>> import paddle
        >>> paddle.triu(paddle.to_tensor([[1, 2], [3, 4]])).numpy().tolist()
        [[1, 2], [0, 4]]
    """
    return _triangle("triu", x, diagonal, name)


def meshgrid(*args, **kwargs) -> list[Tensor]:
    """The coordinates of a grid: one Tensor for each vector, all of the shape of the grid.

    Args:
        *args (Tensor): two to six vectors, or one list of them.

    Examples:
        >>> import paddle
        >>> x, y = paddle.meshgrid(paddle.to_tensor([1, 2]), paddle.to_tensor([3, 4, 5]))
        >>> x.numpy().tolist(), y.numpy().tolist()
        ([[1, 1, 1], [2, 2, 2]], [[3, 4, 5], [3, 4, 5]])
    """
    vectors = list(args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args)
    return checked(kwargs.get("name"), _ops.meshgrid, vectors)


def empty(shape, dtype=None, name=None) -> Tensor:
    """A Tensor of the given shape with unspecified elements.

    Args:
        shape (list|tuple|Tensor): sizes.
        dtype (str, optional): `get_default_dtype()` by default.

    Examples:
        >>> import paddle
        >>> paddle.empty([2, 3]).shape
        [2, 3]
    """
    dtype = _dtype(dtype)
    check_arguments("empty", dtype, shape)
    out = named(name, _ops.empty, dtype=dtype, **shape_arguments(shape))
    out.stop_gradient = True
    return out


def empty_like(x, dtype=None, name=None) -> Tensor:
    """`empty` with the shape of `x`, and its dtype unless one is given.

    Examples:
        >>> import paddle
        >>> paddle.empty_like(paddle.ones([2, 3])).shape
        [2, 3]
    """
    dtype = x.dtype if dtype is None else dtype
    if in_static_mode():
        check_arguments("empty_like", x)
        return empty(_ops.shape(x), dtype, name)
    return empty(x.shape, dtype, name)
