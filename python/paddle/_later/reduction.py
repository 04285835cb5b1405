"""Reductions, order statistics and sums over intervals of Paddle 2.1 to 2.6."""

from __future__ import annotations

from typing import Any

import paddle
from paddle._basics.dtypes import convert_dtype
from paddle._later.elementwise import choose

from .named_errors import name_errors

__all__: list[str] = []


def _extremum(function, x, axis, keepdim):
    """The extremum, whose gradient is shared in equal parts by all elements that attain it."""
    best = function(x, axis=axis, keepdim=True)
    best.stop_gradient = True
    chosen = paddle.cast(paddle.equal(x, paddle.expand_as(best, x)), x.dtype)
    chosen.stop_gradient = True
    return paddle.sum(x * chosen, axis=axis, keepdim=keepdim) / paddle.sum(chosen, axis=axis, keepdim=keepdim)


def amax(x, axis=None, keepdim=False, name=None):
    """The maximum; equal maxima share the gradient in equal parts (`paddle.max` gives each all of it).

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([1.0, 2.0, 2.0], stop_gradient=False)
        >>> paddle.amax(x).backward()
        >>> x.grad.tolist()
        [0.0, 0.5, 0.5]
    """
    return _extremum(paddle.max, x, axis, keepdim)


def amin(x, axis=None, keepdim=False, name=None):
    """The minimum; equal minima share the gradient in equal parts (`paddle.min` gives each all of it).

    Examples:
        >>> import paddle
        >>> paddle.amin(paddle.to_tensor([1.0, 2.0])).item()
        1.0
    """
    return _extremum(paddle.min, x, axis, keepdim)


def count_nonzero(x, axis=None, keepdim=False, name=None):
    """The number of elements that are not zero, as int64.

    Examples:
        >>> import paddle
        >>> paddle.count_nonzero(paddle.to_tensor([0.0, 1.0, 2.0])).item()
        2
    """
    nonzero = paddle.cast(paddle.cast(x, "bool"), "int64")
    return paddle.sum(nonzero, axis=axis, keepdim=keepdim)


def nansum(x, axis=None, dtype=None, keepdim=False, name=None):
    """The sum of the elements that are not NaN.

    Examples:
        >>> import paddle
        >>> paddle.nansum(paddle.to_tensor([1.0, float("nan")])).item()
        1.0
    """
    x = choose(paddle.isnan(x), paddle.zeros_like(x), x)
    return paddle.sum(x, axis=axis, dtype=dtype, keepdim=keepdim)


def nanmean(x, axis=None, keepdim=False, name=None):
    """The mean of the elements that are not NaN.

    Examples:
        >>> import paddle
        >>> paddle.nanmean(paddle.to_tensor([1.0, float("nan"), 3.0])).item()
        2.0
    """
    count = paddle.sum(paddle.cast(paddle.logical_not(paddle.isnan(x)), x.dtype), axis=axis, keepdim=keepdim)
    return nansum(x, axis=axis, keepdim=keepdim) / count


def _moved_last(x: Any, axis: Any) -> tuple[Any, list[int]]:
    """`x` with the dimensions `axis` joined into a last one, and the sizes of a result that keeps them as 1."""
    rank = len(x.shape)
    axes = sorted(a % rank for a in ([*axis] if isinstance(axis, (list, tuple)) else [axis]))
    rest = [d for d in range(rank) if d not in axes]
    kept = [1 if d in axes else x.shape[d] for d in range(rank)]
    moved = paddle.transpose(x, [*rest, *axes])
    return paddle.reshape(moved, [*(x.shape[d] for d in rest), -1]), kept


