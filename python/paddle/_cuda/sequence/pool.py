"""sequence_pool, sequence_softmax and their gradients: reductions over the rows of LoD sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import maps
from ..call import Call, Declined, ctype, same_dtype
from ..nn import softmax
from ..units import REALS, Unit, grid_of, instances

SOURCE = r"""
// The largest element of each column of a sequence and its row (-1 and `pad` for an empty sequence).
template <typename T> __global__ void max_rows(const T* x, const i64* at, T pad, T* out, int* row, i64 n, i64 width) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 s = i / width, c = i % width, best = at[s];
        bool empty = best == at[s + 1];
        T most = empty ? pad : x[best * width + c];
        for (i64 r = best + 1; r < at[s + 1]; r++) {
            T v = x[r * width + c];
            if (v > most) most = v, best = r;
        }
        out[i] = most;
        if (row) row[i] = empty ? -1 : (int)best;
    }
}

// The gradient of max_rows: `owner` is the sequence of each row, -1 for none.
template <typename T> __global__ void max_rows_grad(const T* dout, const int* row, const i64* owner, T* dx, i64 n,
                                                    i64 width) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 r = i / width, s = owner[r], at = s * width + i % width;
        dx[i] = s >= 0 && row[at] == r ? dout[at] : T(0);
    }
}
"""
UNIT = Unit("sequence_pool", SOURCE, instances("max_rows", REALS) + instances("max_rows_grad", REALS))


def _level(call: Call) -> np.ndarray:
    """The offsets of the last level of X, which may end before its last row."""
    levels, x = call.lod("X"), call.ins["X"]
    if not levels or x is None or len(levels) > 2 or not x.shape:
        raise Declined
    at = np.asarray(levels[-1], np.int64)
    if at.size == 0 or at[0] != 0 or at[-1] > x.shape[0] or (np.diff(at) < 0).any():
        raise Declined
    return at


def _scale(kind: str, counts: np.ndarray, dtype: Any) -> np.ndarray:
    """The factor of each sequence's sum."""
    one, length = dtype.type(1), np.maximum(counts, 1).astype(dtype)
    return one / length if kind == "AVERAGE" else one / np.sqrt(length)


def _scaled(call: Call, kind: str, at: np.ndarray, dtype):
    def make() -> tuple:
        return (_scale(kind, np.diff(at), dtype),)

    return maps.on_device(call, ("pool scale", kind, dtype.name, at.tobytes()), make)[0][1]


def _end_rows(kind: str, at: np.ndarray) -> np.ndarray:
    rows = at[1:] - 1 if kind == "LAST" else at[:-1]
    return np.where(at[1:] > at[:-1], rows, -1)


def _pool(call: Call) -> dict:
    x, kind, pad = call.array("X"), call.attrs["pooltype"], call.attrs["pad_value"]
    at, shape, key = _level(call), call.shape("Out"), (call.attrs["pooltype"],)
    t = ctype(x, REALS)
    if kind in ("LAST", "FIRST"):
        ((_, index),) = maps.on_device(call, ("ends", *key, at.tobytes()), lambda: (_end_rows(kind, at),))
        return {"Out": maps.gather(call, x, index, shape, call.xp.full(1, pad, x.dtype))}
    ((_, offsets),) = maps.on_device(call, ("offsets", at.tobytes()), lambda: (at,))
    if kind != "MAX":
        scale = None if kind == "SUM" else _scaled(call, kind, at, x.dtype)
        return {"Out": maps.sums(call, x, offsets, None, shape, scale, pad)}
    out = call.empty(shape, x.dtype)
    rows = None if call.attrs["is_test"] else call.empty(shape, "int32")
    if out.size:
        sizes = np.int64(out.size), np.int64(maps.width_of(shape))
        kept = np.uint64(0) if rows is None else rows
        call.launch(UNIT, f"max_rows<{t}>", grid_of(out.size), 256, x, offsets, x.dtype.type(pad), out, kept, *sizes)
    return {"Out": out, "MaxIndex": rows}


def _row_owners(at: np.ndarray, rows: int) -> np.ndarray:
    return np.concatenate([maps.owners(np.diff(at)), np.full(rows - at[-1], -1, np.int64)])


def _pool_grad(call: Call) -> dict:
    d, kind, at, shape = call.array("Out@GRAD"), call.attrs["pooltype"], _level(call), tuple(call.ins["X"].shape)
    t, width = ctype(d, REALS), maps.width_of(shape)
    if d.size != (at.size - 1) * width or d.dtype != call.ins["X"].dtype:
        raise Declined
    d = d.reshape(at.size - 1, *shape[1:])

    def make() -> tuple:
        owner = _row_owners(at, shape[0])
        if kind in ("LAST", "FIRST"):
            owner[~np.isin(np.arange(shape[0]), _end_rows(kind, at))] = -1
        return (owner,)

    key = ("owners", kind if kind in ("LAST", "FIRST") else "", shape[0], at.tobytes())
    ((_, owner),) = maps.on_device(call, key, make)
    if kind == "MAX":
        rows, dx = call.array("MaxIndex"), call.empty(shape, d.dtype)
        if rows.dtype.name != "int32" or rows.size != d.size:
            raise Declined
        if dx.size:
            sizes = np.int64(dx.size), np.int64(width)
            call.launch(UNIT, f"max_rows_grad<{t}>", grid_of(dx.size), 256, d, rows, owner, dx, *sizes)
        return {"X@GRAD": dx}
    if kind in ("AVERAGE", "SQRT"):
        d = d * _scaled(call, kind, at, d.dtype).reshape(-1, *(1,) * (d.ndim - 1))
    return {"X@GRAD": maps.gather(call, d, owner, shape)}


def _softmax(call: Call) -> dict:
    return {"Out": _by_sequence(call, [call.array("X")])}


def _softmax_grad(call: Call) -> dict:
    arrays = [call.array("Out"), call.array("Out@GRAD")]
    same_dtype(*arrays)
    return {"X@GRAD": _by_sequence(call, arrays)}


def _by_sequence(call: Call, arrays: list):
    at, shape = call.level("X", last=True), tuple(call.ins["X"].shape)
    if any(a.size != shape[0] for a in arrays) or maps.width_of(shape) != 1:
        raise Declined
    ((_, offsets),) = maps.on_device(call, ("offsets", at.tobytes()), lambda: (at,))
    return softmax.of_sequences(call, [a.reshape(shape) for a in arrays], offsets, at.size - 1)


LAUNCHERS = {
    "sequence_pool": _pool,
    "sequence_pool_grad": _pool_grad,
    "sequence_softmax": _softmax,
    "sequence_softmax_grad": _softmax_grad,
}
