"""Pooling of RoIs as weighted sums: a bin reads the product of weighted rows and weighted columns of one plane, and its
gradient spreads the same weights in the order of RoIs. The operators compute the weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..call import Call, Declined, ctype
from ..maps import images_of
from ..units import REALS, Unit, grid_of, instances

SOURCE = r"""
// rows[roi][class][bin][H] and columns[roi][class][bin][W]; channel c of class c / alike reads the plane
// c * reads + plane[bin].
#define POOLING const i64* image, const i64* plane, i64 rois, i64 channels, i64 bins, i64 classes, i64 alike, \
                i64 reads, i64 planes, i64 H, i64 W

template <typename T> __global__ void sum_bins(const T* x, const T* rows, const T* columns, T* out, POOLING) {
    i64 n = rois * channels * bins;
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 bin = i % bins, c = i / bins % channels, roi = i / (bins * channels);
        i64 at = (roi * classes + c / alike) * bins + bin;
        const T* from = x + ((image[roi] * planes) + c * reads + plane[bin]) * H * W;
        T sum = T(0);
        for (i64 r = 0; r < H; r++) {
            T weight = rows[at * H + r], inner = T(0);
            if (weight == T(0)) continue;
            for (i64 k = 0; k < W; k++) {
                T w = columns[at * W + k];
                if (w != T(0)) inner += from[r * W + k] * w;
            }
            sum += inner * weight;
        }
        out[i] = sum;
    }
}

// The transpose: a thread per element of x.
template <typename T> __global__ void spread_bins(const T* d, const T* rows, const T* columns, T* dx, i64 images,
                                                  POOLING) {
    i64 n = images * planes * H * W;
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 k = i % W, r = i / W % H, p = i / (W * H) % planes, own = i / (W * H * planes), c = p / reads;
        T sum = T(0);
        for (i64 roi = 0; roi < rois && c < channels; roi++) {
            if (image[roi] != own) continue;
            for (i64 bin = 0; bin < bins; bin++) {
                if (plane[bin] != p % reads) continue;
                i64 at = (roi * classes + c / alike) * bins + bin;
                T weight = rows[at * H + r];
                if (weight != T(0)) sum += d[(roi * channels + c) * bins + bin] * weight * columns[at * W + k];
            }
        }
        dx[i] = sum;
    }
}
"""
UNIT = Unit("bins", SOURCE, instances("sum_bins", REALS) + instances("spread_bins", REALS))


def images_of_rois(call: Call, images: int, count: int, counts: str = "RoisNum", rois: str = "ROIs"):
    """The image of each RoI, by numbers of RoIs, or by the LoD of the RoIs."""
    xp, given = call.xp, call.ins.get(counts)
    if given is None:
        if images == 1:
            return xp.zeros(count, "int64")
        level = call.level(rois, last=True)
        if len(level) != images + 1:
            raise Declined
        return images_of(call, level)
    ends = xp.cumsum(given.astype("int64"))
    at = xp.searchsorted(ends, xp.arange(count), side="right").astype("int64")
    return xp.clip(at, 0, images - 1)


@dataclass
class Bins:
    """The weights of the rows and columns of bins, [RoIs, classes, bins, size]; `divisor` [RoIs, classes, bins], where
    0 makes a bin 0; `plane` is the plane of each bin among the `reads` of a channel (None: all bins read one)."""

    call: Call
    shape: tuple[int, ...]
    image: Any
    rows: Any
    columns: Any
    divisor: Any
    channels: int
    plane: Any = None
    reads: int = 1

    def _numbers(self) -> list:
        xp = self.call.xp
        rois, classes, bins = self.rows.shape[:3]
        plane = xp.zeros(bins, "int64") if self.plane is None else self.plane
        alike = max(self.channels // classes, 1)
        sizes = (rois, self.channels, bins, classes, alike, self.reads, *self.shape[1:])
        return [xp.ascontiguousarray(self.image), plane, *map(np.int64, sizes)]

    def _share(self, values):
        """Values of bins, [RoIs, channels, bins], divided."""
        xp, (rois, classes, bins) = self.call.xp, self.divisor.shape
        by = xp.broadcast_to(self.divisor[:, :, None], (rois, classes, self.channels // classes, bins))
        by, zero = by.reshape(rois, self.channels, bins), values.dtype.type(0)
        return xp.where(by == 0, zero, values / xp.where(by == 0, values.dtype.type(1), by))

    def sums(self, x, rows=None, columns=None):
        """[RoIs, channels, bins], not divided; by other weights where they are given."""
        xp, n = self.call.xp, self.rows.shape[0]
        weights = (self.rows if rows is None else rows, self.columns if columns is None else columns)
        rows, columns = (xp.ascontiguousarray(v.astype(x.dtype)) for v in weights)
        out = self.call.empty((n, self.channels, self.rows.shape[2]), x.dtype)
        kernel = f"sum_bins<{ctype(x, REALS)}>"
        if out.size:
            self.call.launch(UNIT, kernel, grid_of(out.size), 256, x, rows, columns, out, *self._numbers())
        return out

    def forward(self, x):
        return self._share(self.sums(x))

    def backward(self, d):
        """The gradient of x."""
        xp = self.call.xp
        d = self._share(d.reshape(self.rows.shape[0], self.channels, -1))
        rows, columns = (xp.ascontiguousarray(v.astype(d.dtype)) for v in (self.rows, self.columns))
        dx, kernel = self.call.empty(self.shape, d.dtype), f"spread_bins<{ctype(d, REALS)}>"
        arrays = (xp.ascontiguousarray(d), rows, columns, dx)
        self.call.launch(UNIT, kernel, grid_of(dx.size), 256, *arrays, np.int64(self.shape[0]), *self._numbers())
        return dx


def operands(call: Call, x_slot: str, rois_slot: str = "ROIs", counts: str = "RoisNum"):
    """The shape of X, the RoIs, and the image of each."""
    x, rois = call.ins[x_slot], call.array(rois_slot)
    shape = tuple(x.shape)
    if rois.dtype.kind != "f" or 0 in shape or rois.size == 0:
        raise Declined
    return shape, rois, images_of_rois(call, shape[0], rois.shape[0], counts, rois_slot)


def hats(xp, place, size: int, dtype):
    """The interpolation weights of places within [0, size - 1]: [.., size]."""
    place = xp.clip(place, 0, size - 1)
    low = xp.floor(place)
    part = xp.where(low >= size - 1, place * 0, place - low)
    at = xp.arange(size).astype(dtype)
    low, part = low[..., None], part[..., None]
    return xp.where(at == low, 1 - part, xp.where(at == low + 1, part, part * 0)).astype(dtype)


def rounded(xp, v):
    """Rounded to the nearest, halves away from 0."""
    return xp.sign(v) * xp.floor(abs(v) + v.dtype.type(0.5))