def _quantile(x, q, axis, keepdim, interpolation, skip_nan):
    names = ("linear", "lower", "higher", "midpoint", "nearest")
    if interpolation not in names:
        raise ValueError(f"quantile: interpolation must be one of {', '.join(names)}, got {interpolation!r}")
    levels = (
        [q]
        if isinstance(q, (int, float))
        else [float(v) for v in (q.numpy().reshape(-1) if hasattr(q, "numpy") else q)]
    )
    if not levels or any(not 0 <= level <= 1 for level in levels):
        raise ValueError(f"quantile: q must be numbers in [0, 1], got {q}")
    if axis is None:
        rows, kept = paddle.reshape(x, [-1]), [1] * len(x.shape)
    else:
        rows, kept = _moved_last(x, axis)
    nans = paddle.isnan(rows)
    number = paddle.sum(paddle.cast(paddle.logical_not(nans), "float64"), axis=-1, keepdim=True)
    size = rows.shape[-1]
    # NaN sort behind all numbers.
    ordered = paddle.sort(choose(nans, float("inf"), rows), axis=-1)
    found = []
    for level in levels:
        place = (number - 1.0) * level if skip_nan else paddle.full_like(number, level * (size - 1))
        low, high = paddle.floor(place), paddle.ceil(place)
        if interpolation == "nearest":
            low = high = paddle.round(place)
        elif interpolation == "lower":
            high = low
        elif interpolation == "higher":
            low = high
        weight = paddle.full_like(place, 0.5) if interpolation == "midpoint" else place - low
        positions = paddle.arange(size, dtype="float64")
        zeros = paddle.zeros_like(ordered)
        below, above = (
            paddle.sum(paddle.where(paddle.equal(positions, at), ordered, zeros), axis=-1, keepdim=True)
            for at in (low, high)
        )
        share = paddle.cast(choose(paddle.equal(low, high), paddle.zeros_like(weight), weight), x.dtype)
        value = below + (above - below) * share
        missing = number < paddle.full_like(number, 1.0 if skip_nan else float(size))
        value = choose(missing, float("nan"), value)
        found.append(
            paddle.reshape(value, kept) if keepdim else paddle.squeeze(value, -1) if len(value.shape) > 1 else value
        )
    return found[0] if isinstance(q, (int, float)) else paddle.stack(found)


def quantile(x, q, axis=None, keepdim=False, interpolation="linear"):
    """Quantiles along `axis`; NaN where a number is NaN.

    Args:
        x (Tensor): float32 or float64.
        q (float|list|Tensor): levels in [0, 1]; a list gives the result a first dimension.
        axis (int|list, optional): by default all elements.
        interpolation (str): linear, lower, higher, midpoint or nearest, between two neighbours.

    Raises:
        ValueError: for levels outside of [0, 1], or another interpolation.

    Examples:
        >>> import paddle
        >>> paddle.quantile(paddle.to_tensor([1.0, 2.0, 3.0, 5.0]), 0.5).item()
        2.5
    """
    return _quantile(x, q, axis, keepdim, interpolation, False)


def nanquantile(x, q, axis=None, keepdim=False, interpolation="linear"):
    """`quantile` of the elements that are not NaN.

    Examples:
        >>> import paddle
        >>> paddle.nanquantile(paddle.to_tensor([1.0, float("nan"), 3.0]), 0.5).item()
        2.0
    """
    return _quantile(x, q, axis, keepdim, interpolation, True)


def nanmedian(x, axis=None, keepdim=False, name=None):
    """The median of the elements that are not NaN; the mean of the middle two of an even number.

    Examples:
        >>> import paddle
        >>> paddle.nanmedian(paddle.to_tensor([1.0, float("nan"), 3.0])).item()
        2.0
    """
    return nanquantile(x, 0.5, axis=axis, keepdim=keepdim)


