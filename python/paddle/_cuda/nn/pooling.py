"""Maximum and average pooling over two and three axes with their gradients, unpool and spp: a thread per window, in
gradients a thread per element of the input, which visits its windows in order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..call import Call, ctype
from ..units import REALS, Unit, grid_of, instances
from .patches import lead, paddings

SOURCE = r"""
struct Axis {
    i64 size, out, kernel, stride, pad, after, adaptive;
    // The elements [from, to) of window o, and how many an average counts with padding.
    __device__ void window(i64 o, i64& from, i64& to, i64& all) const {
        if (adaptive) {
            from = o * size / out;
            to = ((o + 1) * size + out - 1) / out;
            all = to - from;
            return;
        }
        i64 start = o * stride - pad, end = start + kernel;
        if (end > size + after) end = size + after;
        all = end - start;
        from = start < 0 ? 0 : start;
        to = end > size ? size : end;
    }
    // Windows before `first` and from `last` on do not contain element i.
    __device__ void windows(i64 i, i64& first, i64& last) const {
        if (adaptive) {
            first = i * out / size;
            last = ((i + 1) * out + size - 1) / size;
            if (last > out) last = out;
            return;
        }
        first = i + pad < kernel ? 0 : (i + pad - kernel) / stride + 1;
        last = (i + pad) / stride + 1;
        if (last > out) last = out;
    }
};
#define AXES i64 D, i64 H, i64 W, i64 od, i64 oh, i64 ow, i64 kd, i64 kh, i64 kw, i64 sd, i64 sh, i64 sw, i64 pd, \
             i64 ph, i64 pw, i64 ad, i64 ah, i64 aw, i64 adaptive
#define MAKE_AXES Axis z = {D, od, kd, sd, pd, ad, adaptive}, y = {H, oh, kh, sh, ph, ah, adaptive}, \
                       v = {W, ow, kw, sw, pw, aw, adaptive}

// The maximum of each window, and (at) the position of the first such element in its image.
template <typename T> __global__ void max_pool(const T* x, T* out, i64* at, i64 images, AXES) {
    MAKE_AXES;
    i64 n = images * od * oh * ow;
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 z0, z1, y0, y1, v0, v1, all;
        z.window(i / (oh * ow) % od, z0, z1, all);
        y.window(i / ow % oh, y0, y1, all);
        v.window(i % ow, v0, v1, all);
        const T* from = x + i / (od * oh * ow) * (D * H * W);
        T most = T(-3.402823466e+38);
        i64 place = -1;
        for (i64 a = z0; a < z1; a++)
            for (i64 b = y0; b < y1; b++)
                for (i64 c = v0; c < v1; c++) {
                    T value = from[(a * H + b) * W + c];
                    if (most < value || place < 0 && most == value) {
                        most = value;
                        place = (a * H + b) * W + c;
                    }
                }
        out[i] = most;
        at[i] = place;
    }
}

template <typename T> __global__ void avg_pool(const T* x, T* out, i64 exclusive, i64 images, AXES) {
    MAKE_AXES;
    i64 n = images * od * oh * ow;
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 z0, z1, y0, y1, v0, v1, az, ay, av;
        z.window(i / (oh * ow) % od, z0, z1, az);
        y.window(i / ow % oh, y0, y1, ay);
        v.window(i % ow, v0, v1, av);
        const T* from = x + i / (od * oh * ow) * (D * H * W);
        T sum = T(0);
        for (i64 a = z0; a < z1; a++)
            for (i64 b = y0; b < y1; b++)
                for (i64 c = v0; c < v1; c++) sum += from[(a * H + b) * W + c];
        i64 count = exclusive ? (z1 - z0) * (y1 - y0) * (v1 - v0) : az * ay * av;
        out[i] = sum / T(count);
    }
}

