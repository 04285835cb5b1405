"""Shapes: reshape, transpose, join, part, repeat."""

from __future__ import annotations

from ..call import Call
from ..registry import rule


@rule("reshape", "reshape2")
def _reshape(c: Call) -> None:
    shape = c.ints("shape", "Shape", "ShapeTensor")
    c.set("Out", c.reshape(c.x(), shape))


@rule("squeeze", "squeeze2")
def _squeeze(c: Call) -> None:
    shape = c.shape()
    axes = [a % len(shape) for a in c.attr("axes")]
    if -1 in (shape[a] for a in axes) or (not axes and -1 in shape):
        c.fail("whether an unknown size is 1 is not known")
    axes = [a for a in axes if shape[a] == 1] if axes else [a for a, n in enumerate(shape) if n == 1]
    if len(axes) == len(shape):
        c.set("Out", c.reshape(c.x(), [1]))
    else:
        c.set("Out", c.squeeze(c.x(), sorted(set(axes))) if axes else c.op("Identity", c.x()))


@rule("unsqueeze", "unsqueeze2")
def _unsqueeze(c: Call) -> None:
    axes = c.constant_ints("axes", c.ints("axes", "AxesTensor", "AxesTensorList"))
    out, rank = c.x(), c.rank()
    for axis in axes:  # each one in the result of the one before
        rank += 1
        out = c.unsqueeze(out, [axis % rank])
    c.set("Out", out)


@rule("flatten", "flatten2")
def _flatten(c: Call) -> None:
    c.set("Out", c.op("Flatten", c.x(), axis=c.attr("axis")))


@rule("flatten_contiguous_range")
def _flatten_range(c: Call) -> None:
    shape, rank = c.shape(), c.rank()
    start, stop = c.attr("start_axis") % rank, c.attr("stop_axis") % rank
    behind = shape[stop + 1 :]
    if -1 not in behind:
        c.set("Out", c.reshape(c.x(), [0] * start + [-1] + behind))
        return
    sizes = c.sizes()
    tail = c.slice(sizes, [0], [stop + 1], [rank])
    parts = [c.const([0] * start + [-1]), tail]
    c.set("Out", c.reshape(c.x(), c.op("Concat", *parts, axis=0)))


@rule("transpose", "transpose2")
def _transpose(c: Call) -> None:
    rank = c.rank()
    c.set("Out", c.op("Transpose", c.x(), perm=[a % rank for a in c.attr("axis")]))


@rule("concat")
def _concat(c: Call) -> None:
    axis = c.constant_ints("the axis", c.ints("axis", "AxisTensor"))[0]
    values = c.xs("X")
    c.set("Out", c.op("Concat", *values, axis=axis % c.rank()) if len(values) > 1 else c.op("Identity", values[0]))