def kthvalue(x, k, axis=None, keepdim=False, name=None):
    """The k-th least element along `axis` (by default the last), and its index.

    Args:
        k (int): from 1 to the size of the dimension.

    Raises:
        ValueError: for another `k`.

    Examples:
        >>> import paddle
        >>> value, index = paddle.kthvalue(paddle.to_tensor([3.0, 1.0, 2.0]), 2)
        >>> value.item(), index.item()
        (2.0, 2)
    """
    axis = -1 if axis is None else axis
    size = x.shape[axis]
    if not 1 <= k <= size:
        raise ValueError(f"kthvalue: k must be in [1, {size}], the size of dimension {axis}, got {k}")
    axis %= len(x.shape)
    order = paddle.argsort(x, axis=axis)
    values = paddle.sort(x, axis=axis)
    picked = [paddle.slice(v, [axis], [k - 1], [k]) for v in (values, order)]
    if not keepdim and len(x.shape) > 1:
        picked = [paddle.squeeze(v, axis) for v in picked]
    return picked[0], picked[1]


def _neighbours(x: Any, axis: int) -> tuple[Any, Any]:
    """All elements along `axis` but the first, and all but the last."""
    size = x.shape[axis]
    return paddle.slice(x, [axis], [1], [size]), paddle.slice(x, [axis], [0], [size - 1])


def diff(x, n=1, axis=-1, prepend=None, append=None, name=None):
    """Differences of neighbours along `axis`, `n` times.

    Args:
        prepend, append (Tensor, optional): put before and behind `x` first.

    Examples:
        >>> import paddle
        >>> paddle.diff(paddle.to_tensor([1, 4, 9])).numpy().tolist()
        [3, 5]
    """
    parts = [p for p in (prepend, x, append) if p is not None]
    x = paddle.concat(parts, axis) if len(parts) > 1 else x
    axis %= len(x.shape)
    for _ in range(n):
        upper, lower = _neighbours(x, axis)
        x = paddle.logical_xor(upper, lower) if convert_dtype(x.dtype) == "bool" else upper - lower
    return x


def _trapezoids(y, x, dx, axis):
    axis %= len(y.shape)
    upper, lower = _neighbours(y, axis)
    if x is not None and dx is not None:
        raise ValueError("trapezoid: only one of x and dx may be given")
    if x is None:
        width = 1.0 if dx is None else dx
    else:
        width = diff(x)
        if len(x.shape) == 1:
            sizes = [1] * len(y.shape)
            sizes[axis] = y.shape[axis] - 1
            width = paddle.reshape(width, sizes)
    return (upper + lower) * 0.5 * width


def trapezoid(y, x=None, dx=None, axis=-1, name=None):
    """The integral of `y` along `axis` by the trapezoidal rule.

    Args:
        x (Tensor, optional): the places of the values; without it they are `dx` (1.0) apart.

    Examples:
        >>> import paddle
        >>> paddle.trapezoid(paddle.to_tensor([1.0, 2.0, 3.0])).item()
        4.0
    """
    return paddle.sum(_trapezoids(y, x, dx, axis), axis=axis)


def cumulative_trapezoid(y, x=None, dx=None, axis=-1, name=None):
    """The integrals from the first value to each later one, by the trapezoidal rule.

    Examples:
        >>> import paddle
        >>> paddle.cumulative_trapezoid(paddle.to_tensor([1.0, 2.0, 3.0])).numpy().tolist()
        [1.5, 4.0]
    """
    return paddle.cumsum(_trapezoids(y, x, dx, axis), axis=axis)


def cumprod(x, dim=None, dtype=None, name=None):
    """Products of the first 1, 2, ... elements along `dim`.

    Examples:
        >>> import paddle
        >>> paddle.cumprod(paddle.to_tensor([1.0, 2.0, 3.0]), 0).numpy().tolist()
        [1.0, 2.0, 6.0]
    """
    x = x if dtype is None else paddle.cast(x, dtype)
    if dim is None:
        x, dim = paddle.reshape(x, [-1]), 0
    products: list[Any] = []
    for part in paddle.unbind(x, dim):
        products.append(products[-1] * part if products else part)
    return paddle.stack(products, dim)


