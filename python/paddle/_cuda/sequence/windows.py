"""sequence_conv, row_conv and their gradients (windows of rows by an index map, and one product), and
sequence_topk_avg_pooling."""

from __future__ import annotations

import numpy as np

from .. import maps
from ..call import Call, Declined, ctype, same_dtype
from ..math.gemm import product
from ..units import REALS, Unit, grid_of, instances

SOURCE = r"""
// For each row of `columns[r]` elements from from[r] on: the positions of the `most` largest elements in descending
// order (of equal ones the last first; -1 after the last), and the averages of the first topks[j] of them.
template <typename T> __global__ void topk_averages(const T* x, const i64* from, const i64* columns, const i64* topks,
                                                    i64 averages, i64 most, int* position, T* out, i64 rows) {
    for (i64 r = blockIdx.x * (i64)blockDim.x + threadIdx.x; r < rows; r += (i64)gridDim.x * blockDim.x) {
        const T* own = x + from[r];
        int* place = position + r * most;
        i64 n = columns[r];
        for (i64 k = 0; k < most; k++) {
            i64 best = -1;
            for (i64 c = 0; c < n; c++) {
                // The elements after the one chosen before, in the order of the result.
                i64 last = k > 0 ? place[k - 1] : 0;
                if (k > 0 && !(own[c] < own[last] || (own[c] == own[last] && c < last))) continue;
                if (best < 0 || own[c] >= own[best]) best = c;
            }
            place[k] = (int)best;
            if (best < 0) {
                for (i64 l = k + 1; l < most; l++) place[l] = -1;
                break;
            }
        }
        for (i64 j = 0; j < averages; j++) {
            T sum = 0;
            for (i64 k = 0; k < topks[j] && place[k] >= 0; k++) sum += own[place[k]];
            out[r * averages + j] = sum / T(topks[j]);
        }
    }
}

template <typename T> __global__ void topk_averages_grad(const T* dout, const int* position, const i64* from,
                                                         const i64* columns, const i64* topks, i64 averages, i64 most,
                                                         T* dx, i64 rows) {
    for (i64 r = blockIdx.x * (i64)blockDim.x + threadIdx.x; r < rows; r += (i64)gridDim.x * blockDim.x) {
        for (i64 j = 0; j < averages; j++) {
            for (i64 k = 0; k < topks[j]; k++) {
                int at = position[r * most + k];
                if (at < 0) break;
                if (at < columns[r]) dx[from[r] + at] += dout[r * averages + j] / T(topks[j]);
            }
        }
    }
}
"""
UNIT = Unit("sequence_topk", SOURCE, instances("topk_averages", REALS) + instances("topk_averages_grad", REALS))


def _context(at: np.ndarray, start: int, count: int, up: int) -> np.ndarray:
    """The source of each row of a window: a row, or (after the rows) a row of padding."""
    lengths = np.diff(at)
    owner = maps.owners(lengths)
    step = (np.arange(at[-1]) - at[:-1][owner])[:, None] + start + np.arange(count)
    length, first = lengths[owner][:, None], at[:-1][owner][:, None]
    inside = np.where((step >= 0) & (step < length), first + step, 0)
    outside = int(at[-1]) + up + np.where(step < 0, step, step - length)
    return np.where(step < 0, outside, np.where(step >= length, outside, inside)).reshape(-1).astype(np.int64)


class _Windows:
    """The windows of sequence_conv."""

    def __init__(self, call: Call) -> None:
        a = call.attrs
        self.call, self.x = call, call.array("X")
        self.at, self.start, self.count = call.level("X"), a["contextStart"], a["contextLength"]
        self.up = max(-self.start, 0)
        ctype(self.x, REALS)
        if len(call.lod("X")) != 1:
            raise Declined
        self.padding = call.array("PaddingData") if a["paddingTrainable"] else None
        self.rows = self.x.shape[0]
        self.sources = self.rows + (0 if self.padding is None else self.padding.shape[0])
        self.key = (self.start, self.count, self.sources, self.at.tobytes())

    def index(self) -> np.ndarray:
        index = _context(self.at, self.start, self.count, self.up)
        return index if self.padding is not None else np.where(index < self.rows, index, -1)

    def matrix(self):
        """[rows, count * width]."""
        x = self.x if self.padding is None else self.call.xp.concatenate([self.x, self.padding])
        ((_, index),) = maps.on_device(self.call, ("context", *self.key), lambda: (self.index(),))
        return maps.gather(self.call, x, index, (index.size, x.shape[1])).reshape(self.rows, -1)

    def back(self, d) -> dict:
        """The gradients of X and PaddingData from that of the matrix."""
        make = lambda: maps.transposed(self.index(), self.sources)  # noqa: E731
        (_, at), (_, index) = maps.on_device(self.call, ("context back", *self.key), make)
        d = maps.sums(self.call, d, at, index, (self.sources, self.x.shape[1]))
        return {"X@GRAD": d[: self.rows].copy(), "PaddingData@GRAD": d[self.rows :].copy()}


def _conv(call: Call) -> dict:
    windows, filters = _Windows(call), call.array("Filter")
    return {"Out": product(call, windows.matrix(), filters)}


