"""Layers with new parameters: fc, embedding, batch_norm, layer_norm, bilinear_tensor_product, row_conv."""

from __future__ import annotations

import math
import warnings

from paddle import _ops
from paddle._basics import mode
from paddle._basics.checks import check_dtype, check_type
from paddle._basics.dtypes import VarType
from paddle._basics.element_types import FLOATS, HALF_FLOATS, takes
from paddle._basics.mode import static_only
from paddle._dispatch.append import named
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.initializer.base import Constant
from paddle.nn.layer_helper import LayerHelper
from paddle.nn.param_attr import ParamAttr

__all__ = ["fc", "embedding", "batch_norm", "layer_norm", "bilinear_tensor_product", "row_conv"]


def fc_layer(input, size, num_flatten_dims=1, param_attr=None, bias_attr=None, act=None, name=None):  # noqa: A002
    """act(sum(input_i @ w_i) + b), each input flattened to a matrix from `num_flatten_dims` on; ``fluid.layers.fc``."""
    helper = LayerHelper("fc", **locals())
    check_type(input, "input", (list, tuple, Variable), "fc")
    if isinstance(input, (list, tuple)):
        for i, x in enumerate(input):
            check_type(x, f"input[{i}]", Variable, "fc")
    dtype = helper.input_dtype()
    check_dtype(dtype, "input", takes("fc"), "fc")
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
        weight_attr, bias_attr (ParamAttr|bool|..., optional): attributes of weight and bias; False for no bias.
        activation (str, optional): an activation operator.
        name (str, optional): prefix of the names of parameters and outputs.

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
    check_dtype(dtype, "dtype", HALF_FLOATS, where)
    table = helper.create_parameter(attr=helper.param_attr, shape=size, dtype=dtype)
    return named(
        helper.name,
        getattr(_ops, op_type),
        table,
        input,
        is_sparse=is_sparse,
        is_distributed=is_distributed,
        remote_prefetch=is_sparse and not is_distributed,
        padding_idx=_row(padding_idx, size),
    )


