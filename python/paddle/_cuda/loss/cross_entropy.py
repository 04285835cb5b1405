"""Cross entropies by class or distribution: cross_entropy, cross_entropy2, softmax_with_cross_entropy, nll_loss,
bpr_loss; a block per row for the softmax with its loss."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .. import sticky
from ..call import Call, Declined, ctype, same_dtype
from ..ids import checked
from ..nn.softmax import SOURCE as SOFTMAX
from ..units import INTEGERS, REALS, Unit, block_of, grid_of, instances

SOURCE = (
    SOFTMAX.split("// Run b:")[0]
    + r"""
// The labels of runs: class numbers, or (I = T) distributions. `of_element` is what element i adds to the loss of its
// run, `of_run` the loss of run b by the sum of these, `slope` the gradient of the logit of probability y.
template <typename T> __device__ __forceinline__ T clipped(T d) { return d < T(-64) ? T(-64) : d; }
template <typename T, typename I> struct Label {
    static __device__ __forceinline__ T of_element(const I*, i64, T, T) { return T(0); }
    static __device__ __forceinline__ T of_run(const I* label, i64 b, const T* x, i64 n, i64 inner, i64 ignored, T most,
                                               T of_total, T) {
        i64 l = (i64)label[b];
        return l != ignored && l >= 0 && l < n ? of_total - clipped(x[l * inner] - most) : T(0);
    }
    static __device__ __forceinline__ T slope(const I* label, i64 i, i64 run, i64 at, T y, T d, i64 ignored) {
        i64 l = (i64)label[run];
        return l == ignored ? T(0) : d * (y - (at == l ? T(1) : T(0)));
    }
    static const bool is_class = true;
};
template <typename T> struct Label<T, T> {
    static __device__ __forceinline__ T of_element(const T* label, i64 i, T d, T of_total) {
        return label[i] * (of_total - clipped(d));
    }
    static __device__ __forceinline__ T of_run(const T*, i64, const T*, i64, i64, i64, T, T, T sum) { return sum; }
    static __device__ __forceinline__ T slope(const T* label, i64 i, i64, i64, T y, T d, i64) {
        return d * (y - label[i]);
    }
    static const bool is_class = false;
};

// Run b is elements x[base + i * inner], i < n. The loss is the cross entropy of its softmax with the label.
template <typename T, typename I> __global__ void softmax_loss(const T* x, const I* label, T* y, T* loss, i64 runs,
                                                               i64 n, i64 inner, i64 ignored) {
    typedef Label<T, I> L;
    for (i64 b = blockIdx.x; b < runs; b += gridDim.x) {
        i64 base = b / inner * n * inner + b % inner;
        T most = x[base];
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) most = Max::join(most, x[base + i * inner]);
        most = block_join<Max>(most);
        T total = T(0), sum = T(0);
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) total += below(x[base + i * inner], most);
        total = block_join<Sum>(total);
        T of_total = log(total);
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
            i64 at = base + i * inner;
            y[at] = below(x[at], most) / total;
            sum += L::of_element(label, at, x[at] - most, of_total);
        }
        if (!L::is_class) sum = block_join<Sum>(sum);
        if (threadIdx.x == 0) loss[b] = L::of_run(label, b, x + base, n, inner, ignored, most, of_total, sum);
    }
}

