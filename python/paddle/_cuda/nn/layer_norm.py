"""layer_norm and its gradient: short rows are kept in registers and read once, others are read for each pass. Gradients
of the parameters are sums of columns in two levels: of many short rows in the pass that computes those of x, of others
in one of their own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..call import Call, Declined, ctype, same_dtype
from ..math.reduction import columns_in_chunks, reduce
from ..units import FLOATS, IN_REGISTERS, KEPT, KEPT_PAIRS, Unit, groups_of_threads, instances, rows_in_registers

SOURCE = r"""
// Rows of type T, parameters of type P; statistics are those of accumulators. A row belongs to a group of threads;
// `share` is 1 / n.
template <typename T, typename P, typename A>
__device__ void norm_rows(const T* x, const P* scale, const P* bias, T* y, A* mean, A* variance, i64 rows, i64 n,
                          A epsilon, A share, int group) {
    i64 each = blockDim.x / group, lane = threadIdx.x % group;
    for (i64 r = blockIdx.x * each + threadIdx.x / group; r < rows; r += gridDim.x * each) {
        const T* row = x + r * n;
        A sum = A(0), squares = A(0);
        for (i64 i = lane; i < n; i += group) sum += A(wide(row[i]));
        A m = group_join<Sum>(sum, group) * share;
        for (i64 i = lane; i < n; i += group) squares += (A(wide(row[i])) - m) * (A(wide(row[i])) - m);
        A v = group_join<Sum>(squares, group) * share, inverse = rsqrt(v + epsilon);
        for (i64 i = lane; i < n; i += group) {
            A value = (A(wide(row[i])) - m) * inverse;
            if (scale) value *= A(wide(scale[i]));
            if (bias) value += A(wide(bias[i]));
            y[r * n + i] = narrow_to<T>::of(value);
        }
        if (lane == 0) {
            mean[r] = m;
            variance[r] = v;
        }
    }
}

template <typename T, typename P, typename A>
__global__ void layer_norm(const T* x, const P* scale, const P* bias, T* y, A* mean, A* variance, i64 rows, i64 n,
                           A epsilon, A share, int group) {
    norm_rows(x, scale, bias, y, mean, variance, rows, n, epsilon, share, group);
}

template <typename T, typename P, typename A>
__device__ void dx_rows(const T* x, const T* dy, const P* scale, const A* mean, const A* variance, T* dx, i64 rows,
                        i64 n, A epsilon, A share, int group) {
    i64 each = blockDim.x / group, lane = threadIdx.x % group;
    for (i64 r = blockIdx.x * each + threadIdx.x / group; r < rows; r += gridDim.x * each) {
        A m = mean[r], inverse = rsqrt(variance[r] + epsilon), sum = A(0), dot = A(0);
        for (i64 i = lane; i < n; i += group) {
            A g = A(wide(dy[r * n + i])) * (scale ? A(wide(scale[i])) : A(1));
            sum += g;
            dot += g * (A(wide(x[r * n + i])) - m) * inverse;
        }
        sum = group_join<Sum>(sum, group) * share;
        dot = group_join<Sum>(dot, group) * share;
        for (i64 i = lane; i < n; i += group) {
            A g = A(wide(dy[r * n + i])) * (scale ? A(wide(scale[i])) : A(1));
            A to_mean = (A(wide(x[r * n + i])) - m) * inverse;
            dx[r * n + i] = narrow_to<T>::of((g - sum - to_mean * dot) * inverse);
        }
    }
}

template <typename T, typename P, typename A>
__global__ void layer_norm_dx(const T* x, const T* dy, const P* scale, const A* mean, const A* variance, T* dx,
                              i64 rows, i64 n, A epsilon, A share, int group) {
    dx_rows(x, dy, scale, mean, variance, dx, rows, n, epsilon, share, group);
}

