"""layer_norm and its gradient: short rows are kept in registers and read once, others are read for each pass. Gradients
of the parameters are sums of columns in two levels: of many short rows in the pass that computes those of x, of others
in one of their own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..call import Call, Declined, ctype, same_dtype
from ..math.reduction import columns_in_chunks, reduce
from ..units import (
    FLOATS,
    IN_REGISTERS,
    KEPT,
    KEPT_PAIRS,
    REALS,
    WALKED,
    Unit,
    instances,
    rows_in_registers,
    threads_of_rows,
)

SOURCE = r"""
template <bool Channel, typename P, typename A>
__device__ __forceinline__ A of_channel(const P* parameter, i64 row, i64 channels, A otherwise) {
    return Channel && parameter ? A(wide(parameter[row % channels])) : otherwise;
}

// Rows of type T, parameters of type P; statistics are those of accumulators. A row belongs to a group of threads;
// `share` is 1 / n. Elements have parameters of their own; with Channel (instance_norm), row r has those of channel
// r % channels, and 1 / deviation is stored, not the variance.
template <bool Channel, typename T, typename P, typename A>
__device__ void norm_rows(const T* x, const P* scale, const P* bias, T* y, A* mean, A* variance, i64 rows, i64 n,
                          i64 channels, A epsilon, A share, int group) {
    i64 each = blockDim.x / group, lane = threadIdx.x % group;
    for (i64 r = blockIdx.x * each + threadIdx.x / group; r < rows; r += gridDim.x * each) {
        const T* row = x + r * n;
        A sum = A(0), squares = A(0);
        for (i64 i = lane; i < n; i += group) sum += A(wide(row[i]));
        A m = group_join<Sum>(sum, group) * share;
        for (i64 i = lane; i < n; i += group) squares += (A(wide(row[i])) - m) * (A(wide(row[i])) - m);
        A v = group_join<Sum>(squares, group) * share, inverse = rsqrt(v + epsilon);
        A s = of_channel<Channel>(scale, r, channels, A(1)), b = of_channel<Channel>(bias, r, channels, A(0));
        for (i64 i = lane; i < n; i += group) {
            A value = (A(wide(row[i])) - m) * inverse;
            if (Channel || scale) value *= Channel ? s : A(wide(scale[i]));
            if (Channel || bias) value += Channel ? b : A(wide(bias[i]));
            y[r * n + i] = narrow_to<T>::of(value);
        }
        if (lane == 0) {
            mean[r] = m;
            variance[r] = Channel ? inverse : v;
        }
    }
}

// A row of whole packs in registers.
template <int E, int G, int N, bool Channel, typename T, typename P, typename A>
__device__ __forceinline__ void layer_norm_row(const T* x, const P* scale, const P* bias, T* y, A* mean, A* variance,
                                               A of_scale, A of_bias, int n, A epsilon, A share) {
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
        if (!Channel && scale) s = read_pack<N>(scale + at);
        if (!Channel && bias) b = read_pack<N>(bias + at);
#pragma unroll
        for (int k = 0; k < N; k++) {
            A value = (A(wide(kept[v].v[k])) - m) * inverse;
            if (Channel || scale) value *= Channel ? of_scale : A(wide(s.v[k]));
            if (Channel || bias) value += Channel ? of_bias : A(wide(b.v[k]));
            kept[v].v[k] = narrow_to<T>::of(value);
        }
        write_pack<N>(y + at, kept[v]);
    }
    if (lane == 0) {
        *mean = m;
        *variance = Channel ? inverse : v_all;
    }
}

template <typename T, typename P, typename A, bool Channel, int E, int G>
__global__ void __launch_bounds__(row_threads<E, G>::most, row_threads<E, G>::blocks)
    layer_norm(const T* x, const P* scale, const P* bias, T* y, A* mean, A* variance, i64 rows, i64 n, i64 channels,
               A epsilon, A share, int group) {
    const int N = packed<T>::N;
    if (E == 0 || !aligned(x, y) || (!Channel && !aligned(scale, bias)))
        return norm_rows<Channel>(x, scale, bias, y, mean, variance, rows, n, channels, epsilon, share,
                                  row_threads<E, G>::group(group));
    i64 each = G ? blockDim.x / G : 1;
#pragma unroll 1
    for (i64 r = blockIdx.x * each + (G ? threadIdx.x / G : 0); r < rows; r += gridDim.x * each) {
        i64 at = r * n;
        A s = of_channel<Channel>(scale, r, channels, A(1)), b = of_channel<Channel>(bias, r, channels, A(0));
        layer_norm_row<E ? E : N, G, N, Channel>(x + at, scale, bias, y + at, mean + r, variance + r, s, b, (int)n,
                                                 epsilon, share);
    }
}

// What is kept for the gradients of the parameters: nothing; sums of the columns of rows that a group of threads takes;
// or sums of each row (instance_norm).
enum Kept { NOTHING, COLUMNS, ROWS };

