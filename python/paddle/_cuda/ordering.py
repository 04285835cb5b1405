"""The stable order of ids: blocks sort keys of an id and its position, then runs of keys are merged by the ranks of
their elements (Satish, Harris and Garland, Designing Efficient Sorting Algorithms for Manycore GPUs, 2009)."""

from __future__ import annotations

import numpy as np

from .call import Call
from .units import INTEGERS, Unit, grid_of, instances

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

// Merges groups of up to `ways` sorted runs of `run` keys: a key's place is the number of less ones in each run of its
// group. The last merge (`order` is not null) writes the ids and positions instead of keys.
__global__ void merge_runs(const unsigned long long* keys, i64 n, i64 run, i64 ways, unsigned long long* merged,
                           i64* ids, i64* order) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        unsigned long long key = keys[i];
        i64 group = i / (run * ways) * (run * ways), end = group + run * ways < n ? group + run * ways : n, to = group;
        for (i64 from = group; from < end; from += run) {
            i64 low = from, high = from + run < end ? from + run : end;
            if (i >= low && i < high) {
                to += i - low;
                continue;
            }
            while (low < high) {
                i64 middle = (low + high) / 2;
                if (keys[middle] < key) low = middle + 1;
                else high = middle;
            }
            to += low - from;
        }
        if (order) {
            ids[to] = key >> 32 == 0xffffffffu ? -1 : (i64)(key >> 32);
            order[to] = (i64)(key & 0xffffffffu);
        } else {
            merged[to] = key;
        }
    }
}
"""
UNIT = Unit("ordering", SOURCE, (*instances("sort_chunks", INTEGERS), "merge_runs"))
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
        _merge(call, keys, run, merged, _NONE, _NONE)
        keys, run = merged, run * WAYS
    ranked, order = call.empty((n,), "int64"), call.empty((n,), "int64")
    _merge(call, keys, run, _NONE, ranked, order)
    return ranked, order


def _merge(call: Call, keys, run: int, merged, ids, order) -> None:
    n = keys.size
    numbers = np.int64(n), np.int64(run), np.int64(WAYS)
    call.launch(UNIT, "merge_runs", grid_of(n), _THREADS, keys, *numbers, merged, ids, order)
