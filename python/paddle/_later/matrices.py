"""Decompositions and systems of equations of `paddle.linalg` of Paddle 2.1 to 2.6.

numpy computes them on the host (`host.py`). Source:
https://www.paddlepaddle.org.cn/documentation/docs/en/2.6/api/paddle/linalg/Overview_en.html
"""

from __future__ import annotations

from typing import Any

import paddle
from paddle._basics.dtypes import convert_dtype
from paddle._basics.element_types import FLOATS

from . import decompositions as d
from .host import call

__all__: list[str] = []


_COMPLEX = {"float32": "complex64", "float64": "complex128", "complex64": "complex64", "complex128": "complex128"}
_REAL = {"complex64": "float32", "complex128": "float64", "float32": "float32", "float64": "float64"}


def _matrices(function: str, x: Any, square: bool = False, kinds: Any = FLOATS, name: str = "x") -> tuple:
    """The batch shape, rows, columns and data type, checked."""
    shape = list(x.shape)
    if len(shape) < 2:
        raise ValueError(f"{function}: {name} must have at least 2 dimensions, got shape {shape}")
    if square and shape[-1] != shape[-2] and -1 not in shape[-2:]:
        raise ValueError(f"{function}: {name} must be square matrices, got shape {shape}")
    dtype = convert_dtype(x.dtype)
    if dtype not in kinds:
        raise TypeError(f"{function}: {name} must be {', '.join(kinds)}, got {dtype}")
    return shape[:-2], shape[-2], shape[-1], dtype


def _least(m: int, n: int) -> int:
    return -1 if -1 in (m, n) else min(m, n)


def svd(x, full_matrices=False, name=None):
    """The singular value decomposition x = U diag(S) VH.

    Args:
        x (Tensor): matrices [..., m, n], float32 or float64.
        full_matrices (bool): U is [m, m] and VH [n, n]; otherwise [m, k] and [k, n] with k = min(m, n).
        name (str, optional): ignored.

    Returns:
        tuple of Tensor: U, S (descending) and VH.

    Raises:
        ValueError: for fewer than two dimensions. TypeError: for other data types.

    Examples:
        >>> import paddle
        >>> u, s, vh = paddle.linalg.svd(paddle.to_tensor([[3.0, 0.0], [0.0, 2.0]]))
        >>> s.numpy().tolist()
        [3.0, 2.0]
    """
    batch, m, n, dtype = _matrices("svd", x)
    k = _least(m, n)
    left, right = ([m, m], [n, n]) if full_matrices else ([m, k], [k, n])
    outputs = [([*batch, *left], dtype), ([*batch, k], dtype), ([*batch, *right], dtype)]
    return tuple(call(d.SVD, [x], outputs, full=bool(full_matrices)))


def qr(x, mode="reduced", name=None):
    """The decomposition x = Q R into an orthogonal and an upper triangular matrix.

    Args:
        x (Tensor): matrices [..., m, n], float32 or float64.
        mode (str): "reduced", "complete" (Q is [m, m]) or "r" (only R is returned).
        name (str, optional): ignored.

    Returns:
        tuple of Tensor: Q and R; with mode "r" the Tensor R.

    Raises:
        ValueError: for another mode or fewer than two dimensions. TypeError: for other data types.

    Examples:
        >>> import paddle
        >>> q, r = paddle.linalg.qr(paddle.to_tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
        >>> q.shape, r.shape
        ([3, 2], [2, 2])
    """
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr: mode must be 'reduced', 'complete' or 'r', got {mode!r}")
    batch, m, n, dtype = _matrices("qr", x)
    k = m if mode == "complete" else _least(m, n)
    r = ([*batch, k, n], dtype)
    made = call(d.QR, [x], [r] if mode == "r" else [([*batch, m, k], dtype), r], mode=mode)
    return made[0] if mode == "r" else tuple(made)


