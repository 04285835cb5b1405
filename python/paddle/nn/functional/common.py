"""linear, bilinear, dropout functions, cosine_similarity, label_smooth, unfold."""

from __future__ import annotations

from typing import Any

import paddle._core as _core
from paddle import _ops
from paddle._basics import unique_name
from paddle._basics.checks import INTS, NUMBERS
from paddle._basics.dtypes import VarType
from paddle._basics.mode import in_static_mode
from paddle._core import Tensor
from paddle._dispatch.append import checked, named
from paddle._dispatch.argument_checks import check_arguments
from paddle._dispatch.windows import channel_last
from paddle._programs import guards

# 2.0.2 exports these from this module
from .padding import pad as pad
from .resize import interpolate as interpolate
from .resize import upsample as upsample

__all__ = [
    "alpha_dropout",
    "bilinear",
    "cosine_similarity",
    "dropout",
    "dropout2d",
    "dropout3d",
    "label_smooth",
    "linear",
    "unfold",
]


def linear(x: Any, weight: Any, bias: Any = None, name: str | None = None) -> Tensor:
    """x @ weight + bias.

    Args:
        x: Tensor of shape [..., in_features], float16, float32 or float64.
        weight: Tensor of shape [in_features, out_features].
        bias: Tensor of shape [out_features], or None.
        name: a name for the outputs.

    Returns:
        Tensor of shape [..., out_features]. Shapes that do not match raise ValueError.

    Examples:
        >>> import paddle
        >>> x, w, b = paddle.ones([2, 3]), paddle.ones([3, 1]), paddle.ones([1])
        >>> paddle.nn.functional.linear(x, w, b).numpy().tolist()
        [[4.0], [4.0]]
    """
    if not in_static_mode():
        if bias is None:
            return _ops.matmul(x, weight)
        out = _core.linear(x, weight, bias)
        return _ops.elementwise_add(_ops.matmul(x, weight), bias) if out is None else out
    check_arguments("linear", x)
    name = name or unique_name.generate("linear")
    out = named(name, _ops.matmul, x, weight, transpose_X=False, transpose_Y=False, alpha=1.0)
    if bias is None:
        return out
    return named(name, _ops.elementwise_add, out, bias, axis=len(x.shape) - 1)


def dropout(
    x: Any,
    p: float = 0.5,
    axis: int | list[int] | None = None,
    training: bool = True,
    mode: str = "upscale_in_train",
    name: str | None = None,
) -> Tensor:
    """`x` with each element set to zero with the probability `p`.

    Args:
        x: Tensor of float16, float32 or float64.
        p: the probability, in [0, 1].
        axis: the dimensions of the mask; elements along all other dimensions are dropped together.
        training: if False, nothing is dropped.
        mode: "upscale_in_train" divides the remaining elements by 1 - p in training, "downscale_in_infer" multiplies
            all elements by 1 - p in inference.
        name: a name for the output.

    Raises:
        TypeError: for a `p` that is not a number, or an `axis` that is neither int nor list.
        ValueError: for a `p` out of range, another mode, or an axis out of range.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.dropout(paddle.ones([2]), 0.5, training=False).numpy().tolist()
        [1.0, 1.0]
    """
    if p == 0:
        return x
    if not isinstance(p, NUMBERS):
        raise TypeError("dropout: p must be a number")
    if p < 0 or p > 1:
        raise ValueError("dropout: p must be in [0, 1]")
    if mode not in ("downscale_in_infer", "upscale_in_train"):
        raise ValueError("dropout: mode must be 'downscale_in_infer' or 'upscale_in_train'")
    if axis is not None:
        return _dropout_slices(x, p, axis, training, mode, name)
    seed = guards.default_main_program().random_seed
    out, mask = named(
        name,
        _ops.dropout,
        x,
        dropout_prob=float(p),
        is_test=not training,
        fix_seed=seed != 0,
        seed=seed,
        dropout_implementation="downgrade_in_infer" if mode == "downscale_in_infer" else mode,
    )
    if mask is not None:
        mask.stop_gradient = True
    return out


