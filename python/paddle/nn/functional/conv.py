"""Convolutions."""
from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics import mode, unique_name
from paddle._core import Tensor
from paddle._dispatch.append import named
from paddle._dispatch.arguments import convert_to_list
from paddle._dispatch.windows import channel_last, paddings
from paddle._programs.variable_checks import check_variable_and_dtype

__all__ = ["conv1d", "conv2d"]

_FLOATS = ["float16", "float32", "float64"]


def _check_channels(x: Any, weight: Any, channels: int, groups: int) -> None:
    filters = weight.shape[0]
    if channels < 0:
        raise ValueError(f"conv: the number of channels of x must be known, got {channels} in shape {x.shape}")
    if groups < 1 or channels % groups:
        raise ValueError(f"conv: groups={groups} does not divide the {channels} channels of x (shape {x.shape})")
    if filters % groups:
        raise ValueError(
            f"conv: groups={groups} does not divide the {filters} filters of weight (shape {weight.shape})"
        )


def conv_op(channels: int, filters: int, groups: int) -> str:
    """The operator of a 2-D convolution: one filter a channel has its own."""
    if channels == groups and channels != 1 and filters % channels == 0:
        return "depthwise_conv2d"
    return "conv2d"


def run_conv2d(
    op_type: str,
    x: Any,
    weight: Any,
    bias: Any,
    strides: list[int],
    padding: list[int],
    algorithm: str,
    dilations: list[int],
    groups: int,
    data_format: str,
    name: str | None = None,
) -> Any:
    """The convolution of arguments that have been looked at, plus the bias."""
    if mode._dygraph_tracer_ is None:
        check_variable_and_dtype(x, "x", _FLOATS, op_type)
        name = name or unique_name.generate(op_type)
    out = named(
        name,
        getattr(_ops, op_type),
        x,
        weight,
        strides=strides,
        paddings=padding,
        padding_algorithm=algorithm,
        dilations=dilations,
        groups=groups,
        data_format=data_format,
    )
    if bias is None:
        return out
    return named(name, _ops.elementwise_add, out, bias, axis=1 if data_format == "NCHW" else -1)


def _windows(
    dims: int, x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int, last: bool
) -> tuple[str, list[int], list[int], str, list[int]]:
    """(operator, strides, paddings, padding_algorithm, dilations) of a convolution in `dims` dimensions."""
    channels = x.shape[-1 if last else 1]
    _check_channels(x, weight, channels, groups)
    sizes, algorithm = paddings(padding, dims, last)
    strides, dilations = convert_to_list(stride, dims, "stride"), convert_to_list(dilation, dims, "dilation")
    return conv_op(channels, weight.shape[0], groups), strides, sizes, algorithm, dilations


def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """The 2-D convolution (cross-correlation) of `x` with filters.

    Args:
        x: Tensor of the shape [N, C, H, W], or [N, H, W, C] for the format "NHWC"; float16, float32 or float64.
        weight: Tensor of the shape [filters, C / groups, height, width].
        bias: Tensor of the shape [filters], or None.
        stride, dilation: an int, or [height, width].
        padding: an int, [height, width], [top, bottom, left, right], four pairs, "SAME" or "VALID".
        groups: channels and filters are split into so many groups.
        data_format: "NCHW" or "NHWC".
        name: a name for the outputs.

    Returns:
        Tensor of the shape [N, filters, height, width], or its NHWC form.

    Raises:
        ValueError: for another format or padding, for channels or filters that `groups` does not divide.

    Examples:
        >>> import paddle
        >>> x, w = paddle.ones([1, 1, 4, 4]), paddle.ones([2, 1, 3, 3])
        >>> paddle.nn.functional.conv2d(x, w, padding=1).shape
        [1, 2, 4, 4]
    """
    last = channel_last(data_format, 2)
    op_type, strides, sizes, algorithm, dilations = _windows(2, x, weight, stride, padding, dilation, groups, last)
    return run_conv2d(op_type, x, weight, bias, strides, sizes, algorithm, dilations, groups, data_format, name)


def conv1d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCL",
    name: str | None = None,
) -> Tensor:
    """The 1-D convolution (cross-correlation) of `x` with filters.

    Args:
        x: Tensor of the shape [N, C, L], or [N, L, C] for the format "NLC"; float16, float32 or float64.
        weight: Tensor of the shape [filters, C / groups, length].
        bias: Tensor of the shape [filters], or None.
        stride, dilation: an int, or a list of one.
        padding: an int, [size], [before, after], three pairs, "SAME" or "VALID".
        groups: channels and filters are split into so many groups.
        data_format: "NCL" or "NLC".
        name: a name for the outputs.

    Returns:
        Tensor of the shape [N, filters, length], or its NLC form.

    Raises:
        ValueError: for another format or padding, for channels or filters that `groups` does not divide.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.conv1d(paddle.ones([1, 2, 5]), paddle.ones([3, 2, 3])).shape
        [1, 3, 3]
    """
    last = channel_last(data_format, 1)
    op_type, strides, sizes, algorithm, dilations = _windows(1, x, weight, stride, padding, dilation, groups, last)
    axis = -2 if last else -1
    # The length becomes the height of an image of width one.
    out = run_conv2d(
        op_type,
        _ops.unsqueeze2(x, axes=[axis]),
        _ops.unsqueeze2(weight, axes=[-1]),
        bias,
        [*strides, 1],
        sizes + [0] * len(sizes),
        algorithm,
        [*dilations, 1],
        groups,
        "NHWC" if last else "NCHW",
        name,
    )
    return _ops.squeeze2(out, axes=[axis])
