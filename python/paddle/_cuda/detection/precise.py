"""prroi_pool: the mean of the interpolated map over each bin of a RoI, differentiable by the RoI's coordinates, too."""

from __future__ import annotations

from collections.abc import Callable

from ..call import Call
from .bins import Bins, operands


class _Side:
    """The RoIs along one axis: bins between `low` and `high`, [RoIs, pooled]."""

    def __init__(self, call: Call, first, last, pooled: int, size: int) -> None:
        self.xp, self.dtype, self.size, of = call.xp, first.dtype, size, first.dtype.type
        scale = of(call.attrs["spatial_scale"])
        start = first * scale
        self.each = self.xp.maximum(last * scale - start, of(0)) / of(pooled)
        p = self.xp.arange(pooled).astype(self.dtype)
        self.low = p * self.each[:, None] + start[:, None]
        self.high = self.low + self.each[:, None]

    def integrals(self):
        """Of the hat functions of the elements over each bin: [RoIs, pooled, size]."""
        xp, at = self.xp, self.xp.arange(self.size).astype(self.dtype)

        def whole(v):
            """The integral of the hat function up to v, relative to its element."""
            v = xp.clip(v, -1, 1)
            return xp.where(v < 0, (v + 1) * (v + 1) / 2, 1 - (1 - v) * (1 - v) / 2)

        return (whole(self.high[..., None] - at) - whole(self.low[..., None] - at)).astype(self.dtype)

    def at(self, place):
        """Interpolation weights at places, 0 outside of the map."""
        at = self.xp.arange(self.size).astype(self.dtype)
        return self.xp.maximum(1 - abs(place[..., None] - at), 0).astype(self.dtype)


def _bins(call: Call):
    shape, rois, image = operands(call, "X", counts="BatchRoINums")
    a = call.attrs
    down = _Side(call, rois[:, 1], rois[:, 3], a["pooled_height"], shape[2])
    across = _Side(call, rois[:, 0], rois[:, 2], a["pooled_width"], shape[3])
    rows, columns = _wide(call, down.integrals(), across.integrals())
    xp = call.xp
    area = xp.maximum(down.each * across.each, 0)[:, None, None]
    divisor = xp.ascontiguousarray(xp.broadcast_to(area, rows.shape[:3]))
    return Bins(call, shape, image, rows, columns, divisor, shape[1]), down, across


def _wide(call: Call, rows, columns):
    """Weights of rows [RoIs, height, H] and of columns [RoIs, width, W] for each bin."""
    xp, (n, height, h), (_, width, w) = call.xp, rows.shape, columns.shape
    rows = xp.broadcast_to(rows[:, :, None], (n, height, width, h)).reshape(n, 1, -1, h)
    return rows, xp.broadcast_to(columns[:, None], (n, height, width, w)).reshape(n, 1, -1, w)


def _forward(call: Call) -> dict:
    x, _ = call.floats("X", "ROIs")
    return {"Out": _bins(call)[0].forward(x).reshape(call.shape("Out"))}


def _backward(call: Call) -> dict:
    x, out, d, _ = call.floats("X", "Out", "Out@GRAD", "ROIs")
    bins, down, across = _bins(call)
    made = {"X@GRAD": bins.backward(d)}
    if call.wanted["ROIs@GRAD"]:
        made["ROIs@GRAD"] = _of_rois(call, x, out, d, bins, down, across)
    return made


def _of_rois(call: Call, x, out, d, bins: Bins, down: _Side, across: _Side):
    """The derivative of a bin's mean by a side is the integral along that side minus the mean along it; a side's
    coordinate is a mixture of the RoI's two ends."""
    xp, a, of = call.xp, call.attrs, x.dtype.type
    n, height, width = x.shape and out.shape[0], a["pooled_height"], a["pooled_width"]
    out, d = (v.reshape(n, out.shape[1], height, width) for v in (out, d))
    area = down.each * across.each
    scale = xp.where(area > 0, of(a["spatial_scale"]) / xp.where(area > 0, area, of(1)), of(0))
    d = d * scale.reshape(n, 1, 1, 1)
    tall, wide = (s.each.reshape(n, 1, 1, 1) for s in (down, across))

    def along(rows, columns, length):
        one, other = _wide(call, rows, columns)
        total = bins.sums(x, one, other).reshape(out.shape)
        return ((total - length * out) * d).sum(axis=1)

    rows, columns = down.integrals(), across.integrals()
    left, right = -along(rows, across.at(across.low), tall), along(rows, across.at(across.high), tall)
    top, bottom = -along(down.at(down.low), columns, wide), along(down.at(down.high), columns, wide)
    sums = []
    for low, high, count, axis in ((left, right, width, 2), (top, bottom, height, 1)):
        shape = [1, 1, 1]
        shape[axis] = count
        first = (xp.arange(count) / count).astype(x.dtype).reshape(shape)
        last = (xp.arange(1, count + 1) / count).astype(x.dtype).reshape(shape)
        sums.append((low * (1 - first) + high * (1 - last)).sum(axis=(1, 2)))
        sums.append((low * first + high * last).sum(axis=(1, 2)))
    return xp.stack([sums[0], sums[2], sums[1], sums[3]], 1)


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"prroi_pool": _forward, "prroi_pool_grad": _backward}
