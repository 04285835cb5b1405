"""Windows of images: patches as columns of a matrix and their ordered transpose, for convolutions, unfold and
im2sequence. Two-dimensional images have a first axis of size 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .. import strided
from ..call import Call, Declined, ctype
from ..math import binary
from ..units import REALS, Unit, grid_of, instances

SOURCE = r"""
#define GEOMETRY i64 D, i64 H, i64 W, i64 od, i64 oh, i64 ow, i64 kd, i64 kh, i64 kw, i64 sd, i64 sh, i64 sw, i64 pd, \
                 i64 ph, i64 pw, i64 dd, i64 dh, i64 dw

// col[image][kernel position][window]: an image is one channel, of D x H x W elements. With `channels` images are
// [batch][channel], and the result is col[channel][kernel position][batch][window].
template <typename T> __global__ void im2col(const T* x, T* col, i64 images, i64 channels, GEOMETRY) {
    i64 windows = od * oh * ow, taps = kd * kh * kw, n = images * taps * windows;
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 window = i % windows, tap = i / windows % taps, image = i / windows / taps;
        i64 z = window / (oh * ow) * sd - pd + tap / (kh * kw) * dd;
        i64 y = window / ow % oh * sh - ph + tap / kw % kh * dh;
        i64 v = window % ow * sw - pw + tap % kw * dw;
        bool inside = z >= 0 && z < D && y >= 0 && y < H && v >= 0 && v < W;
        T value = inside ? x[((image * D + z) * H + y) * W + v] : T(0);
        i64 batch = channels ? images / channels : 1;
        i64 row = channels ? (image % channels * taps + tap) * batch + image / channels : image * taps + tap;
        col[row * windows + window] = value;
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
UNIT = Unit("patches", SOURCE, sum((instances(k, REALS) for k in ("im2col", "col2im")), ()))


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


def columns(call: Call, x, w: Windows, channels: int = 0):
    """[images, taps, windows] of x: [images, D, H, W]; with `channels` x is [batch, channels] images, and the result is
    [channels, taps, batch, windows]."""
    images = x.shape[0]
    shape = (channels, w.taps, images // channels, w.count) if channels else (images, w.taps, w.count)
    out = call.empty(shape, x.dtype)
    if out.size:
        kernel = f"im2col<{ctype(x, REALS)}>"
        x = call.xp.ascontiguousarray(x)
        numbers = map(np.int64, (images, channels))
        call.launch(UNIT, kernel, grid_of(out.size), 256, x, out, *numbers, *w.numbers())
    return out


def images(call: Call, col, w: Windows, out=None):
    """The transpose of `columns`: [images, D, H, W]."""
    n = col.shape[0]
    out = call.empty((n, *w.size), col.dtype) if out is None else out
    if out.size:
        kernel = f"col2im<{ctype(col, REALS)}>"
        col = call.xp.ascontiguousarray(col)
        call.launch(UNIT, kernel, grid_of(out.size), 256, col, out, np.int64(n), *w.numbers())
    return out


def moved(call: Call, x, size: tuple[int, ...], offset: tuple[int, ...], last: bool):
    """Images of `size` whose element i is x's element i + `offset`, 0 outside; `last`: channels are last."""
    old = tuple(x.shape[1:-1] if last else x.shape[2:])
    shape = (x.shape[0], *size, x.shape[-1]) if last else (*x.shape[:2], *size)
    outer, inner = (x.shape[0], x.shape[-1]) if last else (x.shape[0] * x.shape[1], 1)
    inside = [range(max(0, -o), max(0, -o, min(n, m - o))) for n, m, o in zip(size, old, offset, strict=True)]
    is_whole = all(len(r) == n for r, n in zip(inside, size, strict=True))
    y = call.empty(shape, x.dtype) if is_whole else strided.full(call, shape, x.dtype)
    xs, ys = (strided.strides_of((outer, *n, inner)) for n in (old, size))
    start = sum((r.start + o) * s for r, o, s in zip(inside, offset, xs[1:], strict=False))
    to = sum(r.start * s for r, s in zip(inside, ys[1:], strict=False))
    strided.move(call, x, y, (outer, *map(len, inside), inner), xs, ys, start, to)
    return y


def turned(call: Call, x, a: int, b: int, shape, inner: int = 1):
    """[.., a, b, inner] as [.., b, a, inner], in the given shape."""
    sizes = x.size // max(1, a * b * inner), b, a, inner
    return strided.gathered(call, x, sizes, (a * b * inner, inner, b * inner, 1)).reshape(shape)


def add_bias(call: Call, y, bias, last: bool) -> None:
    """Add `bias` to the channels of y, in place."""
    seen = (1,) * (y.ndim - 1) + (bias.size,) if last else (1, bias.size) + (1,) * (y.ndim - 2)
    binary.apply(call, "Plus", y, bias.reshape(seen), seen, y)
