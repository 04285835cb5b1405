"""Interpolation along one to three axes: weighted sums of gathered elements, axis by axis, whose gradient applies
matrices of the weights. affine_grid and grid_sampler, whose gradient adds in a fixed order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import ids, maps
from ..call import Call, Declined
from ..math.gemm import product


def _taps(xp, size: int, out: int, ratio: float, align: bool, mode: int, method: str) -> list[tuple]:
    """The elements that each of `out` results reads, by the functions `xp`: (positions, weights in float64; None: 1).
    Positions are computed in float32 and float64 as in 2.0.2."""
    rows = xp.arange(out)
    plain = rows.astype("float32") * np.float32(ratio)
    centred = (rows + 0.5) * float(np.float32(ratio)) - 0.5

    def within(at):
        return xp.clip(at, 0, size - 1)

    if method == "nearest":
        at = plain.astype("float64") + (0.5 if align else 0.0)
        return [(within(at.astype("int64")), None)]
    if method == "bicubic":
        at = plain.astype("float64") if align else centred
        low = xp.floor(at).astype("int64")
        t, a = at - low, -0.75

        def near(x):
            return ((a + 2) * x - (a + 3)) * x * x + 1

        def far(x):
            return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

        weights = ((-1, far(t + 1)), (0, near(t)), (1, near(1 - t)), (2, far(2 - t)))
        return [(within(low + shift), weight) for shift, weight in weights]
    half = mode == 0 and not align
    place = xp.maximum(centred.astype("float32"), np.float32(0)) if half else plain
    low = within((centred if half else plain).astype("int64"))
    part = (place - low.astype("float32")).astype("float64")
    return [(low, 1 - part), (within(low + 1), part)]


def _matrix(xp, size: int, out: int, *how):
    """The weights as a matrix [out, in] in float64."""
    columns = xp.arange(size)
    one = np.float64(1)
    parts = [
        xp.where(at.reshape(-1, 1) == columns, one if weight is None else weight.reshape(-1, 1), np.float64(0))
        for at, weight in _taps(xp, size, out, *how)
    ]
    return sum(parts[1:], parts[0])


class _Resize:
    def __init__(self, call: Call, x_shape, out_shape) -> None:
        a, self.call, self.xp = call.attrs, call, call.xp
        self.last = a["data_layout"] != "NCHW"
        axes = range(1, len(x_shape) - 1) if self.last else range(2, len(x_shape))
        method = a["interp_method"]
        v2 = "_v2" in call.op
        scale = list(a["scale"]) if v2 else []
        # Sizes that tensors give replace the factor.
        if v2 and call.ins.get("SizeTensor"):
            scale = []
        elif v2 and call.ins.get("Scale") is not None:
            scale = call.numbers("Scale")
        if len(scale) == 1:
            scale = scale * len(axes)
        self.parts = []
        for i, axis in enumerate(axes):
            n, m = x_shape[axis], out_shape[axis]
            if m <= 1:
                ratio = 0.0
            elif a["align_corners"]:
                ratio = float(np.float32(n - 1) / np.float32(m - 1))
            elif scale and scale[i] > 0:
                ratio = float(np.float32(1.0 / np.float64(np.float32(scale[i]))))
            else:
                ratio = float(np.float32(n) / np.float32(m))
            self.parts.append((axis, n, m, ratio, bool(a["align_corners"]), a["align_mode"], method))

    def forward(self, x):
        """Elements are gathered, so that each result is made of those that it reads: others may be infinite."""
        for axis, *how in self.parts:
            total = None
            for at, weight in _taps_on_device(self.call, tuple(how), x.dtype):
                read = self.xp.take(x, at, axis=axis)
                if weight is not None:
                    read = read * weight.reshape(-1, *(1,) * (x.ndim - axis - 1))
                total = read if total is None else total + read
            x = total
        return x

    def backward(self, d):
        for axis, *how in self.parts:
            moved = self.xp.moveaxis(d, axis, -1)
            d = self.xp.moveaxis(product(self.call, moved, _device(self.call, tuple(how), d.dtype)), -1, axis)
        return d


def _taps_on_device(call: Call, key: tuple, dtype) -> list[tuple]:
    """The positions and weights on the device: made by launches, or uploaded once."""
    if call.launched is not None:
        return [(at, None if weight is None else weight.astype(dtype)) for at, weight in _taps(call.xp, *key)]

    def make() -> tuple:
        return tuple(v for at, weight in _taps(np, *key) for v in (at, np.ones(1) if weight is None else weight))

    found = [device for _, device in maps.on_device(call, ("taps", *key), make)]
    return [
        (at, None if key[-1] == "nearest" else weight.astype(dtype))
        for at, weight in zip(found[::2], found[1::2], strict=True)
    ]


def _device(call: Call, key: tuple, dtype):
    """The matrix on the device: made by launches, or uploaded once."""
    if call.launched is not None:
        return _matrix(call.xp, *key).astype(dtype)
    ((_, matrix),) = maps.on_device(call, ("resize", *key, dtype.name), lambda: (_matrix(np, *key).astype(dtype),))
    return matrix


def _resize(call: Call) -> dict:
    (x,), shape = call.floats("X"), call.shape("Out")
    call.sized_by("OutSize", "SizeTensor", "Scale")
    if x.size == 0 or 0 in shape:
        raise Declined
    if shape == x.shape:
        return {"Out": x.copy()}
    return {"Out": _Resize(call, x.shape, shape).forward(x)}


def _resize_grad(call: Call) -> dict:
    (d,), shape = call.floats("Out@GRAD"), tuple(call.ins["X"].shape)
    if d.size == 0 or 0 in shape:
        raise Declined
    if shape == d.shape:
        return {"X@GRAD": d.copy()}
    return {"X@GRAD": _Resize(call, shape, d.shape).backward(d)}


def _base(call: Call, shape, dtype):
    """The grid of an image's positions: [h, w, 3]."""
    xp, align = call.xp, call.attrs["align_corners"]

    def line(n: int):
        at = xp.arange(n).astype(dtype)
        if n == 1:
            return at * 0 - (1 if align else 0)
        return at * dtype.type(2 / (n - 1)) - 1 if align else (at * 2 + 1) / dtype.type(n) - 1

    h, w = shape[2:]
    y, x = xp.broadcast_to(line(h).reshape(h, 1), (h, w)), xp.broadcast_to(line(w), (h, w))
    return xp.stack([x, y, xp.ones((h, w), dtype)], -1)


