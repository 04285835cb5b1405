"""The Adadelta optimizer."""

from __future__ import annotations

from typing import Any

from .base import needed
from .optimizer import Optimizer
from .rules import AdadeltaRule

__all__ = ["Adadelta"]


class Adadelta(AdadeltaRule, Optimizer):
    """Adadelta (Zeiler, 2012): the step is -sqrt((mean of squared steps + epsilon) / (mean of squared gradients +
    epsilon)) * grad. As in Paddle 2.0.2, its operator does not read the learning rate. See the API page of
    paddle.optimizer.Adadelta.

    Args:
        learning_rate, parameters, weight_decay, grad_clip, name: see :class:`Optimizer`.
        epsilon: added to both means.
        rho: the decay rate of both means.

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Linear(2, 1)
        >>> adadelta = paddle.optimizer.Adadelta(rho=0.9, parameters=net.parameters())
        >>> net(paddle.ones([1, 2])).sum().backward()
        >>> adadelta.step()
        >>> len(adadelta.state_dict())
        4
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        epsilon: float = 1e-06,
        rho: float = 0.95,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        needed(ValueError, learning_rate=learning_rate, epsilon=epsilon, rho=rho)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._set(epsilon=epsilon, rho=rho)
