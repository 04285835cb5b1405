"""Layers that make their own parameters: fc, embedding, conv2d, batch_norm, layer_norm."""

from __future__ import annotations

import math
import warnings

from paddle import _ops
from paddle._basics import mode
from paddle._basics.checks import check_dtype, check_type
from paddle._basics.dtypes import VarType
from paddle._basics.mode import static_only
from paddle._dispatch.append import named
from paddle._dispatch.arguments import convert_to_list
from paddle._dispatch.windows import channel_last, paddings
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.initializer.base import Constant, Normal
from paddle.nn.layer_helper import LayerHelper
from paddle.nn.param_attr import ParamAttr

__all__ = ["fc", "embedding", "conv2d", "batch_norm", "layer_norm"]

_FLOATS = ["float16", "float32", "float64"]


def fc_layer(input, size, num_flatten_dims=1, param_attr=None, bias_attr=None, act=None, name=None):  # noqa: A002
    """act(sum(input_i @ w_i) + b), each input flattened to a matrix from `num_flatten_dims` on; ``fluid.layers.fc``."""
    helper = LayerHelper("fc", **locals())
    check_type(input, "input", (list, tuple, Variable), "fc")
    if isinstance(input, (list, tuple)):
        for i, x in enumerate(input):
            check_type(x, f"input[{i}]", Variable, "fc")
    dtype = helper.input_dtype()
    check_dtype(dtype, "input", _FLOATS, "fc")
    products = []
    for x, attr in helper.iter_inputs_and_params():
        if num_flatten_dims == -1:
            num_flatten_dims = len(x.shape) - 1
        shape = [math.prod(x.shape[num_flatten_dims:]), size]
        weight = helper.create_parameter(attr=attr, shape=shape, dtype=dtype)
        products.append(named(helper.name, _ops.mul, x, weight, x_num_col_dims=num_flatten_dims, y_num_col_dims=1))
    out = products[0] if len(products) == 1 else named(helper.name, _ops.sum, products)
    return helper.append_activation(helper.append_bias_op(out, dim_start=num_flatten_dims))


@static_only
def fc(x, size, num_flatten_dims=1, weight_attr=None, bias_attr=None, activation=None, name=None):
    """A fully connected layer: activation(x @ W + b).

    Args:
        x (Variable|list of Variable): float16, float32 or float64; flattened to matrices from `num_flatten_dims` on.
        size (int): units.
        weight_attr, bias_attr (ParamAttr|bool|..., optional): False for the bias: none.
        activation (str, optional): an activation operator.
        name (str, optional): a name for parameters and outputs.

    Returns:
        Variable: of shape x.shape[:num_flatten_dims] + [size].

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> x = paddle.static.data("x", [None, 8], "float32")
        >>> paddle.static.nn.fc(x, 3).shape
        (-1, 3)
    """
    return fc_layer(x, size, num_flatten_dims, weight_attr, bias_attr, activation, name)


def lookup_layer(op_type, where, input, size, is_sparse, is_distributed, padding_idx, param_attr, dtype):  # noqa: A002
    """Rows of a new table of shape `size` by the operator lookup_table or lookup_table_v2."""
    helper = LayerHelper("embedding", param_attr=param_attr)
    check_variable_and_dtype(input, "input", ["int64"], where)
    check_dtype(dtype, "dtype", _FLOATS, where)
    table = helper.create_parameter(attr=helper.param_attr, shape=size, dtype=dtype)
    padding_idx = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else size[0] + padding_idx
    return named(
        helper.name,
        getattr(_ops, op_type),
        table,
        input,
        is_sparse=is_sparse,
        is_distributed=is_distributed,
        remote_prefetch=is_sparse and not is_distributed,
        padding_idx=padding_idx,
    )


