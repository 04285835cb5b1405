"""var_conv_2d and its gradient: convolution of images of different sizes, whose windows are gathered by an index map;
one product for each image."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import maps, strided
from ..call import Call, Declined, ctype, same_dtype
from ..math.gemm import product
from ..units import REALS


class _Images:
    """The images [channels, height, width] of a call, their windows [depth, count] and results [filters, count]."""

    def __init__(self, call: Call) -> None:
        self.call, self.x, self.w = call, call.array("X"), call.array("W")
        same_dtype(self.x, self.w)
        ctype(self.x, REALS)
        self.at, row, column = (call.level(slot) for slot in ("X", "ROW", "COLUMN"))
        self.filters, self.depth = self.w.shape
        if self.x.size == 0 or self.w.size == 0 or not self.at.size == row.size == column.size:
            raise Declined
        a = call.attrs
        self.kernel, self.stride = (a["KernelH"], a["KernelW"]), (a["StrideH"], a["StrideW"])
        self.sizes = np.stack([np.diff(row), np.diff(column)], 1)
        if (self.sizes.prod(1) * a["InputChannel"] != np.diff(self.at)).any():
            raise Declined
        self.windows = -(-self.sizes // np.asarray(self.stride))
        counts = self.windows.prod(1)
        self.out_ends, self.window_ends = (maps.offsets_of(counts * n).tolist() for n in (self.filters, self.depth))
        self.key = (self.kernel, self.stride, a["InputChannel"], row.tobytes(), column.tobytes())

    def index(self) -> np.ndarray:
        """For each element of the windows its element of X, -1 outside of the image."""
        (kh, kw), found = self.kernel, [np.zeros(0, np.int64)]
        for first, (height, width), (down, across) in zip(self.at[:-1], self.sizes, self.windows, strict=True):
            channel, ky, kx = np.unravel_index(np.arange(self.depth), (self.depth // (kh * kw), kh, kw))
            wy, wx = np.divmod(np.arange(down * across), max(int(across), 1))
            y = wy * self.stride[0] + ky[:, None] - kh // 2
            x = wx * self.stride[1] + kx[:, None] - kw // 2
            inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
            at = first + (channel[:, None] * height + y) * width + x
            found.append(np.where(inside, at, -1).reshape(-1))
        return np.concatenate(found).astype(np.int64)

    def unfolded(self):
        ((_, index),) = maps.on_device(self.call, ("variable windows", *self.key), lambda: (self.index(),))
        return maps.gather(self.call, self.x.reshape(-1, 1), index, (index.size, 1))

    def folded(self, windows):
        """The sums of the windows' elements over the elements of X that they are."""
        make = lambda: maps.transposed(self.index(), self.x.size)  # noqa: E731
        (_, at), (_, index) = maps.on_device(self.call, ("variable windows back", *self.key), make)
        return maps.sums(self.call, windows, at, index, (self.x.size, 1)).reshape(self.x.shape)

    def each(self) -> list[int]:
        return [i for i in range(self.at.size - 1) if self.out_ends[i] < self.out_ends[i + 1]]

    def of(self, flat, ends: list[int], image: int, rows: int):
        """A matrix [rows, count] of an image."""
        return flat.reshape(-1)[ends[image] : ends[image + 1]].reshape(rows, -1)


def _forward(call: Call) -> dict:
    images = _Images(call)
    windows, out = images.unfolded(), call.empty((images.out_ends[-1], 1), images.x.dtype)
    for i in images.each():
        own = images.of(windows, images.window_ends, i, images.depth)
        product(call, images.w, own, out=images.of(out, images.out_ends, i, images.filters))
    call.set_lod("Out", [images.out_ends])
    call.set_lod("Col", [images.window_ends])
    return {"Out": out, "Col": windows}


def _backward(call: Call) -> dict:
    images, d = _Images(call), call.array("Out@GRAD")
    same_dtype(images.x, d)
    if d.size != images.out_ends[-1]:
        raise Declined
    windows, made = images.unfolded(), {}
    if call.wanted["W@GRAD"]:
        dw = made["W@GRAD"] = strided.full(call, images.w.shape, d.dtype)
    if call.wanted["X@GRAD"]:
        dwindows = call.empty(windows.shape, d.dtype)
    for i in images.each():
        of_image = images.of(d, images.out_ends, i, images.filters)
        if call.wanted["W@GRAD"]:
            own = images.of(windows, images.window_ends, i, images.depth)
            product(call, of_image, own, ty=True, beta=1.0, out=dw)
        if call.wanted["X@GRAD"]:
            to = images.of(dwindows, images.window_ends, i, images.depth)
            product(call, images.w, of_image, tx=True, out=to)
    if call.wanted["X@GRAD"]:
        made["X@GRAD"] = images.folded(dwindows)
    return made


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"var_conv_2d": _forward, "var_conv_2d_grad": _backward}
