"""Losses of numbers and pairs: bce_loss, kldiv_loss, smooth_l1_loss, squared_l2_distance, cos_sim, margin_rank_loss,
modified_huber_loss, teacher_student_sigmoid_loss, sigmoid_focal_loss, center_loss."""

from __future__ import annotations

import math
from collections.abc import Callable

from .. import ids
from ..call import Call, Declined


def _rowwise(x):
    return x.reshape(x.shape[0], math.prod(x.shape[1:]))


def _bce(call: Call) -> dict:
    x, y = call.floats("X", "Label")
    xp, low = call.xp, x.dtype.type(-100)
    return {"Out": (y - 1) * xp.maximum(xp.log(1 - x), low) - y * xp.maximum(xp.log(x), low)}


def _kldiv_divisor(shape, how: str, n: int) -> float:
    return float(max(n, 1)) if how == "mean" else float(max(shape[0], 1)) if how == "batchmean" and shape else 1.0


def _kldiv(call: Call) -> dict:
    (x, t), xp, how = call.floats("X", "Target"), call.xp, call.attrs["reduction"]
    if x.size == 0:
        raise Declined
    zero = x.dtype.type(0)
    loss = xp.where(t <= 0, zero, t * (xp.log(xp.where(t <= 0, x.dtype.type(1), t)) - x))
    if how == "none":
        return {"Loss": loss}
    return {"Loss": (loss.sum() / x.dtype.type(_kldiv_divisor(x.shape, how, x.size))).reshape(1)}


def _kldiv_grad(call: Call) -> dict:
    (t, d), xp, how = call.floats("Target", "Loss@GRAD"), call.xp, call.attrs["reduction"]
    if how != "none":
        d = d.reshape((1,) * t.ndim) / t.dtype.type(_kldiv_divisor(t.shape, how, t.size))
    return {"X@GRAD": xp.where(t <= 0, t.dtype.type(0), -t * d)}


def _smooth_l1(call: Call) -> dict:
    (x, y), xp = call.floats("X", "Y"), call.xp
    square = x.dtype.type(call.attrs["sigma"] ** 2)
    diff, weighted = x - y, call.ins.get("InsideWeight") is not None
    if weighted:
        diff = diff * call.array("InsideWeight")
    size = abs(diff)
    loss = xp.where(size < 1 / square, diff * diff * square / 2, size - x.dtype.type(0.5) / square)
    if weighted:
        loss = loss * call.array("OutsideWeight")
    return {"Diff": diff, "Out": _rowwise(loss).sum(axis=1).reshape(-1, 1)}


def _smooth_l1_grad(call: Call) -> dict:
    (diff, d), xp = call.floats("Diff", "Out@GRAD"), call.xp
    square = diff.dtype.type(call.attrs["sigma"] ** 2)
    slope = xp.where(abs(diff) < 1 / square, diff * square, xp.sign(diff))
    slope = slope * d.reshape(-1, *(1,) * (diff.ndim - 1))
    if call.ins.get("InsideWeight") is not None:
        slope = slope * call.array("InsideWeight") * call.array("OutsideWeight")
    return {"X@GRAD": slope, "Y@GRAD": -slope}


def _distance(call: Call) -> dict:
    x, y = call.floats("X", "Y")
    sub = _rowwise(x) - _rowwise(y)
    return {"sub_result": sub, "Out": (sub * sub).sum(axis=1).reshape(-1, 1)}


def _distance_grad(call: Call) -> dict:
    sub, d = call.floats("sub_result", "Out@GRAD")
    x, y = call.ins["X"], call.ins["Y"]
    g = 2 * sub * d.reshape(-1, 1)
    dy = -g if y.shape[0] == x.shape[0] else -g.sum(axis=0)
    return {"X@GRAD": g.reshape(x.shape), "Y@GRAD": dy.reshape(y.shape)}


def _cosine(call: Call) -> dict:
    (x, y), xp = call.floats("X", "Y"), call.xp
    a, b = _rowwise(x), _rowwise(y)
    least = x.dtype.type(1e-4)
    nx, ny = (xp.maximum(xp.sqrt((v * v).sum(axis=1)), least) for v in (a, b))
    made = {"Out": (a * b).sum(axis=1) / nx / ny, "XNorm": nx, "YNorm": ny}
    return {slot: v.reshape(call.shape(slot)) for slot, v in made.items()}


def _cosine_grad(call: Call) -> dict:
    x, y, nx, ny, out, d = call.floats("X", "Y", "XNorm", "YNorm", "Out", "Out@GRAD")
    a, b = _rowwise(x), _rowwise(y)
    nx, ny, out, d = (v.reshape(-1, 1) for v in (nx, ny, out, d))
    # A norm at its lower bound does not depend on its vector.
    free_x, free_y = (v > v.dtype.type(1e-4) for v in (nx, ny))
    dx = d * (b / (nx * ny) - free_x * out * a / (nx * nx))
    dy = d * (a / (nx * ny) - free_y * out * b / (ny * ny))
    if y.shape[0] != x.shape[0]:
        dy = dy.sum(axis=0)
    return {"X@GRAD": dx.reshape(x.shape), "Y@GRAD": dy.reshape(y.shape)}


def _margin(call: Call) -> dict:
    a, b, y = call.floats("X1", "X2", "Label")
    out = call.xp.maximum(-y * (a - b) + y.dtype.type(call.attrs["margin"]), y.dtype.type(0))
    return {"Out": out, "Activated": (out > 0).astype(y.dtype)}


def _margin_grad(call: Call) -> dict:
    active, d, y = call.floats("Activated", "Out@GRAD", "Label")
    g = d * active * y
    return {"X1@GRAD": -g, "X2@GRAD": g}


