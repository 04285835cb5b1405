"""Max and average pooling, adaptive pooling, in one to three dimensions."""

from __future__ import annotations

import math
from typing import Any

from paddle import _ops
from paddle._basics.checks import INTS, NUMBERS
from paddle._core import Tensor
from paddle._dispatch.append import named
from paddle._dispatch.argument_checks import check_arguments
from paddle._dispatch.arguments import convert_to_list
from paddle._dispatch.windows import channel_last, paddings

__all__ = [
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
]


def _check_dims(x: Any, dims: int) -> None:
    if len(x.shape) != dims:
        raise ValueError(f"x must have {dims} dimensions, got {len(x.shape)} ({type(x)})")


def _run(dims: int, op_type: str, x: Any, name: str | None, **attrs: Any) -> Any:
    """A pooling in `dims` dimensions: a 1-D input becomes an image of height one."""
    if dims > 1:
        return named(name, getattr(_ops, op_type), x, **attrs)
    for key, one in (("ksize", [1]), ("strides", [1]), ("paddings", [0] * len(attrs.get("paddings", ())))):
        if key in attrs:
            attrs[key] = one + attrs[key]
    out = named(name, getattr(_ops, op_type), _ops.unsqueeze2(x, axes=[2]), **attrs)
    if isinstance(out, (list, tuple)):
        return tuple(_ops.squeeze2(o, axes=[2]) for o in out)
    return _ops.squeeze2(out, axes=[2])


def pool_attrs(
    dims: int, kind: str, size: Any, stride: Any, padding: Any, ceil_mode: bool, data_format: str, what: str = "padding"
) -> dict[str, Any]:
    """The attributes of a pooling operator that describe its windows; `what` names the padding argument in errors."""
    sizes, algorithm = paddings(padding, dims, channel_last(data_format, dims), ceil_mode, what)
    return {
        "pooling_type": kind,
        "ksize": convert_to_list(size, dims, "kernel_size" if dims == 1 else "pool_size"),
        "strides": convert_to_list(stride, dims, "pool_stride"),
        "paddings": sizes,
        "padding_algorithm": algorithm,
        "ceil_mode": ceil_mode,
        "data_format": data_format if dims > 1 else "NCHW",
    }


def _pool(
    kind: str,
    dims: int,
    x: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    data_format: str,
    name: str | None,
    exclusive: bool = True,
    return_mask: bool = False,
) -> Any:
    """Max or average pooling in `dims` dimensions; with `return_mask` also the indices of the maxima."""
    check_arguments(f"{kind}_pool{dims}d", x, return_mask)
    if dims == 1:
        _check_dims(x, 3)
    last = channel_last(data_format, dims)
    attrs = pool_attrs(
        dims, kind, kernel_size, kernel_size if stride is None else stride, padding, ceil_mode, data_format
    )
    space = max(dims, 2)
    if return_mask:
        if last:
            raise ValueError(f"{kind}_pool{dims}d: return_mask=True requires the channels in the second dimension")
        op_type = f"max_pool{space}d_with_index"
        return _run(dims, op_type, x, name, **{key: attrs[key] for key in ("ksize", "strides", "paddings")})
    return _run(dims, f"pool{space}d", x, name, exclusive=exclusive, **attrs)


def _divided(out: Any, dims: int, kernel_size: Any, divisor: Any) -> Any:
    """Averages with another divisor than the window size."""
    if divisor is None:
        return out
    if not isinstance(divisor, NUMBERS):
        raise ValueError(f"avg_pool{dims}d: divisor_override must be an int or float, got {type(divisor)}")
    return out * math.prod(convert_to_list(kernel_size, dims, "pool_size")) / divisor


def _adaptive(
    kind: str, dims: int, x: Any, output_size: Any, data_format: str, name: str | None, return_mask: bool = False
) -> Any:
    """Pooling to `output_size` windows that cover `x`; maxima are returned with their indices."""
    where = f"adaptive_{kind}_pool{dims}d"
    check_arguments(where, x, output_size, return_mask)
    last = channel_last(data_format, dims)
    if kind == "max" or dims == 1:
        _check_dims(x, dims + 2)
    if isinstance(output_size, INTS):
        size = [output_size] * dims
    else:
        own = x.shape[1:-1] if last else x.shape[2:]
        size = [own[i] if n is None else n for i, n in enumerate(output_size)]
    space = max(dims, 2)
    if kind == "max":
        return _run(dims, f"max_pool{space}d_with_index", x, name, ksize=size, adaptive=True)
    data_format = data_format if dims > 1 else "NCHW"
    return _run(dims, f"pool{space}d", x, name, pooling_type=kind, ksize=size, adaptive=True, data_format=data_format)


