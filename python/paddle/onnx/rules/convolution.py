"""Convolutions and transposed convolutions."""

from __future__ import annotations

from ..call import Call
from ..registry import rule
from .activation import activate


def channels_last(c: Call, attr: str = "data_format") -> bool:
    return c.attr(attr) in ("NHWC", "NDHWC", "NWC")


def to_first(c: Call, x: str, rank: int) -> str:
    """Channels from the last to the second dimension."""
    return c.transpose(x, [0, rank - 1, *range(1, rank - 1)])


def to_last(c: Call, x: str, rank: int) -> str:
    """Channels from the second to the last dimension."""
    return c.transpose(x, [0, *range(2, rank), 1])


def both_ends(paddings: list[int], n: int) -> list[int]:
    """Paddings in ONNX's order, all begins before all ends; the operator has one for each dimension, or pairs."""
    if len(paddings) == n:
        return [*paddings, *paddings]
    return [*paddings[::2], *paddings[1::2]]


def _refuse_fusions(c: Call) -> None:
    for name in ("fuse_relu", "fuse_brelu", "fuse_residual_connection", "fuse_relu_before_depthwise_conv"):
        if c.desc.has_attr(name) and c.attr(name):
            c.fail(f"the fusion {name} has no rule")


def _window(c: Call, n: int) -> dict:
    """ONNX's attributes of the window."""
    algorithm, dilations = c.attr("padding_algorithm"), [int(d) for d in c.attr("dilations")]
    attrs: dict = {"strides": [int(s) for s in c.attr("strides")], "group": int(c.attr("groups"))}
    if algorithm == "SAME":
        return {**attrs, "auto_pad": "SAME_UPPER", "dilations": [1] * n}
    pads = [0] * (2 * n) if algorithm == "VALID" else both_ends([int(p) for p in c.attr("paddings")], n)
    return {**attrs, "pads": pads, "dilations": dilations}


@rule("conv2d", "depthwise_conv2d", "conv3d", "conv2d_fusion")
def _conv(c: Call) -> None:
    rank = c.rank("Input")
    fusion = c.desc.type == "conv2d_fusion"
    if not fusion:
        _refuse_fusions(c)
    elif c.attr("split_channels"):
        c.fail("split channels have no rule")
    last, x = channels_last(c), c.x("Input")
    x = to_first(c, x, rank) if last else x
    bias = c.flat(c.x("Bias")) if c.has("Bias") else ""
    sizes = c.shape("Input")[1:-1] if last else c.shape("Input")[2:]
    window, pads = _window(c, rank - 2), _window(c, rank - 2).get("pads", [])
    for i, (size, k) in enumerate(zip(sizes, c.shape("Filter")[2:], strict=True)):
        if pads and size != -1 and size + pads[i] + pads[rank - 2 + i] < window["dilations"][i] * (k - 1) + 1:
            c.fail("the filter is larger than the padded input")
    out = c.op("Conv", x, c.x("Filter"), bias, kernel_shape=c.shape("Filter")[2:], **window)
    if c.has("ResidualData"):
        out = c.op("Add", out, c.x("ResidualData"))
    if fusion:
        out = activate(c, c.attr("activation"), out)
    c.set("Output", to_last(c, out, rank) if last else out)


@rule("conv2d_transpose", "depthwise_conv2d_transpose", "conv3d_transpose")
def _conv_transpose(c: Call) -> None:
    if c.desc.has_attr("fuse_relu"):
        _refuse_fusions(c)
    rank = c.rank("Input")
    n = rank - 2
    last, x, shape = channels_last(c), c.x("Input"), c.shape("Input")
    if last:
        x, shape = to_first(c, x, rank), [shape[0], shape[-1], *shape[1:-1]]
    attrs, kernel = _window(c, n), c.shape("Filter")[2:]
    if attrs.pop("auto_pad", None):
        if -1 in shape[2:]:
            c.fail("padding SAME requires known sizes")
        totals = [
            max((-(-size // stride) - 1) * stride + k - size, 0)
            for size, stride, k in zip(shape[2:], attrs["strides"], kernel, strict=True)
        ]
        attrs["pads"] = [t // 2 for t in totals] + [t - t // 2 for t in totals]
    extra = [int(e) for e in c.attr("output_padding")] or [0] * n
    if len(extra) == 1:
        extra *= n
    wanted = c.attr("output_size")
    if wanted:
        if -1 in shape[2:]:
            c.fail("output_size requires known sizes")
        extra = []
        for i, (size, k) in enumerate(zip(shape[2:], kernel, strict=True)):
            pads = attrs["pads"][i] + attrs["pads"][n + i]
            least = (size - 1) * attrs["strides"][i] - pads + attrs["dilations"][i] * (k - 1) + 1
            extra.append(int(wanted[i] if len(wanted) == n else wanted[0]) - least)
    bias = c.flat(c.x("Bias")) if c.has("Bias") else ""
    out = c.op("ConvTranspose", x, c.x("Filter"), bias, kernel_shape=kernel, output_padding=extra, **attrs)
    c.set("Output", to_last(c, out, rank) if last else out)


@rule("unfold")
def _unfold(c: Call) -> None:
    kernel, strides, dilations = c.attr("kernel_sizes"), c.attr("strides"), c.attr("dilations")
    top, left, bottom, right = c.attr("paddings")
    _, channels, height, width = c.shape()
    if -1 in (channels, height, width):
        c.fail("sizes have to be known")
    padded = c.op("Pad", c.x(), c.const([0, 0, top, left, 0, 0, bottom, right]), c.like(0.0))
    rows = (height + top + bottom - dilations[0] * (kernel[0] - 1) - 1) // strides[0] + 1
    columns = (width + left + right - dilations[1] * (kernel[1] - 1) - 1) // strides[1] + 1
    parts = []
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            starts = [i * dilations[0], j * dilations[1]]
            ends = [starts[0] + (rows - 1) * strides[0] + 1, starts[1] + (columns - 1) * strides[1] + 1]
            part = c.slice(padded, [2, 3], starts, ends, list(strides))
            parts.append(c.unsqueeze(part, [2]))
    together = c.op("Concat", *parts, axis=2) if len(parts) > 1 else parts[0]
    c.set("Y", c.reshape(together, [0, channels * kernel[0] * kernel[1], rows * columns]))
