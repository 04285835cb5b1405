"""Pools: maxima and averages of windows."""
from __future__ import annotations

import math
from typing import Any

from paddle import _ops
from paddle._basics.checks import INTS, NUMBERS, check_type
from paddle._basics.missing import require
from paddle._core import Tensor
from paddle._dispatch.append import named
from paddle._dispatch.arguments import convert_to_list
from paddle._dispatch.windows import channel_last, paddings
from paddle._programs.variable_checks import check_variable_and_dtype

__all__ = [
    "avg_pool1d",
    "avg_pool2d",
    "max_pool1d",
    "max_pool2d",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
]


def _check_dims(x: Any, dims: int) -> None:
    if len(x.shape) != dims:
        raise ValueError(f"x must have {dims} dimensions, got {len(x.shape)} ({type(x)})")


def _no_mask(name: str, return_mask: bool) -> None:
    check_type(return_mask, "return_mask", bool, name)
    if return_mask:
        require(f"paddle.nn.functional.{name}(return_mask=True)", "max_pool2d_with_index")


def _windows(dims: int, kernel_size: Any, stride: Any, padding: Any, last: bool, ceil_mode: bool) -> dict[str, Any]:
    """The attributes of pool2d that say where the windows are, for `dims` dimensions."""
    kernel = convert_to_list(kernel_size, dims, "kernel_size" if dims == 1 else "pool_size")
    sizes, algorithm = paddings(padding, dims, last, ceil_mode)
    return {
        "ksize": kernel,
        "strides": kernel if stride is None else convert_to_list(stride, dims, "pool_stride"),
        "paddings": sizes,
        "padding_algorithm": algorithm,
        "ceil_mode": ceil_mode,
    }


def _flat(x: Any, name: str | None, **attrs: Any) -> Any:
    """pool2d where the length becomes the width of an image of height one."""
    out = named(name, _ops.pool2d, _ops.unsqueeze2(x, axes=[2]), **attrs)
    return _ops.squeeze2(out, axes=[2])


def _pool1d(
    kind: str, x: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, exclusive: bool, name: str | None
) -> Any:
    check_variable_and_dtype(x, "x", ["float32", "float64"], f"{kind}_pool1d")
    _check_dims(x, 3)
    windows = _windows(1, kernel_size, stride, padding, False, ceil_mode)
    windows["ksize"] = [1, *windows["ksize"]]
    windows["strides"] = [1, *windows["strides"]]
    windows["paddings"] = [0] * len(windows["paddings"]) + windows["paddings"]
    return _flat(x, name, pooling_type=kind, exclusive=exclusive, **windows)


def avg_pool1d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    exclusive: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Tensor:
    """The averages of windows along the last dimension.

    Args:
        x: float32 or float64 Tensor of the shape [N, C, L].
        kernel_size, stride: an int, or a list of one; the stride is the kernel size unless given.
        padding: an int, [size], [before, after], three pairs, "SAME" or "VALID".
        exclusive: averages leave padding out.
        ceil_mode: round the output size up.

    Returns:
        Tensor of the shape [N, C, output size]. ValueError for another number of dimensions or another padding.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.avg_pool1d(paddle.to_tensor([[[1.0, 3.0, 5.0, 7.0]]]), 2).numpy().tolist()
        [[[2.0, 6.0]]]
    """
    return _pool1d("avg", x, kernel_size, stride, padding, ceil_mode, exclusive, name)