def logcumsumexp(x, axis=None, dtype=None, name=None):
    """The logarithm of the sums of exponentials of the first 1, 2, ... elements along `axis`.

    Examples:
        >>> import paddle
        >>> paddle.logcumsumexp(paddle.to_tensor([0.0, 0.0]), 0).numpy().astype("float64").round(4).tolist()
        [0.0, 0.6931]
    """
    x = x if dtype is None else paddle.cast(x, dtype)
    if axis is None:
        x, axis = paddle.reshape(x, [-1]), 0
    sums: list[Any] = []
    for part in paddle.unbind(x, axis):
        sums.append(paddle.logaddexp(sums[-1], part) if sums else part)
    return paddle.stack(sums, axis)


def bincount(x, weights=None, minlength=0, name=None):
    """The number of occurrences of each integer, or the sums of their weights.

    Args:
        x (Tensor): one-dimensional, integers of at least 0.
        weights (Tensor, optional): of the shape of `x`.
        minlength (int): the least size of the result.

    Raises:
        ValueError: for negative integers.

    Examples:
        >>> import paddle
        >>> paddle.bincount(paddle.to_tensor([0, 2, 2])).numpy().tolist()
        [1, 0, 2]
    """
    values = x.numpy()
    if values.size and values.min() < 0:
        raise ValueError(f"bincount: x must not be negative, its least element is {values.min()}")
    size = max(int(values.max()) + 1 if values.size else 0, minlength)
    start = paddle.zeros([size], "int64" if weights is None else weights.dtype)
    if not values.size:
        return start
    return paddle.scatter_nd_add(
        paddle.cast(start, "float64") if weights is None else start,
        paddle.reshape(paddle.cast(x, "int64"), [-1, 1]),
        paddle.ones([values.size], "float64") if weights is None else weights,
    ).astype(start.dtype)


def searchsorted(sorted_sequence, values, out_int32=False, right=False, name=None):
    """The index at which each value keeps the last dimension of `sorted_sequence` in order; NaN is behind all.

    Args:
        sorted_sequence (Tensor): ascending along the last dimension; one-dimensional for all values, else with the
            leading sizes of `values`.
        right (bool): the index behind equal elements instead of before.

    Examples:
        >>> import paddle
        >>> paddle.searchsorted(paddle.to_tensor([1.0, 3.0]), paddle.to_tensor([2.0, 3.0])).numpy().tolist()
        [1, 1]
    """
    flat = len(sorted_sequence.shape) == 1
    wanted = paddle.reshape(values, [-1]) if flat else values
    size = int(sorted_sequence.shape[-1])
    if size > _FEW:
        count = _by_halves(sorted_sequence, wanted, right, size, flat)
    else:
        edges, wanted = paddle.unsqueeze(sorted_sequence, -2), paddle.unsqueeze(wanted, -1)
        behind = edges > wanted if right else edges >= wanted
        count = paddle.sum(paddle.cast(paddle.logical_not(behind), "int64"), axis=-1)
    return paddle.cast(paddle.reshape(count, values.shape), "int32" if out_int32 else "int64")


#: Most edges that are compared with each value; more are searched by halves, in memory that does not depend on them.
_FEW = 16


def _by_halves(edges, wanted, right, size, flat):
    """The number of edges before each value: from the highest, each bit is set where the edge there is before."""
    found = paddle.zeros_like(paddle.cast(wanted, "int64"))
    for bit in reversed(range(size.bit_length())):
        tried = found + (1 << bit)
        at = paddle.minimum(tried, paddle.full_like(tried, size)) - 1
        edge = paddle.gather(edges, at) if flat else paddle.take_along_axis(edges, at, -1)
        behind = edge > wanted if right else edge >= wanted
        behind = paddle.logical_or(behind, tried > paddle.full_like(tried, size))
        found = paddle.where(behind, found, tried)
    return found


def bucketize(x, sorted_sequence, out_int32=False, right=False, name=None):
    """`searchsorted` with one-dimensional edges and the arguments swapped.

    Examples:
        >>> import paddle
        >>> paddle.bucketize(paddle.to_tensor([2.0]), paddle.to_tensor([1.0, 3.0])).item()
        1
    """
    return searchsorted(sorted_sequence, x, out_int32, right)


name_errors(globals())
