"""roi_align as sums with the sampling weights of rows and columns, its gradient as products, and roi_pool by a thread
per bin."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import ids
from ..call import Call, Declined, ctype
from ..math.gemm import product
from ..units import REALS, Unit, grid_of, instances
from .bins import Bins, images_of_rois

SOURCE = r"""
// weights[roi][bin][element] along one axis (k: 0 for columns, 1 for rows) and the samples of a bin.
template <typename T> __global__ void roi_weights(const T* rois, T* weights, T* samples, i64 count, i64 bins, i64 size,
                                                  int k, T scale, i64 ratio, int aligned) {
    i64 n = count * bins;
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 roi = i / bins, bin = i % bins;
        T offset = aligned ? T(0.5) : T(0);
        T start = rois[roi * 4 + k] * scale - offset;
        T length = rois[roi * 4 + k + 2] * scale - offset - start;
        if (!aligned && length < T(1)) length = T(1);
        T step = length / T(bins);
        T wanted = ceil(step);
        i64 taken = ratio > 0 ? ratio : wanted > T(0) && wanted < T(1e9) ? (i64)wanted : 0;
        if (bin == 0) samples[roi] = T(taken);
        T* to = weights + i * size;
        for (i64 e = 0; e < size; e++) to[e] = T(0);
        T begin = start + T(bin) * step;
        // The samples within the map.
        T apart = step / T(taken > 0 ? taken : 1), from = (T(-1) - begin) / apart - T(3);
        T until = (T(size) - begin) / apart + T(3);
        i64 first = from > T(0) ? (from < T(taken) ? (i64)from : taken) : 0;
        i64 last = until < T(taken) ? (until > T(0) ? (i64)until : 0) : taken;
        if (!(apart > T(0))) first = 0, last = taken < 65536 ? taken : 0;
        for (i64 s = first; s < last; s++) {
            T place = begin + (T(s) + T(0.5)) * step / T(taken);
            if (!(place >= T(-1) && place <= T(size))) continue;
            if (place < T(0)) place = T(0);
            i64 low = (i64)place;
            if (low >= size - 1) {
                to[size - 1] += T(1);
                continue;
            }
            T part = place - T(low);
            to[low] += T(1) - part;
            to[low + 1] += part;
        }
    }
}

