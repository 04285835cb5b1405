"""softmax, log_softmax and their gradients along an axis: short rows are kept in registers and read once, others are
read for each pass."""

from __future__ import annotations

import math

import numpy as np

from ..call import Call, Declined, ctype, same_dtype
from ..units import FLOATS, IN_REGISTERS, KEPT, KEPT_PAIRS, Unit, groups_of_threads, instances, rows_in_registers

SOURCE = r"""
// As on the CPU, differences to the maximum are clipped at -64.
template <typename A> __device__ __forceinline__ A below(A x, A most) {
    A d = x - most;
    return exp(d < A(-64) ? A(-64) : d);
}

// Run b is elements x[base + i * inner], i < n, for a group of threads.
template <typename T, bool Log>
__device__ void softmax_runs(const T* x, T* y, i64 runs, i64 n, i64 inner, int group) {
    typedef typename acc<T>::type A;
    i64 each = blockDim.x / group, lane = threadIdx.x % group;
    for (i64 b = blockIdx.x * each + threadIdx.x / group; b < runs; b += gridDim.x * each) {
        i64 base = b / inner * n * inner + b % inner;
        A most = wide(x[base]);
        for (i64 i = lane; i < n; i += group) most = Max::join(most, A(wide(x[base + i * inner])));
        most = group_join<Max>(most, group);
        A total = A(0);
        for (i64 i = lane; i < n; i += group) total += below(A(wide(x[base + i * inner])), most);
        total = group_join<Sum>(total, group);
        A scale = Log ? log(total) : reciprocal(total);
        for (i64 i = lane; i < n; i += group) {
            A v = wide(x[base + i * inner]);
            y[base + i * inner] = narrow_to<T>::of(Log ? v - most - scale : below(v, most) * scale);
        }
    }
}

template <typename T, bool Log> __global__ void softmax(const T* x, T* y, i64 runs, i64 n, i64 inner, int group) {
    softmax_runs<T, Log>(x, y, runs, n, inner, group);
}

template <bool Log, typename A> __device__ __forceinline__ A slope(A y, A dy, A sum) {
    return Log ? dy - exp(y) * sum : y * (dy - sum);
}

template <typename T, bool Log>
__device__ void softmax_runs_grad(const T* y, const T* dy, T* dx, i64 runs, i64 n, i64 inner, int group) {
    typedef typename acc<T>::type A;
    i64 each = blockDim.x / group, lane = threadIdx.x % group;
    for (i64 b = blockIdx.x * each + threadIdx.x / group; b < runs; b += gridDim.x * each) {
        i64 base = b / inner * n * inner + b % inner;
        A sum = A(0);
        for (i64 i = lane; i < n; i += group) {
            A d = wide(dy[base + i * inner]);
            sum += Log ? d : d * A(wide(y[base + i * inner]));
        }
        sum = group_join<Sum>(sum, group);
        for (i64 i = lane; i < n; i += group) {
            A v = wide(y[base + i * inner]), d = wide(dy[base + i * inner]);
            dx[base + i * inner] = narrow_to<T>::of(slope<Log>(v, d, sum));
        }
    }
}

template <typename T, bool Log> __global__ void softmax_grad(const T* y, const T* dy, T* dx, i64 runs, i64 n,
                                                             i64 inner, int group) {
    softmax_runs_grad<T, Log>(y, dy, dx, runs, n, inner, group);
}

// A row of whole packs in registers.
template <int E, int G, int N, bool Log, typename T>
__device__ __forceinline__ void softmax_row(const T* x, T* y, int n) {
    typedef typename acc<T>::type A;
    int group = G ? G : blockDim.x, lane = threadIdx.x % group;
    A kept[E], most = wide(x[0]), total = A(0);
#pragma unroll
    for (int v = 0; v < E / N; v++) {
        int at = (v * group + lane) * N;
        if (at >= n) continue;
        Pack<T, N> p = read_pack<N>(x + at);
#pragma unroll
        for (int k = 0; k < N; k++) {
            kept[v * N + k] = wide(p.v[k]);
            most = Max::join(most, kept[v * N + k]);
        }
    }
    most = group_join<Max>(most, group);
#pragma unroll
    for (int e = 0; e < E; e++) {
        if ((e / N * group + lane) * N >= n) continue;
        A v = below(kept[e], most);
        total += v;
        if (!Log) kept[e] = v;
    }
    total = group_join<Sum>(total, group);
    A scale = Log ? log(total) : reciprocal(total);
#pragma unroll
    for (int v = 0; v < E / N; v++) {
        int at = (v * group + lane) * N;
        if (at >= n) continue;
        Pack<T, N> p;
#pragma unroll
        for (int k = 0; k < N; k++) {
            A own = kept[v * N + k];
            p.v[k] = narrow_to<T>::of(Log ? own - most - scale : own * scale);
        }
        write_pack<N>(y + at, p);
    }
}

template <typename T, int E, int G, bool Log>
__global__ void __launch_bounds__(row_threads<E, G>::most, row_threads<E, G>::blocks)
    softmax_rows(const T* x, T* y, i64 rows, int n) {
    const int N = packed<T>::N;
    int each = G ? blockDim.x / G : 1;
    if (!aligned(x, y)) return softmax_runs<T, Log>(x, y, rows, n, 1, G ? G : blockDim.x);
#pragma unroll 1
    for (i64 r = blockIdx.x * (i64)each + (G ? threadIdx.x / G : 0); r < rows; r += gridDim.x * (i64)each) {
        softmax_row<E, G, N, Log>(x + r * n, y + r * n, n);
    }
}

template <int E, int G, int N, bool Log, typename T>
__device__ __forceinline__ void softmax_row_grad(const T* y, const T* dy, T* dx, int n) {
    typedef typename acc<T>::type A;
    int group = G ? G : blockDim.x, lane = threadIdx.x % group;
    Pack<T, N> ys[E / N], dys[E / N];
    A sum = A(0);
#pragma unroll
    for (int v = 0; v < E / N; v++) {
        int at = (v * group + lane) * N;
        if (at >= n) continue;
        ys[v] = read_pack<N>(y + at);
        dys[v] = read_pack<N>(dy + at);
#pragma unroll
        for (int k = 0; k < N; k++) {
            A d = wide(dys[v].v[k]);
            sum += Log ? d : d * A(wide(ys[v].v[k]));
        }
    }
    sum = group_join<Sum>(sum, group);
#pragma unroll
    for (int v = 0; v < E / N; v++) {
        int at = (v * group + lane) * N;
        if (at >= n) continue;
#pragma unroll
        for (int k = 0; k < N; k++)
            ys[v].v[k] = narrow_to<T>::of(slope<Log>(A(wide(ys[v].v[k])), A(wide(dys[v].v[k])), sum));
        write_pack<N>(dx + at, ys[v]);
    }
}

template <typename T, int E, int G, bool Log>
__global__ void __launch_bounds__(row_threads<E, G>::most, row_threads<E, G>::blocks)
    softmax_rows_grad(const T* y, const T* dy, T* dx, i64 rows, int n) {
    const int N = packed<T>::N;
    int each = G ? blockDim.x / G : 1;
    if (!aligned(y, dy, dx)) return softmax_runs_grad<T, Log>(y, dy, dx, rows, n, 1, G ? G : blockDim.x);
#pragma unroll 1
    for (i64 r = blockIdx.x * (i64)each + (G ? threadIdx.x / G : 0); r < rows; r += gridDim.x * (i64)each) {
        i64 at = r * n;
        softmax_row_grad<E, G, N, Log>(y + at, dy + at, dx + at, n);
    }
}
"""
_LOG = ("false", "true")
UNIT = Unit(
    "softmax",
    SOURCE,
    instances("softmax", FLOATS, _LOG)
    + instances("softmax_grad", FLOATS, _LOG)
    + instances("softmax_rows", IN_REGISTERS, KEPT, _LOG)
    + instances("softmax_rows_grad", IN_REGISTERS, KEPT_PAIRS, _LOG),
)