@static_only
def embedding(
    input,  # noqa: A002
    size,
    is_sparse=False,
    is_distributed=False,
    padding_idx=None,
    param_attr=None,
    dtype="float32",
):
    """Rows of a table for ids.

    Args:
        input (Variable): int64 ids of any shape.
        size (list|tuple): [rows, width] of the table.
        is_sparse (bool): gradients as SelectedRows.
        padding_idx (int, optional): this id gives zeros.
        param_attr (ParamAttr, optional): of the table.
        dtype (str): float16, float32 or float64.

    Returns:
        Variable: of shape input.shape + [width].
    """
    return lookup_layer(
        "lookup_table_v2",
        "fluid.embedding",
        input,
        size,
        is_sparse,
        is_distributed,
        padding_idx,
        param_attr,
        dtype,
    )


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
    """A 2-D convolution with filters and bias of its own.

    Args:
        input (Variable): [N, C, H, W], or [N, H, W, C] for NHWC; the channels must be known.
        num_filters (int): output channels.
        filter_size, stride, dilation (int|list): one number or [height, width].
        padding (int|list|str): a number, [height, width], [top, bottom, left, right], four pairs, "SAME" or "VALID".
        groups (int, optional): groups of channels.
        param_attr, bias_attr (ParamAttr|bool, optional): False for the bias: none.
        act (str, optional): an activation operator.

    Raises:
        ValueError: for channels that groups do not divide, unknown channels, another data format.
    """
    check_variable_and_dtype(input, "input", _FLOATS, "conv2d")
    if not isinstance(use_cudnn, bool):
        raise ValueError(f"use_cudnn must be True or False, got {use_cudnn}")
    last = channel_last(data_format, 2)
    channels = input.shape[3 if last else 1]
    if channels < 0:
        raise ValueError(f"conv: the number of channels of input must be known, got {channels} in shape {input.shape}")
    assert param_attr is not False, "conv: param_attr can not be False"
    depthwise = channels == groups and num_filters % channels == 0 and not use_cudnn
    op_type = "depthwise_conv2d" if depthwise else "conv2d"
    helper = LayerHelper(op_type, **locals())
    if groups is not None and (groups <= 0 or channels % groups):
        raise ValueError(
            f"conv: groups={groups} does not divide the {channels} channels of input (shape {input.shape})"
        )
    filter_size = convert_to_list(filter_size, 2, "filter_size")
    sizes, algorithm = paddings(padding, 2, last)
    elements = filter_size[0] * filter_size[1] * channels
    filters = helper.create_parameter(
        attr=helper.param_attr,
        shape=[num_filters, channels // (groups or 1), *filter_size],
        dtype=input.dtype,
        default_initializer=Normal(0.0, (2.0 / elements) ** 0.5, 0),
    )
    out = named(
        helper.name,
        getattr(_ops, op_type),
        input,
        filters,
        strides=convert_to_list(stride, 2, "stride"),
        paddings=sizes,
        dilations=convert_to_list(dilation, 2, "dilation"),
        groups=groups or 1,
        use_cudnn=use_cudnn,
        padding_algorithm=algorithm,
        data_format=data_format,
    )
    axis = 3 if last else 1
    return helper.append_activation(helper.append_bias_op(out, dim_start=axis, dim_end=axis + 1))


def batch_norm(
    input,  # noqa: A002
    act=None,
    is_test=False,
    momentum=0.9,
    epsilon=1e-05,
    param_attr=None,
    bias_attr=None,
    data_layout="NCHW",
    in_place=False,
    name=None,
    moving_mean_name=None,
    moving_variance_name=None,
    do_model_average_for_mean_and_var=True,
    use_global_stats=False,
):
    """Batch normalisation with parameters and running statistics of its own.

    Args:
        input (Variable): 2 to 5 dimensions, float16, float32 or float64.
        act (str, optional): an activation operator.
        is_test (bool): use the running statistics.
        momentum (float|Variable): running = momentum * running + (1 - momentum) * batch.
        data_layout (str): "NCHW": channels second; "NHWC": last.
        moving_mean_name, moving_variance_name (str, optional): names of the running statistics.
        use_global_stats (bool): use the running statistics when training, too.

    Raises:
        ValueError: for another layout.
    """
    assert bias_attr is not False, "batch_norm: bias_attr can not be False"
    helper = LayerHelper("batch_norm", **locals())
    check_variable_and_dtype(input, "input", _FLOATS, "batch_norm")
    if data_layout not in ("NCHW", "NHWC"):
        raise ValueError(f"unsupported data layout: {data_layout!s:.200}")
    dtype = VarType.FP32 if input.dtype == VarType.FP16 else input.dtype
    shape = [input.shape[1 if data_layout == "NCHW" else -1]]
    scale = helper.create_parameter(attr=helper.param_attr, shape=shape, dtype=dtype, default_initializer=Constant(1.0))
    bias = helper.create_parameter(attr=helper.bias_attr, shape=shape, dtype=dtype, is_bias=True)
    running = []
    for stat_name, value in ((moving_mean_name, 0.0), (moving_variance_name, 1.0)):
        attr = ParamAttr(
            name=stat_name,
            initializer=Constant(value),
            trainable=False,
            do_model_average=do_model_average_for_mean_and_var,
        )
        stat = helper.create_parameter(attr=attr, shape=shape, dtype=dtype)
        stat.stop_gradient = True
        running.append(stat)
    mean, variance = running
    keywords = {"MomentumTensor": momentum} if isinstance(momentum, Variable) else {"momentum": momentum}
    if in_place:
        keywords["Y"] = input
    if not mode.in_dygraph_mode():
        # As in 2.0.2 these are the first two of the layer's temporaries, by whose names they are fetched.
        for slot in ("SavedMean", "SavedVariance"):
            keywords[slot] = helper.create_variable_for_type_inference(dtype)
    outputs = named(
        helper.name,
        _ops.batch_norm,
        input,
        scale,
        bias,
        mean,
        variance,
        epsilon=epsilon,
        is_test=is_test,
        data_layout=data_layout,
        use_global_stats=use_global_stats,
        MeanOut=mean,
        VarianceOut=variance,
        **keywords,
    )
    for saved in outputs[3:5]:
        saved.stop_gradient = True
    return helper.append_activation(outputs[0])


def layer_norm(
    input,  # noqa: A002
    scale=True,
    shift=True,
    begin_norm_axis=1,
    epsilon=1e-05,
    param_attr=None,
    bias_attr=None,
    act=None,
    name=None,
):
    """Layer normalisation over the dimensions from `begin_norm_axis` on, with parameters of its own (static mode only).

    Args:
        input (Variable): float32 or float64.
        scale, shift (bool): whether to multiply and to add parameters.
        act (str, optional): an activation operator.
    """
    assert not mode.in_dygraph_mode(), "layer_norm is for Programs; use LayerNorm outside one"
    helper = LayerHelper("layer_norm", **locals())
    check_variable_and_dtype(input, "input", ["float32", "float64"], "layer_norm")
    shape = [math.prod(input.shape[begin_norm_axis:])]
    weight = bias = None
    if scale:
        assert param_attr is not False, "layer_norm: scale=True needs a param_attr other than False"
        weight = helper.create_parameter(
            attr=helper.param_attr, shape=shape, dtype=input.dtype, default_initializer=Constant(1.0)
        )
    elif param_attr:
        warnings.warn("layer_norm: param_attr has no meaning with scale=False", stacklevel=2)
    if shift:
        assert bias_attr is not False, "layer_norm: shift=True needs a bias_attr other than False"
        bias = helper.create_parameter(attr=helper.bias_attr, shape=shape, dtype=input.dtype, is_bias=True)
    elif bias_attr:
        warnings.warn("layer_norm: bias_attr has no meaning with shift=False", stacklevel=2)
    out, mean, variance = named(
        helper.name,
        _ops.layer_norm,
        input,
        weight,
        bias,
        epsilon=epsilon,
        begin_norm_axis=begin_norm_axis,
    )
    mean.stop_gradient = variance.stop_gradient = True
    return helper.append_activation(out)
