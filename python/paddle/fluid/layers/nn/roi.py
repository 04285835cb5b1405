"""Pooling of regions of interest (RoIs) of feature maps, fluid.layers.nn."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics import mode
from paddle._basics.checks import check_type
from paddle._basics.dtypes import VarType
from paddle._basics.element_types import FLOATS
from paddle._basics.mode import in_static_mode
from paddle._dispatch.append import named
from paddle._dispatch.arguments import convert_to_list
from paddle._programs.variable_checks import check_variables

__all__ = [
    "deformable_roi_pooling",
    "prroi_pool",
    "psroi_pool",
    "roi_align",
    "roi_perspective_transform",
    "roi_pool",
]


def _check_sizes(where: str, spatial_scale: Any, height: Any, width: Any) -> None:
    if not isinstance(spatial_scale, float):
        raise TypeError(f"{where}: spatial_scale must be a float, got {type(spatial_scale)}")
    for name, value in (("pooled_height", height), ("pooled_width", width)):
        if not isinstance(value, int):
            raise TypeError(f"{where}: {name} must be an int, got {type(value)}")


def _counted(where: str, rois_num: Any) -> None:
    if not in_static_mode():
        assert rois_num is not None, f"{where}: rois_num (the number of RoIs per image) is required in dygraph mode"


def _numbers(where: str, rois_num: Any, rois_lod: Any) -> Any:
    """The number of RoIs of each image, from either argument."""
    if rois_lod is None:
        _counted(where, rois_num)
        return rois_num
    assert rois_num is None, f"{where}: rois_num and rois_lod are mutually exclusive"
    check_variables(where, ["int32", "int64"], rois_lod=rois_lod)
    first = _ops.slice(rois_lod, axes=[0], starts=[0], ends=[-1])
    last = _ops.slice(rois_lod, axes=[0], starts=[1], ends=[2**31 - 1])
    return _ops.cast(_ops.elementwise_sub(last, first), in_dtype=rois_lod.dtype, out_dtype=VarType.INT32)


def roi_pool(
    input: Any,  # noqa: A002
    rois: Any,
    pooled_height: int = 1,
    pooled_width: int = 1,
    spatial_scale: float = 1.0,
    rois_num: Any = None,
    name: str | None = None,
    rois_lod: Any = None,
) -> Any:
    """RoI max pooling: the maximum of each of pooled_height x pooled_width bins of every RoI.

    Corners are rounded to elements of the map; a bin outside of the map is 0.

    Args:
        input (Variable): feature maps, [N, C, H, W], float32 (in dygraph mode also float64).
        rois (Variable): [R, 4], left, top, right, bottom. Its LoD, or rois_num, assigns RoIs to images.
        pooled_height, pooled_width (int): bins along each side.
        spatial_scale (float): factor of the corners: size of the map / size of the image.
        rois_num (Variable): int32 [N], the number of RoIs of each image; required in dygraph mode.
        name (str): a name for the output.
        rois_lod (Variable): int64 [N + 1], the first RoI of each image, in place of rois_num, as in 1.8.

    Returns:
        Variable: [R, C, pooled_height, pooled_width]; in dygraph mode also the indices of the maxima, int64, unless
        rois_lod is given.

    Raises:
        TypeError: for maps or RoIs of another type.
        IndexError: for sizes or a scale that are not positive.
        ValueError: for incompatible shapes or numbers of RoIs.

    Examples:
        >>> import paddle
        >>> maps = paddle.arange(16, dtype="float32").reshape([1, 1, 4, 4])
        >>> rois, count = paddle.to_tensor([[0.0, 0.0, 3.0, 3.0]]), paddle.to_tensor([1], dtype="int32")
        >>> paddle.fluid.layers.roi_pool(maps, rois, 2, 2, rois_num=count)[0].numpy().tolist()
        [[[[5.0, 7.0], [13.0, 15.0]]]]
    """
    rois_num = _numbers("roi_pool", rois_num, rois_lod)
    check_variables("roi_pool", ["float32"], input=input, rois=rois)
    out, argmax = named(
        name,
        _ops.roi_pool,
        input,
        rois,
        rois_num,
        pooled_height=pooled_height,
        pooled_width=pooled_width,
        spatial_scale=spatial_scale,
    )
    return out if in_static_mode() or rois_lod is not None else (out, argmax)


def roi_align(
    input: Any,  # noqa: A002
    rois: Any,
    pooled_height: int = 1,
    pooled_width: int = 1,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    rois_num: Any = None,
    name: str | None = None,
    rois_lod: Any = None,
) -> Any:
    """RoI align: the mean of bilinear samples in each of pooled_height x pooled_width bins, without rounding.

    Args:
        input (Variable): feature maps, [N, C, H, W], float32 or float64.
        rois (Variable): [R, 4], left, top, right, bottom. Its LoD, or rois_num, assigns RoIs to images.
        pooled_height, pooled_width (int): bins along each side.
        spatial_scale (float): factor of the corners: size of the map / size of the image.
        sampling_ratio (int): samples along each side of a bin; -1: about one per element.
        rois_num (Variable): int32 [N], the number of RoIs of each image; required in dygraph mode.
        name (str): a name for the output.
        rois_lod (Variable): int64 [N + 1], the first RoI of each image, in place of rois_num, as in 1.8.

    Returns:
        Variable: [R, C, pooled_height, pooled_width].

    Raises:
        TypeError: for maps or RoIs of another type.
        ValueError: for sizes or a scale that are not positive, or incompatible shapes or numbers of RoIs.

    Examples:
        >>> import paddle
        >>> maps = paddle.arange(16, dtype="float32").reshape([1, 1, 4, 4])
        >>> rois, count = paddle.to_tensor([[0.0, 0.0, 2.0, 2.0]]), paddle.to_tensor([1], dtype="int32")
        >>> paddle.fluid.layers.roi_align(maps, rois, 2, 2, rois_num=count).numpy().tolist()
        [[[[2.5, 3.5], [6.5, 7.5]]]]
    """
    rois_num = _numbers("roi_align", rois_num, rois_lod)
    check_variables("roi_align", FLOATS, input=input, rois=rois)
    return named(
        name,
        _ops.roi_align,
        input,
        rois,
        rois_num,
        pooled_height=pooled_height,
        pooled_width=pooled_width,
        spatial_scale=spatial_scale,
        sampling_ratio=sampling_ratio,
    )


def psroi_pool(
    input: Any,  # noqa: A002
    rois: Any,
    output_channels: int,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    name: str | None = None,
) -> Any:
    """Position-sensitive RoI pooling: the average of each bin, where each bin reads its own channel.

    Args:
        input (Variable): [N, output_channels * pooled_height * pooled_width, H, W], float32 or float64.
        rois (Variable): [R, 4] with a LoD that assigns RoIs to images; corners are rounded.
        output_channels (int): channels of the result, more than 1.
        spatial_scale (float): factor of the corners.
        pooled_height, pooled_width (int): bins along each side.
        name (str): a name for the output.

    Returns:
        Variable: [R, output_channels, pooled_height, pooled_width].

    Raises:
        TypeError: if output_channels, pooled_height or pooled_width is not an int, or spatial_scale not a float.
        ValueError: for incompatible shapes.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x = fluid.data("x", [100, 490, 28, 28])
        >>> rois = fluid.data("rois", [None, 4], lod_level=1)
        >>> fluid.layers.psroi_pool(x, rois, 10, 1.0, 7, 7).shape
        (-1, 10, 7, 7)
    """
    if not isinstance(output_channels, int):
        raise TypeError(f"psroi_pool: output_channels must be an int, got {type(output_channels)}")
    _check_sizes("psroi_pool", spatial_scale, pooled_height, pooled_width)
    return named(
        name,
        _ops.psroi_pool,
        input,
        rois,
        output_channels=output_channels,
        spatial_scale=spatial_scale,
        pooled_height=pooled_height,
        pooled_width=pooled_width,
    )


def prroi_pool(
    input: Any,  # noqa: A002
    rois: Any,
    spatial_scale: float = 1.0,
    pooled_height: int = 1,
    pooled_width: int = 1,
    batch_roi_nums: Any = None,
    name: str | None = None,
) -> Any:
    """Precise RoI pooling: the mean of the interpolated map over each bin, an integral with gradients of the corners.

    Args:
        input (Variable): feature maps, [N, C, H, W], float32.
        rois (Variable): [R, 4], left, top, right, bottom. Its LoD, or batch_roi_nums, assigns RoIs to images.
        spatial_scale (float): factor of the corners.
        pooled_height, pooled_width (int): bins along each side.
        batch_roi_nums (Variable): int64 [N], the number of RoIs of each image.
        name (str): a name for the output.

    Returns:
        Variable: [R, C, pooled_height, pooled_width].

    Raises:
        TypeError: for maps or RoIs of another type, a scale that is not a float, or sizes that are not ints.
        ValueError: for incompatible shapes or numbers of RoIs.

    Examples:
        >>> import paddle
        >>> maps = paddle.arange(16, dtype="float32").reshape([1, 1, 4, 4])
        >>> rois, count = paddle.to_tensor([[0.0, 0.0, 2.0, 3.0]]), paddle.to_tensor([1])
        >>> paddle.fluid.layers.prroi_pool(maps, rois, batch_roi_nums=count).numpy().tolist()
        [[[[7.0]]]]
    """
    check_variables("prroi_pool", ["float32"], input=input, rois=rois)
    _check_sizes("prroi_pool", spatial_scale, pooled_height, pooled_width)
    return named(
        name,
        _ops.prroi_pool,
        input,
        rois,
        batch_roi_nums,
        spatial_scale=spatial_scale,
        pooled_height=pooled_height,
        pooled_width=pooled_width,
    )


def deformable_roi_pooling(
    input: Any,  # noqa: A002
    rois: Any,
    trans: Any,
    no_trans: bool = False,
    spatial_scale: float = 1.0,
    group_size: Any = [1, 1],  # noqa: B006 (2.0.2's signature)
    pooled_height: int = 1,
    pooled_width: int = 1,
    part_size: Any = None,
    sample_per_part: int = 1,
    trans_std: float = 0.1,
    position_sensitive: bool = False,
    name: str | None = None,
) -> Any:
    """Deformable RoI pooling: the mean of bilinear samples in each bin, displaced by learned offsets.

    Args:
        input (Variable): feature maps, [N, C, H, W], float32 or float64.
        rois (Variable): [R, 4] with a LoD that assigns RoIs to images; corners are rounded.
        trans (Variable): offsets, [R, 2 * classes, H', W'] with H' and W' of part_size: x and y relative to
            the RoI's sides, times trans_std. Channels of a class share offsets.
        no_trans (bool): ignore the offsets.
        spatial_scale (float): factor of the corners.
        group_size (list or tuple of 2 ints): groups of channels along each side, for position-sensitive maps.
        pooled_height, pooled_width (int): bins along each side.
        part_size (list or tuple of 2 ints): parts along each side that have offsets; None: the number of bins.
        sample_per_part (int): samples along each side of a bin.
        trans_std (float): see trans.
        position_sensitive (bool): the result has C / pooled_height / pooled_width channels instead of C.
        name (str): a name for the output.

    Returns:
        Variable: [R, channels, pooled_height, pooled_width].

    Raises:
        TypeError: for variables of another type, or if group_size or part_size is not a list or tuple.
        ValueError: for incompatible shapes.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x = fluid.data("x", [2, 192, 64, 64])
        >>> rois = fluid.data("rois", [-1, 4], lod_level=1)
        >>> trans = fluid.data("trans", [-1, 2, 8, 8])
        >>> out = fluid.layers.deformable_roi_pooling(
        ...     x, rois, trans, group_size=(1, 1), pooled_height=8, pooled_width=8, sample_per_part=4,
        ...     position_sensitive=True)
        >>> out.shape
        (-1, 3, 8, 8)
    """
    check_variables("deformable_roi_pooling", FLOATS, input=input, rois=rois, trans=trans)
    check_type(group_size, "group_size", (list, tuple), "deformable_roi_pooling")
    if part_size is None:
        part_size = [pooled_height, pooled_width]
    check_type(part_size, "part_size", (list, tuple), "deformable_roi_pooling")
    channels = input.shape[1]
    if position_sensitive:
        channels = channels // pooled_height // pooled_width
    return named(
        name,
        _ops.deformable_psroi_pooling,
        input,
        rois,
        trans,
        no_trans=no_trans,
        spatial_scale=spatial_scale,
        output_dim=channels,
        group_size=convert_to_list(group_size, 2, "group_size"),
        pooled_height=pooled_height,
        pooled_width=pooled_width,
        part_size=convert_to_list(part_size, 2, "part_size"),
        sample_per_part=sample_per_part,
        trans_std=trans_std,
    )[1]


def roi_perspective_transform(
    input: Any,  # noqa: A002
    rois: Any,
    transformed_height: int,
    transformed_width: int,
    spatial_scale: float = 1.0,
    name: str | None = None,
) -> Any:
    """Warps quadrangles of the maps to rectangles of one size, by the perspective transform of their corners.

    A rectangle is filled from the left as far as the quadrangle's proportions allow; the rest is 0.

    Args:
        input (Variable): feature maps, [N, C, H, W], float32.
        rois (Variable): [R, 8], x and y of each corner, clockwise from the top left one; its LoD assigns
            quadrangles to images.
        transformed_height, transformed_width (int): size of the rectangles.
        spatial_scale (float): factor of the corners.
        name (str): prefix of the outputs' names.

    Returns:
        tuple: the rectangles [R, C, transformed_height, transformed_width]; a mask of filled elements, int32
        [R, 1, transformed_height, transformed_width]; the transform matrices, [R, 9].

    Raises:
        TypeError: for variables of another type, sizes that are not ints, or a scale that is not a float.
        ValueError: for incompatible shapes.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x = fluid.data("x", [100, 256, 28, 28])
        >>> rois = fluid.data("rois", [None, 8], lod_level=1)
        >>> [v.shape for v in fluid.layers.roi_perspective_transform(x, rois, 7, 7, 1.0)]
        [(-1, 256, 7, 7), (-1, 1, 7, 7), (-1, 9)]
    """
    where = "roi_perspective_transform"
    check_variables(where, ["float32"], input=input, rois=rois)
    check_type(transformed_height, "transformed_height", int, where)
    check_type(transformed_width, "transformed_width", int, where)
    check_type(spatial_scale, "spatial_scale", float, where)
    return named(
        name,
        _ops.roi_perspective_transform,
        input,
        rois,
        transformed_height=transformed_height,
        transformed_width=transformed_width,
        spatial_scale=spatial_scale,
    )[:3]