@rule("split")
def _split(c: Call) -> None:
    axis = c.constant_ints("the axis", c.ints("axis", "AxisTensor"))[0] % c.rank()
    size, count = c.shape()[axis], len(c.desc.output("Out"))
    sections = c.constant_ints("sections", c.ints("sections", "", "SectionsTensorList"))
    if not sections:
        if size == -1:
            c.fail("equal parts of an unknown size")
        sections = [size // count] * count
    elif -1 in sections:
        if size == -1:
            if sections[-1] != -1:
                c.fail("a part of unknown size of an unknown size")
            bounds = [sum(sections[:i]) for i in range(count)]
            ends = [*bounds[1:], 2**62]
            c.set_all("Out", [c.slice(c.x(), [axis], [b], [e]) for b, e in zip(bounds, ends, strict=True)])
            return
        sections[sections.index(-1)] = size - sum(n for n in sections if n != -1)
    values = c.split(c.x(), sections, axis)
    c.set_all("Out", values if count > 1 else [c.op("Identity", values[0])])


@rule("unbind", "unstack")
def _unbind(c: Call) -> None:
    axis, count = c.attr("axis") % c.rank(), len(c.desc.output("Out" if c.desc.type == "unbind" else "Y"))
    parts = [c.squeeze(part, [axis]) for part in c.split(c.x(), [1] * count, axis)]
    c.set_all("Out" if c.desc.type == "unbind" else "Y", parts)


@rule("stack")
def _stack(c: Call) -> None:
    axis = c.attr("axis") % (c.rank() + 1)
    values = [c.unsqueeze(x, [axis]) for x in c.xs("X")]
    c.set("Y", c.op("Concat", *values, axis=axis) if len(values) > 1 else values[0])


@rule("shape")
def _shape(c: Call) -> None:
    c.set("Out", c.cast(c.sizes("Input"), "int32"))


@rule("size")
def _size(c: Call) -> None:
    c.set("Out", c.reshape(c.op("Size", c.x("Input")), [1]))


def _repeated(c: Call, times: list[int] | str) -> str:
    """X repeated along its last dimensions."""
    x, rank = c.x(), c.rank()
    if isinstance(times, list):
        if len(times) > rank:
            x = c.unsqueeze(x, list(range(len(times) - rank)))
        return c.op("Tile", x, c.const([1] * (rank - len(times)) + times))
    return c.op("Tile", x, times)


@rule("expand")
def _expand(c: Call) -> None:
    c.set("Out", _repeated(c, c.ints("expand_times", "ExpandTimes", "expand_times_tensor")))


@rule("tile")
def _tile(c: Call) -> None:
    c.set("Out", _repeated(c, c.ints("repeat_times", "RepeatTimes", "repeat_times_tensor")))


@rule("expand_v2")
def _expand_v2(c: Call) -> None:
    shape = c.ints("shape", "Shape", "expand_shapes_tensor")
    if isinstance(shape, list):
        # -1 keeps a size, as 1 does in ONNX
        shape = c.const([1 if n == -1 else n for n in shape])
    else:
        shape = c.op("Max", shape, c.const([1])) if c.opset >= 12 else c.op("Abs", shape)
    c.set("Out", c.op("Expand", c.x(), shape))


@rule("expand_as_v2")
def _expand_as_v2(c: Call) -> None:
    shape = [int(n) for n in c.attr("target_shape")]
    c.set("Out", c.op("Expand", c.x(), c.const([1 if n == -1 else n for n in shape])))


@rule("expand_as")
def _expand_as(c: Call) -> None:
    times = c.op("Div", c.sizes("target_tensor"), c.sizes())
    c.set("Out", c.op("Tile", c.x(), times))


@rule("meshgrid")
def _meshgrid(c: Call) -> None:
    values, n = c.xs("X"), len(c.names("X"))
    sizes = c.op("Concat", *(c.op("Shape", v) for v in values), axis=0) if n > 1 else c.op("Shape", values[0])
    for i, value in enumerate(values):
        row = c.reshape(value, [1] * i + [-1] + [1] * (n - 1 - i))
        c.set("Out", c.op("Expand", row, sizes), i)


@rule("reverse", "flip")
def _flip(c: Call) -> None:
    given = [a % c.rank() for a in c.attr("axis")]
    axes = sorted(a for a in set(given) if c.desc.type == "flip" or given.count(a) % 2)
    n = len(axes)
    c.set("Out", c.slice(c.x(), axes, [-1] * n, [-(2**62)] * n, [-1] * n))


@rule("roll")
def _roll(c: Call) -> None:
    shifts, axes, x = c.attr("shifts"), c.attr("axis"), c.x()
    flat = not axes
    shape = c.shape()
    if flat:
        if -1 in shape:
            c.fail("a shift of all elements requires known sizes")
        size = 1
        for n in shape:
            size *= n
        x, axes, sizes = c.flat(x), [0], [size]
    else:
        axes = [a % len(shape) for a in axes]
        sizes = [shape[a] for a in axes]
    for shift, axis, size in zip(shifts, axes, sizes, strict=True):
        if size != -1:
            shift = shift % size if size else 0
        if shift == 0:
            continue
        cut = -shift
        parts = [c.slice(x, [axis], [cut], [2**62]), c.slice(x, [axis], [0], [cut])]
        x = c.op("Concat", *parts, axis=axis)
    c.set("Out", c.reshape(x, shape) if flat else x if x != c.x() else c.op("Identity", x))
