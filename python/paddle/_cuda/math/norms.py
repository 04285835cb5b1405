"""Norms and products of vectors: p_norm, dist, norm, clip_by_norm, cross, kron, triangular factors, inverses,
and parts of complex numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..call import Call, Declined
from .gemm import product
from .products import running_sums


def _power(xp, x, p: float, axis):
    """The norm of order p over axes, with the dimensions kept."""
    if p == 0:
        return (x != 0).sum(axis=axis, keepdims=True).astype(x.dtype)
    if p == math.inf:
        return abs(x).max(axis=axis, keepdims=True)
    if p == -math.inf:
        return abs(x).min(axis=axis, keepdims=True)
    return (abs(x) ** x.dtype.type(p)).sum(axis=axis, keepdims=True) ** x.dtype.type(1 / p)


def _slope(xp, x, out, d, p: float, epsilon: float):
    """The gradient of a norm, with `out` and `d` in a shape that is broadcast with x."""
    if p == 0:
        return x * 0
    if p in (math.inf, -math.inf):
        return d * xp.sign(x) * (abs(x) == out)
    if p == 1:
        return d * xp.sign(x)
    if p == 2:
        return d * x / (out + x.dtype.type(epsilon))
    of = x.dtype.type
    return d * xp.sign(x) * abs(x) ** of(p - 1) / (out + of(epsilon)) ** of(p - 1)


def _p_axis(call: Call, x):
    return None if call.attrs["asvector"] else call.attrs["axis"] % max(x.ndim, 1)


def _p_norm(call: Call) -> dict:
    (x,) = call.floats("X")
    if x.size == 0:
        raise Declined
    return {"Out": _power(call.xp, x, call.attrs["porder"], _p_axis(call, x)).reshape(call.shape("Out"))}


def _p_norm_grad(call: Call) -> dict:
    (x, out, d), axis, a = call.floats("X", "Out", "Out@GRAD"), None, call.attrs
    if x.size == 0:
        raise Declined
    axis = _p_axis(call, x)
    kept = (1,) * x.ndim if axis is None else tuple(1 if i == axis else n for i, n in enumerate(x.shape))
    return {"X@GRAD": _slope(call.xp, x, out.reshape(kept), d.reshape(kept), a["porder"], a["epsilon"])}


def _dist(call: Call) -> dict:
    (x, y), p = call.floats("X", "Y"), call.attrs["p"]
    z = x - y
    if z.size == 0:
        raise Declined
    return {"Out": _power(call.xp, z, p, None).reshape(call.shape("Out"))}


def _to(grad, shape):
    lead = grad.ndim - len(shape)
    axes = tuple(range(lead)) + tuple(i + lead for i, n in enumerate(shape) if n == 1 and grad.shape[i + lead] != 1)
    return (grad.sum(axis=axes) if axes else grad).reshape(shape)


def _dist_grad(call: Call) -> dict:
    (x, y, out, d), p, xp = call.floats("X", "Y", "Out", "Out@GRAD"), call.attrs["p"], call.xp
    z = x - y
    if z.size == 0:
        raise Declined
    one = (1,) * z.ndim
    out, d = out.reshape(one), d.reshape(one)
    safe = xp.where(out == 0, z.dtype.type(1), out)
    g = xp.where(out == 0, z.dtype.type(0), _slope(xp, z, safe, d, p, 0.0))
    return {"X@GRAD": _to(g, x.shape), "Y@GRAD": _to(-g, y.shape)}


def _norm(call: Call) -> dict:
    (x,), a, xp = call.floats("X"), call.attrs, call.xp
    if x.size == 0:
        raise Declined
    norm = xp.sqrt((x * x).sum(axis=a["axis"], keepdims=True) + x.dtype.type(a["epsilon"]))
    return {"Norm": norm, "Out": x / norm}


def _norm_grad(call: Call) -> dict:
    (x, d, norm), axis = call.floats("X", "Out@GRAD", "Norm"), call.attrs["axis"]
    if x.size == 0:
        raise Declined
    dot = (x * d).sum(axis=axis, keepdims=True)
    return {"X@GRAD": d / norm - x * dot / (norm * norm * norm)}


def _clip_by_norm(call: Call) -> dict:
    (x,), xp = call.floats("X"), call.xp
    most = x.dtype.type(call.attrs["max_norm"])
    norm = xp.sqrt((x * x).sum())
    return {"Out": xp.where(norm <= most, x, x * (most / norm))}  # a norm of NaN is seen in all elements


def _cross_axis(call: Call, x) -> int:
    dim = call.attrs["dim"]
    if dim != 9:
        return dim % x.ndim
    return next(i for i, n in enumerate(x.shape) if n == 3)


def _crossed(xp, x, y, axis: int):
    a, b = (xp.moveaxis(v, axis, 0) for v in (x, y))
    out = xp.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])
    return xp.moveaxis(out, 0, axis)


def _cross(call: Call) -> dict:
    x, y = call.array("X"), call.array("Y")
    if x.size == 0:
        raise Declined
    return {"Out": _crossed(call.xp, x, y, _cross_axis(call, x))}


def _cross_grad(call: Call) -> dict:
    x, y, d = call.floats("X", "Y", "Out@GRAD")
    if x.size == 0:
        raise Declined
    axis = _cross_axis(call, x)
    return {"X@GRAD": _crossed(call.xp, y, d, axis), "Y@GRAD": _crossed(call.xp, d, x, axis)}


def _interleaved(x, y):
    """The shapes of both operands in which kron is a product with broadcasting."""
    rank = max(x.ndim, y.ndim)
    a, b = ((1,) * (rank - v.ndim) + v.shape for v in (x, y))
    return tuple(n for v in a for n in (v, 1)), tuple(n for v in b for n in (1, v)), tuple(zip(a, b, strict=True))


def _kron(call: Call) -> dict:
    x, y = call.array("X"), call.array("Y")
    if x.dtype != y.dtype:
        raise Declined
    a, b, _ = _interleaved(x, y)
    return {"Out": (x.reshape(a) * y.reshape(b)).reshape(call.shape("Out"))}


def _kron_grad(call: Call) -> dict:
    x, y, d = call.floats("X", "Y", "Out@GRAD")
    a, b, pairs = _interleaved(x, y)
    d = d.reshape(tuple(n for pair in pairs for n in pair))
    odd, even = tuple(range(1, d.ndim, 2)), tuple(range(0, d.ndim, 2))
    dx = (d * y.reshape(b)).sum(axis=odd).reshape(x.shape)
    return {"X@GRAD": dx, "Y@GRAD": (d * x.reshape(a)).sum(axis=even).reshape(y.shape)}


def _cumsum_back(call: Call) -> dict:
    """The gradient of a flat cumsum: sums from the other end."""
    (d,), a = call.floats("Out@GRAD"), call.attrs
    if d.size == 0:
        raise Declined
    out = running_sums(call, d.reshape(-1), 0, not a["reverse"], a["exclusive"])
    return {"X@GRAD": out.reshape(call.ins["X"].shape)}


def _cholesky(call: Call) -> dict:
    (x,), xp = call.floats("X"), call.xp
    if x.size == 0:
        raise Declined
    upper = call.attrs["upper"]
    lower = xp.linalg.cholesky(x.swapaxes(-1, -2) if upper else x)
    return {"Out": lower.swapaxes(-1, -2) if upper else lower}


def _cholesky_grad(call: Call) -> dict:
    (out, d), xp, upper = call.floats("Out", "Out@GRAD"), call.xp, call.attrs["upper"]
    if out.size == 0:
        raise Declined
    if upper:
        out, d = out.swapaxes(-1, -2), d.swapaxes(-1, -2)
    n = out.shape[-1]
    half = xp.tril(xp.ones((n, n), out.dtype)) - xp.eye(n, dtype=out.dtype) / 2
    inner = product(call, out.swapaxes(-1, -2), d) * half
    inverse = xp.linalg.inv(out)
    g = product(call, product(call, inverse.swapaxes(-1, -2), inner), inverse)
    return {"X@GRAD": (g + g.swapaxes(-1, -2)) / 2}


def _inverse(call: Call) -> dict:
    (x,) = call.floats("Input")
    if x.size == 0:
        raise Declined
    return {"Output": call.xp.linalg.inv(x)}


def _inverse_grad(call: Call) -> dict:
    out, d = call.floats("Output", "Output@GRAD")
    turned = out.swapaxes(-1, -2)
    return {"Input@GRAD": -product(call, product(call, turned, d), turned)}


def _part(name: str) -> Callable[[Call], dict]:
    def launch(call: Call) -> dict:
        x = call.array("X")
        if x.dtype.kind != "c":
            raise Declined
        return {"Out": getattr(call.xp, name)(x).copy()}

    return launch


def _part_grad(unit: complex) -> Callable[[Call], dict]:
    def launch(call: Call) -> dict:
        (d,) = call.floats("Out@GRAD")
        wide = d.astype("complex64" if d.dtype.itemsize == 4 else "complex128")
        return {"X@GRAD": wide if unit == 1 else wide * wide.dtype.type(unit)}

    return launch


def _conj(call: Call) -> dict:
    return {"Out": call.xp.conj(call.array("X"))}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "p_norm": _p_norm,
    "p_norm_grad": _p_norm_grad,
    "dist": _dist,
    "dist_grad": _dist_grad,
    "norm": _norm,
    "norm_grad": _norm_grad,
    "clip_by_norm": _clip_by_norm,
    "cross": _cross,
    "cross_grad": _cross_grad,
    "kron": _kron,
    "kron_grad": _kron_grad,
    "cumsum_flat_grad": _cumsum_back,
    "cholesky": _cholesky,
    "cholesky_grad": _cholesky_grad,
    "inverse": _inverse,
    "inverse_grad": _inverse_grad,
    "real": _part("real"),
    "real_grad": _part_grad(1),
    "imag": _part("imag"),
    "imag_grad": _part_grad(1j),
    "conj": _conj,
}
