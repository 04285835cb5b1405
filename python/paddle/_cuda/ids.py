"""Indices of operators: checked against their range on the device, and sums of rows with equal ids in a fixed order."""

from __future__ import annotations

import math

import numpy as np

from . import rows, sticky
from .call import Call, Declined
from .units import INTEGERS


def checked(call: Call, ids, high: int, also: int | None = None):
    """The ids as int64 within [0, high): an id out of range (other than `also`) is an error at the next wait, and is
    replaced by a valid one."""
    if ids.dtype.name not in INTEGERS:
        raise Declined
    sticky.check_ids(call, ids, 0, high, also)
    return call.xp.clip(ids.astype("int64"), 0, max(high - 1, 0))


def add_at(call: Call, base, ids, values) -> None:
    """base[ids[i]] += values[i] along the first axis, in place, in the order of i; `ids` are valid."""
    n, width = base.shape[0], math.prod(base.shape[1:])
    if ids.size and width:
        flat = call.xp.ascontiguousarray(ids.reshape(-1))
        given = call.xp.ascontiguousarray(values).reshape(ids.size, width)
        rows.add_rows(call, base.reshape(n, width), flat, given, np.int64(-1))


def sum_at(call: Call, n: int, ids, values):
    """The sums [n, ..] of values[i] with the id i; `values` has one element or row for each id."""
    rest = values.shape[ids.ndim :]
    width = math.prod(rest)
    out = call.xp.zeros((n, width), values.dtype)
    add_at(call, out, ids, values)
    return out.reshape((n, *rest))


def sum_along(call: Call, shape, ids, values, axis: int):
    """The transpose of take_along_axis: zeros of `shape` plus values at `ids` along an axis."""
    xp, n = call.xp, shape[axis]
    moved, at = xp.moveaxis(values, axis, -1), xp.moveaxis(ids, axis, -1)
    lead = moved.shape[:-1]
    runs = math.prod(lead)
    flat = at.reshape(runs, -1) + xp.arange(runs, dtype="int64").reshape(runs, 1) * n
    out = sum_at(call, runs * n, flat.reshape(-1), moved.reshape(-1))
    return xp.ascontiguousarray(xp.moveaxis(out.reshape(*lead, n), -1, axis))
