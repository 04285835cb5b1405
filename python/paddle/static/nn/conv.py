"""Convolutions with new filters and bias: plain, transposed and deformable."""

from __future__ import annotations

from paddle import _ops
from paddle._basics.checks import INTS, check_type
from paddle._basics.element_types import FLOATS, takes
from paddle._dispatch.append import named
from paddle._dispatch.arguments import convert_to_list
from paddle._dispatch.windows import channel_last
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.functional.conv import channels_of, filters_of, run_deformable, windows
from paddle.nn.layer_helper import LayerHelper

__all__ = ["conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose", "deform_conv2d"]


def _channels(input, groups, last, use_cudnn, param_attr):  # noqa: A002
    """The number of the input's channels; ValueError for arguments that do not match it."""
    if not isinstance(use_cudnn, bool):
        raise ValueError(f"use_cudnn must be True or False, got {use_cudnn}")
    assert param_attr is not False, "conv: param_attr can not be False"
    return channels_of(input, groups, last, "input")


def _filters(helper, dtype, *layout, transposed=False):
    """New filters; `layout` as for `filters_of`."""
    shape, initializer = filters_of(*layout, transposed=transposed)
    attr = helper.param_attr
    return helper.create_parameter(attr=attr, shape=shape, dtype=dtype, default_initializer=initializer)


def _finished(helper, out, last):
    """Add the bias and apply the activation."""
    axis = len(out.shape) - 1 if last else 1
    return helper.append_activation(helper.append_bias_op(out, dim_start=axis, dim_end=axis + 1))


def _conv(dims, input, num_filters, filter_size, stride, padding, dilation, groups, use_cudnn, data_format, **layer):  # noqa: A002
    """The convolution in `dims` dimensions; `layer` has the arguments of LayerHelper."""
    check_variable_and_dtype(input, "input", takes(f"conv{dims}d"), f"conv{dims}d")
    last = channel_last(data_format, dims)
    channels = _channels(input, groups, last, use_cudnn, layer["param_attr"])
    depthwise = dims == 2 and channels == groups and num_filters % channels == 0 and not use_cudnn
    op_type = "depthwise_conv2d" if depthwise else f"conv{dims}d"
    helper = LayerHelper(op_type, input=input, use_cudnn=use_cudnn, **layer)
    size = convert_to_list(filter_size, dims, "filter_size")
    attrs = windows(dims, stride, padding, dilation, groups, data_format, last)
    filters = _filters(helper, input.dtype, channels, num_filters, groups, size)
    out = named(helper.name, getattr(_ops, op_type), input, filters, use_cudnn=use_cudnn, **attrs)
    return _finished(helper, out, last)


def _conv_transpose(
    dims,
    input,  # noqa: A002
    num_filters,
    output_size,
    filter_size,
    padding,
    stride,
    dilation,
    groups,
    use_cudnn,
    data_format,
    **layer,
):
    """The transposed convolution in `dims` dimensions; without a filter size, it follows from `output_size`."""
    last = channel_last(data_format, dims)
    if not isinstance(input, Variable):
        raise TypeError(f"conv{dims}d_transpose: input must be a Variable, got {type(input)}")
    channels = _channels(input, groups, last, use_cudnn, layer["param_attr"])
    depthwise = dims == 2 and channels == groups == num_filters and not use_cudnn
    op_type = "depthwise_conv2d_transpose" if depthwise else f"conv{dims}d_transpose"
    helper = LayerHelper(op_type, input=input, use_cudnn=use_cudnn, **layer)
    # Paddle's names of the formats, for any number of dimensions
    attrs = windows(dims, stride, padding, dilation, groups, "NHWC" if last else "NCHW", last)
    if output_size is not None:
        if not isinstance(output_size, (list, tuple, INTS)):
            raise ValueError(f"output_size must be an int, or a list or tuple of them, got {type(output_size)}")
        output_size = convert_to_list(output_size, dims, "output_size")
    if filter_size is not None:
        size = convert_to_list(filter_size, dims, f"conv{dims}d_transpose.filter_size")
    elif output_size is None:
        raise ValueError("output_size must be given where filter_size is not")
    else:
        own = input.shape[1:-1] if last else input.shape[2:]
        sizes, strides, dilations = attrs["paddings"], attrs["strides"], attrs["dilations"]
        both = sizes if len(sizes) == 2 * dims else [n for n in sizes for _ in (0, 1)]
        size = [
            (output_size[i] - (own[i] - 1) * strides[i] + both[2 * i] + both[2 * i + 1] - 1) // dilations[i] + 1
            for i in range(dims)
        ]
    filters = _filters(helper, input.dtype, channels, num_filters, groups, size, transposed=True)
    op = getattr(_ops, op_type)
    out = named(helper.name, op, input, filters, output_size=output_size or [], use_cudnn=use_cudnn, **attrs)
    return _finished(helper, out, last)


