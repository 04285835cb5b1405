"""Sum, mean, product and extrema over axes, and the gradients of the linear ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import formula, halves, strided
from ..call import Call, Declined, ctype
from ..units import KINDS, TYPES, Unit, grid_of, groups_of_threads, instances

# Elements reduced by one block: a long run is reduced in chunks of this size, then over the chunks.
CHUNK = 16384
# Blocks that keep all multiprocessors busy: columns are divided into chunks until there are as many.
BLOCKS = 1024
# Rows of a chunk of columns at least: each of 8 warps takes every eighth.
_ROWS = 32

SOURCE = r"""
// The reduction of elements that follow each other: by an operation, or the position of the first largest or smallest
// one, where NaN exceeds all.
template <typename A, typename Op> struct Fold {
    A v;
    __device__ __forceinline__ Fold(A first) : v(Op::none(first)) {}
    __device__ __forceinline__ void add(A x, i64) { v = Op::join(v, x); }
    __device__ __forceinline__ A result(A divisor) const { return v / divisor; }
};
template <bool Smallest> struct Place {};
template <typename A, bool Smallest> struct Fold<A, Place<Smallest> > {
    A best;
    i64 place;
    __device__ __forceinline__ Fold(A first) : best(first), place(0) {}
    __device__ __forceinline__ void add(A x, i64 i) {
        if (best == best && (x != x || (Smallest ? x < best : x > best))) best = x, place = i;
    }
    __device__ __forceinline__ i64 result(A) const { return place; }
};

// Chunk c of run r, x[r * n + c * chunk ..], for a group of threads; the last dimension is reduced. A chunk of a run is
// whole packs, or packs are not used.
template <typename T, typename O, typename Op>
__global__ void reduce_last(const T* x, O* out, i64 runs, i64 n, i64 chunk, i64 chunks, typename acc<T>::type divisor,
                            int group) {
    typedef typename acc<T>::type A;
    const int N = packed<T>::N;
    bool whole = n % N == 0 && chunk % N == 0 && aligned(x);
    i64 each = blockDim.x / group, lane = threadIdx.x % group, count = runs * chunks;
    for (i64 b = blockIdx.x * each + threadIdx.x / group; b < count; b += gridDim.x * each) {
        i64 first = chunks == 1 ? 0 : b % chunks * chunk, left = n - first < chunk ? n - first : chunk;
        const T* from = x + (chunks == 1 ? b : b / chunks) * n + first;
        A v = Op::none(A(wide(from[0])));
        if (whole) {
            A sums[N];
#pragma unroll
            for (int k = 0; k < N; k++) sums[k] = v;
#pragma unroll 4
            for (int i = (int)lane; i < (int)(left / N); i += group) {
                Pack<T, N> p = ((const Pack<T, N>*)from)[i];
#pragma unroll
                for (int k = 0; k < N; k++) sums[k] = Op::join(sums[k], A(wide(p.v[k])));
            }
            v = sums[0];
#pragma unroll
            for (int k = 1; k < N; k++) v = Op::join(v, sums[k]);
        } else {
            for (i64 i = lane; i < left; i += group) v = Op::join(v, A(wide(from[i])));
        }
        v = group_join<Op>(v, group);
        if (lane == 0) out[b] = narrow_to<O>::of(v / divisor);
    }
}

// The middle of three dimensions is reduced in chunks, by a thread for each result: out [outer, chunks, inner].
template <typename T, typename O, typename Op>
__global__ void reduce_middle(const T* x, O* out, i64 outer, i64 n, i64 inner, i64 chunk, i64 chunks,
                              typename acc<T>::type divisor) {
    typedef typename acc<T>::type A;
    i64 results = outer * chunks * inner;
    for (i64 r = blockIdx.x * (i64)blockDim.x + threadIdx.x; r < results; r += (i64)gridDim.x * blockDim.x) {
        i64 first = r / inner % chunks * chunk, count = n - first < chunk ? n - first : chunk;
        const T* from = x + (r / (chunks * inner) * n + first) * inner + r % inner;
        Fold<A, Op> made(A(wide(from[0])));
        for (i64 i = 0; i < count; i++) made.add(A(wide(from[i * inner])), i);
        out[r] = narrow_to<O>::of(made.result(divisor));
    }
}

