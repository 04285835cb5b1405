"""Moves of elements between strided parts of arrays (transposes, slices, repetition) and fills, in memory of a call."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .call import Call, Declined, ctype, number
from .units import FLOATS, REALS, Unit, grid_of, instances

SOURCE = r"""
struct alignas(16) words2_t { i64 first, second; };

// out[to + i * ostrides] = x[from + i * xstrides] for all indices i of a box of R dimensions, of which the first one's
// size follows from n; a stride of an absent dimension is 0. Offsets are less than 2^32 for I = unsigned, in which
// negative strides wrap around.
template <typename W, typename I, int R> __global__ void copy_strided(
    const W* x, W* out, i64 n, I from, I to, I s1, I s2, I s3, I s4, I s5, I x0, I x1, I x2, I x3, I x4, I x5,
    I o0, I o1, I o2, I o3, I o4, I o5) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        I left = (I)i, a = from, b = to, at;
        if (R > 5) at = left % s5, left /= s5, a += at * x5, b += at * o5;
        if (R > 4) at = left % s4, left /= s4, a += at * x4, b += at * o4;
        if (R > 3) at = left % s3, left /= s3, a += at * x3, b += at * o3;
        if (R > 2) at = left % s2, left /= s2, a += at * x2, b += at * o2;
        if (R > 1) at = left % s1, left /= s1, a += at * x1, b += at * o1;
        out[b + left * o0] = x[a + left * x0];
    }
}

// out [batch, a, b] of x[k * xbatch + j * xrow + i], by tiles of 64 x 32, of 256 threads. The loads of a tile are in
// flight together. There are less than 2^31 tiles.
template <typename W> __global__ void transpose_tiles(const W* x, W* out, int tiles, i64 a, i64 b, i64 xbatch,
                                                      i64 xrow) {
    __shared__ W tile[64][33];
    unsigned across = (unsigned)((a + 31) / 32), down = (unsigned)((b + 63) / 64);
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (unsigned t = blockIdx.x; t < (unsigned)tiles; t += gridDim.x) {
        unsigned row = t / across, k = row / down;
        i64 i = (i64)(t - row * across) * 32, j = (i64)(row - k * down) * 64;
        const W* from = x + k * xbatch + j * xrow + i;
        W* to = out + (k * a + i) * b + j;
#pragma unroll
        for (int q = 0; q < 64; q += 8) {
            int r = q + warp;
            if (j + r < b && i + lane < a) tile[r][lane] = from[r * xrow + lane];
        }
        __syncthreads();
#pragma unroll
        for (int q = 0; q < 32; q += 8) {
            int r = q + warp;
            if (i + r < a && j + lane < b) to[r * b + lane] = tile[lane][r];
            if (i + r < a && j + lane + 32 < b) to[r * b + lane + 32] = tile[lane + 32][r];
        }
        __syncthreads();
    }
}

