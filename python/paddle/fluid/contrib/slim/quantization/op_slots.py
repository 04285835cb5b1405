"""The quantized inputs and outputs of operators: those in the main slots, not sizes or axes given as tensors."""

from __future__ import annotations

from typing import Any

from paddle._basics.flags import is_18

__all__: list[str] = []

# input slots -> output slots: operators
_SLOTS = """
Input Filter -> Output: conv2d depthwise_conv2d conv2d_transpose
X Y -> Out: mul matmul elementwise_add elementwise_sub elementwise_mul
X Y -> Out: equal not_equal greater_equal greater_than less_equal less_than
X -> Out: pool2d concat softmax argmax transpose transpose2 reshape reshape2 gather mean squeeze dropout scale
X -> Out: bilinear_interp nearest_interp trilinear_interp
X -> Out: relu relu6 leaky_relu prelu tanh swish sigmoid hard_swish hard_sigmoid
Input -> Out: slice
X -> Y: batch_norm
Input Weight -> Hidden: gru lstm
"""


def _table() -> dict[str, list[list[str]]]:
    found = {}
    for row in _SLOTS.strip().split("\n"):
        slots, ops = row.split(":")
        inputs, outputs = slots.split("->")
        found.update({op: [inputs.split(), outputs.split()] for op in ops.split()})
    return found


#: operator -> (main input slots, main output slots)
_op_real_in_out_name = _table()

#: operators whose outputs are measured
_out_scale_op_list = (
    "conv2d depthwise_conv2d mul matmul relu leaky_relu relu6 sigmoid tanh prelu swish softmax batch_norm "
    "elementwise_add pool2d reshape2 transpose2 concat elementwise_mul scale hard_swish hard_sigmoid "
    "conv2d_transpose gru bilinear_interp nearest_interp trilinear_interp"
).split()

#: operators whose filters have the output channels on axis 1
_channelwise_quant_axis1_ops = ["conv2d_transpose", "mul"]
#: the operators of 1.8 whose weights can have a scale for each channel
_CHANNELS_18 = ("conv2d", "depthwise_conv2d")


def has_channels(op_type: str) -> bool:
    """Whether channel_wise_abs_max gives the weight of an operator a scale for each channel; one scale otherwise."""
    return op_type in _CHANNELS_18 or not is_18()


_fake_quant_op_list = [
    "fake_quantize_abs_max",
    "fake_quantize_range_abs_max",
    "fake_quantize_moving_average_abs_max",
    "fake_channel_wise_quantize_abs_max",
]
_fake_dequant_op_list = ["fake_dequantize_max_abs", "fake_channel_wise_dequantize_max_abs"]


def _slots(op: Any, side: int) -> dict[str, list[str]]:
    """Main slots of an IrOpNode or an Operator with the variables in them."""
    kind = op.type if isinstance(getattr(op, "type", None), str) else op.name()
    ask = op.output if side else op.input
    return {slot: ask(slot) for slot in _op_real_in_out_name[kind][side]}


def _place(slots: dict[str, list[str]], name: str) -> tuple[str, int] | None:
    """The last slot that contains a variable, and the index in that slot."""
    found = [(slot, i) for slot, names in slots.items() for i, n in enumerate(names) if n == name]
    return found[-1] if found else None


def _get_op_input_var_names(op: Any) -> list[str]:
    """The variables in the main input slots of an IrOpNode or an Operator."""
    return [name for names in _slots(op, 0).values() for name in names]


def _get_op_output_var_names(op: Any) -> list[str]:
    """The variables in the main output slots."""
    return [name for names in _slots(op, 1).values() for name in names]


def _get_input_name_index(op: Any, input_var_name: str) -> tuple[str, int] | None:
    """The input slot of a variable and the index in it; None if there is none."""
    return _place(_slots(op, 0), input_var_name)


def _get_output_name_index(op: Any, output_var_name: str) -> tuple[str, int] | None:
    """The output slot of a variable and the index in it; None if there is none."""
    return _place(_slots(op, 1), output_var_name)
