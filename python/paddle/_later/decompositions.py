"""Decompositions of matrices on the host, with their gradients (`paddle.linalg`): functions on numpy's arrays.

Gradients follow Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation"
(2008), and for the QR decomposition Walter and Lehmann, "Walter's QR" (arXiv:1001.1654).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .host import Host

__all__: list[str] = []


def _h(a: np.ndarray) -> np.ndarray:
    return a.conj().swapaxes(-1, -2)


def _diagonal(d: np.ndarray) -> np.ndarray:
    return d[..., None, :] * np.eye(d.shape[-1], dtype=d.dtype)


def _inverse_gaps(values: np.ndarray) -> np.ndarray:
    """1 / (v_j - v_i), 0 where they are equal: vectors of equal values have no gradient."""
    gaps = values[..., None, :] - values[..., :, None]
    return np.divide(1.0, gaps, out=np.zeros_like(gaps), where=gaps != 0)


def _svd(x: np.ndarray, *, full: bool) -> list:
    return list(np.linalg.svd(x, full))


def _svd_grad(inputs: Any, outputs: Any, grads: Any, *, full: bool) -> list:
    u, s, vh = outputs
    gu, gs, gvh = grads
    k = s.shape[-1]
    if full and (u.shape[-1] > k or vh.shape[-2] > k):
        if np.any(gu[..., :, k:]) or np.any(gvh[..., k:, :]):
            raise NotImplementedError("svd: with full_matrices=True only the first columns have gradients")
        u, gu, vh, gvh = u[..., :, :k], gu[..., :, :k], vh[..., :k, :], gvh[..., :k, :]
    gap = _inverse_gaps(s * s)
    left, right = _h(u) @ gu, vh @ _h(gvh)
    inner = gap * (left - _h(left)) * s[..., None, :] + s[..., :, None] * gap * (right - _h(right)) + _diagonal(gs)
    out = u @ inner @ vh
    inverse = np.divide(1.0, s, out=np.zeros_like(s), where=s != 0)
    if u.shape[-2] > k:
        out = out + (gu - u @ left) * inverse[..., None, :] @ vh
    if vh.shape[-1] > k:
        out = out + u * inverse[..., None, :] @ (gvh - _h(right) @ vh)
    return [out]


def _qr(x: np.ndarray, *, mode: str) -> list:
    if mode == "r":
        return [np.linalg.qr(x, "r")]
    return list(np.linalg.qr(x, mode))  # type: ignore[call-overload]


def _tall_qr_grad(q: np.ndarray, r: np.ndarray, gq: np.ndarray, gr: np.ndarray) -> np.ndarray:
    m = r @ _h(gr) - _h(gq) @ q
    lower = np.tril(m, -1)
    m = lower + _h(lower) + _diagonal(np.diagonal(m, 0, -2, -1).real.copy())
    return _h(np.linalg.solve(r, _h(gq + q @ m)))


def _qr_grad(inputs: Any, outputs: Any, grads: Any, *, mode: str) -> list:
    (x,) = inputs
    m, n = x.shape[-2:]
    if mode == "r" or mode == "complete" and m > n:
        raise NotImplementedError(f"qr: mode {mode!r} of {m} x {n} matrices has no gradient")
    q, r = outputs
    gq, gr = grads
    if m >= n:
        return [_tall_qr_grad(q, r, gq, gr)]
    rest, grest = x[..., m:], gr[..., m:]
    first = _tall_qr_grad(q, r[..., :m], gq + rest @ _h(grest), gr[..., :m])
    return [np.concatenate([first, q @ grest], -1)]


def _eigh(x: np.ndarray, *, uplo: str) -> list:
    return list(np.linalg.eigh(x, uplo))  # type: ignore[call-overload]


def _eigh_grad(inputs: Any, outputs: Any, grads: Any, *, uplo: str) -> list:
    w, v = outputs
    gw, gv = grads
    out = v @ (_inverse_gaps(w) * (_h(v) @ gv) + _diagonal(gw)) @ _h(v)
    return [(out + _h(out)) / 2]


def _eig(x: np.ndarray) -> list:
    return list(np.linalg.eig(x))


def _eig_grad(inputs: Any, outputs: Any, grads: Any) -> list:
    w, v = outputs
    gw, gv = grads
    product = _h(v) @ gv
    # The vectors have norm 1.
    along = _h(v) @ (v * np.diagonal(product, 0, -2, -1).real[..., None, :])
    inner = _inverse_gaps(w).conj() * (product - along) + _diagonal(gw)
    return [np.linalg.solve(_h(v), inner @ _h(v))]


def _det(x: np.ndarray) -> list:
    return [np.linalg.det(x)]


def _det_grad(inputs: Any, outputs: Any, grads: Any) -> list:
    (x,), (g,) = inputs, grads
    u, s, vh = np.linalg.svd(x)
    # The cofactors, which singular matrices have too: products of all singular values but one.
    others = np.repeat(s[..., None, :], s.shape[-1], -2)
    np.einsum("...ii->...i", others)[...] = 1.0
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return [(g * sign).reshape(*x.shape[:-2], 1, 1) * (u * others.prod(-1)[..., None, :]) @ vh]


def _slogdet(x: np.ndarray) -> list:
    return [np.stack(np.linalg.slogdet(x))]


def _slogdet_grad(inputs: Any, outputs: Any, grads: Any) -> list:
    (x,), (g,) = inputs, grads
    return [g[1].reshape(*x.shape[:-2], 1, 1) * _h(np.linalg.inv(x))]


def _solve(x: np.ndarray, y: np.ndarray, *, vector: bool) -> list:
    if vector:
        y = y[..., None]
    # numpy 1.26 takes an operand with one axis less than the matrices for vectors.
    out = np.linalg.solve(x, y.reshape((1,) * (x.ndim - y.ndim) + y.shape))
    return [out[..., 0] if vector else out]


def _summed(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The gradient of a broadcast operand."""
    array = array.sum(tuple(range(array.ndim - len(shape))))
    return array.sum(tuple(i for i, n in enumerate(shape) if n == 1 < array.shape[i]), keepdims=True)