// What `fill` writes: one number, numbers of equal distances, x[0] divided, or the given numbers.
template <typename T> struct Constant {
    T value;
    template <typename A> __device__ __forceinline__ Constant(const T*, const A* v) : value(v[0]) {}
    __device__ __forceinline__ T of(i64) const { return value; }
};
template <typename T> struct Ramp {
    T from, by;
    template <typename A> __device__ __forceinline__ Ramp(const T*, const A* v) : from(v[0]), by(v[1]) {}
    __device__ __forceinline__ T of(i64 i) const { return T(from + T(i) * by); }
};
template <typename T> struct Share {
    T value;
    template <typename A> __device__ __forceinline__ Share(const T* x, const A* v)
        : value(narrow_to<T>::of(wide(x[0]) / v[0])) {}
    __device__ __forceinline__ T of(i64) const { return value; }
};
template <typename T> struct Listed {
    const T* values;
    __device__ __forceinline__ Listed(const T*, const T* v) : values(v) {}
    __device__ __forceinline__ T of(i64 i) const { return values[i]; }
};
template <typename T, template <typename> class Op> __global__ void fill(
    T* out, i64 n, const T* x, typename acc<T>::type v0, typename acc<T>::type v1, typename acc<T>::type v2,
    typename acc<T>::type v3, typename acc<T>::type v4, typename acc<T>::type v5, typename acc<T>::type v6,
    typename acc<T>::type v7) {
    typename acc<T>::type v[8] = {v0, v1, v2, v3, v4, v5, v6, v7};
    Op<T> made(x, v);
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x)
        out[i] = made.of(i);
}
"""
WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "i64", 16: "words2_t"}
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
#: numbers that a launch writes
WRITTEN = 8
_RANKS = (1, 2, 3, 4, 6)
_NONE = np.uint64(0)
_PLAIN = tuple(WORDS[size] for size in _BITS)
UNIT = Unit(
    "strided",
    SOURCE,
    instances("copy_strided", WORDS, ("unsigned", "i64"), tuple(map(str, _RANKS)))
    + instances("transpose_tiles", _PLAIN)
    + instances("fill", _PLAIN, ("Constant", "Ramp", "Listed"))
    + instances("fill", REALS, ("Ramp",))
    + instances("fill", FLOATS, ("Share",)),
)


def strides_of(shape) -> list[int]:
    """The strides of a contiguous array, in elements."""
    found = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        found[i] = found[i + 1] * shape[i + 1]
    return found


def _merged(shape, xs, os) -> tuple[list[int], list[int], list[int]]:
    """The box with neighbouring dimensions joined where both sides step through them evenly."""
    sizes: list[int] = []
    first: list[int] = []
    second: list[int] = []
    for n, a, b in zip(shape, xs, os, strict=True):
        if n == 1:
            continue
        if sizes and first[-1] == n * a and second[-1] == n * b:
            sizes[-1], first[-1], second[-1] = sizes[-1] * n, a, b
        else:
            sizes.append(n)
            first.append(a)
            second.append(b)
    return (sizes, first, second) if sizes else ([1], [0], [0])


def move(call: Call, x, out, shape, xs, os, start: int = 0, to: int = 0) -> None:
    """out.flat[to + i . os] = x.flat[start + i . xs] for all indices i of `shape`; strides and starts in elements of
    contiguous arrays of one size of elements."""
    n = math.prod(shape)
    if n == 0:
        return
    size = x.dtype.itemsize
    sizes, xs, os = _merged(shape, xs, os)
    if len(sizes) > _RANKS[-1] or size not in WORDS or size != out.dtype.itemsize:
        raise Declined
    if start == to == 0 and _transposed(call, x, out, sizes, xs, os):
        return
    wide = _together(call, x, out, sizes, [*xs[:-1], start], [*os[:-1], to]) if xs[-1] == os[-1] == 1 else 1
    if wide > 1:
        xs, os = ([*(s // wide for s in strides[:-1]), 1] for strides in (xs, os))
        sizes, n, start, to = [*sizes[:-1], sizes[-1] // wide], n // wide, start // wide, to // wide
        size *= wide
    spans = [at + sum((k - 1) * s for k, s in zip(sizes, strides, strict=True) if s > 0)
             for at, strides in ((start, xs), (to, os))]  # fmt: skip
    index: Any = np.uint32 if max(n, *spans) < 1 << 31 else np.int64
    rank = next(r for r in _RANKS if r >= len(sizes))
    padded = [[*[fill] * (rank - len(v)), *v, *[fill] * (6 - rank)] for v, fill in ((sizes, 1), (xs, 0), (os, 0))]
    numbers = (start, to, *padded[0][1:], *padded[1], *padded[2])
    name = f"copy_strided<{WORDS[size]}, {'unsigned' if index is np.uint32 else 'i64'}, {rank}>"
    args = (index(v & 0xFFFFFFFF if index is np.uint32 else v) for v in numbers)
    call.launch(UNIT, name, grid_of(n), 256, x, out, np.int64(n), *args)


def _together(call: Call, x, out, sizes: list[int], xs: list[int], os: list[int]) -> int:
    """How many neighbouring elements may be moved as one word."""
    whole = 16 // x.dtype.itemsize
    if any(call.machine.address(a) % 16 for a in (x, out)):
        return 1
    return math.gcd(whole, sizes[-1], *xs, *os)


def _transposed(call: Call, x, out, sizes: list[int], xs: list[int], os: list[int]) -> bool:
    """Moves by tiles where the last two dimensions of a contiguous result are exchanged."""
    if len(sizes) not in (2, 3) or xs[-2] != 1 or os != strides_of(sizes) or x.dtype.itemsize > 8:
        return False
    (batch, a, b), (xbatch, _, xrow) = ([fill] * (3 - len(v)) + v for v, fill in ((sizes, 1), (xs, 0)))
    if min(a, b) < 8 or xrow < a:
        return False
    tiles = batch * -(-a // 32) * -(-b // 64)
    if tiles >= 1 << 31:
        return False
    numbers = np.int32(tiles), *map(np.int64, (a, b, xbatch, xrow))
    name = f"transpose_tiles<{WORDS[x.dtype.itemsize]}>"
    call.launch(UNIT, name, min(tiles, 1 << 20), 256, x, out, *numbers)
    return True


def gathered(call: Call, x, shape, xs, start: int = 0):
    """A new array of `shape` whose element i is x.flat[start + i . xs]."""
    out = call.empty(tuple(shape), x.dtype)
    move(call, x, out, shape, xs, strides_of(shape), start)
    return out


def copied(call: Call, x):
    """A new array with the elements of a contiguous one."""
    size = x.dtype.itemsize
    words = x.reshape(-1).view(np.int64) if size > 8 else x
    return gathered(call, words, (words.size,), (1,)).view(x.dtype).reshape(x.shape)


def transposed(call: Call, x, axes):
    """A new array: x.transpose(axes)."""
    strides = strides_of(x.shape)
    axes = [a % x.ndim for a in axes]
    return gathered(call, x, [x.shape[a] for a in axes], [strides[a] for a in axes])


def expanded(call: Call, x, shape):
    """x broadcast to `shape`; itself if it has that shape."""
    shape = tuple(shape)
    if x.shape == shape:
        return x
    lead = len(shape) - x.ndim
    if lead < 0 or any(a not in (1, b) for a, b in zip(x.shape, shape[lead:], strict=True)):
        raise Declined
    strides = [0 if n == 1 else s for n, s in zip(x.shape, strides_of(x.shape), strict=True)]
    return gathered(call, x, shape, [0] * lead + strides)


def full(call: Call, shape, dtype, value=0):
    """A new array of one value; of bits for uint16, which stands for bfloat16."""
    out = call.empty(tuple(shape), dtype)
    write(call, out, "Constant", [number(value, out.dtype)])
    return out


def write(call: Call, out, kind: str, values) -> None:
    """Sets all elements of a contiguous array: to the number values[0] (`kind` Constant), to values[0], values[0] +
    values[1], .. (Ramp), or to `values`, at most WRITTEN (Listed)."""
    size = out.dtype.itemsize
    if out.size == 0:
        return
    if size not in _BITS:
        raise Declined
    given = np.asarray(values, out.dtype)
    is_word = kind != "Ramp" or out.dtype.kind in "iu"
    if is_word:
        given = given.view(_BITS[size])
    _fill(call, out, WORDS[size] if is_word else REALS[out.dtype.name], kind, list(given))


def _fill(call: Call, out, t: str, kind: str, values: list, x=_NONE) -> None:
    if out.size:
        rest = [type(values[0])(0)] * (WRITTEN - len(values))
        numbers = (v.astype(np.int64) if v.dtype == np.uint64 else v for v in [*values, *rest])
        call.launch(UNIT, f"fill<{t}, {kind}>", grid_of(out.size), 256, out, np.int64(out.size), x, *numbers)


def full_from(call: Call, x, divisor: float, shape):
    """A new array whose elements are x[0] / divisor."""
    t = ctype(x, FLOATS)
    out = call.empty(tuple(shape), x.dtype)
    _fill(call, out, t, "Share", [np.float64(divisor) if t == "double" else np.float32(divisor)], x)
    return out