def eigh(x, UPLO="L", name=None):  # noqa: N803 (Paddle's name)
    """The eigenvalues (ascending) and eigenvectors (columns) of symmetric or Hermitian matrices.

    Args:
        x (Tensor): matrices [..., n, n], float32, float64, complex64 or complex128.
        UPLO (str): the triangle that is read: "L" or "U".
        name (str, optional): ignored.

    Returns:
        tuple of Tensor: real values [..., n] and vectors [..., n, n].

    Raises:
        ValueError: for matrices that are not square, or another `UPLO`. TypeError: for other data types.

    Examples:
        >>> import paddle
        >>> paddle.linalg.eigh(paddle.to_tensor([[2.0, 0.0], [0.0, 1.0]]))[0].numpy().tolist()
        [1.0, 2.0]
    """
    if UPLO not in ("L", "U"):
        raise ValueError(f"eigh: UPLO must be 'L' or 'U', got {UPLO!r}")
    batch, n, _, dtype = _matrices("eigh", x, True, tuple(_COMPLEX))
    return tuple(call(d.EIGH, [x], [([*batch, n], _REAL[dtype]), ([*batch, n, n], dtype)], uplo=UPLO))


def eigvalsh(x, UPLO="L", name=None):  # noqa: N803 (Paddle's name)
    """The eigenvalues of symmetric or Hermitian matrices, ascending.

    Args:
        x (Tensor): matrices [..., n, n], float32, float64, complex64 or complex128.
        UPLO (str): the triangle that is read: "L" or "U".
        name (str, optional): ignored.

    Raises:
        ValueError: for matrices that are not square, or another `UPLO`. TypeError: for other data types.

    Examples:
        >>> import paddle
        >>> paddle.linalg.eigvalsh(paddle.to_tensor([[2.0, 0.0], [0.0, 1.0]])).numpy().tolist()
        [1.0, 2.0]
    """
    return eigh(x, UPLO)[0]


def eig(x, name=None):
    """The eigenvalues and eigenvectors (columns, of norm 1) of matrices.

    Args:
        x (Tensor): matrices [..., n, n], float32, float64, complex64 or complex128.
        name (str, optional): ignored.

    Returns:
        tuple of Tensor: complex values [..., n] and vectors [..., n, n].

    Raises:
        ValueError: for matrices that are not square. TypeError: for other data types.

    Examples:
        >>> import paddle
        >>> sorted(paddle.linalg.eig(paddle.to_tensor([[0.0, 1.0], [-1.0, 0.0]]))[0].numpy().imag.tolist())
        [-1.0, 1.0]
    """
    batch, n, _, dtype = _matrices("eig", x, True, tuple(_COMPLEX))
    out = _COMPLEX[dtype]
    return tuple(call(d.EIG, [x], [([*batch, n], out), ([*batch, n, n], out)]))


def eigvals(x, name=None):
    """The eigenvalues of matrices, complex.

    Args:
        x (Tensor): matrices [..., n, n], float32, float64, complex64 or complex128.
        name (str, optional): ignored.

    Raises:
        ValueError: for matrices that are not square. TypeError: for other data types.

    Examples:
        >>> import paddle
        >>> sorted(paddle.linalg.eigvals(paddle.to_tensor([[3.0, 0.0], [0.0, 2.0]])).numpy().real.tolist())
        [2.0, 3.0]
    """
    return eig(x)[0]


def det(x, name=None):
    """The determinants of matrices.

    Args:
        x (Tensor): matrices [..., n, n], float32 or float64.
        name (str, optional): ignored.

    Returns:
        Tensor: [...]; [1] for one matrix.

    Raises:
        ValueError: for matrices that are not square. TypeError: for other data types.

    Examples:
        >>> import paddle
        >>> round(paddle.linalg.det(paddle.to_tensor([[4.0, 1.0], [1.0, 3.0]])).item(), 4)
        11.0
    """
    batch, _, _, dtype = _matrices("det", x, True)
    return call(d.DET, [x], [(batch, dtype)])[0]


