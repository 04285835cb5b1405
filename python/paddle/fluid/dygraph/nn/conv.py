"""Convolutions, transposed convolutions and BilinearTensorProduct of fluid.dygraph.nn."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.element_types import FLOATS
from paddle._basics.flags import is_18
from paddle._dispatch.arguments import convert_to_list
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.functional.conv import filters_of, run_conv
from paddle.nn.layer.layers import Layer

__all__ = ["BilinearTensorProduct", "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose"]


def activated(x: Any, act: str | None) -> Any:
    """`x` after the activation operator `act`."""
    return x if act is None else getattr(_ops, act)(x)


class _ConvNd(Layer):
    """Base of the convolutions: parameters, arguments and their checks."""

    _dims = 2
    _transposed = False

    def __init__(
        self,
        num_channels: int,
        num_filters: int,
        filter_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int | None,
        param_attr: Any,
        bias_attr: Any,
        use_cudnn: bool,
        act: str | None,
        dtype: Any,
        output_size: Any = None,
    ) -> None:
        dims, name = self._dims, type(self).__name__
        assert param_attr is not False, f"{name}: param_attr can not be False"
        super().__init__()
        if not isinstance(use_cudnn, bool):
            raise ValueError("use_cudnn: a bool is expected")
        if groups is not None and (groups < 1 or num_channels % groups):
            raise ValueError(f"{name}: groups does not divide num_channels")
        self._num_channels = num_channels
        self._groups = groups
        self._stride = convert_to_list(stride, dims, "stride")
        self._padding = convert_to_list(padding, dims, "padding")
        self._dilation = convert_to_list(dilation, dims, "dilation")
        self._act = act
        self._use_cudnn = use_cudnn
        self._filter_size = filter_size
        self._num_filters = num_filters
        self._param_attr = param_attr
        self._bias_attr = bias_attr
        self._dtype = dtype
        size = convert_to_list(filter_size, dims, "filter_size")
        shape, initializer = filters_of(num_channels, num_filters, groups, size, self._transposed)
        depthwise = num_filters == num_channels if self._transposed else num_filters % num_channels == 0
        self._output_size: list[int] = []
        if output_size is not None:
            if not isinstance(output_size, (list, int)):
                raise ValueError(f"{name}: output_size must be an int or a list, got {type(output_size)}")
            self._output_size = convert_to_list(output_size, dims, "output_size")
        self.weight = self.create_parameter(attr=param_attr, shape=shape, dtype=dtype, default_initializer=initializer)
        self.bias = self.create_parameter(attr=bias_attr, shape=[num_filters], dtype=dtype, is_bias=True)
        self._l_type = f"conv{dims}d" + ("_transpose" if self._transposed else "")
        if dims == 2 and num_channels == groups and depthwise and not use_cudnn:
            self._l_type = f"depthwise_{self._l_type}"

    def _keeps_bias_out(self) -> bool:
        return False

    def forward(self, input: Any) -> Any:  # noqa: A002
        """act(the convolution of `input` + bias); the channels are the second dimension."""
        more: dict[str, Any] = {"output_size": self._output_size} if self._transposed else {}
        out = run_conv(
            self._l_type,
            input,
            self.weight,
            None if self._keeps_bias_out() else self.bias,
            False,
            strides=self._stride,
            paddings=self._padding,
            dilations=self._dilation,
            groups=self._groups or 1,
            **more,
        )
        return activated(out, self._act)


class Conv2D(_ConvNd):
    """act(2-D convolution of [N, C, H, W] + bias).

    Args:
        num_channels, num_filters: channels of input and output.
        filter_size, stride, padding, dilation: an int, or [height, width].
        groups: None for one; must divide the channels (ValueError).
        param_attr: of the filters (default: normal with standard deviation sqrt(2 / (height * width * channels))).
        bias_attr: of the bias (default: zeros); False for no bias.
        use_cudnn: if False, and each channel is a group, the operator depthwise_conv2d is used.
        act: name of an activation operator.
        dtype: of the parameters.

    Examples:
        >>> import paddle
        >>> paddle.fluid.dygraph.Conv2D(3, 8, 3, padding=1, act="relu")(paddle.ones([1, 3, 6, 6])).shape
        [1, 8, 6, 6]
    """

    def __init__(
        self,
        num_channels: int,
        num_filters: int,
        filter_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int | None = None,
        param_attr: Any = None,
        bias_attr: Any = None,
        use_cudnn: bool = True,
        act: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(
            num_channels,
            num_filters,
            filter_size,
            stride,
            padding,
            dilation,
            groups,
            param_attr,
            bias_attr,
            use_cudnn,
            act,
            dtype,
        )


class Conv3D(_ConvNd):
    """act(3-D convolution of [N, C, D, H, W] + bias) (Paddle 2.0: paddle.fluid.dygraph.Conv3D).

    Args:
        num_channels, num_filters: channels of input and output.
        filter_size, stride, padding, dilation: an int, or [depth, height, width].
        groups: None for one; must divide the channels (ValueError).
        param_attr: of the filters (default: normal, standard deviation sqrt(2 / (elements of a filter * channels))).
        bias_attr: of the bias (default: zeros); False for no bias.
        use_cudnn: a bool; has no effect.
        act: name of an activation operator.
        dtype: of the parameters.

    Examples:
        >>> import paddle
        >>> paddle.fluid.dygraph.Conv3D(3, 2, 3, act="relu")(paddle.ones([1, 3, 4, 6, 6])).shape
        [1, 2, 2, 4, 4]
    """

    _dims = 3

    def __init__(
        self,
        num_channels: int,
        num_filters: int,
        filter_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int | None = None,
        param_attr: Any = None,
        bias_attr: Any = None,
        use_cudnn: bool = True,
        act: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(
            num_channels,
            num_filters,
            filter_size,
            stride,
            padding,
            dilation,
            groups,
            param_attr,
            bias_attr,
            use_cudnn,
            act,
            dtype,
        )


class Conv2DTranspose(_ConvNd):
    """act(2-D transposed convolution of [N, C, H, W] + bias) (Paddle 2.0: paddle.fluid.dygraph.Conv2DTranspose).

    Args:
        num_channels, num_filters: channels of input and output.
        filter_size, padding, stride, dilation: an int, or [height, width].
        output_size: an int, or [height, width] of the result, among the sizes that the stride allows.
        groups: None for one; must divide the channels (ValueError).
        param_attr, bias_attr: of the filters and the bias; False for no bias.
        use_cudnn: if False, and each channel is a group, the operator depthwise_conv2d_transpose is used.
        act: name of an activation operator.
        dtype: of the parameters.

    Examples:
        >>> import paddle
        >>> paddle.fluid.dygraph.Conv2DTranspose(3, 2, 3)(paddle.ones([1, 3, 6, 6])).shape
        [1, 2, 8, 8]
    """

    _transposed = True

    def __init__(
        self,
        num_channels: int,
        num_filters: int,
        filter_size: Any,
        output_size: Any = None,
        padding: Any = 0,
        stride: Any = 1,
        dilation: Any = 1,
        groups: int | None = None,
        param_attr: Any = None,
        bias_attr: Any = None,
        use_cudnn: bool = True,
        act: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(
            num_channels,
            num_filters,
            filter_size,
            stride,
            padding,
            dilation,
            groups,
            param_attr,
            bias_attr,
            use_cudnn,
            act,
            dtype,
            output_size,
        )


class Conv3DTranspose(_ConvNd):
    """act(3-D transposed convolution of [N, C, D, H, W] + bias) (Paddle 2.0: paddle.fluid.dygraph.Conv3DTranspose).

    With FLAGS_compat=1.8 the bias is added only if `bias_attr` is given, as in 1.8.5 and 2.0.2.

    Args:
        num_channels, num_filters: channels of input and output.
        filter_size, padding, stride, dilation: an int, or [depth, height, width].
        groups: None for one; must divide the channels (ValueError).
        param_attr, bias_attr: of the filters and the bias; False for no bias.
        use_cudnn: a bool; has no effect.
        act: name of an activation operator.
        dtype: of the parameters.

    Examples:
        >>> import paddle
        >>> paddle.fluid.dygraph.Conv3DTranspose(3, 2, 3)(paddle.ones([1, 3, 2, 6, 6])).shape
        [1, 2, 4, 8, 8]
    """

    _dims = 3
    _transposed = True

    def __init__(
        self,
        num_channels: int,
        num_filters: int,
        filter_size: Any,
        padding: Any = 0,
        stride: Any = 1,
        dilation: Any = 1,
        groups: int | None = None,
        param_attr: Any = None,
        bias_attr: Any = None,
        use_cudnn: bool = True,
        act: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(
            num_channels,
            num_filters,
            filter_size,
            stride,
            padding,
            dilation,
            groups,
            param_attr,
            bias_attr,
            use_cudnn,
            act,
            dtype,
        )

    def _keeps_bias_out(self) -> bool:
        return is_18() and not self._bias_attr


class BilinearTensorProduct(Layer):
    """act(x W[k] y + b[k]) for each of `output_dim` matrices (Paddle 2.0: paddle.fluid.dygraph.BilinearTensorProduct).

    Args:
        input1_dim, input2_dim, output_dim: the last dimensions of the inputs and the output.
        name: ignored.
        act: name of an activation operator.
        param_attr, bias_attr: of the weight [output_dim, input1_dim, input2_dim] and the bias [1, output_dim]; False
            for no bias.
        dtype: of the parameters.

    Examples:
        >>> import paddle
        >>> layer = paddle.fluid.dygraph.BilinearTensorProduct(5, 4, 10)
        >>> layer(paddle.ones([3, 5]), paddle.ones([3, 4])).shape
        [3, 10]
    """

    def __init__(
        self,
        input1_dim: int,
        input2_dim: int,
        output_dim: int,
        name: str | None = None,
        act: str | None = None,
        param_attr: Any = None,
        bias_attr: Any = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__()
        self._param_attr = param_attr
        self._bias_attr = bias_attr
        self._act = act
        self._name = name
        self._input1_dim, self._input2_dim, self._output_dim = input1_dim, input2_dim, output_dim
        self._dtype = dtype
        shape = [output_dim, input1_dim, input2_dim]
        self.weight = self.create_parameter(attr=param_attr, shape=shape, dtype=dtype, is_bias=False)
        self.bias = self.create_parameter(attr=bias_attr, shape=[1, output_dim], dtype=dtype, is_bias=True)

    def forward(self, x: Any, y: Any) -> Any:
        """`x` [batch, input1_dim] and `y` [batch, input2_dim] to [batch, output_dim]."""
        check_variable_and_dtype(x, "x", FLOATS, "BilinearTensorProduct")
        check_variable_and_dtype(y, "y", FLOATS, "BilinearTensorProduct")
        return activated(_ops.bilinear_tensor_product(x, y, self.weight, self.bias), self._act)