// A row of whole packs in registers.
template <int E, int G, int N, typename T, typename P, typename A>
__device__ __forceinline__ void layer_norm_row(const T* x, const P* scale, const P* bias, T* y, A* mean, A* variance,
                                               int n, A epsilon, A share) {
    int group = G ? G : blockDim.x, lane = threadIdx.x % group;
    Pack<T, N> kept[E / N];
    A sum = A(0), squares = A(0);
#pragma unroll
    for (int v = 0; v < E / N; v++) {
        int at = (v * group + lane) * N;
        if (at >= n) continue;
        kept[v] = read_pack<N>(x + at);
#pragma unroll
        for (int k = 0; k < N; k++) sum += A(wide(kept[v].v[k]));
    }
    A m = group_join<Sum>(sum, group) * share;
#pragma unroll
    for (int e = 0; e < E; e++) {
        A d = A(wide(kept[e / N].v[e % N])) - m;
        if ((e / N * group + lane) * N < n) squares += d * d;
    }
    A v_all = group_join<Sum>(squares, group) * share, inverse = rsqrt(v_all + epsilon);
#pragma unroll
    for (int v = 0; v < E / N; v++) {
        int at = (v * group + lane) * N;
        if (at >= n) continue;
        Pack<P, N> s, b;
        if (scale) s = read_pack<N>(scale + at);
        if (bias) b = read_pack<N>(bias + at);
#pragma unroll
        for (int k = 0; k < N; k++) {
            A value = (A(wide(kept[v].v[k])) - m) * inverse;
            if (scale) value *= A(wide(s.v[k]));
            if (bias) value += A(wide(b.v[k]));
            kept[v].v[k] = narrow_to<T>::of(value);
        }
        write_pack<N>(y + at, kept[v]);
    }
    if (lane == 0) {
        *mean = m;
        *variance = v_all;
    }
}

template <typename T, typename P, typename A, int E, int G>
__global__ void __launch_bounds__(row_threads<E, G>::most, row_threads<E, G>::blocks)
    layer_norm_rows(const T* x, const P* scale, const P* bias, T* y, A* mean, A* variance, i64 rows, int n, A epsilon,
                    A share) {
    const int N = packed<T>::N;
    int each = G ? blockDim.x / G : 1;
    if (!aligned(x, y, scale, bias))
        return norm_rows(x, scale, bias, y, mean, variance, rows, n, epsilon, share, G ? G : blockDim.x);
#pragma unroll 1
    for (i64 r = blockIdx.x * (i64)each + (G ? threadIdx.x / G : 0); r < rows; r += gridDim.x * (i64)each) {
        const T* from = x + r * n;
        T* to = y + r * n;
        layer_norm_row<E, G, N>(from, scale, bias, to, mean + r, variance + r, n, epsilon, share);
    }
}

// The gradient of a row, read once; `each` gets the place of an element in the thread, dy, and x by its statistics.
template <int E, int G, int N, typename T, typename P, typename A, typename F>
__device__ __forceinline__ void layer_norm_dx_row(const T* x, const T* dy, const P* scale, A m, A inverse, T* dx, int n,
                                                  A share, F each) {
    int group = G ? G : blockDim.x, lane = threadIdx.x % group;
    Pack<T, N> xs[E / N], dys[E / N];
    A sum = A(0), dot = A(0);
#pragma unroll
    for (int v = 0; v < E / N; v++) {
        int at = (v * group + lane) * N;
        if (at >= n) continue;
        xs[v] = read_pack<N>(x + at);
        dys[v] = read_pack<N>(dy + at);
        Pack<P, N> s;
        if (scale) s = read_pack<N>(scale + at);
#pragma unroll
        for (int k = 0; k < N; k++) {
            A d = wide(dys[v].v[k]), g = d * (scale ? A(wide(s.v[k])) : A(1));
            A to_mean = (A(wide(xs[v].v[k])) - m) * inverse;
            each(v * N + k, d, to_mean);
            sum += g;
            dot += g * to_mean;
        }
    }
    sum = group_join<Sum>(sum, group) * share;
    dot = group_join<Sum>(dot, group) * share;
#pragma unroll
    for (int v = 0; v < E / N; v++) {
        int at = (v * group + lane) * N;
        if (at >= n) continue;
        Pack<P, N> s;
        if (scale) s = read_pack<N>(scale + at);
#pragma unroll
        for (int k = 0; k < N; k++) {
            A g = A(wide(dys[v].v[k])) * (scale ? A(wide(s.v[k])) : A(1));
            A to_mean = (A(wide(xs[v].v[k])) - m) * inverse;
            xs[v].v[k] = narrow_to<T>::of((g - sum - to_mean * dot) * inverse);
        }
        write_pack<N>(dx + at, xs[v]);
    }
}

