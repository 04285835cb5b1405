"""Cumulative sums, reductions and norms, by CuPy functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..call import Call, Declined


def _cumsum(call: Call) -> dict:
    x, a = call.array("X"), call.attrs
    if x.dtype.name not in ("float32", "float64", "int32", "int64") or x.size == 0:
        raise Declined
    shape, axis = x.shape, a["axis"]
    if a["flatten"]:
        x, shape, axis = x.reshape(-1), (x.size,), 0
    return {"Out": running_sums(call, x, axis % x.ndim, a["reverse"], a["exclusive"]).reshape(shape)}


def running_sums(call: Call, x, axis: int, reverse: bool, exclusive: bool):
    """The sums up to each element, without it if `exclusive`; from the other end if `reverse`."""
    xp = call.xp
    x = xp.flip(x, axis) if reverse else x
    if exclusive:
        zero = xp.zeros((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype)
        x = xp.concatenate([zero, x[(*(slice(None),) * axis, slice(0, -1))]], axis)
    out = xp.cumsum(x, axis=axis, dtype=x.dtype)
    return xp.flip(out, axis) if reverse else out


def _extreme(name: str) -> Callable[[Call], dict]:
    def launch(call: Call) -> dict:
        x, a = call.array("X"), call.attrs
        if x.dtype.kind not in "fi" or x.size == 0:
            raise Declined
        found = getattr(call.xp, name)(x.reshape(-1) if a["flatten"] else x, axis=0 if a["flatten"] else a["axis"])
        return {"Out": found.astype(call.dtype("Out")).reshape(call.shape("Out"))}

    return launch


def _axes(call: Call, rank: int, name: str) -> tuple[int, ...]:
    return tuple(range(rank)) if call.attrs["reduce_all"] else tuple(sorted({d % rank for d in call.attrs[name]}))


def _truth(name: str) -> Callable[[Call], dict]:
    def launch(call: Call) -> dict:
        x = call.array("X")
        if x.dtype.name != "bool" or x.ndim == 0:
            raise Declined
        found = getattr(call.xp, name)(x, axis=_axes(call, x.ndim, "dim"))
        return {"Out": call.xp.asarray(found).reshape(call.shape("Out"))}

    return launch


def _kept(call: Call, name: str):
    """X, and the result and its gradient reshaped for broadcasting with it."""
    x, out, d = call.floats("X", "Out", "Out@GRAD")
    axes = _axes(call, x.ndim, name)
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    return x, out.reshape(shape), d.reshape(shape)


def _logsumexp(call: Call) -> dict:
    (x,) = call.floats("X")
    if x.size == 0:
        raise Declined
    axes = _axes(call, x.ndim, "axis")
    most = x.max(axis=axes, keepdims=True)
    most = call.xp.where(abs(most) == np.inf, x.dtype.type(0), most)  # the result is infinite, too
    out = call.xp.log(call.xp.exp(x - most).sum(axis=axes, keepdims=True)) + most
    return {"Out": out.reshape(call.shape("Out"))}


def _logsumexp_grad(call: Call) -> dict:
    x, out, d = _kept(call, "axis")
    return {"X@GRAD": d * call.xp.exp(x - out)}


def _frobenius(call: Call) -> dict:
    (x,) = call.floats("X")
    return {"Out": call.xp.sqrt((x * x).sum(axis=_axes(call, x.ndim, "dim"))).reshape(call.shape("Out"))}


def _frobenius_grad(call: Call) -> dict:
    x, out, d = _kept(call, "dim")
    return {"X@GRAD": d * (x / out)}


def _extreme_grad(call: Call) -> dict:
    x, out, d = _kept(call, "dim")
    return {"X@GRAD": d * (x == out)}


def _prod_grad(call: Call) -> dict:
    """The product of the other elements: of those before and those after, so that zeros need no case."""
    x, _, d = _kept(call, "dim")
    xp, axes = call.xp, _axes(call, x.ndim, "dim")
    if x.size == 0 or x.ndim == 0:
        raise Declined
    kept = [i for i in range(x.ndim) if i not in axes]
    rows = x.transpose([*kept, *axes]).reshape(*(x.shape[i] for i in kept), -1)
    one = xp.ones((*rows.shape[:-1], 1), x.dtype)
    before = xp.cumprod(xp.concatenate([one, rows[..., :-1]], -1), axis=-1)
    after = xp.flip(xp.cumprod(xp.concatenate([one, xp.flip(rows[..., 1:], -1)], -1), axis=-1), -1)
    others = (before * after).reshape([x.shape[i] for i in (*kept, *axes)])
    back = sorted(range(x.ndim), key=[*kept, *axes].__getitem__)
    return {"X@GRAD": d * others.transpose(back)}


def _l1(call: Call) -> dict:
    (x,) = call.floats("X")
    return {"Out": abs(x).sum().reshape(1)}


def _l1_grad(call: Call) -> dict:
    x, d = call.floats("X", "Out@GRAD")
    return {"X@GRAD": d.reshape((1,) * x.ndim) * call.xp.sign(x)}


def _l2(call: Call) -> dict:
    (x,) = call.floats("X")
    return {"Out": (x * x).sum().reshape(1)}


def _l2_grad(call: Call) -> dict:
    x, d = call.floats("X", "Out@GRAD")
    return {"X@GRAD": d.reshape((1,) * x.ndim) * 2 * x}


def _affine(call: Call) -> dict:
    x, scale, bias = call.floats("X", "Scale", "Bias")
    last = call.attrs["data_layout"] == "NHWC"
    shape = (-1,) if last else (-1, *(1,) * (x.ndim - 2))
    return {"Out": x * scale.reshape(shape) + bias.reshape(shape)}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "cumsum": _cumsum,
    "arg_max": _extreme("argmax"),
    "arg_min": _extreme("argmin"),
    "reduce_all": _truth("all"),
    "reduce_any": _truth("any"),
    "logsumexp": _logsumexp,
    "logsumexp_grad": _logsumexp_grad,
    "frobenius_norm": _frobenius,
    "frobenius_norm_grad": _frobenius_grad,
    "reduce_max_grad": _extreme_grad,
    "reduce_min_grad": _extreme_grad,
    "reduce_prod_grad": _prod_grad,
    "l1_norm": _l1,
    "l1_norm_grad": _l1_grad,
    "squared_l2_norm": _l2,
    "squared_l2_norm_grad": _l2_grad,
    "affine_channel": _affine,
}
