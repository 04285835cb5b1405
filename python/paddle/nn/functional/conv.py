"""Convolutions and transposed convolutions in one to three dimensions."""

from __future__ import annotations

import math
from typing import Any

from paddle import _ops
from paddle._basics import unique_name
from paddle._basics.mode import in_static_mode
from paddle._core import Tensor
from paddle._dispatch.append import named
from paddle._dispatch.arguments import convert_to_list
from paddle._dispatch.windows import channel_last, paddings
from paddle.nn.initializer.base import Normal

__all__ = ["conv1d", "conv1d_transpose", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose"]


def channels_of(x: Any, groups: int | None, last: bool, what: str = "x") -> int:
    """The number of channels of argument `what`; ValueError if it is unknown or not divisible by `groups`."""
    channels = x.shape[-1 if last else 1]
    if channels < 0:
        raise ValueError(f"conv: the number of channels of {what} must be known, got {channels} in shape {x.shape}")
    if groups is not None and (groups < 1 or channels % groups):
        raise ValueError(f"conv: groups={groups} does not divide the {channels} channels of {what} (shape {x.shape})")
    return channels


def filters_of(
    channels: int, filters: int, groups: int | None, size: list[int], transposed: bool = False
) -> tuple[list[int], Any]:
    """(shape, initializer) of a new filter; transposed filters have the default initializer of parameters."""
    if transposed:
        return [channels, filters // (groups or 1), *size], None
    deviation = (2.0 / (math.prod(size) * channels)) ** 0.5
    return [filters, channels // (groups or 1), *size], Normal(0.0, deviation, 0)


def conv_op(channels: int, filters: int, groups: int, dims: int = 2) -> str:
    """The operator type of a convolution; one group per channel is depthwise."""
    if dims < 3 and channels == groups and channels != 1 and filters % channels == 0:
        return "depthwise_conv2d"
    return f"conv{max(dims, 2)}d"


def run_conv(op_type: str, x: Any, weight: Any, bias: Any, last: bool, name: str | None = None, **attrs: Any) -> Any:
    """The convolution of checked arguments plus the bias; `last`: channels are the last dimension, else the second."""
    if in_static_mode():
        name = name or unique_name.generate(op_type)
    out = named(name, getattr(_ops, op_type), x, weight, **attrs)
    if bias is None:
        return out
    return named(name, _ops.elementwise_add, out, bias, axis=-1 if last else 1)


def run_nd(
    dims: int,
    op_type: str,
    x: Any,
    weight: Any,
    bias: Any,
    last: bool,
    name: str | None,
    attrs: dict[str, Any],
) -> Any:
    """`run_conv` in `dims` dimensions: 1-D inputs and `attrs` are extended by a width of one."""
    if dims > 1:
        return run_conv(op_type, x, weight, bias, last, name, **attrs)
    axis = -2 if last else -1
    attrs["data_format"] = "NHWC" if last else "NCHW"
    attrs["paddings"] = attrs["paddings"] + [0] * len(attrs["paddings"])
    for one, lists in ((1, ("strides", "dilations", "output_size")), (0, ("output_padding",))):
        for key in lists:
            if attrs.get(key):
                attrs[key] = [*attrs[key], one]
    x, weight = _ops.unsqueeze2(x, axes=[axis]), _ops.unsqueeze2(weight, axes=[-1])
    return _ops.squeeze2(run_conv(op_type, x, weight, bias, last, name, **attrs), axes=[axis])


def windows(
    dims: int, stride: Any, padding: Any, dilation: Any, groups: int | None, data_format: str, last: bool
) -> dict[str, Any]:
    """The attributes that describe the windows of a convolution."""
    sizes, algorithm = paddings(padding, dims, last)
    return {
        "strides": convert_to_list(stride, dims, "stride"),
        "paddings": sizes,
        "padding_algorithm": algorithm,
        "dilations": convert_to_list(dilation, dims, "dilation"),
        "groups": groups or 1,
        "data_format": data_format,
    }


def run_deformable(
    name: str | None, operands: tuple[Any, ...], stride: Any, padding: Any, dilation: Any, **attrs: Any
) -> Any:
    """The deformable convolution of (x, offset, filter) or, in version 2, of (x, offset, mask, filter)."""
    return named(
        name,
        _ops.deformable_conv if len(operands) == 4 else _ops.deformable_conv_v1,
        *operands,
        strides=convert_to_list(stride, 2, "stride"),
        paddings=convert_to_list(padding, 2, "padding"),
        dilations=convert_to_list(dilation, 2, "dilation"),
        **attrs,
    )


def _conv(
    dims: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    data_format: str,
    name: str | None,
) -> Any:
    """The convolution in `dims` dimensions."""
    last = channel_last(data_format, dims)
    channels, filters = channels_of(x, groups, last), weight.shape[0]
    if filters % groups:
        raise ValueError(
            f"conv: groups={groups} does not divide the {filters} filters of weight (shape {weight.shape})"
        )
    attrs = windows(dims, stride, padding, dilation, groups, data_format, last)
    op_type = conv_op(channels, filters, groups, dims)
    return run_nd(dims, op_type, x, weight, bias, last, name, attrs)


def _conv_transpose(
    dims: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    dilation: Any,
    groups: int,
    output_size: Any,
    data_format: str,
    name: str | None,
) -> Any:
    """The transposed convolution in `dims` dimensions."""
    last = channel_last(data_format, dims)
    channels = channels_of(x, groups, last)
    attrs = windows(dims, stride, padding, dilation, groups, data_format, last)
    if output_size is not None:
        if output_padding != 0:
            raise ValueError("conv: output_padding and output_size cannot both be given")
        if not isinstance(output_size, (list, tuple, int)):
            raise ValueError(f"conv: output_size must be an int or a list or tuple of ints, got {type(output_size)}")
        attrs["output_size"] = convert_to_list(output_size, dims, "output_size")
    if output_padding != 0:
        attrs["output_padding"] = convert_to_list(output_padding, dims, "output_padding")
    if dims == 1 and attrs.get("output_padding", [0])[0] > attrs["strides"][0]:
        raise ValueError(f"conv: output_padding {output_padding} must not exceed the stride {stride}")
    if dims == 3:
        attrs["data_format"] = "NHWC" if last else "NCHW"  # the operator uses Paddle's 2-D names for all ranks
    depthwise = dims < 3 and channels == groups and channels != 1 and weight.shape[1] == 1
    op_type = "depthwise_conv2d_transpose" if depthwise else f"conv{max(dims, 2)}d_transpose"
    return run_nd(dims, op_type, x, weight, bias, last, name, attrs)


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
        x: Tensor of shape [N, C, L], or [N, L, C] for the format "NLC"; float16, float32 or float64.
        weight: Tensor of shape [filters, C / groups, length].
        bias: Tensor of shape [filters], or None.
        stride, dilation: an int, or a list of one.
        padding: an int, [size], [before, after], three pairs, "SAME" or "VALID".
        groups: number of groups that channels and filters are split into.
        data_format: "NCL" or "NLC".
        name: a name for the outputs.

    Returns:
        Tensor of shape [N, filters, length], or its NLC form.

    Raises:
        ValueError: for another format or padding, or if `groups` does not divide channels and filters.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.conv1d(paddle.ones([1, 2, 5]), paddle.ones([3, 2, 3])).shape
        [1, 3, 3]
    """
    return _conv(1, x, weight, bias, stride, padding, dilation, groups, data_format, name)


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
        x: Tensor of shape [N, C, H, W], or [N, H, W, C] for the format "NHWC"; float16, float32 or float64.
        weight: Tensor of shape [filters, C / groups, height, width].
        bias: Tensor of shape [filters], or None.
        stride, dilation: an int, or [height, width].
        padding: an int, [height, width], [top, bottom, left, right], four pairs, "SAME" or "VALID".
        groups: number of groups that channels and filters are split into.
        data_format: "NCHW" or "NHWC".
        name: a name for the outputs.

    Returns:
        Tensor of shape [N, filters, height, width], or its NHWC form.

    Raises:
        ValueError: for another format or padding, or if `groups` does not divide channels and filters.

    Examples:
        >>> import paddle
        >>> x, w = paddle.ones([1, 1, 4, 4]), paddle.ones([2, 1, 3, 3])
        >>> paddle.nn.functional.conv2d(x, w, padding=1).shape
        [1, 2, 4, 4]
    """
    return _conv(2, x, weight, bias, stride, padding, dilation, groups, data_format, name)


def conv3d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Tensor:
    """The 3-D convolution (cross-correlation) of `x` with filters.

    Args:
        x: Tensor of shape [N, C, D, H, W], or [N, D, H, W, C] for the format "NDHWC"; float16, float32 or float64.
        weight: Tensor of shape [filters, C / groups, depth, height, width].
        bias: Tensor of shape [filters], or None.
        stride, dilation: an int, or [depth, height, width].
        padding: an int, three ints, six ints (before and after each dimension), five pairs, "SAME" or "VALID".
        groups: number of groups that channels and filters are split into.
        data_format: "NCDHW" or "NDHWC".
        name: a name for the outputs.

    Returns:
        Tensor of shape [N, filters, depth, height, width], or its NDHWC form.

    Raises:
        ValueError: for another format or padding, or if `groups` does not divide channels and filters.

    Examples:
        >>> import paddle
        >>> x, w = paddle.ones([1, 1, 4, 4, 4]), paddle.ones([2, 1, 3, 3, 3])
        >>> paddle.nn.functional.conv3d(x, w, padding=1).shape
        [1, 2, 4, 4, 4]
    """
    return _conv(3, x, weight, bias, stride, padding, dilation, groups, data_format, name)


def conv1d_transpose(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    output_size: Any = None,
    data_format: str = "NCL",
    name: str | None = None,
) -> Tensor:
    """The 1-D transposed convolution: each element of `x` adds the filter, scaled by it, to a window of the result.

    Args:
        x: Tensor of shape [N, C, L], or [N, L, C] for the format "NLC"; float16, float32 or float64.
        weight: Tensor of shape [C, filters / groups, length].
        bias: Tensor of shape [filters], or None.
        stride, dilation: an int, or a list of one.
        padding: elements removed from the result: an int, [size], [before, after], three pairs, "SAME" or "VALID".
        output_padding: elements added at the end of the result; at most the stride.
        groups: number of groups that channels and filters are split into.
        output_size: the length of the result, instead of `output_padding`.
        data_format: "NCL" or "NLC".
        name: a name for the outputs.

    Returns:
        Tensor of shape [N, filters, (L - 1) * stride - 2 * padding + dilation * (length - 1) + 1 + output_padding],
        or its NLC form.

    Raises:
        ValueError: for another format or padding, channels that `groups` does not divide, an `output_size` that no
            `output_padding` yields, or both of them.

    Examples:
        >>> import paddle
        >>> x, w = paddle.to_tensor([[[4.0, 0.0, 9.0]]]), paddle.to_tensor([[[7.0, 1.0]]])
        >>> paddle.nn.functional.conv1d_transpose(x, w).numpy().tolist()
        [[[28.0, 4.0, 63.0, 9.0]]]
    """
    return _conv_transpose(
        1, x, weight, bias, stride, padding, output_padding, dilation, groups, output_size, data_format, name
    )


def conv2d_transpose(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    output_size: Any = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """The 2-D transposed convolution: each element of `x` adds the filter, scaled by it, to a window of the result.

    Args:
        x: Tensor of shape [N, C, H, W], or [N, H, W, C] for the format "NHWC"; float16, float32 or float64.
        weight: Tensor of shape [C, filters / groups, height, width].
        bias: Tensor of shape [filters], or None.
        stride, dilation: an int, or [height, width].
        padding: elements removed from the result: an int, [height, width], [top, bottom, left, right], four pairs,
            "SAME" or "VALID".
        output_padding: an int, or [height, width]: rows and columns added at the end; less than stride or dilation.
        groups: number of groups that channels and filters are split into.
        output_size: an int, or [height, width] of the result, instead of `output_padding`.
        data_format: "NCHW" or "NHWC".
        name: a name for the outputs.

    Returns:
        Tensor of shape [N, filters, height, width], or its NHWC form; each size is
        (size - 1) * stride - 2 * padding + dilation * (filter - 1) + 1 + output_padding.

    Raises:
        ValueError: for another format or padding, channels that `groups` does not divide, an `output_size` that no
            `output_padding` yields, or both of them.

    Examples:
        >>> import paddle
        >>> x, w = paddle.ones([1, 3, 4, 4]), paddle.ones([3, 2, 3, 3])
        >>> paddle.nn.functional.conv2d_transpose(x, w, stride=2, output_size=[9, 10]).shape
        [1, 2, 9, 10]
    """
    return _conv_transpose(
        2, x, weight, bias, stride, padding, output_padding, dilation, groups, output_size, data_format, name
    )


def conv3d_transpose(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    output_size: Any = None,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Tensor:
    """The 3-D transposed convolution: each element of `x` adds the filter, scaled by it, to a window of the result.

    Args:
        x: Tensor of shape [N, C, D, H, W], or [N, D, H, W, C] for the format "NDHWC"; float16, float32 or float64.
        weight: Tensor of shape [C, filters / groups, depth, height, width].
        bias: Tensor of shape [filters], or None.
        stride, dilation: an int, or [depth, height, width].
        padding: elements removed from the result: an int, three ints, six ints, five pairs, "SAME" or "VALID".
        output_padding: an int, or [depth, height, width]: elements added at the end of each dimension of the result.
        groups: number of groups that channels and filters are split into.
        output_size: an int, or [depth, height, width] of the result, instead of `output_padding`.
        data_format: "NCDHW" or "NDHWC".
        name: a name for the outputs.

    Returns:
        Tensor of shape [N, filters, depth, height, width], or its NDHWC form.

    Raises:
        ValueError: for another format or padding, channels that `groups` does not divide, an `output_size` that no
            `output_padding` yields, or both of them.

    Examples:
        >>> import paddle
        >>> x, w = paddle.ones([1, 3, 2, 4, 4]), paddle.ones([3, 2, 3, 3, 3])
        >>> paddle.nn.functional.conv3d_transpose(x, w).shape
        [1, 2, 4, 6, 6]
    """
    return _conv_transpose(
        3, x, weight, bias, stride, padding, output_padding, dilation, groups, output_size, data_format, name
    )
