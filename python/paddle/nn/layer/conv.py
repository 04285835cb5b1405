"""Convolution layers, plain and transposed, in one to three dimensions."""

from __future__ import annotations

from typing import Any

from paddle._basics.checks import INTS, check_positive
from paddle._dispatch.arguments import convert_to_list
from paddle._dispatch.windows import channel_last, paddings
from paddle.nn import functional as F
from paddle.nn.functional.conv import conv_op, filters_of, run_nd
from paddle.nn.layer.layers import Layer

__all__ = ["Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose"]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Layer):
    """Base of convolutions and transposed convolutions: parameters, arguments and their checks."""

    _dims = 2
    _transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        *,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int,
        weight_attr: Any,
        bias_attr: Any,
        data_format: str,
        padding_mode: str = "zeros",
        output_padding: Any = 0,
    ) -> None:
        super().__init__()
        dims = self._dims
        assert weight_attr is not False, "Conv: weight_attr must not be False"
        if padding_mode not in _PADDING_MODES:
            raise ValueError(f"padding_mode must be one of {_PADDING_MODES}, not '{padding_mode!s:.200}'")
        if padding_mode != "zeros":
            if not isinstance(padding, INTS):
                raise TypeError("padding must be an int if padding_mode is reflect, replicate or circular")
        if groups < 1 or in_channels % groups:
            raise ValueError("in_channels must be divisible by groups.")
        self._last = channel_last(data_format, dims)
        self._param_attr = weight_attr
        self._bias_attr = bias_attr
        self._groups = groups
        self._in_channels = in_channels
        self._out_channels = out_channels
        self._data_format = data_format
        self._stride = convert_to_list(stride, dims, "stride")
        self._dilation = convert_to_list(dilation, dims, "dilation")
        self._kernel_size = convert_to_list(kernel_size, dims, "kernel_size")
        check_positive("Conv", in_channels=in_channels, kernel_size=min(self._kernel_size))
        self._padding = padding
        self._padding_mode = padding_mode
        self.output_padding = output_padding
        # Modes other than zeros pad before the convolution, which then has padding 0.
        own = padding if padding_mode == "zeros" else 0
        self._updated_padding, self._padding_algorithm = paddings(own, dims, self._last)
        shape, normal = filters_of(in_channels, out_channels, groups, self._kernel_size, self._transposed)
        self.weight = self.create_parameter(shape=shape, attr=weight_attr, default_initializer=normal)
        self.bias = self.create_parameter(attr=bias_attr, shape=[out_channels], is_bias=True)
        self._op_type = conv_op(in_channels, out_channels, groups, dims)

    def extra_repr(self) -> str:
        """Channels, sizes, and arguments that differ from the defaults."""
        text = f"{self._in_channels}, {self._out_channels}, kernel_size={self._kernel_size}"
        if any(n != 1 for n in self._stride):
            text += f", stride={self._stride}"
        if self._padding != 0:
            text += f", padding={self._padding}"
        if self._padding_mode != "zeros":
            text += f", padding_mode={self._padding_mode}"
        if self.output_padding != 0:
            text += f", output_padding={self.output_padding}"
        if any(n != 1 for n in self._dilation):
            text += f", dilation={self._dilation}"
        if self._groups != 1:
            text += f", groups={self._groups}"
        return f"{text}, data_format={self._data_format}"


class _Plain(_ConvNd):
    def forward(self, x: Any) -> Any:
        """The convolution of `x` with the filters of the layer, plus the bias."""
        if self._padding_mode != "zeros":
            sizes = [self._padding] * (2 * self._dims)
            x = F.pad(x, sizes, mode=self._padding_mode, data_format=self._data_format)
        attrs = {
            "strides": self._stride,
            "paddings": self._updated_padding,
            "padding_algorithm": self._padding_algorithm,
            "dilations": self._dilation,
            "groups": self._groups,
            "data_format": self._data_format,
        }
        return run_nd(self._dims, self._op_type, x, self.weight, self.bias, self._last, None, attrs)


class _Transposed(_ConvNd):
    _transposed = True
    _function: Any = None

    def forward(self, x: Any, output_size: Any = None) -> Any:
        """The transposed convolution of `x`; `output_size` overrides the layer's output_padding."""
        return self._function(
            x,
            self.weight,
            bias=self.bias,
            stride=self._stride,
            padding=self._padding,
            output_padding=self.output_padding if output_size is None else 0,
            dilation=self._dilation,
            groups=self._groups,
            output_size=output_size,
            data_format=self._data_format,
        )