// Rows first + warp, first + warp + 8, .. < end of N columns; the results of the tile.
template <bool Whole, typename Op, int N, typename T, typename O, typename A>
__device__ __forceinline__ void join_rows(const T* x, O* out, i64 tile, i64 first, i64 end, i64 inner, A divisor) {
    typedef columns<Whole, N> C;
    __shared__ A parts[8][32][N];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    i64 column = C::first(tile, lane);
    A v[N];
    if (column < inner) {
        Pack<T, N> p = C::read(x + first * inner, column, inner);
#pragma unroll
        for (int k = 0; k < N; k++) v[k] = Op::none(A(wide(p.v[k])));
#pragma unroll 4
        for (i64 r = first + warp; r < end; r += 8) {
            p = C::read(x + r * inner, column, inner);
#pragma unroll
            for (int k = 0; k < N; k++) v[k] = Op::join(v[k], A(wide(p.v[k])));
        }
#pragma unroll
        for (int k = 0; k < N; k++) parts[warp][lane][k] = v[k];
    }
    __syncthreads();
    if (warp || column >= inner) return;
    for (int w = 1; w < 8; w++)
#pragma unroll
        for (int k = 0; k < N; k++) v[k] = Op::join(v[k], parts[w][lane][k]);
#pragma unroll
    for (int k = 0; k < N; k++)
        if (C::at(column, k) < inner) out[C::at(column, k)] = narrow_to<O>::of(v[k] / divisor);
}

