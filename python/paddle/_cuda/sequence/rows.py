"""Sequence operators that move rows by an index map: expand, expand_as, pad, unpad, reverse, concat, slice, reshape,
enumerate, erase, scatter, and their gradients. Maps are computed from the LoD, which is host memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import ids, maps
from ..call import Call, Declined, Rows, Shape
from ..units import FLOATS


def _map(call: Call, name: str, make: Callable[[], np.ndarray], *key):
    """The device copy of a map that depends on `key`, numbers and arrays."""
    whole = (name, *(k.tobytes() if isinstance(k, np.ndarray) else k for k in key))
    return maps.on_device(call, whole, lambda: (make(),))[0][1]


def _shape_of(call: Call, slot: str = "X") -> tuple[int, ...]:
    value = call.ins.get(slot)
    if value is None or isinstance(value, (Rows, list)) or not value.shape:
        raise Declined
    return tuple(value.shape)


def _reference(call: Call) -> tuple[np.ndarray, np.ndarray]:
    """The repeat counts of sequence_expand, and the offsets of X's sequences."""
    levels, at = call.lod("Y"), call.attrs["ref_level"]
    at = len(levels) - 1 if at == -1 else at
    if not 0 <= at < len(levels) or len(call.lod("X")) > 1:
        raise Declined
    level = np.asarray(levels[at], np.int64)
    rows = _shape_of(call)[0]
    starts = call.level("X") if call.lod("X") else np.arange(rows + 1, dtype=np.int64)
    if starts.size != level.size or level.size == 0 or (np.diff(level) < 0).any():
        raise Declined
    return np.diff(level), starts


