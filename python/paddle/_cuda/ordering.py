"""The stable order of ids: blocks sort keys of an id and its position, then runs of keys are merged by the ranks of
their elements (Satish, Harris and Garland, Designing Efficient Sorting Algorithms for Manycore GPUs, 2009)."""

from __future__ import annotations

import numpy as np

from .call import Call, ctype
from .units import INTEGERS, KINDS, Unit, grid_of, instances

#: keys that a block sorts, and sorted runs that one launch merges
CHUNK, WAYS = 1024, 64
_THREADS = 256

SOURCE = r"""
// keys[i] = (id, position) in ascending order within every 1024 of n; the id of an element outside [0, 2^31) is -1 as
// 32 bits, which comes last. A position that is not less than n does not occur in the result.
template <typename I> __global__ void sort_chunks(const I* ids, i64 n, i64* keys) {
    __shared__ unsigned long long held[1024];
    for (i64 chunk = blockIdx.x; chunk * 1024 < n; chunk += gridDim.x) {
        i64 first = chunk * 1024;
        for (int k = threadIdx.x; k < 1024; k += blockDim.x) {
            i64 id = first + k < n ? (i64)ids[first + k] : -1;
            unsigned high = id < 0 || id > 0x7fffffff ? 0xffffffffu : (unsigned)id;
            held[k] = (unsigned long long)high << 32 | (unsigned)(first + k);
        }
        __syncthreads();
        for (int size = 2; size <= 1024; size *= 2)
            for (int step = size / 2; step > 0; step /= 2) {
                for (int k = threadIdx.x; k < 512; k += blockDim.x) {
                    int a = k / step * 2 * step + k % step, b = a + step;
                    unsigned long long x = held[a], y = held[b];
                    if ((x > y) == ((a & size) == 0)) held[a] = y, held[b] = x;
                }
                __syncthreads();
            }
        for (int k = threadIdx.x; k < 1024; k += blockDim.x)
            if (first + k < n) keys[first + k] = (i64)held[k];
        __syncthreads();
    }
}

// Whether element p of a row comes before element q in ascending order: NaN last, equal ones by position.
template <typename T> __device__ __forceinline__ bool precedes(T x, i64 p, T y, i64 q) {
    if (x < y) return true;
    if (y < x) return false;
    bool last = x != x, other = y != y;
    return last != other ? other : p < q;
}

// The positions of chunks of `size` elements (a power of two, at most 1024) of rows of n, in ascending order.
template <typename T> __global__ void order_chunks(const T* x, i64* out, i64 rows, i64 n, i64 chunks, int size) {
    __shared__ T held[1024];
    __shared__ int place[1024];
    for (i64 b = blockIdx.x; b < rows * chunks; b += gridDim.x) {
        i64 row = b / chunks, first = b % chunks * size;
        const T* from = x + row * n + first;
        i64 left = n - first < size ? n - first : size;
        for (int k = threadIdx.x; k < size; k += blockDim.x) {
            place[k] = k;
            if (k < left) held[k] = from[k];
        }
        __syncthreads();
        for (int span = 2; span <= size; span *= 2)
            for (int step = span / 2; step > 0; step /= 2) {
                for (int k = threadIdx.x; k < size / 2; k += blockDim.x) {
                    int i = k / step * 2 * step + k % step, j = i + step;
                    int p = place[i], q = place[j];
                    // Places past the end come last.
                    bool before = q >= left ? p < left || p < q : p < left && precedes(held[p], p, held[q], q);
                    if (before != ((i & span) == 0)) place[i] = q, place[j] = p;
                }
                __syncthreads();
            }
        for (int k = threadIdx.x; k < left; k += blockDim.x) out[row * n + first + k] = first + place[k];
        __syncthreads();
    }
}

// What runs consist of: distinct keys of one row, or positions of elements of x in rows.
struct Keys {
    typedef unsigned long long entry;
    static __device__ __forceinline__ i64 row(i64, i64) { return 0; }
    static __device__ __forceinline__ bool before(const i64*, entry a, entry b) { return a < b; }
    // The last merge (`order` is not null) writes the ids and positions of keys.
    static __device__ __forceinline__ void write(entry key, i64 to, entry* merged, i64* ids, i64* order) {
        if (order) {
            ids[to] = key >> 32 == 0xffffffffu ? -1 : (i64)(key >> 32);
            order[to] = (i64)(key & 0xffffffffu);
        } else {
            merged[to] = key;
        }
    }
};
template <typename T> struct Places {
    typedef i64 entry;
    static __device__ __forceinline__ i64 row(i64 k, i64 n) { return k / n; }
    static __device__ __forceinline__ bool before(const T* x, i64 p, i64 q) { return precedes(x[p], p, x[q], q); }
    static __device__ __forceinline__ void write(i64 place, i64 to, i64* merged, i64*, i64*) { merged[to] = place; }
};

// Merges groups of up to `ways` sorted runs of `run` entries of rows of n: an entry's place is the number of those
// before it in each run of its group.
template <typename E, typename T> __global__ void merge_runs(const T* x, const typename E::entry* entries, i64 rows,
                                                             i64 n, i64 run, i64 ways, typename E::entry* merged,
                                                             i64* ids, i64* order) {
    for (i64 k = blockIdx.x * (i64)blockDim.x + threadIdx.x; k < rows * n; k += (i64)gridDim.x * blockDim.x) {
        i64 first = E::row(k, n) * n, i = k - first;
        typename E::entry own = entries[k];
        i64 group = i / (run * ways) * (run * ways), end = group + run * ways < n ? group + run * ways : n, to = group;
        for (i64 from = group; from < end; from += run) {
            i64 low = from, high = from + run < end ? from + run : end;
            if (i >= low && i < high) {
                to += i - low;
                continue;
            }
            while (low < high) {
                i64 middle = (low + high) / 2;
                if (E::before(x + first, entries[first + middle], own)) low = middle + 1;
                else high = middle;
            }
            to += low - from;
        }
        E::write(own, first + to, merged, ids, order);
    }
}
"""
UNIT = Unit(
    "ordering",
    SOURCE,
    instances("sort_chunks", INTEGERS)
    + instances("order_chunks", KINDS)
    + ("merge_runs<Keys, i64>", *(f"merge_runs<Places<{t}>, {t}>" for t in KINDS.values())),
)
_NONE = np.uint64(0)


