"""deformable_conv and deformable_conv_v1: elements of windows are displaced and (v2) scaled. Samples are gathered
corner by corner, then multiplied by the filters; gradients of images add in a fixed order."""

from __future__ import annotations

from collections.abc import Callable

from .. import ids
from ..call import Call, Declined
from ..math.gemm import product


class _Deform:
    """Positions of all samples: [images, deformable groups, taps, windows]."""

    def __init__(self, call: Call) -> None:
        self.x, self.w, offset = call.floats("Input", "Filter", "Offset")
        a, self.call, self.xp = call.attrs, call, call.xp
        if self.x.size == 0 or self.w.size == 0 or offset.size == 0:
            raise Declined
        xp, dtype = call.xp, self.x.dtype
        self.n, self.c, self.h, self.width = self.x.shape
        self.groups, self.parts = a["groups"], a["deformable_groups"]
        kh, kw = self.w.shape[2:]
        self.out = tuple(offset.shape[2:])
        self.taps, self.windows = kh * kw, self.out[0] * self.out[1]
        moved = offset.reshape(self.n, self.parts, self.taps, 2, self.windows)
        mask = call.ins.get("Mask")
        shape = (self.n, self.parts, self.taps, self.windows)
        self.mask = xp.ones((1, 1, 1, 1), dtype) if mask is None else mask.reshape(shape)

        def base(axis: int, kernel):
            at = xp.arange(self.out[axis]) * a["strides"][axis] - a["paddings"][axis]
            return kernel * a["dilations"][axis], at

        down, rows = base(0, (xp.arange(self.taps) // kw).reshape(-1, 1, 1))
        right, columns = base(1, (xp.arange(self.taps) % kw).reshape(-1, 1, 1))
        grid = (self.taps, *self.out)
        y = xp.broadcast_to(down + rows.reshape(1, -1, 1), grid).reshape(self.taps, -1).astype(dtype)
        x = xp.broadcast_to(right + columns.reshape(1, 1, -1), grid).reshape(self.taps, -1).astype(dtype)
        self.y, self.v = y + moved[:, :, :, 0], x + moved[:, :, :, 1]
        self.near = (self.y > -1) & (self.v > -1) & (self.y < self.h) & (self.v < self.width)
        # Channels of a deformable group are last.
        self.each = self.c // self.parts
        pixels = self.x.reshape(self.n, self.parts, self.each, -1).swapaxes(2, 3)
        self.pixels = xp.ascontiguousarray(pixels).reshape(-1, self.each)

    def corners(self):
        """(flat pixel, weight, its derivatives by row and by column) of each sample; 0 outside of the image."""
        xp, one = self.xp, self.x.dtype.type(1)
        top, left = xp.floor(self.y), xp.floor(self.v)
        ly, lx = self.y - top, self.v - left
        image = xp.arange(self.n * self.parts).reshape(self.n, self.parts, 1, 1) * (self.h * self.width)
        for i, wy, sy in ((0, one - ly, -one), (1, ly, one)):
            for j, wx, sx in ((0, one - lx, -one), (1, lx, one)):
                r, c = top + i, left + j
                inside = self.near & (r >= 0) & (r < self.h) & (c >= 0) & (c < self.width)
                r, c = xp.where(inside, r, 0).astype("int64"), xp.where(inside, c, 0).astype("int64")
                keep = inside.astype(self.x.dtype)
                yield image + r * self.width + c, wy * wx * keep, sy * wx * keep, sx * wy * keep

    def sampled(self, at):
        """[images, groups, taps, windows, channels of a group]"""
        return self.xp.take(self.pixels, at, axis=0)

    def matrix(self):
        """[images, convolution groups, channels of one * taps, windows]"""
        total = sum(self.sampled(at) * weight[..., None] for at, weight, _, _ in self.corners())
        total = (total * self.mask[..., None]).transpose(0, 1, 4, 2, 3)  # type: ignore[attr-defined]
        return total.reshape(self.n, self.groups, -1, self.windows)

    def filters(self):
        """[convolution groups, filters of one, channels of one * taps]"""
        return self.w.reshape(self.groups, self.w.shape[0] // self.groups, -1)


def _forward(call: Call) -> dict:
    d = _Deform(call)
    return {"Output": product(call, d.filters(), d.matrix()).reshape(call.shape("Output"))}


def _backward(call: Call) -> dict:
    s, xp = _Deform(call), call.xp
    d = call.array("Output@GRAD").reshape(s.n, s.groups, -1, s.windows)
    made = {}
    if call.wanted["Filter@GRAD"]:
        dw = product(call, d, s.matrix().swapaxes(2, 3)).sum(axis=0)
        made["Filter@GRAD"] = dw.reshape(s.w.shape)
    back = product(call, s.filters().swapaxes(1, 2), d).reshape(s.n, s.parts, s.each, s.taps, s.windows)
    back = xp.ascontiguousarray(back.transpose(0, 1, 3, 4, 2))
    places, values, by_row, by_column, by_scale = [], [], 0, 0, 0
    for at, weight, row, column in s.corners():
        dot = (s.sampled(at) * back).sum(axis=-1)
        by_scale, by_row, by_column = by_scale + dot * weight, by_row + dot * row, by_column + dot * column
        places.append(at.reshape(-1))
        values.append((back * (weight * s.mask)[..., None]).reshape(-1, s.each))
    if call.wanted["Input@GRAD"]:
        dx = ids.sum_at(call, s.pixels.shape[0], xp.concatenate(places), xp.concatenate(values))
        dx = dx.reshape(s.n, s.parts, -1, s.each).swapaxes(2, 3)
        made["Input@GRAD"] = xp.ascontiguousarray(dx).reshape(s.x.shape)
    offsets = xp.stack([by_row * s.mask, by_column * s.mask], 3)
    made["Offset@GRAD"] = offsets.reshape(s.n, -1, *s.out)
    if call.ins.get("Mask") is not None:
        made["Mask@GRAD"] = by_scale.reshape(s.n, -1, *s.out)  # type: ignore[attr-defined]
    return made


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    **dict.fromkeys(("deformable_conv", "deformable_conv_v1"), _forward),
    **dict.fromkeys(("deformable_conv_grad", "deformable_conv_v1_grad"), _backward),
}
