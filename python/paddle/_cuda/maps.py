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
// Row r of out is row map[r] of x, for -1 the row `fill` (of one element or of `width`; null: zeros).
template <typename W> __global__ void gather_rows(const W* x, const i64* map, const W* fill, i64 fill_width, W* out,
                                                  i64 n, i64 width) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 from = map[i / width], c = i % width;
        out[i] = from >= 0 ? x[from * width + c] : fill ? fill[c % fill_width] : W(0);
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
_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "int", 8: "i64"}
UNIT = Unit(
    "maps", SOURCE, instances("gather_rows", tuple(_WORDS.values())) + instances("sum_rows", {**REALS, **INTEGERS})
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
    out, width = call.empty(tuple(shape), x.dtype), width_of(shape)
    size = x.dtype.itemsize
    if size == 16 and fill is None:
        size, width = 8, 2 * width
    if size not in _WORDS:
        raise Declined
    n = width * out.shape[0]
    if n:
        call.launch(
            UNIT,
            f"gather_rows<{_WORDS[size]}>",
            grid_of(n),
            256,
            call.xp.ascontiguousarray(x),
            index,
            _NONE if fill is None else fill,
            np.int64(1 if fill is None else max(fill.size, 1)),
            out,
            np.int64(n),
            np.int64(width),
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