// Of windows that contain an element: the gradient of those whose maximum it is (at), or their average's share.
template <typename T> __global__ void pool_grad(const i64* at, const T* d, T* dx, i64 exclusive, i64 images, AXES) {
    MAKE_AXES;
    i64 n = images * D * H * W;
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 a = i / (H * W) % D, b = i / W % H, c = i % W, image = i / (D * H * W), z0, z1, y0, y1, v0, v1;
        z.windows(a, z0, z1);
        y.windows(b, y0, y1);
        v.windows(c, v0, v1);
        T sum = T(0);
        for (i64 p = z0; p < z1; p++)
            for (i64 q = y0; q < y1; q++)
                for (i64 r = v0; r < v1; r++) {
                    i64 window = ((image * od + p) * oh + q) * ow + r;
                    if (at) {
                        if (at[window] == (a * H + b) * W + c) sum += d[window];
                        continue;
                    }
                    i64 f0, f1, g0, g1, h0, h1, az, ay, av;
                    z.window(p, f0, f1, az);
                    y.window(q, g0, g1, ay);
                    v.window(r, h0, h1, av);
                    if (a < f0 || a >= f1 || b < g0 || b >= g1 || c < h0 || c >= h1) continue;
                    sum += d[window] / T(exclusive ? (f1 - f0) * (g1 - g0) * (h1 - h0) : az * ay * av);
                }
        dx[i] = sum;
    }
}
"""
UNIT = Unit("pooling", SOURCE, sum((instances(k, REALS) for k in ("max_pool", "avg_pool", "pool_grad")), ()))


class Pool:
    """The geometry of a pooling of x, whose result has `out_shape`."""

    def __init__(self, call: Call, x_shape, out_shape, kernel=None, stride=None, pads=None) -> None:
        a, self.call, self.xp = call.attrs, call, call.xp
        self.last = a.get("data_format") in ("NHWC", "NDHWC")
        size = tuple(x_shape[1:-1] if self.last else x_shape[2:])
        out = tuple(out_shape[1:-1] if self.last else out_shape[2:])
        self.exclusive = np.int64(bool(a.get("exclusive", True)))
        adaptive = bool(a.get("adaptive"))
        if kernel is None:
            kernel, stride = tuple(a["ksize"]), tuple(a["strides"])
            pads = [(0, 0)] * len(size) if adaptive else paddings(a, size, kernel, stride)
        if a.get("global_pooling"):
            kernel, pads = size, [(0, 0)] * len(size)
        self.size, self.out = size, out
        parts = (size, out, kernel, stride, [p for p, _ in pads], [p for _, p in pads])
        numbers = [v for i, part in enumerate(parts) for v in lead(tuple(part), 0 if i > 3 else 1)]
        self.numbers = [np.int64(v) for v in (*numbers, adaptive)]

    def first(self, x):
        return self.xp.ascontiguousarray(self.xp.moveaxis(x, -1, 1)) if self.last else x

    def back(self, x):
        return self.xp.ascontiguousarray(self.xp.moveaxis(x, 1, -1)) if self.last else x

    def maxima(self, x):
        """The maxima and their positions, channels first."""
        shape = (*x.shape[:2], *self.out)
        out, at = self.call.empty(shape, x.dtype), self.call.empty(shape, "int64")
        images = np.int64(x.shape[0] * x.shape[1])
        kernel = f"max_pool<{ctype(x, REALS)}>"
        self.call.launch(UNIT, kernel, grid_of(out.size), 256, x, out, at, images, *self.numbers)
        return out, at

    def averages(self, x):
        out = self.call.empty((*x.shape[:2], *self.out), x.dtype)
        images = np.int64(x.shape[0] * x.shape[1])
        kernel = f"avg_pool<{ctype(x, REALS)}>"
        self.call.launch(UNIT, kernel, grid_of(out.size), 256, x, out, self.exclusive, images, *self.numbers)
        return out

    def grad(self, d, at=None):
        """The gradient of x; `at` are the positions of maxima, None for averages."""
        dx = self.call.empty((*d.shape[:2], *self.size), d.dtype)
        images = np.int64(d.shape[0] * d.shape[1])
        kernel = f"pool_grad<{ctype(d, REALS)}>"
        at = np.uint64(0) if at is None else at
        self.call.launch(UNIT, kernel, grid_of(dx.size), 256, at, d, dx, self.exclusive, images, *self.numbers)
        return dx


def _pool(call: Call) -> dict:
    (x,) = call.filled("X")
    pool = Pool(call, x.shape, call.shape("Out"))
    x = pool.first(x)
    out = pool.maxima(x)[0] if call.attrs["pooling_type"] == "max" else pool.averages(x)
    return {"Out": pool.back(out)}


def _pool_grad(call: Call) -> dict:
    x, d = call.filled("X", "Out@GRAD")
    pool = Pool(call, x.shape, d.shape)
    at = pool.maxima(pool.first(x))[1] if call.attrs["pooling_type"] == "max" else None
    return {"X@GRAD": pool.back(pool.grad(pool.first(d), at))}


def _indexed(call: Call) -> dict:
    (x,) = call.filled("X")
    out, at = Pool(call, x.shape, call.shape("Out")).maxima(x)
    return {"Out": out, "Mask": at.astype(call.dtype("Mask"))}


def _indexed_grad(call: Call) -> dict:
    (d,), shape = call.filled("Out@GRAD"), tuple(call.ins["X"].shape)
    at = call.xp.ascontiguousarray(call.array("Mask").astype("int64"))
    return {"X@GRAD": Pool(call, shape, d.shape).grad(d, at)}


def _places(call: Call, shape, indices):
    """Flat positions of an unpool's elements in `shape`; and for each position of it the last element that goes there,
    and whether there is one."""
    xp, rows, plane = call.xp, shape[0] * shape[1], int(np.prod(shape[2:]))
    at = xp.clip(indices.reshape(rows, -1).astype("int64"), 0, plane - 1)
    flat = (at + xp.arange(rows).reshape(-1, 1) * plane).reshape(-1)
    order = xp.argsort(flat, kind="stable")
    ranked, wanted = flat[order], xp.arange(rows * plane)
    ends = xp.searchsorted(ranked, wanted, side="right")
    source = order[xp.clip(ends - 1, 0, flat.size - 1)]
    return flat, source, (ends > 0) & (flat[source] == wanted)


def _unpool(call: Call) -> dict:
    (x,), xp, shape = call.filled("X"), call.xp, call.shape("Out")
    _, source, hit = _places(call, shape, call.array("Indices"))
    return {"Out": xp.where(hit, x.reshape(-1)[source], x.dtype.type(0)).reshape(shape)}


def _unpool_grad(call: Call) -> dict:
    (d,), xp, indices = call.filled("Out@GRAD"), call.xp, call.array("Indices")
    flat, source, _ = _places(call, d.shape, indices)
    last = source[flat] == xp.arange(flat.size)
    return {"X@GRAD": xp.where(last, d.reshape(-1)[flat], d.dtype.type(0)).reshape(call.ins["X"].shape)}


def _levels(call: Call, shape):
    """The pools of a pyramid, with the columns of its result that each fills."""
    c, start, found = shape[1], 0, []
    for level in range(call.attrs["pyramid_height"]):
        bins = 2**level
        kernel = [-(-n // bins) for n in shape[2:]]
        pads = [((k * bins - n + 1) // 2,) * 2 for k, n in zip(kernel, shape[2:], strict=True)]
        pool = Pool(call, shape, (*shape[:2], bins, bins), kernel, kernel, pads)
        found.append((pool, bins, slice(start, start + c * bins * bins)))
        start += c * bins * bins
    return found


def _spp(call: Call) -> dict:
    (x,) = call.filled("X")
    most, parts = call.attrs["pooling_type"] == "max", []
    for pool, _, _ in _levels(call, x.shape):
        parts.append((pool.maxima(x)[0] if most else pool.averages(x)).reshape(x.shape[0], -1))
    return {"Out": call.xp.concatenate(parts, 1)}


def _spp_grad(call: Call) -> dict:
    x, d = call.filled("X", "Out@GRAD")
    most, total = call.attrs["pooling_type"] == "max", None
    for pool, bins, columns in _levels(call, x.shape):
        part = call.xp.ascontiguousarray(d[:, columns]).reshape(*x.shape[:2], bins, bins)
        g = pool.grad(part, pool.maxima(x)[1] if most else None)
        total = g if total is None else total + g
    return {"X@GRAD": total}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    **dict.fromkeys(("pool2d", "pool3d"), _pool),
    **dict.fromkeys(("pool2d_grad", "pool3d_grad"), _pool_grad),
    **dict.fromkeys(("max_pool2d_with_index", "max_pool3d_with_index"), _indexed),
    **dict.fromkeys(("max_pool2d_with_index_grad", "max_pool3d_with_index_grad"), _indexed_grad),
    "unpool": _unpool,
    "unpool_grad": _unpool_grad,
    "spp": _spp,
    "spp_grad": _spp_grad,
}
