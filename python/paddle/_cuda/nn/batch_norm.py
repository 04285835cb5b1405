"""batch_norm, sync_batch_norm and inplace_abn (one process) and their fused forms, group_norm, instance_norm's second
gradient, lrn, affine_channel's gradient: statistics of a channel by one block, in a fixed order."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..call import Call, Declined, ctype, same_dtype
from ..halves import WideCall, is_half
from ..units import REALS, Unit, grid_of, instances

SOURCE = r"""
// x: [outer, channels, inner]. Mean and variance of each channel, in two passes.
template <typename T> __global__ void channel_moments(const T* x, T* mean, T* variance, i64 outer, i64 channels,
                                                      i64 inner) {
    i64 n = outer * inner;
    for (i64 c = blockIdx.x; c < channels; c += gridDim.x) {
        T sum = T(0);
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) sum += x[(i / inner * channels + c) * inner + i % inner];
        T m = block_join<Sum>(sum) / T(n), squares = T(0);
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
            T v = x[(i / inner * channels + c) * inner + i % inner] - m;
            squares += v * v;
        }
        squares = block_join<Sum>(squares);
        if (threadIdx.x == 0) {
            mean[c] = m;
            variance[c] = squares / T(n);
        }
    }
}

// The sums of d and of d * (x - mean) over each channel.
template <typename T> __global__ void channel_sums(const T* x, const T* d, const T* mean, T* sums, T* dots, i64 outer,
                                                   i64 channels, i64 inner) {
    i64 n = outer * inner;
    for (i64 c = blockIdx.x; c < channels; c += gridDim.x) {
        T sum = T(0), dot = T(0), m = mean[c];
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
            i64 at = (i / inner * channels + c) * inner + i % inner;
            sum += d[at];
            dot += d[at] * (x[at] - m);
        }
        sum = block_join<Sum>(sum);
        dot = block_join<Sum>(dot);
        if (threadIdx.x == 0) {
            sums[c] = sum;
            dots[c] = dot;
        }
    }
}

