"""deformable_psroi_pooling: the mean of bilinear samples in each bin of a RoI, where a bin is displaced by a learned
part of the RoI's size and may read its own plane."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..call import Call, Declined
from ..math.gemm import product
from .bins import Bins, operands, rounded


@dataclass
class _Side:
    """The samples of the bins along one axis: weights and their derivatives by the displacement [RoIs, classes, bins,
    size], the number of samples within the map, and the RoIs' lengths."""

    weights: Any
    changes: Any
    count: Any
    length: Any


class _Deformed:
    def __init__(self, call: Call) -> None:
        self.shape, rois, self.image = operands(call, "Input")
        a, self.call, self.xp, self.dtype = call.attrs, call, call.xp, rois.dtype
        self.height, self.width = a["pooled_height"], a["pooled_width"]
        self.bins_of = [(p, q) for p in range(self.height) for q in range(self.width)]
        self.channels = a["output_dim"]
        trans = None if a["no_trans"] else call.array("Trans")
        self.classes = 1 if trans is None else trans.shape[1] // 2
        if self.classes == 0 or self.channels % self.classes:
            raise Declined
        n = rois.shape[0]
        self.parts = tuple(a["part_size"])
        down, across = (self._part(k) for k in (0, 1))
        self.part = np.asarray([(down[p], across[q]) for p, q in self.bins_of])
        moved = [None, None]
        if trans is not None:
            moves = trans[:n].reshape(-1)[: n * self.classes * 2 * self.parts[0] * self.parts[1]]
            moves = moves.reshape(n, self.classes, 2, *self.parts) * rois.dtype.type(a["trans_std"])
            at = call.xp.asarray(self.part[:, 0] * self.parts[1] + self.part[:, 1])
            picked = call.xp.take(moves.reshape(n, self.classes, 2, -1), at, axis=3)
            moved = [picked[:, :, 1], picked[:, :, 0]]
        self.sides = [self._side(rois, k, moved[k]) for k in (0, 1)]

    def _part(self, k: int) -> list[int]:
        pooled, parts, of = (self.height, self.width)[k], self.parts[k], self.dtype.type
        return [min(max(int(np.floor(of(p) / of(pooled) * of(parts))), 0), parts - 1) for p in range(pooled)]

    def _side(self, rois, k: int, moved) -> _Side:
        """k: 0 for rows, 1 for columns."""
        xp, a, of = self.xp, self.call.attrs, self.dtype.type
        size, pooled = self.shape[2 + k], (self.height, self.width)[k]
        scale = of(a["spatial_scale"])
        start = rounded(xp, rois[:, 1 - k]) * scale - of(0.5)
        end = (rounded(xp, rois[:, 3 - k]) + of(1)) * scale - of(0.5)
        length = xp.maximum(end - start, of(0.1)).reshape(-1, 1, 1)
        each, samples = length / of(pooled), a["sample_per_part"]
        bins = xp.asarray(np.asarray([b[k] for b in self.bins_of], self.dtype))
        begin = bins * each + start.reshape(-1, 1, 1)
        begin = xp.broadcast_to(begin, (rois.shape[0], self.classes, len(self.bins_of)))
        if moved is not None:
            begin = begin + moved * length
        at, count = xp.arange(size).astype(self.dtype), 0
        weights, changes = (xp.zeros((*begin.shape, size), self.dtype) for _ in range(2))
        for i in range(samples):
            place = begin + of(i) * (each / of(samples))
            valid = ~((place < of(-0.5)) | (place > of(size - 0.5)))
            count = count + valid.astype(self.dtype)
            place = xp.clip(place, of(0), of(size - 1))
            low = xp.floor(place)
            part = xp.where(low >= size - 1, of(0), place - low)[..., None]
            keep = valid.astype(self.dtype)[..., None]
            first, second = (at == low[..., None]) * keep, (at == low[..., None] + 1) * keep
            weights = weights + first * (1 - part) + second * part
            moves = part != 0
            changes = changes + xp.where(moves, second - first, of(0))
        return _Side(weights, changes, count, length)

    def bins(self) -> Bins:
        xp, groups, of = self.xp, self.call.attrs["group_size"], self.dtype.type
        plane = []
        for bin_ in self.bins_of:
            one = [
                min(max(int(np.floor(of(p) * of(g) / of(n))), 0), g - 1)
                for p, g, n in zip(bin_, groups, (self.height, self.width), strict=True)
            ]
            plane.append(one[0] * groups[1] + one[1])
        down, across = self.sides
        return Bins(
            self.call,
            self.shape,
            self.image,
            down.weights,
            across.weights,
            down.count * across.count,
            self.channels,
            xp.asarray(np.asarray(plane, "int64")),
            groups[0] * groups[1],
        )


def _forward(call: Call) -> dict:
    x, _ = call.floats("Input", "ROIs")
    d = _Deformed(call)
    bins, shape, xp = d.bins(), call.shape("Output"), call.xp
    counts = xp.broadcast_to(bins.divisor[:, :, None], (shape[0], d.classes, d.channels // d.classes, len(d.bins_of)))
    return {"Output": bins.forward(x).reshape(shape), "TopCount": counts.reshape(shape)}


def _backward(call: Call) -> dict:
    x, g, _ = call.floats("Input", "Output@GRAD", "ROIs")
    d = _Deformed(call)
    bins = d.bins()
    made = {"Input@GRAD": bins.backward(g)}
    if call.wanted["Trans@GRAD"]:
        made["Trans@GRAD"] = _of_trans(call, d, bins, x, g)
    return made


def _of_trans(call: Call, d: _Deformed, bins: Bins, x, g):
    xp, n = call.xp, g.shape[0]
    trans = call.array("Trans")
    if call.attrs["no_trans"]:
        return xp.zeros(trans.shape, trans.dtype)
    share = bins._share(g.reshape(n, d.channels, -1)) * x.dtype.type(call.attrs["trans_std"])
    down, across = d.sides
    found = []
    for rows, columns, side in (
        (down.weights, across.changes, across),
        (down.changes, across.weights, down),
    ):
        each = bins.sums(x, rows, columns) * share
        found.append(each.reshape(n, d.classes, -1, len(d.bins_of)).sum(axis=2) * side.length)
    # Displacements are sums over the bins of their part.
    at = d.part[:, 0] * d.parts[1] + d.part[:, 1]
    of_part = xp.asarray((at[:, None] == np.arange(d.parts[0] * d.parts[1])).astype(x.dtype))
    sums = product(call, xp.stack(found, 2), of_part)
    return _padded(xp, sums, trans)


def _padded(xp, sums, trans):
    """The sums in the memory layout of Trans, which may have further elements."""
    flat = sums.reshape(-1)
    more = xp.zeros((trans.size - flat.size,), trans.dtype)
    return xp.concatenate([flat, more]).reshape(trans.shape)


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "deformable_psroi_pooling": _forward,
    "deformable_psroi_pooling_grad": _backward,
}
