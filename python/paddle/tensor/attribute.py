"""Shape and rank as Tensors; real and imaginary parts of complex Tensors."""

from __future__ import annotations

from paddle import _ops
from paddle._core import Tensor
from paddle._dispatch.append import named
from paddle._dispatch.argument_checks import check_arguments

__all__ = ["shape", "rank", "real", "imag"]


def shape(input) -> Tensor:  # noqa: A002
    """The sizes of `input` as an int32 Tensor.

    Examples:
        >>> import paddle
        >>> paddle.shape(paddle.ones([2, 3])).numpy().tolist()
        [2, 3]
    """
    check_arguments("shape", input)
    out = _ops.shape(input)
    out.stop_gradient = True
    return out


def rank(input) -> Tensor:  # noqa: A002
    """The number of dimensions as an int32 Tensor of shape [1]."""
    check_arguments("rank", input)
    return _ops.fill_constant(shape=[1], dtype=2, value=float(len(input.shape)))


def real(x, name=None) -> Tensor:
    """The real parts of complex numbers.

    Args:
        x (Tensor): complex64 or complex128.
        name (str, optional): a name for the output in static mode.

    Returns:
        Tensor: float32 or float64, of the shape of `x`.

    Raises:
        TypeError: in static mode, when `x` is not complex.
        RuntimeError: in dygraph mode, when `x` is not complex.

    Examples:
        >>> import paddle
        >>> paddle.real(paddle.to_tensor([1 + 6j, 2 + 5j])).numpy().tolist()
        [1.0, 2.0]
    """
    return named(name, _ops.real, x)


def imag(x, name=None) -> Tensor:
    """The imaginary parts of complex numbers.

    Args:
        x (Tensor): complex64 or complex128.
        name (str, optional): a name for the output in static mode.

    Returns:
        Tensor: float32 or float64, of the shape of `x`.

    Raises:
        TypeError: in static mode, when `x` is not complex.
        RuntimeError: in dygraph mode, when `x` is not complex.

    Examples:
        >>> import paddle
        >>> paddle.imag(paddle.to_tensor([1 + 6j, 2 + 5j])).numpy().tolist()
        [6.0, 5.0]
    """
    return named(name, _ops.imag, x)
