"""Gather of table rows and scatter-add to them. Repeated rows are added in the order of their occurrence, so that
results are reproducible."""

from __future__ import annotations

import math

import numpy as np

from . import ordering, sticky, strided
from .call import Call, Declined, Rows, ctype, same_dtype
from .units import FLOATS, INTEGERS, Unit, block_of, instances

SOURCE = r"""
// Reports an id out of range (see sticky.py); one of them if there are several.
__device__ __forceinline__ void report(i64* bad, i64 code, i64 id) {
    if (threadIdx.x == 0 && bad[0] == 0) {
        bad[1] = id;
        bad[0] = code;
    }
}

template <typename T, typename I> __global__ void gather(const T* table, const I* ids, T* out, i64* bad, i64 code,
                                                         i64 count, i64 height, i64 width, i64 padding) {
    for (i64 b = blockIdx.x; b < count; b += gridDim.x) {
        i64 id = (i64)ids[b];
        bool pad = padding != -1 && id == padding, there = id >= 0 && id < height;
        if (!pad && !there) report(bad, code, id);
        for (i64 c = threadIdx.x; c < width; c += blockDim.x) {
            T zero = narrow_to<T>::of(typename acc<T>::type(0));
            out[b * width + c] = pad || !there ? zero : table[id * width + c];
        }
    }
}

// `ids` are sorted, `order` holds their original positions. Block k takes the ids from k * chunk on: it adds the rows
// (times `factor`) of runs of equal ids that lie within its chunk to the table's rows, and writes the sums of a run
// that began before to heads[k], of one that goes on to tails[k].
template <typename T> __global__ void add_rows(const i64* ids, const i64* order, const T* rows, T* table,
                                               i64 count, i64 height, i64 width, i64 padding,
                                               const T* factor, i64 chunk, typename acc<T>::type* heads,
                                               typename acc<T>::type* tails) {
    typedef typename acc<T>::type A;
    i64 k = blockIdx.x, from = k * chunk, end = from + chunk < count ? from + chunk : count;
    A f = factor ? A(wide(factor[0])) : A(1);
    for (i64 i = from, j; i < end; i = j) {
        i64 id = ids[i];
        for (j = i + 1; j < end && ids[j] == id;) j++;
        if ((padding != -1 && id == padding) || id < 0 || id >= height) continue;
        bool begins = i == 0 || ids[i - 1] != id, ends = j == count || ids[j] != id;
        for (i64 c = threadIdx.x; c < width; c += blockDim.x) {
            A sum = begins && ends ? A(wide(table[id * width + c])) : A(0);
            for (i64 r = i; r < j; r++) sum += f * A(wide(rows[order[r] * width + c]));
            if (begins && ends)
                table[id * width + c] = narrow_to<T>::of(sum);
            else
                (begins ? tails : heads)[k * width + c] = sum;
        }
    }
}

// Runs of equal ids over several chunks: block k adds the sums of the run that goes on at the end of its chunk.
template <typename T> __global__ void add_rows_across(const i64* ids, T* table, i64 count, i64 height, i64 width,
                                                      i64 padding, i64 chunk, const typename acc<T>::type* heads,
                                                      const typename acc<T>::type* tails) {
    typedef typename acc<T>::type A;
    i64 k = blockIdx.x, from = k * chunk, end = from + chunk;
    if (end >= count) return;
    i64 id = ids[end - 1];
    if (ids[end] != id || (from > 0 && ids[from - 1] == id) || id < 0 || id >= height) return;
    if (padding != -1 && id == padding) return;
    for (i64 c = threadIdx.x; c < width; c += blockDim.x) {
        A sum = A(wide(table[id * width + c])) + tails[k * width + c];
        for (i64 m = k + 1; m * chunk < count && ids[m * chunk] == id; m++) sum += heads[m * width + c];
        table[id * width + c] = narrow_to<T>::of(sum);
    }
}
"""
UNIT = Unit(
    "rows",
    SOURCE,
    instances("gather", FLOATS, INTEGERS) + instances("add_rows", FLOATS) + instances("add_rows_across", FLOATS),
)
#: sorted ids of a block of add_rows
_CHUNK = 32


def add_rows(call: Call, table, ids, rows, padding: np.int64, factor=None) -> None:
    """table[ids[i]] += factor * rows[i], in place; `ids` flat int32 or int64, `rows` one row each."""
    height, width = table.shape[0], math.prod(table.shape[1:])
    if ids.size == 0 or width == 0:
        return
    if max(ids.size, height) >= 1 << 31:
        raise Declined
    sticky.check_ids(call, ids, 0, height, None if padding == -1 else int(padding))
    t, chunks = ctype(table, FLOATS), -(-ids.size // _CHUNK)
    ranked, order = ordering.ordered(call, ids)
    partial = "float64" if t == "double" else "float32"
    sums = [call.empty((chunks, width), partial) for _ in range(2)]
    count, sizes = np.int64(ids.size), (np.int64(height), np.int64(width))
    given = np.uint64(0) if factor is None else factor
    args = ranked, order, rows, table, count, *sizes, padding, given, np.int64(_CHUNK), *sums
    call.launch(UNIT, f"add_rows<{t}>", chunks, block_of(width), *args)
    if chunks > 1:
        args = ranked, table, count, *sizes, padding, np.int64(_CHUNK), *sums
        call.launch(UNIT, f"add_rows_across<{t}>", chunks, block_of(width), *args)


def dense(call: Call, rows: Rows):
    """SelectedRows as a dense matrix."""
    out = strided.full(call, (rows.height, *rows.value.shape[1:]), rows.value.dtype)
    add_rows(call, out, call.xp.asarray(np.asarray(rows.rows, "int64")), rows.value, np.int64(-1))
    return out


def subtract(call: Call, table, rows: Rows, rate) -> None:
    """table -= rate * rows, in place (the step of sgd)."""
    same_dtype(table, rows.value)
    ids = call.xp.asarray(np.asarray(rows.rows, "int64"))
    add_rows(call, table, ids, rows.value, np.int64(-1), -rate)
