"""Gathering, scattering and counting of elements, fluid.layers.nn."""

from __future__ import annotations

from paddle import _ops
from paddle._basics import mode
from paddle._basics.dtypes import convert_dtype, convert_np_dtype_to_dtype_
from paddle._basics.element_types import BOOL_HALF_NUMERIC, BOOL_NUMERIC, NUMERIC
from paddle._basics.mode import in_static_mode
from paddle._dispatch.append import named
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.tensor import gather_scatter
from paddle.tensor.gather_scatter import multiplex, scatter_nd, shard_index
from paddle.tensor.manipulation import unbind

__all__ = [
    "expand_as",
    "gather_nd",
    "multiplex",
    "scatter_nd",
    "scatter_nd_add",
    "shard_index",
    "size",
    "unbind",
    "unique",
    "unique_with_counts",
    "unstack",
    "where",
]


def gather_nd(input, index, name=None):  # noqa: A002
    """The slices of `input` at the rows of `index`; see :func:`paddle.gather_nd`."""
    return gather_scatter.gather_nd(input, index, name)


def scatter_nd_add(ref, index, updates, name=None):
    """`ref` with `updates` added to the slices at `index`; see :func:`paddle.scatter_nd_add`."""
    return gather_scatter.scatter_nd_add(ref, index, updates, name)


def expand_as(x, target_tensor, name=None):
    """`x` repeated to the shape of `target_tensor`.

    Args:
        x (Variable): bool, float32, float64, int32 or int64.
        target_tensor (Variable): of the same number of dimensions, each size a multiple of that of `x`.

    Raises:
        ValueError: if the sizes are not multiples.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([[1, 2]])
        >>> paddle.fluid.layers.expand_as(x, paddle.ones([2, 4])).numpy().tolist()
        [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    check_variable_and_dtype(x, "x", BOOL_NUMERIC, "expand_as")
    check_variable_and_dtype(target_tensor, "target_tensor", BOOL_NUMERIC, "expand_as")
    return named(name, _ops.expand_as, x, target_tensor)


def size(input):  # noqa: A002
    """The number of elements of `input`, an int64 Variable of shape [1].

    Args:
        input (Variable): bool, float16, float32, float64, int32 or int64.
    """
    check_variable_and_dtype(input, "input", BOOL_HALF_NUMERIC, "size")
    return _ops.size(input)


def unstack(x, axis=0, num=None):
    """The slices of `x` along `axis`, as a list.

    Args:
        x (Variable): any type.
        axis (int): the dimension.
        num (int, optional): the expected number of slices.

    Raises:
        ValueError: if the number is unknown, or is not `num`.
    """
    if num is None:
        num = x.shape[axis]
        if num <= 0 and in_static_mode():
            raise ValueError("unstack: num must be given, as the size along axis is unknown")
    return _ops.unstack(x, axis=int(axis), num=num)


def where(condition):
    """The indices of the elements that are not zero: int64 of shape [n, rank].

    Args:
        condition (Variable): bools or numbers.
    """
    return _ops.where_index(condition)


def unique(x, dtype="int32"):
    """The distinct elements of a vector in order of first occurrence, and for each element its index among them.

    Args:
        x (Variable): one dimension; float32, float64, int32 or int64.
        dtype (str): of the indices, int32 or int64.

    Returns:
        (Variable, Variable).

    Examples:
        >>> import paddle
        >>> [t.numpy().tolist() for t in paddle.fluid.layers.unique(paddle.to_tensor([2, 3, 3, 1]))]
        [[2, 3, 1], [0, 1, 1, 2]]
    """
    check_variable_and_dtype(x, "x", NUMERIC, "unique")
    out, inverse, *_ = _ops.unique(x, dtype=convert_np_dtype_to_dtype_(dtype))
    return out, inverse


def unique_with_counts(x, dtype="int32"):
    """As :func:`unique`, with the number of occurrences.

    Raises:
        TypeError: for another dtype. ValueError: for more than one dimension.

    Examples:
        >>> import paddle
        >>> [t.numpy().tolist() for t in paddle.fluid.layers.unique_with_counts(paddle.to_tensor([2, 3, 3, 1]))]
        [[2, 3, 1], [0, 1, 1, 2], [1, 2, 1]]
    """
    check_variable_and_dtype(x, "x", NUMERIC, "unique_with_counts")
    if convert_dtype(dtype) not in ("int32", "int64"):
        raise TypeError(f"unique_with_counts: dtype must be int32 or int64, got {dtype}")
    if x is None or len(x.shape) != 1:
        raise ValueError("unique_with_counts: x must have one dimension")
    return _ops.unique_with_counts(x, dtype=convert_np_dtype_to_dtype_(dtype))
