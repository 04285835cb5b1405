"""psroi_pool: the average of each bin of a RoI; every bin reads its own plane."""

from __future__ import annotations

from collections.abc import Callable

from ..call import Call
from .bins import Bins, operands, rounded


def _side(call: Call, first, last, pooled: int, size: int, dtype):
    """[RoIs, pooled, size]: 1 for the elements of each bin along an axis; a RoI is at least 0.1 long."""
    xp, of = call.xp, dtype.type
    scale = of(call.attrs["spatial_scale"])
    start, end = rounded(xp, first) * scale, (rounded(xp, last) + of(1)) * scale
    each = xp.maximum(end - start, of(0.1)) / of(pooled)
    p = xp.arange(pooled).astype(dtype)
    low = xp.clip(xp.floor(p * each[:, None] + start[:, None]), 0, size)
    high = xp.clip(xp.ceil((p + of(1)) * each[:, None] + start[:, None]), 0, size)
    at = xp.arange(size).astype(dtype)
    return ((at >= low[..., None]) & (at < high[..., None])).astype(dtype)


def _bins(call: Call) -> Bins:
    shape, rois, image = operands(call, "X")
    a, xp = call.attrs, call.xp
    height, width, n = a["pooled_height"], a["pooled_width"], rois.shape[0]
    rows = _side(call, rois[:, 1], rois[:, 3], height, shape[2], rois.dtype)
    columns = _side(call, rois[:, 0], rois[:, 2], width, shape[3], rois.dtype)
    rows = xp.broadcast_to(rows[:, :, None], (n, height, width, shape[2])).reshape(n, 1, -1, shape[2])
    columns = xp.broadcast_to(columns[:, None], (n, height, width, shape[3])).reshape(n, 1, -1, shape[3])
    divisor = rows.sum(axis=-1) * columns.sum(axis=-1)
    bins = height * width
    plane = xp.arange(bins, dtype="int64")
    return Bins(call, shape, image, rows, columns, divisor, a["output_channels"], plane, bins)


def _forward(call: Call) -> dict:
    return {"Out": _bins(call).forward(call.floats("X", "ROIs")[0]).reshape(call.shape("Out"))}


def _backward(call: Call) -> dict:
    return {"X@GRAD": _bins(call).backward(call.floats("Out@GRAD", "ROIs")[0])}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"psroi_pool": _forward, "psroi_pool_grad": _backward}