def _modified(call: Call) -> dict:
    (x, y), xp = call.floats("X", "Y"), call.xp
    v = x * (2 * y - 1)
    out = xp.where(v < -1, -4 * v, xp.where(v < 1, (1 - v) * (1 - v), x.dtype.type(0)))
    return {"IntermediateVal": v, "Out": out}


def _modified_grad(call: Call) -> dict:
    (y, v, d), xp = call.floats("Y", "IntermediateVal", "Out@GRAD"), call.xp
    slope = xp.where(v < -1, v.dtype.type(-4), xp.where(v < 1, -2 * (1 - v), v.dtype.type(0)))
    return {"X@GRAD": slope * (2 * y - 1) * d}


def _teacher(call: Call) -> dict:
    (x, y), xp = call.floats("X", "Label"), call.xp
    y = y.reshape(x.shape)
    base = xp.maximum(x, x.dtype.type(0)) + xp.log1p(xp.exp(-abs(x)))
    two = 2 * base - x * y
    return {"Y": xp.where(y < -1, base, xp.where(y < 0, base - x, two))}


def _teacher_grad(call: Call) -> dict:
    (x, y, d), xp, a = call.floats("X", "Label", "Y@GRAD"), call.xp, call.attrs
    y, d, of = y.reshape(x.shape), d.reshape(x.shape), x.dtype.type
    p = 1 / (1 + xp.exp(-x))
    slope = xp.where(y < -1, p, xp.where(y < 0, p - 1, 2 * p - y)) * d
    cut = (x >= of(a["soft_max_up_bound"])) | (x <= of(a["soft_max_lower_bound"]))
    return {"X@GRAD": xp.where(cut, 0 * d, slope)}


def _focal_parts(call: Call):
    (x,), label, xp, a = call.floats("X"), call.array("Label"), call.xp, call.attrs
    of = x.dtype.type
    count = xp.maximum(call.array("FgNum"), 1).astype(x.dtype).reshape((1,) * x.ndim)
    label = label.reshape(-1, *(1,) * (x.ndim - 1))
    classes = xp.arange(1, x.shape[-1] + 1)
    positive = (label == classes).astype(x.dtype)
    negative = ((label != classes) & (label != -1)).astype(x.dtype)
    p = 1 / (1 + xp.exp(-x))
    return x, xp, of(a["gamma"]), of(a["alpha"]) * positive / count, (1 - of(a["alpha"])) * negative / count, p


def _focal(call: Call) -> dict:
    x, xp, gamma, fore, back, p = _focal_parts(call)
    low = x.dtype.type(1e-37 if x.dtype.itemsize == 4 else 1e-300)
    soft = xp.maximum(x, x.dtype.type(0)) + xp.log1p(xp.exp(-abs(x)))
    return {"Out": -fore * (1 - p) ** gamma * xp.log(xp.maximum(p, low)) + back * p**gamma * soft}


def _focal_grad(call: Call) -> dict:
    x, xp, gamma, fore, back, p = _focal_parts(call)
    d, low = call.array("Out@GRAD"), x.dtype.type(1e-37 if x.dtype.itemsize == 4 else 1e-300)
    soft = xp.maximum(x, x.dtype.type(0)) + xp.log1p(xp.exp(-abs(x)))
    positive = (1 - p) ** gamma * (1 - p - gamma * p * xp.log(xp.maximum(p, low)))
    negative = p**gamma * (gamma * (1 - p) * soft + p)
    return {"X@GRAD": d * (-fore * positive + back * negative)}


def _center(call: Call) -> dict:
    (x,), a, xp = call.floats("X"), call.attrs, call.xp
    call.array("Centers")
    centers, flat = call.old("CentersOut"), _rowwise(x)
    if x.size == 0 or centers.dtype != x.dtype:
        raise Declined
    at = ids.checked(call, call.array("Label").reshape(-1), a["cluster_num"])
    diff = flat - xp.take(centers, at, axis=0)
    if a["need_update"]:
        rate = call.array("CenterUpdateRate").reshape(1, 1).astype(x.dtype)
        sums = ids.sum_at(call, centers.shape[0], at, diff)
        counts = xp.bincount(at, minlength=centers.shape[0]).astype(x.dtype).reshape(-1, 1)
        centers[...] = centers + rate * sums / (1 + counts)
    return {
        "CentersOut": centers,
        "SampleCenterDiff": diff,
        "Loss": (diff * diff).sum(axis=1).reshape(-1, 1) / 2,
    }


def _center_grad(call: Call) -> dict:
    diff, d = call.floats("SampleCenterDiff", "Loss@GRAD")
    return {"X@GRAD": (diff * d.reshape(-1, 1)).reshape(call.ins["X"].shape)}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "bce_loss": _bce,
    "kldiv_loss": _kldiv,
    "kldiv_loss_grad": _kldiv_grad,
    "smooth_l1_loss": _smooth_l1,
    "smooth_l1_loss_grad": _smooth_l1_grad,
    "squared_l2_distance": _distance,
    "squared_l2_distance_grad": _distance_grad,
    "cos_sim": _cosine,
    "cos_sim_grad": _cosine_grad,
    "margin_rank_loss": _margin,
    "margin_rank_loss_grad": _margin_grad,
    "modified_huber_loss": _modified,
    "modified_huber_loss_grad": _modified_grad,
    "teacher_student_sigmoid_loss": _teacher,
    "teacher_student_sigmoid_loss_grad": _teacher_grad,
    "sigmoid_focal_loss": _focal,
    "sigmoid_focal_loss_grad": _focal_grad,
    "center_loss": _center,
    "center_loss_grad": _center_grad,
}
