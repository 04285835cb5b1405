"""Pooling."""

from __future__ import annotations

import numpy as np

from ..call import Call
from ..registry import rule
from .convolution import both_ends, channels_last, to_first, to_last


def _bounds(size: int, n: int) -> list[tuple[int, int]]:
    """Begin and end of the windows of adaptive pooling."""
    return [(i * size // n, -(-(i + 1) * size // n)) for i in range(n)]


def _adaptive(c: Call, x: str, sizes: list[int], wanted: list[int], kind: str) -> str:
    if all(n == 1 for n in wanted):
        return c.op("GlobalMaxPool" if kind == "max" else "GlobalAveragePool", x)
    if -1 in sizes:
        c.fail("adaptive pooling to more than one element requires known sizes")
    if all(size % n == 0 for size, n in zip(sizes, wanted, strict=True)):
        window = [size // n for size, n in zip(sizes, wanted, strict=True)]
        if all(k == 1 for k in window):
            return c.op("Identity", x)
        return c.op("MaxPool" if kind == "max" else "AveragePool", x, kernel_shape=window, strides=window)
    # windows overlap: one dimension after the other
    for i, (size, n) in enumerate(zip(sizes, wanted, strict=True)):
        axis = i + 2
        if kind == "max":
            parts = [c.reduce("Max", c.slice(x, [axis], [b], [e]), [axis], True) for b, e in _bounds(size, n)]
            x = c.op("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]
            continue
        weights = np.zeros((size, n))
        for j, (begin, end) in enumerate(_bounds(size, n)):
            weights[begin:end, j] = 1 / (end - begin)
        rank = len(sizes) + 2
        perm = [a for a in range(rank) if a != axis] + [axis]
        back = [perm.index(a) for a in range(rank)]
        x = c.transpose(c.op("MatMul", c.transpose(x, perm), c.const(weights, c.dtype())), back)
    return x


def _window(c: Call, sizes: list[int], window: list[int], ceil: bool) -> dict:
    """ONNX's attributes of the window."""
    n, strides = len(sizes), [int(s) for s in c.attr("strides")]
    attrs: dict = {"kernel_shape": window, "strides": strides}
    algorithm = c.attr("padding_algorithm") if c.desc.has_attr("padding_algorithm") else "EXPLICIT"
    if algorithm == "SAME":
        return {**attrs, "auto_pad": "SAME_UPPER"}
    given = [0] * n if algorithm == "VALID" else [int(p) for p in c.attr("paddings")]
    pads = both_ends(given, n)
    if ceil and -1 not in sizes:
        # the last window ends after the input: as many more columns of padding
        for i, size in enumerate(sizes):
            whole = size + pads[i] + pads[n + i] - window[i]
            pads[n + i] += -(-whole // strides[i]) * strides[i] - whole
    elif ceil:
        attrs["ceil_mode"] = 1
    return {**attrs, "pads": pads}


def _of_counted(c: Call, sizes: list[int], attrs: dict) -> np.ndarray:
    """For each window the share of elements of the input among those that the mean counts: those up to the begin's
    padding behind the end, too."""
    if -1 in sizes:
        c.fail("exclusive=False with different paddings at both ends requires known sizes")
    n, ratio = len(sizes), np.ones([1, 1, *[1] * len(sizes)])
    for i, size in enumerate(sizes):
        k, step, begin = attrs["kernel_shape"][i], attrs["strides"][i], attrs["pads"][i]
        count = (size + begin + attrs["pads"][n + i] - k) // step + 1
        first = np.arange(count) * step - begin
        last = np.minimum(first + k, size + begin)
        real = np.minimum(last, size) - np.maximum(first, 0)
        ratio = ratio * (real / (last - first)).reshape([-1 if a == i + 2 else 1 for a in range(n + 2)])
    return ratio


@rule("pool2d", "pool3d")
def _pool(c: Call) -> None:
    rank, last, kind = c.rank(), channels_last(c), c.attr("pooling_type")
    x, sizes = c.x(), c.shape()[1:-1] if last else c.shape()[2:]
    x = to_first(c, x, rank) if last else x
    window = [int(k) for k in c.attr("ksize")]
    if c.attr("global_pooling"):
        out = c.op("GlobalMaxPool" if kind == "max" else "GlobalAveragePool", x)
    elif c.attr("adaptive"):
        out = _adaptive(c, x, sizes, window, kind)
    else:
        attrs = _window(c, sizes, window, c.attr("ceil_mode"))
        pads = attrs.get("pads", [])
        ratio = None
        if kind == "avg":
            even = pads[: rank - 2] == pads[rank - 2 :]
            attrs["count_include_pad"] = 0 if c.attr("exclusive") or not even else 1
            if not even and not c.attr("exclusive"):
                ratio = _of_counted(c, sizes, attrs)
        elif any(p >= k for p, k in zip(pads, window * 2, strict=False)):
            low = c.const(np.finfo("float32").min, c.dtype())
            x = c.op("Pad", x, c.const([0, 0, *pads[: rank - 2], 0, 0, *pads[rank - 2 :]]), low)
            attrs["pads"] = [0] * len(pads)
        if kind == "avg" and any(p >= k for p, k in zip(pads, window * 2, strict=False)):
            c.fail("a padding as wide as the window")
        out = c.op("MaxPool" if kind == "max" else "AveragePool", x, **attrs)
        out = out if ratio is None else c.op("Mul", out, c.const(ratio, c.dtype()))
    c.set("Out", to_last(c, out, rank) if last else out)


@rule("max_pool2d_with_index", "max_pool3d_with_index")
def _pool_with_index(c: Call) -> None:
    sizes, window, rank = c.shape()[2:], [int(k) for k in c.attr("ksize")], c.rank()
    if c.attr("adaptive"):
        if c.attr("global_pooling") or -1 in sizes or any(size % n for size, n in zip(sizes, window, strict=True)):
            c.fail("adaptive pooling with indices requires sizes that the output divides")
        window = [size // n for size, n in zip(sizes, window, strict=True)]
        attrs: dict = {"kernel_shape": window, "strides": window}
    elif c.attr("global_pooling"):
        if -1 in sizes:
            c.fail("global pooling with indices requires known sizes")
        attrs = {"kernel_shape": sizes, "strides": [1] * len(sizes)}
    else:
        attrs = _window(c, sizes, window, False)
    out, index = c.ops("MaxPool", c.x(), outputs=2, **attrs)
    # ONNX counts over the whole tensor, the operator within a channel
    area = c.op("ReduceProd", c.slice(c.sizes(), [0], [2], [rank]), keepdims=0)
    c.set("Out", out)
    c.set("Mask", c.cast(c.op("Mod", index, area), "int32"))


@rule("unpool")
def _unpool(c: Call) -> None:
    out = c.out_shape("Out")
    if -1 in out[1:]:
        c.fail("sizes have to be known")
    area = out[2] * out[3]
    zeros = c.op("Expand", c.like(0.0), c.op("Concat", c.size(0), c.const([out[1], area]), axis=0))
    index, values = c.reshape(c.cast(c.x("Indices"), "int64"), [0, 0, -1]), c.reshape(c.x(), [0, 0, -1])
    c.set("Out", c.reshape(c.op("ScatterElements", zeros, index, values, axis=2), [0, *out[1:]]))


@rule("spp")
def _spp(c: Call) -> None:
    kind, sizes, parts = c.attr("pooling_type"), c.shape()[2:], []
    if -1 in c.shape()[1:]:
        c.fail("sizes have to be known")
    for level in range(c.attr("pyramid_height")):
        bins = 2**level
        window = [-(-size // bins) for size in sizes]
        pads = [(k * bins - size + 1) // 2 for k, size in zip(window, sizes, strict=True)]
        attrs: dict = {"kernel_shape": window, "strides": window, "pads": [*pads, *pads]}
        if kind == "avg":
            attrs["count_include_pad"] = 0
        pooled = c.op("MaxPool" if kind == "max" else "AveragePool", c.x(), **attrs)
        parts.append(c.op("Flatten", pooled, axis=1))
    c.set("Out", c.op("Concat", *parts, axis=1) if len(parts) > 1 else parts[0])
