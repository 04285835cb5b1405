"""Switches of gradient recording, and `paddle.autograd`, of Paddle 2.1 to 2.6."""

from __future__ import annotations

from typing import Any

import paddle
import paddle._core as _core
from paddle._dispatch.dygraph import _record, _Switch

__all__: list[str] = []


def is_grad_enabled():
    """Whether operators record gradients.

    Examples:
        >>> import paddle
        >>> with paddle.no_grad():
        ...     paddle.is_grad_enabled()
        False
    """
    return _core.is_grad_enabled()


class enable_grad(_Switch):  # noqa: N801 (Paddle's name)
    """Gradients are recorded, within `no_grad` too: a context manager and a decorator.

    Examples:
        >>> import paddle
        >>> with paddle.no_grad(), paddle.enable_grad():
        ...     paddle.is_grad_enabled()
        True
    """

    enabled = True


class set_grad_enabled:  # noqa: N801 (Paddle's name)
    """Turns recording of gradients on or off: as a function until the next switch, or for a ``with`` block.

    Examples:
        >>> import paddle
        >>> with paddle.set_grad_enabled(False):
        ...     paddle.is_grad_enabled()
        False
    """

    def __init__(self, mode: bool) -> None:
        self._former = _record(bool(mode))

    def __enter__(self) -> set_grad_enabled:
        return self

    def __exit__(self, *error: Any) -> None:
        _record(self._former)


def backward(tensors, grad_tensors=None, retain_graph=False):
    """Gradients of several Tensors at once; they are added to those of the leaves.

    Args:
        tensors (Tensor|list): where backward starts.
        grad_tensors (Tensor|list, optional): their gradients; ones where None.

    Raises:
        ValueError: for another number of gradients.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([2.0], stop_gradient=False)
        >>> paddle.autograd.backward([x * x, x * 3.0])
        >>> x.grad.tolist()
        [7.0]
    """
    tensors = list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
    given = grad_tensors if isinstance(grad_tensors, (list, tuple)) else [grad_tensors] * len(tensors)
    if len(given) != len(tensors):
        raise ValueError(f"backward: {len(tensors)} tensors and {len(given)} grad_tensors; the numbers must be equal")
    total = None
    for tensor, grad in zip(tensors, given, strict=True):
        term = paddle.sum(tensor if grad is None else tensor * grad)
        total = term if total is None else total + term
    assert total is not None, "backward: tensors is empty"
    total.backward(retain_graph=retain_graph)
