"""Simulated quantization, as fine-tuned models contain it."""

from __future__ import annotations

from ..call import Call
from ..registry import rule


def _levels(c: Call, x: str, scale: str) -> str:
    """x in integral levels of the scale; halves go to even levels, as in ONNX's Round."""
    top = c.like(2 ** (c.attr("bit_length") - 1) - 1)
    scale = c.op("Max", scale, c.like(1e-30))  # 0 would give NaN
    bounded = c.op("Max", c.op("Min", x, scale), c.op("Neg", scale))
    return c.op("Round", c.op("Mul", c.op("Div", bounded, scale), top))


def _values(c: Call, levels: str, scale: str) -> str:
    return c.op("Div", c.op("Mul", levels, scale), c.like(2 ** (c.attr("bit_length") - 1) - 1))


def _channel(c: Call, value: str) -> str:
    """One value for each channel, in the shape of X."""
    axis = c.attr("quant_axis")
    return c.reshape(value, [-1 if a == axis else 1 for a in range(c.rank())])


@rule(
    "fake_quantize_abs_max",
    "fake_quantize_dequantize_abs_max",
    "fake_channel_wise_quantize_abs_max",
    "fake_channel_wise_quantize_dequantize_abs_max",
)
def _abs_max(c: Call) -> None:
    size = c.op("Abs", c.x())
    if "channel_wise" in c.desc.type:
        axes = [a for a in range(c.rank()) if a != c.attr("quant_axis")]
        if c.desc.has_attr("is_test") and c.attr("is_test"):
            out_scale = c.value(c.desc.output("OutScale")[0])  # the scales of training
        else:
            out_scale = c.reduce("Max", size, axes, False)
        scale = _channel(c, out_scale)
    else:
        out_scale = scale = c.reshape(c.reduce("Max", size, None, False), [1])
    levels = _levels(c, c.x(), scale)
    c.set("Out", _values(c, levels, scale) if "dequantize" in c.desc.type else levels)
    c.set("OutScale", out_scale)


@rule(
    "fake_quantize_range_abs_max",
    "fake_quantize_moving_average_abs_max",
    "fake_quantize_dequantize_moving_average_abs_max",
)
def _by_known_scale(c: Call) -> None:
    if not c.attr("is_test"):
        c.fail("it has to be in test mode (is_test, Program.clone(for_test=True), Layer.eval())")
    scale = c.flat(c.x("InScale"))
    levels = _levels(c, c.x(), scale)
    c.set("Out", _values(c, levels, scale) if "dequantize" in c.desc.type else levels)
    c.set("OutScale", scale)


@rule("fake_dequantize_max_abs")
def _dequantize(c: Call) -> None:
    c.set("Out", c.op("Div", c.op("Mul", c.x(), c.flat(c.x("Scale"))), c.like(c.attr("max_range"))))


@rule("dequantize_abs_max")
def _dequantize_int8(c: Call) -> None:
    wide = c.cast(c.x(), "float32")
    c.set("Out", c.op("Div", c.op("Mul", wide, c.flat(c.x("Scale"))), c.const(c.attr("max_range"), "float32")))


@rule("fake_channel_wise_dequantize_max_abs")
def _dequantize_channels(c: Call) -> None:
    scales, bits = c.xs("Scales"), c.attr("quant_bits")
    axis, rank = c.attr("quant_axis"), c.rank()
    if len(scales) == 1:
        scale = c.reshape(scales[0], [-1 if a == axis else 1 for a in range(rank)])
        factor = c.op("Div", scale, c.like(2 ** (bits[0] - 1) - 1))
    else:
        scale = c.reshape(scales[0], [1, -1] + [1] * (rank - 2))
        top = (2 ** (bits[0] - 1) - 1) * (2 ** (bits[1] - 1) - 1)
        factor = c.op("Div", c.op("Mul", scale, c.flat(scales[1])), c.like(top))
    c.set("Out", c.op("Mul", c.x(), factor))