def _solve_grad(inputs: Any, outputs: Any, grads: Any, *, vector: bool) -> list:
    (x, y), (out,), (g,) = inputs, outputs, grads
    if vector:
        out, g = out[..., None], g[..., None]
    gy = np.linalg.solve(_h(x), g)
    return [_summed(-gy @ _h(out), x.shape), _summed(gy[..., 0] if vector else gy, y.shape)]


def _pinv(x: np.ndarray, *, rcond: float, hermitian: bool) -> list:
    return [np.linalg.pinv(x, rcond, hermitian)]


def _pinv_grad(inputs: Any, outputs: Any, grads: Any, *, rcond: float, hermitian: bool) -> list:
    # Golub and Pereyra (1973), "The differentiation of pseudo-inverses", theorem 4.3.
    (a,), (p,), (g,) = inputs, outputs, grads
    ph, gh = _h(p), _h(g)
    if a.shape[-2] <= a.shape[-1]:
        k = gh @ p
        kp = k @ ph
        return [-_h(p @ k) + kp - a @ p @ kp + ph @ p @ (gh - k @ a)]
    k = p @ gh
    pk = ph @ k
    return [-_h(k @ p) + (gh - a @ k) @ p @ ph + pk - pk @ p @ a]


def _lu(x: np.ndarray) -> list:
    a = np.array(x)
    m, n = a.shape[-2:]
    batch = a.reshape(-1, m, n)
    pivots = np.zeros((len(batch), min(m, n)), "int32")
    infos = np.zeros(len(batch), "int32")
    for b, matrix in enumerate(batch):
        for j in range(min(m, n)):
            p = j + int(np.argmax(np.abs(matrix[j:, j])))
            pivots[b, j] = p + 1
            if p != j:
                matrix[[j, p]] = matrix[[p, j]]
            if matrix[j, j] == 0:
                infos[b] = infos[b] or j + 1
                continue
            matrix[j + 1 :, j] /= matrix[j, j]
            matrix[j + 1 :, j + 1 :] -= np.outer(matrix[j + 1 :, j], matrix[j, j + 1 :])
    shape = x.shape[:-2]
    return [batch.reshape(x.shape), pivots.reshape(*shape, -1), infos.reshape(shape or (1,))]