class Conv1D(_Plain):
    """A 1-D convolution with learned filters and bias; the arguments of `functional.conv1d`.

    Args:
        in_channels, out_channels: channels of input and output.
        kernel_size, stride, dilation: an int, or a list of one.
        padding, groups, data_format: see the function.
        padding_mode: "zeros", "reflect", "replicate" or "circular"; the last three require an int padding (TypeError).
        weight_attr: of the filters (default: normal with deviation sqrt(2 / (in_channels * kernel size))).
        bias_attr: of the bias (default: zeros); False for no bias.

    Examples:
        >>> import paddle
        >>> paddle.nn.Conv1D(2, 3, 3)(paddle.ones([1, 2, 5])).shape
        [1, 3, 3]
    """

    _dims = 1

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
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            padding_mode=padding_mode,
            weight_attr=weight_attr,
            bias_attr=bias_attr,
            data_format=data_format,
        )


class Conv2D(_Plain):
    """A 2-D convolution with learned filters and bias; the arguments of `functional.conv2d`.

    Args:
        in_channels, out_channels: channels of input and output.
        kernel_size, stride, dilation: an int, or [height, width].
        padding, groups, data_format: see the function.
        padding_mode: "zeros", "reflect", "replicate" or "circular"; the last three require an int padding (TypeError).
        weight_attr: of the filters (default: normal with deviation sqrt(2 / (in_channels * height * width))).
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
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            padding_mode=padding_mode,
            weight_attr=weight_attr,
            bias_attr=bias_attr,
            data_format=data_format,
        )


class Conv3D(_Plain):
    """A 3-D convolution with learned filters and bias; the arguments of `functional.conv3d`.

    Args:
        in_channels, out_channels: channels of input and output.
        kernel_size, stride, dilation: an int, or [depth, height, width].
        padding, groups, data_format: see the function.
        padding_mode: "zeros", "reflect", "replicate" or "circular"; the last three require an int padding (TypeError).
        weight_attr: of the filters (default: normal with deviation sqrt(2 / (in_channels * filter elements))).
        bias_attr: of the bias (default: zeros); False for no bias.

    Examples:
        >>> import paddle
        >>> paddle.nn.Conv3D(3, 8, 3, padding=1)(paddle.ones([1, 3, 2, 6, 6])).shape
        [1, 8, 2, 6, 6]
    """

    _dims = 3

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
        data_format: str = "NCDHW",
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            padding_mode=padding_mode,
            weight_attr=weight_attr,
            bias_attr=bias_attr,
            data_format=data_format,
        )


class Conv1DTranspose(_Transposed):
    """A 1-D transposed convolution with learned filters and bias; the arguments of `functional.conv1d_transpose`.

    Args:
        in_channels, out_channels: channels of input and output.
        kernel_size, stride, dilation: an int, or a list of one.
        padding, output_padding, groups, data_format: see the function.
        weight_attr, bias_attr: of the filters and the bias; False for no bias.

    Examples:
        >>> import paddle
        >>> paddle.nn.Conv1DTranspose(2, 3, 3, stride=2)(paddle.ones([1, 2, 5])).shape
        [1, 3, 11]
    """

    _dims = 1
    _function = staticmethod(F.conv1d_transpose)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCL",
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            dilation=dilation,
            groups=groups,
            weight_attr=weight_attr,
            bias_attr=bias_attr,
            data_format=data_format,
        )


class Conv2DTranspose(_Transposed):
    """A 2-D transposed convolution with learned filters and bias; the arguments of `functional.conv2d_transpose`.

    Args:
        in_channels, out_channels: channels of input and output.
        kernel_size, stride, dilation: an int, or [height, width].
        padding, output_padding, groups, data_format: see the function.
        weight_attr, bias_attr: of the filters and the bias; False for no bias.

    Examples:
        >>> import paddle
        >>> paddle.nn.Conv2DTranspose(4, 6, 3)(paddle.ones([2, 4, 8, 8])).shape
        [2, 6, 10, 10]
    """

    _function = staticmethod(F.conv2d_transpose)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            dilation=dilation,
            groups=groups,
            weight_attr=weight_attr,
            bias_attr=bias_attr,
            data_format=data_format,
        )


class Conv3DTranspose(_Transposed):
    """A 3-D transposed convolution with learned filters and bias; the arguments of `functional.conv3d_transpose`.

    Args:
        in_channels, out_channels: channels of input and output.
        kernel_size, stride, dilation: an int, or [depth, height, width].
        padding, output_padding, groups, data_format: see the function.
        weight_attr, bias_attr: of the filters and the bias; False for no bias.

    Examples:
        >>> import paddle
        >>> paddle.nn.Conv3DTranspose(4, 6, 3)(paddle.ones([2, 4, 2, 8, 8])).shape
        [2, 6, 4, 10, 10]
    """

    _dims = 3
    _function = staticmethod(F.conv3d_transpose)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCDHW",
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            dilation=dilation,
            groups=groups,
            weight_attr=weight_attr,
            bias_attr=bias_attr,
            data_format=data_format,
        )
