"""recompute: activations of a part of a dygraph network are dropped and recomputed in backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import paddle._core as _core
from paddle._basics.mode import in_static_mode

__all__ = ["recompute"]


@contextmanager
def _random(state: Any) -> Iterator[None]:
    """Context: the generator starts from `state` and is restored at the end (None: it is unchanged)."""
    if state is None:
        yield
        return
    now = _core.get_rng_state()
    _core.set_rng_state(state)
    try:
        yield
    finally:
        _core.set_rng_state(now)


def _tensors(found: Any) -> list[Any]:
    """The Tensors within nested lists, tuples and dicts."""
    if isinstance(found, _core.Tensor):
        return [found]
    if isinstance(found, dict):
        found = list(found.values())
    return [t for one in found for t in _tensors(one)] if isinstance(found, list | tuple) else []


def _with(found: Any, tensors: Iterator[Any]) -> Any:
    """The same structure, with the Tensors replaced."""
    if isinstance(found, _core.Tensor):
        return next(tensors)
    if isinstance(found, dict):
        return type(found)(zip(found, (_with(one, tensors) for one in found.values()), strict=True))
    if isinstance(found, list | tuple):
        inside = [_with(one, tensors) for one in found]
        return type(found)(*inside) if hasattr(found, "_fields") else type(found)(inside)
    return found


def _check_unchanged(given: list[tuple[int, Any, int]], by: str) -> None:
    for i, t, version in given:
        if t.inplace_version != version:
            raise RuntimeError(
                f"recompute: argument {i}, a Tensor of shape {t.shape}, has been modified by {by}: "
                f"tensor_version:{t.inplace_version} != wrapper_version_snapshot:{version}"
            )


def recompute(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls a function of a dygraph network without keeping its intermediate activations: backward calls it again.

    This saves memory, at the cost of a second forward pass. 2.0.2 has it for Programs only; the signature is 2.1's.

    Gradients flow to arguments, parameters of layers and captured Tensors. They equal those of a plain call, bitwise
    for a deterministic function. Buffers, such as batch_norm's means, are updated by both calls, as in later Paddle.
    Calls may be nested, and within a DataParallel layer.

    Args:
        function (callable): a Layer, or a function of Tensors (any shapes and dtypes), which returns Tensors, or
            nested lists, tuples and dicts of them.
        *args: its arguments.
        preserve_rng_state (bool, optional): whether the second call draws the same random numbers, for dropout.
            Default: True.

    Returns:
        the result of the function.

    Raises:
        TypeError: for a function that is not callable.
        ValueError: for other keyword arguments.
        RuntimeError: in static mode; in backward, when an argument Tensor was modified in place, the function returns
            another number of Tensors, or create_graph is set.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.1/api/paddle/distributed/fleet/utils/recompute

    Examples:
        >>> import paddle
        >>> from paddle.distributed.fleet.utils import recompute
        >>> layer = paddle.nn.Sequential(paddle.nn.Linear(3, 8), paddle.nn.Tanh(), paddle.nn.Dropout(0.5))
        >>> x = paddle.ones([2, 3])
        >>> recompute(layer, x).sum().backward()
        >>> layer[0].weight.grad.shape
        (3, 8)
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(f"recompute takes no keyword argument but preserve_rng_state, got {', '.join(kwargs)}")
    if not callable(function):
        raise TypeError(f"recompute: the function must be callable, got {function!r}")
    if in_static_mode():
        raise RuntimeError(
            "recompute is for dygraph mode; a Program has DistributedStrategy.recompute, or RecomputeOptimizer"
        )
    if not _core.is_grad_enabled():
        return function(*args)
    state = _core.get_rng_state() if preserve else None
    since = _core.tape_number()
    given = [(i, t, t.inplace_version) for i, t in enumerate(_tensors(args))]
    found = function(*args)
    inside = _tensors(found)
    _check_unchanged(given, "the function itself")

    def again() -> tuple[list[Any], int]:
        _check_unchanged(given, "an inplace operation")
        before = _core.set_grad_enabled(True)
        try:
            with _random(state):
                number = _core.tape_number()
                return _tensors(function(*args)), number
        finally:
            _core.set_grad_enabled(before)

    made = _core.close_segment(inside, since, again)
    return _with(found, iter([old if new is None else new for old, new in zip(inside, made, strict=True)]))