def _output_shape(call: Call) -> list[int]:
    return [int(v) for v in call.numbers("OutputShape") or call.attrs["output_shape"]]


def _affine_grid(call: Call) -> dict:
    (theta,) = call.floats("Theta")
    shape = _output_shape(call)
    if theta.size == 0 or 0 in shape:
        raise Declined
    base = _base(call, shape, theta.dtype)
    h, w = shape[2:]
    out = product(call, base.reshape(1, h * w, 3), theta.swapaxes(1, 2))
    return {"Output": out.reshape(theta.shape[0], h, w, 2)}


def _affine_grid_grad(call: Call) -> dict:
    (d,) = call.floats("Output@GRAD")
    shape = _output_shape(call)
    if d.size == 0:
        raise Declined
    base = _base(call, shape, d.dtype)
    h, w = shape[2:]
    return {"Theta@GRAD": product(call, d.reshape(-1, h * w, 2).swapaxes(1, 2), base.reshape(1, h * w, 3))}


def cell(xp, place, size: int):
    """The number of the cell at a place, the nearest one of `size`; 0 for NaN, which has no conversion to integers."""
    return xp.clip(xp.where(place == place, place, place.dtype.type(0)), 0, size - 1).astype("int64")


class _Grid:
    """Sampling positions, with their derivatives by the grid, and the pixels that they read."""

    def __init__(self, call: Call, shape, grid) -> None:
        a, self.xp, self.shape = call.attrs, call.xp, shape
        self.n, self.c, self.h, self.w = shape
        self.mode, self.align, self.padding = a["mode"], a["align_corners"], a["padding_mode"]
        self.x, self.dx = self._position(grid[..., 0], self.w)
        self.y, self.dy = self._position(grid[..., 1], self.h)
        self.images = self.xp.arange(self.n).reshape(-1, 1, 1)

    def _position(self, g, size: int):
        xp, of = self.xp, g.dtype.type
        top = size - 1
        if self.align:
            at, slope = (g + 1) * of(top / 2), of(top / 2)
        else:
            at, slope = (g + 1) * of(size / 2) - of(0.5), of(size / 2)
        sign = xp.full(g.shape, slope, g.dtype)
        if self.padding == "border":
            inside = (at > 0) & (at < top)
            return xp.clip(at, of(0), of(top)), xp.where(inside, sign, of(0))
        if self.padding == "reflection":
            shift, span = (of(0), of(2 * top)) if self.align else (of(0.5), of(2 * size))
            if span == 0:
                return at * 0, sign * 0
            moved = at + shift
            size_of = abs(moved)
            rest = size_of - xp.floor(size_of / span) * span
            folded = rest > span - rest
            flip = xp.where(moved < 0, of(-1), of(1)) * xp.where(folded, of(-1), of(1))
            at = xp.minimum(rest, span - rest) - shift
            inside = (at > 0) & (at < top) if not self.align else xp.ones(at.shape, "bool")
            return xp.clip(at, of(0), of(top)), xp.where(inside, sign * flip, of(0))
        return at, sign

    def pixel(self, row, column):
        """The flat position of a pixel of each sample, and 1 where it is in the image."""
        inside = (row >= 0) & (row < self.h) & (column >= 0) & (column < self.w)
        r, c = cell(self.xp, row, self.h), cell(self.xp, column, self.w)
        return (self.images * self.h + r) * self.w + c, inside.astype(self.x.dtype)[..., None]

    def corners(self):
        """(position, inside, weight, its derivatives by x and by y) of the pixels of each sample."""
        xp = self.xp
        if self.mode == "nearest":
            flat, inside = self.pixel(xp.rint(self.y), xp.rint(self.x))
            zero = (self.x * 0)[..., None]
            return [(flat, inside, zero + 1, zero, zero)]
        x0, y0 = xp.floor(self.x), xp.floor(self.y)
        u, v = (self.x - x0)[..., None], (self.y - y0)[..., None]
        found = []
        for j, wy, sy in ((0, 1 - v, -1), (1, v, 1)):
            for i, wx, sx in ((0, 1 - u, -1), (1, u, 1)):
                flat, inside = self.pixel(y0 + j, x0 + i)
                found.append((flat, inside, wx * wy, sx * wy, sy * wx))
        return found