template <typename T, typename P, typename A, int E, int G>
__global__ void __launch_bounds__(row_threads<E, G>::most, row_threads<E, G>::blocks)
    layer_norm_dx_rows(const T* x, const T* dy, const P* scale, const A* mean, const A* variance, T* dx, i64 rows,
                       int n, A epsilon, A share) {
    const int N = packed<T>::N;
    int each = G ? blockDim.x / G : 1;
    if (!aligned(x, dy, dx, scale))
        return dx_rows(x, dy, scale, mean, variance, dx, rows, n, epsilon, share, G ? G : blockDim.x);
#pragma unroll 1
    for (i64 r = blockIdx.x * (i64)each + (G ? threadIdx.x / G : 0); r < rows; r += gridDim.x * (i64)each) {
        i64 at = r * n;
        A m = mean[r], inverse = rsqrt(variance[r] + epsilon);
        layer_norm_dx_row<E, G, N>(x + at, dy + at, scale, m, inverse, dx + at, n, share, [](int, A, A) {});
    }
}

// The gradients of rows first, first + step .. in one pass: dx, and what the rows add to those of the parameters, which
// a thread sums for its own columns (dscale and dbias: of n elements).
template <int E, int G, int N, typename T, typename P, typename A>
__device__ __forceinline__ void grad_rows(const T* x, const T* dy, const P* scale, const A* mean, const A* variance,
                                          T* dx, A* dscale, A* dbias, i64 first, i64 step, i64 rows, int n, A epsilon,
                                          A share) {
    int group = G ? G : blockDim.x, lane = threadIdx.x % group;
    A ds[E], db[E];
#pragma unroll
    for (int e = 0; e < E; e++) ds[e] = db[e] = A(0);
#pragma unroll 1
    for (i64 r = first; r < rows; r += step) {
        i64 at = r * n;
        A m = mean[r], inverse = rsqrt(variance[r] + epsilon);
        layer_norm_dx_row<E, G, N>(x + at, dy + at, scale, m, inverse, dx + at, n, share, [&](int e, A d, A to_mean) {
            ds[e] += d * to_mean;
            db[e] += d;
        });
    }
#pragma unroll
    for (int e = 0; e < E; e++) {
        int at = (e / N * group + lane) * N + e % N;
        if (at >= n) continue;
        dscale[at] = ds[e];
        dbias[at] = db[e];
    }
}

// All gradients; dscale and dbias [groups of threads, n].
template <typename T, typename P, typename A, int E, int G>
__global__ void __launch_bounds__(G ? 128 : 512, G ? 4 : 1)
    layer_norm_grad_rows(const T* x, const T* dy, const P* scale, const A* mean, const A* variance, T* dx, A* dscale,
                         A* dbias, i64 rows, int n, A epsilon, A share) {
    const int N = packed<T>::N;
    i64 each = G ? blockDim.x / G : 1, own = blockIdx.x * each + (G ? threadIdx.x / G : 0), step = gridDim.x * each;
    A *ds = dscale + own * n, *db = dbias + own * n;
    if (aligned(x, dy, dx, scale))
        grad_rows<E, G, N>(x, dy, scale, mean, variance, dx, ds, db, own, step, rows, n, epsilon, share);
    else
        grad_rows<E, G, 1>(x, dy, scale, mean, variance, dx, ds, db, own, step, rows, n, epsilon, share);
}

// What rows first + 8 * warp + (0 .. 7) and so on, every 64 rows, add to the gradients of N columns; those of the tile.
template <bool Whole, int N, typename T, typename A>
__device__ __forceinline__ void add_rows(const T* x, const T* dy, const A* mean, const A* variance, i64 first, i64 end,
                                         i64 n, A epsilon, A* dscale, A* dbias) {
    typedef columns<Whole, N> C;
    __shared__ A parts[2][8][32][N];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    i64 column = C::first(blockIdx.x, lane);
    A ds[N], db[N];
#pragma unroll
    for (int k = 0; k < N; k++) ds[k] = db[k] = A(0);
    for (i64 base = first + 8 * warp; base < end; base += 64) {
        // A lane has the statistics of one of the 8 rows.
        i64 own = base + lane % 8;
        A m_own = own < end ? mean[own] : A(0), inverse_own = own < end ? rsqrt(variance[own] + epsilon) : A(0);
#pragma unroll 4
        for (int j = 0; j < 8; j++) {
            A m = __shfl_sync(0xffffffffu, m_own, j), inverse = __shfl_sync(0xffffffffu, inverse_own, j);
            if (base + j >= end || column >= n) continue;
            Pack<T, N> xs = C::read(x + (base + j) * n, column, n), dys = C::read(dy + (base + j) * n, column, n);
#pragma unroll
            for (int k = 0; k < N; k++) {
                A g = wide(dys.v[k]);
                ds[k] += g * (A(wide(xs.v[k])) - m) * inverse;
                db[k] += g;
            }
        }
    }
#pragma unroll
    for (int k = 0; k < N; k++) {
        parts[0][warp][lane][k] = ds[k];
        parts[1][warp][lane][k] = db[k];
    }
    __syncthreads();
    if (warp >= 2) return;
    A* to = warp ? dbias : dscale;
    for (int k = 0; k < N && C::at(column, k) < n; k++) {
        A sum = parts[warp][0][lane][k];
        for (int w = 1; w < 8; w++) sum += parts[warp][w][lane][k];
        to[C::at(column, k)] = sum;
    }
}

