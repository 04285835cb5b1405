"""Shapes, transposition, splitting, slicing, gather and scatter of fluid.layers.nn."""

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
        shape (list|tuple|Variable): sizes: one may be -1 (inferred), 0 copies the size of `x`; tensors of shape
            [1] are accepted.
        actual_shape (Variable, optional): the shape at run time.
        act (str, optional): name of an activation operator.
        inplace (bool): write `x` itself (static mode).

    Raises:
        AssertionError: for invalid sizes.
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
    """`x` with its dimensions in the order `perm`: `paddle.transpose` without bool.

    Args:
        x (Variable): float16, float32, float64, int32 or int64.
        perm (list|tuple of int): dimension `i` of the result is dimension perm[i] of `x`.
        name (str, optional): a name for the output.

    Raises:
        TypeError: for another data type, or if `perm` is not a list.
        ValueError: if `perm` is not a permutation.
    """
    check_variable_and_dtype(x, "x", HALF_NUMERIC, "transpose")
    return linalg.transpose(x, perm, name)


def squeeze(input, axes, name=None):  # noqa: A002
    """`input` without those dimensions `axes` whose size is 1 (all of size 1 if empty).

    Args:
        input (Variable): numbers or bools.
        axes (list of int): dimensions.
    """
    check_type(axes, "axis/axes", (list, tuple), "squeeze")
    return api.squeeze(input, list(axes), name)


def unsqueeze(input, axes, name=None):  # noqa: A002
    """`input` with new dimensions of size 1 at `axes`.

    Args:
        input (Variable): numbers or bools.
        axes (int|list|tuple|Variable): positions in the result; tensors are accepted.
    """
    return api.unsqueeze(input, axes, name)


def split(input, num_or_sections, dim=-1, name=None):  # noqa: A002
    """`input` split along `dim`.

    Args:
        input (Variable): numbers or bools.
        num_or_sections (int|list|tuple): number of equal parts, or their sizes, of which one may be -1; tensors of
            shape [1] are accepted.
        dim (int|Variable): the dimension.

    Returns:
        list of Variable.

    Raises:
        AssertionError: if the size is not divisible.
        ValueError: for a dimension that does not exist.
    """
    return api.split(input, num_or_sections, dim, name)


def strided_slice(input, axes, starts, ends, strides):  # noqa: A002
    """The slice of `input` from `starts` to `ends` along `axes`, with the steps `strides`.

    Args:
        input (Variable): bool, float32, float64, int32 or int64.
        axes (list|tuple of int): dimensions.
        starts, ends, strides (list|tuple|Variable): negative values count from the end; tensors of shape [1] are
            accepted.
    """
    return api.strided_slice(input, axes, starts, ends, strides)


def gather(input, index, overwrite=True):  # noqa: A002
    """The rows of `input` at `index`.

    Args:
        input (Variable): at least one dimension.
        index (Variable): int32 or int64, one dimension.
        overwrite (bool): gradient of duplicate indices: the last one (True), or the sum.
    """
    check_variable_and_dtype(input, "x", [*HALF_NUMERIC, "uint8"], "gather")
    check_variable_and_dtype(index, "index", INDICES, "gather")
    return _ops.gather(input, index, overwrite=overwrite)


def scatter(input, index, updates, name=None, overwrite=True):  # noqa: A002
    """`input` with the rows at `index` replaced by `updates`, or with these added.

    Args:
        input (Variable): at least one dimension.
        index (Variable): int32 or int64, one dimension.
        updates (Variable): one row per index.
        overwrite (bool): replace instead of adding.
    """
    return named(name, _ops.scatter, input, index, updates, overwrite=overwrite)


def flatten(x, axis=1, name=None):
    """`x` as a matrix: the dimensions before `axis` form the rows.

    Args:
        x (Variable): at least `axis` dimensions.
        axis (int): from 0 to the number of dimensions.

    Raises:
        TypeError: if `x` is not a Variable, or in a Program has a type that 2.0.2 does not flatten.
        ValueError: for another axis.
    """
    check_variable_and_dtype(x, "x", ["float32", "float64", "int8", "int32", "int64"], "flatten")
    if not isinstance(x, Variable):
        raise TypeError(f"flatten: x must be a Variable or Tensor, got {type(x).__name__}")
    if not isinstance(axis, INTS) or not 0 <= axis <= len(x.shape):
        raise ValueError(f"flatten: axis must be an int from 0 to {len(x.shape)}, the dimensions of x, got {axis!r}")
    return named(name, _ops.flatten2, x, axis=axis)
