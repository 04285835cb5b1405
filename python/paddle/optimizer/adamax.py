"""The Adamax optimizer."""

from __future__ import annotations

from typing import Any

from .base import below_one, needed
from .optimizer import Optimizer
from .rules import AdamaxRule

__all__ = ["Adamax"]


class Adamax(AdamaxRule, Optimizer):
    """Adamax (Kingma and Ba, 2014): Adam with the infinity norm. The divisor is max(abs(grad), beta2 * previous divisor
    + epsilon). See the API page of paddle.optimizer.Adamax.

    Args:
        learning_rate, parameters, weight_decay, grad_clip, name: see :class:`Optimizer`.
        beta1, beta2: the decay rates of mean and divisor: in [0, 1) (ValueError otherwise).
        epsilon: keeps the divisor from zero; not negative (ValueError).

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Linear(2, 1)
        >>> adamax = paddle.optimizer.Adamax(learning_rate=0.1, parameters=net.parameters())
        >>> net(paddle.ones([1, 2])).sum().backward()
        >>> adamax.step()
        >>> len(adamax.state_dict())
        6
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        needed(AssertionError, learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon)
        below_one(beta1=beta1, beta2=beta2)
        if not 0 <= epsilon:
            raise ValueError("Invaild value of epsilon, expect epsilon >= 0.")
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._set(beta1=beta1, beta2=beta2, epsilon=epsilon)
