"""Linear algebra: products, norms, factorizations, inverses and transposes of matrices."""

from __future__ import annotations

from paddle import _ops
from paddle._basics.checks import INTS, NUMBERS
from paddle._basics.mode import in_static_mode
from paddle._basics.shapes import check_permutation
from paddle._core import Tensor
from paddle._dispatch.append import checked, named
from paddle._dispatch.argument_checks import check_arguments

__all__ = [
    "addmm",
    "bmm",
    "cholesky",
    "cross",
    "dist",
    "dot",
    "histogram",
    "inverse",
    "kron",
    "matmul",
    "mm",
    "mv",
    "norm",
    "t",
    "trace",
    "transpose",
]


def matmul(x, y, transpose_x=False, transpose_y=False, name=None) -> Tensor:
    """The matrix product; leading dimensions are broadcast, a vector counts as a row (left) or column (right).

    Args:
        x, y (Tensor): float32 or float64, at least one dimension.
        transpose_x, transpose_y (bool): swap the last two dimensions first.

    Raises:
        ValueError: for sizes that do not match.

    Examples:
        >>> import paddle
        >>> paddle.matmul(paddle.ones([2, 3]), paddle.ones([3, 4])).shape
        [2, 4]
    """
    if name is None and not transpose_x and not transpose_y and not in_static_mode():
        return _ops.matmul_v2(x, y)
    return checked(name, _ops.matmul_v2, x, y, trans_x=transpose_x, trans_y=transpose_y)


def mm(input, mat2, name=None) -> Tensor:  # noqa: A002
    """The matrix product of `input` and `mat2`; see `matmul`."""
    if in_static_mode():
        check_arguments("mm", input, mat2)
        a, b = list(input.shape), list(mat2.shape)
        if len(a) > 1 and len(b) > 1 and a[-1] != b[-2] and a[-1] != -1 and b[-2] != -1:
            raise ValueError(
                f"matmul: the inner sizes of x and y differ (after transpose_x and transpose_y), got shapes {a} and {b}"
            )
    return checked(name, _ops.matmul_v2, input, mat2)


def transpose(x, perm, name=None) -> Tensor:
    """`x` with its dimensions in the order `perm`.

    Examples:
        >>> import paddle
        >>> paddle.transpose(paddle.ones([2, 3, 4]), [1, 0, 2]).shape
        [3, 2, 4]
    """
    if not in_static_mode():
        return _ops.transpose2(x, axis=perm)
    check_arguments("transpose", x, perm)
    check_permutation(perm, len(x.shape))
    return named(name, _ops.transpose2, x, axis=list(perm))


def t(input, name=None) -> Tensor:  # noqa: A002
    """The transpose of a matrix; a vector or scalar is returned unchanged.

    Raises:
        ValueError: for more than two dimensions.
    """
    if len(input.shape) > 2:
        raise ValueError(
            f"t: input must have at most 2 dimensions, got {len(input.shape)}; paddle.transpose takes more"
        )
    check_arguments("t", input)
    return input if len(input.shape) <= 1 else _ops.transpose2(input, axis=[1, 0])


def _differ(a: int, b: int) -> bool:
    """Whether two sizes are known (not negative) and differ."""
    return a != b and a >= 0 and b >= 0


def bmm(x, y, name=None) -> Tensor:
    """The matrix products of two batches.

    Args:
        x (Tensor): [batch, m, k]; float32 or float64.
        y (Tensor): [batch, k, n], of the same type.

    Returns:
        Tensor: [batch, m, n].

    Raises:
        ValueError: for other shapes.

    Examples:
        >>> import paddle
        >>> paddle.bmm(paddle.ones([2, 1, 3]), paddle.ones([2, 3, 1])).numpy().ravel().tolist()
        [3.0, 3.0]
    """
    a, b = list(x.shape), list(y.shape)
    if not len(a) == len(b) == 3:
        raise ValueError(f"bmm: x and y must have 3 dimensions, got shapes {a} and {b}")
    if _differ(a[2], b[1]):
        raise ValueError(f"bmm: the columns of x and the rows of y must have the same number, got shapes {a} and {b}")
    if _differ(a[0], b[0]):
        raise ValueError(f"bmm: x and y must have the same batch size, got shapes {a} and {b}")
    return named(name, _ops.bmm, x, y)


def mv(x, vec, name=None) -> Tensor:
    """The product of a matrix and a vector.

    Args:
        x (Tensor): [m, n]; float32 or float64.
        vec (Tensor): [n], of the same type.

    Examples:
        >>> import paddle
        >>> paddle.mv(paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]]), paddle.to_tensor([1.0, 1.0])).numpy().tolist()
        [3.0, 7.0]
    """
    return checked(name, _ops.mv, x, vec)


