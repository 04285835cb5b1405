"""Operators on images: deformable convolution."""
from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics import mode
from paddle._basics.element_types import FLOATS
from paddle._core import Tensor
from paddle._dispatch.append import named
from paddle._dispatch.arguments import convert_to_list
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.functional.conv import filters_of, run_deformable
from paddle.nn.layer.layers import Layer

__all__ = ["deform_conv2d", "DeformConv2D"]


def deform_conv2d(
    x: Any,
    offset: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    mask: Any = None,
    name: str | None = None,
) -> Tensor:
    """The deformable convolution: every element of a window is displaced by `offset` and, with a `mask`, scaled by it;
    between pixels it is interpolated, beside the image it is zero (Paddle 2.0: paddle.vision.ops.deform_conv2d).

    Args:
        x: float32 or float64 Tensor of the shape [N, C, H, W].
        offset: Tensor of the shape [N, 2 * filter height * filter width, height, width]: for each element of the filter
            the rows, then the columns.
        weight: Tensor of the shape [filters, C / groups, filter height, filter width].
        bias: Tensor of the shape [filters], or None.
        stride, padding, dilation: an int, or [height, width].
        groups: channels and filters are split into so many groups.
        mask: Tensor of the shape [N, filter height * filter width, height, width], or None for the first version.
        name: a name for the outputs.

    Returns:
        Tensor of the shape [N, filters, height, width]. ValueError for shapes that do not fit.

    Examples:
        >>> import paddle
        >>> x, weight = paddle.ones([2, 1, 8, 8]), paddle.ones([4, 1, 3, 3])
        >>> offset, mask = paddle.zeros([2, 18, 6, 6]), paddle.ones([2, 9, 6, 6])
        >>> paddle.vision.ops.deform_conv2d(x, offset, weight, mask=mask).shape
        [2, 4, 6, 6]
    """
    if mode._dygraph_tracer_ is None:
        check_variable_and_dtype(x, "x", FLOATS, "deform_conv2d")
        check_variable_and_dtype(offset, "offset", FLOATS, "deform_conv2d")
    operands = (x, offset, weight) if mask is None else (x, offset, mask, weight)
    attrs = {"groups": groups, "deformable_groups": 1, "im2col_step": 1}
    out = run_deformable(name, operands, stride, padding, dilation, **attrs)
    return out if bias is None else named(name, _ops.elementwise_add, out, bias, axis=1)


class DeformConv2D(Layer):
    """A deformable convolution with filters and bias of its own; the arguments of `deform_conv2d`.

    Args:
        in_channels, out_channels: channels of input and output.
        kernel_size, stride, padding, dilation: an int, or [height, width].
        groups: must divide the channels (ValueError).
        weight_attr: of the filters (default: normal with the deviation sqrt(2 / (in_channels * height * width))).
        bias_attr: of the bias (default: zeros); False for no bias.

    Examples:
        >>> import paddle
        >>> layer = paddle.vision.ops.DeformConv2D(1, 4, 3)
        >>> layer(paddle.ones([2, 1, 8, 8]), paddle.zeros([2, 18, 6, 6])).shape
        [2, 4, 6, 6]
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
    ) -> None:
        super().__init__()
        assert weight_attr is not False, "DeformConv2D: weight_attr can not be False"
        if groups < 1 or in_channels % groups:
            raise ValueError("in_channels must be divisible by groups.")
        self._weight_attr = weight_attr
        self._bias_attr = bias_attr
        self._groups = groups
        self._in_channels = in_channels
        self._out_channels = out_channels
        self._stride = convert_to_list(stride, 2, "stride")
        self._padding = convert_to_list(padding, 2, "padding")
        self._dilation = convert_to_list(dilation, 2, "dilation")
        self._kernel_size = convert_to_list(kernel_size, 2, "kernel_size")
        shape, normal = filters_of(in_channels, out_channels, groups, self._kernel_size)
        self.weight = self.create_parameter(shape=shape, attr=weight_attr, default_initializer=normal)
        self.bias = self.create_parameter(attr=bias_attr, shape=[out_channels], is_bias=True)

    def forward(self, x: Any, offset: Any, mask: Any = None) -> Any:
        """The deformable convolution of `x` with the layer's filters, plus its bias."""
        return deform_conv2d(
            x, offset, self.weight, self.bias, self._stride, self._padding, self._dilation, self._groups, mask
        )
