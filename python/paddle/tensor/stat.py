"""Statistics."""
from __future__ import annotations

from paddle import _core, _ops
from paddle._append import named
from paddle.framework.checks import check_type, check_variable_and_dtype

from .math import _axes, _rank

_static = _core.in_static_mode

__all__ = ["mean", "var", "std", "numel", "median"]


def mean(x, axis=None, keepdim=False, name=None):
    """The mean over `axis`, or over all.

    Args:
        x (Tensor): float32 or float64.

    Examples:
        >>> import paddle
        >>> paddle.mean(paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]]), axis=1).numpy().tolist()
        [1.5, 3.5]
    """
    if _static():
        check_variable_and_dtype(x, "x/input", ["uint16", "float16", "float32", "float64"], "mean/reduce_mean")
        check_type(axis, "axis/dim", (int, list, tuple, type(None)), "mean/reduce_mean")
    dim, reduce_all = _axes(axis, _rank(x))
    return named(name, _ops.reduce_mean, x, dim=dim, keep_dim=keepdim, reduce_all=reduce_all)


def var(x, axis=None, unbiased=True, keepdim=False, name=None):
    """The variance over `axis`, or over all; divided by n - 1 where `unbiased`."""
    if _static():
        check_variable_and_dtype(x, "x", ["float32", "float64"], "var")
    rank = _rank(x)
    u = mean(x, axis, True)
    d = _ops.elementwise_sub(x, u)
    out = mean(_ops.elementwise_mul(d, d), axis, keepdim)
    if not unbiased:
        return out
    dims = range(rank) if axis is None else [axis] if isinstance(axis, int) else axis
    n = 1
    for i in dims:
        n *= x.shape[i]
    factor = n / (n - 1.0) if n > 1 else float("nan")
    return named(name, _ops.scale, out, scale=factor)


def std(x, axis=None, unbiased=True, keepdim=False, name=None):
    """The standard deviation over `axis`, or over all; see `var`."""
    return named(name, _ops.sqrt, var(x, axis, unbiased, keepdim))


def numel(x, name=None):
    """The number of elements as an int64 Tensor of shape [1]."""
    import paddle

    if _static():
        return _ops.reduce_prod(_ops.cast(_ops.shape(x), in_dtype=2, out_dtype=3), reduce_all=True)
    return paddle.to_tensor([x.size], dtype="int64")


def median(x, axis=None, keepdim=False, name=None):
    """The middle element along `axis` (the mean of the two middle ones), as float32 or float64."""
    from .manipulation import flatten, slice
    from .search import topk

    if axis is not None and not isinstance(axis, int):
        raise ValueError("median: axis must be None or an int")
    rank = len(x.shape)
    if axis is None:
        x, at = flatten(x), 0
    else:
        if not -rank <= axis < rank:
            raise ValueError("median: axis must be None or an int in [-rank, rank) of x")
        at = axis % rank
    n = x.shape[at]
    k = n // 2 + 1
    values, _ = topk(x, k, axis=at, largest=False)
    kind = "float64" if x._dtype_name == "float64" else "float32"
    middle = slice(values, [at], [k - 1], [k])
    if n % 2 == 0:
        middle = _ops.scale(_ops.elementwise_add(slice(values, [at], [k - 2], [k - 1]).astype(kind),
                                                 middle.astype(kind)), scale=0.5)
    else:
        middle = middle.astype(kind)
    if axis is None:
        return _ops.reshape2(middle, shape=[1] * rank if keepdim else [1])
    if not keepdim:
        shape = [s for i, s in enumerate(x.shape) if i != at]
        middle = _ops.reshape2(middle, shape=shape or [1])
    return middle
