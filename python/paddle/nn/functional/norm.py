"""Normalization functions: batch, layer, instance and local response normalization; normalize."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.checks import INTS
from paddle._basics.mode import in_static_mode
from paddle._core import Tensor
from paddle._dispatch.append import named
from paddle._dispatch.argument_checks import check_arguments

__all__ = ["batch_norm", "instance_norm", "layer_norm", "local_response_norm", "normalize"]

_FORMATS = ("NC", "NCL", "NCHW", "NCDHW", "NLC", "NHWC", "NDHWC")


def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any,
    bias: Any,
    training: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    data_format: str = "NCHW",
    use_global_stats: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """Normalizes each channel over batch and space, then multiplies by `weight` and adds `bias`.

    Args:
        x: Tensor of 2 to 5 dimensions, float16, float32 or float64.
        running_mean, running_var: Tensors of shape [C]; training updates them in place:
            running = momentum * running + (1 - momentum) * batch.
        weight, bias: Tensors of shape [C].
        training: normalize by the statistics of the batch.
        epsilon: added to the variance.
        data_format: "NC", "NCL", "NCHW", "NCDHW", or with channels last "NLC", "NHWC", "NDHWC" (ValueError otherwise).
        use_global_stats: True: always use the running statistics; False: always those of the batch.
        name: a name for the output.

    Returns:
        Tensor of the shape and type of `x`.

    Examples:
        >>> import paddle
        >>> x, mean, var = paddle.ones([2, 1]), paddle.zeros([1]), paddle.ones([1])
        >>> y = paddle.nn.functional.batch_norm(x, mean, var, paddle.ones([1]), paddle.zeros([1]), epsilon=0.0)
        >>> y.numpy().tolist()
        [[1.0], [1.0]]
    """
    assert len(x.shape) >= 2, "normalize: x must have 2 or more dimensions"
    if data_format not in _FORMATS:
        raise ValueError(
            f"batch_norm: data_format must be NC, NCL, NCHW, NCDHW, NLC, NHWC or NDHWC, got {data_format!s:.200}"
        )
    outputs = named(
        name,
        _ops.batch_norm,
        x,
        weight,
        bias,
        running_mean,
        running_var,
        momentum=momentum,
        epsilon=epsilon,
        is_test=not training,
        data_layout="NCHW" if data_format[1] == "C" else "NHWC",
        use_global_stats=not training if use_global_stats is None else use_global_stats,
        trainable_statistics=use_global_stats is not None and not use_global_stats,
        MeanOut=running_mean,
        VarianceOut=running_var,
    )
    if in_static_mode():
        outputs[3].stop_gradient = outputs[4].stop_gradient = True
    return outputs[0]


def layer_norm(
    x: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    epsilon: float = 1e-05,
    name: str | None = None,
) -> Tensor:
    """Normalizes over the last dimensions, then multiplies by `weight` and adds `bias`.

    Args:
        x: Tensor of shape [*, *normalized_shape], float16, float32 or float64.
        normalized_shape: list or tuple of int, or an int (ValueError unless the shape of `x` ends with it).
        weight, bias: Tensors with one element per normalized element; None omits the step.
        epsilon: added to the variance.
        name: a name for the output.

    Returns:
        Tensor of the shape and type of `x`.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.layer_norm(paddle.to_tensor([[1.0, 3.0]]), [2], epsilon=0.0).numpy().tolist()
        [[-1.0, 1.0]]
    """
    shape = list(x.shape)
    one = not isinstance(normalized_shape, list) and isinstance(normalized_shape, INTS)
    wanted = [normalized_shape] if one else list(normalized_shape)
    begin = len(shape) - len(wanted)
    if begin < 0 or shape[begin:] != wanted:
        raise ValueError(
            f"Given normalized_shape is {wanted!s:.200}, expected input with shape [*, {str(wanted)[1:]:.200}, "
            f"but got input shape {shape}"
        )
    if not in_static_mode():
        return _ops.layer_norm(x, weight, bias, epsilon=epsilon, begin_norm_axis=begin)[0]
    out, mean, variance = named(name, _ops.layer_norm, x, weight, bias, epsilon=epsilon, begin_norm_axis=begin)
    mean.stop_gradient = variance.stop_gradient = True
    return out


def instance_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.9,
    eps: float = 1e-05,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Normalizes each channel of each image, then multiplies by `weight` and adds `bias`.

    Args:
        x: float32 or float64 Tensor of shape [N, C, ...] with 2 to 5 dimensions.
        weight, bias: Tensors of shape [C]; None omits the step.
        eps: added to the variance; in [0, 0.001] (ValueError otherwise).
        running_mean, running_var, use_input_stats, momentum, data_format: ignored.
        name: a name for the output.

    Returns:
        Tensor of the shape and type of `x`.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.instance_norm(paddle.to_tensor([[[1.0, 3.0], [5.0, 5.0]]]), eps=0.0).shape
        [1, 2, 2]
    """
    if not in_static_mode():
        return _ops.instance_norm(x, weight, bias, epsilon=eps)[0]
    check_arguments("InstanceNorm", x)
    out, mean, variance = named(name, _ops.instance_norm, x, weight, bias, epsilon=eps)
    mean.stop_gradient = variance.stop_gradient = True
    return out