def slogdet(x, name=None):
    """The sign, and the logarithm of the absolute value, of the determinants of matrices.

    Args:
        x (Tensor): matrices [..., n, n], float32 or float64.
        name (str, optional): ignored.

    Returns:
        Tensor: [2, ...]: signs and logarithms.

    Raises:
        ValueError: for matrices that are not square. TypeError: for other data types.

    Examples:
        >>> import paddle
        >>> paddle.linalg.slogdet(paddle.eye(2)).numpy().tolist()
        [1.0, 0.0]
    """
    batch, _, _, dtype = _matrices("slogdet", x, True)
    return call(d.SLOGDET, [x], [([2, *batch], dtype)])[0]


def _common(a: list, b: list, function: str) -> list:
    """The broadcast batch shape."""
    rank = max(len(a), len(b))
    out = []
    for x, y in zip([1] * (rank - len(a)) + a, [1] * (rank - len(b)) + b, strict=True):
        if x != y and 1 not in (x, y) and -1 not in (x, y):
            raise ValueError(f"{function}: the batches {a} and {b} cannot be broadcast")
        out.append(y if x == 1 else x)
    return out


def solve(x, y, name=None):
    """The solution of x @ out = y.

    Args:
        x (Tensor): matrices [..., n, n], float32 or float64.
        y (Tensor): [..., n, k], or vectors [..., n].
        name (str, optional): ignored.

    Raises:
        ValueError: for matrices that are not square, or shapes that do not fit. TypeError: for other data types.
        numpy.linalg.LinAlgError: for a singular matrix.

    Examples:
        >>> import paddle
        >>> x, y = paddle.to_tensor([[3.0, 1.0], [1.0, 2.0]]), paddle.to_tensor([9.0, 8.0])
        >>> paddle.linalg.solve(x, y).numpy().round(4).tolist()
        [2.0, 3.0]
    """
    batch, n, _, dtype = _matrices("solve", x, True)
    shape = list(y.shape)
    vector = len(shape) == 1 or len(shape) == len(batch) + 1 and shape == [*batch, n]
    if convert_dtype(y.dtype) != dtype:
        raise TypeError(f"solve: x is {dtype} and y {convert_dtype(y.dtype)}; the types must be equal")
    rows = shape[-1] if vector else shape[-2]
    if rows != n and -1 not in (rows, n):
        raise ValueError(f"solve: y must have {n} rows, as x, got shape {shape}")
    common = _common(batch, shape[: -1 if vector else -2], "solve")
    return call(d.SOLVE, [x, y], [([*common, n] if vector else [*common, n, shape[-1]], dtype)], vector=vector)[0]


def triangular_solve(x, y, upper=True, transpose=False, unitriangular=False, name=None):
    """The solution of x @ out = y for a triangular `x`.

    Args:
        x (Tensor): matrices [..., n, n], float32 or float64; the other triangle is not read.
        y (Tensor): [..., n, k].
        upper (bool): the triangle that is read.
        transpose (bool): solves transpose(x) @ out = y.
        unitriangular (bool): the diagonal is ones and not read.
        name (str, optional): ignored.

    Raises:
        ValueError: for matrices that are not square, or shapes that do not fit. TypeError: for other data types.

    Examples:
        >>> import paddle
        >>> x, y = paddle.to_tensor([[1.0, 1.0], [0.0, 2.0]]), paddle.to_tensor([[3.0], [4.0]])
        >>> paddle.linalg.triangular_solve(x, y).numpy().tolist()
        [[1.0], [2.0]]
    """
    _, n, _, dtype = _matrices("triangular_solve", x, True)
    if unitriangular:
        triangle = (paddle.triu(x, 1) if upper else paddle.tril(x, -1)) + paddle.eye(n, dtype=dtype)
    else:
        triangle = paddle.triu(x) if upper else paddle.tril(x)
    return solve(_transposed(triangle) if transpose else triangle, y)


