"""Convolutions of two and three axes, depthwise and transposed, with first and second gradients: by cuDNN, without it
patches times filters by cuBLAS, a part of the batch at a time."""

from __future__ import annotations

import math
from collections.abc import Callable

from .. import cudnn, strided
from ..call import Call, Declined, same_dtype
from ..conversion import convert
from ..math.gemm import product
from .channels import Channels
from .patches import Windows, add_bias, columns, images, lead, moved, paddings, turned
from .pooling import Pool

# Elements of patches that are held at once.
MOST = 1 << 26


class Conv:
    """The convolution whose input has `size` and whose filter is [out channels, in channels / groups, ..]."""

    def __init__(self, call: Call, x_shape, filter_shape, out_shape, transposed: bool) -> None:
        a, self.call, self.transposed = call.attrs, call, transposed
        n = len(filter_shape) - 2
        self.last = a["data_format"] in ("NHWC", "NDHWC")
        # 2.0.2's conv3d_transpose has the default NCHW.
        self.groups = a["groups"]
        self.kernel = tuple(filter_shape[2:])
        size = tuple(x_shape[1:-1] if self.last else x_shape[2:])
        out = tuple(out_shape[1:-1] if self.last else out_shape[2:])
        # Of a transposed convolution the output is the image.
        image, grid = (out, size) if transposed else (size, out)
        stride = tuple(a["strides"])
        # SAME is computed from the operator's input, and ignores dilations.
        pads = paddings(a, size, self.kernel, stride)
        same = a.get("padding_algorithm") == "SAME"
        self.windows = Windows(
            lead(image, 1),
            lead(grid, 1),
            lead(self.kernel, 1),
            lead(stride, 1),
            lead([p for p, _ in pads], 0),
            lead((1,) * n if same else tuple(a["dilations"]), 1),
        )
        self.image, self.grid = image, grid
        dnn = call.machine.dnn()
        self.dnn = None if dnn is None else DnnConv(self, dnn)

    def first(self, x):
        """With channels first."""
        if not self.last:
            return x
        n, *size, channels = x.shape
        return turned(self.call, x, math.prod(size), channels, (n, channels, *size))

    def back(self, x):
        if not self.last:
            return x
        n, channels, *size = x.shape
        return turned(self.call, x, channels, math.prod(size), (n, *size, channels))

    def _parts(self, batch: int, channels: int):
        each = max(1, MOST // max(1, channels * self.windows.taps * self.windows.count))
        return [slice(i, min(i + each, batch)) for i in range(0, batch, each)]

    def _groups(self, v):
        """[batch, groups, channels / groups * .., windows]"""
        return v.reshape(v.shape[0], self.groups, -1, self.windows.count)

    def _matrix(self, w):
        """[1, groups, out channels / groups, in channels / groups * taps]"""
        return w.reshape(1, self.groups, w.shape[0] // self.groups, -1)

    def forward(self, x, w):
        """The output, channels first."""
        (n, c), out = x.shape[:2], self.call.empty((x.shape[0], w.shape[0], *self.grid), x.dtype)
        for part in self._parts(n, c):
            col = columns(self.call, x[part].reshape(-1, *self.windows.size), self.windows)
            col = col.reshape(-1, self.groups, c // self.groups * self.windows.taps, self.windows.count)
            product(self.call, self._matrix(w), col, out=self._groups(out[part]))
        return out

    def input_grad(self, w, d):
        """The gradient of the image from that of the output."""
        channels = w.shape[1] * self.groups
        out = self.call.empty((d.shape[0], channels, *self.image), d.dtype)
        for part in self._parts(d.shape[0], channels):
            col = product(self.call, self._matrix(w), self._groups(d[part]), tx=True)
            col = col.reshape(-1, self.windows.taps, self.windows.count)
            images(self.call, col, self.windows, out[part].reshape(-1, *self.windows.size))
        return out

    def filter_grad(self, x, d, shape):
        """The gradient of the filter from image and output gradient: a sum over images and windows."""
        out, c = self.call.empty(shape, x.dtype), x.shape[1]
        matrices = out.reshape(self.groups, shape[0] // self.groups, -1)
        for i, part in enumerate(self._parts(x.shape[0], c)):
            n = min(part.stop, x.shape[0]) - part.start
            col = columns(self.call, x[part].reshape(-1, *self.windows.size), self.windows, c)
            col = col.reshape(self.groups, c // self.groups * self.windows.taps, -1)
            dy = turned(self.call, d[part], n, shape[0], (self.groups, shape[0] // self.groups, col.shape[-1]),
                        self.windows.count)  # fmt: skip
            product(self.call, dy, col, ty=True, beta=float(i > 0), out=matrices)
        return out

    # The operator's own output and gradients, in its layout: a transposed convolution is the gradient of the image of a
    # convolution.

    def output_of(self, x, w):
        return self._data(w, x) if self.transposed else self._image(x, w)

    def input_of(self, w, d):
        return self._image(d, w) if self.transposed else self._data(w, d)

    def filter_of(self, x, d, shape):
        image, out = (d, x) if self.transposed else (x, d)
        found = self.dnn and self.dnn.filter_grad(image, out, shape)
        return self.filter_grad(self.first(image), self.first(out), shape) if found is None else found

    def _image(self, x, w):
        found = self.dnn and self.dnn.forward(x, w)
        return self.back(self.forward(self.first(x), w)) if found is None else found

    def _data(self, w, d):
        found = self.dnn and self.dnn.input_grad(w, d)
        return self.back(self.input_grad(w, self.first(d))) if found is None else found

    def bias_grad(self, d, like):
        """The sums of d over each channel."""
        sums = Channels(self.call, d, self.last).sums()
        return convert(self.call, sums, like.dtype.name) if sums.dtype != like.dtype else sums


class DnnConv:
    """The same by cuDNN, in the operator's layout; None where cuDNN has no algorithm."""

    def __init__(self, conv: Conv, dnn: cudnn.Dnn) -> None:
        self.call, self.dnn, self.last, self.groups = conv.call, dnn, conv.last, conv.groups
        self.image, self.grid, self.kernel, w = conv.image, conv.grid, conv.kernel, conv.windows
        n = len(self.image)
        stride, dilation, pad = w.stride[-n:], w.dilation[-n:], w.pad[-n:]
        self.stride, self.dilation, self.before = stride, dilation, pad
        reach = [d * (k - 1) + 1 for d, k in zip(dilation, self.kernel, strict=True)]
        grids = [(m + 2 * p - r) // s + 1 for m, p, r, s in zip(self.image, pad, reach, stride, strict=True)]
        #: the size of images with their padding, where it is not the same before and after each axis
        self.padded: tuple[int, ...] | None = None
        if tuple(grids) != tuple(self.grid):
            self.padded = tuple((g - 1) * s + r for g, s, r in zip(self.grid, stride, reach, strict=True))

    def _dims(self, array, size) -> tuple[int, ...]:
        return (array.shape[0], array.shape[-1] if self.last else array.shape[1], *size)

    def _run(self, function: cudnn.Function, dtype, x, w, y, given: dict) -> bool:
        pad = self.before if self.padded is None else (0,) * len(self.before)
        geometry = cudnn.Geometry(dtype.name, x, w, y, pad, self.stride, self.dilation, self.groups, self.last)
        return self.dnn.run(self.call, function, geometry, given)

    def _size(self) -> tuple[int, ...]:
        return self.image if self.padded is None else self.padded

    def _padded(self, x):
        if self.padded is None:
            return x
        return moved(self.call, x, self.padded, tuple(-p for p in self.before), self.last)

    def _ordered(self, w):
        """The filter with channels last, if those of the images are."""
        taps = math.prod(self.kernel)
        if not self.last or taps == 1 or w.shape[1] == 1:
            return w
        return turned(self.call, w, w.shape[1], taps, (w.shape[0], *self.kernel, w.shape[1]))

    def _empty(self, n: int, channels: int, size, dtype):
        return self.call.empty((n, *size, channels) if self.last else (n, channels, *size), dtype)

    def _undo(self, launched: int | None) -> None:
        """Forget what was recorded since: cuDNN has no algorithm."""
        if launched is not None:
            del self.call.launched[launched:]  # type: ignore[union-attr]

    def _mark(self) -> int | None:
        return None if self.call.launched is None else len(self.call.launched)

    def forward(self, x, w):
        mark, y = self._mark(), self._empty(x.shape[0], w.shape[0], self.grid, x.dtype)
        given = {"x": self._padded(x), "w": self._ordered(w), "y": y}
        dims = self._dims(x, self._size()), tuple(w.shape), self._dims(y, self.grid)
        return y if self._run(cudnn.FORWARD, x.dtype, *dims, given) else self._undo(mark)

    def input_grad(self, w, d):
        mark, size = self._mark(), self._size()
        dx = self._empty(d.shape[0], w.shape[1] * self.groups, size, d.dtype)
        dims = self._dims(dx, size), tuple(w.shape), self._dims(d, self.grid)
        if not self._run(cudnn.DATA, d.dtype, *dims, {"x": dx, "w": self._ordered(w), "y": d}):
            return self._undo(mark)
        return dx if self.padded is None else moved(self.call, dx, self.image, self.before, self.last)

    def filter_grad(self, x, d, shape):
        mark, dw = self._mark(), self.call.empty(shape, x.dtype)
        dims = self._dims(x, self._size()), tuple(shape), self._dims(d, self.grid)
        if not self._run(cudnn.FILTER, x.dtype, *dims, {"x": self._padded(x), "w": dw, "y": d}):
            return self._undo(mark)
        taps = math.prod(self.kernel)
        if not self.last or taps == 1 or shape[1] == 1:
            return dw
        return turned(self.call, dw, taps, shape[1], shape)


def _plain(call: Call) -> None:
    if call.attrs.get("fuse_relu_before_depthwise_conv") or call.ins.get("ResidualData") is not None:
        raise Declined


def _given(call: Call, *slots: str) -> list:
    """The operands: floating-point of one data type, with elements; those of 16 bits by cuDNN only."""
    arrays = [call.array(slot) for slot in slots]
    same_dtype(*arrays)
    halves = arrays[0].dtype.name in ("float16", "uint16")
    if (
        arrays[0].dtype.name not in cudnn.TYPES
        or any(v.size == 0 for v in arrays)
        or (halves and not call.machine.dnn())
    ):
        raise Declined
    return arrays


def _output(transposed: bool) -> Callable[[Call], dict]:
    def launch(call: Call) -> dict:
        _plain(call)
        x, w = _given(call, "Input", "Filter")
        conv = Conv(call, x.shape, w.shape, call.shape("Output"), transposed)
        y = conv.output_of(x, w)
        if call.ins.get("Bias") is not None:
            same_dtype(y, call.array("Bias"))
            add_bias(call, y, call.array("Bias"), conv.last)
        return {"Output": y}

    return launch


def _grad(transposed: bool) -> Callable[[Call], dict]:
    def launch(call: Call) -> dict:
        _plain(call)
        x, w, d = _given(call, "Input", "Filter", "Output@GRAD")
        conv, made = Conv(call, x.shape, w.shape, d.shape, transposed), {}
        if call.wanted["Input@GRAD"]:
            made["Input@GRAD"] = conv.input_of(w, d)
        if call.wanted["Filter@GRAD"]:
            made["Filter@GRAD"] = conv.filter_of(x, d, w.shape)
        if call.wanted.get("Bias@GRAD"):
            made["Bias@GRAD"] = conv.bias_grad(d, call.array("Bias"))
        return made

    return launch


def _second(transposed: bool) -> Callable[[Call], dict]:
    def launch(call: Call) -> dict:
        x, w, d = call.filled("Input", "Filter", "DOutput")
        conv, made, xp = Conv(call, x.shape, w.shape, d.shape, transposed), {}, call.xp
        ddx, ddw = call.ins.get("DDInput"), call.ins.get("DDFilter")
        if call.wanted["DDOutput"]:
            parts = [] if ddx is None else [conv.output_of(ddx, w)]
            parts += [] if ddw is None else [conv.output_of(x, ddw)]
            made["DDOutput"] = sum(parts[1:], parts[0])
        if call.wanted["DFilter"]:
            made["DFilter"] = xp.zeros(w.shape, w.dtype) if ddx is None else conv.filter_of(ddx, d, w.shape)
        if call.wanted["DInput"]:
            made["DInput"] = xp.zeros(x.shape, x.dtype) if ddw is None else conv.input_of(ddw, d)
        return made

    return launch


def _list(values, n: int) -> list[int]:
    return list(values) if len(values) == n else list(values) * n


def _unfold_windows(call: Call, shape) -> tuple[Windows, list[int]]:
    a = call.attrs
    p = _list(a["paddings"], 4) if len(a["paddings"]) in (1, 4) else [*a["paddings"], *a["paddings"]]
    kernel, stride, dilation = (_list(a[k], 2) for k in ("kernel_sizes", "strides", "dilations"))
    grid = [(shape[2 + i] + p[i] + p[i + 2] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(2)]
    parts = (shape[2:], grid, kernel, stride, p[:2], dilation)
    return Windows(*(lead(tuple(v), 0 if i == 4 else 1) for i, v in enumerate(parts))), grid


def _unfold(call: Call) -> dict:
    (x,) = call.filled("X")
    w, _ = _unfold_windows(call, x.shape)
    return {"Y": columns(call, x.reshape(-1, *w.size), w).reshape(call.shape("Y"))}


def _unfold_grad(call: Call) -> dict:
    (d,) = call.filled("Y@GRAD")
    shape = tuple(call.ins["X"].shape)
    w, _ = _unfold_windows(call, shape)
    col = d.reshape(shape[0] * shape[1], w.taps, w.count)
    return {"X@GRAD": images(call, col, w).reshape(shape)}


def _steps(call: Call, shape) -> Windows:
    """The windows of im2sequence; paddings are top, left, bottom, right."""
    a, n = call.attrs, shape[2:]
    k, s, p = a["kernels"], a["strides"], a["paddings"]
    grid = [(n[i] + p[i] + p[i + 2] - k[i]) // s[i] + 1 for i in (0, 1)]
    return Windows(*(lead(tuple(v), 0 if i == 4 else 1) for i, v in enumerate((n, grid, k, s, p[:2], (1, 1)))))


def _sequence(call: Call) -> dict:
    """im2sequence: a row for each window; the sequences are the images."""
    call.alone("X")
    (x,) = call.filled("X")
    w, (n, c) = _steps(call, x.shape), x.shape[:2]
    col = columns(call, x.reshape(-1, *w.size), w).reshape(n, c * w.taps, w.count)
    call.set_lod("Out", [[i * w.count for i in range(n + 1)]])
    return {"Out": col.swapaxes(1, 2).reshape(n * w.count, c * w.taps)}


def _sequence_grad(call: Call) -> dict:
    (d,), shape = call.filled("Out@GRAD"), tuple(call.ins["X"].shape)
    w, (n, c) = _steps(call, shape), shape[:2]
    if d.shape[0] != n * w.count:
        raise Declined
    col = d.reshape(n, w.count, c * w.taps).swapaxes(1, 2).reshape(n * c, w.taps, w.count)
    return {"X@GRAD": images(call, col, w).reshape(shape)}


def _fused(call: Call) -> dict:
    """conv2d_fusion: bias, residual and activation after the convolution."""
    x, w = call.filled("Input", "Filter")
    a = call.attrs
    if a["split_channels"] or a["activation"] not in ("identity", "relu", "relu6", "sigmoid", "tanh", ""):
        raise Declined
    conv = Conv(call, x.shape, w.shape, call.shape("Output"), False)
    y = conv.output_of(x, w)
    if call.ins.get("Bias") is not None:
        add_bias(call, y, call.array("Bias"), conv.last)
    if call.ins.get("ResidualData") is not None:
        y = y + call.array("ResidualData")
    return {"Output": _activated(call, y, a["activation"])}


def _activated(call: Call, y, way: str):
    """The activation of the fused operators."""
    xp, of = call.xp, y.dtype.type
    if way in ("relu", "relux", "relu6"):
        y = xp.maximum(y, of(0))
        return xp.minimum(y, of(6)) if way == "relu6" else y
    if way == "sigmoid":
        return 1 / (1 + xp.exp(-y))
    if way not in ("identity", "", "tanh"):
        raise Declined
    return xp.tanh(y) if way == "tanh" else y


def _inception(call: Call) -> dict:
    """conv2d_inception_fusion: the image is pooled and convolved; three more convolutions, of which one passes channels
    on to the next; the results side by side."""
    (x,), filters, biases, a = call.filled("Input"), call.ins["Filter"], call.ins["Bias"], call.attrs
    same_dtype(x, *filters, *biases)
    if len(filters) != 4 or len(biases) != 4 or a["pooling_type"] not in ("max", "avg"):
        raise Declined
    made = call.like({"ksize": (3, 3), "strides": (1, 1), "paddings": (1, 1), "exclusive": a["exclusive"]})
    pool = Pool(made, x.shape, x.shape)
    pooled = pool.maxima(x)[0] if a["pooling_type"] == "max" else pool.averages(x)
    kept = [filters[0].shape[0], filters[1].shape[0] - 2 * filters[2].shape[1]]
    kept += [filters[2].shape[0] - filters[3].shape[1], filters[3].shape[0]]
    out, temp, source, at = call.empty(call.shape("Output"), x.dtype), None, pooled, 0
    plane = x.shape[2] * x.shape[3]
    for i, (w, b) in enumerate(zip(filters, biases, strict=True)):
        wide = i > 1
        attrs = {"data_format": "NCHW", "groups": 2 if i == 2 else 1, "strides": (1, 1), "dilations": (1, 1)}
        branch = call.like({**attrs, "paddings": (1, 1) if wide else (0, 0)})
        shape = (x.shape[0], w.shape[0], *x.shape[2:])
        y = Conv(branch, source.shape, w.shape, shape, False).output_of(source, w)
        add_bias(call, y, b, False)
        y = _activated(call, y, a["activation"])
        sizes, strides = (x.shape[0], kept[i] * plane), (w.shape[0] * plane, 1)
        strided.move(call, y, out, sizes, strides, (out.shape[1] * plane, 1), to=at * plane)
        temp, at, source = y if i == 2 else temp, at + kept[i], x
        if i in (1, 2):
            shape = (x.shape[0], w.shape[0] - kept[i], *x.shape[2:])
            rest = (x.shape[0], (w.shape[0] - kept[i]) * plane)
            source = strided.gathered(call, y, rest, strides, kept[i] * plane).reshape(shape)
    return {"Output": out, "TempOutput": [pooled, temp]}


_FORWARD = ("conv2d", "depthwise_conv2d", "conv3d")
_TRANSPOSED = ("conv2d_transpose", "depthwise_conv2d_transpose", "conv3d_transpose")
LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    **dict.fromkeys(_FORWARD, _output(False)),
    **dict.fromkeys([f"{op}_grad" for op in _FORWARD], _grad(False)),
    **dict.fromkeys([f"{op}_grad_grad" for op in _FORWARD], _second(False)),
    **dict.fromkeys(_TRANSPOSED, _output(True)),
    **dict.fromkeys([f"{op}_grad" for op in _TRANSPOSED], _grad(True)),
    "conv2d_transpose_grad_grad": _second(True),
    "conv2d_fusion": _fused,
    "conv2d_inception_fusion": _inception,
    "unfold": _unfold,
    "unfold_grad": _unfold_grad,
    "im2sequence": _sequence,
    "im2sequence_grad": _sequence_grad,
}