def _conv_grad(call: Call) -> dict:
    windows, filters, d = _Windows(call), call.array("Filter"), call.array("Out@GRAD")
    same_dtype(filters, d, windows.x)
    made = {}
    if call.wanted["X@GRAD"] or call.wanted["PaddingData@GRAD"]:
        made.update(windows.back(product(call, d, filters.T)))
        if windows.padding is None:
            given = call.ins.get("PaddingData")
            made["PaddingData@GRAD"] = None if given is None else call.xp.zeros(given.shape, d.dtype)
    if call.wanted["Filter@GRAD"]:
        made["Filter@GRAD"] = product(call, windows.matrix().T, d)
    return made


class _Ahead:
    """The windows of row_conv: a step and those after it, in sequences of a LoD or of equal lengths."""

    def __init__(self, call: Call) -> None:
        self.call, self.x, self.filter = call, call.array("X"), call.array("Filter")
        same_dtype(self.x, self.filter)
        if call.lod("X"):
            self.at = call.level("X")
        elif self.x.ndim == 3:
            self.at = np.arange(self.x.shape[0] + 1, dtype=np.int64) * self.x.shape[1]
        else:
            raise Declined
        self.width, self.count = self.x.shape[-1], self.filter.shape[0]

    def rows(self, d, ahead: bool):
        """[rows, count, width]: the steps after (or before) each row, zeros outside of its sequence."""
        start = 0 if ahead else 1 - self.count
        sources = int(self.at[-1])

        def make() -> tuple:
            index = _context(self.at, start, self.count, -start)
            # Padding is numbered after the rows.
            return (np.where(index < sources, index, -1),)

        ((_, index),) = maps.on_device(self.call, ("ahead", start, self.count, self.at.tobytes()), make)
        return maps.gather(self.call, d, index, (index.size, self.width)).reshape(-1, self.count, self.width)


def _ahead(call: Call) -> dict:
    own = _Ahead(call)
    return {"Out": (own.rows(own.x, True) * own.filter).sum(axis=1).reshape(own.x.shape)}


def _ahead_grad(call: Call) -> dict:
    own, d, made = _Ahead(call), call.array("Out@GRAD"), {}
    if call.wanted["X@GRAD"]:
        made["X@GRAD"] = (own.rows(d, False) * call.xp.flip(own.filter, 0)).sum(axis=1).reshape(own.x.shape)
    if call.wanted["Filter@GRAD"]:
        made["Filter@GRAD"] = (own.rows(own.x, True) * d.reshape(-1, 1, own.width)).sum(axis=0)
    return made


def _rows_of(call: Call) -> tuple:
    """The device copies of the first element and the number of elements of each (row, channel), and of topks."""
    x, row, column = (call.level(slot) for slot in ("X", "ROW", "COLUMN"))
    channels, topks = call.attrs["channel_num"], call.attrs["topks"]
    rows, columns = np.diff(row), np.diff(column)
    if not x.size == row.size == column.size or (np.diff(x) != rows * columns * channels).any():
        raise Declined
    if maps.width_of(call.ins["X"].shape) != 1 or not topks or max(topks) != topks[-1]:
        raise Declined

    def make() -> tuple:
        owner = maps.owners(rows)
        step = np.arange(row[-1]) - row[:-1][owner]
        first = x[:-1][owner] + step * columns[owner]
        at = first[:, None] + np.arange(channels) * (rows * columns)[owner][:, None]
        return at.reshape(-1), np.repeat(columns[owner], channels), np.asarray(topks, np.int64)

    key = ("topk", channels, tuple(topks), x.tobytes(), row.tobytes(), column.tobytes())
    return tuple(device for _, device in maps.on_device(call, key, make))


def _topk(call: Call) -> dict:
    x, shape, most = call.array("X"), call.shape("Out"), call.attrs["topks"][-1]
    t, (at, columns, topks) = ctype(x, REALS), _rows_of(call)
    out, position = call.empty(shape, x.dtype), call.empty(call.shape("pos"), "int32")
    if at.size:
        counts = np.int64(topks.size), np.int64(most)
        args = (x, at, columns, topks, *counts, position, out, np.int64(at.size))
        call.launch(UNIT, f"topk_averages<{t}>", grid_of(at.size), 256, *args)
    return {"Out": out, "pos": position}


def _topk_grad(call: Call) -> dict:
    d, position, most = call.array("Out@GRAD"), call.array("pos"), call.attrs["topks"][-1]
    t, (at, columns, topks) = ctype(d, REALS), _rows_of(call)
    if position.size != at.size * most or d.size != at.size * topks.size:
        raise Declined
    dx = call.xp.zeros(call.ins["X"].shape, d.dtype)
    if at.size:
        counts = np.int64(topks.size), np.int64(most)
        args = (d, position, at, columns, topks, *counts, dx, np.int64(at.size))
        call.launch(UNIT, f"topk_averages_grad<{t}>", grid_of(at.size), 256, *args)
    return {"X@GRAD": dx}


LAUNCHERS = {
    "sequence_conv": _conv,
    "sequence_conv_grad": _conv_grad,
    "row_conv": _ahead,
    "row_conv_grad": _ahead_grad,
    "sequence_topk_avg_pooling": _topk,
    "sequence_topk_avg_pooling_grad": _topk_grad,
}