// Gradients of the parameters from a chunk of rows, dscale and dbias [chunks, n]: a block takes a tile of 32 packs of
// columns. Blocks: tiles, chunks.
template <typename T, typename A>
__global__ void layer_norm_dparams(const T* x, const T* dy, const A* mean, const A* variance, A* dscale, A* dbias,
                                   i64 rows, i64 n, i64 chunk, A epsilon) {
    const int N = packed<T>::N;
    i64 first = blockIdx.y * chunk, end = first + chunk < rows ? first + chunk : rows, to = blockIdx.y * n;
    if (n % N == 0 && aligned(x, dy))
        add_rows<true, N>(x, dy, mean, variance, first, end, n, epsilon, dscale + to, dbias + to);
    else
        add_rows<false, N>(x, dy, mean, variance, first, end, n, epsilon, dscale + to, dbias + to);
}
"""
#: threads that keep a device busy
_THREADS = 1 << 16
_ACCUMULATORS = {"double": "double"}
#: types of rows, of parameters and of accumulators: the parameters of 16-bit rows are float32
_TYPES = tuple(f"{t}, {p}, {p}" for t, p in ((t, _ACCUMULATORS.get(t, "float")) for t in FLOATS.values()))
_SHORT = tuple(types for types in _TYPES if types.split(",")[0] in IN_REGISTERS.values())
UNIT = Unit(
    "layer_norm",
    SOURCE,
    instances("layer_norm", _TYPES)
    + instances("layer_norm_dx", _TYPES)
    + instances("layer_norm_rows", _SHORT, KEPT)
    + instances("layer_norm_dx_rows", _SHORT, KEPT_PAIRS)
    + instances("layer_norm_grad_rows", _SHORT, KEPT_PAIRS)
    + instances("layer_norm_dparams", tuple(f"{t}, {_ACCUMULATORS.get(t, 'float')}" for t in FLOATS.values())),
)


def _sizes(call: Call, x):
    axis = call.attrs["begin_norm_axis"]
    if x.size == 0:
        raise Declined
    return math.prod(x.shape[:axis]), math.prod(x.shape[axis:])


def _types(x, *parameters) -> tuple[str, str, Any]:
    """The C types of rows, parameters and accumulators, and the last one's class."""
    t = ctype(x, FLOATS)
    given = [p for p in parameters if p is not None]
    same_dtype(*given, *given[:1])
    a = _ACCUMULATORS.get(t, "float")
    p = ctype(given[0], FLOATS) if given else a
    if f"{t}, {p}, {a}" not in _TYPES:
        raise Declined
    return f"{t}, {p}, {a}", f"{t}, {a}", np.float64 if a == "double" else np.float32


def _parameter(call: Call, slot: str):
    return None if call.ins.get(slot) is None else call.array(slot)


def _pointer(array):
    return np.uint64(0) if array is None else array


def _start(call: Call, kernel: str, types: str, x, sizes: tuple[int, int], arrays: tuple, epsilon: Any) -> None:
    """Starts a kernel over rows, or its version for rows in registers."""
    rows, n = sizes
    short = rows_in_registers(rows, n, x, KEPT if kernel == "layer_norm" else KEPT_PAIRS)
    if short is not None:
        kept, grid, block = short
        numbers: tuple = np.int64(rows), np.int32(n), epsilon, type(epsilon)(1 / n)
        call.launch(UNIT, f"{kernel}_rows<{types}, {kept}>", grid, block, *arrays, *numbers)
    else:
        group, grid, block = groups_of_threads(rows, n)
        numbers = np.int64(rows), np.int64(n), epsilon, type(epsilon)(1 / n), np.int32(group)
        call.launch(UNIT, f"{kernel}<{types}>", grid, block, *arrays, *numbers)


