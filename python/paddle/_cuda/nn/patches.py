"""Windows of images: patches as columns of a matrix and their ordered transpose, for convolutions, unfold and
im2sequence. Two-dimensional images have a first axis of size 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..call import Call, Declined, ctype
from ..units import REALS, Unit, grid_of, instances

SOURCE = r"""
#define GEOMETRY i64 D, i64 H, i64 W, i64 od, i64 oh, i64 ow, i64 kd, i64 kh, i64 kw, i64 sd, i64 sh, i64 sw, i64 pd, \
                 i64 ph, i64 pw, i64 dd, i64 dh, i64 dw

// col[image][kernel position][window]: an image is one channel, of D x H x W elements.
template <typename T> __global__ void im2col(const T* x, T* col, i64 images, GEOMETRY) {
    i64 windows = od * oh * ow, taps = kd * kh * kw, n = images * taps * windows;
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 window = i % windows, tap = i / windows % taps, image = i / windows / taps;
        i64 z = window / (oh * ow) * sd - pd + tap / (kh * kw) * dd;
        i64 y = window / ow % oh * sh - ph + tap / kw % kh * dh;
        i64 v = window % ow * sw - pw + tap % kw * dw;
        bool inside = z >= 0 && z < D && y >= 0 && y < H && v >= 0 && v < W;
        col[i] = inside ? x[((image * D + z) * H + y) * W + v] : T(0);
    }
}

// An element of x is the sum over the windows that contain it, in the order of kernel positions.
template <typename T> __global__ void col2im(const T* col, T* x, i64 images, GEOMETRY) {
    i64 windows = od * oh * ow, taps = kd * kh * kw, n = images * D * H * W;
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 v = i % W, y = i / W % H, z = i / (W * H) % D, image = i / (W * H * D);
        T sum = T(0);
        for (i64 a = 0; a < kd; a++) {
            i64 oz = z + pd - a * dd;
            if (oz < 0 || oz % sd || oz / sd >= od) continue;
            for (i64 b = 0; b < kh; b++) {
                i64 oy = y + ph - b * dh;
                if (oy < 0 || oy % sh || oy / sh >= oh) continue;
                for (i64 c = 0; c < kw; c++) {
                    i64 ox = v + pw - c * dw;
                    if (ox < 0 || ox % sw || ox / sw >= ow) continue;
                    i64 tap = (a * kh + b) * kw + c, window = ((oz / sd) * oh + oy / sh) * ow + ox / sw;
                    sum += col[(image * taps + tap) * windows + window];
                }
            }
        }
        x[i] = sum;
    }
}
"""
UNIT = Unit("patches", SOURCE, instances("im2col", REALS) + instances("col2im", REALS))


@dataclass(frozen=True)
class Windows:
    """Sizes of images, of the grid of windows, of windows; strides, paddings before, dilations: three of each."""

    size: tuple[int, ...]
    out: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pad: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def taps(self) -> int:
        return math.prod(self.kernel)

    @property
    def count(self) -> int:
        return math.prod(self.out)

    def numbers(self) -> list[np.int64]:
        parts = (self.size, self.out, self.kernel, self.stride, self.pad, self.dilation)
        return [np.int64(v) for part in parts for v in part]


def paddings(attrs: dict, size, kernel, stride) -> list[tuple[int, int]]:
    """Paddings before and after each axis."""
    n, p, way = len(size), attrs["paddings"], attrs.get("padding_algorithm", "EXPLICIT")
    if way == "SAME":
        total = [max((-(-d // s) - 1) * s + k - d, 0) for d, k, s in zip(size, kernel, stride, strict=True)]
        return [(t // 2, t - t // 2) for t in total]
    if way == "VALID":
        return [(0, 0)] * n
    if len(p) == n:
        return [(v, v) for v in p]
    if len(p) != 2 * n:
        raise Declined
    return list(zip(p[::2], p[1::2], strict=True))


def lead(values, first: int) -> tuple[int, ...]:
    """Three numbers: `first` for the axis that two-dimensional images lack."""
    return (*(first,) * (3 - len(values)), *values)


def columns(call: Call, x, w: Windows):
    """[images, taps, windows] of x: [images, D, H, W]."""
    images = x.shape[0]
    out = call.empty((images, w.taps, w.count), x.dtype)
    if out.size:
        kernel = f"im2col<{ctype(x, REALS)}>"
        x = call.xp.ascontiguousarray(x)
        call.launch(UNIT, kernel, grid_of(out.size), 256, x, out, np.int64(images), *w.numbers())
    return out


def images(call: Call, col, w: Windows):
    """The transpose of `columns`: [images, D, H, W]."""
    n = col.shape[0]
    out = call.empty((n, *w.size), col.dtype)
    if out.size:
        kernel = f"col2im<{ctype(col, REALS)}>"
        col = call.xp.ascontiguousarray(col)
        call.launch(UNIT, kernel, grid_of(out.size), 256, col, out, np.int64(n), *w.numbers())
    return out