def deformable_layer(
    input,  # noqa: A002
    offset,
    mask,
    num_filters,
    filter_size,
    stride,
    padding,
    dilation,
    groups,
    deformable_groups,
    im2col_step,
    param_attr,
    bias_attr,
    modulated,
    name,
):
    """A deformable convolution; `modulated`: version 2, with the elements scaled by `mask`."""
    for what, x in (("input", input), ("offset", offset)):
        check_variable_and_dtype(x, what, FLOATS, "deformable_conv")
    check_type(mask, "mask", (Variable, type(None)), "deformable_conv")
    channels = _channels(input, groups, False, True, param_attr)
    helper = LayerHelper("deformable_conv", input=input, param_attr=param_attr, bias_attr=bias_attr, name=name)
    size = convert_to_list(filter_size, 2, "filter_size")
    filters = _filters(helper, helper.input_dtype(), channels, num_filters, groups, size)
    given = {"groups": groups, "deformable_groups": deformable_groups, "im2col_step": im2col_step}
    operands = (input, offset, mask, filters) if modulated else (input, offset, filters)
    attrs = {k: v for k, v in given.items() if v is not None}
    out = run_deformable(helper.name, operands, stride, padding, dilation, **attrs)
    return helper.append_bias_op(out, dim_start=1, dim_end=2)


def conv2d(
    input,  # noqa: A002
    num_filters,
    filter_size,
    stride=1,
    padding=0,
    dilation=1,
    groups=None,
    param_attr=None,
    bias_attr=None,
    use_cudnn=True,
    act=None,
    name=None,
    data_format="NCHW",
):
    """A 2-D convolution with new filters and bias.

    Args:
        input (Variable): [N, C, H, W], or [N, H, W, C] for NHWC; the channels must be known.
        num_filters (int): output channels.
        filter_size, stride, dilation (int|list): one number or [height, width].
        padding (int|list|str): a number, [height, width], [top, bottom, left, right], four pairs, "SAME" or "VALID".
        groups (int, optional): groups of channels.
        param_attr, bias_attr (ParamAttr|bool, optional): attributes of filters and bias; False for no bias.
        act (str, optional): an activation operator.

    Raises:
        ValueError: for channels that groups do not divide, unknown channels, another data format.
    """
    return _conv(
        2,
        input,
        num_filters,
        filter_size,
        stride,
        padding,
        dilation,
        groups,
        use_cudnn,
        data_format,
        param_attr=param_attr,
        bias_attr=bias_attr,
        act=act,
        name=name,
    )


def conv3d(
    input,  # noqa: A002
    num_filters,
    filter_size,
    stride=1,
    padding=0,
    dilation=1,
    groups=None,
    param_attr=None,
    bias_attr=None,
    use_cudnn=True,
    act=None,
    name=None,
    data_format="NCDHW",
):
    """A 3-D convolution with new filters and bias (Paddle 2.0: paddle.static.nn.conv3d).

    Args:
        input (Variable): [N, C, D, H, W], or [N, D, H, W, C] for NDHWC; the channels must be known.
        num_filters (int): output channels.
        filter_size, stride, dilation (int|list): one number or [depth, height, width].
        padding (int|list|str): a number, three, six (before and behind each dimension), five pairs, "SAME" or "VALID".
        groups (int, optional): groups of channels.
        param_attr, bias_attr (ParamAttr|bool, optional): attributes of filters and bias; False for no bias.
        act (str, optional): an activation operator.

    Raises:
        ValueError: for channels that groups do not divide, unknown channels, another data format.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> x = paddle.static.data("x", [None, 3, 4, 8, 8], "float32")
        >>> paddle.static.nn.conv3d(x, 2, 3).shape
        (-1, 2, 2, 6, 6)
    """
    return _conv(
        3,
        input,
        num_filters,
        filter_size,
        stride,
        padding,
        dilation,
        groups,
        use_cudnn,
        data_format,
        param_attr=param_attr,
        bias_attr=bias_attr,
        act=act,
        name=name,
    )