def _transposed(x: Any) -> Any:
    rank = len(x.shape)
    return paddle.transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def cholesky_solve(x, y, upper=False, name=None):
    """The solution of A @ out = x, where `y` is the Cholesky factor of A.

    Args:
        x (Tensor): [..., n, k], float32 or float64.
        y (Tensor): triangular matrices [..., n, n]: A = y y^T, or y^T y with `upper`.
        upper (bool): whether `y` is upper triangular.
        name (str, optional): ignored.

    Raises:
        ValueError: for matrices that are not square, or shapes that do not fit. TypeError: for other data types.

    Examples:
        >>> import paddle
        >>> paddle.linalg.cholesky_solve(paddle.to_tensor([[8.0]]), paddle.to_tensor([[2.0]])).numpy().tolist()
        [[2.0]]
    """
    _matrices("cholesky_solve", y, True, name="y")
    half = triangular_solve(y, x, upper, transpose=bool(upper))
    return triangular_solve(y, half, upper, transpose=not upper)


def pinv(x, rcond=1e-15, hermitian=False, name=None):
    """The pseudo-inverses of matrices.

    Args:
        x (Tensor): matrices [..., m, n], float32 or float64.
        rcond (float): singular values below rcond times the greatest one count as 0.
        hermitian (bool): `x` is symmetric.
        name (str, optional): ignored.

    Raises:
        ValueError: for fewer than two dimensions. TypeError: for other data types.

    Examples:
        >>> import paddle
        >>> paddle.linalg.pinv(paddle.to_tensor([[2.0, 0.0], [0.0, 4.0]])).numpy().round(4).tolist()
        [[0.5, 0.0], [0.0, 0.25]]
    """
    batch, m, n, dtype = _matrices("pinv", x, hermitian)
    return call(d.PINV, [x], [([*batch, n, m], dtype)], rcond=float(rcond), hermitian=bool(hermitian))[0]


def matrix_rank(x, tol=None, hermitian=False, name=None):
    """The number of singular values above a limit.

    Args:
        x (Tensor): matrices [..., m, n], float32 or float64.
        tol (float|Tensor, optional): the limit; by default the greatest one times max(m, n) times the machine epsilon.
        hermitian (bool): `x` is symmetric.
        name (str, optional): ignored.

    Returns:
        Tensor: int32 [...]; [1] for one matrix.

    Raises:
        ValueError: for fewer than two dimensions. TypeError: for other data types.

    Examples:
        >>> import paddle
        >>> paddle.linalg.matrix_rank(paddle.ones([3, 3])).item()
        1
    """
    batch, _, _, _ = _matrices("matrix_rank", x, hermitian)
    given = tol is not None and not isinstance(tol, (int, float))
    limit = None if tol is None or given else float(tol)
    inputs = [x, tol] if given else [x]
    return call(d.MATRIX_RANK, inputs, [(batch, "int32")], limit=limit, hermitian=bool(hermitian))[0]


def lstsq(x, y, rcond=None, driver=None, name=None):
    """The solution of least norm of min |x @ out - y|.

    Args:
        x (Tensor): matrices [..., m, n], float32 or float64.
        y (Tensor): [..., m, k].
        rcond (float, optional): singular values below rcond times the greatest one count as 0; by default the machine
            epsilon times max(m, n).
        driver (str, optional): LAPACK's routine: "gels", "gelsy", "gelsd" or "gelss"; all have one result here.
        name (str, optional): ignored.

    Returns:
        tuple of Tensor: solution [..., n, k]; sums of squared residuals [..., k] (empty unless m > n and the rank is
        n); rank; singular values. Only the solution has a gradient.

    Raises:
        ValueError: for another driver or shapes that do not fit. TypeError: for other data types.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
        >>> paddle.linalg.lstsq(x, paddle.to_tensor([[1.0], [3.0], [5.0]]))[0].numpy().round(3).tolist()
        [[1.0], [2.0]]
    """
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise ValueError(f"lstsq: driver must be 'gels', 'gelsy', 'gelsd', 'gelss' or None, got {driver!r}")
    batch, m, n, dtype = _matrices("lstsq", x)
    _, rows, k, _ = _matrices("lstsq", y, name="y")
    if rows != m and -1 not in (rows, m):
        raise ValueError(f"lstsq: y must have {m} rows, as x, got shape {list(y.shape)}")
    epsilon = 1.1920929e-07 if dtype == "float32" else 2.220446049250313e-16
    limit = epsilon * max(m, n) if rcond is None else float(rcond)
    solution = paddle.matmul(pinv(x, limit), y)
    outputs = [([*batch, k] if m > n else [0], dtype), (batch, "int32"), ([*batch, _least(m, n)], dtype)]
    return (solution, *call(d.RESIDUALS, [x, y], outputs, rcond=None if rcond is None else float(rcond)))


