"""Shapes, slices and indices of fluid.layers."""

from __future__ import annotations

from paddle import _ops
from paddle._basics import mode
from paddle._basics.checks import INTS, check_type
from paddle._basics.element_types import HALF_NUMERIC, INDICES
from paddle._basics.mode import in_static_mode
from paddle._dispatch.append import activated, named
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.tensor import linalg
from paddle.tensor import manipulation as api
from paddle.tensor.attribute import rank, shape
from paddle.tensor.manipulation import slice, stack

__all__ = [
    "reshape",
    "squeeze",
    "unsqueeze",
    "transpose",
    "split",
    "stack",
    "slice",
    "strided_slice",
    "gather",
    "scatter",
    "flatten",
    "shape",
    "rank",
]


def reshape(x, shape, actual_shape=None, act=None, inplace=False, name=None):
    """`x` with another shape.

    Args:
        x (Variable): numbers or bools.
        shape (list|tuple|Variable): sizes: one may be -1 (what is left), 0 takes the size of `x`; tensors of shape
            [1] go.
        actual_shape (Variable, optional): the shape at run time.
        act (str, optional): an activation operator.
        inplace (bool): write `x` itself (static mode).

    Raises:
        AssertionError: for sizes that cannot be.
    """
    check_type(actual_shape, "actual_shape", (Variable, type(None)), "reshape")
    if not in_static_mode():
        return activated(api.reshape(x, shape), act, name, "reshape2")
    slots = {}
    if actual_shape is not None:
        actual_shape.stop_gradient = True
        slots["Shape"] = actual_shape
    if inplace:
        slots["Out"] = x
    return activated(api.append_reshape(x, shape, name, **slots), act, name, "reshape2")


def transpose(x, perm, name=None):
    """`x` with its dimensions in the order `perm`: `paddle.transpose` without bools.

    Args:
        x (Variable): float16, float32, float64, int32 or int64.
        perm (list|tuple of int): dimension `i` of the result is dimension perm[i] of `x`.
        name (str, optional): a name for the output.

    Raises:
        TypeError: for another data type, and where `perm` is no list.
        ValueError: when `perm` is no permutation.
    """
    check_variable_and_dtype(x, "x", HALF_NUMERIC, "transpose")
    return linalg.transpose(x, perm, name)


def squeeze(input, axes, name=None):  # noqa: A002
    """`input` without the dimensions `axes`, where their size is 1 (all of size 1 when empty).

    Args:
        input (Variable): numbers or bools.
        axes (list of int): which.
    """
    check_type(axes, "axis/axes", (list, tuple), "squeeze")
    return api.squeeze(input, list(axes), name)


def unsqueeze(input, axes, name=None):  # noqa: A002
    """`input` with new dimensions of size 1 at `axes`.

    Args:
        input (Variable): numbers or bools.
        axes (int|list|tuple|Variable): positions in the result; tensors go.
    """
    return api.unsqueeze(input, axes, name)


def split(input, num_or_sections, dim=-1, name=None):  # noqa: A002
    """`input` cut along `dim`.

    Args:
        input (Variable): numbers or bools.
        num_or_sections (int|list|tuple): how many equal parts, or their sizes: one may be -1, tensors of shape [1] go.
        dim (int|Variable): where.

    Returns:
        list of Variable.

    Raises:
        AssertionError: when the size cannot be cut so.
        ValueError: for a dimension that is not there.
    """
    return api.split(input, num_or_sections, dim, name)


def strided_slice(input, axes, starts, ends, strides):  # noqa: A002
    """Parts of `input` from `starts` to `ends` along `axes`, every `strides`-th.

    Args:
        input (Variable): bool, float32, float64, int32 or int64.
        axes (list|tuple of int): which dimensions.
        starts, ends, strides (list|tuple|Variable): negative ones count from the end; tensors of shape [1] go.
    """
    return api.strided_slice(input, axes, starts, ends, strides)


def gather(input, index, overwrite=True):  # noqa: A002
    """The rows of `input` with the numbers `index`.

    Args:
        input (Variable): at least one dimension.
        index (Variable): int32 or int64, one dimension.
        overwrite (bool): how equal rows count in the gradient: the last one (True), or all.
    """
    check_variable_and_dtype(input, "x", [*HALF_NUMERIC, "uint8"], "gather")
    check_variable_and_dtype(index, "index", INDICES, "gather")
    return _ops.gather(input, index, overwrite=overwrite)


def scatter(input, index, updates, name=None, overwrite=True):  # noqa: A002
    """`input` with the rows `index` replaced by `updates`, or with these added.

    Args:
        input (Variable): at least one dimension.
        index (Variable): int32 or int64, one dimension.
        updates (Variable): one row for each index.
        overwrite (bool): replace, rather than add up.
    """
    return named(name, _ops.scatter, input, index, updates, overwrite=overwrite)


def flatten(x, axis=1, name=None):
    """`x` as a matrix: the dimensions before `axis` make the rows.

    Args:
        x (Variable): at least `axis` dimensions.
        axis (int): from 0 to the number of dimensions.

    Raises:
        TypeError: when `x` is no Variable, or in a Program of another type than 2.0.2 flattens.
        ValueError: for another axis.
    """
    check_variable_and_dtype(x, "x", ["float32", "float64", "int8", "int32", "int64"], "flatten")
    if not isinstance(x, Variable):
        raise TypeError("flatten: x must be a Variable")
    rank = len(x.shape)
    if not isinstance(axis, INTS) or not 0 <= axis <= rank:
        raise ValueError("flatten: axis must be an int in [0, rank] of x")
    rows = 1
    for n in x.shape[:axis]:
        rows = -1 if n < 0 or rows < 0 else rows * n
    columns = 1
    for n in x.shape[axis:]:
        columns = -1 if n < 0 or columns < 0 else columns * n
    if rows < 0 and columns < 0:
        raise ValueError(f"flatten of the shape {x.shape} at {axis} leaves two sizes unknown")
    return named(name, _ops.reshape2, x, shape=[rows, columns])