def dot(x, y, name=None) -> Tensor:
    """The inner product of two vectors, or of the rows of two matrices.

    Args:
        x, y (Tensor): of the same shape, one or two dimensions; float32, float64, int32 or int64.

    Returns:
        Tensor: [1], or [rows, 1].

    Raises:
        RuntimeError: for other shapes.

    Examples:
        >>> import paddle
        >>> paddle.dot(paddle.to_tensor([1.0, 2.0]), paddle.to_tensor([3.0, 4.0])).numpy().tolist()
        [11.0]
    """
    if in_static_mode():
        assert x is not None and y is not None, "dot: x and y must be given"
    return checked(name, _ops.dot, x, y)


def addmm(input, x, y, beta=1.0, alpha=1.0, name=None) -> Tensor:  # noqa: A002
    """beta * input + alpha * (x @ y).

    Args:
        input (Tensor): a matrix that is broadcast to the shape of the product; float32 or float64.
        x, y (Tensor): [m, k] and [k, n], of the same type.
        beta, alpha (float): the two factors.

    Raises:
        ValueError: for other shapes.

    Examples:
        >>> import paddle
        >>> x = paddle.ones([2, 2])
        >>> paddle.addmm(x, x, x, beta=0.5, alpha=5.0).numpy().tolist()
        [[10.5, 10.5], [10.5, 10.5]]
    """
    i, a, b = list(input.shape), list(x.shape), list(y.shape)
    if not len(i) == len(a) == len(b) == 2:
        raise ValueError(f"addmm: input, x and y must have 2 dimensions, got shapes {i}, {a} and {b}")
    for have, want in zip(i, (a[0], b[1]), strict=True):
        if _differ(have, want) and have != 1:
            raise ValueError(f"addmm: input of shape {i} is not broadcast to {[a[0], b[1]]}, the shape of the product")
    if _differ(a[1], b[0]):
        raise ValueError(f"addmm: the columns of x and the rows of y must have the same number, got shapes {a} and {b}")
    return named(name, _ops.addmm, input, x, y, Alpha=alpha, Beta=beta)


def kron(x, y, name=None) -> Tensor:
    """The Kronecker product: each element of `x` times the whole of `y`.

    Args:
        x, y (Tensor): of one type: float16, float32, float64, int32, int64; in dygraph mode also complex.

    Returns:
        Tensor: each size is the product of the sizes of `x` and `y`; the shorter shape is padded with leading ones.

    Examples:
        >>> import paddle
        >>> paddle.kron(paddle.to_tensor([1, 2]), paddle.to_tensor([1, 10])).numpy().tolist()
        [1, 10, 2, 20]
    """
    return checked(name, _ops.kron, x, y)


def cross(x, y, axis=None, name=None) -> Tensor:
    """The cross product along a dimension of size 3.

    Args:
        x, y (Tensor): of the same shape and type: float32, float64, int32 or int64.
        axis (int, optional): the dimension; the first of size 3 by default.

    Raises:
        ValueError: if the size is not 3. IndexError: for an axis out of range.

    Examples:
        >>> import paddle
        >>> paddle.cross(paddle.to_tensor([1, 0, 0]), paddle.to_tensor([0, 1, 0])).numpy().tolist()
        [0, 0, 1]
    """
    if axis is None:
        return named(name, _ops.cross, x, y)
    return named(name, _ops.cross, x, y, dim=axis)


def trace(x, offset=0, axis1=0, axis2=1, name=None) -> Tensor:
    """The sums along a diagonal of the matrices in two dimensions of `x`.

    Args:
        x (Tensor): at least two dimensions; float16, float32, float64, int32 or int64.
        offset (int): the diagonal: above the main one if positive, below if negative.
        axis1, axis2 (int): the two dimensions.

    Examples:
        >>> import paddle
        >>> paddle.trace(paddle.to_tensor([[1, 2], [3, 4]])).numpy().tolist()
        [5]
    """
    if in_static_mode():
        check_arguments("trace", x)
        rank = len(x.shape)
        assert rank >= 2, f"trace: x must have 2 dimensions or more, got {rank}"
        for axis, what in ((axis1, "axis1"), (axis2, "axis2")):
            assert -rank <= axis < rank, f"trace: {what} must be in [{-rank}, {rank}), got {axis}"
        assert axis1 % rank != axis2 % rank, f"trace: axis1 and axis2 must differ, got {axis1} and {axis2}"
    return named(name, _ops.trace, x, offset=offset, axis1=axis1, axis2=axis2)


def cholesky(x, upper=False, name=None) -> Tensor:
    """The Cholesky factor of symmetric positive definite matrices.

    Args:
        x (Tensor): [..., n, n]; float32 or float64.
        upper (bool): the upper triangle U with x = U^T U, instead of the lower one L with x = L L^T.

    Raises:
        ValueError: for a matrix that is not positive definite.

    Examples:
        >>> import paddle
        >>> paddle.cholesky(paddle.to_tensor([[4.0, 2.0], [2.0, 5.0]])).numpy().tolist()
        [[2.0, 0.0], [1.0, 2.0]]
    """
    check_arguments("cholesky", upper)
    return named(name, _ops.cholesky, x, upper=upper)