// y = a[c] * x + b[c] * z + k[c]; z may be absent.
template <typename T> __global__ void channel_affine(const T* x, const T* a, const T* z, const T* b, const T* k, T* y,
                                                     i64 n, i64 channels, i64 inner) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 c = i / inner % channels;
        y[i] = a[c] * x[i] + (z ? b[c] * z[i] : T(0)) + k[c];
    }
}
"""
_KERNELS = ("channel_moments", "channel_sums", "channel_affine")
UNIT = Unit("batch_norm", SOURCE, sum((instances(k, REALS) for k in _KERNELS), ()))


class Channels:
    """x as [outer, channels, inner]."""

    def __init__(self, call: Call, x, last: bool) -> None:
        self.call, self.xp, self.x, self.t = call, call.xp, x, ctype(x, REALS)
        if x.size == 0 or x.ndim < 2:
            raise Declined
        self.channels = x.shape[-1] if last else x.shape[1]
        self.outer = math.prod(x.shape[:-1]) if last else x.shape[0]
        self.inner = 1 if last else math.prod(x.shape[2:])
        self.count = self.outer * self.inner
        if self.count == 1:  # one element has no variance
            raise Declined
        self.sizes = [np.int64(v) for v in (self.outer, self.channels, self.inner)]
        # A channel of values or of sums, for broadcasting.
        self.wide = (1,) * (x.ndim - 1) + (-1,) if last else (1, -1) + (1,) * (x.ndim - 2)

    def _block(self) -> int:
        return min(256, max(32, -(-self.count // 32) * 32))

    def moments(self):
        mean, variance = (self.call.empty((self.channels,), self.x.dtype) for _ in range(2))
        grid = grid_of(self.channels, 1)
        self.call.launch(UNIT, f"channel_moments<{self.t}>", grid, self._block(), self.x, mean, variance, *self.sizes)
        return mean, variance

    def sums(self, d, mean):
        """The sums of d and of d * (x - mean)."""
        same_dtype(self.x, d, mean)
        sums, dots = (self.call.empty((self.channels,), self.x.dtype) for _ in range(2))
        arrays, grid = (self.x, d, mean, sums, dots), grid_of(self.channels, 1)
        self.call.launch(UNIT, f"channel_sums<{self.t}>", grid, self._block(), *arrays, *self.sizes)
        return sums, dots

    def affine(self, x, a, k, z=None, b=None):
        """a * x + b * z + k by channel."""
        y, none = self.call.empty(x.shape, x.dtype), np.uint64(0)
        a, k = (self.xp.ascontiguousarray(v) for v in (a, k))
        z, b = (none, none) if z is None else (z, self.xp.ascontiguousarray(b))
        self.call.launch(UNIT, f"channel_affine<{self.t}>", grid_of(x.size), 256, x, a, z, b, k, y, np.int64(x.size),
                         *self.sizes[1:])  # fmt: skip
        return y


def _last(call: Call) -> bool:
    # The fused forms have no layout: channels are last.
    return call.attrs.get("data_layout", "NHWC") == "NHWC"


def _momentum(call: Call, of):
    given = call.numbers("MomentumTensor")
    return of(given[0] if given else call.attrs["momentum"])


def _activated(call: Call, y):
    """The activation of the fused forms, in place of y."""
    xp, a = call.xp, call.attrs
    way = a.get("act_type") or a.get("activation") or ""
    if a.get("fuse_with_relu") or way == "relu":
        return xp.maximum(y, y.dtype.type(0))
    if way in ("", "identity"):
        return y
    if way == "tanh":
        return xp.tanh(y)
    if way == "sigmoid":
        return 1 / (1 + xp.exp(-y))
    of = y.dtype.type(a.get("alpha", 0))
    if way == "leaky_relu":
        return xp.where(y > 0, y, y * of)
    if way == "elu":
        return xp.where(y > 0, y, of * (xp.exp(y) - 1))
    raise Declined


def _global(call: Call) -> bool:
    a = call.attrs
    return (bool(a.get("is_test")) and not a.get("trainable_statistics")) or bool(a.get("use_global_stats"))


def _forward(call: Call) -> dict:
    x, scale, bias = call.floats("X", "Scale", "Bias")
    xp, of, added = call.xp, x.dtype.type, call.ins.get("Z")
    c = Channels(call, x, _last(call))
    # Parameters are float32 for 16-bit images.
    if isinstance(call, WideCall) and is_half(call.narrow.ins["Scale"]):
        raise Declined
    epsilon, made = of(call.attrs["epsilon"]), {}
    if "MeanOut" in call._old:
        running = [call.old("MeanOut"), call.old("VarianceOut")]
        same_dtype(x, *running)
    else:  # fused_bn_add_activation starts with 0 and 1
        running = [xp.zeros(c.channels, x.dtype), xp.ones(c.channels, x.dtype)]
    if _global(call):
        mean, variance = call.array("Mean"), call.array("Variance")
        inverse = 1 / xp.sqrt(variance + epsilon)
        made["SavedMean"], made["SavedVariance"] = mean.copy(), inverse
    else:
        mean, variance = c.moments()
        keep = _momentum(call, of)
        for old, new in zip(running, (mean, variance), strict=True):
            old[...] = old * keep + new * (1 - keep)
        inverse = 1 / xp.sqrt(variance + epsilon)
        made["SavedMean"], made["SavedVariance"] = mean, inverse
    y = c.affine(x, scale.reshape(-1) * inverse, bias.reshape(-1) - mean * scale.reshape(-1) * inverse)
    if added is not None:
        y = y + added
    if call.wanted.get("ReserveSpace") and "act_type" in call.attrs:
        made["ReserveSpace"] = call.empty((0,), x.dtype)
    return {**made, "Y": _activated(call, y), "MeanOut": running[0], "VarianceOut": running[1]}


def _input_grad(c: Channels, d, scale, mean, inverse, fixed: bool):
    """Gradients of X, Scale and Bias; `fixed`: the statistics do not depend on X."""
    sums, dots = c.sums(d, mean)
    dscale = dots * inverse
    a = scale * inverse
    if fixed:
        return c.affine(d, a, a * 0), dscale, sums
    slope = -a * inverse * dscale / c.count
    return c.affine(d, a, -a * sums / c.count - slope * mean, c.x, slope), dscale, sums


def _backward(call: Call) -> dict:
    x, d, scale = call.floats("X", "Y@GRAD", "Scale")
    xp, of, scale = call.xp, x.dtype.type, scale.reshape(-1)
    if call.attrs.get("fuse_with_relu"):
        raise Declined
    made = {}
    if "act_type" in call.attrs:
        y, way = call.array("Y"), call.attrs["act_type"]
        if way not in ("relu", "tanh", "sigmoid"):
            raise Declined
        d = xp.where(y > 0, d, of(0)) if way == "relu" else d * (1 - y * y if way == "tanh" else y * (1 - y))
        made["Z@GRAD"] = d
    c = Channels(call, x, _last(call))
    fixed = _global(call)
    if fixed:
        mean = call.array("Mean")
        inverse = 1 / xp.sqrt(call.array("Variance") + of(call.attrs["epsilon"]))
    else:
        mean, inverse = call.array("SavedMean"), call.array("SavedVariance")
    dx, dscale, dbias = _input_grad(c, d, scale, mean, inverse, fixed)
    made.update({"X@GRAD": dx, "Scale@GRAD": dscale, "Bias@GRAD": dbias})
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
    c = Channels(call, y, _last(call))
    scale, bias = scale.reshape(-1), bias.reshape(-1)
    normal = c.affine(y, 1 / scale, -bias / scale)
    if _global(call):
        inverse = 1 / xp.sqrt(call.array("Variance") + of(a["epsilon"]))
    else:
        inverse = call.array("SavedVariance")
    c.x, zero = normal, xp.zeros(c.channels, y.dtype)
    dx, dscale, dbias = _input_grad(c, d, scale, zero, xp.ones(c.channels, y.dtype), _global(call))
    dx = c.affine(dx, inverse, zero)
    return {"X@GRAD": dx, "Scale@GRAD": dscale, "Bias@GRAD": dbias}


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
    c, fixed, of = Channels(call, x, _last(call)), _global(call), x.dtype.type
    axes = tuple(range(x.ndim - 1)) if _last(call) else (0, *range(2, x.ndim))
    if fixed:
        mean = call.array("Mean")
        inverse = 1 / call.xp.sqrt(call.array("Variance") + of(call.attrs["epsilon"]))
    else:
        mean, inverse = call.array("SavedMean"), call.array("SavedVariance")
    wide = c.wide
    shape = tuple(c.channels if k == -1 else 1 for k in wide)
    return _second(call, x, axes, shape, mean.reshape(wide), inverse.reshape(wide), scale.reshape(wide), fixed)


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
LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    **dict.fromkeys(_FORWARD, _forward),
    **dict.fromkeys([f"{op}_grad" for op in _FORWARD], _backward),
    "inplace_abn_grad": _abn_backward,
    "batch_norm_grad_grad": _batch_second,
    "instance_norm_grad_grad": _instance_second,
    "group_norm": _group_norm,
    "group_norm_grad": _group_norm_grad,
    "lrn": _lrn,
    "lrn_grad": _lrn_grad,
    "affine_channel_grad": _affine_grad,
}