// The gradient of x. dscale[r] and dbias[r] are sums of row r.
template <Kept Sums, typename T, typename P, typename A>
__device__ void dx_rows(const T* x, const T* dy, const P* scale, const A* mean, const A* variance, T* dx, A* dscale,
                        A* dbias, i64 rows, i64 n, i64 channels, A epsilon, A share, int group) {
    const bool channel = Sums == ROWS;
    i64 each = blockDim.x / group, lane = threadIdx.x % group;
    for (i64 r = blockIdx.x * each + threadIdx.x / group; r < rows; r += gridDim.x * each) {
        A m = mean[r], inverse = channel ? variance[r] : rsqrt(variance[r] + epsilon), sum = A(0), dot = A(0);
        for (i64 i = lane; i < n; i += group) {
            A g = A(wide(dy[r * n + i])) * (!channel && scale ? A(wide(scale[i])) : A(1));
            sum += g;
            dot += g * (A(wide(x[r * n + i])) - m) * inverse;
        }
        sum = group_join<Sum>(sum, group);
        dot = group_join<Sum>(dot, group);
        if (channel && lane == 0) dscale[r] = dot, dbias[r] = sum;
        sum *= share, dot *= share;
        A factor = inverse * of_channel<channel>(scale, r, channels, A(1));
        for (i64 i = lane; i < n; i += group) {
            A g = A(wide(dy[r * n + i])) * (!channel && scale ? A(wide(scale[i])) : A(1));
            A to_mean = (A(wide(x[r * n + i])) - m) * inverse;
            dx[r * n + i] = narrow_to<T>::of((g - sum - to_mean * dot) * factor);
        }
    }
}

// The gradient of a row, read once; `each` gets the place of an element in the thread, dy, and x by its statistics;
// `all` gets the sums of the row. Differences are multiplied by `factor`.
template <int E, int G, int N, typename T, typename P, typename A, typename F, typename S>
__device__ __forceinline__ void layer_norm_dx_row(const T* x, const T* dy, const P* scale, A m, A inverse, A factor,
                                                  T* dx, int n, A share, F each, S all) {
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
    sum = group_join<Sum>(sum, group);
    dot = group_join<Sum>(dot, group);
    all(sum, dot);
    sum *= share, dot *= share;
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
            xs[v].v[k] = narrow_to<T>::of((g - sum - to_mean * dot) * factor);
        }
        write_pack<N>(dx + at, xs[v]);
    }
}

// The gradients of rows first, first + step .. in one pass. A thread sums its own columns.
template <int E, int G, int N, Kept Sums, typename T, typename P, typename A>
__device__ __forceinline__ void grad_rows(const T* x, const T* dy, const P* scale, const A* mean, const A* variance,
                                          T* dx, A* dscale, A* dbias, i64 first, i64 step, i64 rows, int n,
                                          i64 channels, A epsilon, A share) {
    const bool channel = Sums == ROWS;
    int group = G ? G : blockDim.x, lane = threadIdx.x % group;
    A ds[E], db[E];
#pragma unroll
    for (int e = 0; e < E; e++) ds[e] = db[e] = A(0);
#pragma unroll 1
    for (i64 r = first; r < rows; r += step) {
        i64 at = r * n;
        A m = mean[r], inverse = channel ? variance[r] : rsqrt(variance[r] + epsilon);
        A factor = inverse * of_channel<channel>(scale, r, channels, A(1));
        auto add = [&](int e, A d, A to_mean) {
            if (Sums == COLUMNS) ds[e] += d * to_mean, db[e] += d;
        };
        auto keep = [&](A sum, A dot) {
            if (channel && lane == 0) dscale[r] = dot, dbias[r] = sum;
        };
        const P* own = channel ? 0 : scale;
        layer_norm_dx_row<E, G, N>(x + at, dy + at, own, m, inverse, factor, dx + at, n, share, add, keep);
    }
    if (Sums != COLUMNS) return;
    dscale += first * n, dbias += first * n;
#pragma unroll
    for (int e = 0; e < E; e++) {
        int at = (e / N * group + lane) * N + e % N;
        if (at >= n) continue;
        dscale[at] = ds[e];
        dbias[at] = db[e];
    }
}