def inverse(x, name=None) -> Tensor:
    """The inverses of square matrices.

    Args:
        x (Tensor): [..., n, n]; float32 or float64.

    Raises:
        ValueError: for a singular matrix.

    Examples:
        >>> import paddle
        >>> paddle.inverse(paddle.to_tensor([[2.0, 0.0], [0.0, 4.0]])).numpy().tolist()
        [[0.5, 0.0], [0.0, 0.25]]
    """
    return named(name, _ops.inverse, x)


def histogram(input, bins=100, min=0, max=0) -> Tensor:  # noqa: A002
    """The number of elements in each of `bins` equal intervals from `min` to `max`.

    Args:
        input (Tensor): float32, float64, int32 or int64.
        bins (int): number of intervals.
        min, max (int): the ends; if they are equal, the minimum and maximum of `input`.

    Returns:
        Tensor: int64 of shape [bins].

    Examples:
        >>> import paddle
        >>> paddle.histogram(paddle.to_tensor([1, 2, 1]), bins=4, min=0, max=3).numpy().tolist()
        [0, 2, 1, 0]
    """
    return _ops.histogram(input, bins=bins, min=min, max=max)


def dist(x, y, p=2) -> Tensor:
    """The p-norm of x - y; the shapes are broadcast.

    Args:
        x, y (Tensor): float32 or float64.
        p (float|int): the order: 0 counts the elements that differ, inf and -inf give the largest and smallest
            difference.

    Returns:
        Tensor: of shape [1].

    Examples:
        >>> import paddle
        >>> paddle.dist(paddle.to_tensor([3.0, 4.0]), paddle.to_tensor([0.0, 0.0])).numpy().tolist()
        [5.0]
    """
    check_arguments("dist", p)
    return _ops.dist(x, y, p=float(p))


def _frobenius(x, dim, keepdim, name) -> Tensor:
    keywords = {"reduce_all": True} if dim is None else {"dim": dim}
    return checked(name, _ops.frobenius_norm, x, keep_dim=keepdim, **keywords)


def _vector_norm(x, p, axis, keepdim, name) -> Tensor:
    return named(
        name, _ops.p_norm, x, porder=float(p), axis=-1 if axis is None else axis, keepdim=keepdim, asvector=axis is None
    )


def _entries_norm(x, p, axes, keepdim, name) -> Tensor:
    """The p-norm of all entries of each matrix."""
    sizes = _ops.abs(x)
    if p in (float("inf"), float("-inf")):
        reduce = _ops.reduce_max if p > 0 else _ops.reduce_min
        return named(name, reduce, sizes, dim=axes, keep_dim=keepdim)
    total = _ops.reduce_sum(_ops.pow(sizes, factor=float(p)), dim=axes, keep_dim=keepdim)
    return named(name, _ops.pow, total, factor=float(1.0 / p))


def norm(x, p="fro", axis=None, keepdim=False, name=None) -> Tensor:
    """Norms of vectors, or of matrices as vectors of their entries.

    Args:
        x (Tensor): float32 or float64.
        p (str|float): the order: "fro" is 2, 0 counts nonzero elements, inf and -inf give the largest and smallest
            absolute value.
        axis (int|list|tuple, optional): the dimension of the vectors, or the two of the matrices; by default all.
        keepdim (bool): keep reduced dimensions with size 1.

    Raises:
        ValueError: for another order or axis.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([[3.0, 4.0], [6.0, 8.0]])
        >>> paddle.norm(x, axis=1).numpy().tolist()
        [5.0, 10.0]
        >>> paddle.norm(x, p=1, axis=[0, 1]).numpy().tolist()
        [21.0]
    """
    if isinstance(p, str) and p != "fro":
        raise ValueError(f"norm: the only order that is a str is 'fro', got {p!r}")
    if p is not None and not isinstance(p, (str, *NUMBERS)):
        raise ValueError(f"norm: p must be 'fro' or a number, got {type(p)}")
    if axis is None and p is not None:
        return _frobenius(x, None, keepdim, name) if p == "fro" else _vector_norm(x, p, None, keepdim, name)
    if isinstance(axis, (list, tuple)):
        axis = list(axis)
        axis = axis[0] if len(axis) == 1 else axis
    if p is not None and isinstance(axis, INTS):
        return _vector_norm(x, 2 if p == "fro" else p, axis, keepdim, name)
    if p is None or not isinstance(axis, list) or len(axis) != 2:
        raise ValueError(f"norm: axis must be an int or a list of 2 at most, and p given, got axis {axis} and p {p}")
    if p == "fro":
        return _frobenius(x, axis, keepdim, name)
    if p == 0:
        raise ValueError(f"norm: for p = 0 axis must be an int or a list of one, got {axis}")
    return _entries_norm(x, p, axis, keepdim, name)