def local_response_norm(
    x: Any,
    size: int,
    alpha: float = 0.0001,
    beta: float = 0.75,
    k: float = 1.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Each element divided by (k + alpha * mean of the squares over a window of channels) ** beta.

    Args:
        x: float32 Tensor of at least 3 dimensions (ValueError otherwise).
        size: number of channels in the window, which is padded with zeros at the ends.
        alpha, beta, k: see the formula above.
        data_format: "NCL", "NCHW", "NCDHW", or with channels last "NLC", "NHWC", "NDHWC" (ValueError otherwise).
        name: a name for the output.

    Returns:
        Tensor of the shape and type of `x`.

    Examples:
        >>> import paddle
        >>> x = paddle.ones([1, 3, 2])
        >>> y = paddle.nn.functional.local_response_norm(x, 3, alpha=3.0, beta=1.0, data_format="NCL")
        >>> y.numpy()[0, 1].tolist()
        [0.25, 0.25]
    """
    check_arguments("local_response_norm", x)
    if data_format not in ("NCL", "NLC", "NCHW", "NHWC", "NCDHW", "NDHWC"):
        raise ValueError(
            f"local_response_norm: data_format must be NCL, NCHW, NCDHW, NLC, NHWC or NDHWC, got {data_format!s:.200}"
        )
    if len(x.shape) < 3:
        raise ValueError(f"local_response_norm: x must have 3 dimensions or more, got {len(x.shape)}")
    # pool2d over one image per batch element, with the channels along one spatial axis.
    last = data_format.endswith("C")
    before, behind = size // 2, (size - 1) // 2
    squares = _ops.reshape2(_ops.square(x), shape=[0, 1, -1, x.shape[-1]] if last else [0, 1, x.shape[1], -1])
    squares = _ops.pad2d(squares, paddings=[0, 0, before, behind] if last else [before, behind, 0, 0])
    mean = _ops.pool2d(
        squares, pooling_type="avg", ksize=[1, size] if last else [size, 1], strides=[1, 1], paddings=[0, 0]
    )
    mean = _ops.reshape2(mean, shape=[0, *x.shape[1:]])
    divisor = _ops.pow(_ops.scale(mean, scale=float(alpha), bias=float(k)), factor=float(beta))
    return named(name, _ops.elementwise_div, x, divisor)


def _const(value: float, dtype: Any) -> Any:
    return _ops.fill_constant(shape=[1], dtype=dtype, value=value)


def p_norm(x: Any, p: float, axis: int, keepdim: bool, least: float = 0.0) -> Tensor:
    """The p-norm of the vectors along `axis`, at least `least`. The gradient at zero vectors is zero."""
    if p in (float("inf"), float("-inf")):
        size = _ops.abs(x) if p > 0 else _ops.scale(_ops.abs(x), scale=-1.0)
        size = _ops.reduce_max(size, dim=[axis], keep_dim=keepdim)
        return _at_least(size if p > 0 else _ops.scale(size, scale=-1.0), least)
    if p == 0:
        other = _ops.not_equal(x, _const(0.0, x.dtype))
        count = _ops.cast(other, in_dtype=other.dtype, out_dtype=x.dtype)
        return _at_least(_ops.reduce_sum(count, dim=[axis], keep_dim=keepdim), least)
    powers = _ops.square(x) if p == 2 else _ops.pow(_ops.abs(x), factor=float(p))
    total = _ops.reduce_sum(powers, dim=[axis], keep_dim=keepdim)
    # The bound is applied before the root, whose slope at zero is infinite; a negative power makes it an upper bound.
    if p > 0:
        total = _at_least(total, max(least**p, 1.2e-38))
    elif least:
        total = _ops.elementwise_min(total, _const(min(least**p, 3.4e38), x.dtype))
    return _ops.sqrt(total) if p == 2 else _ops.pow(total, factor=1.0 / p)


def _at_least(x: Any, least: float) -> Any:
    return _ops.elementwise_max(x, _const(least, x.dtype)) if least else x


def normalize(x: Any, p: float = 2, axis: int = 1, epsilon: float = 1e-12, name: str | None = None) -> Tensor:
    """`x` divided by max(p-norm of the vectors along `axis`, epsilon).

    Args:
        x: float32 or float64 Tensor.
        p: the exponent of the norm; also inf, -inf and 0.
        axis: the dimension of the vectors.
        epsilon: lower bound of the divisor.
        name: a name for the output.

    Raises:
        ValueError: for an axis out of range of a 1-D tensor.

    Examples:
        >>> import paddle
        >>> print(paddle.nn.functional.normalize(paddle.to_tensor([[3.0, 4.0]])).numpy())
        [[0.6 0.8]]
    """
    check_arguments("normalize", p, axis, x)
    if len(x.shape) == 1 and axis not in (0, -1):
        raise ValueError(f"normalize: axis of a 1-D x must be 0 or -1, got {axis}")
    return named(name, _ops.elementwise_div, x, p_norm(x, p, axis, True, epsilon))
