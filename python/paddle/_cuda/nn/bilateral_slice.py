"""bilateral_slice: a per-pixel affine map of the channels, read from a coarse grid at the depth given by a guide image.
The gradient of the grid adds in a fixed order."""

from __future__ import annotations

import math
from collections.abc import Callable

from .. import ids
from ..call import Call, Declined
from ..math.gemm import product
from .resize import cell

# Smooths the distance along the grid's depth, which makes it differentiable.
SOFT = 1e-8


class _Slice:
    """The eight cells that each pixel reads; channels are last."""

    def __init__(self, call: Call) -> None:
        self.x, grid, guide = call.floats("X", "Grid", "Guide")
        if self.x.size == 0 or grid.size == 0:
            raise Declined
        self.call, self.xp, self.of = call, call.xp, self.x.dtype.type
        self.n, self.inputs, self.h, self.w = self.x.shape
        self.depth, self.rows, self.columns = self.cells = grid.shape[2:]
        self.each = self.inputs + int(call.attrs["has_offset"])
        self.outputs, self.plane = grid.shape[1] // self.each, math.prod(self.cells)
        self.grid = self.xp.ascontiguousarray(grid.reshape(self.n, grid.shape[1], -1).swapaxes(1, 2))
        self.grid = self.grid.reshape(self.n * self.plane, -1)
        self.guide = guide.astype("float64")

    def corners(self):
        """(flat cell, weight, its derivative by the guide) of each pixel, for the eight cells."""
        xp = self.xp
        x = (xp.arange(self.w) + 0.5) * self.columns / self.w
        y = ((xp.arange(self.h) + 0.5) * self.rows / self.h).reshape(-1, 1)
        z = self.guide * self.depth
        first = [xp.floor(v - 0.5) for v in (x, y, z)]
        image = xp.arange(self.n).reshape(-1, 1, 1) * self.plane
        for k in range(8):
            cx, cy, cz = (f + (k >> i & 1) for i, f in enumerate(first))
            flat = xp.maximum(1 - abs(cx + 0.5 - x), 0) * xp.maximum(1 - abs(cy + 0.5 - y), 0)
            off = cz + 0.5 - z
            soft = xp.sqrt(off * off + SOFT)
            at = cell(xp, cz, self.depth) * self.rows + cell(xp, cy, self.rows)
            at = at * self.columns + cell(xp, cx, self.columns) + image
            slope = xp.where(soft > 1, 0.0, self.depth * off / soft)
            weight, by_guide = flat * xp.maximum(1 - soft, 0), flat * slope
            yield at, weight.astype(self.x.dtype)[..., None], by_guide.astype(self.x.dtype)[..., None]

    def pixels(self):
        """[images, h, w, each]: the inputs of a pixel, and 1 for the offset."""
        x = self.x.transpose(0, 2, 3, 1)
        if self.each > self.inputs:
            x = self.xp.concatenate([x, self.xp.ones((*x.shape[:3], 1), x.dtype)], -1)
        return x

    def read(self, at):
        """The coefficients of a cell for each pixel: [images, h, w, outputs, each]."""
        return self.xp.take(self.grid, at, axis=0).reshape(*at.shape, self.outputs, self.each)


def _forward(call: Call) -> dict:
    s, xp = _Slice(call), call.xp
    numbers = sum(s.read(at) * weight[..., None] for at, weight, _ in s.corners())
    out = product(call, numbers, s.pixels()[..., None])[..., 0]
    return {"Out": xp.ascontiguousarray(out.transpose(0, 3, 1, 2))}


def _backward(call: Call) -> dict:
    s, xp = _Slice(call), call.xp
    d = call.floats("X", "Out@GRAD")[1].transpose(0, 2, 3, 1)
    pixels = s.pixels()
    each = d[..., :, None] * pixels[..., None, :]
    dx, dguide = 0, 0
    places, values = [], []
    for at, weight, by_guide in s.corners():
        numbers = s.read(at)
        dx = dx + (numbers * d[..., None]).sum(axis=3) * weight
        dguide = dguide + (numbers * each).sum(axis=(3, 4)) * by_guide[..., 0]
        places.append(at.reshape(-1))
        values.append((each * weight[..., None]).reshape(at.size, -1))
    dgrid = ids.sum_at(call, s.n * s.plane, xp.concatenate(places), xp.concatenate(values))
    dgrid = dgrid.reshape(s.n, s.plane, -1).swapaxes(1, 2).reshape(s.n, -1, *s.cells)
    dx = dx[..., : s.inputs].transpose(0, 3, 1, 2)  # type: ignore[index]
    return {"X@GRAD": xp.ascontiguousarray(dx), "Grid@GRAD": xp.ascontiguousarray(dgrid), "Guide@GRAD": dguide}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"bilateral_slice": _forward, "bilateral_slice_grad": _backward}
