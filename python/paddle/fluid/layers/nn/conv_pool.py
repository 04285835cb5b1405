"""Convolutions, pooling and image-to-sequence conversion of fluid.layers.nn."""

from __future__ import annotations

from paddle import _ops
from paddle._basics.checks import check_type
from paddle._basics.element_types import HALF_NUMERIC
from paddle._basics.mode import in_dygraph_mode, in_static_mode
from paddle._dispatch.append import named
from paddle._dispatch.arguments import convert_to_list
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.functional.common import unfold
from paddle.nn.functional.pooling import pool_attrs
from paddle.static.nn.common import bilinear_tensor_product, row_conv
from paddle.static.nn.conv import conv2d, conv2d_transpose, conv3d, conv3d_transpose, deformable_layer

__all__ = [
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "deformable_conv",
    "pool2d",
    "pool3d",
    "adaptive_pool2d",
    "adaptive_pool3d",
    "unfold",
    "im2sequence",
    "row_conv",
    "bilinear_tensor_product",
]


def _pool(
    dims,
    input,
    pool_size,
    pool_type,
    pool_stride,
    pool_padding,
    global_pooling,
    use_cudnn,
    ceil_mode,
    name,
    exclusive,  # noqa: A002
    data_format,
):
    """Pooling in `dims` dimensions."""
    where = f"pool{dims}d"
    if pool_type not in ("max", "avg"):
        raise ValueError(f"{where}: pool_type must be max or avg, got '{pool_type!s:.200}'")
    if not global_pooling and pool_size == -1:
        raise ValueError(f"{where}: pool_size must be given unless global_pooling is True, got {pool_size!s:.200}")
    if not isinstance(use_cudnn, bool):
        raise TypeError(f"use_cudnn must be True or False, got {use_cudnn!s:.200}")
    attrs = pool_attrs(dims, pool_type, pool_size, pool_stride, pool_padding, ceil_mode, data_format, "pool_padding")
    more = {"global_pooling": global_pooling, "use_cudnn": use_cudnn, "exclusive": exclusive}
    return named(name, getattr(_ops, where), input, **attrs, **more)


def pool2d(
    input,  # noqa: A002
    pool_size=-1,
    pool_type="max",
    pool_stride=1,
    pool_padding=0,
    global_pooling=False,
    use_cudnn=True,
    ceil_mode=False,
    name=None,
    exclusive=True,
    data_format="NCHW",
):
    """2-D pooling.

    Args:
        input (Variable): [N, C, H, W], or [N, H, W, C] for NHWC.
        pool_size, pool_stride (int|list): one number or [height, width].
        pool_type (str): "max" or "avg".
        pool_padding (int|list|str): as the padding of :func:`conv2d`.
        global_pooling (bool): pool over the whole image.
        ceil_mode (bool): round output sizes up.
        exclusive (bool): exclude padding from averages.

    Raises:
        ValueError: for an invalid type, format or padding, or a missing size.
        TypeError: if use_cudnn is not a bool.
    """
    return _pool(
        2,
        input,
        pool_size,
        pool_type,
        pool_stride,
        pool_padding,
        global_pooling,
        use_cudnn,
        ceil_mode,
        name,
        exclusive,
        data_format,
    )


def pool3d(
    input,  # noqa: A002
    pool_size=-1,
    pool_type="max",
    pool_stride=1,
    pool_padding=0,
    global_pooling=False,
    use_cudnn=True,
    ceil_mode=False,
    name=None,
    exclusive=True,
    data_format="NCDHW",
):
    """3-D pooling (Paddle 2.0: paddle.fluid.layers.pool3d).

    Args:
        input (Variable): [N, C, D, H, W], or [N, D, H, W, C] for NDHWC.
        pool_size, pool_stride (int|list): one number or [depth, height, width].
        pool_type (str): "max" or "avg".
        pool_padding (int|list|str): as the padding of :func:`conv3d`.
        global_pooling (bool): pool over the whole volume.
        ceil_mode (bool): round output sizes up.
        exclusive (bool): exclude padding from averages.

    Raises:
        ValueError: for an invalid type, format or padding, or a missing size.
        TypeError: if use_cudnn is not a bool.
    """
    return _pool(
        3,
        input,
        pool_size,
        pool_type,
        pool_stride,
        pool_padding,
        global_pooling,
        use_cudnn,
        ceil_mode,
        name,
        exclusive,
        data_format,
    )


