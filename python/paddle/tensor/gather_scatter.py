"""Gather, scatter and other selection of elements by index."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.checks import INTS
from paddle._basics.dtypes import convert_np_dtype_to_dtype_
from paddle._basics.mode import in_static_mode
from paddle._core import Tensor
from paddle._dispatch.append import checked, named
from paddle._dispatch.argument_checks import check_arguments
from paddle._dispatch.in_place import in_place_in_dygraph

from .creation import zeros

__all__ = [
    "gather",
    "gather_nd",
    "multiplex",
    "scatter",
    "scatter_",
    "scatter_nd",
    "scatter_nd_add",
    "shard_index",
    "unique",
]


def gather(x, index, axis=None, name=None) -> Tensor:
    """The slices of `x` along `axis` at the positions in `index`.

    Args:
        index (Tensor): int32 or int64, one dimension (or [n, 1]).
        axis (int|Tensor, optional): 0 by default.

    Examples:
        >>> import paddle
        >>> paddle.gather(paddle.to_tensor([[1, 2], [3, 4], [5, 6]]), paddle.to_tensor([0, 2])).numpy().tolist()
        [[1, 2], [5, 6]]
    """
    axis = 0 if axis is None else axis
    check_arguments("gather", x, index, axis)
    if isinstance(axis, INTS):
        if axis == 0:
            return named(name, _ops.gather, x, index, overwrite=False)
        axis = _ops.fill_constant(shape=[1], dtype=2, value=float(axis))
    return named(name, _ops.gather, x, index, axis, overwrite=False)


def scatter(x, index, updates, overwrite=True, name=None) -> Tensor:
    """`x` with the rows at `index` replaced by the rows of `updates`, or by their sums if not `overwrite`.

    Examples:
        >>> import paddle
        >>> x = paddle.ones([3, 1])
        >>> paddle.scatter(x, paddle.to_tensor([2, 0]), paddle.to_tensor([[5.0], [6.0]])).numpy().ravel().tolist()
        [6.0, 1.0, 5.0]
    """
    check_arguments("scatter", overwrite)
    return checked(name, _ops.scatter, x, index, updates, overwrite=overwrite)


@in_place_in_dygraph(scatter)
def scatter_(x, index, updates, overwrite=True, name=None) -> Tensor:
    """`scatter`, in place."""
    return _ops.scatter(x, index, updates, overwrite=overwrite, Out=x)


def gather_nd(x, index, name=None) -> Tensor:
    """The slices of `x` that each row of `index` selects by its leading indices.

    Args:
        x (Tensor): bool, float32, float64, int32 or int64.
        index (Tensor): int32 or int64; its last dimension holds one index for each leading dimension of `x`.

    Returns:
        Tensor: of shape index.shape[:-1] + x.shape[index.shape[-1]:].

    Raises:
        ValueError: for an index out of range.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([[1, 2], [3, 4]])
        >>> paddle.gather_nd(x, paddle.to_tensor([[1, 0], [0, 1]])).numpy().tolist()
        [3, 2]
    """
    return checked(name, _ops.gather_nd, x, index)


def scatter_nd_add(x, index, updates, name=None) -> Tensor:
    """`x` with `updates` added to the slices that the rows of `index` select; see `gather_nd`.

    Args:
        x (Tensor): any numeric type.
        index (Tensor): int32 or int64, at least two dimensions.
        updates (Tensor): of the type of `x` and the shape of `gather_nd`'s result.

    Raises:
        ValueError: for other types or shapes, or an index out of range.

    Examples:
        >>> import paddle
        >>> x, index = paddle.zeros([3]), paddle.to_tensor([[1], [1], [2]])
        >>> paddle.scatter_nd_add(x, index, paddle.ones([3])).numpy().tolist()
        [0.0, 2.0, 1.0]
    """
    if x.dtype != updates.dtype:
        raise ValueError("scatter_nd_add: x and updates must have the same data type")
    return named(name, _ops.scatter_nd_add, x, index, updates)


def scatter_nd(index, updates, shape, name=None) -> Tensor:
    """Zeros of the given shape with `updates` added to the slices that `index` selects; see `scatter_nd_add`.

    Examples:
        >>> import paddle
        >>> paddle.scatter_nd(paddle.to_tensor([[2], [0]]), paddle.to_tensor([5, 6]), [4]).numpy().tolist()
        [6, 0, 5, 0]
    """
    return scatter_nd_add(zeros(shape, updates.dtype), index, updates, name)


def multiplex(inputs, index, name=None) -> Tensor:
    """Row i of the result is row i of inputs[index[i]].

    Args:
        inputs (list of Tensor): at least two, of one shape [n, ...] and type (float32, float64, int32, int64).
        index (Tensor): int32 of shape [n, 1].

    Raises:
        ValueError: for fewer than two inputs. RuntimeError: for inputs that differ, or an index out of range.

    Examples:
        >>> import paddle
        >>> a, b = paddle.to_tensor([[1, 2], [3, 4]]), paddle.to_tensor([[5, 6], [7, 8]])
        >>> paddle.multiplex([a, b], paddle.to_tensor([[1], [0]], dtype="int32")).numpy().tolist()
        [[5, 6], [3, 4]]
    """
    check_arguments("multiplex", inputs)
    if len(inputs) < 2:
        raise ValueError("multiplex: inputs must be a list of at least 2 Tensors")
    return checked(name, _ops.multiplex, index, inputs)


def shard_index(input, index_num, nshards, shard_id, ignore_value=-1) -> Tensor:  # noqa: A002
    """Ids of a sharded table as ids within one shard.

    Args:
        input (Tensor): int64 (or int32) ids of shape [..., 1].
        index_num (int): number of ids in the table.
        nshards (int): number of shards.
        shard_id (int): index of the shard.
        ignore_value (int): the result for ids of other shards.

    Raises:
        ValueError: for a shard or id out of range.

    Examples:
        >>> import paddle
        >>> ids = paddle.to_tensor([[16], [1]])
        >>> paddle.shard_index(ids, index_num=20, nshards=2, shard_id=0).numpy().tolist()
        [[-1], [1]]
    """
    if shard_id < 0 or shard_id >= nshards:
        raise ValueError(f"shard_index: shard_id must be in [0, {nshards}), got {shard_id}")
    out = checked(
        None,
        _ops.shard_index,
        input,
        index_num=index_num,
        nshards=nshards,
        shard_id=shard_id,
        ignore_value=ignore_value,
    )
    out.stop_gradient = True
    return out


def unique(
    x, return_index=False, return_inverse=False, return_counts=False, axis=None, dtype="int64", name=None
) -> Any:
    """The unique elements of `x` in ascending order.

    Args:
        x (Tensor): float32, float64, int32 or int64.
        return_index (bool): also the first position of each unique element.
        return_inverse (bool): also, for each element of `x`, its position in the result.
        return_counts (bool): also the number of occurrences of each.
        axis (int, optional): unique slices along this dimension instead of unique elements of the flattened Tensor.
        dtype (str): int32 or int64, the type of indices, inverse and counts.

    Returns:
        Tensor, or a tuple followed by the requested index, inverse and counts in this order.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([2, 3, 3, 1, 5, 3])
        >>> [t.numpy().tolist() for t in paddle.unique(x, return_inverse=True, return_counts=True)]
        [[1, 2, 3, 5], [1, 2, 2, 0, 3, 2], [1, 1, 3, 1]]
    """
    outputs: dict = {}
    if in_static_mode():
        check_arguments("unique", x, return_index, return_inverse, return_counts, dtype, axis)
        outputs = {"Indices": 1, "Counts": 1}
    out, inverse, first, counts = named(
        name,
        _ops.unique,
        x,
        dtype=convert_np_dtype_to_dtype_(dtype),
        return_index=return_index,
        return_inverse=return_inverse,
        return_counts=return_counts,
        axis=[] if axis is None else [axis],
        is_sorted=True,
        **outputs,
    )
    out.stop_gradient = True
    asked = ((first, return_index), (inverse, return_inverse), (counts, return_counts))
    found = [out, *(t for t, wanted in asked if wanted)]
    for t in found[1:]:
        t.stop_gradient = True
    return found[0] if len(found) == 1 else tuple(found)
