"""Elementwise losses and label_smooth, by CuPy functions. Operators whose CPU kernels validate
elements (bce_loss, modified_huber_loss) run on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..call import Call, Declined


def _each(slots: str, results: dict[str, Callable], attrs: str = "") -> Callable[[Call], dict]:
    """A launcher of results that are functions of (xp, elements of the slots, attributes); operands have one shape."""

    def launch(call: Call) -> dict:
        values = call.floats(*slots.split())
        if any(v.shape != values[0].shape for v in values):
            raise Declined
        given = [values[0].dtype.type(call.attrs[a]) for a in attrs.split()]
        return {slot: make(call.xp, *values, *given).reshape(call.shape(slot)) for slot, make in results.items()}

    return launch


def _huber(xp, x, y, delta):
    size = abs(y - x)
    return xp.where(size <= delta, (y - x) * (y - x) / 2, delta * (size - delta / 2))


def _huber_slope(xp, r, d, delta):
    return d * xp.clip(r, -delta, delta)


def _hinge_slope(xp, x, y, d):
    sign = 2 * y - 1
    return d * xp.where(x * sign < 1, -sign, x.dtype.type(0))


def _log_loss(xp, x, y, e):
    return -(y * xp.log(x + e)) - (1 - y) * xp.log(1 - x + e)


def _log_slope(xp, x, y, d, e):
    return d * (-(y / (x + e)) + (1 - y) / (1 - x + e))


def _rank(xp, label, left, right):
    o = left - right
    return xp.maximum(o, o.dtype.type(0)) + xp.log1p(xp.exp(-abs(o))) - label * o


def _rank_slope(xp, label, left, right, d):
    return d * (1 / (1 + xp.exp(right - left)) - label)


def _bce_slope(xp, x, y, d):
    return d * ((x - y) / xp.maximum((1 - x) * x, x.dtype.type(1e-12)))


def _entropy(call: Call) -> dict:
    """sigmoid_cross_entropy_with_logits; the normalized form runs on the CPU."""
    (x, y), ignored = call.floats("X", "Label"), call.attrs["ignore_index"]
    if call.attrs["normalize"] or x.shape != y.shape:
        raise Declined
    xp = call.xp
    loss = xp.maximum(x, x.dtype.type(0)) - x * y + xp.log(1 + xp.exp(-abs(x)))
    return {"Out": xp.where(y == ignored, x.dtype.type(0), loss)}


def _entropy_grad(call: Call) -> dict:
    (x, y, d), ignored = call.floats("X", "Label", "Out@GRAD"), call.attrs["ignore_index"]
    if call.attrs["normalize"] or not x.shape == y.shape == d.shape:
        raise Declined
    xp = call.xp
    return {"X@GRAD": xp.where(y == ignored, x.dtype.type(0), (1 / (1 + xp.exp(-x)) - y) * d)}


def _smooth(call: Call) -> dict:
    # The coefficients are float32 for every type of X.
    (x,), epsilon = call.floats("X"), np.float32(call.attrs["epsilon"])
    if x.size == 0:
        raise Declined
    of = x.dtype.type
    if call.ins.get("PriorDist") is None:
        return {"Out": of(1 - epsilon) * x + of(epsilon / np.float32(x.shape[-1]))}
    prior = call.floats("X", "PriorDist")[1]
    return {"Out": of(1 - epsilon) * x + of(epsilon) * prior.reshape(-1)}


def _smooth_grad(call: Call) -> dict:
    (d,) = call.floats("Out@GRAD")
    return {"X@GRAD": d.dtype.type(1 - np.float32(call.attrs["epsilon"])) * d}


_SLOPE = {"X@GRAD": lambda xp, r, d, delta: -_huber_slope(xp, r, d, delta), "Y@GRAD": _huber_slope}
LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "huber_loss": _each("X Y", {"Residual": lambda xp, x, y, delta: y - x, "Out": _huber}, "delta"),
    "huber_loss_grad": _each("Residual Out@GRAD", _SLOPE, "delta"),
    "hinge_loss": _each("Logits Labels", {"Loss": lambda xp, x, y: xp.maximum(1 - x * (2 * y - 1), x.dtype.type(0))}),
    "hinge_loss_grad": _each("Logits Labels Loss@GRAD", {"Logits@GRAD": _hinge_slope}),
    "log_loss": _each("Predicted Labels", {"Loss": _log_loss}, "epsilon"),
    "log_loss_grad": _each("Predicted Labels Loss@GRAD", {"Predicted@GRAD": _log_slope}, "epsilon"),
    "rank_loss": _each("Label Left Right", {"Out": _rank}),
    "rank_loss_grad": _each(
        "Label Left Right Out@GRAD",
        {"Left@GRAD": _rank_slope, "Right@GRAD": lambda xp, *values: -_rank_slope(xp, *values)},
    ),
    "bce_loss_grad": _each("X Label Out@GRAD", {"X@GRAD": _bce_slope}),
    "sigmoid_cross_entropy_with_logits": _entropy,
    "sigmoid_cross_entropy_with_logits_grad": _entropy_grad,
    "label_smooth": _smooth,
    "label_smooth_grad": _smooth_grad,
}