def ordered(call: Call, ids):
    """The ids (flat, int32 or int64) in ascending order, those outside [0, 2^31) as -1 at the end, and the position of
    each; equal ids keep their order. Fewer than 2^31 ids."""
    n = ids.size
    keys = call.empty((n,), "int64")
    chunks = -(-n // CHUNK)
    name = f"sort_chunks<{INTEGERS[ids.dtype.name]}>"
    call.launch(UNIT, name, min(chunks, 1 << 16), _THREADS, ids, np.int64(n), keys)
    run = CHUNK
    while run * WAYS < n:
        merged = call.empty((n,), "int64")
        _merge(call, "Keys, i64", _NONE, keys, (1, n, run), merged)
        keys, run = merged, run * WAYS
    ranked, order = call.empty((n,), "int64"), call.empty((n,), "int64")
    _merge(call, "Keys, i64", _NONE, keys, (1, n, run), _NONE, ranked, order)
    return ranked, order


def positions(call: Call, x):
    """The positions of the elements of each row of a contiguous array in ascending order, int64; equal ones keep their
    order, NaN is last."""
    n, t, order = x.shape[-1], ctype(x, KINDS), call.empty(x.shape, "int64")
    if not x.size:
        return order
    rows, run = x.size // n, min(CHUNK, max(2, 1 << (n - 1).bit_length()))
    chunks = -(-n // run)
    numbers = *map(np.int64, (rows, n, chunks)), np.int32(run)
    block = min(256, max(32, run // 2))
    call.launch(UNIT, f"order_chunks<{t}>", min(rows * chunks, 1 << 20), block, x, order, *numbers)
    while run < n:
        merged = call.empty(x.shape, "int64")
        _merge(call, f"Places<{t}>, {t}", x, order, (rows, n, run), merged)
        order, run = merged, run * WAYS
    return order


def _merge(call: Call, kinds: str, x, entries, sizes: tuple, merged, ids=_NONE, order=_NONE) -> None:
    numbers = map(np.int64, (*sizes, WAYS))
    args = x, entries, *numbers, merged, ids, order
    call.launch(UNIT, f"merge_runs<{kinds}>", grid_of(sizes[0] * sizes[1]), _THREADS, *args)