def conv2d_transpose(
    input,  # noqa: A002
    num_filters,
    output_size=None,
    filter_size=None,
    padding=0,
    stride=1,
    dilation=1,
    groups=None,
    param_attr=None,
    bias_attr=None,
    use_cudnn=True,
    act=None,
    name=None,
    data_format="NCHW",
):
    """A 2-D transposed convolution with new filters and bias (Paddle 2.0: paddle.static.nn.conv2d_transpose).

    Args:
        input (Variable): [N, C, H, W], or [N, H, W, C] for NHWC; the channels must be known.
        num_filters (int): output channels.
        output_size (int|list, optional): [height, width] of the result, where the stride permits several.
        filter_size (int|list, optional): one number or [height, width]; None: derived from `output_size`.
        padding (int|list|str): the size cut off: a number, two, four, four pairs, "SAME" or "VALID".
        stride, dilation (int|list): one number or [height, width].
        groups (int, optional): groups of channels.
        param_attr, bias_attr (ParamAttr|bool, optional): attributes of filters and bias; False for no bias.
        act (str, optional): an activation operator.

    Raises:
        ValueError: for another data format or padding, or without both sizes.
        TypeError: for an input that is no Variable.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> x = paddle.static.data("x", [None, 3, 32, 32], "float32")
        >>> paddle.static.nn.conv2d_transpose(x, 2, filter_size=3).shape
        (-1, 2, 34, 34)
    """
    return _conv_transpose(
        2,
        input,
        num_filters,
        output_size,
        filter_size,
        padding,
        stride,
        dilation,
        groups,
        use_cudnn,
        data_format,
        param_attr=param_attr,
        bias_attr=bias_attr,
        act=act,
        name=name,
    )


def conv3d_transpose(
    input,  # noqa: A002
    num_filters,
    output_size=None,
    filter_size=None,
    padding=0,
    stride=1,
    dilation=1,
    groups=None,
    param_attr=None,
    bias_attr=None,
    use_cudnn=True,
    act=None,
    name=None,
    data_format="NCDHW",
):
    """A 3-D transposed convolution with new filters and bias (Paddle 2.0: paddle.static.nn.conv3d_transpose).

    Args:
        input (Variable): [N, C, D, H, W], or [N, D, H, W, C] for NDHWC; the channels must be known.
        num_filters (int): output channels.
        output_size (int|list, optional): [depth, height, width] of the result, where the stride permits several.
        filter_size (int|list, optional): one number or three; None: derived from `output_size`.
        padding (int|list|str): the size cut off: a number, three, six, five pairs, "SAME" or "VALID".
        stride, dilation (int|list): one number or [depth, height, width].
        groups (int, optional): groups of channels.
        param_attr, bias_attr (ParamAttr|bool, optional): attributes of filters and bias; False for no bias.
        act (str, optional): an activation operator.

    Raises:
        ValueError: for another data format or padding, or without both sizes.
        TypeError: for an input that is no Variable.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> x = paddle.static.data("x", [None, 3, 4, 8, 8], "float32")
        >>> paddle.static.nn.conv3d_transpose(x, 2, filter_size=3).shape
        (-1, 2, 6, 10, 10)
    """
    return _conv_transpose(
        3,
        input,
        num_filters,
        output_size,
        filter_size,
        padding,
        stride,
        dilation,
        groups,
        use_cudnn,
        data_format,
        param_attr=param_attr,
        bias_attr=bias_attr,
        act=act,
        name=name,
    )


def deform_conv2d(
    x,
    offset,
    mask,
    num_filters,
    filter_size,
    stride=1,
    padding=0,
    dilation=1,
    groups=1,
    deformable_groups=1,
    im2col_step=1,
    weight_attr=None,
    bias_attr=None,
    name=None,
):
    """A deformable convolution with new filters and bias: every element of a window is displaced by `offset` and, with
    a `mask`, scaled by it (Paddle 2.0: paddle.static.nn.deform_conv2d).

    Args:
        x (Variable): [N, C, H, W], float32 or float64.
        offset (Variable): [N, 2 * deformable_groups * filter's elements, height, width]: rows, columns of each element.
        mask (Variable|None): [N, deformable_groups * filter's elements, height, width].
        num_filters (int): output channels.
        filter_size, stride, padding, dilation (int|list): one number or [height, width].
        groups (int): groups of channels.
        deformable_groups (int): groups of channels with separate displacements.
        im2col_step (int): must divide N; no effect.
        weight_attr, bias_attr (ParamAttr|bool, optional): attributes of filters and bias; False for no bias.

    Returns:
        Variable: [N, num_filters, height, width].

    Raises:
        ValueError: for shapes that do not fit.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> x = paddle.static.data("x", [None, 3, 8, 8], "float32")
        >>> offset = paddle.static.data("offset", [None, 18, 6, 6], "float32")
        >>> paddle.static.nn.deform_conv2d(x, offset, None, 2, 3).shape
        (-1, 2, 6, 6)
    """
    return deformable_layer(
        x,
        offset,
        mask,
        num_filters,
        filter_size,
        stride,
        padding,
        dilation,
        groups,
        deformable_groups,
        im2col_step,
        weight_attr,
        bias_attr,
        mask is not None,
        name,
    )