def _grid_sample(call: Call) -> dict:
    x, grid = call.floats("X", "Grid")
    if x.size == 0 or grid.size == 0:
        raise Declined
    s, xp = _Grid(call, x.shape, grid), call.xp
    pixels = xp.ascontiguousarray(x.transpose(0, 2, 3, 1)).reshape(-1, s.c)
    total = 0
    for flat, inside, weight, _, _ in s.corners():
        total = total + xp.take(pixels, flat, axis=0) * inside * weight
    return {"Output": xp.ascontiguousarray(total.transpose(0, 3, 1, 2))}  # type: ignore[attr-defined]


def _grid_sample_grad(call: Call) -> dict:
    x, grid, d = call.floats("X", "Grid", "Output@GRAD")
    if x.size == 0 or grid.size == 0:
        raise Declined
    s, xp = _Grid(call, x.shape, grid), call.xp
    pixels = xp.ascontiguousarray(x.transpose(0, 2, 3, 1)).reshape(-1, s.c)
    dy = xp.ascontiguousarray(d.transpose(0, 2, 3, 1))
    flats, values, gx, gy = [], [], 0, 0
    for flat, inside, weight, by_x, by_y in s.corners():
        flats.append(flat.reshape(-1))
        values.append((dy * inside * weight).reshape(-1, s.c))
        dot = (xp.take(pixels, flat, axis=0) * inside * dy).sum(axis=-1)
        gx, gy = gx + dot * by_x[..., 0], gy + dot * by_y[..., 0]
    sums = ids.sum_at(call, s.n * s.h * s.w, xp.concatenate(flats), xp.concatenate(values))
    dx = sums.reshape(s.n, s.h, s.w, s.c).transpose(0, 3, 1, 2)
    return {"X@GRAD": xp.ascontiguousarray(dx), "Grid@GRAD": xp.stack([gx * s.dx, gy * s.dy], -1)}


_WAYS = ("linear", "bilinear", "trilinear", "bicubic", "nearest")
_RESIZES = [f"{way}_interp{version}" for way in _WAYS for version in ("", "_v2")]
LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    **dict.fromkeys(_RESIZES, _resize),
    **dict.fromkeys([f"{op}_grad" for op in _RESIZES], _resize_grad),
    "affine_grid": _affine_grid,
    "affine_grid_grad": _affine_grid_grad,
    "grid_sampler": _grid_sample,
    "grid_sampler_grad": _grid_sample_grad,
}