def _adaptive_max(dims: int, x: Any, output_size: Any, return_mask: bool, name: str | None) -> Any:
    out, mask = _adaptive("max", dims, x, output_size, ["NCL", "NCHW", "NCDHW"][dims - 1], name, return_mask)
    return (out, mask) if return_mask else out


def avg_pool1d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    exclusive: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Tensor:
    """Average pooling along the last dimension.

    Args:
        x: float32 or float64 Tensor of shape [N, C, L].
        kernel_size, stride: an int, or a list of one; the stride defaults to the kernel size.
        padding: an int, [size], [before, after], three pairs, "SAME" or "VALID".
        exclusive: exclude padding from the averages.
        ceil_mode: round the output size up.

    Returns:
        Tensor of shape [N, C, output size]. ValueError for another rank or padding.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.avg_pool1d(paddle.to_tensor([[[1.0, 3.0, 5.0, 7.0]]]), 2).numpy().tolist()
        [[[2.0, 6.0]]]
    """
    return _pool("avg", 1, x, kernel_size, stride, padding, ceil_mode, "NCL", name, exclusive)


def avg_pool2d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: float | None = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Average pooling of images.

    Args:
        x: float32 or float64 Tensor of shape [N, C, H, W], or [N, H, W, C] for the format "NHWC".
        kernel_size, stride: an int, or [height, width]; the stride defaults to the kernel size.
        padding: an int, [height, width], [top, bottom, left, right], four pairs, "SAME" or "VALID".
        ceil_mode: round output sizes up.
        exclusive: exclude padding from the averages.
        divisor_override: divides the sums instead of the window size.

    Raises:
        ValueError: for another format or padding, or a divisor that is not a number.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.avg_pool2d(paddle.ones([1, 2, 4, 4]), 2).shape
        [1, 2, 2, 2]
    """
    out = _pool("avg", 2, x, kernel_size, stride, padding, ceil_mode, data_format, name, exclusive)
    return _divided(out, 2, kernel_size, divisor_override)


def avg_pool3d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: float | None = None,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Tensor:
    """Average pooling of volumes.

    Args:
        x: float32 or float64 Tensor of shape [N, C, D, H, W], or [N, D, H, W, C] for the format "NDHWC".
        kernel_size, stride: an int, or [depth, height, width]; the stride defaults to the kernel size.
        padding: an int, three ints, six ints (before and after each dimension), five pairs, "SAME" or "VALID".
        ceil_mode: round output sizes up.
        exclusive: exclude padding from the averages.
        divisor_override: divides the sums instead of the window size.

    Raises:
        ValueError: for another format or padding, or a divisor that is not a number.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.avg_pool3d(paddle.ones([1, 2, 4, 4, 6]), 2).shape
        [1, 2, 2, 2, 3]
    """
    out = _pool("avg", 3, x, kernel_size, stride, padding, ceil_mode, data_format, name, exclusive)
    return _divided(out, 3, kernel_size, divisor_override)


def max_pool1d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Any:
    """Max pooling along the last dimension.

    Args:
        x: float32 or float64 Tensor of shape [N, C, L].
        kernel_size, stride, padding, ceil_mode: see `avg_pool1d`.
        return_mask: also return the indices of the maxima: int32, positions within the length. As in 2.0.2, output
            sizes are then rounded down, and "SAME" adds no padding.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.max_pool1d(paddle.to_tensor([[[1.0, 3.0, 5.0, 7.0]]]), 2).numpy().tolist()
        [[[3.0, 7.0]]]
    """
    return _pool("max", 1, x, kernel_size, stride, padding, ceil_mode, "NCL", name, return_mask=return_mask)


def max_pool2d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Any:
    """Max pooling of images.

    Args:
        x: Tensor of float16, float32 or float64, of shape [N, C, H, W], or [N, H, W, C] for the format "NHWC".
        kernel_size, stride, padding, ceil_mode: see `avg_pool2d`.
        return_mask: also return the indices of the maxima: int32, positions in the flattened image. As in 2.0.2,
            output sizes are then rounded down, and "SAME" adds no padding.

    Raises:
        ValueError: for another format or padding.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.max_pool2d(paddle.ones([1, 2, 5, 5]), 3, 2, 1).shape
        [1, 2, 3, 3]
    """
    return _pool("max", 2, x, kernel_size, stride, padding, ceil_mode, data_format, name, return_mask=return_mask)


def max_pool3d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Any:
    """Max pooling of volumes.

    Args:
        x: float32 or float64 Tensor of shape [N, C, D, H, W], or [N, D, H, W, C] for the format "NDHWC".
        kernel_size, stride, padding, ceil_mode: see `avg_pool3d`.
        return_mask: also return the indices of the maxima: int32, positions in the flattened volume. As in 2.0.2,
            output sizes are then rounded down, and "SAME" adds no padding.

    Raises:
        ValueError: for another format or padding, or `return_mask` with channels last.

    Examples:
        >>> import paddle
        >>> y, places = paddle.nn.functional.max_pool3d(paddle.ones([1, 2, 4, 4, 6]), 2, return_mask=True)
        >>> y.shape, int(places[0, 0, 1, 0, 0])
        ([1, 2, 2, 2, 3], 48)
    """
    return _pool("max", 3, x, kernel_size, stride, padding, ceil_mode, data_format, name, return_mask=return_mask)


def adaptive_avg_pool1d(x: Any, output_size: int, name: str | None = None) -> Tensor:
    """Average pooling to `output_size` windows that cover the last dimension.

    Args:
        x: Tensor of float16, float32 or float64 and of shape [N, C, L] (ValueError for other ranks).
        output_size: number of windows.

    Returns:
        Tensor of shape [N, C, output_size].
    """
    return _adaptive("avg", 1, x, output_size, "NCL", name)


def adaptive_avg_pool2d(x: Any, output_size: Any, data_format: str = "NCHW", name: str | None = None) -> Tensor:
    """Average pooling of images to a given output size.

    Args:
        x: Tensor of float16, float32 or float64, of shape [N, C, H, W], or [N, H, W, C] for the format "NHWC".
        output_size: an int, or [height, width]; None keeps the size of the input.

    Raises:
        ValueError: for another format.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.adaptive_avg_pool2d(paddle.ones([1, 2, 5, 7]), [3, None]).shape
        [1, 2, 3, 7]
    """
    return _adaptive("avg", 2, x, output_size, data_format, name)


def adaptive_avg_pool3d(x: Any, output_size: Any, data_format: str = "NCDHW", name: str | None = None) -> Tensor:
    """Average pooling of volumes to a given output size.

    Args:
        x: Tensor of float16, float32 or float64, of shape [N, C, D, H, W], or [N, D, H, W, C] for "NDHWC".
        output_size: an int, or [depth, height, width]; None keeps the size of the input.

    Raises:
        ValueError: for another format.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.adaptive_avg_pool3d(paddle.ones([1, 2, 4, 5, 7]), [2, 3, None]).shape
        [1, 2, 2, 3, 7]
    """
    return _adaptive("avg", 3, x, output_size, data_format, name)


def adaptive_max_pool1d(x: Any, output_size: int, return_mask: bool = False, name: str | None = None) -> Any:
    """Max pooling to `output_size` windows that cover the last dimension.

    Args:
        x: Tensor of float32 or float64 and of shape [N, C, L] (ValueError for other ranks).
        output_size: number of windows.
        return_mask: also return the indices of the maxima: int32, positions within the length.
    """
    return _adaptive_max(1, x, output_size, return_mask, name)


def adaptive_max_pool2d(x: Any, output_size: Any, return_mask: bool = False, name: str | None = None) -> Any:
    """Max pooling of images to a given output size.

    Args:
        x: Tensor of float32 or float64 and of shape [N, C, H, W] (ValueError for other ranks).
        output_size: an int, or [height, width]; None keeps the size of the input.
        return_mask: also return the indices of the maxima: int32, positions in the flattened image.
    """
    return _adaptive_max(2, x, output_size, return_mask, name)


def adaptive_max_pool3d(x: Any, output_size: Any, return_mask: bool = False, name: str | None = None) -> Any:
    """Max pooling of volumes to a given output size.

    Args:
        x: Tensor of float32 or float64 and of shape [N, C, D, H, W] (ValueError for other ranks).
        output_size: an int, or [depth, height, width]; None keeps the size of the input.
        return_mask: also return the indices of the maxima: int32, positions in the flattened volume.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.adaptive_max_pool3d(paddle.ones([1, 2, 4, 5, 7]), 2).shape
        [1, 2, 2, 2, 2]
    """
    return _adaptive_max(3, x, output_size, return_mask, name)
