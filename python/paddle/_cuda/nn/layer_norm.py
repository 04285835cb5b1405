"""layer_norm and its gradient: a block per row; parameter gradients use a thread per column."""

from __future__ import annotations

import numpy as np

from ..call import Call, Declined, ctype, same_dtype
from ..math.reduction import COLUMN, reduce
from ..units import REALS, Unit, block_of, grid_of, instances

SOURCE = r"""
template <typename T> __global__ void layer_norm(const T* x, const T* scale, const T* bias, T* y, T* mean, T* variance,
                                                 i64 rows, i64 n, T epsilon) {
    for (i64 r = blockIdx.x; r < rows; r += gridDim.x) {
        const T* row = x + r * n;
        T sum = T(0);
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) sum += row[i];
        T m = block_join<Sum>(sum) / T(n);
        T squares = T(0);
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) squares += (row[i] - m) * (row[i] - m);
        T v = block_join<Sum>(squares) / T(n);
        T inverse = T(1) / sqrt(v + epsilon);
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
            T value = (row[i] - m) * inverse;
            if (scale) value *= scale[i];
            if (bias) value += bias[i];
            y[r * n + i] = value;
        }
        if (threadIdx.x == 0) {
            mean[r] = m;
            variance[r] = v;
        }
    }
}

template <typename T> __global__ void layer_norm_dx(const T* x, const T* dy, const T* scale, const T* mean,
                                                    const T* variance, T* dx, i64 rows, i64 n, T epsilon) {
    for (i64 r = blockIdx.x; r < rows; r += gridDim.x) {
        T m = mean[r], inverse = T(1) / sqrt(variance[r] + epsilon), sum = T(0), dot = T(0);
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
            T g = dy[r * n + i] * (scale ? scale[i] : T(1));
            sum += g;
            dot += g * (x[r * n + i] - m) * inverse;
        }
        sum = block_join<Sum>(sum) / T(n);
        dot = block_join<Sum>(dot) / T(n);
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
            T g = dy[r * n + i] * (scale ? scale[i] : T(1));
            dx[r * n + i] = (g - sum - (x[r * n + i] - m) * inverse * dot) * inverse;
        }
    }
}

// A thread adds up `chunk` rows of a column in their order: dscale and dbias [chunks, n].
template <typename T> __global__ void layer_norm_dparams(const T* x, const T* dy, const T* mean, const T* variance,
                                                         T* dscale, T* dbias, i64 rows, i64 n, i64 chunk, i64 chunks,
                                                         T epsilon) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < chunks * n; i += (i64)gridDim.x * blockDim.x) {
        i64 c = i % n, from = i / n * chunk, end = from + chunk < rows ? from + chunk : rows;
        T ds = T(0), db = T(0);
        for (i64 r = from; r < end; r++) {
            T g = dy[r * n + c];
            ds += g * (x[r * n + c] - mean[r]) / sqrt(variance[r] + epsilon);
            db += g;
        }
        dscale[i] = ds;
        dbias[i] = db;
    }
}
"""
_KERNELS = ("layer_norm", "layer_norm_dx", "layer_norm_dparams")
UNIT = Unit("layer_norm", SOURCE, sum((instances(k, REALS) for k in _KERNELS), ()))


def _sizes(call: Call, x):
    axis = call.attrs["begin_norm_axis"]
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    n = int(np.prod(x.shape[axis:], dtype=np.int64))
    if x.size == 0:
        raise Declined
    return rows, n, x.dtype.type(call.attrs["epsilon"])


def _parameter(call: Call, slot: str, x):
    if call.ins.get(slot) is None:
        return np.uint64(0)
    array = call.array(slot)
    same_dtype(array, x)
    return array


def _layer_norm(call: Call) -> dict:
    x = call.array("X")
    t = ctype(x, REALS)
    rows, n, epsilon = _sizes(call, x)
    y, mean, variance = call.out("Y"), call.out("Mean"), call.out("Variance")
    call.launch(
        UNIT,
        f"layer_norm<{t}>",
        min(rows, 65535),
        block_of(n),
        x,
        _parameter(call, "Scale", x),
        _parameter(call, "Bias", x),
        y,
        mean,
        variance,
        np.int64(rows),
        np.int64(n),
        epsilon,
    )
    return {"Y": y, "Mean": mean, "Variance": variance}


def _layer_norm_grad(call: Call) -> dict:
    x, dy, mean, variance = (call.array(s) for s in ("X", "Y@GRAD", "Mean", "Variance"))
    same_dtype(x, dy, mean, variance)
    t = ctype(x, REALS)
    rows, n, epsilon = _sizes(call, x)
    if dy.shape != x.shape or mean.size != rows or variance.size != rows:
        raise Declined
    scale, out = _parameter(call, "Scale", x), {}
    if call.wanted["X@GRAD"]:
        out["X@GRAD"] = call.out("X@GRAD")
        call.launch(
            UNIT,
            f"layer_norm_dx<{t}>",
            min(rows, 65535),
            block_of(n),
            x,
            dy,
            scale,
            mean,
            variance,
            out["X@GRAD"],
            np.int64(rows),
            np.int64(n),
            epsilon,
        )
    if call.wanted["Scale@GRAD"] or call.wanted["Bias@GRAD"]:
        chunks = -(-rows // COLUMN)
        parts = call.empty((chunks, n), x.dtype), call.empty((chunks, n), x.dtype)
        call.launch(
            UNIT,
            f"layer_norm_dparams<{t}>",
            grid_of(chunks * n),
            256,
            x,
            dy,
            mean,
            variance,
            *parts,
            *map(np.int64, (rows, n, COLUMN, chunks)),
            epsilon,
        )
        sums = [part.reshape(n) if chunks == 1 else reduce(call, part, [0], "Sum", 1) for part in parts]
        out.update(zip(("Scale@GRAD", "Bias@GRAD"), sums, strict=True))
    return out


LAUNCHERS = {"layer_norm": _layer_norm, "layer_norm_grad": _layer_norm_grad}
