"""roi_perspective_transform: quadrangles of the maps transformed to rectangles; every output element is a bilinear
sample at its transformed position."""

from __future__ import annotations

from collections.abc import Callable

from ..call import Call
from .bins import Bins, hats, operands, rounded

# Coordinates that differ by less are equal.
NEAR = 1e-4


class _Quads:
    """Corners [RoIs, 4], clockwise from the top left one, and matrices [RoIs, 9] from the rectangle to the map."""

    def __init__(self, call: Call) -> None:
        self.shape, rois, self.image = operands(call, "X")
        a, self.call, self.xp, self.dtype = call.attrs, call, call.xp, rois.dtype
        scale = rois.dtype.type(a["spatial_scale"])
        self.x, self.y = rois[:, 0::2] * scale, rois[:, 1::2] * scale
        self.height, self.width = a["transformed_height"], a["transformed_width"]
        self.matrix = self._matrix()

    def _matrix(self):
        """Maps (0, 0), (w, 0), (w, h), (0, h) to the corners; the rectangle's width keeps the proportions."""
        xp, x, y = self.xp, self.x, self.y
        dx, dy = x - xp.roll(x, -1, 1), y - xp.roll(y, -1, 1)
        length = xp.sqrt(dx * dx + dy * dy)
        tall, wide = (length[:, 1] + length[:, 3]) / 2, (length[:, 0] + length[:, 2]) / 2
        height = max(self.height, 2)
        ratio = wide * self.dtype.type(height - 1) / tall
        ratio = xp.where(ratio == ratio, ratio, self.dtype.type(0))  # of a RoI without height
        width = xp.maximum(xp.minimum(rounded(xp, xp.minimum(ratio, 2.0**30)) + 1, self.width), 2)
        w, h = width.astype(self.dtype) - 1, self.dtype.type(height - 1)
        dx1, dx2, dx3 = x[:, 1] - x[:, 2], x[:, 3] - x[:, 2], x[:, 0] - x[:, 1] + x[:, 2] - x[:, 3]
        dy1, dy2, dy3 = y[:, 1] - y[:, 2], y[:, 3] - y[:, 2], y[:, 0] - y[:, 1] + y[:, 2] - y[:, 3]
        # Computed in float64, so that the added epsilon prevents infinity.
        by = (dx1 * dy2 - dx2 * dy1).astype("float64") + 1e-5
        m6 = ((dx3 * dy2 - dx2 * dy3).astype("float64") / by / w).astype(self.dtype)
        m7 = ((dx1 * dy3 - dx3 * dy1).astype("float64") / by / h).astype(self.dtype)
        rows = []
        for v in (x, y):
            rows += [(v[:, 1] - v[:, 0] + m6 * w * v[:, 1]) / w, (v[:, 3] - v[:, 0] + m7 * h * v[:, 3]) / h, v[:, 0]]
        return xp.stack([*rows, m6, m7, xp.ones(m6.shape, self.dtype)], 1)

    def _places(self):
        """Map positions of the elements: [RoIs, height, width]."""
        xp, m = self.xp, self.matrix[:, :, None, None]
        w = xp.arange(self.width).astype(self.dtype)
        h = xp.arange(self.height).astype(self.dtype).reshape(-1, 1)
        along = [m[:, k] * w + m[:, k + 1] * h + m[:, k + 2] for k in (0, 3, 6)]
        return along[0] / along[2], along[1] / along[2]

    def _contains(self, x, y):
        xp = self.xp
        inside, crossings = xp.zeros(x.shape, "bool"), xp.zeros(x.shape, "bool")

        def same(a, b):
            return abs(a - b) < NEAR

        def least(a, b):
            return (a > b) | same(a, b)

        for i in range(4):
            j = (i + 1) % 4
            xs, ys, xe, ye = (v[:, None, None] for v in (self.x[:, i], self.y[:, i], self.x[:, j], self.y[:, j]))
            level = same(ys, ye)
            on = same(y, ys) & same(y, ye) & least(x, xp.minimum(xs, xe)) & least(xp.maximum(xs, xe), x)
            inside = inside | (level & on)
            low, high = xp.minimum(ys, ye), xp.maximum(ys, ye)
            cut = (y - ys) * (xe - xs) / xp.where(level, xs * 0 + 1, ye - ys) + xs
            upright = ~level & same(cut, x)
            inside = inside | (upright & least(y, low) & least(high, y))
            # A ray to the right crosses the outline an odd number of times.
            spanned = ~level & ~(least(low, y) | (y - high > NEAR))
            inside = inside | (spanned & same(cut, x))
            crossings = crossings ^ (spanned & (cut - x > NEAR))
        return inside | crossings

    def samples(self):
        """Positions, and which are within their quadrangle and the map."""
        x, y = self._places()

        def beyond(v, size: int):
            return (v < -0.5 + NEAR) | (v > size - 0.5 - NEAR)

        there = self._contains(x, y) & ~beyond(x, self.shape[3]) & ~beyond(y, self.shape[2])
        return x, y, there

    def bins(self, samples) -> Bins:
        (x, y, there), xp, n = samples, self.xp, self.x.shape[0]
        x, y = xp.where(there, x, self.dtype.type(0)), xp.where(there, y, self.dtype.type(0))
        keep = there.astype(self.dtype)
        rows = hats(xp, y, self.shape[2], self.dtype) * keep[..., None]
        columns = hats(xp, x, self.shape[3], self.dtype)
        rows, columns = rows.reshape(n, 1, -1, self.shape[2]), columns.reshape(n, 1, -1, self.shape[3])
        ones = xp.ones(rows.shape[:3], self.dtype)
        return Bins(self.call, self.shape, self.image, rows, columns, ones, self.shape[1])


def _forward(call: Call) -> dict:
    x, _ = call.floats("X", "ROIs")
    q = _Quads(call)
    samples, xp = q.samples(), call.xp
    shape = call.shape("Out")
    return {
        "Out": q.bins(samples).forward(x).reshape(shape),
        "Mask": samples[2].astype("int32")[:, None],
        "TransformMatrix": q.matrix,
        "Out2InIdx": xp.zeros(shape, "int32"),
        "Out2InWeights": xp.zeros(shape, x.dtype),
    }


def _backward(call: Call) -> dict:
    d, _ = call.floats("Out@GRAD", "ROIs")
    q = _Quads(call)
    return {"X@GRAD": q.bins(q.samples()).backward(d)}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "roi_perspective_transform": _forward,
    "roi_perspective_transform_grad": _backward,
}
