"""Methods of Tensor in Paddle 2.1 to 2.6 that are no functions of `paddle`."""

from __future__ import annotations

from typing import Any

import paddle
import paddle._core as _core
from paddle._basics.dtypes import VarType, convert_dtype, to_numpy_dtype
from paddle._basics.mode import _get_paddle_place
from paddle.tensor.manipulation import in_place

__all__: list[str] = []


def fill_(x, value):
    """Sets all elements to `value`, in place.

    Examples:
        >>> import paddle
        >>> paddle.ones([2]).fill_(3.0).numpy().tolist()
        [3.0, 3.0]
    """
    return in_place(x, paddle.full_like(x, value))


def zero_(x):
    """Sets all elements to 0, in place.

    Examples:
        >>> import paddle
        >>> paddle.ones([2]).zero_().numpy().tolist()
        [0.0, 0.0]
    """
    return fill_(x, 0)


def transposed(x):
    """The Tensor with its dimensions in reverse order: `Tensor.T`.

    Examples:
        >>> import paddle
        >>> paddle.ones([2, 3]).T.shape
        [3, 2]
    """
    return paddle.transpose(x, list(range(len(x.shape)))[::-1])


def to(self, *args, **kwargs):
    """The Tensor on another device or of another type: ``x.to("float64")``, ``x.to(place, dtype, blocking)``,
    ``x.to(other)``.

    Raises:
        TypeError: for an argument that is none of these.

    Examples:
        >>> import paddle
        >>> str(paddle.ones([1]).to("float64").dtype)
        'VarType.FP64'
    """
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    other = kwargs.pop("other", None)
    kwargs.pop("blocking", None)
    if kwargs:
        raise TypeError(f"to: unknown arguments {', '.join(kwargs)}")
    for argument in args:
        if isinstance(argument, bool) or argument is None:
            continue
        if isinstance(argument, _core.Tensor):
            other = argument
        elif isinstance(argument, VarType) or _is_dtype(argument):
            dtype = argument
        else:
            device = argument
    if other is not None:
        device, dtype = other.place, other.dtype
    x = self
    if dtype is not None and convert_dtype(dtype) != convert_dtype(x.dtype):
        x = x.astype(dtype)
    if device is None:
        return x
    place = _get_paddle_place(device)
    return x if str(place) == str(x.place) else x._copy_to(place, True)


def _is_dtype(value: Any) -> bool:
    try:
        convert_dtype(value)
    except TypeError:
        return False
    return True


def element_size(x):
    """Bytes of one element.

    Examples:
        >>> import paddle
        >>> paddle.ones([1]).element_size()
        4
    """
    return to_numpy_dtype(x.dtype).itemsize


def is_contiguous(x):
    """True: the elements of every Tensor lie in C order.

    Examples:
        >>> import paddle
        >>> paddle.ones([2, 3]).T.is_contiguous()
        True
    """
    return True


def contiguous(x):
    """The Tensor itself: its elements lie in C order.

    Examples:
        >>> import paddle
        >>> x = paddle.ones([2])
        >>> x.contiguous() is x
        True
    """
    return x
