"""Units of CUDA source. A unit is compiled for the device in use (in tests by NVRTC without a device, or as C++ with
fibers for the threads of a block); its kernels are templates over the element type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Element types of kernels by numpy's names.
# numpy has no bfloat16: its bits are stored as uint16.
FLOATS = {"float32": "float", "float64": "double", "float16": "half_t", "uint16": "bf16_t"}
REALS = {"float32": "float", "float64": "double"}
INTEGERS = {"int32": "int", "int64": "i64"}
TYPES = {**FLOATS, **INTEGERS}

# Prefix of every unit: 16-bit types by their bits (no header is needed), accumulator types, and reductions over the
# threads of a block in a fixed order.
PRELUDE = r"""
typedef long long i64;

#ifdef __CUDACC_RTC__
__device__ __forceinline__ float half_to_float(unsigned short h) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}
__device__ __forceinline__ unsigned short float_to_half(float f) {
    unsigned short h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}
#endif

struct half_t { unsigned short bits; };
struct bf16_t { unsigned short bits; };

template <typename T> struct acc { typedef T type; };
template <> struct acc<half_t> { typedef float type; };
template <> struct acc<bf16_t> { typedef float type; };

template <typename T> __device__ __forceinline__ T wide(T v) { return v; }
__device__ __forceinline__ float wide(half_t v) { return half_to_float(v.bits); }
__device__ __forceinline__ float wide(bf16_t v) {
    union { unsigned u; float f; } bits;
    bits.u = (unsigned)v.bits << 16;
    return bits.f;
}
template <typename T> struct narrow_to { static __device__ __forceinline__ T of(T v) { return v; } };
template <> struct narrow_to<half_t> {
    static __device__ __forceinline__ half_t of(float v) { half_t h; h.bits = float_to_half(v); return h; }
};
// bfloat16 is rounded to the nearest, ties to even.
template <> struct narrow_to<bf16_t> {
    static __device__ __forceinline__ bf16_t of(float v) {
        union { float f; unsigned u; } bits;
        bits.f = v;
        bf16_t h;
        h.bits = v != v ? 0x7fc0 : (unsigned short)((bits.u + 0x7fffu + (bits.u >> 16 & 1u)) >> 16);
        return h;
    }
};

struct Sum {
    template <typename A> static __device__ __forceinline__ A none(A) { return A(0); }
    template <typename A> static __device__ __forceinline__ A join(A a, A b) { return a + b; }
};
struct Prod {
    template <typename A> static __device__ __forceinline__ A none(A) { return A(1); }
    template <typename A> static __device__ __forceinline__ A join(A a, A b) { return a * b; }
};
// The first value of a thread serves as the neutral element of the extrema, so that no type limit is needed.
struct Max {
    template <typename A> static __device__ __forceinline__ A none(A first) { return first; }
    template <typename A> static __device__ __forceinline__ A join(A a, A b) { return b > a || b != b ? b : a; }
};
struct Min {
    template <typename A> static __device__ __forceinline__ A none(A first) { return first; }
    template <typename A> static __device__ __forceinline__ A join(A a, A b) { return b < a || b != b ? b : a; }
};

// Reduction over all threads of a block; every thread gets the result. Blocks are whole warps.
template <typename Op, typename A> __device__ A block_join(A v) {
    __shared__ A parts[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    for (int d = 16; d > 0; d >>= 1) v = Op::join(v, __shfl_down_sync(0xffffffffu, v, d));
    if (lane == 0) parts[warp] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < warps; w++) v = Op::join(v, parts[w]);
        parts[0] = v;
    }
    __syncthreads();
    v = parts[0];
    __syncthreads();
    return v;
}
"""


@dataclass(frozen=True)
class Unit:
    """The source of a family; `kernels` are names of template instances, such as ``softmax<float>``."""

    name: str
    source: str
    kernels: tuple[str, ...] = field(default=())

    @property
    def text(self) -> str:
        return PRELUDE + self.source


def instances(kernel: str, *choices: Mapping[Any, str] | tuple[str, ...]) -> tuple[str, ...]:
    """The names of a template's instances, one for each combination of its arguments."""
    names = [""]
    for choice in choices:
        values = choice if isinstance(choice, tuple) else choice.values()
        names = [f"{n}, {v}" if n else v for n in names for v in values]
    return tuple(f"{kernel}<{n}>" for n in names)


def grid_of(n: int, block: int = 256, most: int = 65535) -> int:
    """The number of blocks for `n` elements of a grid-stride kernel."""
    return max(1, min(-(-n // block), most))


def block_of(n: int) -> int:
    """The number of threads (whole warps) of a block that processes `n` elements together."""
    return min(256, max(32, -(-n // 32) * 32))
