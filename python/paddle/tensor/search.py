"""Sorting, searching and selection by a condition."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.checks import INTS
from paddle._basics.dtypes import convert_np_dtype_to_dtype_
from paddle._basics.mode import in_static_mode
from paddle._core import Tensor
from paddle._dispatch.append import checked, named
from paddle._dispatch.argument_checks import check_arguments
from paddle._dispatch.arguments import number
from paddle._programs.variable import Variable

__all__ = [
    "argmax",
    "argmin",
    "argsort",
    "sort",
    "topk",
    "where",
    "nonzero",
    "index_select",
    "index_sample",
    "masked_select",
]


def _arg(op_type: str, x, axis, keepdim, dtype, name):
    if dtype is None:
        raise ValueError(f"the value of 'dtype' in {op_type[:3]}{op_type[4:]} could not be None, but received None")
    if axis is not None and not isinstance(axis, INTS):
        raise TypeError(f"{op_type}: axis must be an int or None, got {type(axis)}")
    check_arguments(op_type, dtype)
    flatten = axis is None
    return checked(
        name,
        getattr(_ops, op_type),
        x,
        axis=0 if flatten else axis,
        keepdims=keepdim,
        flatten=flatten,
        dtype=convert_np_dtype_to_dtype_(dtype),
    )


def argmax(x, axis=None, keepdim=False, dtype="int64", name=None) -> Tensor:
    """The index of the first maximum along `axis`, or in the flattened Tensor.

    Examples:
        >>> import paddle
        >>> paddle.argmax(paddle.to_tensor([1.0, 3.0, 2.0])).numpy().tolist()
        [1]
    """
    return _arg("arg_max", x, axis, keepdim, dtype, name)


def argmin(x, axis=None, keepdim=False, dtype="int64", name=None) -> Tensor:
    """The index of the first minimum along `axis`, or in the flattened Tensor."""
    return _arg("arg_min", x, axis, keepdim, dtype, name)


def argsort(x, axis=-1, descending=False, name=None) -> Tensor:
    """The indices that sort along `axis`; the sort is stable.

    Examples:
        >>> import paddle
        >>> paddle.argsort(paddle.to_tensor([3.0, 1.0, 2.0])).numpy().tolist()
        [1, 2, 0]
    """
    check_arguments("argsort", x)
    return named(name, _ops.argsort, x, axis=axis, descending=descending)[1]


def sort(x, axis=-1, descending=False, name=None) -> Tensor:
    """The elements sorted along `axis`."""
    check_arguments("sort", x)
    return named(name, _ops.argsort, x, axis=axis, descending=descending)[0]


def topk(x, k, axis=None, largest=True, sorted=True, name=None) -> tuple[Tensor, Tensor]:  # noqa: A002
    """The `k` largest (or smallest) elements along `axis`, and their indices.

    Args:
        x (Tensor): any numeric type.
        k (int|Tensor): number of elements.
        axis (int, optional): the dimension; the last by default.

    Returns:
        tuple (values, indices): indices are int64.

    Examples:
        >>> import paddle
        >>> values, indices = paddle.topk(paddle.to_tensor([1, 4, 5, 7]), k=2)
        >>> values.numpy().tolist(), indices.numpy().tolist()
        ([7, 5], [3, 2])
    """
    keywords = {"largest": largest, "sorted": sorted, "axis": -1 if axis is None else axis}
    if isinstance(k, Variable):
        if in_static_mode():
            keywords["K"] = k
        else:
            keywords["k"] = int(number(k))
    else:
        keywords["k"] = k
    values, indices = named(name, _ops.top_k_v2, x, **keywords)
    if in_static_mode():
        indices.stop_gradient = True
    return values, indices


def where(condition, x, y, name=None) -> Tensor:
    """Elements of `x` where `condition` is true, of `y` elsewhere.

    Args:
        condition (Tensor): bools.
        x, y (Tensor): of one type; condition, x and y are broadcast to one shape.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([1.0, 4.0])
        >>> paddle.where(x > 2.0, x, paddle.zeros([2])).numpy().tolist()
        [0.0, 4.0]
    """
    check_arguments("where", condition, x, y)
    if list(condition.shape) == list(x.shape) == list(y.shape):
        return named(name, _ops.where, condition, x, y)
    # Broadcasting by arithmetic, with the operators that 2.0.2 appends.
    zeros = _ops.fill_any_like(x, value=0.0)
    like = _ops.elementwise_add(zeros, _ops.fill_any_like(y, value=0.0))
    mask = _ops.elementwise_add(like, _ops.cast(condition, in_dtype=condition.dtype, out_dtype=x.dtype))
    full = _ops.cast(mask, in_dtype=mask.dtype, out_dtype=condition.dtype)
    wide = _ops.fill_any_like(mask, value=0.0)
    return named(name, _ops.where, full, _ops.elementwise_add(wide, x), _ops.elementwise_add(wide, y))


def nonzero(x, as_tuple=False) -> Any:
    """The indices of nonzero elements: int64 of shape [n, rank], or a tuple of columns [n, 1]."""
    check_arguments("nonzero", x)
    found = _ops.where_index(x)
    if not as_tuple:
        return found
    return tuple(_ops.slice(found, axes=[1], starts=[i], ends=[i + 1]) for i in range(len(x.shape)))


def index_select(x, index, axis=0, name=None) -> Tensor:
    """The slices of `x` along `axis` at the positions in `index`.

    Args:
        x (Tensor): float32, float64, int32 or int64.
        index (Tensor): int32 or int64, one dimension.
        axis (int): the dimension.

    Raises:
        IndexError: for an axis out of range. ValueError: for an index out of range.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([[1, 2, 3], [4, 5, 6]])
        >>> paddle.index_select(x, paddle.to_tensor([2, 0]), axis=1).numpy().tolist()
        [[3, 1], [6, 4]]
    """
    return checked(name, _ops.index_select, x, index, dim=axis)


def index_sample(x, index) -> Tensor:
    """Row i of the result holds the elements of x[i] at the positions in index[i].

    Args:
        x (Tensor): [n, m], float32, float64, int32 or int64.
        index (Tensor): [n, k], int32 or int64.

    Returns:
        Tensor: [n, k].

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        >>> paddle.index_sample(x, paddle.to_tensor([[0, 2], [1, 1]])).numpy().tolist()
        [[1.0, 3.0], [5.0, 5.0]]
    """
    return checked(None, _ops.index_sample, x, index)


def masked_select(x, mask, name=None) -> Tensor:
    """The elements of `x` where `mask` is true, as a vector.

    Args:
        x (Tensor): float32, float64, int32 or int64.
        mask (Tensor): bools of the same shape.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> paddle.masked_select(x, x > 2.0).numpy().tolist()
        [3.0, 4.0]
    """
    return checked(name, _ops.masked_select, x, mask)
