"""Sequence functions: on tensors with a LoD, each level of which groups rows (or sequences of the next level).

The functions are for Programs; in dygraph mode they raise AssertionError.
"""

from __future__ import annotations

from paddle import _ops
from paddle._basics import mode
from paddle._basics.checks import check_type
from paddle._basics.element_types import INDICES, NUMERIC, takes
from paddle._dispatch.append import checked, named
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.layer_helper import LayerHelper

__all__ = [
    "sequence_concat",
    "sequence_conv",
    "sequence_enumerate",
    "sequence_expand",
    "sequence_expand_as",
    "sequence_first_step",
    "sequence_last_step",
    "sequence_pad",
    "sequence_pool",
    "sequence_reshape",
    "sequence_reverse",
    "sequence_scatter",
    "sequence_slice",
    "sequence_softmax",
    "sequence_unpad",
]


def _static_only() -> None:
    assert mode.in_static_mode(), "sequence layers are for Programs only"


def sequence_conv(
    input,  # noqa: A002
    num_filters,
    filter_size=3,
    filter_stride=1,
    padding=True,
    padding_start=None,
    bias_attr=None,
    param_attr=None,
    act=None,
    name=None,
):
    """A convolution over the steps of each sequence, with a new filter.

    Args:
        input (Variable): [steps, width], float32 or float64, one LoD level.
        num_filters (int): the width of the result.
        filter_size (int): the number of steps of a window.
        filter_stride (int): must be 1.
        padding (bool): not used: steps outside a sequence are zeros, so that the number of steps is kept.
        padding_start (int, optional): the offset of a window's first step; -(filter_size // 2) when None.
        bias_attr, param_attr (ParamAttr|bool, optional): of the bias (False for none) and of the filter.
        act (str, optional): an activation operator.
        name (str, optional): a name for parameters and outputs.

    Returns:
        Variable: [steps, num_filters], the LoD of `input`.

    Raises:
        AssertionError: in dygraph mode. TypeError: for other types. ValueError: for more than one LoD level.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> x = paddle.static.data("x", [None, 8], "float32", lod_level=1)
        >>> y = paddle.static.nn.sequence_conv(x, num_filters=4)
        >>> y.shape, y.lod_level
        ((-1, 4), 1)
    """
    _static_only()
    check_variable_and_dtype(input, "input", takes("sequence_conv"), "sequence_conv")
    helper = LayerHelper("sequence_conv", **locals())
    shape = [filter_size * input.shape[1], num_filters]
    weight = helper.create_parameter(attr=helper.param_attr, shape=shape, dtype=input.dtype)
    out = named(
        helper.name,
        _ops.sequence_conv,
        input,
        None,
        weight,
        contextStride=filter_stride,
        contextStart=-(filter_size // 2) if padding_start is None else padding_start,
        contextLength=filter_size,
    )
    return helper.append_activation(helper.append_bias_op(out))


def sequence_softmax(input, use_cudnn=False, name=None):  # noqa: A002
    """Softmax over the steps of every sequence of the last LoD level.

    Args:
        input (Variable): float32 or float64, one element for each step, with a LoD.
        use_cudnn (bool): an attribute of the operator; no effect.
        name (str, optional): a name for the output.
    """
    _static_only()
    return named(name, _ops.sequence_softmax, input, use_cudnn=use_cudnn)


def sequence_pool(input, pool_type, is_test=False, pad_value=0.0):  # noqa: A002
    """One row for each sequence of the last LoD level.

    Args:
        input (Variable): float32 or float64 with a LoD.
        pool_type (str): "average", "sum", "sqrt", "max", "first" or "last".
        is_test (bool): do not keep the positions of maxima.
        pad_value (float): the row of an empty sequence.
    """
    _static_only()
    out, index = checked(
        None, _ops.sequence_pool, input, pooltype=pool_type.upper(), is_test=is_test, pad_value=pad_value
    )
    if index is not None:
        index.stop_gradient = True
    return out


def sequence_concat(input, name=None):  # noqa: A002
    """Concatenation of sequences: sequence i of the result is the concatenation of sequence i of every input.

    Args:
        input (list of Variable): two or more of float32, float64 or int64, with equal numbers of sequences.
        name (str, optional): a name for the output.

    Raises:
        AssertionError: in dygraph mode. TypeError: when `input` is no list. ValueError: for a single input.
    """
    _static_only()
    check_type(input, "input", list, "fluid.layers.sequence_concat")
    return checked(name, _ops.sequence_concat, input)


def sequence_first_step(input):  # noqa: A002
    """The first row of each sequence of `input` (float32 or float64 with a LoD)."""
    return sequence_pool(input, "first")


def sequence_last_step(input):  # noqa: A002
    """The last row of each sequence of `input` (float32 or float64 with a LoD)."""
    return sequence_pool(input, "last")


def sequence_slice(input, offset, length, name=None):  # noqa: A002
    """A slice of every sequence.

    Args:
        input (Variable): float32, float64, int32 or int64, one LoD level.
        offset, length (Variable): int32 or int64 of shape [sequences, 1]: first step, and number of steps.
        name (str, optional): a name for the output.

    Raises:
        IndexError: in a run, for a sequence with fewer steps.
    """
    _static_only()
    check_variable_and_dtype(input, "input", NUMERIC, "sequence_slice")
    check_variable_and_dtype(offset, "offset", INDICES, "sequence_slice")
    check_variable_and_dtype(length, "length", INDICES, "sequence_slice")
    offset.stop_gradient = length.stop_gradient = True
    return named(name, _ops.sequence_slice, input, offset, length)


def sequence_expand(x, y, ref_level=-1, name=None):
    """The sequences (or rows) of `x`, each repeated by the corresponding length in the LoD of `y` at `ref_level`.

    Args:
        x (Variable): float32, float64, int32 or int64; at most one LoD level.
        y (Variable): its LoD is used.
        ref_level (int): the level of `y`; -1 is the last.
    """
    _static_only()
    return checked(name, _ops.sequence_expand, x, y, ref_level=ref_level)


def sequence_expand_as(x, y, name=None):
    """Row i of `x`, repeated by the length of sequence i of `y`; the result has the LoD of `y`.

    Args:
        x (Variable): float32, float64, int32 or int64, a row for each sequence of `y`.
        y (Variable): one LoD level.
        name (str, optional): a name for the output.
    """
    _static_only()
    return checked(name, _ops.sequence_expand_as, x, y)


def sequence_pad(x, pad_value, maxlen=None, name=None):
    """The sequences of `x` padded to a common length.

    Args:
        x (Variable): float32, float64, int32 or int64, one LoD level.
        pad_value (Variable): the padding, of shape [1] or the shape of a step.
        maxlen (int, optional): the length; by default that of the longest sequence.
        name (str, optional): a name for the outputs.

    Returns:
        (Variable, Variable): [sequences, length, ...], and the lengths, int64 of shape [sequences].

    Raises:
        ValueError: in a run, for a sequence longer than `maxlen`.

    Examples:
        >>> import numpy as np, paddle
        >>> paddle.enable_static()
        >>> x = paddle.static.data("x", [None, 1], "float32", lod_level=1)
        >>> padded, lengths = paddle.static.nn.sequence_pad(x, paddle.full([1], 0.0, "float32"))
        >>> feed = {"x": paddle.fluid.create_lod_tensor(np.ones([3, 1], "float32"), [[2, 1]], paddle.CPUPlace())}
        >>> a, n = paddle.static.Executor().run(feed=feed, fetch_list=[padded, lengths])
        >>> a.tolist(), n.tolist()
        ([[[1.0], [1.0]], [[1.0], [0.0]]], [2, 1])
    """
    _static_only()
    check_variable_and_dtype(x, "x", NUMERIC, "fluid.layers.sequence_pad")
    check_variable_and_dtype(pad_value, "pad_value", NUMERIC, "fluid.layers.sequence_pad")
    pad_value.stop_gradient = True
    out, length = named(name, _ops.sequence_pad, x, pad_value, padded_length=-1 if maxlen is None else maxlen)
    length.stop_gradient = True
    return out, length


def sequence_unpad(x, length, name=None):
    """The first steps of every row of `x` as sequences.

    Args:
        x (Variable): [sequences, steps, ...], float32, float64, int32 or int64.
        length (Variable): int64 of shape [sequences].
        name (str, optional): a name for the output.
    """
    _static_only()
    check_variable_and_dtype(x, "x", NUMERIC, "fluid.layers.sequence_unpad")
    check_variable_and_dtype(length, "length", ["int64"], "fluid.layers.sequence_unpad")
    length.stop_gradient = True
    return named(name, _ops.sequence_unpad, x, length)


def sequence_reshape(input, new_dim):  # noqa: A002
    """The elements of every sequence as rows of another width.

    Args:
        input (Variable): [steps, width], float32, float64, int32 or int64, one LoD level.
        new_dim (int): the new width, which must divide the number of elements of every sequence.
    """
    _static_only()
    return checked(None, _ops.sequence_reshape, input, new_dim=new_dim)


def sequence_scatter(input, index, updates, name=None):  # noqa: A002
    """`input` plus `updates`: those of sequence i are added to the elements ``index`` of row i.

    Args:
        input (Variable): float32, float64, int32 or int64, of two dimensions.
        index (Variable): int32 or int64, one LoD level.
        updates (Variable): of the type of `input`, a value for each index.
        name (str, optional): a name for the output.
    """
    _static_only()
    return checked(name, _ops.sequence_scatter, input, index, updates)


def sequence_enumerate(input, win_size, pad_value=0, name=None):  # noqa: A002
    """All windows of `win_size` tokens that begin in a sequence, padded at its end.

    Args:
        input (Variable): int32 or int64 of shape [steps, 1], with a LoD.
        win_size (int): the number of tokens of a window, at least 2.
        pad_value (int): the padding after the end of a sequence.
        name (str, optional): a name for the output.
    """
    _static_only()
    out = named(name, _ops.sequence_enumerate, input, win_size=win_size, pad_value=pad_value)
    out.stop_gradient = True
    return out


def sequence_reverse(x, name=None):
    """The steps of each sequence of the last LoD level of `x` in reverse order.

    Args:
        x (Variable): float32, float64, int8, int32, int64 or uint8 with a LoD.
        name (str): a name for the output.
    """
    _static_only()
    return checked(name, _ops.sequence_reverse, x)