def _dropout_slices(x: Any, p: float, axis: Any, training: bool, how: str, name: str | None) -> Any:
    if not isinstance(axis, (*INTS, list)):
        raise TypeError("dropout: axis must be an int or a list")
    check_arguments("dropout", x)
    keep = 1 - p
    if not training:
        return _ops.scale(x, scale=keep) if how == "downscale_in_infer" else x
    if p == 1.0:
        return _ops.scale(x, scale=0.0)
    axes = [axis] if isinstance(axis, INTS) else axis
    shape = x.shape
    if min(axes) < 0 or max(axes) > len(shape) - 1:
        raise ValueError(f"dropout: axis must be in [0, {len(shape)}), got {max(axes)}")
    if len(axes) > len(shape):
        raise ValueError(f"dropout: axis names {len(axes)} dimensions, but x has {len(shape)}")
    if how == "upscale_in_train":
        x = _ops.scale(x, scale=1 / keep)
    mask = _keep_mask([n if i in axes else 1 for i, n in enumerate(shape)], p, x.dtype)
    return named(name, _ops.elementwise_mul, x, mask)


def _keep_mask(shape: Any, p: float, dtype: Any) -> Any:
    """A mask of the given shape: 1 with probability 1 - p, else 0."""
    random = _ops.uniform_random(shape=list(shape), min=0.0, max=1.0, dtype=VarType.FP32)
    limit = _ops.fill_constant(shape=[1], dtype=VarType.FP32, value=float(p))
    mask = _ops.greater_equal(random, limit)
    return _ops.cast(mask, in_dtype=mask.dtype, out_dtype=dtype)


def dropout2d(
    x: Any, p: float = 0.5, training: bool = True, data_format: str = "NCHW", name: str | None = None
) -> Tensor:
    """`x` with whole channels set to zero with the probability `p`, the others divided by 1 - p.

    Args:
        x: float32 or float64 Tensor of shape [N, C, H, W], or [N, H, W, C] for the format "NHWC".
        p: the probability, in [0, 1].
        training: if False, nothing is dropped.

    Raises:
        ValueError: for another format or number of dimensions.
    """
    return _dropout_channels(x, p, training, data_format, 2, name)


def dropout3d(
    x: Any, p: float = 0.5, training: bool = True, data_format: str = "NCDHW", name: str | None = None
) -> Tensor:
    """`x` with whole channels set to zero with the probability `p`, the others divided by 1 - p.

    Args:
        x: float32 or float64 Tensor of shape [N, C, D, H, W], or [N, D, H, W, C] for the format "NDHWC".
        p: the probability, in [0, 1].
        training: if False, nothing is dropped.

    Raises:
        ValueError: for another format or number of dimensions.
    """
    return _dropout_channels(x, p, training, data_format, 3, name)


def _dropout_channels(x: Any, p: float, training: bool, data_format: str, dims: int, name: str | None) -> Any:
    rank = len(x.shape)
    if rank != dims + 2:
        raise ValueError(f"x must have {dims + 2} dimensions, got {rank}")
    axis = rank - 1 if channel_last(data_format, dims) else 1
    return dropout(x, p, [0, axis], training, "upscale_in_train", name)


def alpha_dropout(x: Any, p: float = 0.5, training: bool = True, name: str | None = None) -> Tensor:
    """Dropout that preserves zero mean and unit variance of the input (for networks with SELU).

    Args:
        x: float32 or float64 Tensor.
        p: the probability, in [0, 1] (TypeError unless a number, ValueError out of range).
        training: if False, nothing is dropped.
        name: a name for the output.
    """
    if not isinstance(p, NUMBERS):
        raise TypeError("alpha_dropout: p must be a float or int")
    if p < 0 or p > 1:
        raise ValueError("alpha_dropout: p must be in [0, 1]")
    check_arguments("alpha_dropout", x)
    if not training:
        return x
    if p == 1:
        return _ops.scale(x, scale=0.0)
    # The limit of SELU at minus infinity; dropped elements take this value.
    floor = -1.6732632423543772 * 1.0507009873554805
    a = ((1 - p) * (1 + p * floor**2)) ** -0.5
    b = -a * floor * p
    keep = _keep_mask(x.shape, p, x.dtype)
    drop = _ops.scale(keep, scale=-floor, bias=floor)
    y = _ops.elementwise_add(_ops.elementwise_mul(x, keep), drop)
    return named(name, _ops.scale, y, scale=a, bias=b)


