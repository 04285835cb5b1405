"""Convolution layers."""
from __future__ import annotations

import math
from typing import Any

from paddle._basics.checks import INTS
from paddle._basics.missing import require
from paddle._dispatch.arguments import convert_to_list
from paddle._dispatch.windows import channel_last, paddings
from paddle.nn import functional as F
from paddle.nn.functional.conv import conv_op, run_conv2d
from paddle.nn.initializer.base import Normal
from paddle.nn.layer.layers import Layer

__all__ = ["Conv1D", "Conv2D"]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Layer):
    """What convolutions of `dims` dimensions share: parameters and checks."""

    def __init__(
        self,
        dims: int,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int,
        padding_mode: str,
        weight_attr: Any,
        bias_attr: Any,
        data_format: str,
    ) -> None:
        super().__init__()
        assert weight_attr is not False, "Conv: weight_attr can not be False"
        if padding_mode not in _PADDING_MODES:
            raise ValueError(f"padding_mode must be one of {_PADDING_MODES}, not '{padding_mode!s:.200}'")
        if padding_mode != "zeros":
            if not isinstance(padding, INTS):
                raise TypeError("padding must be an int where padding_mode is reflect, replicate or circular")
            require(f"padding_mode={padding_mode!r}", "pad3d")
        if groups < 1 or in_channels % groups:
            raise ValueError("in_channels must be divisible by groups.")
        last = channel_last(data_format, dims)
        self._param_attr = weight_attr
        self._bias_attr = bias_attr
        self._groups = groups
        self._in_channels = in_channels
        self._out_channels = out_channels
        self._data_format = data_format
        self._stride = convert_to_list(stride, dims, "stride")
        self._dilation = convert_to_list(dilation, dims, "dilation")
        self._kernel_size = convert_to_list(kernel_size, dims, "kernel_size")
        self._padding = padding
        self._padding_mode = padding_mode
        self.output_padding = 0
        self._updated_padding, self._padding_algorithm = paddings(padding, dims, last)
        elements = math.prod(self._kernel_size) * in_channels
        self.weight = self.create_parameter(
            shape=[out_channels, in_channels // groups, *self._kernel_size],
            attr=weight_attr,
            default_initializer=Normal(0.0, (2.0 / elements) ** 0.5, 0),
        )
        self.bias = self.create_parameter(attr=bias_attr, shape=[out_channels], is_bias=True)
        self._op_type = conv_op(in_channels, out_channels, groups)

    def extra_repr(self) -> str:
        """Channels, sizes, and what differs from the defaults."""
        text = f"{self._in_channels}, {self._out_channels}, kernel_size={self._kernel_size}"
        if any(n != 1 for n in self._stride):
            text += f", stride={self._stride}"
        if self._padding != 0:
            text += f", padding={self._padding}"
        if any(n != 1 for n in self._dilation):
            text += f", dilation={self._dilation}"
        if self._groups != 1:
            text += f", groups={self._groups}"
        return f"{text}, data_format={self._data_format}"


class Conv1D(_ConvNd):
    """A 1-D convolution with filters and bias of its own; the arguments of `functional.conv1d`.

    Args:
        in_channels, out_channels: channels of input and output.
        kernel_size, stride, dilation: an int, or a list of one.
        padding, groups, data_format: as for the function.
        padding_mode: "zeros"; the others need an operator that is not there yet.
        weight_attr: of the filters (default: normal with the deviation sqrt(2 / (in_channels * kernel size))).
        bias_attr: of the bias (default: zeros); False for no bias.

    Examples:
        >>> import paddle
        >>> paddle.nn.Conv1D(2, 3, 3)(paddle.ones([1, 2, 5])).shape
        [1, 3, 3]
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
        padding_mode: str = "zeros",
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCL",
    ) -> None:
        super().__init__(
            1, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode, weight_attr,
            bias_attr, data_format
        )

    def forward(self, x: Any) -> Any:
        """`x` [N, in_channels, L] to [N, out_channels, length]."""
        return F.conv1d(
            x, self.weight, self.bias, self._stride, self._padding, self._dilation, self._groups, self._data_format
        )


class Conv2D(_ConvNd):
    """A 2-D convolution with filters and bias of its own; the arguments of `functional.conv2d`.

    Args:
        in_channels, out_channels: channels of input and output.
        kernel_size, stride, dilation: an int, or [height, width].
        padding, groups, data_format: as for the function.
        padding_mode: "zeros"; the others need an operator that is not there yet.
        weight_attr: of the filters (default: normal with the deviation sqrt(2 / (in_channels * height * width))).
        bias_attr: of the bias (default: zeros); False for no bias.

    Examples:
        >>> import paddle
        >>> paddle.nn.Conv2D(3, 8, 3, padding=1)(paddle.ones([1, 3, 6, 6])).shape
        [1, 8, 6, 6]
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
        padding_mode: str = "zeros",
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
    ) -> None:
        super().__init__(
            2, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode, weight_attr,
            bias_attr, data_format
        )

    def forward(self, x: Any) -> Any:
        """`x` [N, in_channels, H, W] to [N, out_channels, height, width]."""
        return run_conv2d(
            self._op_type,
            x,
            self.weight,
            self.bias,
            self._stride,
            self._updated_padding,
            self._padding_algorithm,
            self._dilation,
            self._groups,
            self._data_format,
        )
