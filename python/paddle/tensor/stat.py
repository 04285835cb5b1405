"""Mean, variance, standard deviation, median and number of elements."""

from __future__ import annotations

import math

from paddle import _ops
from paddle._basics.checks import INTS
from paddle._basics.dtypes import convert_dtype
from paddle._core import Tensor
from paddle._dispatch.append import named
from paddle._dispatch.argument_checks import check_arguments
from paddle._programs.variable import Variable

from .manipulation import flatten, slice
from .math import _axes, _rank
from .math import sum as _sum
from .search import topk

__all__ = ["mean", "var", "std", "numel", "median"]


def mean(x, axis=None, keepdim=False, name=None) -> Tensor:
    """The mean over `axis`, or over all elements.

    Args:
        x (Tensor): float32 or float64.

    Examples:
        >>> import paddle
        >>> paddle.mean(paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]]), axis=1).numpy().tolist()
        [1.5, 3.5]
    """
    check_arguments("mean/reduce_mean", x, axis)
    dim, reduce_all = _axes(axis, _rank(x))
    return named(name, _ops.reduce_mean, x, dim=dim, keep_dim=keepdim, reduce_all=reduce_all)


def var(x, axis=None, unbiased=True, keepdim=False, name=None) -> Tensor:
    """The variance over `axis`, or over all elements; the divisor is n - 1 if `unbiased` (0 for a single element)."""
    check_arguments("var", x)
    u = mean(x, axis, True)
    d = _ops.elementwise_sub(x, u)
    out = _sum(_ops.elementwise_mul(d, d), axis, keepdim=keepdim)
    # The number of elements reduced into each result, for every form of `axis`.
    if all(size >= 0 for size in x.shape):
        n = math.prod(x.shape) // max(math.prod(out.shape), 1)
        n = _ops.fill_constant(shape=[1], dtype=x.dtype, value=float(max(n - 1, 1) if unbiased else n))
    else:
        n = _ops.elementwise_div(numel(x).astype(x.dtype), numel(out).astype(x.dtype))
        if unbiased:
            one = _ops.fill_constant(shape=[1], dtype=x.dtype, value=1.0)
            n = _ops.elementwise_max(_ops.elementwise_sub(n, one), one)
    return named(name, _ops.elementwise_div, out, n)


def std(x, axis=None, unbiased=True, keepdim=False, name=None) -> Tensor:
    """The standard deviation over `axis`, or over all; see `var`."""
    square = var(x, axis, unbiased, keepdim)
    # 0 is a subgradient of the square root at 0, where its derivative is infinite
    zero = _ops.equal(square, _ops.scale(square, scale=0.0)).astype(square.dtype)
    root = _ops.sqrt(_ops.elementwise_add(square, zero))
    return named(name, _ops.elementwise_sub, root, zero)


def numel(x, name=None) -> Tensor:
    """The number of elements as an int64 Tensor of shape [1].

    Examples:
        >>> import paddle
        >>> paddle.numel(paddle.ones([2, 3])).numpy().tolist()
        [6]
    """
    if not isinstance(x, Variable):
        raise TypeError(f"numel: x must be a Tensor, got {type(x)}")
    return named(name, _ops.size, x)


def median(x, axis=None, keepdim=False, name=None) -> Tensor:
    """The middle element along `axis` (the mean of the two middle ones), as float32 or float64."""
    if not isinstance(x, Variable):
        raise TypeError(f"median: x must be a Tensor, got {type(x)}")
    if axis is not None and not isinstance(axis, INTS):
        raise ValueError("median: axis must be None or an int")
    rank = len(x.shape)
    if axis is None:
        x, at = flatten(x), 0
    else:
        if not -rank <= axis < rank:
            raise ValueError("median: axis must be None or an int in [-rank, rank) of x")
        at = int(axis) % rank
    n = x.shape[at]
    k = n // 2 + 1
    values, _ = topk(x, k, axis=at, largest=False)
    kind = "float64" if convert_dtype(x.dtype) == "float64" else "float32"
    middle = slice(values, [at], [k - 1], [k])
    if n % 2 == 0:
        middle = _ops.scale(
            _ops.elementwise_add(slice(values, [at], [k - 2], [k - 1]).astype(kind), middle.astype(kind)), scale=0.5
        )
    else:
        middle = middle.astype(kind)
    if axis is None:
        return _ops.reshape2(middle, shape=[1] * rank if keepdim else [1])
    if not keepdim:
        shape = [s for i, s in enumerate(x.shape) if i != at]
        middle = _ops.reshape2(middle, shape=shape or [1])
    return middle