// The same for long rows: a block takes a tile of columns, a warp every eighth row of a chunk.
// Blocks: tiles * outer, chunks.
template <typename T, typename O, typename Op>
__global__ void reduce_columns(const T* x, O* out, i64 n, i64 inner, i64 chunk, i64 tiles,
                               typename acc<T>::type divisor) {
    const int N = packed<T>::N;
    i64 tile = blockIdx.x % tiles, o = blockIdx.x / tiles, first = blockIdx.y * chunk;
    i64 end = first + chunk < n ? first + chunk : n;
    x += o * n * inner;
    out += (o * gridDim.y + blockIdx.y) * inner;
    if (inner % N == 0 && aligned(x))
        join_rows<true, Op, N>(x, out, tile, first, end, inner, divisor);
    else
        join_rows<false, Op, N>(x, out, tile, first, end, inner, divisor);
}
"""
_OPS = {"reduce_sum": "Sum", "reduce_mean": "Sum", "reduce_prod": "Prod", "reduce_max": "Max", "reduce_min": "Min"}
_JOINS = ("Sum", "Prod", "Max", "Min")
# Types of operand and result: partial results of 16-bit types are float32, so that they are rounded once.
_PAIRS = tuple(f"{t}, {t}" for t in TYPES.values()) + tuple(
    pair for t in ("half_t", "bf16_t") for pair in (f"{t}, float", f"float, {t}")
)
_KERNELS = ("reduce_last", "reduce_middle", "reduce_columns")
_PLACES = tuple(f"reduce_middle<{t}, i64, Place<{s}> >" for t in KINDS.values() for s in ("true", "false"))
UNIT = Unit("reduction", SOURCE, sum((instances(kernel, _PAIRS, _JOINS) for kernel in _KERNELS), _PLACES))


def _divisor(t: str, value: float):
    kind: Any = {"double": np.float64, "int": np.int32, "i64": np.int64}.get(t, np.float32)
    return kind(value)


def _place(call: Call, x, count: int, dtype: Any, is_last: bool):
    """Memory of results, float32 for partial ones of 16-bit types; and the C types of operand and result."""
    t = ctype(x)
    out = call.empty((count,), dtype if is_last else "float32" if t in ("half_t", "bf16_t") else x.dtype)
    return out, t, f"{t}, {ctype(out)}"


def _last(call: Call, x, runs: int, n: int, join: str, divisor: float, dtype: Any):
    """`x` as [runs, n] reduced to [runs]."""
    chunks = -(-n // CHUNK)
    size = n if chunks == 1 else CHUNK
    out, t, types = _place(call, x, runs * chunks, dtype, chunks == 1)
    group, grid, block = groups_of_threads(runs * chunks, size)
    numbers = (*map(np.int64, (runs, n, size, chunks)), _divisor(t, divisor if chunks == 1 else 1), np.int32(group))
    call.launch(UNIT, f"reduce_last<{types}, {join}>", grid, block, x, out, *numbers)
    return out if chunks == 1 else _last(call, out, runs, chunks, join, divisor, dtype)


def _axes(attrs: dict, rank: int) -> list[int]:
    return list(range(rank)) if attrs["reduce_all"] else sorted({d % rank for d in attrs["dim"]})


def reduce(call: Call, x, axes: list[int], join: str, divisor: float, dtype: Any = None):
    """`x` reduced over `axes`, flat; `dtype`: of the result, by default that of x."""
    ctype(x)
    if x.size == 0 or not axes:
        raise Declined
    dtype = x.dtype if dtype is None else dtype
    adjacent = next(i for i in range(len(axes)) if axes[-1] - axes[i] == len(axes) - 1 - i)
    if adjacent:  # the last axes that follow each other first, then the others
        last, shape = axes[adjacent:], x.shape
        part = reduce(call, x, last, join, 1, "float32" if x.dtype.name in halves.HALVES else x.dtype)
        part = part.reshape(shape[: last[0]] + shape[last[-1] + 1 :])
        return reduce(call, part, axes[:adjacent], join, divisor, dtype)
    outer = math.prod(x.shape[: axes[0]])
    n, inner = math.prod(x.shape[axes[0] : axes[-1] + 1]), math.prod(x.shape[axes[-1] + 1 :])
    if inner == 1:
        return _last(call, x, outer, n, join, divisor, dtype)
    return _middle(call, x, (outer, n, inner), join, divisor, dtype)


def columns_in_chunks(n: int, blocks: int, least: int) -> tuple[int, int]:
    """The rows of a chunk (a multiple of `least`) and the number of chunks for columns of `n` rows, of which `blocks`
    blocks take a chunk."""
    size = max(-(-n // max(1, BLOCKS // blocks)), -(-n // 65535))
    size = -(-size // least) * least
    return size, -(-n // size)


def _middle(call: Call, x, sizes: tuple[int, int, int], join: str, divisor: float, dtype: Any):
    """`x` as [outer, n, inner] reduced to [outer, inner], flat; long columns in chunks, and then over the chunks."""
    outer, n, inner = sizes
    pack = 16 // x.itemsize
    tiled = inner >= 16 * pack
    tiles = -(-inner // (32 * pack))
    size, chunks = columns_in_chunks(n, outer * tiles if tiled else -(-outer * inner // 256), _ROWS)
    out, t, types = _place(call, x, outer * chunks * inner, dtype, chunks == 1)
    by = _divisor(t, divisor if chunks == 1 else 1)
    if tiled:
        numbers = map(np.int64, (n, inner, size, tiles))
        call.launch(UNIT, f"reduce_columns<{types}, {join}>", (tiles * outer, chunks), 256, x, out, *numbers, by)
    else:
        numbers = map(np.int64, (outer, n, inner, size, chunks))
        grid = grid_of(outer * chunks * inner, 256, (1 << 31) - 1)
        call.launch(UNIT, f"reduce_middle<{types}, {join}>", grid, 256, x, out, *numbers, by)
    return out if chunks == 1 else _middle(call, out, (outer, chunks, inner), join, divisor, dtype)


def places(call: Call, x, axis: int, is_smallest: bool):
    """The positions along an axis of the first largest or smallest elements, int64; NaN exceeds all."""
    t, n, inner = ctype(x, KINDS), x.shape[axis], math.prod(x.shape[axis + 1 :])
    out = call.empty((*x.shape[:axis], *x.shape[axis + 1 :]), "int64")
    if out.size:
        kernel = f"reduce_middle<{t}, i64, Place<{'true' if is_smallest else 'false'}> >"
        numbers = map(np.int64, (out.size // inner, n, inner, n, 1))
        call.launch(UNIT, kernel, grid_of(out.size), 256, x, out, *numbers, x.dtype.type(1))
    return out


# Integers without an instance of the kernels.
_SMALL = ("int8", "uint8", "int16")


def _reduce(call: Call) -> dict:
    x, a = call.array("X"), call.attrs
    if a["out_dtype"] >= 0 or (call.op == "reduce_mean" and x.dtype.kind != "f"):
        raise Declined
    axes = _axes(a, x.ndim)
    shape = tuple(1 if i in axes else d for i, d in enumerate(x.shape) if a["keep_dim"] or i not in axes)
    if x.dtype.name in _SMALL and axes and x.size:
        made = getattr(call.xp, _OPS[call.op].lower())(x, axis=tuple(axes))
        return {"Out": made.astype(x.dtype).reshape(shape or (1,))}
    divisor = math.prod(x.shape[i] for i in axes) if call.op == "reduce_mean" else 1
    return {"Out": reduce(call, x, axes, _OPS[call.op], divisor).reshape(shape or (1,))}


def _spread(call: Call) -> dict:
    """Gradients of sums and means: the result's gradient broadcast to all elements."""
    x, dout = call.ins["X"], call.array("Out@GRAD")
    if call.attrs["in_dtype"] >= 0 or len(x.shape) == 0 or (call.op == "reduce_mean_grad" and dout.dtype.kind != "f"):
        raise Declined
    axes = _axes(call.attrs, len(x.shape))
    if call.op == "reduce_mean_grad":
        dout = formula.apply(call, "scale", [dout], [1 / max(1, math.prod(x.shape[i] for i in axes)), 0.0])
    kept = tuple(1 if i in axes else d for i, d in enumerate(x.shape))
    return {"X@GRAD": strided.expanded(call, dout.reshape(kept), x.shape)}


def _mean(call: Call) -> dict:
    x = call.array("X")
    if x.dtype.kind != "f":
        raise Declined
    return {"Out": reduce(call, x, list(range(x.ndim)), "Sum", x.size)}


def _mean_grad(call: Call) -> dict:
    x, dout = call.ins["X"], call.array("Out@GRAD")
    if dout.dtype.kind != "f" or x.size == 0 or dout.size != 1:
        raise Declined
    return {"X@GRAD": strided.full_from(call, dout, x.size, x.shape)}


LAUNCHERS = dict.fromkeys(_OPS, _reduce)
LAUNCHERS.update(reduce_sum_grad=_spread, reduce_mean_grad=_spread, mean=_mean, mean_grad=_mean_grad)
