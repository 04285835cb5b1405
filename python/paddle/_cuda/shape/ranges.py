"""range, linspace, sequence_mask, gather_tree, segment_pool, split_byref, and SelectedRows with repeated rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import ids
from ..call import Call, Declined, Rows


def _range(call: Call) -> dict:
    """Sizes depend on values: the host waits for them."""
    start, end, step = (call.numbers(slot)[0] for slot in ("Start", "End", "Step"))
    dtype = call.array("Start").dtype
    if step == 0:
        raise Declined
    count = max(int(np.ceil(abs((end - start) / step))) if (end - start) / step > 0 else 0, 0)
    return {"Out": (call.xp.arange(count).astype(dtype) * dtype.type(step) + dtype.type(start)).astype(dtype)}


def _linspace(call: Call) -> dict:
    start, stop, count = (call.numbers(slot)[0] for slot in ("Start", "Stop", "Num"))
    xp, dtype, n = call.xp, call.dtype("Out"), int(count)
    if n < 1:
        raise Declined
    kind = np.dtype(dtype).type
    first, last = kind(start), kind(stop)
    if n == 1:
        return {"Out": xp.full((1,), first, dtype)}
    if np.dtype(dtype).kind != "f":
        raise Declined
    step = kind((last - first) / kind(n - 1))
    i = xp.arange(n)
    at = i.astype(dtype)
    out = xp.where(i < n // 2, first + step * at, last - step * (n - 1 - i).astype(dtype))
    return {"Out": out.astype(dtype)}


def _mask(call: Call) -> dict:
    x, xp, a = call.array("X"), call.xp, call.attrs
    most = int((call.numbers("MaxLenTensor") or [a["maxlen"]])[0])
    if most < 0:
        if x.size == 0:
            raise Declined
        most = int(call.machine.download(xp.asarray(x.max()).reshape(1))[0])
    return {"Y": (xp.arange(most) < x.reshape(*x.shape, 1)).astype(call.dtype("Y"))}


def _tree(call: Call) -> dict:
    """Beams followed from the last step to the first."""
    given, parents, xp = call.array("Ids"), call.array("Parents"), call.xp
    steps, _, beams = given.shape
    if given.size == 0:
        raise Declined
    beam = xp.broadcast_to(xp.arange(beams), given.shape[1:])
    parts: list = [None] * steps
    for t in range(steps - 1, -1, -1):
        parts[t] = xp.take_along_axis(given[t], beam, 1)
        if t:
            beam = ids.checked(call, xp.take_along_axis(parents[t], beam, 1), beams)
    return {"Out": xp.stack(parts).astype(given.dtype)}


def _segments(call: Call, x):
    """Valid segment numbers and their count, which the host waits for."""
    at = call.array("SegmentIds").reshape(-1)
    if at.size == 0 or x.size == 0:
        raise Declined
    return at.astype("int64"), int(call.machine.download(at[-1:].astype("int64"))[0]) + 1


def _segment_pool(call: Call) -> dict:
    (x,), way, xp = call.floats("X"), call.attrs["pooltype"], call.xp
    at, n = _segments(call, x)
    if way not in ("SUM", "MEAN"):
        raise Declined
    out = ids.sum_at(call, n, at, x)
    if way == "SUM":
        return {"Out": out, "SummedIds": xp.zeros((0, 1), x.dtype)}
    count = xp.bincount(at, minlength=n).astype(x.dtype).reshape(n, 1)
    wide = count.reshape(n, *(1,) * (x.ndim - 1))
    return {"Out": out / xp.maximum(wide, 1), "SummedIds": count}


def _segment_pool_grad(call: Call) -> dict:
    (d,), way, xp = call.floats("Out@GRAD"), call.attrs["pooltype"], call.xp
    x = call.ins["X"]
    at = call.array("SegmentIds").reshape(-1).astype("int64")
    if way not in ("SUM", "MEAN") or at.size == 0:
        raise Declined
    g = xp.take(d, at, axis=0)
    if way == "MEAN":
        count = xp.take(call.array("SummedIds").reshape(-1), at)
        g = g / count.reshape(-1, *(1,) * (d.ndim - 1))
    return {"X@GRAD": g.reshape(x.shape)}


def _split_rows(call: Call) -> dict:
    x, a = call.array("X"), call.attrs
    if a["num"]:
        return {"Out": call.xp.split(x, a["num"], 0)}
    ends = np.cumsum(a["sections"])[:-1].tolist()
    return {"Out": call.xp.split(x, ends, 0)}


def _merged(call: Call) -> dict:
    """merge_selected_rows: rows in ascending order, repeated ones added in the order of their occurrence."""
    x = call.ins["X"]
    if not isinstance(x, Rows):
        raise Declined
    given = np.asarray(x.rows, np.int64)
    rows, place = np.unique(given, return_inverse=True)
    if not given.size:
        return {"Out": Rows(given, x.height, x.value.copy())}
    at = call.xp.asarray(place.reshape(-1).astype("int64"))
    return {"Out": Rows(rows, x.height, ids.sum_at(call, len(rows), at, x.value))}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "range": _range,
    "linspace": _linspace,
    "sequence_mask": _mask,
    "gather_tree": _tree,
    "segment_pool": _segment_pool,
    "segment_pool_grad": _segment_pool_grad,
    "split_byref": _split_rows,
    "merge_selected_rows": _merged,
}