def _layer_norm(call: Call) -> dict:
    x, scale, bias = call.array("X"), _parameter(call, "Scale"), _parameter(call, "Bias")
    types, _, of = _types(x, scale, bias)
    sizes = _sizes(call, x)
    y, mean, variance = call.out("Y"), call.out("Mean"), call.out("Variance")
    if mean.dtype != of or variance.dtype != of:
        raise Declined
    arrays = x, _pointer(scale), _pointer(bias), y, mean, variance
    _start(call, "layer_norm", types, x, sizes, arrays, of(call.attrs["epsilon"]))
    return {"Y": y, "Mean": mean, "Variance": variance}


def _layer_norm_grad(call: Call) -> dict:
    x, dy, mean, variance = (call.array(s) for s in ("X", "Y@GRAD", "Mean", "Variance"))
    scale, bias = _parameter(call, "Scale"), call.ins.get("Bias")
    same_dtype(x, dy)
    types, of_rows, of = _types(x, scale)
    rows, n = _sizes(call, x)
    if dy.shape != x.shape or mean.size != rows or variance.size != rows:
        raise Declined
    if mean.dtype != of or variance.dtype != of:
        raise Declined
    epsilon = of(call.attrs["epsilon"])
    pair = call.wanted["Scale@GRAD"] or call.wanted["Bias@GRAD"]
    out = (
        _together(call, x, dy, scale, bias, (mean, variance), epsilon, types) if call.wanted["X@GRAD"] and pair else {}
    )
    if out:
        return out
    if call.wanted["X@GRAD"]:
        out["X@GRAD"] = call.out("X@GRAD")
        arrays = x, dy, _pointer(scale), mean, variance, out["X@GRAD"]
        _start(call, "layer_norm_dx", types, x, (rows, n), arrays, epsilon)
    if call.wanted["Scale@GRAD"] or call.wanted["Bias@GRAD"]:
        tiles = -(-n * x.itemsize // 512)
        chunk, chunks = columns_in_chunks(rows, tiles, 64)
        parts = call.empty((chunks, n), of), call.empty((chunks, n), of)
        numbers = *map(np.int64, (rows, n, chunk)), epsilon
        kernel = f"layer_norm_dparams<{of_rows}>"
        call.launch(UNIT, kernel, (tiles, chunks), 256, x, dy, mean, variance, *parts, *numbers)
        out.update(_summed(call, parts, scale, bias))
    return out


def _summed(call: Call, parts: tuple, scale, bias) -> dict:
    """The gradients of the parameters from partial sums [chunks, n]."""
    made = {}
    for slot, part, parameter in zip(("Scale@GRAD", "Bias@GRAD"), parts, (scale, bias), strict=True):
        dtype = part.dtype if parameter is None else parameter.dtype
        alone = part.shape[0] == 1 and dtype == part.dtype
        made[slot] = part.reshape(part.shape[1]) if alone else reduce(call, part, [0], "Sum", 1, dtype)
    return made


def _together(call: Call, x, dy, scale, bias, statistics: tuple, epsilon: Any, types: str) -> dict:
    """All gradients from one reading of x and dy; {} for rows that are not kept in registers, and for so few that
    partial sums of the parameters' gradients would be as large as x."""
    rows, n = _sizes(call, x)
    short = rows_in_registers(rows, n, x, KEPT_PAIRS)
    if short is None:
        return {}
    kept, _, block = short
    each = block // 32 if kept.endswith("32") else 1
    if rows < 16 * each:
        return {}
    grid = min(-(-rows // (4 * each)), _THREADS // block)
    dx, of = call.out("X@GRAD"), type(epsilon)
    parts = call.empty((grid * each, n), of), call.empty((grid * each, n), of)
    numbers = np.int64(rows), np.int32(n), epsilon, of(1 / n)
    arrays = x, dy, _pointer(scale), *statistics, dx, *parts
    call.launch(UNIT, f"layer_norm_grad_rows<{types}, {kept}>", grid, block, *arrays, *numbers)
    return {"X@GRAD": dx, **_summed(call, parts, scale, bias)}


LAUNCHERS = {"layer_norm": _layer_norm, "layer_norm_grad": _layer_norm_grad}
