"""softmax and log_softmax along an axis, softmax over sequences, and their gradients: short rows are kept in
registers and read once, others are read for each pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..call import Call, Declined, ctype, same_dtype
from ..units import (
    FLOATS,
    IN_REGISTERS,
    KEPT,
    KEPT_PAIRS,
    REALS,
    WALKED,
    Unit,
    grid_of,
    instances,
    threads_of_rows,
)

SOURCE = r"""
// As on the CPU, differences to the maximum are clipped at -64.
template <typename A> __device__ __forceinline__ A below(A x, A most) {
    A d = x - most;
    return exp(d < A(-64) ? A(-64) : d);
}

// Run b: elements x[first + i * inner], i < count. Those along an axis, and those of sequences, which adjoin.
struct Axis {
    static const bool adjacent = false;
    static __device__ __forceinline__ i64 first(const i64*, i64 b, i64 n, i64 inner) {
        return b / inner * n * inner + b % inner;
    }
    static __device__ __forceinline__ i64 count(const i64*, i64, i64 n) { return n; }
};
struct Sequence {
    static const bool adjacent = true;
    static __device__ __forceinline__ i64 first(const i64* at, i64 b, i64, i64) { return at[b]; }
    static __device__ __forceinline__ i64 count(const i64* at, i64 b, i64) { return at[b + 1] - at[b]; }
};

// A run belongs to a group of threads.
template <bool Log, typename Runs, typename T>
__device__ void softmax_runs(const T* x, T* y, const i64* at, i64 runs, i64 size, i64 distance, int group) {
    typedef typename acc<T>::type A;
    i64 each = blockDim.x / group, lane = threadIdx.x % group, inner = Runs::adjacent ? 1 : distance;
    for (i64 b = blockIdx.x * each + threadIdx.x / group; b < runs; b += gridDim.x * each) {
        i64 base = Runs::first(at, b, size, inner), n = Runs::count(at, b, size);
        if (Runs::adjacent && n == 0) continue;
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

// `at`: the offsets of sequences. Rows in registers are those of the last axis.
template <typename T, bool Log, typename Runs, int E, int G>
__global__ void __launch_bounds__(row_threads<E, G>::most, row_threads<E, G>::blocks)
    softmax(const T* x, T* y, const i64* at, i64 runs, i64 n, i64 inner, int group) {
    if (E == 0 || !aligned(x, y))
        return softmax_runs<Log, Runs>(x, y, at, runs, n, E ? 1 : inner, row_threads<E, G>::group(group));
    i64 each = G ? blockDim.x / G : 1;
#pragma unroll 1
    for (i64 r = blockIdx.x * each + (G ? threadIdx.x / G : 0); r < runs; r += gridDim.x * each)
        softmax_row<E ? E : packed<T>::N, G, packed<T>::N, Log>(x + r * n, y + r * n, (int)n);
}

template <bool Log, typename A> __device__ __forceinline__ A slope(A y, A dy, A sum) {
    return Log ? dy - exp(y) * sum : y * (dy - sum);
}

template <bool Log, typename Runs, typename T>
__device__ void softmax_runs_grad(const T* y, const T* dy, T* dx, const i64* at, i64 runs, i64 size, i64 distance,
                                  int group) {
    typedef typename acc<T>::type A;
    i64 each = blockDim.x / group, lane = threadIdx.x % group, inner = Runs::adjacent ? 1 : distance;
    for (i64 b = blockIdx.x * each + threadIdx.x / group; b < runs; b += gridDim.x * each) {
        i64 base = Runs::first(at, b, size, inner), n = Runs::count(at, b, size);
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

template <typename T, bool Log, typename Runs, int E, int G>
__global__ void __launch_bounds__(row_threads<E, G>::most, row_threads<E, G>::blocks)
    softmax_grad(const T* y, const T* dy, T* dx, const i64* at, i64 runs, i64 n, i64 inner, int group) {
    if (E == 0 || !aligned(y, dy, dx))
        return softmax_runs_grad<Log, Runs>(y, dy, dx, at, runs, n, E ? 1 : inner, row_threads<E, G>::group(group));
    i64 each = G ? blockDim.x / G : 1;
#pragma unroll 1
    for (i64 r = blockIdx.x * each + (G ? threadIdx.x / G : 0); r < runs; r += gridDim.x * each)
        softmax_row_grad<E ? E : packed<T>::N, G, packed<T>::N, Log>(y + r * n, dy + r * n, dx + r * n, (int)n);
}
"""
_LOG = ("false", "true")
#: by the number of operands
_KERNEL = {1: "softmax", 2: "softmax_grad"}
UNIT = Unit(
    "softmax",
    SOURCE,
    instances("softmax", FLOATS, _LOG, ("Axis",), (WALKED,))
    + instances("softmax", IN_REGISTERS, _LOG, ("Axis",), KEPT)
    + instances("softmax", REALS, ("false",), ("Sequence",), (WALKED,))
    + instances("softmax_grad", FLOATS, _LOG, ("Axis",), (WALKED,))
    + instances("softmax_grad", IN_REGISTERS, _LOG, ("Axis",), KEPT_PAIRS)
    + instances("softmax_grad", REALS, ("false",), ("Sequence",), (WALKED,)),
)


def of_sequences(call: Call, arrays: list, offsets: Any, count: int) -> Any:
    """softmax of sequences, or of the result and its gradient that of the input; a block for each sequence."""
    out = call.empty(arrays[0].shape, arrays[0].dtype)
    if out.size:
        kernel = f"{_KERNEL[len(arrays)]}<{ctype(out, REALS)}, false, Sequence, {WALKED}>"
        sizes = np.int64(count), np.int64(0), np.int64(1), np.int32(128)
        call.launch(UNIT, kernel, grid_of(count, 1), 128, *arrays, out, offsets, *sizes)
    return out


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
        kinds = KEPT_PAIRS if len(arrays) == 2 else KEPT
        how, grid, block, group = threads_of_rows(runs, n, first, kinds, inner)
        kernel = f"{_KERNEL[len(arrays)]}<{t}, {log}, Axis, {how}>"
        sizes = *map(np.int64, (runs, n, inner)), np.int32(group)
        call.launch(UNIT, kernel, grid, block, *arrays, out, np.uint64(0), *sizes)
    return out


def _forward(call: Call) -> dict:
    return {"Out": _run(call, [call.array("X")])}


def _backward(call: Call) -> dict:
    return {"X@GRAD": _run(call, [call.array("Out"), call.array("Out@GRAD")])}


LAUNCHERS = {
    **dict.fromkeys(("softmax", "log_softmax"), _forward),
    **dict.fromkeys(("softmax_grad", "log_softmax_grad"), _backward),
}
