"""Index maps of rows: the gather of rows by a map that the host computes from offsets, its transpose with a fixed
order, and the device copies of maps, which are uploaded once for equal offsets."""

from __future__ import annotations

import math
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from .call import Call, Declined, ctype, machine_upload
from .units import INTEGERS, REALS, Unit, grid_of, instances

SOURCE = r"""
// An index of `size` rows, from the end if it is negative, clipped.
__device__ __forceinline__ i64 within(i64 at, i64 size) {
    if (at < 0) at += size;
    return at < 0 ? 0 : at < size ? at : size - 1;
}
// The row of x from which element i of out, which is in row r, is read. Mapped: one of all rows, or -1 for none. Taken:
// m rows of out are from `size` rows of x, by an index of rows or (along) of elements.
struct Mapped {
    static const bool always = false;
    static __device__ __forceinline__ i64 row(const i64* index, i64, i64 r, i64, i64) { return index[r]; }
};
struct Taken {
    static const bool always = true;
    static __device__ __forceinline__ i64 row(const i64* index, i64, i64 r, i64 m, i64 size) {
        return r / m * size + within(index[r % m], size);
    }
};
struct TakenAlong {
    static const bool always = true;
    static __device__ __forceinline__ i64 row(const i64* index, i64 i, i64 r, i64 m, i64 size) {
        return r / m * size + within(index[i], size);
    }
};

// A row is `width` elements; where there is none it is `fill` (of one element or of `width`; null: zeros).
template <typename W, typename Rule> __global__ void gather_rows(const W* x, const i64* index, const W* fill,
                                                                 i64 fill_width, W* out, i64 n, i64 width, i64 m,
                                                                 i64 size) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 r = i / width, c = i % width, from = Rule::row(index, i, r, m, size);
        out[i] = Rule::always || from >= 0 ? x[from * width + c] : fill ? fill[c % fill_width] : W(0);
    }
}

// Row r of out is the sum of the rows index[at[r]] .. index[at[r + 1] - 1] of x (without index: of these rows), times
// scale[r] where there is one; `pad` where there are none.
template <typename T> __global__ void sum_rows(const T* x, const i64* at, const i64* index, const T* scale, T pad,
                                               T* out, i64 n, i64 width) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 r = i / width, c = i % width, end = at[r + 1];
        T sum = at[r] < end ? T(0) : pad;
        for (i64 j = at[r]; j < end; j++) sum += x[(index ? index[j] : j) * width + c];
        out[i] = scale && at[r] < end ? scale[r] * sum : sum;
    }
}
"""
_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "i64"}
UNIT = Unit(
    "maps",
    SOURCE,
    instances("gather_rows", _WORDS, ("Mapped", "Taken", "TakenAlong")) + instances("sum_rows", {**REALS, **INTEGERS}),
)
#: the number of maps that a device keeps
_KEPT = 256
_NONE = np.uint64(0)
_maps: weakref.WeakKeyDictionary[Any, OrderedDict] = weakref.WeakKeyDictionary()


def on_device(call: Call, key: tuple, make: Callable[[], tuple]) -> tuple:
    """The host arrays that `make` computes from what is in `key`, with their copies on the device: (host, device) for
    each. Those of equal keys are shared; the oldest are dropped."""
    machine = call.real_machine
    kept = _maps.setdefault(machine, OrderedDict())
    whole = (call.device, *key)
    found = kept.get(whole)
    if found is None:
        found = tuple((host, machine_upload(machine, host)) for host in make())
        kept[whole] = found
        while len(kept) > _KEPT:
            kept.popitem(last=False)
    else:
        kept.move_to_end(whole)
    return call.held(found)


def transposed(index: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """For each of `rows` sources the positions in `index` that hold it, ascending: offsets, positions."""
    order = np.argsort(index, kind="stable")
    order = order[index[order] >= 0]
    return np.searchsorted(index[order], np.arange(rows + 1)).astype(np.int64), order.astype(np.int64)


def width_of(shape) -> int:
    """The elements of a row."""
    return math.prod(shape[1:])


def gather(call: Call, x, index, shape, fill=None):
    """An array of `shape` whose rows are those of `x` at a device map; -1: the row or element `fill`, else zeros."""
    return _gathered(call, "Mapped", x, index, shape, width_of(shape), fill=fill)


def take(call: Call, x, index, shape, m: int, width: int, size: int, along: bool):
    """An array of `shape`, [.., m, width], whose element (o, j, c) is element (o, at, c) of x, [.., size, width]: `at`
    is index[j] or (`along`) index[o, j, c], from the end if it is negative, and clipped."""
    return _gathered(call, "TakenAlong" if along else "Taken", x, index, shape, width, m, size)


def _gathered(call: Call, rule: str, x, index, shape, width: int, m: int = 0, height: int = 0, fill=None):
    out, size, n = call.empty(tuple(shape), x.dtype), x.dtype.itemsize, math.prod(shape)
    if size == 16 and fill is None and rule == "Mapped":
        size, width, n = 8, 2 * width, 2 * n
    if size not in _WORDS:
        raise Declined
    if n:
        call.launch(
            UNIT,
            f"gather_rows<{_WORDS[size]}, {rule}>",
            grid_of(n),
            256,
            call.xp.ascontiguousarray(x),
            index,
            _NONE if fill is None else fill,
            np.int64(1 if fill is None else max(fill.size, 1)),
            out,
            *map(np.int64, (n, width, m, height)),
        )
    return out


def sums(call: Call, x, offsets, index, shape, scale=None, pad: float = 0.0):
    """An array of `shape` whose row r is the sum of the rows of `x` at index[offsets[r]:offsets[r + 1]] (index None: of
    these rows), times scale[r]; `pad` where there are none."""
    t = ctype(x, {**REALS, **INTEGERS})
    out, width = call.empty(tuple(shape), x.dtype), width_of(shape)
    if out.size:
        call.launch(
            UNIT,
            f"sum_rows<{t}>",
            grid_of(out.size),
            256,
            call.xp.ascontiguousarray(x),
            offsets,
            _NONE if index is None else index,
            _NONE if scale is None else scale,
            x.dtype.type(pad),
            out,
            np.int64(out.size),
            np.int64(width),
        )
    return out


def ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The numbers starts[i] .. starts[i] + counts[i] - 1 of all i in a row."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if ends.size else 0
    return np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - counts), counts).astype(np.int64)


def owners(counts: np.ndarray) -> np.ndarray:
    """For each row its sequence, from the lengths of the sequences."""
    return np.repeat(np.arange(counts.size, dtype=np.int64), counts)


def offsets_of(counts) -> np.ndarray:
    """Offsets from lengths."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.asarray(counts, np.int64))])


def images_of(call: Call, level: np.ndarray):
    """The sequence of each row, on the device."""
    ((_, device),) = on_device(call, ("images", *level.tolist()), lambda: (owners(np.diff(level)),))
    return device


def offsets_on_device(call: Call, level: np.ndarray):
    """The offsets of a level, on the device."""
    ((_, device),) = on_device(call, ("offsets", *level.tolist()), lambda: (np.asarray(level, np.int64),))
    return device