// The gradient of x, and the sums for those of the parameters: COLUMNS [groups of threads, n] (of rows in registers
// only), ROWS [rows].
template <typename T, typename P, typename A, Kept Sums, int E, int G>
__global__ void __launch_bounds__(row_threads<E, G>::most, Sums == COLUMNS && !G ? 1 : row_threads<E, G>::blocks)
    layer_norm_grad(const T* x, const T* dy, const P* scale, const A* mean, const A* variance, T* dx, A* dscale,
                    A* dbias, i64 rows, i64 n, i64 channels, A epsilon, A share, int group) {
    const int N = packed<T>::N, kept = E ? E : N;
    i64 each = G ? blockDim.x / G : 1, own = blockIdx.x * each + (G ? threadIdx.x / G : 0), step = gridDim.x * each;
    if (E && aligned(x, dy, dx) && (Sums == ROWS || aligned(scale)))
        grad_rows<kept, G, N, Sums>(x, dy, scale, mean, variance, dx, dscale, dbias, own, step, rows, (int)n, channels,
                                    epsilon, share);
    else if (Sums == COLUMNS)
        grad_rows<kept, G, 1, Sums>(x, dy, scale, mean, variance, dx, dscale, dbias, own, step, rows, (int)n, channels,
                                    epsilon, share);
    else
        dx_rows<Sums>(x, dy, scale, mean, variance, dx, dscale, dbias, rows, n, channels, epsilon, share,
                      row_threads<E, G>::group(group));
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
NULL = np.uint64(0)
#: threads that keep a device busy
_THREADS = 1 << 16
_ACCUMULATORS = {"double": "double"}
#: types of rows, of parameters and of accumulators: the parameters of 16-bit rows are float32
_TYPES = tuple(f"{t}, {p}, {p}" for t, p in ((t, _ACCUMULATORS.get(t, "float")) for t in FLOATS.values()))
_SHORT = tuple(types for types in _TYPES if types.split(",")[0] in IN_REGISTERS.values())
_REALS = tuple(", ".join([t] * 3) for t in REALS.values())
UNIT = Unit(
    "layer_norm",
    SOURCE,
    instances("layer_norm", _TYPES, ("false",), (WALKED,))
    + instances("layer_norm", _SHORT, ("false",), KEPT)
    + instances("layer_norm", _REALS, ("true",), (WALKED,))
    + instances("layer_norm", _REALS[:1], ("true",), KEPT)
    + instances("layer_norm_grad", _TYPES, ("NOTHING",), (WALKED,))
    + instances("layer_norm_grad", _SHORT, ("NOTHING", "COLUMNS"), KEPT_PAIRS)
    + instances("layer_norm_grad", _REALS, ("ROWS",), (WALKED,))
    + instances("layer_norm_grad", _REALS[:1], ("ROWS",), KEPT_PAIRS)
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
    return NULL if array is None else array


def start(call: Call, kernel: str, kinds: tuple, x, sizes: tuple[int, int, int], arrays: tuple, epsilon: Any) -> None:
    """Starts an instance of layer_norm or layer_norm_grad for rows, their elements and channels."""
    rows, n, channels = sizes
    how, grid, block, group = threads_of_rows(rows, n, x, kinds)
    numbers = np.int64(rows), np.int64(n), np.int64(channels), epsilon, type(epsilon)(1 / n), np.int32(group)
    call.launch(UNIT, f"{kernel}, {how}>", grid, block, *arrays, *numbers)


def _layer_norm(call: Call) -> dict:
    x, scale, bias = call.array("X"), _parameter(call, "Scale"), _parameter(call, "Bias")
    types, _, of = _types(x, scale, bias)
    sizes = _sizes(call, x)
    y, mean, variance = call.out("Y"), call.out("Mean"), call.out("Variance")
    if mean.dtype != of or variance.dtype != of:
        raise Declined
    arrays = x, _pointer(scale), _pointer(bias), y, mean, variance
    start(call, f"layer_norm<{types}, false", KEPT, x, (*sizes, 0), arrays, of(call.attrs["epsilon"]))
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
        arrays = x, dy, _pointer(scale), mean, variance, out["X@GRAD"], NULL, NULL
        start(call, f"layer_norm_grad<{types}, NOTHING", KEPT_PAIRS, x, (rows, n, 0), arrays, epsilon)
    if call.wanted["Scale@GRAD"] or call.wanted["Bias@GRAD"]:
        tiles = -(-n * x.itemsize // 512)
        chunk, chunks = columns_in_chunks(rows, tiles, 64)
        parts = call.empty((chunks, n), of), call.empty((chunks, n), of)
        numbers = *map(np.int64, (rows, n, chunk)), epsilon
        kernel = f"layer_norm_dparams<{of_rows}>"
        call.launch(UNIT, kernel, (tiles, chunks), 256, x, dy, mean, variance, *parts, *numbers)
        out.update(summed(call, parts, scale, bias))
    return out


def summed(call: Call, parts: tuple, scale, bias) -> dict:
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
    numbers = np.int64(rows), np.int64(n), np.int64(0), epsilon, of(1 / n), np.int32(0)
    arrays = x, dy, _pointer(scale), *statistics, dx, *parts
    call.launch(UNIT, f"layer_norm_grad<{types}, COLUMNS, {kept}>", grid, block, *arrays, *numbers)
    return {"X@GRAD": dx, **summed(call, parts, scale, bias)}


LAUNCHERS = {"layer_norm": _layer_norm, "layer_norm_grad": _layer_norm_grad}