def permutations(pivots: np.ndarray, m: int) -> np.ndarray:
    """The matrices P of x = P L U from LAPACK's pivots (from 1 on).

    Examples:
        >>> import numpy as np
        >>> from paddle._later.decompositions import permutations
        >>> permutations(np.array([2, 2]), 2).tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """
    out = np.zeros((*pivots.shape[:-1], m, m))
    for rows, matrix in zip(pivots.reshape(-1, pivots.shape[-1]), out.reshape(-1, m, m), strict=True):
        order = np.arange(m)
        for i, p in enumerate(rows):
            order[[i, p - 1]] = order[[p - 1, i]]
        matrix[order, np.arange(m)] = 1.0
    return out


def _lu_grad(inputs: Any, outputs: Any, grads: Any) -> list:
    (x,), (packed, pivots, _), g = inputs, outputs, grads[0]
    m, n = x.shape[-2:]
    k = min(m, n)
    square = packed[..., :k, :k]
    lower, upper = np.tril(square, -1) + np.eye(k, dtype=x.dtype), np.triu(square)
    gl, gu = np.tril(g[..., :k, :k], -1), np.triu(g[..., :k, :k])
    gx = np.zeros_like(x)
    if m > k:  # rows below: L2 = A2 U^-1
        l2 = packed[..., k:, :]
        gx[..., k:, :] = _h(np.linalg.solve(upper, _h(g[..., k:, :])))
        gu = gu - np.triu(_h(l2) @ gx[..., k:, :])
    if n > k:  # columns to the right: U2 = L^-1 A2
        gx[..., :, k:] = np.linalg.solve(_h(lower), g[..., :, k:])
        gl = gl - np.tril(gx[..., :, k:] @ _h(packed[..., :, k:]), -1)
    inner = np.tril(_h(lower) @ gl, -1) + np.triu(gu @ _h(upper))
    gx[..., :k, :k] = _h(np.linalg.solve(upper, _h(np.linalg.solve(_h(lower), inner))))
    return [permutations(pivots.reshape(*x.shape[:-2], k), m).astype(x.dtype) @ gx]


def _unpacked_pivots(pivots: np.ndarray, *, m: int) -> list:
    return [permutations(pivots, m)]


def _matrix_rank(x: np.ndarray, tol: np.ndarray | None = None, *, limit: float | None, hermitian: bool) -> list:
    s = np.abs(np.linalg.eigvalsh(x)) if hermitian else np.linalg.svd(x, compute_uv=False)
    if tol is None:
        factor = max(x.shape[-2:]) * np.finfo(s.dtype).eps
        tol = s.max(-1) * factor if limit is None else np.full(s.shape[:-1], limit)
    elif tol.shape == (1,) and s.ndim == 1:
        tol = tol[0]
    return [(s > np.asarray(tol)[..., None]).sum(-1)]


def _residuals(x: np.ndarray, y: np.ndarray, *, rcond: float | None) -> list:
    """Residuals, rank and singular values of least squares."""
    m, n = x.shape[-2:]
    s = np.linalg.svd(x, compute_uv=False)
    limit = np.finfo(x.dtype).eps * max(m, n) if rcond is None else rcond
    rank = (s > limit * s.max(-1, keepdims=True)).sum(-1)
    if m <= n or np.any(rank < n):
        residuals = np.zeros(0)
    else:
        residuals = (np.abs(y - x @ (np.linalg.pinv(x, limit) @ y)) ** 2).sum(-2)
    return [residuals, rank, s]


SVD = Host("svd", _svd, _svd_grad)
QR = Host("qr", _qr, _qr_grad)
EIGH = Host("eigh", _eigh, _eigh_grad)
EIG = Host("eig", _eig, _eig_grad)
DET = Host("det", _det, _det_grad)
SLOGDET = Host("slogdet", _slogdet, _slogdet_grad)
SOLVE = Host("solve", _solve, _solve_grad)
PINV = Host("pinv", _pinv, _pinv_grad)
LU = Host("lu", _lu, _lu_grad)
UNPACK_PIVOTS = Host("lu_unpack", _unpacked_pivots)
MATRIX_RANK = Host("matrix_rank", _matrix_rank)
RESIDUALS = Host("lstsq", _residuals)
