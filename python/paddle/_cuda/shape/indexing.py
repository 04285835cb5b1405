"""Gather and scatter by indices, one-hot codes and their gradients; sums of repeated indices have a fixed order."""

from __future__ import annotations

import math
from collections.abc import Callable

from .. import ids
from ..call import Call, Declined, Each, Rows
from ..units import FLOATS


def _shape_of(call: Call, slot: str) -> tuple[int, ...]:
    value = call.ins.get(slot)
    if value is None or isinstance(value, (Rows, list)):
        raise Declined
    return tuple(value.shape)


def _float(array):
    if array.dtype.name not in FLOATS:
        raise Declined
    return array


def _axis(call: Call) -> int:
    return int((call.numbers("Axis") or [0])[0]) % max(len(_shape_of(call, "X")), 1)


def _gather(call: Call) -> dict:
    x, axis = call.array("X"), _axis(call)
    at = ids.checked(call, call.array("Index").reshape(-1), x.shape[axis])
    return {"Out": call.xp.take(x, at, axis=axis)}


def _gather_grad(call: Call) -> dict:
    xp, shape, d, axis = call.xp, _shape_of(call, "X"), _float(call.array("Out@GRAD")), _axis(call)
    at = ids.checked(call, call.array("Index").reshape(-1), shape[axis])
    rest = (*shape[:axis], *shape[axis + 1 :])
    moved = xp.ascontiguousarray(xp.moveaxis(d.reshape(*shape[:axis], at.size, *shape[axis + 1 :]), axis, 0))
    return {"X@GRAD": xp.moveaxis(ids.sum_at(call, shape[axis], at, moved.reshape(at.size, *rest)), 0, axis)}


def _select(call: Call) -> dict:
    x, dim = call.array("X"), call.attrs["dim"]
    at = ids.checked(call, call.array("Index").reshape(-1), x.shape[dim])
    return {"Out": call.xp.take(x, at, axis=dim)}


def _select_grad(call: Call) -> dict:
    xp, shape, d, dim = call.xp, _shape_of(call, "X"), _float(call.array("Out@GRAD")), call.attrs["dim"]
    at = ids.checked(call, call.array("Index").reshape(-1), shape[dim])
    moved = xp.ascontiguousarray(xp.moveaxis(d, dim, 0))
    return {"X@GRAD": xp.moveaxis(ids.sum_at(call, shape[dim], at, moved), 0, dim)}


def _sample(call: Call) -> dict:
    x = call.array("X")
    at = ids.checked(call, call.array("Index"), x.shape[1])
    return {"Out": call.xp.take_along_axis(x, at, 1)}


def _sample_grad(call: Call) -> dict:
    shape, d = _shape_of(call, "X"), _float(call.array("Out@GRAD"))
    at = ids.checked(call, call.array("Index"), shape[1])
    return {"X@GRAD": ids.sum_along(call, shape, at, d, 1)}


def _nd(call: Call, shape, index):
    """The flat positions of index tuples in the leading dimensions, and their number."""
    k, flat = index.shape[-1], None
    index = index.reshape(-1, k)
    for i in range(k):
        one = ids.checked(call, index[:, i], shape[i])
        flat = one if flat is None else flat * shape[i] + one
    if flat is None:
        flat = call.xp.zeros(index.shape[0], "int64")
    return flat, math.prod(shape[:k])


def _gather_nd(call: Call) -> dict:
    x, index = call.array("X"), call.array("Index")
    if x.size == 0 or index.size == 0:
        raise Declined
    flat, n = _nd(call, x.shape, index)
    return {"Out": call.xp.take(x.reshape(n, -1), flat, axis=0).reshape(call.shape("Out"))}


def _gather_nd_grad(call: Call) -> dict:
    shape, d, index = _shape_of(call, "X"), _float(call.array("Out@GRAD")), call.array("Index")
    if 0 in shape or index.size == 0:
        raise Declined
    flat, n = _nd(call, shape, index)
    return {"X@GRAD": ids.sum_at(call, n, flat, d.reshape(flat.size, -1)).reshape(shape)}


def _scatter_nd_add(call: Call) -> dict:
    x, index, updates = _float(call.array("X")), call.array("Index"), call.array("Updates")
    if x.size == 0 or index.size == 0:
        raise Declined
    flat, n = _nd(call, x.shape, index)
    out = x.copy()
    ids.add_at(call, out.reshape(n, -1), flat, updates.reshape(flat.size, -1))
    return {"Out": out}


def _scatter_nd_add_grad(call: Call) -> dict:
    d, index = call.array("Out@GRAD"), call.array("Index")
    if d.size == 0 or index.size == 0:
        raise Declined
    flat, n = _nd(call, d.shape, index)
    picked = call.xp.take(d.reshape(n, -1), flat, axis=0)
    return {"X@GRAD": d.copy(), "Updates@GRAD": picked.reshape(_shape_of(call, "Updates"))}


