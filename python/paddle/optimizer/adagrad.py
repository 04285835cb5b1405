"""The Adagrad optimizer."""

from __future__ import annotations

from typing import Any

from .base import needed
from .optimizer import Optimizer
from .rules import AdagradRule

__all__ = ["Adagrad"]


class Adagrad(AdagradRule, Optimizer):
    """Adagrad (Duchi, Hazan and Singer, 2011): moment += grad * grad; param -= learning_rate * grad / (sqrt(moment) +
    epsilon).

    Sparse gradients (SelectedRows) update only their rows. See the API page of paddle.optimizer.Adagrad.

    Args:
        learning_rate, parameters, weight_decay, grad_clip, name: see :class:`Optimizer`.
        epsilon: added to the divisor.
        initial_accumulator_value: the initial value of the moments.

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Linear(2, 1)
        >>> adagrad = paddle.optimizer.Adagrad(learning_rate=0.1, parameters=net.parameters())
        >>> net(paddle.ones([1, 2])).sum().backward()
        >>> adagrad.step()
        >>> sorted(adagrad.state_dict())[0].endswith("_moment_0")
        True
    """

    def __init__(
        self,
        learning_rate: Any,
        epsilon: float = 1e-06,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        initial_accumulator_value: float = 0.0,
    ) -> None:
        needed(AssertionError, learning_rate=learning_rate, epsilon=epsilon)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._set(epsilon=epsilon)
        self.initial_accumulator_value = initial_accumulator_value
