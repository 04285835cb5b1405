"""Parts of tensors: slice, pad, crop, and assignment to a part."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..call import Call
from ..registry import rule

_FAR = 2**62


@rule("slice")
def _slice(c: Call) -> None:
    _sliced(c, [1] * len(c.attr("axes")))


@rule("strided_slice")
def _strided_slice(c: Call) -> None:
    _sliced(c, c.ints("strides", "StridesTensor", "StridesTensorList"))


def _ends_of_one(c: Call, axes: list[int], gone: list[int], starts: list[int] | str, ends: list[int] | str) -> Any:
    """The ends; of a dimension of which one element is taken, the end after its start: -1 is the last element."""
    if isinstance(starts, list) and isinstance(ends, list):
        pairs = zip(axes, starts, ends, strict=True)
        return [_FAR if a in gone and s == -1 and e == 0 else e for a, s, e in pairs]
    first, last = (c.const(v) if isinstance(v, list) else v for v in (starts, ends))
    at_end = c.op("And", c.op("Equal", first, c.const(-1)), c.const([a in gone for a in axes], "bool"))
    return c.op("Where", at_end, c.const(_FAR), last)


def _sliced(c: Call, strides: list[int] | str) -> None:
    axes = [int(a) for a in c.attr("axes")]
    starts = c.ints("starts", "StartsTensor", "StartsTensorList")
    ends = c.ints("ends", "EndsTensor", "EndsTensorList")
    if isinstance(strides, list) and isinstance(ends, list):
        # an end before the first element, in a step backwards
        sizes = [c.shape("Input")[a] for a in axes]
        ends = [
            -_FAR if s < 0 and e < 0 and n != -1 and e < -n else e for e, s, n in zip(ends, strides, sizes, strict=True)
        ]
    gone = [int(a) for a in c.attr("decrease_axis")]
    if len({a % c.rank("Input") for a in axes}) < len(axes):
        c.fail("an axis occurs more than once")
    if gone:
        ends = _ends_of_one(c, axes, gone, starts, ends)
    plain = isinstance(strides, list) and all(s == 1 for s in strides)
    out = c.slice(c.x("Input"), axes, starts, ends, None if plain else strides)
    if gone and len(gone) == c.rank("Input"):
        out = c.reshape(out, [1])
    else:
        out = c.squeeze(out, gone)
    c.set("Out", out)


def _padded(c: Call, x: str, pads: list[int] | str, mode: str, value: float) -> str:
    pads = pads if isinstance(pads, str) else c.const(pads)
    if mode == "constant":
        return c.op("Pad", x, pads, c.like(value))
    return c.op("Pad", x, pads, mode=mode)


@rule("pad")
def _pad(c: Call) -> None:
    given = [int(p) for p in c.attr("paddings")]
    c.set("Out", _padded(c, c.x(), [*given[::2], *given[1::2]], "constant", c.attr("pad_value")))


@rule("pad_constant_like")
def _pad_like(c: Call) -> None:
    missing = c.op("Sub", c.sizes("X"), c.sizes("Y"))
    pads = c.op("Concat", c.const([0] * c.rank()), missing, axis=0)
    c.set("Out", c.op("Pad", c.x("Y"), pads, c.like(c.attr("pad_value"), "Y")))


_MODES = {"constant": "constant", "reflect": "reflect", "edge": "edge", "replicate": "edge"}


@rule("pad2d", "pad3d")
def _pad_spatial(c: Call) -> None:
    two = c.desc.type == "pad2d"
    n = 2 if two else 3
    given = c.constant_ints("paddings", c.ints("paddings", "Paddings"))
    # pad2d: pairs from the first dimension on; pad3d: from the last one
    pairs = [(given[2 * i], given[2 * i + 1]) for i in range(n)]
    pairs = pairs if two else pairs[::-1]
    last = c.attr("data_format") in ("NHWC", "NDHWC")
    whole = [(0, 0), *pairs, (0, 0)] if last else [(0, 0), (0, 0), *pairs]
    mode, value = c.attr("mode"), c.attr("pad_value" if two else "value")
    if mode == "circular":
        out = c.x()
        for axis, (before, after) in enumerate(whole):
            parts = [out]
            size = c.shape()[axis]
            if size != -1 and max(before, after) > size:
                c.fail("circular padding wider than the input has no rule")
            if before:
                parts.insert(0, c.slice(out, [axis], [-before], [_FAR]))
            if after:
                parts.append(c.slice(out, [axis], [0], [after]))
            out = c.op("Concat", *parts, axis=axis) if len(parts) > 1 else out
        c.set("Out", out if out != c.x() else c.op("Identity", out))
        return
    pads = [p[0] for p in whole] + [p[1] for p in whole]
    c.set("Out", _padded(c, c.x(), pads, _MODES[mode], value))


@rule("crop", "crop_tensor")
def _crop(c: Call) -> None:
    rank = c.rank()
    tensors = c.desc.type == "crop_tensor"
    offsets = c.ints("offsets", "Offsets", "OffsetsTensor" if tensors else "") or [0] * rank
    if tensors:
        shape = c.ints("shape", "Shape", "ShapeTensor")
    elif c.has("Y"):
        shape = c.shape("Y") if -1 not in c.shape("Y") else c.sizes("Y")
    else:
        shape = [int(n) for n in c.attr("shape")]
    if isinstance(offsets, list) and isinstance(shape, list):
        ends: list[int] | str = [_FAR if n == -1 else o + n for o, n in zip(offsets, shape, strict=True)]
    else:
        offset = c.const(offsets) if isinstance(offsets, list) else offsets
        if isinstance(shape, list):
            shape = c.const([_FAR // 2 if n == -1 else n for n in shape])
        ends = c.op("Add", offset, shape)
    c.set("Out", c.slice(c.x(), list(range(rank)), offsets, ends))


@rule("set_value")
def _set_value(c: Call) -> None:
    shape = c.shape("Input")
    axes, starts, ends = c.attr("axes"), c.attr("starts"), c.attr("ends")
    if any(shape[a] == -1 for a in axes):
        c.fail("sizes of the assigned dimensions have to be known")
    rest = [a for a in range(len(shape)) if a not in axes]
    if any(shape[a] == -1 for a in rest):
        c.fail("sizes have to be known")
    ranges = [range(n) for n in shape]
    for axis, start, end in zip(axes, starts, ends, strict=True):
        ranges[axis] = range(*slice(int(start), int(end)).indices(shape[axis]))
    index = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1)
    sizes = list(index.shape[:-1])
    if c.has("ValueTensor"):
        value = c.x("ValueTensor")
    else:
        names = {
            "bool": "bool_values",
            "int32": "int32_values",
            "int64": "int64_values",
            "float32": "fp32_values",
            "float64": "fp64_values",
        }
        dtype = c.dtype("Input")
        if dtype not in names:
            c.fail(f"values of type {dtype} have no rule")
        value = c.const(np.array(c.attr(names[dtype])).reshape(c.attr("shape")), dtype)
    value = c.op("Expand", value, c.const(sizes))
    c.set("Out", c.op("ScatterND", c.x("Input"), c.const(index), value))
