"""batch_norm, sync_batch_norm and inplace_abn (one process) and their fused forms; group_norm, instance_norm's second
gradient, lrn and affine_channel's gradient by CuPy functions."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..call import Call, Declined, same_dtype
from ..halves import WideCall, is_half, wide_only
from .channels import ACTIVATIONS, Channels


def _last(call: Call) -> bool:
    # The fused forms have no layout: channels are last.
    return call.attrs.get("data_layout", "NHWC") == "NHWC"


def _global(call: Call) -> bool:
    a = call.attrs
    return (bool(a.get("is_test")) and not a.get("trainable_statistics")) or bool(a.get("use_global_stats"))


def _channels(call: Call, x) -> Channels:
    found = Channels(call, x, _last(call))
    if found.count == 1:  # one element has no variance
        raise Declined
    return found


def _activation(call: Call) -> tuple[int, float]:
    """The number of the activation of the fused forms, and its slope."""
    a = call.attrs
    way = "relu" if a.get("fuse_with_relu") else a.get("act_type") or a.get("activation") or ""
    if way not in ACTIVATIONS:
        raise Declined
    return ACTIVATIONS[way], a.get("alpha", 0.0)


def _momentum(call: Call, c: Channels):
    """The momentum: a number, or an array of one element."""
    given = call.ins.get("MomentumTensor")
    if given is None:
        return call.attrs["momentum"]
    return given if given.dtype == c.dtype else call.numbers("MomentumTensor")[0]


def _forward(call: Call) -> dict:
    # Parameters are float32 for 16-bit images.
    if isinstance(call, WideCall) and is_half(call.narrow.ins["Scale"]):
        raise Declined
    x, added = call.array("X"), call.ins.get("Z")
    c = _channels(call, x)
    scale, bias, (act, alpha) = c.parameter("Scale"), c.parameter("Bias"), _activation(call)
    fixed, made = _global(call), {}
    if "MeanOut" in call._old:
        old = new = (call.old("MeanOut"), call.old("VarianceOut"))
        same_dtype(scale, *new)
    else:  # fused_bn_add_activation starts with 0 and 1
        old, new = (None, None), (c.per_channel(), c.per_channel())
    if fixed:
        old = (c.parameter("Mean"), c.parameter("Variance"))
    if added is not None:
        same_dtype(x, added)
    momentum = 0.0 if fixed else _momentum(call, c)
    mean, inverse, factors = c.statistics(scale, bias, old, new, momentum, call.attrs["epsilon"], fixed)
    made["SavedMean"], made["SavedVariance"] = mean, inverse
    if call.wanted.get("ReserveSpace") and "act_type" in call.attrs:
        made["ReserveSpace"] = call.empty((0,), x.dtype)
    return {**made, "Y": c.affine(factors, added, act, alpha), "MeanOut": new[0], "VarianceOut": new[1]}


def _statistics(call: Call, c: Channels) -> dict:
    """What the gradients of a normalization read besides its operands."""
    if _global(call):
        return {"mean": c.parameter("Mean"), "variance": c.parameter("Variance"), "epsilon": call.attrs["epsilon"],
                "fixed": True}  # fmt: skip
    return {"mean": c.parameter("SavedMean"), "inverse": c.parameter("SavedVariance")}


def _backward(call: Call) -> dict:
    x, d = call.array("X"), call.array("Y@GRAD")
    if call.attrs.get("fuse_with_relu"):
        raise Declined
    same_dtype(x, d)
    c = _channels(call, x)
    made, act, y, dz = {}, 0, None, None
    if "act_type" in call.attrs:
        y, way = call.array("Y"), call.attrs["act_type"]
        if way not in ("relu", "tanh", "sigmoid"):
            raise Declined
        same_dtype(x, y)
        act = ACTIVATIONS[way]
        if call.wanted.get("Z@GRAD"):
            dz = made["Z@GRAD"] = call.empty(d.shape, d.dtype)
    dscale, dbias, factors = c.gradients(d, c.parameter("Scale"), **_statistics(call, c), y=y, act=act)
    made.update({"X@GRAD": c.affine_grad(d, factors, y, act, dz), "Scale@GRAD": dscale, "Bias@GRAD": dbias})
    return {slot: value for slot, value in made.items() if slot in call.wanted}


def _abn_backward(call: Call) -> dict:
    """inplace_abn_grad: the normalized values are recovered from the output."""
    y, d, scale, bias = call.floats("Y", "Y@GRAD", "Scale", "Bias")
    xp, a, of = call.xp, call.attrs, y.dtype.type
    way, alpha = a["activation"], of(a["alpha"])
    if way == "leaky_relu":
        d, y = xp.where(y > 0, d, d * alpha), xp.where(y > 0, y, y / alpha)
    elif way == "elu":
        d = xp.where(y > 0, d, d * (y + alpha))
        y = xp.where(y > 0, y, xp.log(xp.minimum(y, of(0)) / alpha + 1))
    elif way not in ("", "identity"):
        raise Declined
    c = _channels(call, y)
    given = _statistics(call, c)
    dscale, dbias, factors = c.gradients(d, scale, shift=bias, **given)
    return {"X@GRAD": c.affine_grad(d, factors), "Scale@GRAD": dscale, "Bias@GRAD": dbias}


def _second(call: Call, x, axes, shape, mean, inverse, scale, fixed: bool) -> dict:
    """Second gradients of a normalization over axes; parameters are in a shape for broadcasting."""
    xp, dy = call.xp, call.array("DY")
    ddx, dds, ddb = (call.ins.get(slot) for slot in ("DDX", "DDScale", "DDBias"))
    n = math.prod(x.shape[i] for i in axes)
    h = (x - mean) * inverse

    def average(v):
        return v.sum(axis=axes, keepdims=True) / n

    def centred(v):
        """v without its mean and its part along h: the transpose of the normalization, times 1 / inverse."""
        return v if fixed else v - average(v) - h * average(v * h)

    made = {}
    zero = xp.zeros(x.shape, x.dtype)
    u = zero if ddx is None else ddx
    out = scale * inverse * centred(u)
    out = out if dds is None else out + h * dds.reshape(shape)
    made["DDY"] = out if ddb is None else out + ddb.reshape(shape)
    params = tuple(i for i, k in enumerate(shape) if k == 1)
    made["DScale"] = (dy * inverse * centred(u)).sum(axis=params).reshape(-1)
    if fixed:
        made["DX"] = zero if dds is None else dy * inverse * dds.reshape(shape)
        return made
    # The derivative of <ddx, dx(x)> = <scale * dy, inverse * centred(ddx)>, where h and inverse depend on x.
    g = scale * dy
    uh, gh = average(u * h), average(g * h)
    ug = average(u * g) - average(u) * average(g) - 3 * uh * gh
    part = -inverse * inverse * (uh * (g - average(g)) + gh * (u - average(u)) + h * ug)
    if dds is not None:
        part = part + inverse * centred(dy * dds.reshape(shape))
    made["DX"] = part
    return made


def _batch_second(call: Call) -> dict:
    x, scale, _ = call.floats("X", "Scale", "DY")
    last, fixed, of = _last(call), _global(call), x.dtype.type
    _channels(call, x)
    axes = tuple(range(x.ndim - 1)) if last else (0, *range(2, x.ndim))
    if fixed:
        mean = call.array("Mean")
        inverse = 1 / call.xp.sqrt(call.array("Variance") + of(call.attrs["epsilon"]))
    else:
        mean, inverse = call.array("SavedMean"), call.array("SavedVariance")
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    return _second(call, x, axes, shape, mean.reshape(shape), inverse.reshape(shape), scale.reshape(shape), fixed)


def _instance_second(call: Call) -> dict:
    x, _ = call.floats("X", "DY")
    if x.size == 0:
        raise Declined
    n, k = x.shape[:2]
    rest = (1,) * (x.ndim - 2)
    mean, inverse = (call.array(s).reshape(n, k, *rest) for s in ("SavedMean", "SavedVariance"))
    scale = call.ins.get("Scale")
    scale = call.xp.ones((1, k, *rest), x.dtype) if scale is None else scale.reshape(1, k, *rest)
    return _second(call, x, tuple(range(2, x.ndim)), (1, k, *rest), mean, inverse, scale, False)


def _grouped(call: Call, x):
    """x as [images, groups, elements], and how parameters are broadcast with x."""
    groups, last = call.attrs["groups"], call.attrs["data_layout"] == "NHWC"
    if x.size == 0:
        raise Declined
    n = x.shape[0]
    if last:
        c = x.shape[-1]
        inside = math.prod(x.shape[1:-1])
        return x.reshape(n, inside, groups, c // groups), (1, 3), (1, 1, groups, c // groups)
    c = x.shape[1]
    return x.reshape(n, groups, c // groups, -1), (2, 3), (1, groups, c // groups, 1)


def _group_norm(call: Call) -> dict:
    (x,), xp = call.floats("X"), call.xp
    v, axes, wide = _grouped(call, x)
    mean = v.mean(axis=axes, keepdims=True)
    variance = ((v - mean) ** 2).mean(axis=axes, keepdims=True)
    y = (v - mean) / xp.sqrt(variance + x.dtype.type(call.attrs["epsilon"]))
    if call.ins.get("Scale") is not None:
        y = y * call.array("Scale").reshape(wide)
    if call.ins.get("Bias") is not None:
        y = y + call.array("Bias").reshape(wide)
    made = {"Mean": mean, "Variance": variance}
    return {"Y": y.reshape(x.shape), **{s: m.reshape(call.shape(s)) for s, m in made.items()}}


def _group_norm_grad(call: Call) -> dict:
    """The normalized values are recovered from Y."""
    y, d = call.floats("Y", "Y@GRAD")
    xp = call.xp
    v, axes, wide = _grouped(call, y)
    d = d.reshape(v.shape)
    scale, bias = call.ins.get("Scale"), call.ins.get("Bias")
    h = v if bias is None else v - bias.reshape(wide)
    if scale is not None:
        s = scale.reshape(wide)
        h = xp.where(s == 0, h * 0, h / xp.where(s == 0, s + 1, s))
    variance = call.array("Variance").reshape([1 if i in axes else n for i, n in enumerate(v.shape)])
    inverse = 1 / xp.sqrt(variance + y.dtype.type(call.attrs["epsilon"]))
    g = d if scale is None else d * scale.reshape(wide)
    dx = inverse * (g - g.mean(axis=axes, keepdims=True) - h * (g * h).mean(axis=axes, keepdims=True))
    params = tuple(i for i, k in enumerate(wide) if k == 1)
    made = {"X@GRAD": dx.reshape(y.shape)}
    if scale is not None:
        made["Scale@GRAD"] = (d * h).sum(axis=params).reshape(scale.shape)
    if bias is not None:
        made["Bias@GRAD"] = d.sum(axis=params).reshape(bias.shape)
    return {slot: value for slot, value in made.items() if slot in call.wanted}


def _around(call: Call, v, n: int, axis: int):
    """Sums over the n channels around each."""
    xp, before = call.xp, (n - 1) // 2
    pads = [(0, 0)] * v.ndim
    pads[axis] = (before, n - 1 - before)
    wide, total = xp.pad(v, pads, mode="constant"), 0
    for i in range(n):
        part = [slice(None)] * v.ndim
        part[axis] = slice(i, i + v.shape[axis])
        total = total + wide[tuple(part)]
    return total


def _lrn(call: Call) -> dict:
    (x,), a = call.floats("X"), call.attrs
    of, axis = x.dtype.type, 3 if a["data_format"] == "NHWC" else 1
    mid = of(a["k"]) + of(a["alpha"]) * _around(call, x * x, a["n"], axis)
    return {"Out": x * mid ** of(-a["beta"]), "MidOut": mid}


def _lrn_grad(call: Call) -> dict:
    (x, out, mid, d), a = call.floats("X", "Out", "MidOut", "Out@GRAD"), call.attrs
    of, axis = x.dtype.type, 3 if a["data_format"] == "NHWC" else 1
    total = _around(call, d * out / mid, a["n"], axis)
    return {"X@GRAD": d * mid ** of(-a["beta"]) - of(2 * a["alpha"] * a["beta"]) * x * total}


def _affine_grad(call: Call) -> dict:
    d, scale = call.floats("Out@GRAD", "Scale")
    last = call.attrs["data_layout"] == "NHWC"
    wide = (-1,) if last else (-1, *(1,) * (d.ndim - 2))
    axes = tuple(range(d.ndim - 1)) if last else (0, *range(2, d.ndim))
    made = {"X@GRAD": d * scale.reshape(wide)}
    if call.wanted["Scale@GRAD"] or call.wanted["Bias@GRAD"]:
        made["Scale@GRAD"] = (d * call.array("X")).sum(axis=axes)
        made["Bias@GRAD"] = d.sum(axis=axes)
    return made


_FORWARD = ("batch_norm", "sync_batch_norm", "inplace_abn", "fused_batch_norm_act", "fused_bn_add_activation")


_BY_CUPY: dict[str, Callable[[Call], dict]] = {
    "inplace_abn_grad": _abn_backward,
    "batch_norm_grad_grad": _batch_second,
    "instance_norm_grad_grad": _instance_second,
    "group_norm": _group_norm,
    "group_norm_grad": _group_norm_grad,
    "lrn": _lrn,
    "lrn_grad": _lrn_grad,
    "affine_channel_grad": _affine_grad,
}
LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    **dict.fromkeys(_FORWARD, _forward),
    **dict.fromkeys([f"{op}_grad" for op in _FORWARD], _backward),
    **{op: wide_only(launch) for op, launch in _BY_CUPY.items()},
}
