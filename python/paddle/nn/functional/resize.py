"""Image resizing: interpolate and upsample."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.checks import NUMBERS
from paddle._basics.mode import in_static_mode
from paddle._core import Tensor
from paddle._dispatch.append import named
from paddle._dispatch.arguments import split_list
from paddle._programs.variable import Variable
from paddle.nn.functional import pooling

__all__ = ["interpolate", "upsample"]

#: rank of the input of each interpolation method
RANKS = {"linear": 3, "bilinear": 4, "nearest": 4, "bicubic": 4, "trilinear": 5}
_FORMATS = {3: ("NCW", "NWC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}
_SIZES = ("out_d", "out_h", "out_w")


def check_resize(what: str, x: Any, method: str, align_corners: Any, align_mode: Any, data_format: str) -> str:
    """Checks arguments common to all methods; returns the operator's data_layout."""
    rank = len(x.shape)
    if RANKS[method] != rank:
        raise ValueError(f"{what}: '{method}' takes images of {RANKS[method]} dimensions, got {rank}")
    if not isinstance(align_corners, bool):
        raise TypeError(f"{what}: align_corners should be a bool value, got {align_corners!s:.200}")
    if align_mode not in (0, 1):
        raise ValueError(f"{what}: align_mode can only be 0 or 1, got {align_mode!s:.200}")
    if data_format not in _FORMATS[rank]:
        first, last = _FORMATS[rank]
        raise ValueError(
            f"{what}: data_format of images with {rank} dimensions must be {first} or {last}, got {data_format!s:.200}"
        )
    return "NCHW" if data_format == _FORMATS[rank][0] else "NHWC"


def size_arguments(what: str, size: Any, axes: int) -> dict[str, Any]:
    """Keyword arguments for a size given as a tensor, or as a list of ints and tensors of shape [1]."""
    if isinstance(size, Variable):
        if in_static_mode():
            size.stop_gradient = True
            return {"OutSize": size}
        size = [int(n) for n in size.numpy().reshape(-1)]
    if not isinstance(size, (list, tuple)):
        raise TypeError(f"{what}: the size should be a list or tuple or Variable, got {type(size)}")
    for n in size:
        assert isinstance(n, Variable) or n > 0, f"{what}: each size must be greater than 0, got {size!s:.200}"
    if len(size) != axes:
        raise ValueError(f"{what}: images of {axes + 2} dimensions take a size of {axes} numbers, got {size!s:.200}")
    numbers, tensors = split_list(size)
    keywords: dict[str, Any] = dict(zip(_SIZES[3 - axes :], numbers, strict=True))
    return keywords if tensors is None else {**keywords, "SizeTensor": tensors}


def _scales(scale: Any, axes: int) -> dict[str, Any]:
    if isinstance(scale, Variable):
        if in_static_mode():
            scale.stop_gradient = True
            return {"Scale": scale}
        scale = scale.numpy().reshape(-1).tolist()
        scale = scale * axes if len(scale) == 1 else scale
    if isinstance(scale, NUMBERS):
        scale = [scale] * axes
    if not isinstance(scale, (list, tuple)):
        raise TypeError(f"interpolate: scale_factor must be a number, list, tuple or Tensor, got {type(scale)}")
    if len(scale) != axes:
        raise ValueError(f"interpolate: scale_factor must have {axes} numbers, one per axis, got {scale!s:.200}")
    if not all(s > 0 for s in scale):
        raise ValueError(f"interpolate: scale_factor must be greater than zero, got {scale!s:.200}")
    return {"scale": [float(s) for s in scale]}


def interpolate(
    x: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
    align_mode: int = 0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Resizes images by interpolation.

    Args:
        x: float32, float64 or uint8 Tensor [N, C, axes...], or [N, axes..., C] (`data_format`), with one to three axes.
        size: the sizes of the axes: a list or tuple of int (in static mode also of Tensors of shape [1]), or an int32
            Tensor.
        scale_factor: instead of a size, a positive number for all axes, a list or tuple with one per axis, or a Tensor.
        mode: "linear" (one axis), "bilinear", "nearest", "bicubic" (two), "trilinear" (three), or "area" (adaptive
            average pooling).
        align_corners: if True, the centres of the corner elements of input and output coincide, else the outer edges.
            "nearest" requires False.
        align_mode: for the linear modes without align_corners: 0 samples at pixel centres, 1 at pixel corners.
        data_format: "NCW", "NWC"; "NCHW", "NHWC"; "NCDHW", "NDHWC".
        name: a name for the output.

    Returns:
        Tensor of the data type of `x`.

    Raises:
        ValueError: for a mode that does not match the number of axes, neither or both of size and scale_factor, sizes
            of another number, scales that are not positive, or another data_format.
        TypeError: for sizes, scales or align_corners of other types.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([[[[1.0, 3.0]]]])
        >>> paddle.nn.functional.interpolate(x, scale_factor=2).numpy().tolist()
        [[[[1.0, 1.0, 3.0, 3.0], [1.0, 1.0, 3.0, 3.0]]]]
        >>> paddle.nn.functional.interpolate(x, [1, 3], mode="bilinear", align_corners=True).numpy().tolist()
        [[[[1.0, 2.0, 3.0]]]]
    """
    data_format, method, axes = data_format.upper(), mode.lower(), len(x.shape) - 2
    if method not in RANKS and method != "area":
        raise ValueError(f"interpolate: mode must be area or one of {', '.join(RANKS)}, got '{mode!s:.200}'")
    if method in RANKS and RANKS[method] != axes + 2:
        raise ValueError(f"interpolate: '{method}' takes images of {RANKS[method]} dimensions, got {axes + 2}")
    if size is None and scale_factor is None:
        raise ValueError("interpolate: one of size and scale_factor must not be None")
    if method == "area":
        if not 1 <= axes <= 3:
            raise ValueError(f"interpolate: 'area' takes images of 3 to 5 dimensions, got {axes + 2}")
        return getattr(pooling, f"adaptive_avg_pool{axes}d")(x, size)
    layout = check_resize("interpolate", x, method, align_corners, align_mode, data_format)
    if align_corners and method == "nearest":
        raise ValueError("interpolate: align_corners requires mode linear, bilinear, bicubic or trilinear")
    if size is not None and scale_factor is not None:
        raise ValueError("interpolate: only one of size and scale_factor can be given")
    sizes = _scales(scale_factor, axes) if size is None else size_arguments("interpolate", size, axes)
    return named(
        name,
        getattr(_ops, method + "_interp_v2"),
        x,
        interp_method=method,
        align_corners=align_corners,
        align_mode=align_mode,
        data_layout=layout,
        **{key: -1 for key in _SIZES} | sizes,
    )


def upsample(
    x: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
    align_mode: int = 0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """An alias of :func:`interpolate`.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.upsample(paddle.ones([1, 2, 3, 3]), [6, 9]).shape
        [1, 2, 6, 9]
    """
    return interpolate(x, size, scale_factor, mode, align_corners, align_mode, data_format, name)
