"""dgc, dgc_momentum and dgc_clip_by_norm: deep gradient compression."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..call import Call, Declined, same_dtype


def _scalar(call: Call, slot: str):
    """A number as float64 on the device."""
    array = call.array(slot)
    if array.size != 1:
        raise Declined
    return array.reshape(()).astype("float64")


def _sparsity(call: Call, since: float) -> float:
    a = call.attrs
    given = a["sparsity"]
    if not given or a["rampup_step"] <= 0:
        raise Declined
    at = max(int(since * len(given) / a["rampup_step"]), 0)
    found = float(given[min(at, len(given) - 1)])
    if not 0 < found <= 1:
        raise Declined
    return found


def _dgc(call: Call) -> dict:
    """The number of elements that are sent depends on the step, which is read on the host. Of equal magnitudes the
    lower index is sent."""
    (grad, u, v, param), xp, a = call.floats("Grad", "U", "V", "Param"), call.xp, call.attrs
    step, ranks = (float((call.numbers(slot) or [-1])[0]) for slot in ("current_step", "nranks"))
    ranks = math.trunc(ranks)
    same = all(t.size == grad.size for t in (u, v, param)) and grad.dtype.name == "float32"
    if not same or not 1 < ranks <= 65536 or a["regular_type"] not in (0, 1, 2):
        raise Declined
    of = np.float32
    g = of(ranks) * grad
    if a["regular_type"] == 1:
        g = g + of(a["regular_coeff"]) * xp.sign(param.reshape(grad.shape))
    elif a["regular_type"] == 2:
        g = g + of(a["regular_coeff"]) * param.reshape(grad.shape)
    u, v, k, encoded = u.copy(), v.copy(), 0, xp.empty((0,), "float32")
    begin = math.trunc(a["rampup_begin_step"])
    if math.trunc(step) >= begin:
        if step < 0:
            raise Declined
        k = int(grad.size * (1.0 - _sparsity(call, step - a["rampup_begin_step"])))
        m, flat = of(a["m"]), g.reshape(u.shape)
        if a["use_nesterov"]:
            u = m * (u + flat)
            v = v + (u + flat)
        else:
            u = m * u + flat
            v = v + u
        places = xp.sort(xp.argsort(-abs(v.reshape(-1)), kind="stable")[:k]).astype("int32")
        encoded = xp.concatenate([places.view("float32"), xp.take(v.reshape(-1), places)])
        u, v = xp.ascontiguousarray(u), xp.ascontiguousarray(v)
        u.reshape(-1)[places] = 0
        v.reshape(-1)[places] = 0
        g = xp.zeros(grad.shape, "float32")
    return {
        "U_out": u,
        "V_out": v,
        "EncodeGrad": encoded,
        "Grad_out": g,
        "k": xp.full((1,), k, "float32"),
        "GatherBuff": xp.zeros((2 * k * ranks,), "float32"),
    }


def _momentum(call: Call) -> dict:
    """Momentum before the step rampup_begin_step, then plain steps; the step stays on the device."""
    grad, a, xp = call.array("Grad"), call.attrs, call.xp
    param, velocity = call.old("ParamOut"), call.old("VelocityOut")
    same_dtype(grad, param, velocity)
    if grad.dtype.kind != "f" or a["multi_precision"] or call.ins.get("MasterParam") is not None:
        raise Declined
    begin = math.trunc(a["rampup_begin_step"])
    made = {"ParamOut": param, "VelocityOut": velocity}
    if begin < 0:
        return {**made, "Grad_out": grad.copy()}
    of = param.dtype.type
    step, ranks, rate = (_scalar(call, slot) for slot in ("current_step", "nranks", "LearningRate"))
    ranks = xp.trunc(ranks)
    g = grad * (a["rescale_grad"] / ranks).astype(grad.dtype)
    if a["regularization_method"] == "l2_decay":
        g = g + of(a["regularization_coeff"]) * param
    moved = of(a["mu"]) * velocity + g
    slow = param - rate.astype(param.dtype) * (g + of(a["mu"]) * moved if a["use_nesterov"] else moved)
    plain = param - (rate / ranks).astype(param.dtype) * grad
    before = xp.trunc(step) < begin
    param[...] = xp.where(before, slow, plain)
    velocity[...] = xp.where(before, moved, velocity)
    return {**made, "Grad_out": (grad.astype("float64") / ranks).astype(grad.dtype)}


def _clip(call: Call) -> dict:
    (x,), a, xp = call.floats("X"), call.attrs, call.xp
    begin = math.trunc(a["rampup_begin_step"])
    if begin < 0 or x.size == 0:
        return {"Out": x.copy()}
    most = float(np.float32(a["max_norm"]))
    norm = xp.sqrt((x.astype("float64") ** 2).sum())
    clips = (xp.trunc(_scalar(call, "current_step")) >= begin) & ~(norm <= most)
    return {"Out": x * xp.where(clips, most / xp.maximum(norm, 1e-300), 1.0).astype(x.dtype)}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "dgc": _dgc,
    "dgc_momentum": _momentum,
    "dgc_clip_by_norm": _clip,
}
