"""Sorted values and their positions (argsort, top_k, top_k_v2), histograms and comparisons of whole tensors."""

from __future__ import annotations

from collections.abc import Callable

from .. import ids
from ..call import Call, Declined


def _ordered(call: Call, x, axis: int, descending: bool):
    """Positions along an axis by value; equal values in the order of their positions."""
    xp = call.xp
    if not descending:
        return xp.argsort(x, axis=axis, kind="stable")
    n = x.shape[axis]
    # A stable descending order: the ascending order of the reversed values, reversed.
    back = xp.argsort(xp.flip(x, axis), axis=axis, kind="stable")
    return n - 1 - xp.flip(back, axis)


def _argsort(call: Call) -> dict:
    x, a = call.array("X"), call.attrs
    if x.size == 0 or x.ndim == 0:
        raise Declined
    at = _ordered(call, x, a["axis"], a["descending"])
    return {"Out": call.xp.take_along_axis(x, at, a["axis"]), "Indices": at.astype("int64")}


def _top(call: Call) -> dict:
    x, a, xp = call.array("X"), call.attrs, call.xp
    if x.size == 0 or x.ndim == 0:
        raise Declined
    axis = a.get("axis", -1) % x.ndim
    k = int((call.numbers("K") or [a["k"]])[0])
    if not 0 < k <= x.shape[axis]:
        raise Declined
    at = xp.take(_ordered(call, x, axis, a.get("largest", True)), xp.arange(k), axis=axis)
    return {"Out": xp.take_along_axis(x, at, axis), "Indices": at.astype("int64")}


def _placed(call: Call) -> dict:
    """Gradients of sorted values: placed where they come from."""
    d, at, shape = call.floats("Out@GRAD")[0], call.array("Indices"), tuple(call.ins["X"].shape)
    axis = call.attrs.get("axis", -1) % max(len(shape), 1)
    if d.size == 0:
        raise Declined
    return {"X@GRAD": ids.sum_along(call, shape, at.astype("int64"), d, axis)}


def _histogram(call: Call) -> dict:
    x, a, xp = call.array("X").reshape(-1), call.attrs, call.xp
    if x.dtype.name not in ("float32", "float64", "int32", "int64") or x.size == 0:
        raise Declined
    low, high, bins = a["min"], a["max"], a["bins"]
    if low == high:
        raise Declined
    wide = x.astype("float64")
    at = xp.clip(((wide - low) * bins / (high - low)).astype("int64"), 0, bins - 1)
    inside = (x >= low) & (x <= high)
    return {"Out": xp.bincount(xp.where(inside, at, bins), minlength=bins + 1)[:bins].astype("int64")}


def _equal_all(call: Call) -> dict:
    x, y, xp = call.array("X"), call.array("Y"), call.xp
    if x.shape != y.shape:
        return {"Out": xp.zeros(1, "bool")}
    same = abs(x - y) < x.dtype.type(1e-8) if x.dtype.kind == "f" else x == y
    return {"Out": xp.asarray(same.all()).reshape(1)}


def _allclose(call: Call) -> dict:
    (x, y), xp, a = call.floats("Input", "Other"), call.xp, call.attrs
    rtol, atol = (float((call.numbers(slot) or [a[name]])[0]) for slot, name in (("Rtol", "rtol"), ("Atol", "atol")))
    wide = abs(x.astype("float64") - y) <= atol + rtol * abs(y.astype("float64"))
    near = (x == y) | wide
    if a["equal_nan"]:
        near = near | (xp.isnan(x) & xp.isnan(y))
    return {"Out": xp.asarray(near.all()).reshape(call.shape("Out"))}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "argsort": _argsort,
    "top_k": _top,
    "top_k_v2": _top,
    **dict.fromkeys(("argsort_grad", "top_k_grad", "top_k_v2_grad"), _placed),
    "histogram": _histogram,
    "equal_all": _equal_all,
    "allclose": _allclose,
}
