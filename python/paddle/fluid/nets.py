"""fluid.nets: combinations of layers that are often used together."""

from __future__ import annotations

from paddle._basics.element_types import FLOATS, HALF_FLOATS
from paddle._programs.variable_checks import check_variable_and_dtype

from . import layers

__all__ = ["simple_img_conv_pool", "img_conv_group", "glu", "scaled_dot_product_attention", "sequence_conv_pool"]


def simple_img_conv_pool(
    input,  # noqa: A002
    num_filters,
    filter_size,
    pool_size,
    pool_stride,
    pool_padding=0,
    pool_type="max",
    global_pooling=False,
    conv_stride=1,
    conv_padding=0,
    conv_dilation=1,
    conv_groups=1,
    param_attr=None,
    bias_attr=None,
    act=None,
    use_cudnn=True,
):
    """conv2d followed by pool2d; arguments as of these."""
    out = layers.conv2d(
        input,
        num_filters,
        filter_size,
        stride=conv_stride,
        padding=conv_padding,
        dilation=conv_dilation,
        groups=conv_groups,
        param_attr=param_attr,
        bias_attr=bias_attr,
        act=act,
        use_cudnn=use_cudnn,
    )
    return layers.pool2d(
        out,
        pool_size,
        pool_type,
        pool_stride,
        pool_padding=pool_padding,
        global_pooling=global_pooling,
        use_cudnn=use_cudnn,
    )


def img_conv_group(
    input,  # noqa: A002
    conv_num_filter,
    pool_size,
    conv_padding=1,
    conv_filter_size=3,
    conv_act=None,
    param_attr=None,
    conv_with_batchnorm=False,
    conv_batchnorm_drop_rate=0.0,
    pool_stride=1,
    pool_type="max",
    use_cudnn=True,
):
    """Several convolutions, each with optional batch_norm and dropout, followed by pool2d.

    Arguments that are lists have one item per entry of `conv_num_filter`.
    """
    assert isinstance(conv_num_filter, (list, tuple))
    count = len(conv_num_filter)

    def each(value):
        if not isinstance(value, (list, tuple)):
            return [value] * count
        assert len(value) == count
        return value

    rows = zip(
        conv_num_filter,
        each(conv_padding),
        each(conv_filter_size),
        each(param_attr),
        each(conv_with_batchnorm),
        each(conv_batchnorm_drop_rate),
        strict=True,
    )
    out = input
    for filters, padding, size, attr, normalise, drop_rate in rows:
        act = None if normalise else conv_act
        out = layers.conv2d(out, filters, size, padding=padding, param_attr=attr, act=act, use_cudnn=use_cudnn)
        if normalise:
            out = layers.batch_norm(out, act=conv_act)
            if abs(drop_rate) > 1e-5:
                out = layers.dropout(out, dropout_prob=drop_rate)
    return layers.pool2d(out, pool_size, pool_type, pool_stride, use_cudnn=use_cudnn)


def glu(input, dim=-1):  # noqa: A002
    """Gated linear unit: a * sigmoid(b) with the halves a and b of `input` along `dim`."""
    check_variable_and_dtype(input, "input", HALF_FLOATS, "glu")
    a, b = layers.split(input, num_or_sections=2, dim=dim)
    return layers.elementwise_mul(a, layers.sigmoid(b))


def scaled_dot_product_attention(queries, keys, values, num_heads=1, dropout_rate=0.0):
    """Multi-head scaled dot-product attention: softmax(q k^T / sqrt(d)) v.

    Args:
        queries, keys, values (Variable): [batch, length, hidden], float32 or float64.
        num_heads (int): with several heads each input is projected first, with its own parameters.
        dropout_rate (float): dropout probability of the attention weights.

    Raises:
        TypeError: for different types. ValueError: for incompatible shapes.
    """
    where = "scaled_dot_product_attention"
    named = {"queries": queries, "keys": keys, "values": values}
    for name, x in named.items():
        check_variable_and_dtype(x, name, FLOATS, where)
    if not queries.dtype == keys.dtype == values.dtype:
        raise TypeError(f"queries, keys and values must share one dtype, got {[x.dtype for x in named.values()]}")
    if any(len(x.shape) != 3 for x in named.values()):
        raise ValueError(
            f"queries, keys and values must have 3 dimensions, got shapes {[x.shape for x in named.values()]}"
        )
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError(f"queries and keys must have the same last size, got {queries.shape[-1]} and {keys.shape[-1]}")
    if keys.shape[-2] != values.shape[-2]:
        raise ValueError(
            f"The max sequence length of values ({values.shape[-2]}) and keys ({keys.shape[-2]}) should be the same."
        )
    for name, x in (("keys", keys), ("values", values)):
        if x.shape[-1] % num_heads != 0:
            raise ValueError(f"{name}: num_heads={num_heads} does not divide the last size {x.shape[-1]}")

    def heads(x):
        if num_heads == 1:
            return x
        x = layers.fc(x, size=x.shape[-1], num_flatten_dims=2)
        x = layers.reshape(x, [*x.shape[:-1], num_heads, x.shape[-1] // num_heads])
        return layers.transpose(x, [0, 2, 1, 3])

    q, k, v = heads(queries), heads(keys), heads(values)
    q = layers.scale(q, scale=(keys.shape[-1] // num_heads) ** -0.5)
    weights = layers.softmax(layers.matmul(q, k, transpose_y=True))
    if dropout_rate:
        weights = layers.dropout(weights, dropout_prob=dropout_rate, is_test=False)
    out = layers.matmul(weights, v)
    if num_heads == 1:
        return out
    out = layers.transpose(out, [0, 2, 1, 3])
    return layers.reshape(out, [out.shape[0], out.shape[1], out.shape[2] * out.shape[3]])


def sequence_conv_pool(
    input,  # noqa: A002
    num_filters,
    filter_size,
    param_attr=None,
    act="sigmoid",
    pool_type="max",
    bias_attr=None,
):
    """`sequence_conv` followed by `sequence_pool`: one row per sequence.

    Args:
        input (Variable): [steps, width], float32 or float64, one LoD level.
        num_filters (int): width of the result.
        filter_size (int): number of steps in a window.
        param_attr, bias_attr (ParamAttr|bool, optional): of the filter and the bias.
        act (str): the activation after the convolution.
        pool_type (str): "average", "sum", "sqrt", "max", "first" or "last".
    """
    check_variable_and_dtype(input, "input", FLOATS, "input")
    out = layers.sequence_conv(input, num_filters, filter_size, param_attr=param_attr, bias_attr=bias_attr, act=act)
    return layers.sequence_pool(out, pool_type)