template <typename T, typename I> __global__ void softmax_loss_grad(const T* y, const I* label, const T* d, T* dx,
                                                                    i64 size, i64 n, i64 inner, i64 ignored) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < size; i += (i64)gridDim.x * blockDim.x) {
        i64 run = i / (n * inner) * inner + i % inner;
        dx[i] = Label<T, I>::slope(label, i, run, i / inner % n, y[i], d[run], ignored);
    }
}
"""
)
_KERNELS = ("softmax_loss", "softmax_loss_grad")
UNIT = Unit(
    "cross_entropy",
    SOURCE,
    sum((instances(k, (t,), (*INTEGERS.values(), t)) for k in _KERNELS for t in REALS.values()), ()),
)


def _labels(call: Call, label, shape, axis: int, ignored: int):
    """Valid class numbers with size 1 along `axis`, and the mask of the others."""
    shape = (*shape[:axis], 1, *shape[axis + 1 :])
    if label.dtype.kind != "i" or label.size != np.prod(shape, dtype=np.int64):
        raise Declined
    return label.reshape(shape)


def _picked(call: Call, x, label, axis: int, ignored: int):
    """The elements of x at the labels, the valid labels, and which are not ignored."""
    given = _labels(call, label, x.shape, axis, ignored)
    at = checked(call, given, x.shape[axis], also=ignored)
    return call.xp.take_along_axis(x, at, axis), at, given != ignored


def _spread(call: Call, shape, at, values, axis: int):
    """zeros of `shape` with values at the labels."""
    xp, n = call.xp, shape[axis]
    place = [1] * len(shape)
    place[axis] = n
    return xp.where(xp.arange(n).reshape(place) == at, values, values.dtype.type(0))


def _log(xp, x):
    """The logarithm, finite as on the CPU."""
    most = x.dtype.type(1e20)
    value = xp.log(x)
    return xp.where(value == -xp.inf, -most, xp.where(value == xp.inf, most, value))


def _entropy(call: Call) -> dict:
    (x,), label, a = call.floats("X"), call.array("Label"), call.attrs
    xp, shape = call.xp, call.shape("Y")
    if x.size == 0:
        raise Declined
    if a.get("soft_label"):
        same_dtype(x, label)
        y = -(label * _log(xp, x)).sum(axis=-1, keepdims=True)
        return {"Y": y.reshape(shape)}
    value, _, valid = _picked(call, x, label, x.ndim - 1, a["ignore_index"])
    y = xp.where(valid, -_log(xp, value), x.dtype.type(0))
    made = {"Y": y.reshape(shape)}
    if call.op == "cross_entropy2":
        made["XShape"] = call.out("XShape")
        made["MatchX"] = xp.where(valid, value, x.dtype.type(0)).reshape(call.shape("MatchX"))
    return made


def _entropy_grad(call: Call) -> dict:
    x, d = call.floats("X", "Y@GRAD")
    label, a, axis = call.array("Label"), call.attrs, x.ndim - 1
    d = d.reshape((*x.shape[:-1], 1))
    if x.size == 0:
        raise Declined
    if a["soft_label"]:
        same_dtype(x, label)
        return {"X@GRAD": -label * d / x}
    value, at, valid = _picked(call, x, label, axis, a["ignore_index"])
    return {"X@GRAD": _spread(call, x.shape, at, call.xp.where(valid, -d / value, x.dtype.type(0)), axis)}


def _entropy2_grad(call: Call) -> dict:
    match, d = call.floats("MatchX", "Y@GRAD")
    shape, label, xp = call.shape("X@GRAD"), call.array("Label"), call.xp
    if 0 in shape:
        raise Declined
    axis, ignored = len(shape) - 1, call.attrs["ignore_index"]
    given = _labels(call, label, shape, axis, ignored)
    at, valid = checked(call, given, shape[-1], also=ignored), given != ignored
    value = -d.reshape(given.shape) / match.reshape(given.shape)
    if call.ins.get("MatchX@GRAD") is not None:
        value = value + call.array("MatchX@GRAD").reshape(given.shape)
    return {"X@GRAD": _spread(call, shape, at, xp.where(valid, value, value.dtype.type(0)), axis)}


def _entropy2_second(call: Call) -> dict:
    match, d, ddx = call.floats("MatchX", "DY", "DDX")
    xp, zero = call.xp, match.dtype.type(0)
    if ddx.size == 0:
        raise Declined
    g, _, valid = _picked(call, ddx, call.array("Label"), ddx.ndim - 1, call.attrs["ignore_index"])
    g = xp.where(valid, g, zero)
    m, dy = match.reshape(g.shape), d.reshape(g.shape)
    results = {
        "DDY": xp.where(g == 0, zero, -g / m),
        "DMatchX": xp.where(g == 0, zero, g * dy / (m * m)),
        "DDMatchX": g,
    }
    return {slot: value.reshape(call.shape(slot)) for slot, value in results.items()}


def _softmax_entropy(call: Call) -> dict:
    (x,), label, a = call.floats("Logits"), call.array("Label"), call.attrs
    xp, axis = call.xp, a["axis"] % max(x.ndim, 1)
    if x.size == 0 or x.ndim == 0:
        raise Declined
    if a["soft_label"]:
        same_dtype(x, label)
        if not a["use_softmax"]:
            return {"Softmax": x.copy(), "Loss": -(label * _log(xp, x)).sum(axis=axis, keepdims=True)}
        if label.shape != x.shape:
            raise Declined
        return _by_softmax(call, x, label, axis)
    ignored = a["ignore_index"]
    given = _labels(call, label, x.shape, axis, ignored)
    if not a["use_softmax"]:
        value, _, valid = _picked(call, x, label, axis, ignored)
        return {"Softmax": x.copy(), "Loss": xp.where(valid, -_log(xp, value), x.dtype.type(0))}
    ctype(given, INTEGERS)
    sticky.check_ids(call, given, 0, x.shape[axis], ignored)
    return _by_softmax(call, x, given, axis)


def _by_softmax(call: Call, x, label, axis: int) -> dict:
    """The softmax and the loss by one kernel."""
    n, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    softmax, loss = call.empty(x.shape, x.dtype), call.empty((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype)
    numbers = map(np.int64, (x.size // n, n, inner, call.attrs["ignore_index"]))
    kernel = f"softmax_loss<{ctype(x, REALS)}, {ctype(label)}>"
    call.launch(UNIT, kernel, min(x.size // n, 65535), block_of(n), x, label, softmax, loss, *numbers)
    return {"Softmax": softmax, "Loss": loss}


def _softmax_entropy_grad(call: Call) -> dict:
    p, d = call.floats("Softmax", "Loss@GRAD")
    label, a, xp = call.array("Label"), call.attrs, call.xp
    if p.size == 0 or p.ndim == 0:
        raise Declined
    axis = a["axis"] % p.ndim
    d = d.reshape((*p.shape[:axis], 1, *p.shape[axis + 1 :]))
    if a["soft_label"]:
        same_dtype(p, label)
        if not a["use_softmax"]:
            return {"Logits@GRAD": -label * d / p}
        if label.shape != p.shape:
            raise Declined
        return _slope(call, p, label, d, axis)
    if a["use_softmax"]:
        given = _labels(call, label, p.shape, axis, a["ignore_index"])
        ctype(given, INTEGERS)
        return _slope(call, p, given, d, axis)
    value, at, valid = _picked(call, p, label, axis, a["ignore_index"])
    zero = p.dtype.type(0)
    return {"Logits@GRAD": _spread(call, p.shape, at, xp.where(valid, -d / value, zero), axis)}


def _slope(call: Call, p, label, d, axis: int) -> dict:
    """The gradient of the logits by a kernel."""
    out = call.empty(p.shape, p.dtype)
    numbers = map(np.int64, (p.size, p.shape[axis], math.prod(p.shape[axis + 1 :]), call.attrs["ignore_index"]))
    kernel = f"softmax_loss_grad<{ctype(p, REALS)}, {ctype(label)}>"
    call.launch(UNIT, kernel, grid_of(p.size), 256, p, label, d, out, *numbers)
    return {"Logits@GRAD": out}


def _nll_parts(call: Call, shape, dtype):
    """The valid classes and the weight of each loss."""
    if 0 in shape:
        raise Declined
    ignored = call.attrs["ignore_index"]
    given = _labels(call, call.array("Label"), shape, 1, ignored)
    at, weight = checked(call, given, shape[1], also=ignored), (given != ignored).astype(dtype)
    if call.ins.get("Weight") is not None:
        weight = weight * call.xp.take(call.array("Weight"), at)
    return at, weight


def _nll(call: Call) -> dict:
    (x,), xp, how = call.floats("X"), call.xp, call.attrs["reduction"]
    at, weight = _nll_parts(call, x.shape, x.dtype)
    loss = -xp.take_along_axis(x, at, 1) * weight
    if how == "none":
        return {"Out": loss.reshape(call.shape("Out")), "Total_weight": xp.zeros(1, x.dtype)}
    total, loss = weight.sum().reshape(1), loss.sum().reshape(1)
    if how == "mean":
        loss = xp.where(total == 0, x.dtype.type(0), loss / xp.where(total == 0, x.dtype.type(1), total))
    return {"Out": loss, "Total_weight": total}


def _nll_grad(call: Call) -> dict:
    (d,), xp, how, shape = call.floats("Out@GRAD"), call.xp, call.attrs["reduction"], tuple(call.ins["X"].shape)
    at, weight = _nll_parts(call, shape, d.dtype)
    d = d.reshape(at.shape if how == "none" else (1,) * len(shape))
    if how == "mean":
        total = call.array("Total_weight").reshape((1,) * len(shape))
        d = xp.where(total == 0, d.dtype.type(0), d / xp.where(total == 0, d.dtype.type(1), total))
    return {"X@GRAD": _spread(call, shape, at, -weight * d, 1)}


def _bpr_parts(call: Call):
    (x,), xp = call.floats("X"), call.xp
    if x.size == 0:
        raise Declined
    value, at, _ = _picked(call, x, call.array("Label"), x.ndim - 1, -(1 << 62))
    return x, value, xp.arange(x.shape[-1]) != at


def _bpr(call: Call) -> dict:
    x, value, others = _bpr_parts(call)
    xp = call.xp
    each = xp.where(others, xp.log1p(xp.exp(x - value)), x.dtype.type(0))
    return {"Y": (each.sum(axis=-1) / max(x.shape[-1] - 1, 1)).reshape(call.shape("Y"))}


def _bpr_grad(call: Call) -> dict:
    x, value, others = _bpr_parts(call)
    xp, zero = call.xp, x.dtype.type(0)
    d = call.array("Y@GRAD").reshape((*x.shape[:-1], 1)) / max(x.shape[-1] - 1, 1)
    slope = xp.where(others, d / (1 + xp.exp(value - x)), zero)
    return {"X@GRAD": xp.where(others, slope, -slope.sum(axis=-1, keepdims=True))}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "cross_entropy": _entropy,
    "cross_entropy_grad": _entropy_grad,
    "cross_entropy2": _entropy,
    "cross_entropy_grad2": _entropy2_grad,
    "cross_entropy_grad2_grad": _entropy2_second,
    "softmax_with_cross_entropy": _softmax_entropy,
    "softmax_with_cross_entropy_grad": _softmax_entropy_grad,
    "nll_loss": _nll,
    "nll_loss_grad": _nll_grad,
    "bpr_loss": _bpr,
    "bpr_loss_grad": _bpr_grad,
}
