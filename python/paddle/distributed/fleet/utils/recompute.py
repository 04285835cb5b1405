"""recompute: a part of a dygraph network whose inner results are not kept, but made again when backward needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import paddle._core as _core
from paddle._basics.mode import in_static_mode

__all__ = ["recompute"]


@contextmanager
def _random(state: Any) -> Iterator[None]:
    """Within it random numbers go on from `state`, behind it from where they were (None: nothing changes)."""
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
    """The Tensors that a function has returned, within lists, tuples and dicts."""
    if isinstance(found, _core.Tensor):
        return [found]
    if isinstance(found, dict):
        found = list(found.values())
    return [t for one in found for t in _tensors(one)] if isinstance(found, list | tuple) else []


def _with(found: Any, tensors: Iterator[Any]) -> Any:
    """The same, with these Tensors instead."""
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
    """Call a function of a dygraph network without keeping what lies between its inputs and its outputs: backward calls
    it once more. Memory falls, at the price of a second forward. 2.0.2 has strategies for Programs only; this is 2.1's.

    Gradients reach what the function uses: arguments, parameters of its layers, and Tensors it knows otherwise. They
    are those of a plain call, to the bit where the function does the same each time. (Buffers, as batch_norm's means,
    are updated by both calls, as in later Paddle.) It may call recompute itself, and be part of a DataParallel.

    Args:
        function (callable): a Layer, or a function of Tensors (any shapes and dtypes), which returns Tensors, alone or
            in lists, tuples and dicts.
        *args: its arguments.
        preserve_rng_state (bool, optional): whether the second call draws the same random numbers, for dropout.
            Default: True.

    Returns:
        what the function returns.

    Raises:
        TypeError: for a function that cannot be called.
        ValueError: for other keyword arguments.
        RuntimeError: in static mode; in backward, where a Tensor among the arguments has been changed in place since,
            the function returns another number of Tensors then, or the gradient's graph is asked for.

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