def max_pool1d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Any:
    """The maxima of windows along the last dimension.

    Args:
        x: float32 or float64 Tensor of the shape [N, C, L].
        kernel_size, stride, padding, ceil_mode: as for `avg_pool1d`.
        return_mask: positions of the maxima, too; needs an operator that is not there yet (NotImplementedError).

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.max_pool1d(paddle.to_tensor([[[1.0, 3.0, 5.0, 7.0]]]), 2).numpy().tolist()
        [[[3.0, 7.0]]]
    """
    _no_mask("max_pool1d", return_mask)
    return _pool1d("max", x, kernel_size, stride, padding, ceil_mode, True, name)


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
    """The averages of windows.

    Args:
        x: float32 or float64 Tensor of the shape [N, C, H, W], or [N, H, W, C] for the format "NHWC".
        kernel_size, stride: an int, or [height, width]; the stride is the kernel size unless given.
        padding: an int, [height, width], [top, bottom, left, right], four pairs, "SAME" or "VALID".
        ceil_mode: round output sizes up.
        exclusive: averages leave padding out.
        divisor_override: divide the sums by this instead of the size of the window.

    Raises:
        ValueError: for another format or padding, a divisor that is no number.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.avg_pool2d(paddle.ones([1, 2, 4, 4]), 2).shape
        [1, 2, 2, 2]
    """
    check_variable_and_dtype(x, "x", ["float32", "float64"], "avg_pool2d")
    windows = _windows(2, kernel_size, stride, padding, channel_last(data_format, 2), ceil_mode)
    out = named(name, _ops.pool2d, x, pooling_type="avg", exclusive=exclusive, data_format=data_format, **windows)
    if divisor_override is None:
        return out
    if not isinstance(divisor_override, NUMBERS):
        raise ValueError(f"avg_pool2d: divisor_override must be an int or float, got {type(divisor_override)}")
    return out * math.prod(windows["ksize"]) / divisor_override


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
    """The maxima of windows.

    Args:
        x: Tensor of float16, float32 or float64, of the shape [N, C, H, W], or [N, H, W, C] for the format "NHWC".
        kernel_size, stride, padding, ceil_mode: as for `avg_pool2d`.
        return_mask: positions of the maxima, too; needs an operator that is not there yet (NotImplementedError).

    Raises:
        ValueError: for another format or padding.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.max_pool2d(paddle.ones([1, 2, 5, 5]), 3, 2, 1).shape
        [1, 2, 3, 3]
    """
    check_variable_and_dtype(x, "x", ["float16", "float32", "float64"], "max_pool2d")
    last = channel_last(data_format, 2)
    windows = _windows(2, kernel_size, stride, padding, last, ceil_mode)
    if return_mask:
        if last:
            raise ValueError("max_pool2d: return_mask=True needs data_format='NCHW'")
        _no_mask("max_pool2d", return_mask)
    return named(name, _ops.pool2d, x, pooling_type="max", data_format=data_format, **windows)


def _adaptive1d(kind: str, x: Any, output_size: Any, name: str | None) -> Any:
    check_variable_and_dtype(x, "x", ["float16", "float32", "float64"], f"adaptive_{kind}_pool1d")
    _check_dims(x, 3)
    check_type(output_size, "pool_size", int, f"adaptive_{kind}_pool1d")
    size = [1, *convert_to_list(output_size, 1, "pool_size")]
    return _flat(x, name, pooling_type=kind, ksize=size, adaptive=True)


def _adaptive2d(kind: str, x: Any, output_size: Any, data_format: str, name: str | None) -> Any:
    check_variable_and_dtype(x, "x", ["float16", "float32", "float64"], f"adaptive_{kind}_pool2d")
    last = channel_last(data_format, 2)
    if isinstance(output_size, INTS):
        size = [output_size] * 2
    else:
        own = x.shape[1:3] if last else x.shape[2:4]
        size = [own[i] if n is None else n for i, n in enumerate(output_size)]
    return named(
        name, _ops.pool2d, x, pooling_type=kind, ksize=size, adaptive=True, data_format=data_format
    )


def adaptive_avg_pool1d(x: Any, output_size: int, name: str | None = None) -> Tensor:
    """The averages of `output_size` windows that cover the last dimension.

    Args:
        x: Tensor of float16, float32 or float64 and of the shape [N, C, L] (ValueError for other dimensions).
        output_size: how many windows.

    Returns:
        Tensor of the shape [N, C, output_size].
    """
    return _adaptive1d("avg", x, output_size, name)


def adaptive_avg_pool2d(x: Any, output_size: Any, data_format: str = "NCHW", name: str | None = None) -> Tensor:
    """The averages of windows that cover the image, as many as the output has elements.

    Args:
        x: Tensor of float16, float32 or float64, of the shape [N, C, H, W], or [N, H, W, C] for the format "NHWC".
        output_size: an int, or [height, width]; None keeps the input's.

    Raises:
        ValueError: for another format.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.adaptive_avg_pool2d(paddle.ones([1, 2, 5, 7]), [3, None]).shape
        [1, 2, 3, 7]
    """
    return _adaptive2d("avg", x, output_size, data_format, name)


def adaptive_max_pool1d(x: Any, output_size: int, return_mask: bool = False, name: str | None = None) -> Tensor:
    """The maxima of `output_size` windows that cover the last dimension.

    Args:
        x: Tensor of float32 or float64 and of the shape [N, C, L] (ValueError for other dimensions).
        output_size: how many windows.
        return_mask: positions of the maxima, too; needs an operator that is not there yet (NotImplementedError).
    """
    _no_mask("adaptive_max_pool1d", return_mask)
    return _adaptive1d("max", x, output_size, name)


def adaptive_max_pool2d(x: Any, output_size: Any, return_mask: bool = False, name: str | None = None) -> Tensor:
    """The maxima of windows that cover the image, as many as the output has elements.

    Args:
        x: Tensor of float32 or float64 and of the shape [N, C, H, W] (ValueError for other dimensions).
        output_size: an int, or [height, width]; None keeps the input's.
        return_mask: positions of the maxima, too; needs an operator that is not there yet (NotImplementedError).
    """
    _check_dims(x, 4)
    _no_mask("adaptive_max_pool2d", return_mask)
    return _adaptive2d("max", x, output_size, "NCHW", name)
