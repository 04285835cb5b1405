"""instance_norm and its gradient: a block per channel of an image; parameter gradients use a thread per channel."""

from __future__ import annotations

import numpy as np

from ..call import Call, Declined, ctype, same_dtype
from ..units import REALS, Unit, block_of, grid_of, instances

SOURCE = r"""
template <typename T> __global__ void instance_norm(const T* x, const T* scale, const T* bias, T* y, T* mean,
                                                    T* inverse, i64 rows, i64 n, i64 channels, T epsilon) {
    for (i64 r = blockIdx.x; r < rows; r += gridDim.x) {
        const T* row = x + r * n;
        T sum = T(0);
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) sum += row[i];
        T m = block_join<Sum>(sum) / T(n);
        T squares = T(0);
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) squares += (row[i] - m) * (row[i] - m);
        T inv = T(1) / sqrt(block_join<Sum>(squares) / T(n) + epsilon);
        T s = scale ? scale[r % channels] : T(1), b = bias ? bias[r % channels] : T(0);
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) y[r * n + i] = (row[i] - m) * inv * s + b;
        if (threadIdx.x == 0) {
            mean[r] = m;
            inverse[r] = inv;
        }
    }
}

// What every channel of every image adds to the parameters' gradients is kept: `dots` and `sums`, one a row.
template <typename T> __global__ void instance_norm_dx(const T* x, const T* dy, const T* scale, const T* mean,
                                                       const T* inverse, T* dx, T* dots, T* sums, i64 rows, i64 n,
                                                       i64 channels) {
    for (i64 r = blockIdx.x; r < rows; r += gridDim.x) {
        T m = mean[r], inv = inverse[r], sum = T(0), dot = T(0);
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
            sum += dy[r * n + i];
            dot += dy[r * n + i] * (x[r * n + i] - m) * inv;
        }
        sum = block_join<Sum>(sum);
        dot = block_join<Sum>(dot);
        T s = (scale ? scale[r % channels] : T(1)) * inv;
        for (i64 i = threadIdx.x; i < n; i += blockDim.x)
            dx[r * n + i] = s * (dy[r * n + i] - sum / T(n) - (x[r * n + i] - m) * inv * (dot / T(n)));
        if (threadIdx.x == 0) {
            dots[r] = dot;
            sums[r] = sum;
        }
    }
}

// Images are added in their order: the result is the same in every run.
template <typename T> __global__ void instance_norm_dparams(const T* dots, const T* sums, T* dscale, T* dbias,
                                                            i64 images, i64 channels) {
    for (i64 c = blockIdx.x * (i64)blockDim.x + threadIdx.x; c < channels; c += (i64)gridDim.x * blockDim.x) {
        T ds = T(0), db = T(0);
        for (i64 k = 0; k < images; k++) {
            ds += dots[k * channels + c];
            db += sums[k * channels + c];
        }
        dscale[c] = ds;
        dbias[c] = db;
    }
}
"""
_KERNELS = ("instance_norm", "instance_norm_dx", "instance_norm_dparams")
UNIT = Unit("instance_norm", SOURCE, sum((instances(k, REALS) for k in _KERNELS), ()))


def _sizes(x):
    """Images, channels, and elements per channel of an image."""
    if x.size == 0:
        raise Declined
    images, channels = x.shape[:2]
    return images, channels, x.size // (images * channels)


def _parameter(call: Call, slot: str, x, channels: int):
    if call.ins.get(slot) is None:
        return np.uint64(0)
    array = call.array(slot)
    same_dtype(array, x)
    if array.size != channels:
        raise Declined
    return array


def _instance_norm(call: Call) -> dict:
    x = call.array("X")
    t = ctype(x, REALS)
    images, channels, n = _sizes(x)
    scale, bias = (_parameter(call, slot, x, channels) for slot in ("Scale", "Bias"))
    y, mean, inverse = call.out("Y"), call.out("SavedMean"), call.out("SavedVariance")
    rows = images * channels
    call.launch(
        UNIT,
        f"instance_norm<{t}>",
        min(rows, 65535),
        block_of(n),
        x,
        scale,
        bias,
        y,
        mean,
        inverse,
        np.int64(rows),
        np.int64(n),
        np.int64(channels),
        x.dtype.type(call.attrs["epsilon"]),
    )
    return {"Y": y, "SavedMean": mean, "SavedVariance": inverse}


def _instance_norm_grad(call: Call) -> dict:
    x, dy, mean, inverse = (call.array(s) for s in ("X", "Y@GRAD", "SavedMean", "SavedVariance"))
    same_dtype(x, dy, mean, inverse)
    t = ctype(x, REALS)
    images, channels, n = _sizes(x)
    rows = images * channels
    if dy.shape != x.shape or mean.size != rows or inverse.size != rows:
        raise Declined
    scale = _parameter(call, "Scale", x, channels)
    dx, dots, sums = call.out("X@GRAD"), call.empty((rows,), x.dtype), call.empty((rows,), x.dtype)
    call.launch(
        UNIT,
        f"instance_norm_dx<{t}>",
        min(rows, 65535),
        block_of(n),
        x,
        dy,
        scale,
        mean,
        inverse,
        dx,
        dots,
        sums,
        np.int64(rows),
        np.int64(n),
        np.int64(channels),
    )
    out = {"X@GRAD": dx}
    if call.wanted["Scale@GRAD"] or call.wanted["Bias@GRAD"]:
        dscale, dbias = call.empty((channels,), x.dtype), call.empty((channels,), x.dtype)
        call.launch(
            UNIT,
            f"instance_norm_dparams<{t}>",
            grid_of(channels),
            256,
            dots,
            sums,
            dscale,
            dbias,
            np.int64(images),
            np.int64(channels),
        )
        out.update({"Scale@GRAD": dscale, "Bias@GRAD": dbias})
    return out


LAUNCHERS = {"instance_norm": _instance_norm, "instance_norm_grad": _instance_norm_grad}