def lu(x, pivot=True, get_infos=False, name=None):
    """The decomposition x = P L U with row pivots.

    Args:
        x (Tensor): matrices [..., m, n], float32 or float64.
        pivot (bool): must be True.
        get_infos (bool): returns a third Tensor: 0, or the place (from 1 on) of the first pivot that is zero.
        name (str, optional): ignored.

    Returns:
        tuple of Tensor: L (below the diagonal; its own is ones) and U in one matrix; pivots, int32 from 1 on.

    Raises:
        ValueError: for pivot=False or fewer than two dimensions. TypeError: for other data types.

    Examples:
        >>> import paddle
        >>> packed, pivots = paddle.linalg.lu(paddle.to_tensor([[1.0, 2.0], [4.0, 4.0]]))
        >>> packed.numpy().tolist(), pivots.numpy().tolist()
        ([[4.0, 4.0], [0.25, 1.0]], [2, 2])
    """
    if not pivot:
        raise ValueError("lu: pivot must be True, got False")
    batch, m, n, dtype = _matrices("lu", x)
    outputs = [([*batch, m, n], dtype), ([*batch, _least(m, n)], "int32"), (batch, "int32")]
    made = call(d.LU, [x], outputs)
    return tuple(made) if get_infos else tuple(made[:2])


def lu_unpack(x, y, unpack_ludata=True, unpack_pivots=True, name=None):
    """P, L and U of the result of `lu`.

    Args:
        x (Tensor): L and U in one matrix [..., m, n].
        y (Tensor): pivots.
        unpack_ludata (bool): whether L and U are wanted; None otherwise.
        unpack_pivots (bool): whether P is wanted; None otherwise.
        name (str, optional): ignored.

    Returns:
        tuple of Tensor: P [..., m, m], L [..., m, k], U [..., k, n].

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([[1.0, 2.0], [4.0, 4.0]])
        >>> p, l, u = paddle.linalg.lu_unpack(*paddle.linalg.lu(x))
        >>> paddle.matmul(p, paddle.matmul(l, u)).numpy().tolist()
        [[1.0, 2.0], [4.0, 4.0]]
    """
    batch, m, n, dtype = _matrices("lu_unpack", x)
    k = min(m, n)
    p = call(d.UNPACK_PIVOTS, [y], [([*batch, m, m], dtype)], m=m)[0] if unpack_pivots else None
    if not unpack_ludata:
        return p, None, None
    last = len(batch) + 1
    lower = paddle.slice(x, [last], [0], [k])
    upper = paddle.slice(x, [last - 1], [0], [k])
    return p, paddle.tril(lower, -1) + paddle.eye(m, k, dtype), paddle.triu(upper)


