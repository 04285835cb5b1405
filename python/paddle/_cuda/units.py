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
KINDS = {**REALS, **INTEGERS, "int16": "short", "int8": "signed char", "uint8": "unsigned char", "bool": "bool"}

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

// 1 / v for v that is neither very large nor denormal.
__device__ __forceinline__ float reciprocal(float v) { return __fdividef(1.0f, v); }
__device__ __forceinline__ double reciprocal(double v) { return 1.0 / v; }

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

// Reduction over the threads of a warp, in a fixed order; every thread gets the result.
template <typename Op, typename A> __device__ __forceinline__ A warp_join(A v) {
    for (int d = 16; d > 0; d >>= 1) v = Op::join(v, __shfl_xor_sync(0xffffffffu, v, d));
    return v;
}

// The same over all threads of a block. Blocks are whole warps.
template <typename Op, typename A> __device__ A block_join(A v) {
    __shared__ A parts[32];
    int lane = threadIdx.x & 31, warps = blockDim.x >> 5;
    v = warp_join<Op>(v);
    if (warps == 1) return v;
    if (lane == 0) parts[threadIdx.x >> 5] = v;
    __syncthreads();
    v = warp_join<Op>(lane < warps ? parts[lane] : Op::none(parts[0]));
    __syncthreads();
    return v;
}

// The same over groups of threads: one, a warp, or the block.
template <typename Op, typename A> __device__ __forceinline__ A group_join(A v, int group) {
    return group == 1 ? v : group == 32 ? warp_join<Op>(v) : block_join<Op>(v);
}

// N elements that are loaded and stored together, 16 bytes an instruction.
template <typename T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack { T v[N]; };
template <typename T> struct packed {
    static const int N = 16 / sizeof(T);
    typedef Pack<T, N> type;
};

template <int N, typename T> __device__ __forceinline__ Pack<T, N> read_pack(const T* from) {
    return *(const Pack<T, N>*)from;
}
template <int N, typename T> __device__ __forceinline__ void write_pack(T* to, const Pack<T, N>& p) {
    *(Pack<T, N>*)to = p;
}

// N columns of a row of a tile of 32 * N columns: adjacent ones (a pack), or every 32nd of those that exist.
template <bool Whole, int N> struct columns {
    static __device__ __forceinline__ i64 first(i64 tile, int lane) { return tile * 32 * N + lane * (Whole ? N : 1); }
    static __device__ __forceinline__ i64 at(i64 first, int k) { return first + k * (Whole ? 1 : 32); }
    template <typename T> static __device__ __forceinline__ Pack<T, N> read(const T* row, i64 first, i64 n) {
        Pack<T, N> p;
        if (Whole) {
            p = read_pack<N>(row + first);
        } else {
#pragma unroll
            for (int k = 0; k < N; k++) p.v[k] = row[at(first, k) < n ? at(first, k) : first];
        }
        return p;
    }
};

// Threads of kernels over rows (see threads_of_rows): a thread keeps E elements, a row has G threads (0: the block).
// With E = 0, rows are read for each pass, and there are no bounds.
template <int E, int G> struct row_threads {
    static const int most = E == 0 ? 0 : G ? 128 : E == 8 ? 1024 : 512;
    static const int blocks = E == 0 ? 0 : G ? 4 : E == 8 ? 1 : 2;
    static __device__ __forceinline__ int group(int given) { return E == 0 ? given : G ? G : blockDim.x; }
};

// Whether all addresses are those of packs.
__device__ __forceinline__ bool aligned() { return true; }
template <typename T, typename... Rest> __device__ __forceinline__ bool aligned(const T* at, Rest... rest) {
    return (unsigned long long)at % 16 == 0 && aligned(rest...);
}

// Element i of a tensor of n elements meets element i / inner % middle of one that is repeated.
__device__ __forceinline__ i64 repeated(i64 i, i64 n, i64 middle, i64 inner) {
    if (n > 0x7fffffff) return i / inner % middle;
    return (unsigned)i / (unsigned)inner % (unsigned)middle;
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


def grid_of_packs(n: int, itemsize: int, block: int = 256) -> int:
    """The number of blocks for `n` elements that are processed by packs of 16 bytes, one for each thread."""
    return grid_of(-(-n * itemsize // 16), block, (1 << 31) - 1)


#: types of kernels that keep rows in registers; elements that a thread keeps, and threads of a row (0: the block)
IN_REGISTERS = {"float32": "float", "float16": "half_t", "uint16": "bf16_t"}
KEPT = ("8, 32", "16, 32", "32, 32", "16, 0")
#: of kernels that keep two operands
KEPT_PAIRS = ("8, 32", "16, 32", "16, 0")
#: rows that are read for each pass
WALKED = "0, 0"


def rows_in_registers(rows: int, n: int, array: Any, kinds: tuple[str, ...] = KEPT) -> tuple[str, int, int] | None:
    """For kernels that keep rows of `n` elements in registers: one of the kinds, grid and block; None if rows are too
    long, not whole packs, or of another type."""
    if array.dtype.name not in IN_REGISTERS or n > 8 * 1024 or n * array.itemsize % 16:
        return None
    for kind in kinds:
        kept, threads = map(int, kind.split(", "))
        if threads and n <= kept * threads:
            return kind, grid_of(rows, 4, (1 << 31) - 1), 128
    return kinds[-1], grid_of(rows, 1, (1 << 31) - 1), -(-n // (32 * kept)) * 32


def threads_of_rows(
    rows: int, n: int, array: Any, kinds: tuple[str, ...] = KEPT, inner: int = 1
) -> tuple[str, int, int, int]:
    """For kernels over runs of `n` elements, `inner` apart: how they are read (a kind, or WALKED), grid, block and, of
    WALKED, the threads of a run."""
    kept = rows_in_registers(rows, n, array, kinds) if inner == 1 else None
    if kept is not None:
        return *kept, 0
    group, grid, block = groups_of_threads(rows, n, inner)
    return WALKED, grid, block, group


def groups_of_threads(runs: int, n: int, inner: int = 1) -> tuple[int, int, int]:
    """For kernels whose threads walk along runs of `n` elements, `inner` apart: the threads of a run (one, a warp or
    the block), grid and block. Adjacent threads read adjacent elements."""
    if inner >= 32 or n <= 8:
        return 1, grid_of(runs, 128, (1 << 31) - 1), 128
    if n <= 1024:
        return 32, grid_of(runs, 8, (1 << 31) - 1), 256
    return 256, grid_of(runs, 1, (1 << 31) - 1), 256


def block_of(n: int) -> int:
    """The number of threads (whole warps) of a block that processes `n` elements together."""
    return min(256, max(32, -(-n // 32) * 32))
