"""Interpolation."""

from __future__ import annotations

from ..call import Call
from ..registry import rule
from .convolution import to_first, to_last

_MODES = {"linear": "linear", "bilinear": "linear", "trilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}


def _target(c: Call, n: int) -> tuple[list[str], list[float]]:
    """The wanted sizes as int64 values of shape [1], or scales."""
    if c.has("SizeTensor"):
        return [c.reshape(c.cast(v, "int64"), [1]) for v in c.xs("SizeTensor")], []
    if c.has("OutSize"):
        sizes = c.cast(c.x("OutSize"), "int64")
        return [c.slice(sizes, [0], [i], [i + 1]) for i in range(n)], []
    scale = c.attr("scale")
    if c.has("Scale"):
        known = c.known(c.x("Scale"))
        if known is None:
            c.fail("a computed scale has no rule")
        scale = [float(s) for s in known.reshape(-1)]
    scales = [float(s) for s in (scale if isinstance(scale, (list, tuple)) else [scale])]
    if scales and scales[0] > 0:
        return [], scales * n if len(scales) == 1 else scales
    given = [int(c.attr(name)) for name in ("out_d", "out_h", "out_w")[3 - n :]]
    return [c.const([size]) for size in given], []


@rule(*(f"{mode}_interp{suffix}" for mode in _MODES for suffix in ("", "_v2")))
def _resize(c: Call) -> None:
    rank = c.rank()
    n, last, x = rank - 2, c.attr("data_layout") in ("NHWC", "NDHWC", "NWC"), c.x()
    x = to_first(c, x, rank) if last else x
    mode = _MODES[c.desc.type.partition("_")[0]]
    attrs: dict = {"mode": mode}
    if c.attr("align_corners"):
        attrs["coordinate_transformation_mode"] = "align_corners"
    elif mode == "nearest" or (mode == "linear" and c.attr("align_mode") == 1):
        attrs["coordinate_transformation_mode"] = "asymmetric"
    else:
        # an output of size 1 is the first element
        attrs["coordinate_transformation_mode"] = "half_pixel" if mode == "cubic" else "pytorch_half_pixel"
    if mode == "nearest":
        attrs["nearest_mode"] = "round_prefer_ceil" if c.attr("align_corners") else "floor"
    if mode == "cubic":
        attrs["cubic_coeff_a"] = -0.75
    sizes, scales = _target(c, n)
    empty = c.const([], "float32")
    if scales and c.desc.type.endswith("_v2") and not c.attr("align_corners"):
        out = c.op("Resize", x, empty, c.const([1.0, 1.0, *scales], "float32"), **attrs)
    else:
        shape = c.op("Shape", x) if -1 in c.shape() or last else c.const(c.shape())
        if scales:
            spatial = c.cast(c.slice(shape, [0], [2], [rank]), "float32")
            wanted = c.cast(c.op("Floor", c.op("Mul", spatial, c.const(scales, "float32"))), "int64")
        else:
            wanted = c.op("Concat", *sizes, axis=0) if len(sizes) > 1 else sizes[0]
        wanted = c.op("Concat", c.slice(shape, [0], [0], [2]), wanted, axis=0)
        out = c.op("Resize", x, empty, empty if c.opset < 13 else "", wanted, **attrs)
    c.set("Out", to_last(c, out, rank) if last else out)
