"""Conversion of contiguous arrays between data types."""

from __future__ import annotations

from typing import Any

import numpy as np

from .call import Call, Declined, ctype
from .units import FLOATS, KINDS, Unit, grid_of_packs

SOURCE = r"""
template <typename T> struct cast_to {
    template <typename A> static __device__ __forceinline__ T of(A v) { return (T)v; }
};
template <> struct cast_to<bool> {
    template <typename A> static __device__ __forceinline__ bool of(A v) { return v != A(0); }
};
template <> struct cast_to<half_t> {
    template <typename A> static __device__ __forceinline__ half_t of(A v) { return narrow_to<half_t>::of((float)v); }
};
template <> struct cast_to<bf16_t> {
    template <typename A> static __device__ __forceinline__ bf16_t of(A v) { return narrow_to<bf16_t>::of((float)v); }
};

// By packs of 16 bytes of the smaller type, of 8 elements at most.
template <typename F, typename T> __global__ void convert(const F* x, T* y, i64 n) {
    const int least = sizeof(F) < sizeof(T) ? sizeof(F) : sizeof(T), N = least > 2 ? 16 / least : 8;
    i64 first = blockIdx.x * (i64)blockDim.x + threadIdx.x, step = (i64)gridDim.x * blockDim.x;
    i64 packs = aligned(x, y) ? n / N : 0;
#pragma unroll 1
    for (i64 i = first; i < packs; i += step) {
        Pack<F, N> a = ((const Pack<F, N>*)x)[i];
        Pack<T, N> b;
#pragma unroll
        for (int k = 0; k < N; k++) b.v[k] = cast_to<T>::of(wide(a.v[k]));
        ((Pack<T, N>*)y)[i] = b;
    }
#pragma unroll 1
    for (i64 i = packs * N + first; i < n; i += step) y[i] = cast_to<T>::of(wide(x[i]));
}
"""
_TYPES = {**KINDS, **FLOATS}
UNIT = Unit("convert", SOURCE, tuple(f"convert<{a}, {b}>" for a in _TYPES.values() for b in _TYPES.values() if a != b))


def convert(call: Call, array, dtype: Any):
    """The array in another data type, of which uint16 is bfloat16; itself if it has that type."""
    to = np.dtype(dtype)
    if array.dtype == to:
        return array
    x = array if array.flags.c_contiguous else call.xp.ascontiguousarray(array).reshape(array.shape)
    if to.name not in _TYPES:
        raise Declined
    out = call.empty(x.shape, to)
    if x.size:
        grid = grid_of_packs(x.size, max(2, min(x.dtype.itemsize, to.itemsize)))
        call.launch(UNIT, f"convert<{ctype(x, _TYPES)}, {_TYPES[to.name]}>", grid, 256, x, out, np.int64(x.size))
    return out