def _adaptive_pool(dims, input, pool_size, pool_type, require_index, name):  # noqa: A002
    """Adaptive pooling in `dims` dimensions."""
    where = f"adaptive_pool{dims}d"
    check_variable_and_dtype(input, "input", HALF_NUMERIC, where)
    check_type(pool_type, "pool_type", str, where)
    check_type(pool_size, "pool_size", (int, list, tuple), where)
    check_type(require_index, "require_index", bool, where)
    if pool_type not in ("max", "avg"):
        raise ValueError(f"{where}: pool_type must be max or avg, got '{pool_type!s:.200}'")
    if pool_type == "avg" and require_index:
        raise ValueError(f"{where}: require_index needs pool_type 'max'")
    size = convert_to_list(pool_size, dims, "pool_size")
    if pool_type == "avg":
        return named(name, getattr(_ops, f"pool{dims}d"), input, pooling_type="avg", ksize=size, adaptive=True)
    out, mask = named(name, getattr(_ops, f"max_pool{dims}d_with_index"), input, ksize=size, adaptive=True)
    return (out, mask) if require_index else out


def adaptive_pool2d(input, pool_size, pool_type="max", require_index=False, name=None):  # noqa: A002
    """2-D adaptive pooling (Paddle 2.0: paddle.fluid.layers.adaptive_pool2d).

    Args:
        input (Variable): [N, C, H, W].
        pool_size (int|list): one number or [height, width] of the result.
        pool_type (str): "max" or "avg".
        require_index (bool): with "max": also return the indices of the maxima (int32, row-major).

    Raises:
        ValueError: for an invalid type, or `require_index` with "avg".
    """
    return _adaptive_pool(2, input, pool_size, pool_type, require_index, name)


def adaptive_pool3d(input, pool_size, pool_type="max", require_index=False, name=None):  # noqa: A002
    """3-D adaptive pooling (Paddle 2.0: paddle.fluid.layers.adaptive_pool3d).

    Args:
        input (Variable): [N, C, D, H, W].
        pool_size (int|list): one number or [depth, height, width] of the result.
        pool_type (str): "max" or "avg".
        require_index (bool): with "max": also return the indices of the maxima (int32, row-major).

    Raises:
        ValueError: for an invalid type, or `require_index` with "avg".
    """
    return _adaptive_pool(3, input, pool_size, pool_type, require_index, name)


def deformable_conv(
    input,  # noqa: A002
    offset,
    mask,
    num_filters,
    filter_size,
    stride=1,
    padding=0,
    dilation=1,
    groups=None,
    deformable_groups=None,
    im2col_step=None,
    param_attr=None,
    bias_attr=None,
    modulated=True,
    name=None,
):
    """Deformable convolution with its own filters and bias (Paddle 2.0: paddle.fluid.layers.deformable_conv).

    Args:
        modulated (bool): False for version 1, without `mask`.
        groups, deformable_groups (int, optional): None for one.
        im2col_step (int, optional): must divide N, or be at least N; None for 64.

    The others are those of :func:`paddle.static.nn.deform_conv2d`.
    """
    return deformable_layer(
        input,
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
    )


def im2sequence(input, filter_size=1, stride=1, padding=0, input_image_size=None, out_stride=1, name=None):  # noqa: A002
    """The windows of images as steps of sequences, one sequence per image (Paddle 2.0: fluid.layers.im2sequence).

    Args:
        input (Variable): float32, [N, C, H, W].
        filter_size, stride (int|list): one number or [height, width].
        padding (int|list): one number, [height, width] or [above, left, below, right].
        input_image_size (Variable, optional): [N, 2], the original sizes of the images; the input is smaller by
            the factor `out_stride`; windows outside of an image are omitted.
        out_stride (int|list): one number or [height, width].

    Returns:
        Variable: [steps of all images, C * height * width] with LoD. Only in static mode (AssertionError).

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> x = paddle.static.data("x", [None, 3, 32, 32], "float32")
        >>> paddle.fluid.layers.im2sequence(x, [2, 2]).shape
        (-1, 12)
    """
    assert in_static_mode(), "im2sequence is not supported in dygraph mode"
    check_variable_and_dtype(input, "input", ["float32"], "im2sequence")
    pads = list(padding) if isinstance(padding, (list, tuple)) else [padding, padding]
    attrs = {
        "kernels": convert_to_list(filter_size, 2, "filter_size"),
        "strides": convert_to_list(stride, 2, "stride"),
        "paddings": pads * 2 if len(pads) == 2 else pads,
    }
    if input_image_size is not None:
        attrs["out_stride"] = convert_to_list(out_stride, 2, "out_stride")
    return named(name, _ops.im2sequence, input, input_image_size, **attrs)
