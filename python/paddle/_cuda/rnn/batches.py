"""LoD sequences in the order of steps: the longest first, so that the rows of a step continue the first rows of the
step before."""

from __future__ import annotations

import numpy as np

from .. import ids, maps
from ..call import Call, Declined, ctype, same_dtype
from ..units import REALS, grid_of
from .cells import UNIT

NONE = np.uint64(0)


def offsets(call: Call, slot: str) -> np.ndarray:
    """The row offsets of the first level's sequences."""
    levels, value = call.lod(slot), call.ins.get(slot)
    if not levels or value is None:
        raise Declined
    at = np.asarray(levels[0], np.int64)
    for level in levels[1:]:
        at = np.asarray(level, np.int64)[at]
    if at.size == 0 or at[0] != 0 or at[-1] != value.shape[0] or (np.diff(at) < 0).any() or at[-1] == 0:
        raise Declined
    return at


def lengths(call: Call, slot: str, most: int):
    """The lengths of padded sequences as int64; one that is not in [0, most] is an error at the next wait."""
    return ids.checked(call, call.array(slot).reshape(-1), most + 1)


def _order(at: np.ndarray, reverse: bool) -> tuple[np.ndarray, ...]:
    """The row of each position, the position of each row, the sequence of each place of the first step, and back."""
    counts = np.diff(at)
    order = np.argsort(-counts, kind="stable").astype(np.int64)
    steps = np.arange(counts.max(initial=0))[:, None]
    start, count = at[:-1][order], counts[order]
    rows = np.where(steps < count, start + (count - 1 - steps if reverse else steps), -1).reshape(-1)
    rows = rows[rows >= 0].astype(np.int64)
    return rows, np.argsort(rows).astype(np.int64), order, np.argsort(order).astype(np.int64)


class Batches:
    """The order, and the moves of rows to it and back."""

    def __init__(self, call: Call, at: np.ndarray, reverse: bool) -> None:
        self.call = call
        found = maps.on_device(call, ("batches", reverse, at.tobytes()), lambda: _order(at, reverse))
        self._rows, self._back, self._order, self._unorder = (device for _, device in found)
        counts = np.sort(np.diff(at))[::-1]
        sizes = (counts[:, None] > np.arange(counts[0])).sum(0)
        ends = np.cumsum(sizes).tolist()
        #: (first row, end) of each step
        self.steps = list(zip([0, *ends[:-1]], ends, strict=True))
        self.total, self.count, self.key = int(at[-1]), counts.size, (reverse, at.tobytes())

    def gather(self, x):
        """Rows of sequences in the order of steps."""
        return maps.gather(self.call, x, self._rows, x.shape)

    def scatter(self, x):
        """The inverse of gather."""
        return maps.gather(self.call, x, self._back, x.shape)

    def first(self, x):
        """One row for each sequence, in the order of the first step; None for None."""
        return None if x is None else maps.gather(self.call, x, self._order, x.shape)

    def unfirst(self, x):
        return maps.gather(self.call, x, self._unorder, x.shape)

    def before(self, states, first):
        """The state before each row: that of the step before, or of `first`, or zeros."""

        def make() -> tuple:
            index = np.full(self.total, -1, np.int64)
            for (a, b), (p, _) in zip(self.steps[1:], self.steps, strict=False):
                index[a:b] = np.arange(p, p + b - a)
            end = self.steps[0][1]
            with_first = index.copy()
            with_first[:end] = self.total + np.arange(end)
            return index, with_first

        (_, index), (_, with_first) = maps.on_device(self.call, ("befores", *self.key), make)
        if first is None:
            return maps.gather(self.call, states, index, states.shape)
        return maps.gather(self.call, self.call.xp.concatenate([states, first]), with_first, states.shape)


def launch(call: Call, kernel: str, total: int, like, *args) -> None:
    """Launch a kernel of rnn for `total` elements; None is a null pointer."""
    _launch(call, f"{kernel}<{ctype(like, REALS)}>", total, args)


def _launch(call: Call, kernel: str, total: int, args: tuple) -> None:
    call.launch(UNIT, kernel, grid_of(total), 256, *(NONE if a is None else a for a in args))


def kinds(dtype, gate: int = 0, of_cell: int = 0, candidate: int = 0, origin: int = 0, clip: float = 0.0) -> tuple:
    """The numbers of a cell: activations (ACTIVATIONS), a GRU's origin mode, the bound of its results (0: none)."""
    return (*map(np.int32, (gate, of_cell, candidate, origin)), dtype.type(clip))


#: the operands of kernels of cells.py
_STEP = ("gates", "own", "before", "peep", "cells", "acts", "out")
_GRAD = ("gates", "before", "peep", "cells", "acts", "dout", "dcells", "carry", "d")


def step(call: Call, cell: str, n: int, by: tuple, out, **operands) -> None:
    """Launch a step of a cell of cells.py with `n` units, for all elements of `out`."""
    given = (*({**operands, "out": out}.get(name) for name in _STEP), np.int64(n), np.int64(out.size))
    _launch(call, f"cell_step<{ctype(out, REALS)}, {cell}>", out.size, (*given, *by))


def step_grad(call: Call, cell: str, n: int, by: tuple, dout, **operands) -> None:
    """Launch the gradient of `step`, for all elements of `dout`."""
    given = (*({**operands, "dout": dout}.get(name) for name in _GRAD), np.int64(n), np.int64(dout.size))
    _launch(call, f"cell_grad<{ctype(dout, REALS)}, {cell}>", dout.size, (*given, *by))


def optional(call: Call, slot: str, like):
    """A dense input of the data type of `like`, None if it is not given."""
    if call.ins.get(slot) is None:
        return None
    array = call.array(slot)
    same_dtype(array, like)
    return array
