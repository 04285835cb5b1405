"""The SGD optimizer."""

from __future__ import annotations

from typing import Any

from .base import needed
from .optimizer import Optimizer
from .rules import SGDRule

__all__ = ["SGD"]


class SGD(SGDRule, Optimizer):
    """param = param - learning_rate * grad.

    The arguments are those of :class:`Optimizer`. Sparse gradients (SelectedRows) update only their rows.

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Linear(2, 1)
        >>> sgd = paddle.optimizer.SGD(learning_rate=0.1, parameters=net.parameters(), weight_decay=0.01)
        >>> net(paddle.ones([1, 2])).sum().backward()
        >>> sgd.step()
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        needed(ValueError, learning_rate=learning_rate)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