def householder_product(x, tau, name=None):
    """The first columns of the product of Householder matrices I - tau v v^T.

    Args:
        x (Tensor): [..., m, n] with m >= n: the vectors v in columns, below the diagonal (there 1).
        tau (Tensor): [..., k], k <= n.
        name (str, optional): ignored.

    Raises:
        ValueError: for shapes that do not fit. TypeError: for other data types.

    Examples:
        >>> import paddle
        >>> x, tau = paddle.to_tensor([[1.0], [0.0]]), paddle.to_tensor([2.0])
        >>> paddle.linalg.householder_product(x, tau).numpy().tolist()
        [[-1.0], [0.0]]
    """
    batch, m, n, dtype = _matrices("householder_product", x)
    k = tau.shape[-1]
    if m < n or k > n:
        raise ValueError(
            f"householder_product: x [m, n] and tau [k] need m >= n >= k, got shapes {list(x.shape)} and "
            f"{list(tau.shape)}"
        )
    vectors = paddle.tril(x, -1) + paddle.eye(m, n, dtype)
    out = paddle.zeros_like(x) + paddle.eye(m, n, dtype)
    last = len(batch) + 1
    for i in reversed(range(k)):
        v = paddle.slice(vectors, [last], [i], [i + 1])
        factor = paddle.unsqueeze(paddle.slice(tau, [len(batch)], [i], [i + 1]), -1)
        out = out - factor * paddle.matmul(v, paddle.matmul(v, out, transpose_x=True))
    return out


def cond(x, p=None, name=None):
    """The condition numbers of matrices: |x| |inverse(x)|.

    Args:
        x (Tensor): matrices, float32 or float64; [..., m, n] for p = None, 2 or -2, else [..., n, n].
        p (float|str, optional): the norm: 2 (the default), -2, 1, -1, inf, -inf, "fro" or "nuc".
        name (str, optional): ignored.

    Raises:
        ValueError: for another `p`, or matrices that are not square. TypeError: for other data types.

    Examples:
        >>> import paddle
        >>> round(paddle.linalg.cond(paddle.to_tensor([[2.0, 0.0], [0.0, 1.0]])).item(), 4)
        2.0
    """
    _matrices("cond", x, p not in (None, 2, -2))
    if p in (None, 2, -2):
        s = svd(x)[1]
        large, small = paddle.max(s, -1), paddle.min(s, -1)
        return small / large if p == -2 else large / small
    return _norm(x, p) * _norm(paddle.inverse(x), p)


def _norm(x: Any, p: Any) -> Any:
    if p == "fro":
        return paddle.sqrt(paddle.sum(x * x, [-2, -1]))
    if p == "nuc":
        return paddle.sum(svd(x)[1], -1)
    if p not in (1, -1, float("inf"), float("-inf")):
        raise ValueError(f"cond: p must be None, 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got {p!r}")
    sums = paddle.sum(paddle.abs(x), -2 if p in (1, -1) else -1)
    return paddle.max(sums, -1) if p > 0 else paddle.min(sums, -1)


def pca_lowrank(x, q=None, center=True, niter=2, name=None):
    """The first singular values and vectors of a centred matrix: its principal components, exactly.

    Args:
        x (Tensor): [..., m, n], float32 or float64.
        q (int, optional): the number of components; by default min(6, m, n).
        center (bool): the means of the columns are subtracted.
        niter (int): the iterations of 2.6's approximation; unused.
        name (str, optional): ignored.

    Returns:
        tuple of Tensor: U [..., m, q], S [..., q], V [..., n, q].

    Raises:
        ValueError: for a `q` outside of [0, min(m, n)], a negative `niter`. TypeError: for other data types.

    Examples:
        >>> import paddle
        >>> u, s, v = paddle.linalg.pca_lowrank(paddle.randn([5, 4]), 2)
        >>> u.shape, s.shape, v.shape
        ([5, 2], [2], [4, 2])
    """
    batch, m, n, _ = _matrices("pca_lowrank", x)
    q = min(6, m, n) if q is None else q
    if not 0 <= q <= min(m, n):
        raise ValueError(f"pca_lowrank: q must lie in [0, {min(m, n)}], got {q}")
    if niter < 0:
        raise ValueError(f"pca_lowrank: niter must not be negative, got {niter}")
    u, s, vh = svd(x - paddle.mean(x, axis=-2, keepdim=True) if center else x)
    last = len(batch) + 1
    return (
        paddle.slice(u, [last], [0], [q]),
        paddle.slice(s, [last - 1], [0], [q]),
        paddle.slice(_transposed(vh), [last], [0], [q]),
    )