// The maximum of each bin, and its position in the plane (-1: an empty bin).
template <typename T> __global__ void roi_max(const T* x, const T* rois, const i64* image, T* out, i64* at, i64 count,
                                              i64 channels, i64 H, i64 W, i64 rows, i64 columns, T scale) {
    i64 n = count * channels * rows * columns;
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 q = i % columns, p = i / columns % rows, c = i / (columns * rows) % channels;
        i64 roi = i / (columns * rows * channels);
        i64 x0 = (i64)round(rois[roi * 4] * scale), y0 = (i64)round(rois[roi * 4 + 1] * scale);
        i64 x1 = (i64)round(rois[roi * 4 + 2] * scale), y1 = (i64)round(rois[roi * 4 + 3] * scale);
        i64 h = y1 - y0 + 1 > 1 ? y1 - y0 + 1 : 1, w = x1 - x0 + 1 > 1 ? x1 - x0 + 1 : 1;
        T tall = T(h) / T(rows), wide = T(w) / T(columns);
        i64 r0 = (i64)floor(T(p) * tall) + y0, r1 = (i64)ceil(T(p + 1) * tall) + y0;
        i64 c0 = (i64)floor(T(q) * wide) + x0, c1 = (i64)ceil(T(q + 1) * wide) + x0;
        r0 = r0 < 0 ? 0 : r0 > H ? H : r0, r1 = r1 < 0 ? 0 : r1 > H ? H : r1;
        c0 = c0 < 0 ? 0 : c0 > W ? W : c0, c1 = c1 < 0 ? 0 : c1 > W ? W : c1;
        const T* plane = x + (image[roi] * channels + c) * H * W;
        bool empty = r1 <= r0 || c1 <= c0;
        T best = empty ? T(0) : T(-3.402823466e+38);
        i64 place = -1;
        for (i64 r = r0; r < r1; r++)
            for (i64 k = c0; k < c1; k++)
                if (plane[r * W + k] > best) best = plane[r * W + k], place = r * W + k;
        out[i] = best;
        at[i] = empty ? -1 : place;
    }
}
"""
UNIT = Unit("rois", SOURCE, instances("roi_weights", REALS) + instances("roi_max", REALS))
# Elements of images that are held at once.
MOST = 1 << 26


def _parts(count: int, each: int):
    step = max(1, MOST // max(1, each))
    return [slice(i, min(i + step, count)) for i in range(0, count, step)]


class _Align:
    def __init__(self, call: Call, shape, rois) -> None:
        a, self.call, self.xp = call.attrs, call, call.xp
        self.n, self.c, self.h, self.w = shape
        self.count = rois.shape[0]
        if 0 in shape or self.count == 0:
            raise Declined
        self.image = images_of_rois(call, self.n, self.count)
        self.rows, rows = self._weights(rois, a["pooled_height"], self.h, 1)
        self.columns, columns = self._weights(rois, a["pooled_width"], self.w, 0)
        self.samples = rows * columns

    def _weights(self, rois, bins: int, size: int, k: int):
        """[rois, 1, bins, size], and the samples of a bin by RoI."""
        a, call, of = self.call.attrs, self.call, rois.dtype.type
        weights, samples = call.empty((self.count, 1, bins, size), rois.dtype), call.empty((self.count,), rois.dtype)
        numbers = map(np.int64, (self.count, bins, size))
        more = (np.int32(k), of(a["spatial_scale"]), np.int64(a["sampling_ratio"]), np.int32(a["aligned"]))
        kernel = f"roi_weights<{ctype(rois, REALS)}>"
        call.launch(UNIT, kernel, grid_of(self.count * bins), 256, rois, weights, samples, *numbers, *more)
        return weights, samples

    def bins(self) -> Bins:
        """Sums of the elements with weights: what no sample reads, an infinity perhaps, has no effect."""
        tall, wide = self.rows.shape[2], self.columns.shape[2]
        shape = (self.count, 1, tall, wide)
        rows = self.xp.broadcast_to(self.rows[:, :, :, None], (*shape, self.h)).reshape(self.count, 1, -1, self.h)
        columns = self.xp.broadcast_to(self.columns[:, :, None], (*shape, self.w)).reshape(self.count, 1, -1, self.w)
        divisor = self.xp.broadcast_to(self.samples[:, None, None], (self.count, 1, tall * wide))
        return Bins(self.call, (self.n, self.c, self.h, self.w), self.image, rows, columns, divisor, self.c)

    def share(self):
        """What a sample is of its bin."""
        few = self.xp.maximum(self.samples, 1)
        return self.xp.where(self.samples > 0, 1 / few, self.samples * 0).reshape(-1, 1, 1, 1)


def _align(call: Call) -> dict:
    x, rois = call.floats("X", "ROIs")
    r = _Align(call, x.shape, rois)
    return {"Out": r.bins().forward(x).reshape(r.count, r.c, r.rows.shape[2], r.columns.shape[2])}


def _align_grad(call: Call) -> dict:
    (rois, d), shape = call.floats("ROIs", "Out@GRAD"), tuple(call.ins["X"].shape)
    r, dx = _Align(call, shape, rois), call.xp.zeros(shape, d.dtype)
    share = r.share()
    for part in _parts(r.count, r.c * r.h * r.w):
        g = product(call, product(call, r.rows[part].swapaxes(-1, -2), d[part] * share[part]), r.columns[part])
        ids.add_at(call, dx, r.image[part], g)
    return {"X@GRAD": dx}


def _max(call: Call) -> dict:
    x, rois = call.floats("X", "ROIs")
    if x.size == 0 or rois.shape[0] == 0:
        raise Declined
    a, count = call.attrs, rois.shape[0]
    image = call.xp.ascontiguousarray(images_of_rois(call, x.shape[0], count))
    shape = (count, x.shape[1], a["pooled_height"], a["pooled_width"])
    out, at = call.empty(shape, x.dtype), call.empty(shape, "int64")
    numbers = map(np.int64, (count, *x.shape[1:], *shape[2:]))
    kernel = f"roi_max<{ctype(x, REALS)}>"
    scale = x.dtype.type(a["spatial_scale"])
    call.launch(UNIT, kernel, grid_of(out.size), 256, x, rois, image, out, at, *numbers, scale)
    return {"Out": out, "Argmax": at}


def _max_grad(call: Call) -> dict:
    d, at, shape, xp = call.array("Out@GRAD"), call.array("Argmax"), tuple(call.ins["X"].shape), call.xp
    if 0 in shape or d.size == 0 or d.dtype.kind != "f":
        raise Declined
    n, c, h, w = shape
    planes = images_of_rois(call, n, d.shape[0]).reshape(-1, 1) * c + xp.arange(c)
    flat = planes.reshape(*planes.shape, 1, 1) * (h * w) + xp.maximum(at, 0)
    values = xp.where(at >= 0, d, d.dtype.type(0))
    return {"X@GRAD": ids.sum_at(call, n * c * h * w, flat.reshape(-1), values.reshape(-1)).reshape(shape)}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "roi_align": _align,
    "roi_align_grad": _align_grad,
    "roi_pool": _max,
    "roi_pool_grad": _max_grad,
}