def _run(call: Call, arrays: list):
    same_dtype(*arrays)
    first, t = arrays[0], ctype(arrays[0], FLOATS)
    axis = call.attrs["axis"] % max(first.ndim, 1)
    if any(a.shape != first.shape for a in arrays) or first.ndim == 0:
        raise Declined
    out = call.empty(first.shape, first.dtype)
    if out.size:
        n, inner = first.shape[axis], math.prod(first.shape[axis + 1 :])
        runs, log = first.size // n, _LOG[call.op.startswith("log")]
        end = "_grad" if len(arrays) == 2 else ""
        kinds = KEPT_PAIRS if end else KEPT
        rows = rows_in_registers(runs, n, first, kinds) if inner == 1 else None
        if rows is not None:
            kept, grid, block = rows
            sizes: tuple = np.int64(runs), np.int32(n)
            kernel = f"softmax_rows{end}<{t}, {kept}, {log}>"
        else:
            group, grid, block = groups_of_threads(runs, n, inner)
            kernel, sizes = f"softmax{end}<{t}, {log}>", (*map(np.int64, (runs, n, inner)), np.int32(group))
        call.launch(UNIT, kernel, grid, block, *arrays, out, *sizes)
    return out


def _forward(call: Call) -> dict:
    return {"Out": _run(call, [call.array("X")])}


def _backward(call: Call) -> dict:
    return {"X@GRAD": _run(call, [call.array("Out"), call.array("Out@GRAD")])}


LAUNCHERS = {
    **dict.fromkeys(("softmax", "log_softmax"), _forward),
    **dict.fromkeys(("softmax_grad", "log_softmax_grad"), _backward),
}
