"""elementwise_add, sub, mul, div, max and min by one kernel: Y has the shape of X, or that of a range of its
dimensions. Operands of other shapes are repeated first."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .. import strided
from ..call import Call, Declined, ctype, same_dtype
from ..units import FLOATS, INTEGERS, Unit, grid_of_packs, instances
from . import elementwise

SOURCE = r"""
struct Plus { template <typename A> static __device__ __forceinline__ A of(A x, A y) { return x + y; } };
struct Minus { template <typename A> static __device__ __forceinline__ A of(A x, A y) { return x - y; } };
struct Times { template <typename A> static __device__ __forceinline__ A of(A x, A y) { return x * y; } };
struct Over { template <typename A> static __device__ __forceinline__ A of(A x, A y) { return x / y; } };
// The second operand if they are equal or one is NaN.
struct Larger { template <typename A> static __device__ __forceinline__ A of(A x, A y) { return x > y ? x : y; } };
struct Smaller { template <typename A> static __device__ __forceinline__ A of(A x, A y) { return x < y ? x : y; } };
// Negative sums are 0.
struct RectifiedPlus {
    template <typename A> static __device__ __forceinline__ A of(A x, A y) { return x + y < A(0) ? A(0) : x + y; }
};

template <typename T, typename Op> __device__ __forceinline__ T joined(T x, T y) {
    typedef typename acc<T>::type A;
    return narrow_to<T>::of(Op::of(A(wide(x)), A(wide(y))));
}

// y is repeated: element i of x meets i / inner % middle of y; `middle` is n where the shapes are equal.
template <typename T, typename Op> __global__ void binary(const T* x, const T* y, T* out, i64 n, i64 middle,
                                                          i64 inner) {
    typedef typename packed<T>::type P;
    const int N = packed<T>::N;
    i64 first = blockIdx.x * (i64)blockDim.x + threadIdx.x, step = (i64)gridDim.x * blockDim.x;
    // A pack of x meets a pack of y, or one element.
    bool same = middle == n, row = inner == 1 && middle % N == 0, column = middle == 1 || inner % N == 0;
    i64 packs = aligned(x, out) && ((same || row) && aligned(y) || column) ? n / N : 0;
#pragma unroll 1
    for (i64 i = first; i < packs; i += step) {
        P a = ((const P*)x)[i], b;
        if (same || row) {
            b = ((const P*)y)[same ? i : repeated(i, n, middle / N, 1)];
        } else {
            T one = y[middle == 1 ? 0 : repeated(i, n, middle, inner / N)];
#pragma unroll
            for (int k = 0; k < N; k++) b.v[k] = one;
        }
#pragma unroll
        for (int k = 0; k < N; k++) a.v[k] = joined<T, Op>(a.v[k], b.v[k]);
        ((P*)out)[i] = a;
    }
#pragma unroll 1
    for (i64 i = packs * N + first; i < n; i += step)
        out[i] = joined<T, Op>(x[i], y[same ? i : repeated(i, n, middle, inner)]);
}
"""
TYPES = {**FLOATS, **INTEGERS}
_OPS = {
    "elementwise_add": ("Plus", "add"),
    "elementwise_sub": ("Minus", "subtract"),
    "elementwise_mul": ("Times", "multiply"),
    "elementwise_div": ("Over", "divide"),
    "elementwise_max": ("Larger", None),
    "elementwise_min": ("Smaller", None),
    "grad_add": ("Plus", "add"),
}
_JOINS = tuple(dict.fromkeys(join for join, _ in _OPS.values()))
UNIT = Unit("binary", SOURCE, instances("binary", TYPES, _JOINS) + instances("binary", FLOATS, ("RectifiedPlus",)))


def _range_of(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, int] | None:
    """(elements of the range of dimensions that y has, elements after it); None if y is broadcast otherwise."""
    own = [i for i, n in enumerate(y) if n != 1]
    if not own:
        return 1, 1
    first, last = own[0], own[-1] + 1
    return (math.prod(y[first:last]), math.prod(x[last:])) if y[first:last] == x[first:last] else None


def apply(call: Call, join: str, x, y, seen: tuple[int, ...], out=None):
    """The result (in `out`, if it is given), None if the shapes are not of the kernel's kind; `seen` is the shape in
    which y is broadcast."""
    if x.dtype.name not in TYPES or len(seen) != x.ndim or x.size == 0:
        return None
    sizes = _range_of(x.shape, seen)
    if sizes is None:
        return None
    out = call.empty(x.shape, x.dtype) if out is None else out
    numbers = (np.int64(n) for n in (x.size, *sizes))
    kernel, grid = f"binary<{ctype(x, TYPES)}, {join}>", grid_of_packs(x.size, x.itemsize)
    call.launch(UNIT, kernel, grid, 256, x, y, out, *numbers)
    return out


def _launch(join: str, name: str | None) -> Callable[[Call], dict]:
    general = elementwise.larger(join == "Larger") if name is None else elementwise.binary(name)

    def launch(call: Call) -> dict:
        x, y = call.array("X"), call.array("Y")
        same_dtype(x, y)
        half = x.dtype.name in ("uint16", "float16")
        if x.ndim < y.ndim or (join == "Over" and x.dtype.kind in "iu" and not half):
            raise Declined
        seen = elementwise.seen_shape(y.shape, x.ndim, call.attrs["axis"])
        out = apply(call, join, x, y, seen)
        if out is None and x.size and x.dtype.name in TYPES and len(seen) == x.ndim:
            shape = tuple(map(max, x.shape, seen))
            x, y = (strided.expanded(call, v, shape) for v in (x, y.reshape(seen)))
            out = apply(call, join, x, y, shape)
        if out is not None:
            return {"Out": out}
        if half:
            raise Declined  # computed in float32
        return general(call)

    return launch


LAUNCHERS: dict[str, Callable[[Call], dict]] = {op: _launch(join, name) for op, (join, name) in _OPS.items()}
