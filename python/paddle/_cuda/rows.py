"""Gather of table rows and scatter-add to them. Repeated rows are added in the order of their occurrence, so that
results are reproducible."""

from __future__ import annotations

import math

import numpy as np

from . import sticky
from .call import Call, Rows, ctype, same_dtype
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

// `ids` are sorted, `order` holds their original positions: the block at the head of a run of equal ids adds its rows
// (times `factor`) to the table's row.
template <typename T> __global__ void add_rows(const i64* ids, const i64* order, const T* rows, T* table, i64* bad,
                                               i64 code, i64 count, i64 height, i64 width, i64 padding,
                                               const T* factor) {
    typedef typename acc<T>::type A;
    for (i64 b = blockIdx.x; b < count; b += gridDim.x) {
        i64 id = ids[b];
        if ((b > 0 && ids[b - 1] == id) || (padding != -1 && id == padding)) continue;
        if (id < 0 || id >= height) {
            report(bad, code, id);
            continue;
        }
        A f = factor ? A(wide(factor[0])) : A(1);
        for (i64 c = threadIdx.x; c < width; c += blockDim.x) {
            A sum = A(wide(table[id * width + c]));
            for (i64 j = b; j < count && ids[j] == id; j++) sum += f * A(wide(rows[order[j] * width + c]));
            table[id * width + c] = narrow_to<T>::of(sum);
        }
    }
}
"""
UNIT = Unit("rows", SOURCE, instances("gather", FLOATS, INTEGERS) + instances("add_rows", FLOATS))


def add_rows(call: Call, table, ids, rows, padding: np.int64, factor=None) -> None:
    """table[ids[i]] += factor * rows[i], in place; `ids` flat int64, `rows` one row each."""
    height, width = table.shape[0], math.prod(table.shape[1:])
    if ids.size == 0 or width == 0:
        return
    order = call.xp.argsort(ids, kind="stable").astype("int64")
    call.launch(
        UNIT,
        f"add_rows<{ctype(table, FLOATS)}>",
        min(ids.size, 65535),
        block_of(width),
        ids[order],
        order,
        rows,
        table,
        *sticky.word(call, 0, height),
        np.int64(ids.size),
        np.int64(height),
        np.int64(width),
        padding,
        np.uint64(0) if factor is None else factor,
    )


def dense(call: Call, rows: Rows):
    """SelectedRows as a dense matrix."""
    out = call.xp.zeros((rows.height, *rows.value.shape[1:]), rows.value.dtype)
    add_rows(call, out, call.xp.asarray(np.asarray(rows.rows, "int64")), rows.value, np.int64(-1))
    return out


def subtract(call: Call, table, rows: Rows, rate) -> None:
    """table -= rate * rows, in place (the step of sgd)."""
    same_dtype(table, rows.value)
    ids = call.xp.asarray(np.asarray(rows.rows, "int64"))
    add_rows(call, table, ids, rows.value, np.int64(-1), -rate)