def cosine_similarity(x1: Any, x2: Any, axis: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between the vectors along `axis`.

    Args:
        x1, x2: float32 or float64 Tensors; the shapes are broadcast.
        axis: the dimension of the vectors, which is removed.
        eps: lower bound of the product of the two lengths.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([[3.0, 4.0]])
        >>> round(float(paddle.nn.functional.cosine_similarity(x, x)), 5)
        1.0
    """

    def dot(a: Any, b: Any) -> Any:
        return _ops.reduce_sum(_ops.elementwise_mul(a, b), dim=[axis])

    lengths = _ops.elementwise_mul(dot(x1, x1), dot(x2, x2))
    lengths = _ops.sqrt(_ops.clip(lengths, min=eps * eps, max=3.4028234663852886e38))
    return _ops.elementwise_div(dot(x1, x2), lengths)


def label_smooth(label: Any, prior_dist: Any = None, epsilon: float = 0.1, name: str | None = None) -> Tensor:
    """(1 - epsilon) * label + epsilon * prior_dist.

    Args:
        label: float32 or float64 Tensor of shape [..., classes]; no gradient flows to it in static mode.
        prior_dist: Tensor with one element per class (default: 1 / classes each; ValueError for another size).
        epsilon: in [0, 1] (ValueError otherwise).
        name: a name for the output.

    Returns:
        Tensor of the shape of `label`.

    Examples:
        >>> import paddle
        >>> label = paddle.to_tensor([[0.0, 1.0]])
        >>> paddle.nn.functional.label_smooth(label, epsilon=0.5).numpy().tolist()
        [[0.25, 0.75]]
    """
    if epsilon > 1.0 or epsilon < 0.0:
        raise ValueError(f"label_smooth: epsilon must be between 0 and 1, got {epsilon}")
    if in_static_mode():
        check_arguments("label_smooth", label)
        label.stop_gradient = True
    return named(name, _ops.label_smooth, label, prior_dist, epsilon=float(epsilon))


def bilinear(x1: Any, x2: Any, weight: Any, bias: Any = None, name: str | None = None) -> Tensor:
    """x1 W[k] x2 + bias[k] for each matrix W[k] of `weight`.

    Args:
        x1: float32 or float64 Tensor of shape [batch, in1_features].
        x2: Tensor of shape [batch, in2_features].
        weight: Tensor of shape [out_features, in1_features, in2_features].
        bias: Tensor of shape [1, out_features], or None.
        name: a name for the outputs.

    Returns:
        Tensor of shape [batch, out_features]. Shapes that do not match raise ValueError.

    Examples:
        >>> import paddle
        >>> x1, x2, weight = paddle.ones([1, 2]), paddle.ones([1, 3]), paddle.ones([4, 2, 3])
        >>> paddle.nn.functional.bilinear(x1, x2, weight).numpy().tolist()
        [[6.0, 6.0, 6.0, 6.0]]
    """
    return checked(name, _ops.bilinear_tensor_product, x1, x2, weight, bias)


def _pair(value: Any, what: str) -> list[int]:
    if isinstance(value, INTS):
        return [int(value)] * 2
    assert isinstance(value, list) and len(value) == 2, f"unfold: {what} must be an int or a list of two, got {value}"
    return value


def unfold(
    x: Any, kernel_sizes: Any, strides: Any = 1, paddings: Any = 0, dilations: Any = 1, name: str | None = None
) -> Tensor:
    """Sliding windows of images as matrix columns (im2col).

    Args:
        x: float32 or float64 Tensor of shape [N, C, H, W].
        kernel_sizes, strides, dilations: an int, or [height, width].
        paddings: an int, [height, width], or [top, left, bottom, right].
        name: a name for the outputs.

    Returns:
        Tensor of shape [N, C * height * width of the kernel, number of windows].

    Raises:
        AssertionError: for another rank of `x`, or lists of another length.
        ValueError: for other paddings, or a kernel larger than the padded image.

    Examples:
        >>> import paddle
        >>> x = paddle.arange(4, dtype="float32").reshape([1, 1, 2, 2])
        >>> paddle.nn.functional.unfold(x, [1, 2]).numpy().tolist()
        [[[0.0, 2.0], [1.0, 3.0]]]
    """
    check_arguments("unfold", x)
    assert len(x.shape) == 4, f"unfold: x must have the shape [N, C, H, W], got {x.shape}"
    if isinstance(paddings, INTS):
        pads = [paddings] * 4
    elif isinstance(paddings, list) and len(paddings) in (2, 4):
        pads = paddings * (4 // len(paddings))
    else:
        raise ValueError(f"unfold: paddings must be an int or a list of 2 or 4, got {paddings!s:.200}")
    return named(
        name,
        _ops.unfold,
        x,
        kernel_sizes=_pair(kernel_sizes, "kernel_sizes"),
        strides=_pair(strides, "strides"),
        paddings=pads,
        dilations=_pair(dilations, "dilations"),
    )
