"""Spatial transforms and rearrangements: affine_grid, grid_sample, pixel_shuffle, temporal_shift."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.checks import INTS
from paddle._basics.mode import in_static_mode
from paddle._core import Tensor
from paddle._dispatch.append import checked, named
from paddle._dispatch.argument_checks import check_arguments
from paddle._programs.variable import Variable

__all__ = ["affine_grid", "grid_sample", "pixel_shuffle", "temporal_shift"]


def affine_grid(theta: Any, out_shape: Any, align_corners: bool = True, name: str | None = None) -> Tensor:
    """The sampling grid of affine maps, for :func:`grid_sample`.

    Args:
        theta: float32 or float64 Tensor of shape [N, 2, 3], one map per image.
        out_shape: [N, C, H, W]: a list or tuple of int, or an int32 Tensor.
        align_corners: -1 and 1 refer to the centres of the corner pixels, else to the edges of the image.
        name: a name for the output.

    Returns:
        Tensor [N, H, W, 2]: x and y of each pixel.

    Raises:
        ValueError: if `theta` is not a Tensor, or `out_shape` has another type or length.

    Examples:
        >>> import paddle
        >>> same = paddle.to_tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
        >>> paddle.nn.functional.affine_grid(same, [1, 3, 1, 2]).numpy().tolist()
        [[[[-1.0, -1.0], [1.0, -1.0]]]]
    """
    if not isinstance(theta, Variable):
        raise ValueError("affine_grid: theta should be a Tensor")
    if not isinstance(out_shape, (list, tuple, Variable)):
        raise ValueError(f"affine_grid: out_shape should be a list, tuple or Tensor, got {type(out_shape)}")
    if isinstance(out_shape, Variable) and in_static_mode():
        return checked(name, _ops.affine_grid, theta, out_shape, align_corners=align_corners, use_cudnn=False)
    if isinstance(out_shape, Variable):
        out_shape = out_shape.numpy().tolist()
    return named(
        name,
        _ops.affine_grid,
        theta,
        output_shape=[int(n) for n in out_shape],
        align_corners=align_corners,
        use_cudnn=False,
    )


def grid_sample(
    x: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = True,
    name: str | None = None,
) -> Tensor:
    """Samples images at the points of a grid.

    Args:
        x: float32 or float64 Tensor of shape [N, C, H, W].
        grid: Tensor [N, grid_H, grid_W, 2] of the same type: x and y of each point, in [-1, 1] within the image.
        mode: "bilinear" interpolates the four nearest pixels, "nearest" takes the nearest.
        padding_mode: values outside of the image: "zeros", "border" (the nearest edge pixel) or "reflection".
        align_corners: -1 and 1 refer to the centres of the corner pixels, else to the edges of the image.
        name: a name for the output.

    Returns:
        Tensor of shape [N, C, grid_H, grid_W].

    Raises:
        ValueError: for another mode, padding_mode or align_corners, or shapes that do not match.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([[[[1.0, 3.0]]]])
        >>> paddle.nn.functional.grid_sample(x, paddle.to_tensor([[[[0.0, 0.0]]]])).numpy().tolist()
        [[[[2.0]]]]
    """
    for what, value, allowed in (
        ("mode", mode, ("bilinear", "nearest")),
        ("padding_mode", padding_mode, ("zeros", "reflection", "border")),
    ):
        if value not in allowed:
            raise ValueError(f"grid_sample: {what} must be one of {', '.join(allowed)}, got {value!s:.200}")
    if not isinstance(align_corners, bool):
        raise ValueError(f"grid_sample: align_corners should be a bool, got {align_corners!s:.200}")
    return named(
        name,
        _ops.grid_sampler,
        x,
        grid,
        mode=mode,
        padding_mode=padding_mode,
        align_corners=align_corners,
        use_cudnn=False,
    )


def pixel_shuffle(x: Any, upscale_factor: int, data_format: str = "NCHW", name: str | None = None) -> Tensor:
    """Moves channels to space: each `upscale_factor` ** 2 channels become a square of pixels of one channel.

    Args:
        x: float32 or float64 Tensor of shape [N, C, H, W], or [N, H, W, C]; C must be a multiple of the squared factor
            (ValueError otherwise).
        upscale_factor: an int (TypeError otherwise).
        data_format: "NCHW" or "NHWC" (ValueError otherwise).
        name: a name for the output.

    Returns:
        Tensor of shape [N, C / r ** 2, H * r, W * r].

    Examples:
        >>> import paddle
        >>> x = paddle.arange(4, dtype="float32").reshape([1, 4, 1, 1])
        >>> paddle.nn.functional.pixel_shuffle(x, 2).numpy().tolist()
        [[[[0.0, 1.0], [2.0, 3.0]]]]
    """
    if not isinstance(upscale_factor, INTS):
        raise TypeError(f"pixel_shuffle: upscale_factor must be int type, got {type(upscale_factor)}")
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError(f"pixel_shuffle: data_format should be NCHW or NHWC, got {data_format!s:.200}")
    return checked(name, _ops.pixel_shuffle, x, upscale_factor=upscale_factor, data_format=data_format)


def temporal_shift(x: Any, seg_num: int, shift_ratio: float = 0.25, name: str | None = None) -> Tensor:
    """Shifts some channels of each frame of a video one frame forward, and as many one frame backward.

    Args:
        x: float32 or float64 Tensor of shape [N * seg_num, C, H, W].
        seg_num: frames per video (TypeError unless an int).
        shift_ratio: the fraction of the channels taken from the previous frame, and of those from the next one.
            Greater than 0 and less than 0.5 (ValueError otherwise). Outside of the video there are zeros.
        name: a name for the output.

    Returns:
        Tensor of the shape of `x`.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]).reshape([2, 4, 1, 1])
        >>> paddle.nn.functional.temporal_shift(x, 2).numpy().reshape(2, 4).tolist()
        [[0.0, 6.0, 3.0, 4.0], [1.0, 0.0, 7.0, 8.0]]
    """
    check_arguments("temporal_shift", shift_ratio)
    if not isinstance(seg_num, INTS):
        raise TypeError(f"temporal_shift: seg_num must be int type, got {type(seg_num)}")
    return checked(name, _ops.temporal_shift, x, seg_num=seg_num, shift_ratio=shift_ratio)
