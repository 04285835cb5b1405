"""Convolutions of two and three axes, depthwise and transposed, with first and second gradients: patches times filters
by cuBLAS, a part of the batch at a time."""

from __future__ import annotations

from collections.abc import Callable

from ..call import Call, Declined
from .patches import Windows, columns, images, lead, paddings

# Elements of patches that are held at once.
MOST = 1 << 26


class Conv:
    """The convolution whose input has `size` and whose filter is [out channels, in channels / groups, ..]."""

    def __init__(self, call: Call, x_shape, filter_shape, out_shape, transposed: bool) -> None:
        a, self.call, self.xp, self.transposed = call.attrs, call, call.xp, transposed
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

    def first(self, x):
        """With channels first."""
        return self.xp.moveaxis(x, -1, 1) if self.last else x

    def back(self, x):
        return self.xp.ascontiguousarray(self.xp.moveaxis(x, 1, -1)) if self.last else x

    def _parts(self, batch: int, channels: int):
        each = max(1, MOST // max(1, channels * self.windows.taps * self.windows.count))
        return [slice(i, min(i + each, batch)) for i in range(0, batch, each)]

    def _columns(self, x):
        """[batch, groups, channels / groups * taps, windows]"""
        b, c = x.shape[:2]
        col = columns(self.call, x.reshape(b * c, *self.windows.size), self.windows)
        return col.reshape(b, self.groups, c // self.groups * self.windows.taps, self.windows.count)

    def _matrix(self, w):
        """[1, groups, out channels / groups, in channels / groups * taps]"""
        return w.reshape(1, self.groups, w.shape[0] // self.groups, -1)

    def forward(self, x, w):
        """The output, channels first."""
        parts, m = [], self._matrix(w)
        for part in self._parts(x.shape[0], x.shape[1]):
            y = self.xp.matmul(m, self._columns(x[part]))
            parts.append(y.reshape(y.shape[0], w.shape[0], *self.grid))
        return parts[0] if len(parts) == 1 else self.xp.concatenate(parts, 0)

    def input_grad(self, w, d):
        """The gradient of the image from that of the output."""
        parts, m, channels = [], self._matrix(w).swapaxes(-1, -2), w.shape[1] * self.groups
        for part in self._parts(d.shape[0], channels):
            dy = d[part]
            b = dy.shape[0]
            dy = self.xp.ascontiguousarray(dy).reshape(b, self.groups, -1, self.windows.count)
            col = self.xp.matmul(m, dy).reshape(b * channels, self.windows.taps, self.windows.count)
            parts.append(images(self.call, col, self.windows).reshape(b, channels, *self.image))
        return parts[0] if len(parts) == 1 else self.xp.concatenate(parts, 0)

    def filter_grad(self, x, d, shape):
        """The gradient of the filter from image and output gradient; images are added in their order."""
        total = None
        for part in self._parts(x.shape[0], x.shape[1]):
            dy = self.xp.ascontiguousarray(d[part])
            dy = dy.reshape(dy.shape[0], self.groups, -1, self.windows.count)
            g = self.xp.matmul(dy, self._columns(x[part]).swapaxes(-1, -2)).sum(axis=0)
            total = g if total is None else total + g
        return total.reshape(shape)

    # The operator's own output and gradients: a transposed convolution is the gradient of the image of a convolution.

    def output_of(self, x, w):
        return self.input_grad(w, x) if self.transposed else self.forward(x, w)

    def input_of(self, w, d):
        return self.forward(d, w) if self.transposed else self.input_grad(w, d)

    def filter_of(self, x, d, shape):
        return self.filter_grad(d, x, shape) if self.transposed else self.filter_grad(x, d, shape)


def _bias(conv: Conv, y, bias):
    return y if bias is None else y + bias.reshape(1, -1, *(1,) * (y.ndim - 2))


def _plain(call: Call) -> None:
    if call.attrs.get("fuse_relu_before_depthwise_conv") or call.ins.get("ResidualData") is not None:
        raise Declined


def _output(transposed: bool) -> Callable[[Call], dict]:
    def launch(call: Call) -> dict:
        _plain(call)
        x, w = call.filled("Input", "Filter")
        conv = Conv(call, x.shape, w.shape, call.shape("Output"), transposed)
        y = _bias(conv, conv.output_of(conv.first(x), w), call.ins.get("Bias"))
        return {"Output": conv.back(y)}

    return launch


def _grad(transposed: bool) -> Callable[[Call], dict]:
    def launch(call: Call) -> dict:
        _plain(call)
        x, w, d = call.filled("Input", "Filter", "Output@GRAD")
        conv, made = Conv(call, x.shape, w.shape, d.shape, transposed), {}
        first, dy = conv.first(x), conv.first(d)
        if call.wanted["Input@GRAD"]:
            made["Input@GRAD"] = conv.back(conv.input_of(w, dy))
        if call.wanted["Filter@GRAD"]:
            made["Filter@GRAD"] = conv.filter_of(first, dy, w.shape)
        if call.wanted.get("Bias@GRAD"):
            made["Bias@GRAD"] = dy.sum(axis=(0, *range(2, dy.ndim)))
        return made

    return launch


def _second(transposed: bool) -> Callable[[Call], dict]:
    def launch(call: Call) -> dict:
        x, w, d = call.filled("Input", "Filter", "DOutput")
        conv, made, xp = Conv(call, x.shape, w.shape, d.shape, transposed), {}, call.xp
        first, dy = conv.first(x), conv.first(d)
        ddx, ddw = call.ins.get("DDInput"), call.ins.get("DDFilter")
        ddx = None if ddx is None else conv.first(ddx)
        if call.wanted["DDOutput"]:
            parts = [] if ddx is None else [conv.output_of(ddx, w)]
            parts += [] if ddw is None else [conv.output_of(first, ddw)]
            made["DDOutput"] = conv.back(sum(parts[1:], parts[0]))
        if call.wanted["DFilter"]:
            made["DFilter"] = xp.zeros(w.shape, w.dtype) if ddx is None else conv.filter_of(ddx, dy, w.shape)
        if call.wanted["DInput"]:
            made["DInput"] = xp.zeros(x.shape, x.dtype) if ddw is None else conv.back(conv.input_of(ddw, dy))
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
    a, xp = call.attrs, call.xp
    if a["split_channels"] or a["activation"] not in ("identity", "relu", "relu6", "sigmoid", "tanh", ""):
        raise Declined
    conv = Conv(call, x.shape, w.shape, call.shape("Output"), False)
    y = _bias(conv, conv.forward(conv.first(x), w), call.ins.get("Bias"))
    if call.ins.get("ResidualData") is not None:
        y = y + call.array("ResidualData")
    zero, way = y.dtype.type(0), a["activation"]
    if way in ("relu", "relu6"):
        y = xp.maximum(y, zero)
        y = xp.minimum(y, y.dtype.type(6)) if way == "relu6" else y
    elif way == "sigmoid":
        y = 1 / (1 + xp.exp(-y))
    elif way == "tanh":
        y = xp.tanh(y)
    return {"Output": conv.back(y)}


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
    "unfold": _unfold,
    "unfold_grad": _unfold_grad,
    "im2sequence": _sequence,
    "im2sequence_grad": _sequence_grad,
}