def _last_of_each(call: Call, at, n: int):
    """For each of n rows the last position of its id in `at`, -1 for none."""
    xp = call.xp
    order = xp.argsort(at, kind="stable")
    ranked = at[order]
    ends = xp.searchsorted(ranked, xp.arange(n), side="right")
    starts = xp.searchsorted(ranked, xp.arange(n), side="left")
    last = order[xp.clip(ends - 1, 0, max(at.size - 1, 0))]
    return xp.where(ends > starts, last, -1)


def _scatter(call: Call) -> dict:
    """Rows of X replaced by the last update with their id, or (overwrite False) by the sum of all."""
    x, updates, xp = call.array("X"), call.array("Updates"), call.xp
    given = call.array("Ids").reshape(-1)
    if given.size == 0 or x.size == 0:
        return {"Out": x.copy()}
    at = ids.checked(call, given, x.shape[0])
    updates = updates.reshape(at.size, *x.shape[1:])
    last = _last_of_each(call, at, x.shape[0])
    hit = (last >= 0).reshape(-1, *(1,) * (x.ndim - 1))
    if call.attrs["overwrite"]:
        return {"Out": xp.where(hit, xp.take(updates, xp.maximum(last, 0), axis=0), x)}
    base = xp.ascontiguousarray(xp.where(hit, xp.zeros(1, x.dtype), x))
    _float(base)
    ids.add_at(call, base, at, updates)
    return {"Out": base}


def _scatter_grad(call: Call) -> dict:
    d, xp = call.array("Out@GRAD"), call.xp
    given = call.array("Ids").reshape(-1)
    if given.size == 0 or d.size == 0:
        raise Declined
    at, wide = ids.checked(call, given, d.shape[0]), (-1, *(1,) * (d.ndim - 1))
    last, zero = _last_of_each(call, at, d.shape[0]), xp.zeros(1, d.dtype)
    picked = xp.take(d, at, axis=0)
    if call.attrs["overwrite"]:  # an update that a later one replaces has no gradient
        picked = xp.where((last[at] == xp.arange(at.size)).reshape(wide), picked, zero)
    return {
        "X@GRAD": xp.where((last >= 0).reshape(wide), zero, d),
        "Updates@GRAD": picked.reshape(_shape_of(call, "Updates")),
    }


def _one_hot(call: Call) -> dict:
    call.alone("X")
    x, shape, xp = call.array("X"), call.shape("Out"), call.xp
    depth = shape[-1]
    lead = x.reshape(*shape[:-1], 1)
    if not call.attrs["allow_out_of_range"]:
        ids.checked(call, x, depth)
    return {"Out": (lead == xp.arange(depth)).astype(call.dtype("Out"))}


def _multiplex(call: Call) -> dict:
    xp, parts = call.xp, call.ins["X"]
    if not parts or any(p is None or isinstance(p, Rows) for p in parts):
        raise Declined
    rows = call.array("Ids").reshape(-1)
    at = ids.checked(call, rows, len(parts))
    stacked = xp.stack(parts)
    return {"Out": stacked[at, xp.arange(at.size)]}


def _multiplex_grad(call: Call) -> dict:
    """The rows of the gradient that are those of an input; zeros elsewhere."""
    d, rows = call.array("Out@GRAD"), call.array("Ids").reshape(-1)
    if d.size == 0 or rows.size < d.shape[0]:
        raise Declined
    rows = rows[: d.shape[0]].reshape(-1, *(1,) * (d.ndim - 1))
    return {"X@GRAD": Each(lambda k: call.xp.where(rows == k, d, d.dtype.type(0)))}


def _shard(call: Call) -> dict:
    x, a, xp = call.array("X"), call.attrs, call.xp
    size = (a["index_num"] + a["nshards"] - 1) // a["nshards"]
    ids.checked(call, x, a["index_num"])
    return {"Out": xp.where(x // size == a["shard_id"], x % size, x.dtype.type(a["ignore_value"]))}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "gather": _gather,
    "gather_grad": _gather_grad,
    "index_select": _select,
    "index_select_grad": _select_grad,
    "index_sample": _sample,
    "index_sample_grad": _sample_grad,
    "gather_nd": _gather_nd,
    "gather_nd_grad": _gather_nd_grad,
    "scatter_nd_add": _scatter_nd_add,
    "scatter_nd_add_grad": _scatter_nd_add_grad,
    "scatter": _scatter,
    "scatter_grad": _scatter_grad,
    "one_hot": _one_hot,
    "one_hot_v2": _one_hot,
    "multiplex": _multiplex,
    "multiplex_grad": _multiplex_grad,
    "shard_index": _shard,
}
