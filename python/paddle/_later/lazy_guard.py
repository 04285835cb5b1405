"""`paddle.LazyGuard` of Paddle 2.3: Layers without values."""

from __future__ import annotations

from typing import Any

from paddle._basics.mode import in_static_mode
from paddle._programs import parameter

__all__: list[str] = []


class LazyGuard:
    """Layers built in the ``with`` block have parameters without values or memory.

    A parameter gets its values from `set_state_dict`, `set_value` or `parameter.initialize()`, which runs its
    initializer. A random initializer draws its numbers then. Until then reading it raises ValueError.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.6/api/paddle/LazyGuard_en.html

    Raises:
        AssertionError: in static mode.

    Examples:
        >>> import paddle
        >>> with paddle.LazyGuard():
        ...     net = paddle.nn.Linear(2, 2)
        >>> net.weight._is_initialized(), net.weight.shape
        (False, [2, 2])
        >>> for p in net.parameters():
        ...     p.initialize()
        >>> net.bias.tolist()
        [0.0, 0.0]
    """

    def __enter__(self) -> None:
        assert not in_static_mode(), "LazyGuard: only available in dygraph mode"
        self._former = parameter.deferring.on
        parameter.deferring.on = True

    def __exit__(self, *error: Any) -> None:
        parameter.deferring.on = self._former
