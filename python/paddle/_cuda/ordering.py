"""The stable order of ids and of elements of rows.

Blocks sort chunks (of keys of an id and its position, or of positions), then sorted runs are merged by the ranks of
their entries (Satish, Harris and Garland, Designing Efficient Sorting Algorithms for Manycore GPUs, 2009).
"""

from __future__ import annotations

import numpy as np

from .call import Call, ctype
from .units import INTEGERS, KINDS, Unit, grid_of, instances

#: keys that a block sorts, and sorted runs that one launch merges
CHUNK, WAYS = 1024, 64
_THREADS = 256

SOURCE = r"""
// Whether element p of a row comes before element q in ascending order: NaN last, equal ones by position.
template <typename T> __device__ __forceinline__ bool precedes(T x, i64 p, T y, i64 q) {
    if (x < y) return true;
    if (y < x) return false;
    bool last = x != x, other = y != y;
    return last != other ? other : p < q;
}

// What is sorted. Keys (id, position) of one row in chunks of 1024: the id of an element outside [0, 2^31) is -1 as 32
// bits, which comes last, and so do the positions after the row.
struct Keys {
    typedef unsigned long long entry, local;
    static const int size = 1024, held = 1;
    static __device__ __forceinline__ i64 row(i64, i64) { return 0; }
    template <typename I> static __device__ __forceinline__ entry load(const I* ids, i64 left, i64 first, int k, I*) {
        i64 id = k < left ? (i64)ids[k] : -1;
        unsigned high = id < 0 || id > 0x7fffffff ? 0xffffffffu : (unsigned)id;
        return (entry)high << 32 | (unsigned)(first + k);
    }
    static __device__ __forceinline__ bool ahead(const void*, i64, entry a, entry b) { return a < b; }
    static __device__ __forceinline__ entry store(entry key, i64) { return key; }
    static __device__ __forceinline__ bool before(const void*, entry a, entry b) { return a < b; }
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
// Positions of the elements x of rows, in chunks of a power of two, whose elements are held in shared memory.
struct Places {
    typedef i64 entry;
    typedef int local;
    static const int size = 0, held = 1024;
    static __device__ __forceinline__ i64 row(i64 i, i64 n) { return i / n; }
    template <typename T> static __device__ __forceinline__ int load(const T* x, i64 left, i64, int k, T* held) {
        if (k < left) held[k] = x[k];
        return k;
    }
    template <typename T> static __device__ __forceinline__ bool ahead(const T* held, i64 left, int p, int q) {
        return q >= left ? p < left || p < q : p < left && precedes(held[p], p, held[q], q);
    }
    static __device__ __forceinline__ i64 store(int place, i64 first) { return first + place; }
    template <typename T> static __device__ __forceinline__ bool before(const T* x, i64 p, i64 q) {
        return precedes(x[p], p, x[q], q);
    }
    static __device__ __forceinline__ void write(i64 place, i64 to, i64* merged, i64*, i64*) { merged[to] = place; }
};

// The entries of chunks of rows of n elements in ascending order, by a bitonic network.
template <typename E, typename T> __global__ void sort_chunks(const T* x, typename E::entry* out, i64 rows, i64 n,
                                                              i64 chunks, int most) {
    __shared__ typename E::local entries[1024];
    __shared__ T held[E::held];
    int size = E::size ? E::size : most;
    for (i64 b = blockIdx.x; b < rows * chunks; b += gridDim.x) {
        i64 row = E::row(b, chunks), first = (b - row * chunks) * size;
        i64 left = n - first < size ? n - first : size;
        for (int k = threadIdx.x; k < size; k += blockDim.x)
            entries[k] = E::load(x + row * n + first, left, first, k, held);
        __syncthreads();
        for (int span = 2; span <= size; span *= 2)
            for (int step = span / 2; step > 0; step /= 2) {
                for (int k = threadIdx.x; k < size / 2; k += blockDim.x) {
                    int i = k / step * 2 * step + k % step, j = i + step;
                    typename E::local p = entries[i], q = entries[j];
                    if (E::ahead(held, left, p, q) != ((i & span) == 0)) entries[i] = q, entries[j] = p;
                }
                __syncthreads();
            }
        for (int k = threadIdx.x; k < left; k += blockDim.x) out[row * n + first + k] = E::store(entries[k], first);
        __syncthreads();
    }
}

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
    instances("sort_chunks", ("Keys",), INTEGERS)
    + ("merge_runs<Keys, i64>",)
    + instances("sort_chunks", ("Places",), KINDS)
    + instances("merge_runs", ("Places",), KINDS),
)
_NONE = np.uint64(0)


def ordered(call: Call, ids):
    """The ids (flat, int32 or int64) in ascending order, those outside [0, 2^31) as -1 at the end, and the position of
    each; equal ids keep their order. Fewer than 2^31 ids."""
    n = ids.size
    keys = call.empty((n,), "int64")
    chunks = -(-n // CHUNK)
    _sort(call, f"Keys, {INTEGERS[ids.dtype.name]}", min(chunks, 1 << 16), _THREADS, ids, keys, (1, n, chunks, CHUNK))
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
    block = min(_THREADS, max(32, run // 2))
    _sort(call, f"Places, {t}", min(rows * chunks, 1 << 20), block, x, order, (rows, n, chunks, run))
    while run < n:
        merged = call.empty(x.shape, "int64")
        _merge(call, f"Places, {t}", x, order, (rows, n, run), merged)
        order, run = merged, run * WAYS
    return order


def _sort(call: Call, kinds: str, grid: int, block: int, x, entries, sizes: tuple) -> None:
    *numbers, size = sizes
    args = x, entries, *map(np.int64, numbers), np.int32(size)
    call.launch(UNIT, f"sort_chunks<{kinds}>", grid, block, *args)


def _merge(call: Call, kinds: str, x, entries, sizes: tuple, merged, ids=_NONE, order=_NONE) -> None:
    numbers = map(np.int64, (*sizes, WAYS))
    args = x, entries, *numbers, merged, ids, order
    call.launch(UNIT, f"merge_runs<{kinds}>", grid_of(sizes[0] * sizes[1]), _THREADS, *args)
