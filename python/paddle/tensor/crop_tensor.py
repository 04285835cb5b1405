"""`crop`: the part of a Tensor given by offsets and a shape."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.checks import INTS
from paddle._basics.mode import in_static_mode
from paddle._core import Tensor
from paddle._dispatch.append import named
from paddle._dispatch.argument_checks import check_arguments
from paddle._dispatch.arguments import split_list
from paddle._programs.variable import Variable

__all__ = ["crop"]


def _checked(what: str, values: Any, least: int) -> None:
    for n in values:
        if isinstance(n, Variable):
            continue
        if not isinstance(n, INTS):
            raise TypeError(f"crop: {what} must contain ints, got {type(n)}")
        if n < least or what == "shape" and n == 0:
            allowed = "greater than 0, or -1 for the remaining elements" if what == "shape" else "0 or greater"
            raise ValueError(f"crop: each number in {what} must be {allowed}, got {n}")


def _numbers(what: str, value: Any, least: int, one: str, each: str) -> dict[str, Any]:
    """Keyword arguments of crop_tensor for integers given as a list, a tensor, or a list that contains tensors."""
    if isinstance(value, Variable):
        if in_static_mode():
            value.stop_gradient = True
            return {one: value}
        value = [int(n) for n in value.numpy().reshape(-1)]
    _checked(what, value, least)
    numbers, tensors = split_list(value)
    return {what: numbers} if tensors is None else {what: numbers, each: tensors}


def crop(x: Any, shape: Any = None, offsets: Any = None, name: str | None = None) -> Tensor:
    """The part of `x` that starts at `offsets` and has the given shape.

    Args:
        x: float32, float64, int32 or int64 Tensor of 1 to 6 dimensions.
        shape: an int for each dimension, -1 for all elements from the offset on: a list or tuple (in static mode
            also with Tensors of shape [1]), or an int32 Tensor.
        offsets: a non-negative int for each dimension, in the same forms; None: zeros.
        name: a name for the output.

    Returns:
        Tensor of the data type of `x`.

    Raises:
        TypeError: for sizes or offsets that are not ints.
        ValueError: for a negative offset, an invalid size, or a part that exceeds `x`.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([[1, 2, 3], [4, 5, 6]])
        >>> paddle.crop(x, [1, -1], [1, 1]).numpy().tolist()
        [[5, 6]]
    """
    check_arguments("crop_tensor", x, shape, offsets)
    offsets = [0] * len(x.shape) if offsets is None else offsets
    return named(
        name,
        _ops.crop_tensor,
        x,
        **_numbers("offsets", offsets, 0, "Offsets", "OffsetsTensor"),
        **_numbers("shape", shape, -1, "Shape", "ShapeTensor"),
    )
