"""softmax, log_softmax and their gradients along an axis: a block per run of elements."""

from __future__ import annotations

import numpy as np

from ..call import Call, Declined, ctype, same_dtype
from ..units import FLOATS, Unit, block_of, instances

SOURCE = r"""
// As on the CPU, differences to the maximum are clipped at -64.
template <typename A> __device__ __forceinline__ A below(A x, A most) {
    A d = x - most;
    return exp(d < A(-64) ? A(-64) : d);
}

// Run b is elements x[base + i * inner], i < n.
template <typename T> __global__ void softmax(const T* x, T* y, i64 runs, i64 n, i64 inner) {
    typedef typename acc<T>::type A;
    for (i64 b = blockIdx.x; b < runs; b += gridDim.x) {
        i64 base = b / inner * n * inner + b % inner;
        A most = wide(x[base]);
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) most = Max::join(most, A(wide(x[base + i * inner])));
        most = block_join<Max>(most);
        A total = A(0);
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) total += below(A(wide(x[base + i * inner])), most);
        total = block_join<Sum>(total);
        for (i64 i = threadIdx.x; i < n; i += blockDim.x)
            y[base + i * inner] = narrow_to<T>::of(below(A(wide(x[base + i * inner])), most) / total);
    }
}

template <typename T> __global__ void softmax_grad(const T* y, const T* dy, T* dx, i64 runs, i64 n, i64 inner) {
    typedef typename acc<T>::type A;
    for (i64 b = blockIdx.x; b < runs; b += gridDim.x) {
        i64 base = b / inner * n * inner + b % inner;
        A dot = A(0);
        for (i64 i = threadIdx.x; i < n; i += blockDim.x)
            dot += A(wide(y[base + i * inner])) * A(wide(dy[base + i * inner]));
        dot = block_join<Sum>(dot);
        for (i64 i = threadIdx.x; i < n; i += blockDim.x)
            dx[base + i * inner] =
                narrow_to<T>::of(A(wide(y[base + i * inner])) * (A(wide(dy[base + i * inner])) - dot));
    }
}

template <typename T> __global__ void log_softmax(const T* x, T* y, i64 runs, i64 n, i64 inner) {
    typedef typename acc<T>::type A;
    for (i64 b = blockIdx.x; b < runs; b += gridDim.x) {
        i64 base = b / inner * n * inner + b % inner;
        A most = wide(x[base]);
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) most = Max::join(most, A(wide(x[base + i * inner])));
        most = block_join<Max>(most);
        A total = A(0);
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) total += below(A(wide(x[base + i * inner])), most);
        total = log(block_join<Sum>(total));
        for (i64 i = threadIdx.x; i < n; i += blockDim.x)
            y[base + i * inner] = narrow_to<T>::of(A(wide(x[base + i * inner])) - most - total);
    }
}

template <typename T> __global__ void log_softmax_grad(const T* y, const T* dy, T* dx, i64 runs, i64 n, i64 inner) {
    typedef typename acc<T>::type A;
    for (i64 b = blockIdx.x; b < runs; b += gridDim.x) {
        i64 base = b / inner * n * inner + b % inner;
        A sum = A(0);
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) sum += A(wide(dy[base + i * inner]));
        sum = block_join<Sum>(sum);
        for (i64 i = threadIdx.x; i < n; i += blockDim.x)
            dx[base + i * inner] =
                narrow_to<T>::of(A(wide(dy[base + i * inner])) - exp(A(wide(y[base + i * inner]))) * sum);
    }
}
"""
FORWARD = ("softmax", "log_softmax")
BACKWARD = ("softmax_grad", "log_softmax_grad")
UNIT = Unit("softmax", SOURCE, tuple(i for kernel in (*FORWARD, *BACKWARD) for i in instances(kernel, FLOATS)))


def _run(call: Call, kernel: str, arrays: list):
    same_dtype(*arrays)
    first, t = arrays[0], ctype(arrays[0], FLOATS)
    axis = call.attrs["axis"] % max(first.ndim, 1)
    if any(a.shape != first.shape for a in arrays) or first.ndim == 0:
        raise Declined
    out = call.empty(first.shape, first.dtype)
    if out.size:
        n, inner = first.shape[axis], int(np.prod(first.shape[axis + 1 :], dtype=np.int64))
        runs = first.size // n
        call.launch(
            UNIT,
            f"{kernel}<{t}>",
            min(runs, 65535),
            block_of(n),
            *arrays,
            out,
            np.int64(runs),
            np.int64(n),
            np.int64(inner),
        )
    return out


def _forward(call: Call) -> dict:
    return {"Out": _run(call, call.op, [call.array("X")])}


def _backward(call: Call) -> dict:
    return {"X@GRAD": _run(call, call.op, [call.array("Out"), call.array("Out@GRAD")])}


LAUNCHERS = {**dict.fromkeys(FORWARD, _forward), **dict.fromkeys(BACKWARD, _backward)}
