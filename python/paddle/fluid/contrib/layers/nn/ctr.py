"""Layers for click models and text matching: batched products, partial sums of rows, tree and sequence convolutions."""

from __future__ import annotations

import logging
from typing import Any

from paddle import _ops
from paddle._basics.element_types import FLOATS, HALF_NUMERIC, NUMERIC
from paddle._dispatch.append import named
from paddle._dispatch.arguments import convert_to_list
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_dtype, check_type, check_variable_and_dtype
from paddle.nn.layer_helper import LayerHelper

__all__ = [
    "batch_fc",
    "match_matrix_tensor",
    "partial_concat",
    "partial_sum",
    "rank_attention",
    "tree_conv",
    "var_conv_2d",
]


def tree_conv(
    nodes_vector: Any,
    edge_set: Any,
    output_size: int,
    num_filters: int = 1,
    max_depth: int = 2,
    act: str | None = "tanh",
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Any:
    """A convolution over trees: every node reads its descendants, weighted by their positions.

    Args:
        nodes_vector (Variable): [N, nodes, features], float32 or float64.
        edge_set (Variable): int32 [N, edges, 2]: pairs (node, child), numbered from 1; 0 ends the list of a tree.
        output_size (int): outputs of each filter.
        num_filters (int): number of filters.
        max_depth (int): levels that a node reads, including its own.
        act (str): name of an activation, or None.
        param_attr, bias_attr (ParamAttr): of the filters, [features, 3, output_size, num_filters], and of the bias;
            bias_attr=False: no bias.
        name (str): prefix of the parameters' names.

    Returns:
        Variable: [N, nodes, output_size, num_filters].

    Raises:
        TypeError: if nodes_vector or edge_set is not a Variable.
        ValueError: for incompatible shapes, or edges to nodes that do not exist.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> nodes, edges = fluid.data("nodes", [None, 10, 5]), fluid.data("edges", [None, 10, 2], "int32")
        >>> fluid.contrib.layers.tree_conv(nodes, edges, 6, 1, 2).shape
        (-1, 10, 6, 1)
    """
    check_type(nodes_vector, "nodes_vector", Variable, "tree_conv")
    check_type(edge_set, "edge_set", Variable, "tree_conv")
    helper = LayerHelper("tree_conv", param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    shape = [nodes_vector.shape[2], 3, output_size, num_filters]
    w = helper.create_parameter(attr=helper.param_attr, shape=shape, dtype=nodes_vector.dtype, is_bias=False)
    out = named(helper.name, _ops.tree_conv, nodes_vector, edge_set, w, max_depth=max_depth)
    return helper.append_activation(helper.append_bias_op(out) if helper.bias_attr else out)


def var_conv_2d(
    input: Any,  # noqa: A002
    row: Any,
    col: Any,
    input_channel: int,
    output_channel: int,
    filter_size: Any,
    stride: Any = 1,
    param_attr: Any = None,
    act: str | None = None,
    dtype: str = "float32",
    name: str | None = None,
) -> Any:
    """A convolution of images of different sizes.

    Args:
        input (Variable): [elements, 1], float32; a sequence holds the channels of an image, row by row.
        row, col (Variable): their LoD gives the rows and columns of each image.
        input_channel, output_channel (int): number of channels.
        filter_size, stride (int, or a list or tuple of 2): [rows, columns].
        param_attr (ParamAttr): of the filters, [output_channel, input_channel * rows * columns].
        act (str): name of an activation, or None.
        dtype (str): of the filters.
        name (str): prefix of the parameters' names.

    Returns:
        Variable: [elements, 1] with a LoD, a sequence for each image; sizes are divided by the stride, rounded up.

    Raises:
        ValueError: for incompatible sizes and LoDs.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x, row, col = (fluid.data(n, [None, 1], lod_level=1) for n in ("x", "row", "col"))
        >>> fluid.contrib.var_conv_2d(x, row, col, input_channel=3, output_channel=5, filter_size=[3, 3]).shape
        (-1, 1)
    """
    helper = LayerHelper("var_conv_2d", param_attr=param_attr, act=act, name=name)
    assert len(input.shape) == 2, f"var_conv_2d: input must have 2 dimensions, got shape {input.shape}"
    rows, cols = convert_to_list(filter_size, 2, "filter_size")
    down, across = convert_to_list(stride, 2, "stride")
    shape = [int(output_channel), int(input_channel) * rows * cols]
    w = helper.create_parameter(attr=helper.param_attr, shape=shape, dtype=dtype)
    sizes = {"KernelH": rows, "KernelW": cols, "StrideH": down, "StrideW": across}
    channels = {"InputChannel": input_channel, "OutputChannel": output_channel}
    return helper.append_activation(named(helper.name, _ops.var_conv_2d, input, row, col, w, **channels, **sizes)[0])


def match_matrix_tensor(
    x: Any,
    y: Any,
    channel_num: int,
    act: str | None = None,
    param_attr: Any = None,
    dtype: str = "float32",
    name: str | None = None,
) -> Any:
    """Bilinear products of every step of a sequence with every step of another, for `channel_num` weight matrices.

    Args:
        x, y (Variable): [steps, width] with a LoD, float32; with the same number of sequences.
        channel_num (int): number of weight matrices.
        act (str): name of an activation, or None.
        param_attr (ParamAttr): of the weights, [width, channel_num, width].
        dtype (str): of the weights.
        name (str): prefix of the parameters' names.

    Returns:
        tuple: [elements, 1] with a LoD, for each pair of sequences one matrix per channel; and x times the weights.

    Raises:
        ValueError: for incompatible LoDs.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x, y = (fluid.data(n, [None, 16], lod_level=1) for n in "xy")
        >>> fluid.contrib.match_matrix_tensor(x, y, channel_num=3)[0].shape
        (-1, 1)
    """
    helper = LayerHelper("match_matrix_tensor", param_attr=param_attr, act=act, name=name)
    fits = len(x.shape) == len(y.shape) == 2 and x.shape[-1] == y.shape[-1]
    assert fits, f"match_matrix_tensor: x and y must have rows of one width, got shapes {x.shape} and {y.shape}"
    shape = [x.shape[-1], channel_num, y.shape[-1]]
    w = helper.create_parameter(attr=helper.param_attr, shape=shape, dtype=dtype, is_bias=False)
    out, turned = named(helper.name, _ops.match_matrix_tensor, x, y, w, dim_t=channel_num)
    turned.stop_gradient = True
    return helper.append_activation(out), turned


def partial_concat(input: Any, start_index: int = 0, length: int = -1) -> Any:  # noqa: A002
    """The same columns of several matrices, concatenated along the rows.

    Args:
        input (list of Variables): matrices of the same shape and type.
        start_index (int): the first column; negative values count from the end.
        length (int): number of columns; -1 for all following ones.

    Returns:
        Variable: [rows, matrices * length].

    Raises:
        TypeError: for matrices of another type.
        ValueError: for columns that do not exist.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([[0, 1, 2], [3, 4, 5]])
        >>> paddle.fluid.contrib.layers.partial_concat([x, x + 6], start_index=0, length=2).numpy().tolist()
        [[0, 1, 6, 7], [3, 4, 9, 10]]
    """
    if not isinstance(input, list):
        logging.warning("partial_concat: input should be a list, got %s", type(input))
        input = [input]  # noqa: A001
    for i, x in enumerate(input):
        check_variable_and_dtype(x, f"input[{i}]", HALF_NUMERIC, "partial_concat")
    check_type(start_index, "start_index", int, "partial_concat")
    check_type(length, "length", int, "partial_concat")
    return _ops.partial_concat(input, start_index=start_index, length=length)


def partial_sum(input: Any, start_index: int = 0, length: int = -1) -> Any:  # noqa: A002
    """The sum of the same columns of several matrices.

    Args:
        input (list of Variables): matrices of the same shape and type.
        start_index (int): the first column.
        length (int): number of columns; -1 for all following ones.

    Returns:
        Variable: [rows, length].

    Raises:
        TypeError: for matrices of another type.
        IndexError: for columns that do not exist.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([[0, 1, 2], [3, 4, 5]])
        >>> paddle.fluid.contrib.layers.partial_sum([x, x + 6], start_index=0, length=2).numpy().tolist()
        [[6, 8], [12, 14]]
    """
    for i, x in enumerate(input):
        check_variable_and_dtype(x, f"input[{i}]", NUMERIC, "partial_sum")
    return _ops.partial_sum(input, start_index=start_index, length=length)


def rank_attention(
    input: Any,  # noqa: A002
    rank_offset: Any,
    rank_param_shape: Any,
    rank_param_attr: Any,
    max_rank: int = 3,
    max_size: int = 0,
) -> Any:
    """For each sample, the sum over other samples of their features times the parameter block of both samples' ranks.

    Args:
        input (Variable): [rows, features], float32 or float64.
        rank_offset (Variable): int32 [rows, 1 + 2 * max_rank]: a row's rank, then the rank and the row of each other
            sample. Ranks start at 1; 0 for none.
        rank_param_shape (list of int): [features * max_rank * max_rank, outputs].
        rank_param_attr (ParamAttr): of the parameters.
        max_rank (int): the largest rank.
        max_size (int): ignored on the CPU.

    Returns:
        Variable: [rows, outputs].

    Raises:
        ValueError: for incompatible shapes, or ranks and rows that do not exist.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x, offset = fluid.data("x", [None, 2]), fluid.data("offset", [None, 7], "int32")
        >>> fluid.contrib.layers.rank_attention(x, offset, [18, 3], fluid.ParamAttr(name="ranks"), 3, 0).shape
        (-1, 3)
    """
    rows = input.shape[1] * max_rank * max_rank
    assert rows == rank_param_shape[0], f"rank_attention: rank_param_shape must be [{rows}, n], got {rank_param_shape}"
    helper = LayerHelper("rank_attention")
    w = helper.create_parameter(attr=rank_param_attr, shape=rank_param_shape, dtype=input.dtype)
    w.stop_gradient = False
    return named(helper.name, _ops.rank_attention, input, rank_offset, w, MaxRank=max_rank, MaxSize=max_size)[1]


def batch_fc(
    input: Any,  # noqa: A002
    param_size: Any,
    param_attr: Any,
    bias_size: Any,
    bias_attr: Any,
    act: str | None = None,
) -> Any:
    """A separate matrix product and bias for each slot of a batch.

    Args:
        input (Variable): [slots, rows, in], float32 or float64.
        param_size (list of int): [slots, in, out].
        param_attr (ParamAttr): of the matrices.
        bias_size (list of int): [slots, out].
        bias_attr (ParamAttr): of the biases.
        act (str): name of an activation, or None.

    Returns:
        Variable: [slots, rows, out].

    Raises:
        TypeError: for an input of another type.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x = fluid.data("x", [16, 2, 3])
        >>> w, b = fluid.ParamAttr(name="w"), fluid.ParamAttr(name="b")
        >>> fluid.contrib.layers.batch_fc(x, [16, 3, 10], w, [16, 10], b, act="relu").shape
        (16, 2, 10)
    """
    check_type(input, "input", Variable, "batch_fc")
    assert input.shape[0] == param_size[0] == bias_size[0], "batch_fc: input and parameters must have as many slots"
    assert input.shape[2] == param_size[1], "batch_fc: the rows of input must fit the matrices"
    assert param_size[2] == bias_size[1], "batch_fc: the biases must fit the matrices"
    check_dtype(input.dtype, "input", FLOATS, "batch_fc")
    helper = LayerHelper("batch_fc", act=act)
    w = helper.create_parameter(attr=param_attr, shape=param_size, dtype=input.dtype, is_bias=False)
    b = helper.create_parameter(attr=bias_attr, shape=bias_size, dtype=input.dtype, is_bias=False)
    return helper.append_activation(named(helper.name, _ops.batch_fc, input, w, b))