def _row(padding_idx, size) -> int:
    """A non-negative row number of a table of `size`; -1 for None."""
    return -1 if padding_idx is None else padding_idx if padding_idx >= 0 else size[0] + padding_idx


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
    """Embedding: rows of a new table, selected by ids.

    Args:
        input (Variable): int64 ids of any shape.
        size (list|tuple): [rows, width] of the table.
        is_sparse (bool): gradients as SelectedRows.
        padding_idx (int, optional): the id whose result is zeros.
        param_attr (ParamAttr, optional): attributes of the table.
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


@static_only
def sparse_embedding(
    input,  # noqa: A002
    size,
    padding_idx=None,
    is_test=False,
    entry=None,
    param_attr=None,
    dtype="float32",
):
    """Embedding by a table that parameter servers hold.

    Args:
        input (Variable): int64 ids, the last dimension of size 1.
        size (list|tuple): [rows, width] of the table.
        padding_idx (int, optional): the id whose result is zeros.
        is_test (bool): do not create rows for new ids.
        entry (ProbabilityEntry|CountFilterEntry, optional): selects the ids that get a row in training; None: all.
        param_attr (ParamAttr, optional): of the table.
        dtype (str): float32.

    Returns:
        Variable: of shape input.shape[:-1] + [width].

    Raises:
        TypeError: for other ids or another dtype.
        ValueError: for another kind of entry.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> ids = paddle.static.data("ids", [None, 1], "int64")
        >>> entry = paddle.distributed.CountFilterEntry(10)
        >>> paddle.static.nn.sparse_embedding(ids, [100000, 16], entry=entry).shape
        (-1, 16)
    """
    where = "paddle.static.nn.sparse_embedding"
    helper = LayerHelper("sparse_embedding", param_attr=param_attr)
    check_variable_and_dtype(input, "input", ["int64"], where)
    check_dtype(dtype, "dtype", ["float32"], where)
    if entry is not None and type(entry).__name__ not in ("ProbabilityEntry", "CountFilterEntry"):
        raise ValueError(f"{where}: entry must be a ProbabilityEntry or a CountFilterEntry, got {type(entry)}")
    table = helper.create_parameter(attr=helper.param_attr, shape=size, dtype=dtype, type=VarType.SELECTED_ROWS)
    return named(
        helper.name,
        _ops.lookup_table,
        table,
        input,
        is_sparse=True,
        is_distributed=True,
        remote_prefetch=True,
        padding_idx=_row(padding_idx, size),
        is_test=is_test,
        entry="none" if entry is None else entry._to_attr(),
    )


def batch_norm_parameters(helper, x, dtype, data_layout, statistics, averaged):
    """(scale, bias, running mean, running variance) of a batch norm of `x`; `statistics`: names of the last two.

    Raises:
        ValueError: for another layout than NCHW and NHWC.
    """
    if data_layout not in ("NCHW", "NHWC"):
        raise ValueError(f"unsupported data layout: {data_layout!s:.200}")
    shape = [x.shape[1 if data_layout == "NCHW" else -1]]
    scale = helper.create_parameter(attr=helper.param_attr, shape=shape, dtype=dtype, default_initializer=Constant(1.0))
    bias = helper.create_parameter(attr=helper.bias_attr, shape=shape, dtype=dtype, is_bias=True)
    running = []
    for name, value in zip(statistics, (0.0, 1.0), strict=True):
        attr = ParamAttr(name=name, initializer=Constant(value), trainable=False, do_model_average=averaged)
        running.append(helper.create_parameter(attr=attr, shape=shape, dtype=dtype))
        running[-1].stop_gradient = True
    return scale, bias, *running


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
    """Batch normalisation with new parameters and running statistics.

    Args:
        input (Variable): 2 to 5 dimensions, float16, float32 or float64.
        act (str, optional): an activation operator.
        is_test (bool): use the running statistics.
        momentum (float|Variable): running = momentum * running + (1 - momentum) * batch.
        data_layout (str): "NCHW": channels second; "NHWC": last.
        moving_mean_name, moving_variance_name (str, optional): names of the running statistics.
        use_global_stats (bool): use the running statistics in training as well.

    Raises:
        ValueError: for another layout.
    """
    assert bias_attr is not False, "batch_norm: bias_attr can not be False"
    helper = LayerHelper("batch_norm", **locals())
    check_variable_and_dtype(input, "input", takes("batch_norm"), "batch_norm")
    dtype = VarType.FP32 if input.dtype == VarType.FP16 else input.dtype
    names = (moving_mean_name, moving_variance_name)
    scale, bias, mean, variance = batch_norm_parameters(
        helper, input, dtype, data_layout, names, do_model_average_for_mean_and_var
    )
    keywords = {"MomentumTensor": momentum} if isinstance(momentum, Variable) else {"momentum": momentum}
    if in_place:
        keywords["Y"] = input
    if mode.in_static_mode():
        # As in 2.0.2 these are the layer's first two temporaries: scripts fetch them by these names.
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
    """Layer normalisation over the dimensions from `begin_norm_axis` on, with new parameters (static mode only).

    Args:
        input (Variable): float32 or float64.
        scale, shift (bool): whether to multiply by a scale and to add a shift.
        act (str, optional): an activation operator.
    """
    assert mode.in_static_mode(), "layer_norm is for Programs; use LayerNorm outside one"
    helper = LayerHelper("layer_norm", **locals())
    check_variable_and_dtype(input, "input", FLOATS, "layer_norm")
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


def bilinear_tensor_product(x, y, size, act=None, name=None, param_attr=None, bias_attr=None):
    """act(x W[k] y + b[k]) for every k of `size`, with new weights and bias (Paddle 2.0:
    paddle.static.nn.bilinear_tensor_product).

    Args:
        x (Variable): [batch, m], float32 or float64.
        y (Variable): [batch, n] of the same type.
        size (int): the number of matrices, and of columns of the result.
        act (str, optional): an activation operator.
        param_attr, bias_attr (ParamAttr|bool, optional): of the weights [size, m, n] and the bias [1, size]; False for
            no bias.

    Returns:
        Variable: [batch, size].

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> x, y = paddle.static.data("x", [None, 5]), paddle.static.data("y", [None, 4])
        >>> paddle.static.nn.bilinear_tensor_product(x, y, 10).shape
        (-1, 10)
    """
    helper = LayerHelper("bilinear_tensor_product", **locals())
    dtype = helper.input_dtype("x")
    weight = helper.create_parameter(attr=helper.param_attr, shape=[size, x.shape[1], y.shape[1]], dtype=dtype)
    bias = None
    if helper.bias_attr:
        bias = helper.create_parameter(attr=helper.bias_attr, shape=[1, size], dtype=dtype, is_bias=True)
    return helper.append_activation(named(helper.name, _ops.bilinear_tensor_product, x, y, weight, bias))


def row_conv(input, future_context_size, param_attr=None, act=None):  # noqa: A002
    """Lookahead convolution over each step and the following ones, with a filter for each column (Paddle 2.0:
    paddle.static.nn.row_conv).

    Args:
        input (Variable): float32; [steps, width] with LoD, or [sequences, steps, width].
        future_context_size (int): the number of following steps.
        param_attr (ParamAttr, optional): of the filter [future_context_size + 1, width].
        act (str, optional): an activation operator.

    Returns:
        Variable: of the shape (and LoD) of `input`.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> x = paddle.static.data("x", [9, 4, 16], "float32")
        >>> paddle.static.nn.row_conv(x, 2).shape
        (9, 4, 16)
    """
    helper = LayerHelper("row_conv", **locals())
    check_variable_and_dtype(input, "input", ["float32"], "row_conv")
    shape = [future_context_size + 1, input.shape[-1]]
    weight = helper.create_parameter(attr=helper.param_attr, shape=shape, dtype=helper.input_dtype())
    return helper.append_activation(named(helper.name, _ops.row_conv, input, weight))