def _expanded(times: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The source row of each row of the expansion."""
    again = np.repeat(np.arange(times.size), times)
    return maps.ranges(starts[:-1][again], np.diff(starts)[again])


def _expand(call: Call) -> dict:
    x = call.array("X")
    times, starts = _reference(call)
    if times.size == 0:
        return {"Out": x.copy()}
    index = _map(call, "expand", lambda: _expanded(times, starts), times, starts)
    if call.lod("X"):
        call.set_lod("Out", [maps.offsets_of(np.repeat(np.diff(starts), times)).tolist()])
    else:
        call.set_lod("Out", [])
    return {"Out": maps.gather(call, x, index, (index.size, *x.shape[1:]))}


def _transposed(call: Call, name: str, make: Callable[[], np.ndarray], rows: int, *key):
    """The device copies of offsets and positions of the transpose of a map."""
    whole = (name, rows, *(k.tobytes() if isinstance(k, np.ndarray) else k for k in key))
    return [device for _, device in maps.on_device(call, whole, lambda: maps.transposed(make(), rows))]


def _expand_grad(call: Call) -> dict:
    d, shape = call.array("Out@GRAD"), _shape_of(call)
    times, starts = _reference(call)
    if times.size == 0:
        return {"X@GRAD": d.reshape(shape).copy()}
    if d.size != int((times * np.diff(starts)).sum()) * maps.width_of(shape):
        raise Declined
    at, index = _transposed(call, "expand back", lambda: _expanded(times, starts), shape[0], times, starts)
    return {"X@GRAD": maps.sums(call, d, at, index, shape)}


def _expand_as(call: Call) -> dict:
    x = call.array("X")
    times = np.diff(_level_as(call))
    index = _map(call, "owners", lambda: maps.owners(times), times)
    return {"Out": maps.gather(call, x, index, (index.size, *x.shape[1:]))}


def _level_as(call: Call) -> np.ndarray:
    levels, rows = call.lod("Y"), _shape_of(call)[0]
    if len(levels) != 1 or len(levels[0]) != rows + 1:
        raise Declined
    return np.asarray(levels[0], np.int64)


def _expand_as_grad(call: Call) -> dict:
    d, shape, level = call.array("Out@GRAD"), _shape_of(call), _level_as(call)
    if d.size != int(level[-1]) * maps.width_of(shape):
        raise Declined
    offsets = _map(call, "offsets", lambda: level, level)
    return {"X@GRAD": maps.sums(call, d, offsets, None, shape)}


def _padded(at: np.ndarray, length: int) -> np.ndarray:
    """The row of each step of the padded sequences, -1 for padding."""
    step, counts = np.arange(length), np.diff(at)
    return np.where(step < counts[:, None], at[:-1, None] + step, -1).reshape(-1)


def _unpadded(at: np.ndarray, length: int) -> np.ndarray:
    """The padded step of each row."""
    return maps.ranges(np.arange(at.size - 1) * length, np.diff(at))


def _pad(call: Call) -> dict:
    x, value, at, shape = call.array("X"), call.array("PadValue"), call.level("X"), call.shape("Out")
    if value.dtype != x.dtype:
        raise Declined
    index = _map(call, "pad", lambda: _padded(at, shape[1]), at, shape[1])
    rows = maps.gather(call, x, index, (index.size, *x.shape[1:]), call.xp.ascontiguousarray(value))
    lengths = _map(call, "lengths", lambda: np.diff(at), at)
    return {"Out": rows.reshape(shape), "Length": lengths.copy()}


def _pad_grad(call: Call) -> dict:
    d, shape, at = call.array("Out@GRAD"), _shape_of(call), call.level("X")
    if d.ndim < 2 or d.shape[1] < np.diff(at).max(initial=0):
        raise Declined
    index = _map(call, "unpad", lambda: _unpadded(at, d.shape[1]), at, d.shape[1])
    return {"X@GRAD": maps.gather(call, d, index, shape)}


def _unpad(call: Call) -> dict:
    x, shape = call.array("X"), call.shape("Out")
    at = maps.offsets_of(call.numbers("Length"))
    index = _map(call, "unpad", lambda: _unpadded(at, x.shape[1]), at, x.shape[1])
    return {"Out": maps.gather(call, x, index, shape)}


def _unpad_grad(call: Call) -> dict:
    d, shape, at = call.array("Out@GRAD"), _shape_of(call), call.level("Out@GRAD")
    if at.size != shape[0] + 1 or len(shape) < 2 or np.diff(at).max(initial=0) > shape[1]:
        raise Declined
    index = _map(call, "pad", lambda: _padded(at, shape[1]), at, shape[1])
    return {"X@GRAD": maps.gather(call, d, index, (index.size, *shape[2:])).reshape(shape)}


def _reversed(at: np.ndarray) -> np.ndarray:
    owner = maps.owners(np.diff(at))
    return at[:-1][owner] + at[1:][owner] - 1 - np.arange(at[-1])


def _reverse(call: Call) -> dict:
    x, at = call.array("X"), call.level("X", last=True)
    return {"Y": maps.gather(call, x, _map(call, "reverse", lambda: _reversed(at), at), x.shape)}


def _levels(call: Call) -> list[np.ndarray]:
    """The levels of the parts of sequence_concat."""
    parts = call.ins["X"]
    found = [call.level("X", i) for i in range(len(parts))]
    if not found or any(level.size != found[0].size for level in found):
        raise Declined
    return found


def _joined(levels: list[np.ndarray]) -> np.ndarray:
    """For each row of the concatenation its row among the parts one after the other."""
    before = np.cumsum([0, *(level[-1] for level in levels)])[:-1]
    starts = np.stack([level[:-1] + b for level, b in zip(levels, before, strict=True)], 1).reshape(-1)
    return maps.ranges(starts, np.stack([np.diff(level) for level in levels], 1).reshape(-1))


def _concat(call: Call) -> dict:
    parts, levels, shape = call.ins["X"], _levels(call), call.shape("Out")
    if any(p is None or isinstance(p, (Rows, Shape)) or p.dtype != parts[0].dtype for p in parts):
        raise Declined
    width = maps.width_of(shape)
    stacked = call.xp.concatenate([p.reshape(p.shape[0], width) for p in parts])
    index = _map(call, "concat", lambda: _joined(levels), *levels)
    call.set_lod("Out", [np.sum(levels, axis=0).tolist()])
    return {"Out": maps.gather(call, stacked, index, shape)}


def _concat_grad(call: Call) -> dict:
    d, levels, parts = call.array("Out@GRAD"), _levels(call), call.ins["X"]
    rows = int(sum(level[-1] for level in levels))
    if d.size != rows * maps.width_of(parts[0].shape):
        raise Declined
    index = _map(call, "split", lambda: np.argsort(_joined(levels)), *levels)
    whole = maps.gather(call, d, index, (rows, *parts[0].shape[1:]))
    ends = np.cumsum([0, *(level[-1] for level in levels)])
    return {"X@GRAD": [whole[a:b].reshape(p.shape).copy() for p, a, b in zip(parts, ends[:-1], ends[1:], strict=True)]}


def _spans(call: Call) -> tuple[np.ndarray, np.ndarray]:
    """The first row and the number of rows of each slice."""
    at = call.level("X")
    first, count = (np.asarray(call.numbers(slot), np.int64) for slot in ("Offset", "Length"))
    lengths = np.diff(at)
    if len(call.lod("X")) != 1 or first.size != lengths.size or count.size != lengths.size:
        raise Declined
    if (first < 0).any() or (count < 0).any() or (first + count > lengths).any():
        raise Declined  # the CPU kernel raises the error
    return at[:-1] + first, count


def _slice(call: Call) -> dict:
    x = call.array("X")
    first, count = _spans(call)
    index = _map(call, "slice", lambda: maps.ranges(first, count), first, count)
    call.set_lod("Out", [maps.offsets_of(count).tolist()])
    return {"Out": maps.gather(call, x, index, (index.size, *x.shape[1:]))}


def _placed(first: np.ndarray, count: np.ndarray, rows: int) -> np.ndarray:
    index = np.full(rows, -1, np.int64)
    index[maps.ranges(first, count)] = np.arange(count.sum())
    return index


def _slice_grad(call: Call) -> dict:
    d, shape = call.array("Out@GRAD"), _shape_of(call)
    first, count = _spans(call)
    if d.size != int(count.sum()) * maps.width_of(shape):
        raise Declined
    index = _map(call, "placed", lambda: _placed(first, count, shape[0]), first, count, shape[0])
    return {"X@GRAD": maps.gather(call, d, index, shape)}


def _reshape(call: Call) -> dict:
    x, at, to = call.array("X"), call.level("X"), call.attrs["new_dim"]
    elements = at * x.shape[1]
    if len(call.lod("X")) != 1 or (np.diff(elements) % to).any():
        raise Declined
    call.set_lod("Out", [(elements // to).tolist()])
    return {"Out": x.reshape(-1, to).copy()}


def _reshape_grad(call: Call) -> dict:
    d, shape = call.array("Out@GRAD"), _shape_of(call)
    if d.size != int(np.prod(shape)):
        raise Declined
    return {"X@GRAD": d.reshape(shape).copy()}


def _windows(at: np.ndarray, size: int) -> np.ndarray:
    rows = np.arange(at[-1])[:, None] + np.arange(size)
    return np.where(rows < at[1:][maps.owners(np.diff(at))][:, None], rows, -1).reshape(-1)


def _enumerate(call: Call) -> dict:
    x, at, size = call.array("X"), call.level("X"), call.attrs["win_size"]
    index = _map(call, "windows", lambda: _windows(at, size), at, size)
    fill = call.xp.full(1, call.attrs["pad_value"], x.dtype)
    return {"Out": maps.gather(call, x, index, (index.size,), fill).reshape(call.shape("Out"))}


def _erase(call: Call) -> dict:
    """The number of tokens that are left is host memory (LoD): the tokens are read."""
    at = call.level("X", last=True)
    x, tokens = call.array("X"), np.asarray(call.numbers("X"))
    if x.dtype.kind != "i":
        raise Declined
    kept = np.flatnonzero(~np.isin(tokens, call.attrs["tokens"])).astype(np.int64)
    call.set_lod("Out", [*call.lod("X")[:-1], np.searchsorted(kept, at).tolist()])
    return {"Out": maps.gather(call, x, call.upload(kept), (kept.size, 1))}


def _places(call: Call, shape) -> tuple:
    """The flat positions of the ids in rows of X, one row for each sequence of Ids."""
    at, width = call.level("Ids"), maps.width_of(shape)
    if len(call.lod("Ids")) != 1 or at.size - 1 > shape[0] or call.array("Ids").size != at[-1]:
        raise Declined
    index = _map(call, "owners", lambda: maps.owners(np.diff(at)), np.diff(at))
    return index * width + ids.checked(call, call.array("Ids").reshape(-1), width), width


def _scatter(call: Call) -> dict:
    x, updates = call.array("X"), call.array("Updates")
    if x.dtype.name not in FLOATS or updates.dtype != x.dtype:
        raise Declined
    places, width = _places(call, x.shape)
    if updates.size != places.size:
        raise Declined
    out = x.copy()
    ids.add_at(call, out.reshape(out.shape[0] * width, 1), places, updates.reshape(-1, 1))
    return {"Out": out}


def _scatter_grad(call: Call) -> dict:
    d, shape = call.array("Out@GRAD"), _shape_of(call, "Updates")
    places, _ = _places(call, d.shape)
    return {"X@GRAD": d.copy(), "Updates@GRAD": call.xp.take(d.reshape(-1), places).reshape(shape)}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "sequence_expand": _expand,
    "sequence_expand_grad": _expand_grad,
    "sequence_expand_as": _expand_as,
    "sequence_expand_as_grad": _expand_as_grad,
    "sequence_pad": _pad,
    "sequence_pad_grad": _pad_grad,
    "sequence_unpad": _unpad,
    "sequence_unpad_grad": _unpad_grad,
    "sequence_reverse": _reverse,
    "sequence_concat": _concat,
    "sequence_concat_grad": _concat_grad,
    "sequence_slice": _slice,
    "sequence_slice_grad": _slice_grad,
    "sequence_reshape": _reshape,
    "sequence_reshape_grad": _reshape_grad,
    "sequence_enumerate": _enumerate,
    "sequence_erase": _erase,
    "sequence_scatter": _scatter,
    "sequence_scatter_grad": _scatter_grad,
}
